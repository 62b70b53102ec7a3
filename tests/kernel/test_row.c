/* exp, gates, norms and rotation against long double; ends and NaN. */
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "compare.h"

static const char *const TABLES[] = {"ref", NULL};

/* Distance of two results in units of the last place of the exact one. */
static double ulps(float got, long double want) {
  int e;
  frexpl(want, &e);
  if (e < -125) e = -125;
  return (double)(fabsl((long double)got - want) / ldexpl(1, e - 24));
}

static void test_exp_error(void) {
  const mt_kernels *kn = kernels(NULL);
  double worst = 0;
  float at = 0;
  /* Both signs, every 9973rd float up to the ends: over 200,000 points, 9,000 of them with
   * subnormal results. */
  for (uint32_t sign = 0; sign < 2; sign++)
    for (uint32_t bits = 0; bits < 0x42d00000u; bits += bits < 0x30000000u ? 99991u : 997u) {
      uint32_t u = bits | sign << 31;
      float x, y;
      memcpy(&x, &u, 4);
      if (x > 88.72f || x < -103.9f) break;
      kn->exp(&x, 1, &y);
      double err = ulps(y, expl((long double)x));
      if (err > worst) {
        worst = err;
        at = x;
      }
    }
  printf("largest error %.3f ulp at %.9g\n", worst, (double)at);
  CU_ASSERT(worst < 1.5);
  CU_ASSERT(worst > 0.5);
}

static float one_exp(const mt_kernels *kn, float x) {
  float y;
  kn->exp(&x, 1, &y);
  return y;
}

static void test_exp_ends(void) {
  for (size_t k = 0; k < 2; k++) {
    const mt_kernels *kn = kernels(TABLES[k]);
    CU_ASSERT_EQUAL(one_exp(kn, 0.0f), 1.0f);
    CU_ASSERT_EQUAL(one_exp(kn, -0.0f), 1.0f);
    CU_ASSERT_EQUAL(one_exp(kn, -104.0f), 0.0f);
    CU_ASSERT_EQUAL(one_exp(kn, -1e30f), 0.0f);
    CU_ASSERT_EQUAL(one_exp(kn, -INFINITY), 0.0f);
    CU_ASSERT(one_exp(kn, -103.9f) == 0x1p-149f);
    CU_ASSERT(one_exp(kn, 88.72f) < INFINITY);
    CU_ASSERT_EQUAL(one_exp(kn, 88.8f), INFINITY);
    CU_ASSERT_EQUAL(one_exp(kn, INFINITY), INFINITY);
    CU_ASSERT(isnan(one_exp(kn, NAN)));
    CU_ASSERT(isnan(one_exp(kn, -NAN)));
  }
}

/* Never falls where x rises, over the borders of the reduction too. */
static void test_exp_monotone(void) {
  const mt_kernels *kn = kernels(NULL);
  float last = 0;
  for (int i = -110000; i < 90000; i++) {
    float y = one_exp(kn, (float)i / 1000.0f);
    CU_ASSERT(y >= last);
    last = y;
  }
}

static float gate(const mt_kernels *kn, bool gelu, float g) {
  float one = 1, y;
  (gelu ? kn->gelu_mul : kn->silu_mul)(&g, &one, 1, &y);
  return y;
}

/* Relative error: a few roundings, and those of the exponent times its size. */
static void check_gate(bool gelu, long double (*want_of)(long double),
                       long double (*z_of)(long double)) {
  const mt_kernels *kn = kernels(NULL);
  double worst = 0;
  for (int i = -30000; i <= 30000; i++) {
    float g = (float)i * (gelu ? 0.00034f : 0.003f);
    long double want = want_of((long double)g), z = fabsl(z_of((long double)g));
    long double err = fabsl((long double)gate(kn, gelu, g) - want);
    long double bound = 0x1p-24L * (4 + 4 * z) * fabsl(want) + 0x1p-148L;
    if (g < 0 && z > 88.7L) bound = 0x1p-121L; /* exp overflows, the quotient is −0 */
    CU_ASSERT(err <= bound);
    if (i && (double)(err / bound) > worst) worst = (double)(err / bound);
  }
  printf("%s: largest error %.3f of the bound\n", gelu ? "gelu" : "silu", worst);
  CU_ASSERT(worst > 0.05);
}

static long double identity(long double g) {
  return g;
}
static long double silu(long double g) {
  return g / (1 + expl(-g));
}
static long double gelu_z(long double g) {
  return 2 * sqrtl(2 / acosl(-1.0L)) * (g + 0.044715L * g * g * g);
}
static long double gelu(long double g) {
  return g / (1 + expl(-gelu_z(g)));
}

static void test_gates(void) {
  check_gate(false, silu, identity);
  check_gate(true, gelu, gelu_z);
  /* The form that the literature states. */
  for (int i = -300; i <= 300; i++) {
    long double g = i * 0.01L;
    CU_ASSERT(fabsl(gelu(g) - 0.5L * g * (1 + tanhl(gelu_z(g) / 2))) < 1e-17L);
  }
}

static void test_gate_ends(void) {
  for (size_t k = 0; k < 2; k++)
    for (int gelu_too = 0; gelu_too < 2; gelu_too++) {
      const mt_kernels *kn = kernels(TABLES[k]);
      CU_ASSERT_EQUAL(gate(kn, gelu_too, 0.0f), 0.0f);
      CU_ASSERT_EQUAL(gate(kn, gelu_too, 1e30f), 1e30f);
      CU_ASSERT_EQUAL(gate(kn, gelu_too, -1e30f), 0.0f);
      CU_ASSERT_EQUAL(gate(kn, gelu_too, -200.0f), 0.0f);
      CU_ASSERT_EQUAL(gate(kn, gelu_too, INFINITY), INFINITY);
      CU_ASSERT(isnan(gate(kn, gelu_too, -INFINITY)));
      CU_ASSERT(isnan(gate(kn, gelu_too, NAN)));
    }
}

static void test_norm(void) {
  rng r = {.seed = mt_test_seed()};
  const mt_kernels *kn = kernels(NULL);
  enum { MAX = 600 };
  float x[MAX], w[MAX], y[MAX];
  for (size_t n = 1; n < MAX; n += 37) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
      x[i] = normalish(&r) * 30;
      w[i] = normalish(&r);
      sum += (double)x[i] * (double)x[i];
    }
    float got = kn->sum_squares(x, n), mean = kn->rmsnorm(x, w, n, 1e-5f, y);
    CU_ASSERT(fabs((double)got - sum) <= 0x1p-24 * (8 + sqrt((double)n)) * sum);
    CU_ASSERT_EQUAL(mean, got / (float)n);
    for (size_t i = 0; i < n; i++) {
      double want = (double)x[i] / sqrt(sum / (double)n + 1e-5) * (double)w[i];
      CU_ASSERT(fabs((double)y[i] - want) <= 0x1p-24 * 12 * fabs(want));
    }
    kn->rmsnorm(x, NULL, n, 1e-5f, x); /* in place: mean of squares becomes 1 */
    CU_ASSERT(fabs((double)kn->sum_squares(x, n) / (double)n - 1) < 1e-4);
  }
  float zero[5] = {0};
  CU_ASSERT_EQUAL(kn->rmsnorm(zero, NULL, 5, 1e-5f, zero), 0);
  CU_ASSERT_EQUAL(zero[3], 0);
}

/* The recipe written out: lanes of 16, then the fixed tree. */
static void test_sum_tree(void) {
  rng r = {.seed = mt_test_seed()};
  const mt_kernels *kn = kernels(NULL);
  float x[100];
  for (size_t n = 0; n <= 100; n++) {
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++) {
      x[i] = normalish(&r) * 7;
      lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    }
    for (size_t width = 8; width; width /= 2)
      for (size_t l = 0; l < width; l++) lane[l] += lane[l + width];
    CU_ASSERT_EQUAL(kn->sum_squares(x, n), lane[0]);
  }
}

static void test_rope(void) {
  rng r = {.seed = mt_test_seed()};
  const mt_kernels *kn = kernels(NULL);
  for (size_t n = 2; n <= 130; n += 16) {
    float x[132], c[66], s[66], was[132];
    for (size_t i = 0; i < 132; i++) was[i] = x[i] = normalish(&r);
    for (size_t d = 0; d < n / 2; d++) {
      double angle = uniform(&r) * 6.3;
      c[d] = (float)cos(angle);
      s[d] = (float)sin(angle);
    }
    kn->rope(x, c, s, n);
    for (size_t d = 0; d < n / 2; d++) {
      float x0 = was[d], x1 = was[d + n / 2];
      CU_ASSERT_EQUAL(x[d], fmaf(x0, c[d], -(x1 * s[d])));
      CU_ASSERT_EQUAL(x[d + n / 2], fmaf(x1, c[d], x0 * s[d]));
    }
    for (size_t i = n; i < 132; i++) CU_ASSERT_EQUAL(x[i], was[i]);
  }
}

/* A control word that others left over is put right, in this thread. */
static void test_fp_control(void) {
  mt_kernels_set_fp_control();
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040u | 0x2000u);
  volatile float tiny = 0x1p-140f, half = 0.5f;
  CU_ASSERT_EQUAL(tiny * half, 0);
  mt_kernels_set_fp_control();
  CU_ASSERT_EQUAL(tiny * half, 0x1p-141f);
  CU_ASSERT_EQUAL(_mm_getcsr() & 0xe040u, 0);
#endif
  CU_ASSERT_EQUAL(rintf(2.5f), 2.0f);
}

MT_TEST_MAIN("kernel rows", {"exp error", test_exp_error}, {"exp ends", test_exp_ends},
             {"exp monotone", test_exp_monotone}, {"gates", test_gates},
             {"gate ends", test_gate_ends}, {"norm", test_norm}, {"sum tree", test_sum_tree},
             {"rope", test_rope}, {"control word", test_fp_control})
