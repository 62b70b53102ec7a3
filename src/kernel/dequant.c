/* Block formats of GGUF (as the specification of ggml's types describes them): one function that
 * takes a block apart and one row of a table for each; values and scales of one block, and whole
 * rows as f32. */
#include "impl.h"

/* ---- codes of a block, type by type ------------------------------------------------------ */

static void unpack_q8_0(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  (void)s, (void)sc, (void)m;
  memcpy(code, b + 2, 32);
}

/* Byte j holds elements j (low nibble) and j + 16. */
static void nibbles_32(const uint8_t *q, uint8_t *code) {
  for (int j = 0; j < 16; j++) {
    code[j] = q[j] & 15;
    code[j + 16] = q[j] >> 4;
  }
}

/* The same, with the fifth bits in a little-endian word. */
static void nibbles_32_high(const uint8_t *q, const uint8_t *high, uint8_t *code) {
  nibbles_32(q, code);
  for (int e = 0; e < 32; e++) code[e] |= (uint8_t)((high[e >> 3] >> (e & 7) & 1) << 4);
}

static void unpack_q4_0(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  (void)s, (void)sc, (void)m;
  nibbles_32(b + 2, code);
}
static void unpack_q4_1(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  (void)s, (void)sc, (void)m;
  nibbles_32(b + 4, code);
}
static void unpack_q5_0(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  (void)s, (void)sc, (void)m;
  nibbles_32_high(b + 6, b + 2, code);
}
static void unpack_q5_1(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  (void)s, (void)sc, (void)m;
  nibbles_32_high(b + 8, b + 4, code);
}

/* 256 elements: scales [16] (low nibble scale, high nibble minimum), codes [64], d, dmin. */
static void unpack_q2_k(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  const uint8_t *q = b + 16 + 32 * (s / 8) + 16 * (s % 2);
  unsigned shift = 2 * (unsigned)(s % 8 / 2);
  for (int e = 0; e < 16; e++) code[e] = q[e] >> shift & 3;
  *sc = b[s] & 15;
  *m = b[s] >> 4;
}

/* High bits [32], low codes [64], scales [12], d. */
static void unpack_q3_k(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  (void)m;
  const uint8_t *high = b + 16 * (s % 2), *q = b + 32 + 32 * (s / 8) + 16 * (s % 2), *p = b + 96;
  unsigned shift = 2 * (unsigned)(s % 8 / 2);
  for (int e = 0; e < 16; e++)
    code[e] = (uint8_t)((q[e] >> shift & 3) | (high[e] >> (s / 2) & 1) << 2);
  int low = s < 8 ? p[s] & 15 : p[s - 8] >> 4, up = p[8 + s % 4] >> (2 * (s / 4)) & 3;
  *sc = (uint8_t)((low | up << 4) - 32);
}

/* The six-bit scale and minimum of block s (0 … 7) from 12 bytes. */
static void scale_min_k4(const uint8_t *p, size_t s, uint8_t *sc, uint8_t *m) {
  if (s < 4) {
    *sc = p[s] & 63;
    *m = p[s + 4] & 63;
  } else {
    *sc = (uint8_t)((p[s + 4] & 15) | (p[s - 4] >> 6) << 4);
    *m = (uint8_t)(p[s + 4] >> 4 | (p[s] >> 6) << 4);
  }
}

/* Codes of block s where two blocks share 32 bytes, the even one in the low nibbles. */
static void nibbles_k(const uint8_t *q, size_t s, uint8_t *code) {
  for (int e = 0; e < 32; e++) code[e] = q[32 * (s / 2) + (size_t)e] >> (4 * (s % 2)) & 15;
}

/* d, dmin, scales and minima [12], codes [128]. */
static void unpack_q4_k(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  scale_min_k4(b + 4, s, sc, m);
  nibbles_k(b + 16, s, code);
}

/* The same with high bits [32] before the codes. */
static void unpack_q5_k(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  scale_min_k4(b + 4, s, sc, m);
  nibbles_k(b + 48, s, code);
  for (int e = 0; e < 32; e++) code[e] |= (uint8_t)((b[16 + e] >> s & 1) << 4);
}

/* Low nibbles [128], high pairs [64], signed scales [16], d. */
static void unpack_q6_k(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  (void)m;
  size_t half = s / 8, quarter = s % 8 / 2;
  const uint8_t *q = b + 64 * half + 32 * (quarter % 2) + 16 * (s % 2);
  const uint8_t *high = b + 128 + 32 * half + 16 * (s % 2);
  for (int e = 0; e < 16; e++) {
    int low = quarter < 2 ? q[e] & 15 : q[e] >> 4;
    code[e] = (uint8_t)(low | (high[e] >> (2 * quarter) & 3) << 4);
  }
  *sc = b[192 + s];
}

/* d, the upper two bits of eight scales in a little-endian word, their lower four [4], codes [128]
 * as Q4_0 has them in each 16 bytes. */
static void unpack_iq4_xs(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  (void)m;
  int low = b[4 + s / 2] >> (4 * (s % 2)) & 15, up = mt_load_u16(b + 2) >> (2 * s) & 3;
  nibbles_32(b + 8 + 16 * s, code);
  *sc = (uint8_t)((low | up << 4) - 32);
}

/* The scale's exponent, then codes as Q4_0 has them. */
static void unpack_mxfp4(const uint8_t *b, size_t s, uint8_t *code, uint8_t *sc, uint8_t *m) {
  (void)s, (void)m;
  *sc = b[0];
  nibbles_32(b + 1, code);
}

/* ---- the table --------------------------------------------------------------------------- */

/* Values of ggml's four-bit codes that are not evenly spaced. */
const int8_t mt_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
/* E2M1 times two; the codes of +0 and −0 are both 0. */
const int8_t mt_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* A minimum there is where m_at differs from d_at. */
#define QINFO(slots_, low, high, bias_, values_, kind, scales, supers, d, m, unpack_)  \
  {                                                                                    \
    .slots = (slots_), .low_bits = (low), .high_bits = (high), .bias = (bias_),        \
    .values = (values_), .has_min = (d) != (m), .scale = MT_SCALE_##kind, .d_at = (d), \
    .m_at = (m), .low_bytes = (slots_)*2 * (low), .high_bytes = (slots_)*2 * (high),   \
    .scale_bytes = (scales), .super_bytes = (supers),                                  \
    .record_bytes = (slots_)*2 * ((low) + (high)) + (scales), .unpack = (unpack_)      \
  }

/* Slots, low and high bits, bias, values; scales: kind, bytes beside the block, bytes for 256,
 * where d and m stand in the file. */
static const mt_qinfo TYPES[MT_DTYPE_COUNT] = {
    [MT_Q8_0] = QINFO(32, 8, 0, 0, NULL, F16, 32, 0, 0, 0, unpack_q8_0),
    [MT_Q4_0] = QINFO(32, 4, 0, 8, NULL, F16, 32, 0, 0, 0, unpack_q4_0),
    [MT_Q4_1] = QINFO(32, 4, 0, 0, NULL, F16, 64, 0, 0, 2, unpack_q4_1),
    [MT_Q5_0] = QINFO(32, 4, 1, 16, NULL, F16, 32, 0, 0, 0, unpack_q5_0),
    [MT_Q5_1] = QINFO(32, 4, 1, 0, NULL, F16, 64, 0, 0, 2, unpack_q5_1),
    [MT_Q2_K] = QINFO(16, 2, 0, 0, NULL, SUPER, 16, 64, 80, 82, unpack_q2_k),
    [MT_Q3_K] = QINFO(16, 2, 1, 4, NULL, SUPER, 16, 32, 108, 108, unpack_q3_k),
    [MT_Q4_K] = QINFO(32, 4, 0, 0, NULL, SUPER, 32, 64, 0, 2, unpack_q4_k),
    [MT_Q5_K] = QINFO(32, 4, 1, 0, NULL, SUPER, 32, 64, 0, 2, unpack_q5_k),
    [MT_Q6_K] = QINFO(16, 4, 2, 32, NULL, SUPER, 16, 32, 208, 208, unpack_q6_k),
    [MT_IQ4_NL] = QINFO(32, 4, 0, 0, mt_iq4_values, F16, 32, 0, 0, 0, unpack_q4_0),
    [MT_IQ4_XS] = QINFO(32, 4, 0, 0, mt_iq4_values, SUPER, 16, 32, 0, 0, unpack_iq4_xs),
    [MT_MXFP4] = QINFO(32, 4, 0, 0, mt_mxfp4_values, E8M0, 16, 0, 0, 0, unpack_mxfp4),
};

const mt_qinfo *mt_qinfo_get(mt_dtype type) {
  return TYPES[type].slots ? &TYPES[type] : NULL;
}

/* ---- blocks and rows --------------------------------------------------------------------- */

const uint8_t *mt_file_codes(mt_dtype type, const uint8_t *src, size_t sub, uint8_t *code,
                             uint8_t *sc, uint8_t *m) {
  const mt_dtype_info *t = mt_dtype_get(type);
  const mt_qinfo *qi = mt_qinfo_get(type);
  size_t per = t->block_elems / qi->slots;
  const uint8_t *b = src + sub / per * t->block_bytes;
  *sc = *m = 0;
  qi->unpack(b, sub % per, code, sc, m);
  return b;
}

void mt_scales(const mt_qinfo *qi, const uint8_t *d, const uint8_t *m, uint8_t sc, uint8_t mn,
               float *scale, float *min) {
  *min = 0;
  if (qi->scale == MT_SCALE_E8M0) {
    *scale = mt_e8m0_to_f32(sc);
    return;
  }
  *scale = mt_f16_to_f32(mt_load_u16(d));
  if (qi->has_min) *min = mt_f16_to_f32(mt_load_u16(m));
  if (qi->scale == MT_SCALE_SUPER) {
    *scale *= (float)(int8_t)sc;
    if (qi->has_min) *min = -(*min * (float)mn);
  }
}

void mt_file_block(mt_dtype type, const uint8_t *src, size_t sub, int8_t *value, float *scale,
                   float *min) {
  const mt_qinfo *qi = mt_qinfo_get(type);
  uint8_t code[32], sc, m;
  const uint8_t *b = mt_file_codes(type, src, sub, code, &sc, &m);
  for (size_t e = 0; e < qi->slots; e++) value[e] = mt_code_value(qi, code[e]);
  mt_scales(qi, b + qi->d_at, b + qi->m_at, sc, m, scale, min);
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
