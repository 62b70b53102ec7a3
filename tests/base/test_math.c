/* exp, log, pow, sin and cos against long double libm: sweeps, random points and special values. */
#include <float.h>
#include <math.h>

#include "mt_test.h"
#include "mutirao/base.h"

enum { POINTS = 200000 };
#define EXPECTED_BITS 0xf28bb6a1d7ba9ce9ull /* on x86-64 and aarch64 */

static uint64_t drawn;
static double uniform(double lo, double hi) {
  static unsigned long long seed;
  if (!drawn) seed = mt_test_seed();
  return lo + (hi - lo) * mt_uniform(seed, 0, drawn++, 0);
}

/* Distance in units of the last place of the true value. */
static double ulps(double got, long double want) {
  double at = fabs((double)want), ulp = at < DBL_MIN ? 0x1p-1074 : nextafter(at, INFINITY) - at;
  return (double)(fabsl((long double)got - want) / (long double)ulp);
}

/* A positive double of any exponent. */
static double any_positive(void) {
  return exp(uniform(-745, 709));
}

/* Close to 1, on either side, down to the last place. */
static double near_one(void) {
  return 1 + uniform(-0.5, 0.5) * exp(-uniform(0, 37));
}

static void test_exp(void) {
  double worst = 0;
  for (int i = 0; i < POINTS; i++) {
    double x = i % 3 == 0 ? uniform(-708, 709.7) : i % 3 == 1 ? uniform(-1, 1) : uniform(-40, 0);
    worst = fmax(worst, ulps(mt_exp64(x), expl(x)));
  }
  /* around multiples of ln 2 / 2, where the reduction changes */
  for (int k = -1000; k <= 1000; k++) {
    double x = k * 0.34657359027997264;
    worst = fmax(worst, ulps(mt_exp64(x), expl(x)));
    worst = fmax(worst, ulps(mt_exp64(nextafter(x, 1e9)), expl(nextafter(x, 1e9))));
  }
  printf("exp: %.3f ulp\n", worst);
  CU_ASSERT(worst < 1);
  worst = 0;
  for (int i = 0; i < POINTS; i++) {
    double x = uniform(-745.13, -708);
    worst = fmax(worst, ulps(mt_exp64(x), expl(x)));
  }
  printf("exp, subnormal results: %.3f ulp\n", worst);
  CU_ASSERT(worst < 1);
}

static void test_exp_special(void) {
  CU_ASSERT(mt_exp64(0) == 1 && mt_exp64(-0.0) == 1);
  CU_ASSERT(mt_exp64(INFINITY) == INFINITY);
  CU_ASSERT(mt_exp64(-INFINITY) == 0);
  CU_ASSERT(isnan(mt_exp64(NAN)));
  CU_ASSERT(mt_exp64(0x1.62e42fefa39efp+9) < INFINITY);
  CU_ASSERT(mt_exp64(nextafter(0x1.62e42fefa39efp+9, 1e9)) == INFINITY);
  CU_ASSERT(mt_exp64(-0x1.74910d52d3051p+9) == 0x1p-1074);
  CU_ASSERT(mt_exp64(nextafter(-0x1.74910d52d3051p+9, -1e9)) == 0);
  CU_ASSERT(mt_exp64(1e300) == INFINITY && mt_exp64(-1e300) == 0);
  CU_ASSERT(mt_exp64(0x1p-1074) == 1 && mt_exp64(-0x1p-60) == 1);
}

static void test_log(void) {
  double worst = 0;
  for (int i = 0; i < POINTS; i++) {
    double x = i % 3 == 0 ? any_positive() : i % 3 == 1 ? uniform(0.4, 2.5) : near_one();
    if (x > 0 && x != 1) worst = fmax(worst, ulps(mt_log64(x), logl(x)));
  }
  for (int i = 0; i < 1000; i++) { /* subnormal, and around √½ where the power of two changes */
    double x = uniform(1, 1e6) * 0x1p-1070, y = 0x1.6a09e667f3bcdp-1 * (1 + (i - 500) * 0x1p-50);
    worst = fmax(worst, ulps(mt_log64(x), logl(x)));
    worst = fmax(worst, ulps(mt_log64(y), logl(y)));
  }
  printf("log: %.3f ulp\n", worst);
  CU_ASSERT(worst < 1);
  for (int k = -1074; k <= 1023; k++)
    CU_ASSERT(ulps(mt_log64(ldexp(1, k)), logl(ldexpl(1, k))) < 1);
}

static void test_log_special(void) {
  CU_ASSERT(mt_log64(1) == 0 && !signbit(mt_log64(1)));
  CU_ASSERT(mt_log64(0) == -INFINITY && mt_log64(-0.0) == -INFINITY);
  CU_ASSERT(isnan(mt_log64(-1)) && isnan(mt_log64(-INFINITY)) && isnan(mt_log64(NAN)));
  CU_ASSERT(mt_log64(INFINITY) == INFINITY);
  CU_ASSERT(ulps(mt_log64(0x1p-1074), logl(0x1p-1074L)) < 1);
  CU_ASSERT(ulps(mt_log64(DBL_MAX), logl(DBL_MAX)) < 1);
}

static void test_pow(void) {
  double worst = 0;
  for (int i = 0; i < POINTS; i++) {
    double x = i % 3 == 0 ? any_positive() : i % 3 == 1 ? uniform(0.1, 10) : near_one();
    double l = fabs(log(x));
    double y = uniform(-1, 1) * (i & 1 ? 1 : 700) / l;
    if (!(x > 0) || !(fabs(y) < 1e300)) continue;
    worst = fmax(worst, ulps(mt_pow64(x, y), powl(x, y)));
  }
  const double base[] = {10000, 500000, 1e6, 5e6, 160000, 8000000}; /* of RoPE */
  for (size_t b = 0; b < sizeof base / sizeof base[0]; b++)
    for (int d = 2; d <= 256; d += 2)
      for (int i = 0; i < d; i += 2) {
        double y = -(double)i / d;
        worst = fmax(worst, ulps(mt_pow64(base[b], y), powl(base[b], y)));
      }
  printf("pow: %.3f ulp\n", worst);
  CU_ASSERT(worst < 2);
  for (int k = 0; k < 50; k++) CU_ASSERT(ulps(mt_pow64(2, k), ldexpl(1, k)) < 1);
}

/* For x ≥ 0 C's pow is defined for every argument. */
static void test_pow_special(void) {
  const double value[] = {0, 0x1p-1074, 0.5, 1, 2, DBL_MAX, INFINITY, NAN};
  const double power[] = {-INFINITY, -DBL_MAX, -1e5, -1,      -0x1p-1074, 0,
                          0x1p-1074, 1,        1e5,  DBL_MAX, INFINITY,   NAN};
  for (size_t i = 0; i < sizeof value / sizeof value[0]; i++)
    for (size_t j = 0; j < sizeof power / sizeof power[0]; j++) {
      double got = mt_pow64(value[i], power[j]), want = pow(value[i], power[j]);
      bool ok = isnan(want) ? isnan(got) : got == want || fabs(got - want) <= 1e-15 * want;
      if (!ok) printf("pow(%g, %g) = %g, want %g\n", value[i], power[j], got, want);
      CU_ASSERT(ok);
    }
  CU_ASSERT(isnan(mt_pow64(-2, 2)) && isnan(mt_pow64(-INFINITY, 1)) && isnan(mt_pow64(-1, NAN)));
}

static void check_sincos(double x, double *worst, double *worst_ulp) {
  double s, c;
  mt_sincos64(x, &s, &c);
  long double ts = sinl(x), tc = cosl(x);
  *worst = fmax(*worst, (double)fmaxl(fabsl((long double)s - ts), fabsl((long double)c - tc)));
  *worst_ulp = fmax(*worst_ulp, fmax(ulps(s, ts), ulps(c, tc)));
}

static void test_sincos(void) {
  double worst = 0, relative = 0;
  for (int i = 0; i < POINTS; i++)
    check_sincos(i & 1 ? uniform(-0x1p30, 0x1p30) : uniform(-7, 7), &worst, &relative);
  for (int p = 0; p <= 100000; p += 997) /* RoPE at position p */
    for (int i = 0; i < 64; i++) check_sincos(p * mt_pow64(500000, -i / 64.0), &worst, &relative);
  /* beside multiples of π / 2, where one of the two is tiny */
  for (int k = 1; k < 100000; k += 7) {
    double x = k * 1.5707963267948966, not_promised = 0;
    check_sincos(x, &worst, &not_promised);
    check_sincos(nextafter(x, 0), &worst, &not_promised);
  }
  check_sincos(0x1p30, &worst, &relative);
  check_sincos(-0x1p30, &worst, &relative);
  printf("sin, cos: %.3g, %.3f ulp\n", worst, relative);
  CU_ASSERT(worst < 2e-16);
  CU_ASSERT(relative < 1.5);
}

static void test_sincos_special(void) {
  double s, c;
  mt_sincos64(0, &s, &c);
  CU_ASSERT(s == 0 && c == 1);
  mt_sincos64(0x1p-1074, &s, &c);
  CU_ASSERT(s == 0x1p-1074 && c == 1);
  const double outside[] = {NAN, INFINITY, -INFINITY, nextafter(0x1p30, 1e10), -1e300};
  for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
    mt_sincos64(outside[i], &s, &c);
    CU_ASSERT(isnan(s) && isnan(c));
  }
  for (int i = 0; i < 1000; i++) { /* odd and even, to the bit */
    double x = uniform(0, 1e6), t, d;
    mt_sincos64(x, &s, &c);
    mt_sincos64(-x, &t, &d);
    CU_ASSERT(s == -t && c == d);
  }
}

/* The bits themselves, so that a change of recipe, compiler or machine cannot pass unseen. */
static void test_bits(void) {
  uint64_t h = MT_HASH_INIT;
  for (int i = 0; i < 10000; i++) {
    double u = mt_uniform(7, 0, (uint64_t)i, 0), r[5];
    r[0] = mt_exp64(-50 * u);
    r[1] = mt_log64(u + 0x1p-60);
    r[2] = mt_pow64(10000, -u);
    mt_sincos64(1e5 * u, &r[3], &r[4]);
    h = mt_hash64(h, r, sizeof r);
  }
  if (h != EXPECTED_BITS) printf("hash of the bits: 0x%016llx\n", (unsigned long long)h);
  CU_ASSERT(h == EXPECTED_BITS);
}

MT_TEST_MAIN("base: math", {"exp", test_exp}, {"exp, special values", test_exp_special},
             {"log", test_log}, {"log, special values", test_log_special}, {"pow", test_pow},
             {"pow, special values", test_pow_special}, {"sin and cos", test_sincos},
             {"sin and cos, special values", test_sincos_special}, {"bits", test_bits})
