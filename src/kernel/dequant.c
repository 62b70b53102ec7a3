/* Block formats of GGUF (as the specification of ggml's types describes them): codes and scales
 * of one block, and whole rows as f32. */
#include "impl.h"

static float load_f16(const uint8_t *p) {
  return mt_f16_to_f32(mt_load_u16(p));
}

/* Q4_0, Q4_1: byte j holds elements j (low nibble) and j + 16. */
static void nibbles_32(const uint8_t *q, int bias, int8_t *value) {
  for (int j = 0; j < 16; j++) {
    value[j] = (int8_t)((q[j] & 15) - bias);
    value[j + 16] = (int8_t)((q[j] >> 4) - bias);
  }
}

/* Q5_0, Q5_1: the same, with the fifth bits in a little-endian word. */
static void nibbles_32_high(const uint8_t *q, const uint8_t *high, int bias, int8_t *value) {
  nibbles_32(q, 0, value);
  for (int e = 0; e < 32; e++)
    value[e] = (int8_t)((value[e] | (high[e >> 3] >> (e & 7) & 1) << 4) - bias);
}

void mt_scale_min_k4(const uint8_t *p, size_t s, uint8_t *sc, uint8_t *mn) {
  if (s < 4) {
    *sc = p[s] & 63;
    *mn = p[s + 4] & 63;
  } else {
    *sc = (uint8_t)((p[s + 4] & 15) | (p[s - 4] >> 6) << 4);
    *mn = (uint8_t)(p[s + 4] >> 4 | (p[s] >> 6) << 4);
  }
}

int8_t mt_scale_q3_k(const uint8_t *p, size_t s) {
  int low = s < 8 ? p[s] & 15 : p[s - 8] >> 4;
  int up = p[8 + s % 4] >> (2 * (s / 4)) & 3;
  return (int8_t)((low | up << 4) - 32);
}

/* 256 elements: scales [16] (low nibble scale, high nibble minimum), codes [64], d, dmin. */
static void block_q2_k(const uint8_t *b, size_t s, int8_t *value, float *scale, float *min) {
  const uint8_t *q = b + 16 + 32 * (s / 8) + 16 * (s % 2);
  unsigned shift = 2 * (unsigned)(s % 8 / 2);
  for (int e = 0; e < 16; e++) value[e] = (int8_t)(q[e] >> shift & 3);
  *scale = load_f16(b + 80) * (float)(b[s] & 15);
  *min = -(load_f16(b + 82) * (float)(b[s] >> 4));
}

/* High bits [32], low codes [64], scales [12], d. */
static void block_q3_k(const uint8_t *b, size_t s, int8_t *value, float *scale) {
  const uint8_t *high = b + 16 * (s % 2), *q = b + 32 + 32 * (s / 8) + 16 * (s % 2);
  unsigned shift = 2 * (unsigned)(s % 8 / 2);
  for (int e = 0; e < 16; e++)
    value[e] = (int8_t)((q[e] >> shift & 3) + 4 * (high[e] >> (s / 2) & 1) - 4);
  *scale = load_f16(b + 108) * (float)mt_scale_q3_k(b + 96, s);
}

/* d, dmin, scales and minima [12], then for Q5_K high bits [32], codes [128]. */
static void block_q45_k(const uint8_t *b, bool five, size_t s, int8_t *value, float *scale,
                        float *min) {
  uint8_t sc, mn;
  mt_scale_min_k4(b + 4, s, &sc, &mn);
  const uint8_t *q = b + (five ? 48 : 16) + 32 * (s / 2), *high = b + 16;
  for (int e = 0; e < 32; e++) {
    int code = s % 2 ? q[e] >> 4 : q[e] & 15;
    if (five) code |= (high[e] >> s & 1) << 4;
    value[e] = (int8_t)code;
  }
  *scale = load_f16(b) * (float)sc;
  *min = -(load_f16(b + 2) * (float)mn);
}

/* Low nibbles [128], high pairs [64], signed scales [16], d. */
static void block_q6_k(const uint8_t *b, size_t s, int8_t *value, float *scale) {
  size_t half = s / 8, quarter = s % 8 / 2;
  const uint8_t *q = b + 64 * half + 32 * (quarter % 2) + 16 * (s % 2);
  const uint8_t *high = b + 128 + 32 * half + 16 * (s % 2);
  for (int e = 0; e < 16; e++) {
    int low = quarter < 2 ? q[e] & 15 : q[e] >> 4;
    value[e] = (int8_t)((low | (high[e] >> (2 * quarter) & 3) << 4) - 32);
  }
  *scale = load_f16(b + 208) * (float)(int8_t)b[192 + s];
}

void mt_file_block(mt_dtype type, const uint8_t *src, size_t sub, int8_t *value, float *scale,
                   float *min) {
  const mt_dtype_info *t = mt_dtype_get(type);
  size_t per = t->block_elems / mt_qinfo_get(type)->slots;
  const uint8_t *b = src + sub / per * t->block_bytes;
  size_t s = sub % per;
  *min = 0;
  if (t->block_elems == 32) *scale = load_f16(b);
  switch (type) {
    case MT_Q8_0: memcpy(value, b + 2, 32); break;
    case MT_Q4_0: nibbles_32(b + 2, 8, value); break;
    case MT_Q4_1:
      *min = load_f16(b + 2);
      nibbles_32(b + 4, 0, value);
      break;
    case MT_Q5_0: nibbles_32_high(b + 6, b + 2, 16, value); break;
    case MT_Q5_1:
      *min = load_f16(b + 2);
      nibbles_32_high(b + 8, b + 4, 0, value);
      break;
    case MT_Q2_K: block_q2_k(b, s, value, scale, min); break;
    case MT_Q3_K: block_q3_k(b, s, value, scale); break;
    case MT_Q4_K: block_q45_k(b, false, s, value, scale, min); break;
    case MT_Q5_K: block_q45_k(b, true, s, value, scale, min); break;
    default: block_q6_k(b, s, value, scale); break;
  }
}

static void dequantize_plain(mt_dtype type, const uint8_t *src, size_t n, float *out) {
  if (type == MT_F32) memcpy(out, src, n * sizeof(float));
  for (size_t i = 0; type == MT_F16 && i < n; i++) out[i] = mt_f16_to_f32(mt_load_u16(src + 2 * i));
  for (size_t i = 0; type == MT_BF16 && i < n; i++)
    out[i] = mt_bf16_to_f32(mt_load_u16(src + 2 * i));
}

void mt_dequantize(mt_dtype type, const void *src, size_t n, float *out) {
  const mt_qinfo *qi = mt_qinfo_get(type);
  if (!qi) {
    dequantize_plain(type, src, n, out);
    return;
  }
  for (size_t b = 0; b < n / qi->slots; b++) {
    int8_t value[32];
    float scale, min;
    mt_file_block(type, src, b, value, &scale, &min);
    for (size_t e = 0; e < qi->slots; e++) {
      float v = scale * (float)value[e];
      out[b * qi->slots + e] = qi->has_min ? v + min : v;
    }
  }
}
