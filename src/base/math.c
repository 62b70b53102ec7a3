/* Own exp, log, pow, sin and cos in double: additions, multiplications and divisions in a fixed
 * order, no libm and no fused operations, so that every machine gives the same bits. Series are
 * Taylor's; where a rounding would show in the last place, the part that it lost is carried beside
 * (Dekker, "A floating-point technique for extending the available precision", 1971). Arguments are
 * reduced after Cody and Waite: constants cut so that n × part is exact. */
#include <string.h>

#include "mutirao/base.h"

#define LN2_HI 0x1.62e42fefp-1 /* 33 bits: k × LN2_HI is exact for |k| < 2^20 */
#define LN2_LO 0x1.473de6af278edp-34
#define LOG2_E 0x1.71547652b82fep+0
#define ROUND  0x1.8p52 /* adding and subtracting it rounds |x| < 2^51 to an integer */

static uint64_t bits_of(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static double of_bits(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

static double infinity(void) {
  return of_bits(0x7ffull << 52);
}
static double not_a_number(void) {
  return of_bits(0x7ff8ull << 48);
}
/* −1022 ≤ k ≤ 1023 */
static double power_of_two(int k) {
  return of_bits((uint64_t)(k + 1023) << 52);
}

/* ---- pairs: an unevaluated sum hi + lo --------------------------------------------------- */

typedef struct pair {
  double hi, lo;
} pair;

/* a + b exactly, any order of magnitude (Knuth). */
static pair two_sum(double a, double b) {
  double s = a + b, t = s - a;
  return (pair){s, (a - (s - t)) + (b - t)};
}

/* The upper 26 bits of a. */
static double upper_half(double a) {
  return of_bits(bits_of(a) & ~0x7ffffffull);
}

/* a × b to 2^-105 of it, while nothing overflows or becomes subnormal. */
static pair two_product(double a, double b) {
  double p = a * b, ah = upper_half(a), al = a - ah, bh = upper_half(b), bl = b - bh;
  return (pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

static pair pair_add(pair a, pair b) {
  pair s = two_sum(a.hi, b.hi);
  return two_sum(s.hi, s.lo + (a.lo + b.lo));
}

static pair pair_mul(pair a, pair b) {
  pair p = two_product(a.hi, b.hi);
  return two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static pair pair_div(pair a, pair b) {
  double q = a.hi / b.hi;
  pair p = two_product(q, b.hi);
  double rest = ((a.hi - p.hi) - p.lo) + (a.lo - q * b.lo);
  return two_sum(q, rest / b.hi);
}

/* ---- exp --------------------------------------------------------------------------------- */

/* e^(x + low), |low| far below |x|; −746 < x < 710.
 * With k = round(x / ln 2), e^x = 2^k e^r, |r| ≤ 0.347. */
static double exp_sum(double x, double low) {
  double n = (x * LOG2_E + ROUND) - ROUND;
  double top = x - n * LN2_HI; /* exact */
  double rest = low - n * LN2_LO;
  double r = top + rest;
  double lost = (top - r) + rest;
  double z = r * r;
  /* e^r = 1 + r + r² / 2! + … + r^14 / 14!, in pairs of terms so that the chain of dependences is
   * short */
  double p = 0x1.93974a8c07c9dp-37;
  p = (0x1.1eed8eff8d898p-29 + r * 0x1.6124613a86d09p-33) + z * p;
  p = (0x1.27e4fb7789f5cp-22 + r * 0x1.ae64567f544e4p-26) + z * p;
  p = (0x1.a01a01a01a01ap-16 + r * 0x1.71de3a556c734p-19) + z * p;
  p = (0x1.6c16c16c16c17p-10 + r * 0x1.a01a01a01a01ap-13) + z * p;
  p = (0x1.5555555555555p-5 + r * 0x1.1111111111111p-7) + z * p;
  p = (0.5 + r * 0x1.5555555555555p-3) + z * p;
  double y = 1 + (r + (z * p + lost));
  int k = (int)n;
  if (k >= -1021 && k <= 1023) return y * power_of_two(k);
  if (k > 1023) return y * power_of_two(k - 1) * 2;
  return y * power_of_two(k + 200) * 0x1p-200; /* one rounding, into the subnormal numbers */
}

double mt_exp64(double x) {
  if (x != x) return x;
  if (x > 0x1.62e42fefa39efp+9) return infinity();
  if (x < -0x1.74910d52d3051p+9) return 0;
  return exp_sum(x, 0);
}

/* ---- log --------------------------------------------------------------------------------- */

/* x = 2^k m with m in [√½, √2); x positive and finite. Returns m − 1, which is exact. */
static double split_power(double x, int *k) {
  uint64_t u = bits_of(x);
  int e = 0;
  if (u < 1ull << 52) { /* subnormal */
    u = bits_of(x * 0x1p54);
    e = -54;
  }
  /* exponent field of x / √½, so that the border between two k lies at √½ */
  uint64_t biased = u + (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull);
  int field = (int)(biased >> 52) - 1023;
  *k = e + field;
  return of_bits(u - ((uint64_t)(int64_t)field << 52)) - 1;
}

/* With s = f / (2 + f), log(1 + f) = 2 atanh s = f − h + s (h + R), where h = f² / 2 and
 * R = 2 s² / 3 + 2 s⁴ / 5 + …: the large terms f and h carry no error of s. */
double mt_log64(double x) {
  if (x != x) return x;
  if (x < 0) return not_a_number();
  if (x == 0) return -infinity();
  if (x == infinity()) return x;
  int k;
  double f = split_power(x, &k);
  double s = f / (2 + f), z = s * s, h = 0.5 * f * f;
  double r = 2.0 / 23;
  r = 2.0 / 21 + z * r;
  r = 2.0 / 19 + z * r;
  r = 2.0 / 17 + z * r;
  r = 2.0 / 15 + z * r;
  r = 2.0 / 13 + z * r;
  r = 2.0 / 11 + z * r;
  r = 2.0 / 9 + z * r;
  r = 2.0 / 7 + z * r;
  r = 2.0 / 5 + z * r;
  r = 2.0 / 3 + z * r;
  double n = k;
  pair t = two_sum(n * LN2_HI, f);
  return t.hi + (t.lo - (h - (s * (h + z * r) + n * LN2_LO)));
}

/* ---- pow --------------------------------------------------------------------------------- */

/* log x as a pair, relative error below 2^-60; x positive and finite. */
static pair log_pair(double x) {
  int k;
  double f = split_power(x, &k);
  pair s = pair_div((pair){f, 0}, two_sum(2, f)), z = pair_mul(s, s);
  double q = 1.0 / 25;
  for (int odd = 23; odd >= 5; odd -= 2) q = 1.0 / odd + z.hi * q;
  const pair third = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
  pair series = pair_mul(z, pair_add(third, two_product(z.hi, q)));
  s.hi *= 2;
  s.lo *= 2;
  pair sum = pair_add(s, pair_mul(s, series));
  double n = k;
  return pair_add(two_sum(n * LN2_HI, n * LN2_LO), sum);
}

/* Where neither argument is finite and positive: the values of C's pow for x ≥ 0. */
static double pow_special(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y || x < 0) return not_a_number();
  bool grows = (x > 1) == (y > 0);
  return grows ? infinity() : 0;
}

double mt_pow64(double x, double y) {
  double inf = infinity();
  if (y == 0 || x == 1 || !(x > 0 && x < inf && y > -inf && y < inf)) return pow_special(x, y);
  pair l = log_pair(x);
  double e = y * l.hi;
  if (e > 710) return inf;
  if (e < -746) return 0;
  if (e < 0x1p-60 && e > -0x1p-60) return 1; /* and no subnormal number enters the product */
  pair p = two_product(y, l.hi);
  double low = p.lo + y * l.lo;
  if (p.hi > 0x1.62e42fefa39efp+9) return inf;
  if (p.hi < -0x1.74910d52d3051p+9) return 0;
  return exp_sum(p.hi, low);
}

/* ---- sin and cos ------------------------------------------------------------------------- */

/* π / 2 in parts of 23, 23 and 53 bits: n × part is exact for the first two while n < 2^30. */
#define HALF_PI_1   0x1.921fb4p+0
#define HALF_PI_2   0x1.4442dp-24
#define HALF_PI_3   0x1.8469898cc517p-48
#define TWO_OVER_PI 0x1.45f306dc9c883p-1

void mt_sincos64(double x, double *s, double *c) {
  if (!(x >= -0x1p30 && x <= 0x1p30)) {
    *s = *c = not_a_number();
    return;
  }
  double n = (x * TWO_OVER_PI + ROUND) - ROUND;
  double top = (x - n * HALF_PI_1) - n * HALF_PI_2; /* exact */
  double rest = n * HALF_PI_3;
  double r = top - rest;
  double lost = (top - r) - rest; /* x − n π / 2 = r + lost, |r| ≤ π / 4 */
  double z = r * r;
  double p = 0x1.952c77030ad4ap-49; /* sin r = r − r³ / 3! + … + r^17 / 17! */
  p = -0x1.ae7f3e733b81fp-41 + z * p;
  p = 0x1.6124613a86d09p-33 + z * p;
  p = -0x1.ae64567f544e4p-26 + z * p;
  p = 0x1.71de3a556c734p-19 + z * p;
  p = -0x1.a01a01a01a01ap-13 + z * p;
  p = 0x1.1111111111111p-7 + z * p;
  p = -0x1.5555555555555p-3 + z * p;
  double sine = r + (r * z * p + lost * (1 - 0.5 * z));
  double q = 0x1.ae7f3e733b81fp-45; /* cos r = 1 − r² / 2 + … + r^16 / 16! */
  q = -0x1.93974a8c07c9dp-37 + z * q;
  q = 0x1.1eed8eff8d898p-29 + z * q;
  q = -0x1.27e4fb7789f5cp-22 + z * q;
  q = 0x1.a01a01a01a01ap-16 + z * q;
  q = -0x1.6c16c16c16c17p-10 + z * q;
  q = 0x1.5555555555555p-5 + z * q;
  double h = 0.5 * z, w = 1 - h;
  double cosine = w + (((1 - w) - h) + (z * z * q - r * lost));
  int64_t quarter = (int64_t)n & 3; /* turns by n quarters */
  double a = quarter & 1 ? cosine : sine, b = quarter & 1 ? sine : cosine;
  *s = quarter & 2 ? -a : a;
  *c = quarter == 1 || quarter == 2 ? -b : b;
}
