/* Private to the kernel module: the packed layout, the constants of the recipes, and the tables
 * by instruction set. docs/kernels.md draws the layout. */
#ifndef MT_KERNEL_IMPL_H
#define MT_KERNEL_IMPL_H

#include <string.h>

#include "mutirao/kernel.h"

/* How a matrix lies in its `data`. */
enum {
  MT_LAYOUT_PANELS,  /* exact kernels: [n_panels][panel_bytes], rows across lanes */
  MT_LAYOUT_ROWS_F32 /* openblas: [n_panels × 16][cols] f32, row-major */
};

/* How the scale d_w of a block is stored (and m_w, where the type has a minimum). */
typedef enum mt_scale_kind {
  MT_SCALE_F16,   /* f16 d, f16 m beside the block */
  MT_SCALE_SUPER, /* f16 d, f16 dmin for 256 elements; beside the block small integers sc and m:
                     d_w = d × sc, m_w = −(dmin × m) */
  MT_SCALE_E8M0   /* a byte e beside the block: d_w = 2^(e − 128) */
} mt_scale_kind;

/* A quantized type: how the file stores it and how it is packed. A panel is
 * [n_supers][super_bytes], then [n_blocks][record_bytes]; a record is the low plane, the high
 * plane, the scales. Element e of a block belongs to group g = e / 4 and stands at byte p = row × 4
 * + e % 4 of a 64-byte vector: 8 bits: vector g; 4 bits: vector g % (groups / 2), shifted by 4 × (g
 * / (groups / 2)); 2 bits: shifted by 2 g. The high plane holds the bits above those: one vector,
 * shifted by g (1 bit) or 2 g (2 bits); with 1 bit and 4 groups it is half a vector, byte p % 32
 * shifted by g + 4 × (p / 32). Scales lie [d 16 rows][m 16 rows], the integers of a super-block
 * [sc][m] as bytes, or in scale_bytes = 16 as one byte sc | m << 4. */
typedef struct mt_qinfo {
  uint8_t slots;        /* elements of a block: 32 or 16 */
  uint8_t low_bits;     /* 8, 4, 2 */
  uint8_t high_bits;    /* 0, 1, 2 */
  uint8_t bias;         /* value = code − bias; 8-bit codes are signed */
  const int8_t *values; /* [16] value of each 4-bit code; NULL where the bias says it */
  bool has_min;         /* a second scale m_w multiplies Σq */
  mt_scale_kind scale;
  uint8_t d_at, m_at; /* where the f16 d and m (dmin) stand in the file's block; m_at = d_at where
                         there is none */
  uint16_t low_bytes, high_bytes, scale_bytes, super_bytes, record_bytes;
  /* Codes of block s (of `slots`) within the file's block b; *sc and *m where the type has such
   * bytes beside the block. */
  void (*unpack)(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m);
} mt_qinfo;

/* Values of the 4-bit codes of IQ4_NL and IQ4_XS, and of MXFP4. */
extern const int8_t mt_iq4_values[16], mt_mxfp4_values[16];

/* NULL for plain types. */
const mt_qinfo *mt_qinfo_get(mt_dtype type);

/* The quantized types, a row each: slots, low and high bits, bias, values; scales: kind, bytes
 * beside the block, bytes for 256 elements; where d and m stand in the file; unpack. */
#define MT_QUANTIZED_TYPES(X)                                                  \
  X(MT_Q8_0, 32, 8, 0, 0, NULL, F16, 32, 0, 0, 0, unpack_q8_0)                 \
  X(MT_Q4_0, 32, 4, 0, 8, NULL, F16, 32, 0, 0, 0, unpack_q4_0)                 \
  X(MT_Q4_1, 32, 4, 0, 0, NULL, F16, 64, 0, 0, 2, unpack_q4_1)                 \
  X(MT_Q5_0, 32, 4, 1, 16, NULL, F16, 32, 0, 0, 0, unpack_q5_0)                \
  X(MT_Q5_1, 32, 4, 1, 0, NULL, F16, 64, 0, 0, 2, unpack_q5_1)                 \
  X(MT_Q2_K, 16, 2, 0, 0, NULL, SUPER, 16, 64, 80, 82, unpack_q2_k)            \
  X(MT_Q3_K, 16, 2, 1, 4, NULL, SUPER, 16, 32, 108, 108, unpack_q3_k)          \
  X(MT_Q4_K, 32, 4, 0, 0, NULL, SUPER, 32, 64, 0, 2, unpack_q4_k)              \
  X(MT_Q5_K, 32, 4, 1, 0, NULL, SUPER, 32, 64, 0, 2, unpack_q5_k)              \
  X(MT_Q6_K, 16, 4, 2, 32, NULL, SUPER, 16, 32, 208, 208, unpack_q6_k)         \
  X(MT_IQ4_NL, 32, 4, 0, 0, mt_iq4_values, F16, 32, 0, 0, 0, unpack_q4_0)      \
  X(MT_IQ4_XS, 32, 4, 0, 0, mt_iq4_values, SUPER, 16, 32, 0, 0, unpack_iq4_xs) \
  X(MT_MXFP4, 32, 4, 0, 0, mt_mxfp4_values, E8M0, 16, 0, 0, 0, unpack_mxfp4)

/* What that table says of a type, for kernels that want constants: bytes of a record's codes, of a
 * whole record, of an entry for 256 elements; elements of a block. Of plain types all is 0. */
typedef struct mt_record_size {
  size_t codes, record, super, slots;
  bool has_min;
  mt_scale_kind scale;
} mt_record_size;

static inline mt_record_size mt_record_size_of(mt_dtype type) {
#define MT_RECORD_CASE(type, slots, low, high, bias, values, kind, scales, supers, d, m, unpack) \
  case type:                                                                                     \
    return (mt_record_size){(slots)*2 * ((low) + (high)),                                        \
                            (slots)*2 * ((low) + (high)) + (scales),                             \
                            supers,                                                              \
                            slots,                                                               \
                            (d) != (m),                                                          \
                            MT_SCALE_##kind};
  switch (type) {
    MT_QUANTIZED_TYPES(MT_RECORD_CASE)
    default: return (mt_record_size){0};
  }
#undef MT_RECORD_CASE
}

static inline size_t mt_panel_supers_bytes(const mt_matrix *m, const mt_qinfo *qi) {
  return m->n_supers * qi->super_bytes;
}
static inline int8_t mt_code_value(const mt_qinfo *qi, uint8_t code) {
  return qi->values ? qi->values[code] : (int8_t)(code - qi->bias);
}

/* Block `sub` of one row of a file, counting blocks of qi->slots from the start of `src`: its codes
 * and the bytes beside it. Returns the file's block that holds it. */
const uint8_t *mt_file_codes(mt_dtype type, const uint8_t *src, size_t sub, uint8_t *code,
                             uint8_t *sc, uint8_t *m);
/* The scales in f32. `d` and `m` are the f16 fields, each read only where the type has it. min is
 * what multiplies Σq (already with its sign), 0 where there is none. */
void mt_scales(const mt_qinfo *qi, const uint8_t *d, const uint8_t *m, uint8_t sc, uint8_t mn,
               float *scale, float *min);
/* Values and scales of such a block. */
void mt_file_block(mt_dtype type, const uint8_t *src, size_t sub, int8_t *value, float *scale,
                   float *min);
/* The same from a packed matrix: values of all slots, scale and minimum of one row of a panel. */
void mt_packed_values(const mt_matrix *m, size_t panel, size_t block, size_t row, int8_t *value);
void mt_packed_scales(const mt_matrix *m, size_t panel, size_t block, size_t row, float *scale,
                      float *min);

/* Packs the 16 rows of a panel, which lie anywhere, together (pack.c). False, and nothing done,
 * where this needs row by row: cut blocks, fewer rows, another layout. */
bool mt_pack_panel(mt_matrix *m, size_t panel, const uint8_t *const row[MT_PANEL_ROWS],
                   size_t src_k);

/* ---- bits -------------------------------------------------------------------------------- */

static inline uint32_t mt_f32_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}
static inline float mt_f32_of_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
static inline uint16_t mt_load_u16(const void *p) {
  uint16_t u;
  memcpy(&u, p, sizeof u);
  return u;
}

/* As F16C converts: a signalling NaN becomes quiet, its payload is kept. */
static inline float mt_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
  if (e == 0) return mt_f32_of_bits(sign | mt_f32_bits((float)m * 0x1p-24f));
  if (e == 31) return mt_f32_of_bits(sign | 0x7f800000u | m << 13 | (m ? 0x400000u : 0));
  return mt_f32_of_bits(sign | (e + 112) << 23 | m << 13);
}

/* 2^(e − 128), as ggml reads the scales of MXFP4, whose values it doubles: 255 is 2^127, no NaN. */
static inline float mt_e8m0_to_f32(uint8_t e) {
  return mt_f32_of_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* To nearest, ties to even; beyond the largest finite value infinity; gradual underflow. */
static inline uint16_t mt_f32_to_f16(float f) {
  uint32_t u = mt_f32_bits(f), a = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (a < 0x38800000u) /* below 2^-14: adding 0.5, whose unit in the last place is 2^-24, rounds for
                          us */
    return (uint16_t)(sign | (mt_f32_bits(mt_f32_of_bits(a) + 0.5f) - 0x3f000000u));
  a += 0xfffu + (a >> 13 & 1u);
  return (uint16_t)(sign | (a - 0x38000000u) >> 13);
}

static inline float mt_bf16_to_f32(uint16_t h) {
  return mt_f32_of_bits((uint32_t)h << 16);
}

/* ---- constants of the recipes ------------------------------------------------------------ */

/* exp: n = rint(x · log2 e) by adding 1.5 · 2^23; r = x − n ln 2 in two fma (the first exact);
 * e^r = 1 + (r + r² q(r)), q of degree 4, minimax with coefficients that are floats, relative
 * error 8.4e-9 (tools: a Remez exchange in 120 bits); then × 2^(n >> 1) × 2^(n − (n >> 1)), so
 * that only the last product can round (gradual underflow). */
#define MT_EXP_MIN        (-104.0f)
#define MT_EXP_MAX        89.0f
#define MT_EXP_NORMAL     (-86.0f) /* from here to 0 the result is a normal number */
#define MT_EXP_LOG2E      0x1.715476p+0f
#define MT_EXP_MAGIC      0x1.8p+23f
#define MT_EXP_MAGIC_BITS 0x4b400000u
#define MT_EXP_LN2_HI     0x1.62e4p-1f
#define MT_EXP_LN2_LO     0x1.7f7d1cp-20f
#define MT_EXP_Q0         0x1.fffffcp-2f
#define MT_EXP_Q1         0x1.555494p-3f
#define MT_EXP_Q2         0x1.55589ap-5f
#define MT_EXP_Q3         0x1.12325cp-7f
#define MT_EXP_Q4         0x1.69d58ap-10f

/* gelu: g / (1 + exp(z)), z = fl(MT_GELU_A × fma(fl(MT_GELU_B × fl(g²)), g, g)), since ½ (1 +
 * tanh u) = 1 / (1 + e^−2u). */
#define MT_GELU_A (-0x1.988454p+0f)
#define MT_GELU_B 0x1.6e4e26p-5f

/* Activations: largest quantum of 16 and of 8 bits, and the least maximum that is not taken for
 * zero (so that its inverse is finite). */
#define MT_ACT_MAX    32639.0f
#define MT_ACT8_MAX   127.0f
#define MT_KV_Q8_MAX  127.0f
#define MT_QUANT_TINY 0x1p-100f
/* rint of a double below 2^51 in magnitude: add it, and the low bits are the integer. */
#define MT_RINT_MAGIC      0x1.8p+52
#define MT_RINT_MAGIC_BITS 0x4338000000000000ll
#define MT_UNIT_LIMIT      0x1p+51

/* 2^−exp as a double for gemm_units; NaN where exp is no exponent of a normal double (every sum
 * then fails). */
static inline double mt_unit_factor(int exp) {
  uint64_t u = exp > -1023 && exp < 1023 ? (uint64_t)(1023 - exp) << 52 : 0x7ff8000000000000ull;
  double d;
  memcpy(&d, &u, sizeof d);
  return d;
}

/* The bits of the least |sum| that is out of range at a quantum, for sums as f32; what is below
 * 2^51 quanta rounds by adding MT_RINT_MAGIC as a double. 0 where that is no normal f32, or exp no
 * exponent of a quantum: then each sum is looked at by itself. */
static inline uint32_t mt_unit_limit_bits(int exp) {
  int64_t e = (int64_t)exp + 51 + 127;
  return e < 1 || exp < -1022 || exp > 1022 ? 0 : (uint32_t)(e > 255 ? 255 : e) << 23;
}

/* Rounds the sums p [n] to the quantum and adds them to acc [n]; counts those that are NaN or do
 * not fit. */
static inline int mt_add_units(const float *p, size_t n, double factor, int64_t *acc) {
  int failed = 0;
  for (size_t l = 0; l < n; l++) {
    double y = (double)p[l] * factor;
    if (!(y > -MT_UNIT_LIMIT && y < MT_UNIT_LIMIT)) {
      failed++;
      continue;
    }
    y += MT_RINT_MAGIC;
    uint64_t bits;
    memcpy(&bits, &y, sizeof bits);
    acc[l] = (int64_t)((uint64_t)acc[l] + (bits - (uint64_t)MT_RINT_MAGIC_BITS));
  }
  return failed;
}

/* 2^exp as a double; exp within ±1022. */
static inline double mt_power_of_two(int exp) {
  uint64_t bits = (uint64_t)(exp + 1023) << 52;
  double d;
  memcpy(&d, &bits, sizeof d);
  return d;
}

/* Input rows that a product takes at once, at most MT_WALK_ROWS (mt_kernels_set_cache). */
enum { MT_WALK_ROWS = 192 };
extern size_t mt_walk_rows;

/* Cuts n (above 0) into parts of at most `most`, as even as possible: the size of the next. */
static inline size_t mt_even_part(size_t n, size_t most) {
  size_t parts = (n + most - 1) / most;
  return (n + parts - 1) / parts;
}

/* Rows of m that panel `panel` holds. */
static inline size_t mt_panel_rows(const mt_matrix *m, size_t panel) {
  size_t left = m->rows - panel * MT_PANEL_ROWS;
  return left < MT_PANEL_ROWS ? left : MT_PANEL_ROWS;
}

/* The scales of a block of an 8-bit cache, behind its elements. */
static inline const float *mt_q8_scales(const void *block, size_t head_dim) {
  return (const float *)(const void *)((const uint8_t *)block + MT_KV_BLOCK * head_dim);
}

void mt_attend_many_ref(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
                        float scale, const void *const *k_block, const void *const *v_block,
                        const size_t *lo, const size_t *hi, const void *next, mt_attn_part *out,
                        float *scratch);
/* Reference code that the others use where speed does not matter. mt_values_ref: acc_d for d in
 * [d_begin, head_dim). */
void mt_kv_store_ref(mt_kv_type type, size_t head_dim, void *k_block, void *v_block, size_t slot,
                     const float *k, const float *v);
void mt_values_ref(mt_kv_type type, size_t head_dim, const void *const *v_block, size_t lo,
                   size_t hi, const float *p, size_t d_begin, float *acc);
bool mt_sum_parts_ref(const int64_t *const *part, size_t n_parts, size_t at, size_t n,
                      unsigned limit_bits, int64_t *out);
bool mt_round_sums_ref(const int64_t *sum, size_t n, int exp, float *out);

void mt_gemm_ref(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                 size_t row_begin, size_t row_end, float *out, size_t ld_out);
int mt_gemm_units_ref(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                      size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld);

extern const mt_kernels mt_kernels_ref;
#if defined(__x86_64__)
extern const mt_kernels mt_kernels_avx2;
extern const mt_kernels mt_kernels_avxvnni;
extern const mt_kernels mt_kernels_avx512;
extern const mt_kernels mt_kernels_avx512vnni;
#elif defined(__aarch64__)
extern const mt_kernels mt_kernels_neon;
extern const mt_kernels mt_kernels_neondot;
#endif
const mt_kernels *mt_kernels_best(void); /* of this CPU */
/* What mt_kernels_openblas was given last. */
const mt_kernels *mt_openblas_exact(void);

#endif
