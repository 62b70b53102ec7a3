/* Reference kernels on rows: activations, norms, rotation, gates, exp. */
#include "ref.h"

enum { LANES = 16 };

/* ---- activations ------------------------------------------------------------------------- */

static int32_t quant_one(float x, float inverse) {
  return inverse == 0 ? 0 : rint_f32(x * inverse);
}

static void quantize_block(mt_act *a, const float *x, size_t len, size_t row, size_t b) {
  size_t at = row * a->q_stride + b * a->block_slots;
  int16_t *q = a->q + at;
  float inverse, d = quant_scale(x, len, a->int8 ? MT_ACT8_MAX : MT_ACT_MAX, &inverse);
  int32_t sum = 0;
  for (size_t e = 0; e < a->block_slots; e++) {
    int32_t v = e < len ? quant_one(x[e], inverse) : 0;
    int32_t hi = a->int8 ? v : (v + 128 + 65536) / 256 - 256; /* floor */
    q[e] = (int16_t)v;
    a->hi[at + e] = (int8_t)hi;
    if (!a->int8) a->lo[at + e] = (int8_t)(v - 256 * hi);
    sum += v;
  }
  a->scale[row * a->n_blocks + b] = d;
  a->sum[row * a->n_blocks + b] = sum;
}

void mt_quantize_blocks_ref(mt_act *a, const mt_matrix *m, size_t row, size_t block_begin,
                            size_t block_end) {
  for (size_t b = block_begin; b < block_end; b++)
    quantize_block(a, a->x + row * a->ld_x + m->block[b].begin, m->block[b].len, row, b);
}

void mt_quantize_ref(mt_act *a, const mt_matrix *m, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; row++)
    mt_quantize_blocks_ref(a, m, row, 0, a->n_blocks);
}

/* ---- exp and gates ----------------------------------------------------------------------- */

float mt_exp_one_ref(float x) {
  x = x > MT_EXP_MAX ? MT_EXP_MAX : x;
  x = x < MT_EXP_MIN ? MT_EXP_MIN : x;
  float shifted = fma_f32(x, MT_EXP_LOG2E, MT_EXP_MAGIC);
  float n = shifted - MT_EXP_MAGIC;
  int32_t i = (int32_t)(mt_f32_bits(shifted) - MT_EXP_MAGIC_BITS);
  float r = fma_f32(n, -MT_EXP_LN2_HI, x);
  r = fma_f32(n, -MT_EXP_LN2_LO, r);
  float q = fma_f32(MT_EXP_Q4, r, MT_EXP_Q3);
  q = fma_f32(q, r, MT_EXP_Q2);
  q = fma_f32(q, r, MT_EXP_Q1);
  q = fma_f32(q, r, MT_EXP_Q0);
  float p = fma_f32(q, r * r, r) + 1.0f;
  int32_t half = i >> 1;
  p *= mt_f32_of_bits(((uint32_t)half + 127u) << 23);
  return p * mt_f32_of_bits(((uint32_t)i - (uint32_t)half + 127u) << 23);
}

void mt_exp_ref(const float *x, size_t n, float *out) {
  for (size_t i = 0; i < n; i++) out[i] = mt_exp_one_ref(x[i]);
}

static void silu_mul(const float *g, const float *u, size_t n, float *out) {
  for (size_t i = 0; i < n; i++) out[i] = g[i] / (1.0f + mt_exp_one_ref(-g[i])) * u[i];
}

static void gelu_mul(const float *g, const float *u, size_t n, float *out) {
  for (size_t i = 0; i < n; i++) {
    float x = g[i], z = MT_GELU_A * fma_f32(MT_GELU_B * (x * x), x, x);
    out[i] = x / (1.0f + mt_exp_one_ref(z)) * u[i];
  }
}

/* ---- norms, rotation, sums --------------------------------------------------------------- */

static float sum_squares(const float *x, size_t n) {
  float lane[LANES] = {0};
  for (size_t i = 0; i < n; i++) lane[i % LANES] = fma_f32(x[i], x[i], lane[i % LANES]);
  return tree_16(lane);
}

static float rmsnorm(const float *x, const float *w, size_t n, float eps, float *out) {
  float mean = sum_squares(x, n) / (float)n;
  float r = 1.0f / __builtin_sqrtf(mean + eps);
  for (size_t i = 0; i < n; i++) {
    float v = x[i] * r;
    out[i] = w ? v * w[i] : v;
  }
  return mean;
}

static void rope(float *x, const float *cos, const float *sin, size_t n_rotary) {
  size_t half = n_rotary / 2;
  for (size_t d = 0; d < half; d++) {
    float x0 = x[d], x1 = x[d + half];
    x[d] = fma_f32(x0, cos[d], -(x1 * sin[d]));
    x[d + half] = fma_f32(x1, cos[d], x0 * sin[d]);
  }
}

static void add(float *x, const float *y, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] += y[i];
}

static void scale(float *x, float a, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] *= a;
}

const mt_kernels mt_kernels_ref = {
    .isa = "ref",
    .exact = true,
    .quantize = mt_quantize_ref,
    .quantize_blocks = mt_quantize_blocks_ref,
    .gemm = mt_gemm_ref,
    .gemm_units = mt_gemm_units_ref,
    .sum_squares = sum_squares,
    .rmsnorm = rmsnorm,
    .rope = rope,
    .silu_mul = silu_mul,
    .gelu_mul = gelu_mul,
    .add = add,
    .scale = scale,
    .exp = mt_exp_ref,
    .kv_store = mt_kv_store_ref,
    .attend = mt_attend_ref,
    .attend_many = mt_attend_many_ref,
    .attend_merge = mt_attend_merge_ref,
    .attend_finish = mt_attend_finish_ref,
    .sum_parts = mt_sum_parts_ref,
    .round_sums = mt_round_sums_ref,
};
