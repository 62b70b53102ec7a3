/* Kernels on rows of the vocabulary. Included by each instruction set after
 *   F64, F32, U64         vectors of doubles, of as many floats and of as many 64-bit integers
 *   max_f64(a, b)         the larger, lane by lane
 *   mask_bits(m)          a uint64_t whose bit l is set where lane l of the U64 m is all ones
 *   VOCAB_GROUP           vectors whose exponentials are computed side by side
 * are defined. The rest is the compiler's arithmetic on vectors, which is that of its elements:
 * + − × ÷ and comparisons, none fused. */

enum { VOCAB_LANES = sizeof(F64) / sizeof(double) };
#define EACH MT_UNROLL for (size_t g = 0; g < VOCAB_GROUP; g++)

/* mt_exp64 of x ≤ 0 (src/base/math.c says why), in place and without branches: 2^k is multiplied in
 * as 2^(k + 200) and 2^-200, of which the second rounds where the result is subnormal, and only
 * there. Each step is done for all vectors before the next, since it waits for the one before.
 * Where base has +0 n may become −0: it is added to x, which is not −0. */
MT_INLINE void exp64_group(F64 *x) {
  static const double even[] = {0x1.1eed8eff8d898p-29, 0x1.27e4fb7789f5cp-22, 0x1.a01a01a01a01ap-16,
                                0x1.6c16c16c16c17p-10, 0x1.5555555555555p-5,  0.5};
  static const double odd[] = {0x1.6124613a86d09p-33, 0x1.ae64567f544e4p-26, 0x1.71de3a556c734p-19,
                               0x1.a01a01a01a01ap-13, 0x1.1111111111111p-7,  0x1.5555555555555p-3};
  const double round = 0x1.8p52, lowest = -0x1.74910d52d3051p+9;
  F64 n[VOCAB_GROUP], r[VOCAB_GROUP], lost[VOCAB_GROUP], z[VOCAB_GROUP], p[VOCAB_GROUP];
  U64 power[VOCAB_GROUP], keep[VOCAB_GROUP];
  EACH keep[g] = (U64)(x[g] >= lowest);
  EACH n[g] = x[g] * 0x1.71547652b82fep+0 + round;
  EACH power[g] = ((U64)n[g] << 52) + ((uint64_t)(1023 + 200) << 52);
  EACH n[g] = n[g] - round;
  EACH x[g] = x[g] - n[g] * 0x1.62e42fefp-1;
  EACH n[g] = n[g] * -0x1.473de6af278edp-34;
  EACH r[g] = x[g] + n[g];
  EACH lost[g] = (x[g] - r[g]) + n[g];
  EACH z[g] = r[g] * r[g];
  EACH p[g] = z[g] * 0x1.93974a8c07c9dp-37 + (even[0] + r[g] * odd[0]);
  MT_UNROLL for (size_t i = 1; i < 6; i++) EACH p[g] = z[g] * p[g] + (even[i] + r[g] * odd[i]);
  EACH p[g] = z[g] * p[g] + lost[g];
  EACH p[g] = 1 + (r[g] + p[g]);
  EACH p[g] = p[g] * (F64)power[g];
  EACH x[g] = (F64)((U64)(p[g] * 0x1p-200) & keep[g]);
}

MT_INLINE void exp64_row(const double *x, double from, size_t n, double *out) {
  enum { STEP = VOCAB_GROUP * VOCAB_LANES };
  F64 v[VOCAB_GROUP];
  size_t i = 0;
  for (; i + STEP <= n; i += STEP) {
    memcpy(v, x + i, sizeof v);
    EACH v[g] = v[g] - from;
    exp64_group(v);
    memcpy(out + i, v, sizeof v);
  }
  if (i == n) return;
  EACH v[g] = (F64){0} + from;
  memcpy(v, x + i, (n - i) * sizeof *x);
  EACH v[g] = v[g] - from;
  exp64_group(v);
  memcpy(out + i, v, (n - i) * sizeof *out);
}

/* One block; returns its largest element. A lane of *less stays all ones while its elements are
 * below infinity. */
MT_INLINE double widen_block(const float *x, double *y, U64 *less) {
  enum { CHAINS = 4 };
  F64 most[CHAINS];
  MT_UNROLL for (size_t c = 0; c < CHAINS; c++) most[c] = (F64){0} - __builtin_inf();
  for (size_t i = 0; i < MT_LOGIT_BLOCK; i += CHAINS * VOCAB_LANES)
    MT_UNROLL for (size_t c = 0; c < CHAINS; c++) {
      F32 f;
      memcpy(&f, x + i + c * VOCAB_LANES, sizeof f);
      F64 v = __builtin_convertvector(f, F64);
      memcpy(y + i + c * VOCAB_LANES, &v, sizeof v);
      *less &= (U64)(v < __builtin_inf());
      most[c] = max_f64(v, most[c]);
    }
  F64 m = max_f64(max_f64(most[0], most[1]), max_f64(most[2], most[3]));
  double max = m[0];
  MT_UNROLL for (size_t l = 1; l < VOCAB_LANES; l++) max = m[l] > max ? m[l] : max;
  return max + 0.0;
}

MT_INLINE bool widen_row(const float *x, size_t n, double *y, double *max) {
  U64 less = ~(U64){0};
  size_t i = 0;
  for (; i + MT_LOGIT_BLOCK <= n; i += MT_LOGIT_BLOCK)
    max[i / MT_LOGIT_BLOCK] = widen_block(x + i, y + i, &less);
  if (i < n) {
    float tail[MT_LOGIT_BLOCK];
    for (size_t j = 0; j < MT_LOGIT_BLOCK; j++) tail[j] = i + j < n ? x[i + j] : -__builtin_inff();
    max[i / MT_LOGIT_BLOCK] = widen_block(tail, y + i, &less);
  }
  bool fine = true;
  for (size_t l = 0; l < VOCAB_LANES; l++) fine &= less[l] != 0;
  return fine;
}

MT_INLINE void temper_block(double *x, double from, double by) {
  for (size_t j = 0; j < MT_LOGIT_BLOCK; j += VOCAB_LANES) {
    F64 v;
    memcpy(&v, x + j, sizeof v);
    v = (v - from) / by;
    memcpy(x + j, &v, sizeof v);
  }
}

MT_INLINE double sum_above_block(const double *key, const double *e, double lo, double hi,
                                 uint64_t *within) {
  enum { LANES = 8, VECS = LANES / VOCAB_LANES };
  F64 sum[VECS];
  uint64_t bits = 0;
  double lane[LANES], total = 0;
  MT_UNROLL for (size_t v = 0; v < VECS; v++) sum[v] = (F64){0};
  MT_UNROLL for (size_t j = 0; j < MT_LOGIT_BLOCK; j += LANES) {
    MT_UNROLL for (size_t v = 0; v < VECS; v++) {
      F64 k, x;
      memcpy(&k, key + j + v * VOCAB_LANES, sizeof k);
      memcpy(&x, e + j + v * VOCAB_LANES, sizeof x);
      sum[v] += (F64)((U64)x & (U64)(k > hi));
      U64 in = (U64)(k >= lo) & (U64)(k <= hi);
      bits |= mask_bits(in) << (j + v * VOCAB_LANES);
    }
  }
  memcpy(lane, sum, sizeof lane);
  MT_UNROLL for (size_t l = 0; l < LANES; l++) total += lane[l];
  *within = bits;
  return total;
}

MT_INLINE void keep_block(const double *key, double least, double share, double *value, double *e) {
  const F64 none = (F64){0} - __builtin_inf();
  for (size_t j = 0; j < MT_LOGIT_BLOCK; j += VOCAB_LANES) {
    F64 k, v, x;
    memcpy(&k, key + j, sizeof k);
    memcpy(&v, value + j, sizeof v);
    memcpy(&x, e + j, sizeof x);
    U64 stays = (U64)(k >= least) & (U64)(x * share > 0);
    x = (F64)((U64)x & stays);
    v = (F64)(((U64)v & stays) | ((U64)none & ~stays));
    memcpy(e + j, &x, sizeof x);
    memcpy(value + j, &v, sizeof v);
  }
}
