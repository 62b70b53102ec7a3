/* AVX-512 matrix products, included once for each way of the integer dot product (MT_VNNI,
 * MT_SUFFIX). A tile is one panel (16 rows of the weight, one vector) by up to TILE input rows,
 * which share the loaded and unpacked weights. */
#include "avx512.h"

#define PASTE2(a, b) a##_##b
#define PASTE(a, b)  PASTE2(a, b)
#define NAME(a)      PASTE(a, MT_SUFFIX)

enum { TILE = 8, LANES = 16 };

/* What a tile works on. */
typedef struct job {
  const mt_matrix *m;
  size_t panel;
  const uint8_t *data; /* of the panel */
  const mt_act *a;
  size_t row; /* first input row */
  const int *exp;
  int64_t *acc; /* NULL: out */
  float *out;
  size_t ld;
} job;

/* One chain, borders [i0, i1) in K or blocks, of n input rows; n is a constant after inlining. */
typedef void chain_fn(const job *j, size_t i0, size_t i1, size_t n, __m512 acc[TILE]);

MT_INLINE __m512i load_64(const uint8_t *p) {
  return _mm512_loadu_si512((const void *)p);
}
MT_INLINE __m256i load_32(const uint8_t *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
MT_INLINE __m128i load_16(const uint8_t *p) {
  return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* ---- plain types ------------------------------------------------------------------------- */

MT_INLINE __m512 load_plain(mt_dtype type, const uint8_t *data, size_t i) {
  if (type == MT_F32) return _mm512_loadu_ps((const float *)(const void *)data + i);
  __m256i h = load_32(data + 2 * i);
  if (type == MT_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

MT_INLINE void chain_plain(mt_dtype type, const job *j, size_t i0, size_t i1, size_t n,
                           __m512 acc[TILE]) {
  const float *x = j->a->x + j->row * j->a->ld_x;
  size_t ld = j->a->ld_x;
  for (size_t k = i0; k < i1; k++) {
    __m512 w = load_plain(type, j->data, k * LANES);
    MT_UNROLL for (size_t t = 0; t < n; t++) acc[t] =
        _mm512_fmadd_ps(w, _mm512_set1_ps(x[t * ld + k]), acc[t]);
  }
}

/* ---- quantized types --------------------------------------------------------------------- */

MT_INLINE __m512 scaled_i8(__m512 d, __m128i sc) {
  return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sc)));
}

/* d_w and m_w of the 16 rows. Scales of Q2_K, Q4_K, Q5_K are below 64: signed or not is the same
 * for them. */
MT_INLINE void load_scales(mt_dtype type, const uint8_t *scales, const uint8_t *super, __m512 *dw,
                           __m512 *mw) {
  *mw = _mm512_setzero_ps();
  if (type < MT_Q2_K) {
    *dw = _mm512_cvtph_ps(load_32(scales));
    if (type == MT_Q4_1 || type == MT_Q5_1) *mw = _mm512_cvtph_ps(load_32(scales + 32));
    return;
  }
  __m128i sc = load_16(scales), mn = sc;
  __m512 d = _mm512_cvtph_ps(load_32(super));
  if (type == MT_Q3_K || type == MT_Q6_K) {
    *dw = scaled_i8(d, sc);
    return;
  }
  if (type == MT_Q2_K) {
    const __m128i low = _mm_set1_epi8(15);
    mn = _mm_and_si128(_mm_srli_epi16(sc, 4), low);
    sc = _mm_and_si128(sc, low);
  } else {
    mn = load_16(scales + 16);
  }
  *dw = scaled_i8(d, sc);
  *mw = scaled_i8(_mm512_xor_ps(_mm512_cvtph_ps(load_32(super + 32)), _mm512_set1_ps(-0.0f)), mn);
}

/* (v >> shift) & mask in each byte. */
MT_INLINE __m512i field(__m512i v, int shift, int mask) {
  const uint8_t count = (uint8_t)shift; /* compilers disagree about the parameter's sign */
  return _mm512_and_si512(_mm512_srli_epi16(v, count), _mm512_set1_epi8((char)mask));
}

/* Bit g of each byte for rows 0–7, bit g + 4 of the same bytes for rows 8–15. */
MT_INLINE __m512i high_q3_k(const uint8_t *p, int g) {
  __m512i v = _mm512_broadcast_i64x4(load_32(p));
  __m512i shift =
      _mm512_inserti64x4(_mm512_set1_epi16((short)g), _mm256_set1_epi16((short)(g + 4)), 1);
  return _mm512_and_si512(_mm512_srlv_epi16(v, shift), _mm512_set1_epi8(1));
}

/* The 64 codes of group g; signed bytes come with their sign bit flipped. */
MT_INLINE __m512i load_codes(mt_dtype type, const uint8_t *rec, size_t g) {
  int s = (int)g;
  switch (type) {
    case MT_Q8_0: return _mm512_xor_si512(load_64(rec + 64 * g), _mm512_set1_epi8((char)0x80));
    case MT_Q2_K: return field(load_64(rec), 2 * s, 3);
    case MT_Q3_K:
      return _mm512_or_si512(field(load_64(rec), 2 * s, 3),
                             _mm512_slli_epi16(high_q3_k(rec + 64, s), 2));
    case MT_Q6_K:
      return _mm512_or_si512(field(load_64(rec + 64 * (g % 2)), 4 * (s / 2), 15),
                             _mm512_slli_epi16(field(load_64(rec + 128), 2 * s, 3), 4));
    case MT_Q5_0:
    case MT_Q5_1:
    case MT_Q5_K:
      return _mm512_or_si512(field(load_64(rec + 64 * (g % 4)), 4 * (s / 4), 15),
                             _mm512_slli_epi16(field(load_64(rec + 256), s, 1), 4));
    default: return field(load_64(rec + 64 * (g % 4)), 4 * (s / 4), 15);
  }
}

/* Four activations of a group, in every lane. */
MT_INLINE __m512i broadcast_4(const int8_t *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}

MT_INLINE bool slots_16(mt_dtype type) {
  return type == MT_Q2_K || type == MT_Q3_K || type == MT_Q6_K;
}

#if MT_VNNI

/* Σ code × q over a block: vpdpbusd multiplies unsigned codes with the signed planes of q,
 * exactly. */
MT_INLINE void dot_block(mt_dtype type, const uint8_t *rec, const mt_act *a, size_t at, size_t n,
                         __m512i dot[TILE]) {
  const size_t groups = slots_16(type) ? 4 : 8;
  __m512i hi[TILE], lo[TILE];
  MT_UNROLL for (size_t t = 0; t < n; t++) hi[t] = lo[t] = _mm512_setzero_si512();
  MT_UNROLL for (size_t i = 0; i < groups; i++) {
    size_t g = i % 2 * (groups / 2) + i / 2; /* groups that share bytes follow one another */
    __m512i w = load_codes(type, rec, g);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      size_t q = at + t * a->q_stride + 4 * g;
      hi[t] = _mm512_dpbusd_epi32(hi[t], w, broadcast_4(a->hi + q));
      lo[t] = _mm512_dpbusd_epi32(lo[t], w, broadcast_4(a->lo + q));
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) dot[t] =
      _mm512_add_epi32(_mm512_slli_epi32(hi[t], 8), lo[t]);
}

/* What to take off a code. */
MT_INLINE int bias_of(mt_dtype type) {
  return type == MT_Q8_0   ? 128
         : type == MT_Q4_0 ? 8
         : type == MT_Q5_0 ? 16
         : type == MT_Q3_K ? 4
         : type == MT_Q6_K ? 32
                           : 0;
}

#else

/* Σ code × q over a block, from the planes of q. A lane of 16 bits takes `step` groups, each
 * adding at most 2 × (2^bits − 1) × 128, so vpmaddubsw and the sums never saturate or wrap: 8 ×
 * 3840, 4 × 7936 and 2 × 16128 are below 32768. */
MT_INLINE void dot_codes(mt_dtype type, const uint8_t *rec, const mt_act *a, size_t at, size_t n,
                         __m512i dot[TILE]) {
  const size_t groups = slots_16(type) ? 4 : 8;
  const bool five = type == MT_Q5_0 || type == MT_Q5_1 || type == MT_Q5_K;
  const size_t step = type == MT_Q6_K ? 2 : five ? 4 : groups;
  const __m512i one = _mm512_set1_epi16(1), byte = _mm512_set1_epi16(256);
  MT_UNROLL for (size_t t = 0; t < n; t++) dot[t] = _mm512_setzero_si512();
  MT_UNROLL for (size_t i0 = 0; i0 < groups; i0 += step) {
    __m512i hi[TILE], lo[TILE];
    MT_UNROLL for (size_t t = 0; t < n; t++) hi[t] = lo[t] = _mm512_setzero_si512();
    MT_UNROLL for (size_t i = i0; i < i0 + step; i++) {
      size_t g = i % 2 * (groups / 2) + i / 2; /* groups that share bytes follow one another */
      __m512i w = load_codes(type, rec, g);
      MT_UNROLL for (size_t t = 0; t < n; t++) {
        size_t q = at + t * a->q_stride + 4 * g;
        hi[t] = _mm512_add_epi16(hi[t], _mm512_maddubs_epi16(w, broadcast_4(a->hi + q)));
        lo[t] = _mm512_add_epi16(lo[t], _mm512_maddubs_epi16(w, broadcast_4(a->lo + q)));
      }
    }
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      dot[t] = _mm512_add_epi32(dot[t], _mm512_madd_epi16(hi[t], byte));
      dot[t] = _mm512_add_epi32(dot[t], _mm512_madd_epi16(lo[t], one));
    }
  }
}

/* Σ w × q for signed bytes, widened: all 8 bits of both do not fit vpmaddubsw. */
MT_INLINE void dot_q8_0(const uint8_t *rec, const mt_act *a, size_t at, size_t n,
                        __m512i dot[TILE]) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  __m512i lower[TILE], upper[TILE]; /* rows 0–7 and 8–15, two lanes each */
  MT_UNROLL for (size_t t = 0; t < n; t++) lower[t] = upper[t] = _mm512_setzero_si512();
  MT_UNROLL for (size_t g = 0; g < 8; g++) {
    __m512i w0 = _mm512_cvtepi8_epi16(load_32(rec + 64 * g));
    __m512i w1 = _mm512_cvtepi8_epi16(load_32(rec + 64 * g + 32));
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      int64_t v;
      memcpy(&v, a->q + at + t * a->q_stride + 4 * g, 8);
      __m512i q = _mm512_set1_epi64(v);
      lower[t] = _mm512_add_epi32(lower[t], _mm512_madd_epi16(w0, q));
      upper[t] = _mm512_add_epi32(upper[t], _mm512_madd_epi16(w1, q));
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) dot[t] =
      _mm512_add_epi32(_mm512_permutex2var_epi32(lower[t], even, upper[t]),
                       _mm512_permutex2var_epi32(lower[t], odd, upper[t]));
}

MT_INLINE void dot_block(mt_dtype type, const uint8_t *rec, const mt_act *a, size_t at, size_t n,
                         __m512i dot[TILE]) {
  if (type == MT_Q8_0)
    dot_q8_0(rec, a, at, n, dot);
  else
    dot_codes(type, rec, a, at, n, dot);
}

/* What to take off a code. */
MT_INLINE int bias_of(mt_dtype type) {
  return type == MT_Q4_0   ? 8
         : type == MT_Q5_0 ? 16
         : type == MT_Q3_K ? 4
         : type == MT_Q6_K ? 32
                           : 0;
}

#endif

MT_INLINE bool has_min(mt_dtype type) {
  return type == MT_Q4_1 || type == MT_Q5_1 || type == MT_Q2_K || type == MT_Q4_K ||
         type == MT_Q5_K;
}

MT_INLINE void chain_quantized(mt_dtype type, const job *j, size_t i0, size_t i1, size_t n,
                               __m512 acc[TILE]) {
  const mt_act *a = j->a;
  const mt_qinfo *qi = mt_qinfo_get(type);
  const size_t slots = slots_16(type) ? 16 : 32;
  const uint8_t *records = j->data + mt_panel_supers_bytes(j->m, qi);
  const size_t record = qi->record_bytes, planes = record - qi->scale_bytes;
  const size_t super_bytes = qi->super_bytes;
  for (size_t b = i0; b < i1; b++) {
    const uint8_t *rec = records + b * record;
    __m512i dot[TILE];
    __m512 dw, mw;
    size_t at = j->row * a->q_stride + b * slots, s = j->row * a->n_blocks + b;
    load_scales(type, rec + planes, j->data + j->m->block[b].super * super_bytes, &dw, &mw);
    dot_block(type, rec, a, at, n, dot);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      float da = a->scale[s + t * a->n_blocks];
      int32_t sum = a->sum[s + t * a->n_blocks];
      if (bias_of(type)) dot[t] = _mm512_sub_epi32(dot[t], _mm512_set1_epi32(bias_of(type) * sum));
      __m512 f = _mm512_cvtepi32_ps(dot[t]);
      acc[t] = _mm512_fmadd_ps(_mm512_mul_ps(dw, _mm512_set1_ps(da)), f, acc[t]);
      if (has_min(type)) acc[t] = _mm512_fmadd_ps(mw, _mm512_set1_ps(da * (float)sum), acc[t]);
    }
  }
}

/* ---- template ---------------------------------------------------------------------------- */

MT_INLINE void unit_sums(const job *j, size_t u, size_t n, chain_fn *chain, __m512 sum[TILE]) {
  for (size_t t = 0; t < n; t++) sum[t] = _mm512_setzero_ps();
  for (size_t c = j->m->unit_chain[u]; c < j->m->unit_chain[u + 1]; c++) {
    __m512 acc[TILE];
    MT_UNROLL for (size_t t = 0; t < n; t++) acc[t] = _mm512_setzero_ps();
    chain(j, j->m->chain[c], j->m->chain[c + 1], n, acc);
    MT_UNROLL for (size_t t = 0; t < n; t++) sum[t] = _mm512_add_ps(sum[t], acc[t]);
  }
}

/* 16 sums rounded and added where all are in range (else mt_add_units sorts them out). */
static int add_units(const float *p, size_t rows, double factor, int64_t *acc) {
  const __m512d f = _mm512_set1_pd(factor), magic = _mm512_set1_pd(MT_RINT_MAGIC);
  const __m512d limit = _mm512_set1_pd(MT_UNIT_LIMIT);
  const __m512i bits = _mm512_set1_epi64(MT_RINT_MAGIC_BITS);
  if (rows < MT_PANEL_ROWS) return mt_add_units(p, rows, factor, acc);
  __m512i v[2];
  unsigned fits = 255;
  for (int i = 0; i < 2; i++) {
    __m512d y = _mm512_mul_pd(_mm512_cvtps_pd(_mm256_loadu_ps(p + 8 * i)), f);
    fits &= _mm512_cmp_pd_mask(_mm512_abs_pd(y), limit, _CMP_LT_OQ);
    v[i] = _mm512_sub_epi64(_mm512_castpd_si512(_mm512_add_pd(y, magic)), bits);
  }
  if (fits != 255) return mt_add_units(p, rows, factor, acc);
  for (int i = 0; i < 2; i++) {
    int64_t *to = acc + 8 * i;
    _mm512_storeu_si512((void *)to, _mm512_add_epi64(_mm512_loadu_si512((const void *)to), v[i]));
  }
  return 0;
}

static void store_rows(const job *j, size_t t, __m512 sum) {
  float *to = j->out + (j->row + t) * j->ld + j->panel * MT_PANEL_ROWS;
  size_t rows = mt_panel_rows(j->m, j->panel);
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << rows) - 1u), sum);
}

static int add_rows(const job *j, size_t t, __m512 sum) {
  float v[MT_PANEL_ROWS];
  _mm512_storeu_ps(v, sum);
  return add_units(v, mt_panel_rows(j->m, j->panel), mt_unit_factor(j->exp[j->row + t]),
                   j->acc + (j->row + t) * j->ld + j->panel * MT_PANEL_ROWS);
}

MT_INLINE int run_tile(const job *j, size_t n, chain_fn *chain) {
  __m512 total[TILE], sum[TILE];
  int failed = 0;
  for (size_t t = 0; t < n; t++) total[t] = _mm512_setzero_ps();
  for (size_t u = 0; u < j->m->n_units; u++) {
    unit_sums(j, u, n, chain, sum);
    for (size_t t = 0; t < n; t++) {
      if (j->acc) failed += add_rows(j, t, sum[t]);
      total[t] = _mm512_add_ps(total[t], sum[t]);
    }
  }
  for (size_t t = 0; !j->acc && t < n; t++) store_rows(j, t, total[t]);
  return failed;
}

/* Input rows [j->row, row_end), eight, four, two and one at a time. */
MT_INLINE int run_rows(job j, size_t row_end, chain_fn *chain) {
  int failed = 0;
  for (; j.row + 8 <= row_end; j.row += 8) failed += run_tile(&j, 8, chain);
  if (j.row + 4 <= row_end) {
    failed += run_tile(&j, 4, chain);
    j.row += 4;
  }
  if (j.row + 2 <= row_end) {
    failed += run_tile(&j, 2, chain);
    j.row += 2;
  }
  if (j.row < row_end) failed += run_tile(&j, 1, chain);
  return failed;
}

#define DEFINE_GEMM(name, type, chain_of)                                                  \
  MT_INLINE void chain_##name(const job *j, size_t i0, size_t i1, size_t n, __m512 *acc) { \
    chain_of(type, j, i0, i1, n, acc);                                                     \
  }                                                                                        \
  static int NAME(mt_gemm_##name)(const job *j, size_t row_end) {                          \
    return run_rows(*j, row_end, chain_##name);                                            \
  }

DEFINE_GEMM(f32, MT_F32, chain_plain)
DEFINE_GEMM(f16, MT_F16, chain_plain)
DEFINE_GEMM(bf16, MT_BF16, chain_plain)
DEFINE_GEMM(q8_0, MT_Q8_0, chain_quantized)
DEFINE_GEMM(q4_0, MT_Q4_0, chain_quantized)
DEFINE_GEMM(q4_1, MT_Q4_1, chain_quantized)
DEFINE_GEMM(q5_0, MT_Q5_0, chain_quantized)
DEFINE_GEMM(q5_1, MT_Q5_1, chain_quantized)
DEFINE_GEMM(q2_k, MT_Q2_K, chain_quantized)
DEFINE_GEMM(q3_k, MT_Q3_K, chain_quantized)
DEFINE_GEMM(q4_k, MT_Q4_K, chain_quantized)
DEFINE_GEMM(q5_k, MT_Q5_K, chain_quantized)
DEFINE_GEMM(q6_k, MT_Q6_K, chain_quantized)

static int (*const GEMM[MT_DTYPE_COUNT])(const job *, size_t) = {
    [MT_F32] = NAME(mt_gemm_f32),   [MT_F16] = NAME(mt_gemm_f16),   [MT_BF16] = NAME(mt_gemm_bf16),
    [MT_Q8_0] = NAME(mt_gemm_q8_0), [MT_Q4_0] = NAME(mt_gemm_q4_0), [MT_Q4_1] = NAME(mt_gemm_q4_1),
    [MT_Q5_0] = NAME(mt_gemm_q5_0), [MT_Q5_1] = NAME(mt_gemm_q5_1), [MT_Q2_K] = NAME(mt_gemm_q2_k),
    [MT_Q3_K] = NAME(mt_gemm_q3_k), [MT_Q4_K] = NAME(mt_gemm_q4_k), [MT_Q5_K] = NAME(mt_gemm_q5_k),
    [MT_Q6_K] = NAME(mt_gemm_q6_k),
};

/* Else ref multiplies. */
static bool has_kernel(const mt_matrix *m, const mt_act *a) {
  return GEMM[m->type] && !(a->int8 && m->n_blocks);
}

static int run_panels(job j, size_t panel_begin, size_t panel_end, size_t row_end) {
  int failed = 0;
  for (size_t p = panel_begin; p < panel_end; p++) {
    j.panel = p;
    j.data = j.m->data + p * j.m->panel_bytes;
    failed += GEMM[j.m->type](&j, row_end);
  }
  return failed;
}

void NAME(mt_gemm)(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                   size_t row_begin, size_t row_end, float *out, size_t ld_out) {
  if (!has_kernel(m, a)) {
    mt_gemm_ref(m, panel_begin, panel_end, a, row_begin, row_end, out, ld_out);
    return;
  }
  job j = {.m = m, .a = a, .row = row_begin, .out = out, .ld = ld_out};
  run_panels(j, panel_begin, panel_end, row_end);
}

int NAME(mt_gemm_units)(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                        size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld) {
  if (!has_kernel(m, a))
    return mt_gemm_units_ref(m, panel_begin, panel_end, a, row_begin, row_end, exp, acc, ld);
  job j = {.m = m, .a = a, .row = row_begin, .exp = exp, .acc = acc, .ld = ld};
  return run_panels(j, panel_begin, panel_end, row_end);
}
