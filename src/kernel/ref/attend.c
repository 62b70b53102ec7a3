/* Reference attention over one segment of the KV cache, and the cache's rounding. */
#include "ref.h"

enum { LANES = MT_KV_TILE };

/* Index of dimension d of token `slot` within a block. */
static size_t k_index(size_t head_dim, size_t slot, size_t d) {
  return (slot / MT_KV_TILE * head_dim + d) * MT_KV_TILE + slot % MT_KV_TILE;
}
static size_t v_index(size_t head_dim, size_t slot, size_t d) {
  return slot * head_dim + d;
}

static void store_element(mt_kv_type type, void *block, size_t i, float x, float inverse) {
  if (type == MT_KV_F32) {
    memcpy((uint8_t *)block + 4 * i, &x, 4);
  } else if (type == MT_KV_F16) {
    uint16_t h = mt_f32_to_f16(x);
    memcpy((uint8_t *)block + 2 * i, &h, 2);
  } else {
    ((int8_t *)block)[i] = (int8_t)(inverse == 0 ? 0 : rint_f32(x * inverse));
  }
}

/* The q8 scale of one token, also written behind the block's bytes; returns its inverse. */
static float store_scale(void *block, size_t head_dim, size_t slot, const float *x) {
  float inverse, d = quant_scale(x, head_dim, MT_KV_Q8_MAX, &inverse);
  memcpy((uint8_t *)block + MT_KV_BLOCK * head_dim + 4 * slot, &d, 4);
  return inverse;
}

void mt_kv_store_ref(mt_kv_type type, size_t head_dim, void *k_block, void *v_block, size_t slot,
                     const float *k, const float *v) {
  float k_inverse = 0, v_inverse = 0;
  if (type == MT_KV_Q8) {
    k_inverse = store_scale(k_block, head_dim, slot, k);
    v_inverse = store_scale(v_block, head_dim, slot, v);
  }
  for (size_t d = 0; d < head_dim; d++) {
    store_element(type, k_block, k_index(head_dim, slot, d), k[d], k_inverse);
    store_element(type, v_block, v_index(head_dim, slot, d), v[d], v_inverse);
  }
}

static float load_element(mt_kv_type type, const void *block, size_t head_dim, size_t slot,
                          size_t i) {
  const uint8_t *b = block;
  float f;
  if (type == MT_KV_F16) return mt_f16_to_f32(mt_load_u16(b + 2 * i));
  if (type == MT_KV_F32) {
    memcpy(&f, b + 4 * i, 4);
    return f;
  }
  memcpy(&f, b + MT_KV_BLOCK * head_dim + 4 * slot, 4);
  return f * (float)(int8_t)b[i];
}

void mt_values_ref(mt_kv_type type, size_t head_dim, const void *const *v_block, size_t lo,
                   size_t hi, const float *p, size_t d_begin, float *acc) {
  for (size_t d = d_begin; d < head_dim; d++) {
    acc[d] = 0;
    for (size_t j = lo; j < hi; j++) {
      size_t slot = j % MT_KV_BLOCK;
      float v =
          load_element(type, v_block[j / MT_KV_BLOCK], head_dim, slot, v_index(head_dim, slot, d));
      acc[d] = fma_f32(p[j], v, acc[d]);
    }
  }
}

void mt_attend_ref(mt_kv_type type, size_t head_dim, const float *q, float scale,
                   const void *const *k_block, const void *const *v_block, size_t lo, size_t hi,
                   mt_attn_part *out, float *weight) {
  float p[MT_ATTN_SEGMENT], lane[LANES] = {0}, max = -__builtin_inff();
  for (size_t j = lo; j < hi; j++) {
    size_t slot = j % MT_KV_BLOCK;
    float s = 0;
    for (size_t d = 0; d < head_dim; d++)
      s = fma_f32(
          q[d],
          load_element(type, k_block[j / MT_KV_BLOCK], head_dim, slot, k_index(head_dim, slot, d)),
          s);
    p[j] = s * scale;
    if (p[j] > max) max = p[j];
  }
  max += 0.0f; /* −0 becomes +0, so that the order of the comparisons cannot show */
  for (size_t j = lo; j < hi; j++) {
    p[j] = mt_exp_one_ref(p[j] - max);
    lane[j % LANES] += p[j];
    if (weight) weight[j] = p[j];
  }
  out->max = max;
  out->sum = tree_16(lane);
  mt_values_ref(type, head_dim, v_block, lo, hi, p, 0, out->acc);
}

void mt_attend_many_ref(mt_kv_type type, size_t head_dim, size_t n, const float *const *q,
                        float scale, const void *const *k_block, const void *const *v_block,
                        const size_t *lo, const size_t *hi, const void *next, mt_attn_part *out,
                        float *scratch) {
  (void)next;
  (void)scratch;
  for (size_t t = 0; t < n; t++)
    mt_attend_ref(type, head_dim, q[t], scale, k_block, v_block, lo[t], hi[t], &out[t], NULL);
}

void mt_attend_merge_ref(size_t head_dim, mt_attn_part *total, const mt_attn_part *part) {
  float m = part->max > total->max ? part->max : total->max;
  float a = mt_exp_one_ref(total->max - m), b = mt_exp_one_ref(part->max - m);
  total->max = m;
  total->sum = fma_f32(part->sum, b, total->sum * a);
  for (size_t d = 0; d < head_dim; d++) total->acc[d] = fma_f32(part->acc[d], b, total->acc[d] * a);
}

void mt_attend_finish_ref(size_t head_dim, const mt_attn_part *total, float *out) {
  for (size_t d = 0; d < head_dim; d++) out[d] = total->acc[d] / total->sum;
}
