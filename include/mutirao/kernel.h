/* kernel: packed weights and the arithmetic on them. Layer 2. `ref/` is the oracle in portable
 * C; `avx2/`, `avx512/` and `neon/` overlay it and must equal it by memcmp. Nothing here is
 * collective or threaded: the caller cuts the work by panels, tokens or heads and calls from its
 * own threads. Recipes (DESIGN section 1) are stated at each function. */
#ifndef MUTIRAO_KERNEL_H
#define MUTIRAO_KERNEL_H

#include "mutirao/base.h"
#include "mutirao/tensor.h"

enum {
  MT_PANEL_ROWS = 16,     /* output rows that lie across SIMD lanes */
  MT_CHAIN = 256,         /* elements of K of one chain of fused multiply-adds */
  MT_KV_BLOCK = 64,       /* tokens of a KV block */
  MT_KV_TILE = 16,        /* keys across lanes within a block */
  MT_ATTN_SEGMENT = 512,  /* tokens of an attention segment; a multiple of MT_KV_BLOCK */
  MT_ATTEND_QUERIES = 12, /* that attend_many takes together */
  MT_LOGIT_BLOCK = 64     /* logits whose exponentials are summed together: shard.h deals so many */
};

/* ---- weights ----------------------------------------------------------------------------- */

/* A run of K that is quantized together: a weight block of the file cut at unit borders. */
typedef struct mt_kblock {
  uint32_t begin; /* first k, local to the matrix */
  uint32_t len;   /* at most 32 (at most 16 for Q2_K, Q3_K, Q6_K) */
  uint32_t super; /* which of the file's blocks of 256 (K-quants), counted from the slice's first;
                     else 0 */
} mt_kblock;

/* Where a chain stands in its unit. */
enum { MT_UNIT_FIRST = 1, MT_UNIT_LAST = 2 };

/* This rank's slice [rows][cols] of a weight, packed in panels of 16 rows, K ascending, scales
 * beside their block. Filled by mt_matrix_init; `data` is the caller's: data_bytes, 64-byte
 * aligned and cleared, as mt_pages_alloc gives them. */
typedef struct mt_matrix {
  mt_dtype type;     /* of the file */
  size_t rows, cols; /* this rank's; cols is K */
  size_t k_begin;  /* K of the whole tensor at which this slice starts: anchors the file's blocks */
  size_t n_panels; /* ceil(rows / 16); lanes beyond rows are zero */
  size_t n_units;  /* K is summed unit by unit (1 where column-parallel) */
  uint32_t *unit;  /* [n_units + 1] borders in local K, ascending, from 0 to cols */
  size_t n_blocks; /* quantized types only */
  size_t n_supers; /* of the file that the slice touches; K-quants only */
  mt_kblock *block;     /* [n_blocks] */
  uint32_t *unit_chain; /* [n_units + 1]: first chain of each unit */
  uint32_t *chain; /* [n_chains + 1] borders of the chains: in K for plain types, else in blocks */
  uint8_t *place;  /* [n_chains]: MT_UNIT_FIRST, MT_UNIT_LAST: where a chain is in its unit */
  size_t panel_bytes; /* of packed data */
  size_t data_bytes;  /* n_panels × panel_bytes */
  uint8_t *data;      /* [n_panels][panel_bytes], 64-byte aligned */
  int layout;         /* private to the kernels that packed it */
} mt_matrix;

typedef struct mt_kernels mt_kernels;

/* Computes the layout; allocates only the small tables. unit [n_units + 1] is copied; NULL means
 * one unit of all cols. rows and cols may be 0 (a rank without a share). MT_EUNSUPPORTED for a
 * type without kernels, MT_ERANGE for borders that do not ascend from 0 to cols or sizes that do
 * not fit, MT_ENOMEM. mt_matrix_fini frees the tables, not data. */
int mt_matrix_init(mt_matrix *m, const mt_kernels *kn, mt_dtype type, size_t rows, size_t cols,
                   size_t k_begin, const uint32_t *unit, size_t n_units, mt_err *e);
void mt_matrix_fini(mt_matrix *m);
/* Packs n_rows file-format rows as rows row_begin … of m. Row i starts at src + i ×
 * src_row_bytes, and there element `src_k` (which may lie inside a block, then where k_begin
 * says) is this slice's k = 0. Several threads may pack different panels at once. */
void mt_matrix_pack(mt_matrix *m, size_t row_begin, size_t n_rows, const void *src,
                    size_t src_row_bytes, size_t src_k);
/* The same for one panel whose rows lie anywhere: row[i], for each that m has there, is the panel's
 * row i. Whole panels of whole blocks are the fast way. */
void mt_matrix_pack_panel(mt_matrix *m, size_t panel, const void *const *row, size_t src_k);
/* A hash that changes when the bytes change that packing gives for this type (nobody has to
 * remember a version): that of a small matrix, packed whole and in cut blocks. */
uint64_t mt_matrix_layout_hash(const mt_kernels *kn, mt_dtype type);
/* out [cols] = row `row` as f32 (the value that the file's bytes mean). Used for embedding rows. */
void mt_matrix_row(const mt_matrix *m, size_t row, float *out);

/* out [n] = file-format elements as f32; n a multiple of the type's block. All types with
 * `weight`. */
void mt_dequantize(mt_dtype type, const void *src, size_t n, float *out);

/* ---- activations ------------------------------------------------------------------------- */

/* Input rows prepared for one block layout: f32 as they are, or for quantized weights 16-bit
 * integers with a scale per block. Recipe: a = max |x| over the block; d = fl(a / 32639); q =
 * rint(fl(x × fl(32639 / a))); the scale is d. Where a < 2^-100, d and q are 0; where the block
 * holds a NaN or an infinity, d is NaN and q are 0, so that every product with it is NaN. hi =
 * (q + 128) >> 8. With `int8` the same with 127 for 32639, and hi = q. Grows as needed and is
 * reused; zero-initialize, set int8 before mt_act_reserve and leave it, mt_act_free. */
typedef struct mt_act {
  bool int8; /* quantized types: q are 8-bit integers; there is no lo */
  size_t n_rows;
  const float *x; /* f32 types: the caller's rows, not copied */
  size_t ld_x;
  size_t n_blocks, q_stride; /* quantized types */
  int16_t
      *q; /* [n_rows][q_stride] blocks one after the other, each padded with zeros to block_slots */
  int8_t *hi, *lo;    /* the same as planes: q = 256·hi + lo; with int8 q = hi, and lo is NULL */
  float *scale;       /* [n_rows][n_blocks] */
  int32_t *sum;       /* [n_rows][n_blocks] sums of q */
  size_t block_slots; /* 32, or 16 for Q2_K, Q3_K, Q6_K */
  size_t cap_bytes;
  void *mem;
} mt_act;
/* True if activations prepared for a serve b as well (same blocks, both quantized or both not). */
bool mt_matrix_same_blocks(const mt_matrix *a, const mt_matrix *b);
/* Makes room for n_rows rows for m's layout; a->int8 stays. MT_ENOMEM. Then mt_kernels.quantize
 * fills rows, from any thread. */
int mt_act_reserve(mt_act *a, const mt_matrix *m, const float *x, size_t ld_x, size_t n_rows,
                   mt_err *e);
void mt_act_free(mt_act *a);

/* ---- attention --------------------------------------------------------------------------- */

typedef enum mt_kv_type { MT_KV_F16, MT_KV_F32, MT_KV_Q8 } mt_kv_type;

/* A block holds MT_KV_BLOCK tokens of one KV head of one layer. K lies [block/16
 * tiles][head_dim][16 keys]; V lies [MT_KV_BLOCK][head_dim]. Q8 (K and V): signed bytes in the
 * same order, then f32 scales [MT_KV_BLOCK] for K and for V; the scale is max |x| / 127 over
 * head_dim, never over tokens. */
size_t mt_kv_k_bytes(mt_kv_type type, size_t head_dim); /* of one block, a multiple of 64 */
size_t mt_kv_v_bytes(mt_kv_type type, size_t head_dim);

/* Result of one segment for one query: maximum, sum and unnormalised output. */
typedef struct mt_attn_part {
  float max, sum;
  float *acc; /* [head_dim] */
} mt_attn_part;

/* For attend_many: a row of scores and a copy of each query. */
static inline size_t mt_attend_scratch_floats(size_t head_dim) {
  return MT_ATTEND_QUERIES * (MT_ATTN_SEGMENT + head_dim);
}

/* ---- the table --------------------------------------------------------------------------- */

struct mt_kernels {
  const char
      *isa;   /* "ref", "avx2", "avxvnni", "avx512", "avx512vnni", "neon", "neondot", "openblas" */
  bool exact; /* false: bits may differ from ref (openblas) */

  /* Prepares rows [row_begin, row_end) of a (reserved for m). No-op for f32 inputs. */
  void (*quantize)(mt_act *a, const mt_matrix *m, size_t row_begin, size_t row_end);
  /* The blocks [block_begin, block_end) of one row: several threads may share a row. */
  void (*quantize_blocks)(mt_act *a, const mt_matrix *m, size_t row, size_t block_begin,
                          size_t block_end);
  /* out [row t][ld_out] for panels [panel_begin, panel_end) and rows [row_begin, row_end) of a:
   * out[t·ld_out + r] = Σ_k w[r][k]·x[t][k]. Recipe, plain types: within a unit, for each
   * MT_CHAIN of K counted from the unit's start a chain of fma from 0 in ascending k; the
   * chains' sums are added to 0 in ascending order; so are the units'. Quantized: per block the
   * exact integer dot i and f = fl(i); acc = fma(fl(d_w × d_a), f, acc), and for types with a
   * minimum m_w then acc = fma(m_w, fl(d_a × fl(Σq)), acc); chains and units as above (a block
   * belongs to the chain in which it begins). d_w of a K-quant is the exact product d × sc, m_w
   * is −dmin × m. Rows of m beyond m->rows are not written. Which NaN comes out (sign, payload)
   * is the one thing that no recipe here fixes. */
  void (*gemm)(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
               size_t row_begin, size_t row_end, float *out, size_t ld_out);
  /* The row-parallel form: each unit's f32 sum p is rounded to the integer rint(p × 2^−exp[t])
   * (to nearest even); acc[t·ld + r] is the sum of these, modulo 2^64. exp is indexed like a's
   * rows. Returns how many unit sums were NaN, infinite or at least 2^51 in magnitude as integers
   * (those are left out; units without columns have none); an exp[t] outside −1022 … 1022 makes
   * all of row t such. */
  int (*gemm_units)(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                    size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld);

  /* Σ x² over n: lane l (of 16) chains fma over elements l, l + 16, … ascending; lanes are then
   * added as the fixed tree (l, l + 8), (l, l + 4), (l, l + 2), (l, l + 1). */
  float (*sum_squares)(const float *x, size_t n);
  /* out[i] = fl(fl(x[i] × r) × w[i]), r = 1 / sqrt(Σx²/n + eps) in f32 (IEEE division and square
   * root). Returns the mean of squares Σx²/n. out may be x. w NULL: all ones. */
  float (*rmsnorm)(const float *x, const float *w, size_t n, float eps, float *out);
  /* Rotates pairs (d, d + n/2) of x, d < n/2: x0' = fma(x0, c, −fl(x1 × s)), x1' = fma(x1, c,
   * fl(x0 × s)). */
  void (*rope)(float *x, const float *cos, const float *sin, size_t n_rotary);
  /* out[i] = fl(silu(g[i]) × u[i]); silu(g) = fl(g / fl(1 + exp(−g))): +inf at +inf, NaN at −inf
   * and NaN. out may be g or u here and below. */
  void (*silu_mul)(const float *g, const float *u, size_t n, float *out);
  /* out[i] = fl(gelu_tanh(g[i]) × u[i]), 0.5 g (1 + tanh v), v = √(2/π)(g + 0.044715 g³),
   * computed as the equal g / (1 + exp(−2v)), which keeps its relative accuracy for negative g:
   * with g² = fl(g × g), z = fl(fl(−2√(2/π)) × fma(fl(fl(0.044715) × g²), g, g)), fl(g / fl(1 +
   * exp(z))). Ends as silu's. */
  void (*gelu_mul)(const float *g, const float *u, size_t n, float *out);
  void (*add)(float *x, const float *y, size_t n); /* x[i] = fl(x[i] + y[i]) */
  void (*scale)(float *x, float a, size_t n);      /* x[i] = fl(x[i] × a) */
  /* Own exp in f32, error below 1.5 ulp, subnormal results too; 0 below −104, +inf above 88.8,
   * NaN at NaN. Cody–Waite reduction and a minimax polynomial (Muller, Elementary Functions).
   * out may be x. */
  void (*exp)(const float *x, size_t n, float *out);

  /* A row of logits x [n] as doubles: y [whole blocks of MT_LOGIT_BLOCK], −infinity beyond n;
   * max[b] is the largest of block b, −0 taken as +0. False where an x is NaN or +infinity; max may
   * then be anything. */
  bool (*widen)(const float *x, size_t n, double *y, double *max);
  /* out[i] = mt_exp64(fl(x[i] − from)), to the bit, for x[i] ≤ from; `from` is finite. out may be
   * x. */
  void (*exp64)(const double *x, double from, size_t n, double *out);
  /* x[i] ← fl(fl(x[i] − from) ÷ by) for a block of MT_LOGIT_BLOCK. */
  void (*temper)(double *x, double from, double by);
  /* Of one block of MT_LOGIT_BLOCK keys (none is NaN): the sum of e[j], finite, where key[j] > hi,
   * in 8 lanes j mod 8, which are then added in ascending order; bit j of *within says whether lo ≤
   * key[j] ≤ hi. */
  double (*sum_above)(const double *key, const double *e, double lo, double hi, uint64_t *within);
  /* Of one block: value[j] ← −infinity and e[j] ← 0 unless key[j] ≥ least and e[j] × share > 0. key
   * may be value. */
  void (*keep)(const double *key, double least, double share, double *value, double *e);

  /* Rounds (nearest even; q8 as activations are, with 127 for 32639) and stores token `slot` (0
   * … MT_KV_BLOCK − 1) of a block: k [head_dim], v [head_dim] f32. */
  void (*kv_store)(mt_kv_type type, size_t head_dim, void *k_block, void *v_block, size_t slot,
                   const float *k, const float *v);
  /* One query against the keys [lo, hi) of one segment, hi − lo ≤ MT_ATTN_SEGMENT, positions
   * counted from the segment's start; k_block/v_block are that segment's blocks in order.
   * Recipe: s_j = fl(scale × Σ_d q_d k_jd), the sum one chain of fma over ascending d; max over
   * [lo, hi), NaN skipped, −0 taken as +0; p_j = exp(fl(s_j − max)); sum: lane j mod 16 adds p_j
   * in ascending order, then the fixed tree; acc_d = chain of fma(p_j, v_jd) over ascending j
   * from 0. q8: k_jd and v_jd are fl(scale_j × byte). weight, where not NULL, receives p_j for j
   * in [lo, hi) at weight[j] (for `trace`). lo < hi. */
  void (*attend)(mt_kv_type type, size_t head_dim, const float *q, float scale,
                 const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                 mt_attn_part *out, float *weight);
  /* n queries q[t] [head_dim] (at most MT_ATTEND_QUERIES) of one KV head, each against its own keys
   * [lo[t], hi[t]) of the segment: out[t] becomes what attend makes it. next: the k_block
   * that this thread reads afterwards, asked for meanwhile; may be NULL. scratch:
   * mt_attend_scratch_floats(head_dim). */
  void (*attend_many)(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
                      float scale, const void *const *k_block, const void *const *v_block,
                      const size_t *lo, const size_t *hi, const void *next, mt_attn_part *out,
                      float *scratch);
  /* total ← total ⊕ part (the later segment): m = max (total's where part's is not greater); a =
   * exp(fl(total.max − m)), b likewise for part; sum = fma(part.sum, b, fl(total.sum × a));
   * acc_d likewise. */
  void (*attend_merge)(size_t head_dim, mt_attn_part *total, const mt_attn_part *part);
  /* out_d = fl(acc_d / sum). */
  void (*attend_finish)(size_t head_dim, const mt_attn_part *total, float *out);

  /* out [n] = Σ_p part[p][at + i] (modulo 2^64). False if some part's value is not in
   * [−2^limit_bits, 2^limit_bits), limit_bits at most 62; out is filled all the same. out may be a
   * part + at. */
  bool (*sum_parts)(const int64_t *const *part, size_t n_parts, size_t at, size_t n,
                    unsigned limit_bits, int64_t *out);
  /* out [n] = sum [n] × 2^exp, rounded once to nearest even, exp within ±170. False if some result
   * is infinite. */
  bool (*round_sums)(const int64_t *sum, size_t n, int exp, float *out);
};

/* The table for an instruction set: NULL or "auto" takes the best that this CPU has (the
 * environment variable MUTIRAO_ISA is asked first), else by name. MT_EINVAL, naming it and those
 * that there are, where the CPU lacks it or it is unknown. */
int mt_kernels_get(const char *isa, const mt_kernels **out, mt_err *e);
/* The inexact table "openblas": products of plain types by OpenBLAS, the rest by `exact`, an exact
 * table. There is one, so a later call changes what earlier ones gave. MT_EUNSUPPORTED where the
 * library cannot be loaded or takes this CPU for more than it is. */
int mt_kernels_openblas(const mt_kernels *exact, const mt_kernels **out, mt_err *e);
/* Sizes the tiles of products for a second cache of l2_bytes (0: unknown; 1 MiB is assumed until
 * this is called): the input of a tile's rows should stay there while weights pass. No bit depends
 * on it. Of the whole process; call it while no product runs. */
void mt_kernels_set_cache(uint64_t l2_bytes);
/* Names of those that this CPU can run, best first, NULL-terminated; "openblas" is not among
 * them. */
const char *const *mt_kernels_names(void);
/* A hash over every kernel of the table on fixed inputs: equal on all ranks, or they must not
 * work together. */
uint64_t mt_kernels_self_test(const mt_kernels *kn);

/* What this CPU gives at most with the instructions that a table uses; for `bench`, which times
 * them. run_fma and run_dot repeat f32 multiply-adds, and integer dot products of bytes as the
 * quantized kernels do them, on registers alone, and return how many multiplications and additions
 * that was. run_read reads `bytes` bytes (up to a rest below 256 × streams) as `streams` runs side
 * by side. */
uint64_t mt_kernels_run_fma(const mt_kernels *kn, uint64_t rounds);
uint64_t mt_kernels_run_dot(const mt_kernels *kn, uint64_t rounds);
void mt_kernels_run_read(const mt_kernels *kn, const void *p, size_t bytes, size_t streams);

/* The CPU that OpenBLAS believes to run on (its "core type", which decides its kernels; the
 * environment variable OPENBLAS_CORETYPE sets it), and what one thread gets from it. Some versions
 * do not know newer CPUs, or see less of them on a virtual machine, and fall back to kernels for
 * one of twenty years ago. */
typedef struct mt_blas_core {
  const char *name;   /* as the library says it; static */
  const char *better; /* a core type that fits this CPU, for OPENBLAS_CORETYPE; static */
  double sgemm_per_s; /* operations of its f32 product, a multiply-add counting as two */
  double fma_per_s;   /* those of mt_kernels_run_fma, measured in turn with it */
} mt_blas_core;
/* False where another core type would do better: the library's has no fused multiply-adds, or its
 * product is slower than half of this CPU's, which well-chosen kernels are not. True where the core
 * type is `better` itself, and where there is no table "openblas" (the names are then "" and the
 * rates 0). Takes about 5 ms. */
bool mt_kernels_judge_openblas(mt_blas_core *c);

/* Sets nearest-even rounding and clears FTZ and DAZ in the calling thread. */
void mt_kernels_set_fp_control(void);

#endif
