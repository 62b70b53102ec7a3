/* The KV cache's rounding, and attention against float64; segments, ranges, what lies outside a
 * range. */
#include "compare.h"

static const mt_kv_type TYPES[] = {MT_KV_F16, MT_KV_F32, MT_KV_Q8};
static const double STEP[] = {
    0x1p-11, 0, 0.5 / 127}; /* rounding: relative to x, none, relative to the maximum */

/* Element of a block as the layout of kernel.h says. */
static double element(const cache *c, bool value, size_t j, size_t d) {
  const uint8_t *b = (value ? c->v : c->k)[j / MT_KV_BLOCK];
  size_t slot = j % MT_KV_BLOCK;
  size_t i = value ? slot * c->head_dim + d
                   : (slot / MT_KV_TILE * c->head_dim + d) * MT_KV_TILE + slot % MT_KV_TILE;
  float f, scale;
  if (c->type == MT_KV_F16) {
    mt_dequantize(MT_F16, b + 2 * i, 1, &f);
    return (double)f;
  }
  if (c->type == MT_KV_F32) {
    memcpy(&f, b + 4 * i, 4);
    return (double)f;
  }
  memcpy(&scale, b + MT_KV_BLOCK * c->head_dim + 4 * slot, 4);
  return (double)(scale * (float)(int8_t)b[i]);
}

static void test_store(void) {
  rng r = {.seed = mt_test_seed()};
  enum { DIM = 40 };
  for (size_t t = 0; t < 3; t++) {
    cache c;
    cache_new(&c, TYPES[t], DIM);
    CU_ASSERT_EQUAL(mt_kv_v_bytes(TYPES[t], DIM), c.bytes);
    for (size_t j = 0; j < 130; j++) {
      float x[2][DIM], max[2] = {0, 0};
      for (size_t i = 0; i < DIM; i++)
        for (int v = 0; v < 2; v++) {
          x[v][i] = ldexpf(normalish(&r), (int)below(&r, 12) - 6);
          max[v] = fmaxf(max[v], fabsf(x[v][i]));
        }
      cache_store(&c, kernels(NULL), j, x[0], x[1]);
      for (size_t i = 0; i < DIM; i++)
        for (int v = 0; v < 2; v++) {
          double want = (double)x[v][i], got = element(&c, v, j, i);
          double size = TYPES[t] == MT_KV_Q8 ? (double)max[v] * 1.00001 : fabs(want);
          CU_ASSERT(fabs(got - want) <= STEP[t] * size + (t == 0 ? 0x1p-25 : 0));
        }
    }
    cache_free(&c);
  }
}

/* f16: nearest even, gradual underflow, overflow to infinity; on every float near a border. */
static void test_f16_rounding(void) {
  enum { DIM = 8 };
  for (int table = 0; table < 2; table++) {
    cache c;
    cache_new(&c, MT_KV_F16, DIM);
    size_t bad = 0;
    for (unsigned h = 0; h < 0x7c00; h += 3) {
      uint16_t half = (uint16_t)h, next = (uint16_t)(h + 1);
      float lo, hi, x[DIM];
      mt_dequantize(MT_F16, &half, 1, &lo);
      mt_dequantize(MT_F16, &next, 1, &hi);
      if (h == 0x7bff) hi = 65536;
      float mid = lo + (hi - lo) / 2; /* a tie: goes to the even one */
      x[0] = lo, x[1] = nextafterf(mid, lo), x[2] = mid, x[3] = nextafterf(mid, hi);
      for (int i = 0; i < 4; i++) x[4 + i] = -x[i];
      cache_store(&c, kernels(table ? NULL : "ref"), 0, x, x);
      double up = h == 0x7bff ? INFINITY : (double)hi;
      double want[4] = {(double)lo, (double)lo, h % 2 ? up : (double)lo, up};
      for (int i = 0; i < 8; i++)
        bad += element(&c, true, 0, (size_t)i) != (i < 4 ? want[i] : -want[i - 4]);
    }
    CU_ASSERT_EQUAL(bad, 0);
    cache_free(&c);
  }
}

static void test_q8_ends(void) {
  enum { DIM = 3 };
  cache c;
  cache_new(&c, MT_KV_Q8, DIM);
  float zero[DIM] = {0}, tiny[DIM] = {0x1p-130f, 0, 0}, bad[DIM] = {1, INFINITY, 0};
  cache_store(&c, kernels(NULL), 0, zero, tiny);
  cache_store(&c, kernels(NULL), 1, bad, zero);
  CU_ASSERT_EQUAL(element(&c, false, 0, 1), 0);
  CU_ASSERT_EQUAL(element(&c, true, 0, 0), 0);
  CU_ASSERT(isnan(element(&c, false, 1, 0)));
  cache_free(&c);
}

/* ---- attention ------------------------------------------------------------------------------- */

static void fill(cache *c, rng *r, size_t n) {
  float k[MAX_DIM], v[MAX_DIM];
  for (size_t j = 0; j < n; j++) {
    for (size_t i = 0; i < c->head_dim; i++) {
      k[i] = normalish(r) * 2;
      v[i] = normalish(r);
    }
    cache_store(c, kernels(NULL), j, k, v);
  }
}

static void oracle(const cache *c, const float *q, double scale, size_t lo, size_t hi,
                   double *out) {
  double s[MT_ATTN_SEGMENT], max = -INFINITY, sum = 0;
  for (size_t j = lo; j < hi; j++) {
    s[j] = 0;
    for (size_t d = 0; d < c->head_dim; d++) s[j] += (double)q[d] * element(c, false, j, d);
    s[j] *= scale;
    max = fmax(max, s[j]);
  }
  for (size_t d = 0; d < c->head_dim; d++) out[d] = 0;
  for (size_t j = lo; j < hi; j++) {
    double p = exp(s[j] - max);
    sum += p;
    for (size_t d = 0; d < c->head_dim; d++) out[d] += p * element(c, true, j, d);
  }
  for (size_t d = 0; d < c->head_dim; d++) out[d] /= sum;
}

static void random_query(rng *r, float *q, size_t n) {
  for (size_t i = 0; i < n; i++) q[i] = normalish(r) * 3;
}

/* Scores are a few units wide and sums of head_dim terms, so weights err by some 1e-6 relative;
 * values are below 2. */
enum { N_KEYS = 500 };
static void test_float64(void) {
  rng r = {.seed = mt_test_seed()};
  static const size_t DIMS[] = {20, 64, 128};
  double worst = 0;
  for (size_t t = 0; t < 3; t++)
    for (size_t i = 0; i < 3; i++) {
      cache c;
      cache_new(&c, TYPES[t], DIMS[i]);
      fill(&c, &r, N_KEYS);
      for (int round = 0; round < 6; round++) {
        float q[MAX_DIM], acc[MAX_DIM], out[MAX_DIM];
        double want[MAX_DIM];
        float p[MT_ATTN_SEGMENT], scale = 1 / sqrtf((float)DIMS[i]);
        size_t lo = round ? below(&r, N_KEYS) : 0;
        size_t hi = round ? lo + 1 + below(&r, N_KEYS - lo) : N_KEYS;
        mt_attn_part part = {.acc = acc};
        random_query(&r, q, DIMS[i]);
        kernels(NULL)->attend(c.type, c.head_dim, q, scale, c.k, c.v, lo, hi, &part, p);
        kernels(NULL)->attend_finish(c.head_dim, &part, out);
        oracle(&c, q, (double)scale, lo, hi, want);
        double sum = 0;
        for (size_t d = 0; d < DIMS[i]; d++) {
          worst = fmax(worst, fabs((double)out[d] - want[d]));
          CU_ASSERT(fabs((double)out[d] - want[d]) <= 3e-6);
        }
        for (size_t j = lo; j < hi; j++) {
          CU_ASSERT(p[j] >= 0 && p[j] <= 1);
          sum += (double)p[j];
        }
        CU_ASSERT(fabs(sum - (double)part.sum) <= 1e-6 * sum);
      }
      cache_free(&c);
    }
  printf("largest error %.3g\n", worst);
  CU_ASSERT(worst > 1e-8);
}

/* What lies outside [lo, hi) never shows, be it NaN. */
static void test_outside(void) {
  rng r = {.seed = mt_test_seed()};
  enum { DIM = 48 };
  for (size_t t = 0; t < 3; t++) {
    cache c;
    float q[DIM], acc[2][DIM], bad[DIM];
    for (size_t i = 0; i < DIM; i++) bad[i] = NAN;
    cache_new(&c, TYPES[t], DIM);
    fill(&c, &r, 100);
    random_query(&r, q, DIM);
    mt_attn_part part[2] = {{.acc = acc[0]}, {.acc = acc[1]}};
    kernels(NULL)->attend(c.type, DIM, q, 0.2f, c.k, c.v, 21, 71, &part[0], NULL);
    for (size_t j = 0; j < 100; j++)
      if (j < 21 || j >= 71) cache_store(&c, kernels(NULL), j, bad, bad);
    kernels(NULL)->attend(c.type, DIM, q, 0.2f, c.k, c.v, 21, 71, &part[1], NULL);
    CU_ASSERT(part[0].max == part[1].max && part[0].sum == part[1].sum);
    CU_ASSERT(!memcmp(acc[0], acc[1], sizeof acc[0]));
    CU_ASSERT(!isnan(part[0].sum));
    cache_free(&c);
  }
}

/* Segments merged in order give the attention over all, and the recipe's very bits. */
static void test_merge(void) {
  rng r = {.seed = mt_test_seed()};
  enum { DIM = 72 };
  const mt_kernels *kn = kernels(NULL);
  cache c;
  cache_new(&c, MT_KV_F32, DIM);
  fill(&c, &r, N_KEYS);
  for (int round = 0; round < 20; round++) {
    float q[DIM], acc[3][DIM], out[DIM], was[DIM];
    double want[DIM];
    mt_attn_part part[3] = {{.acc = acc[0]}, {.acc = acc[1]}, {.acc = acc[2]}};
    size_t a = 1 + below(&r, 200), b = a + 1 + below(&r, 200);
    random_query(&r, q, DIM);
    kn->attend(c.type, DIM, q, 0.1f, c.k, c.v, 0, a, &part[0], NULL);
    kn->attend(c.type, DIM, q, 0.1f, c.k, c.v, a, b, &part[1], NULL);
    kn->attend(c.type, DIM, q, 0.1f, c.k, c.v, b, N_KEYS, &part[2], NULL);
    memcpy(was, acc[0], sizeof was);
    float m = fmaxf(part[0].max, part[1].max), e[2], d[2] = {part[0].max - m, part[1].max - m};
    kn->exp(d, 2, e);
    float sum = fmaf(part[1].sum, e[1], part[0].sum * e[0]);
    kn->attend_merge(DIM, &part[0], &part[1]);
    CU_ASSERT(part[0].max == m && part[0].sum == sum);
    for (size_t i = 0; i < DIM; i++)
      CU_ASSERT_EQUAL(acc[0][i], fmaf(acc[1][i], e[1], was[i] * e[0]));
    kn->attend_merge(DIM, &part[0], &part[2]);
    kn->attend_finish(DIM, &part[0], out);
    oracle(&c, q, (double)0.1f, 0, N_KEYS, want);
    for (size_t i = 0; i < DIM; i++) CU_ASSERT(fabs((double)out[i] - want[i]) <= 3e-6);
  }
  cache_free(&c);
}

/* The recipe's bits for one segment, written out for f32. */
static void test_recipe(void) {
  rng r = {.seed = mt_test_seed()};
  enum { DIM = 20, N = 150, LO = 9 };
  const mt_kernels *kn = kernels(NULL);
  cache c;
  float q[DIM], acc[DIM], p[N], lane[16] = {0}, max = -INFINITY;
  mt_attn_part part = {.acc = acc};
  cache_new(&c, MT_KV_F32, DIM);
  fill(&c, &r, N);
  random_query(&r, q, DIM);
  kn->attend(c.type, DIM, q, 0.3f, c.k, c.v, LO, N, &part, NULL);
  for (size_t j = LO; j < N; j++) {
    p[j] = 0;
    for (size_t d = 0; d < DIM; d++) p[j] = fmaf(q[d], (float)element(&c, false, j, d), p[j]);
    p[j] *= 0.3f;
    max = fmaxf(max, p[j]);
  }
  for (size_t j = LO; j < N; j++) {
    p[j] -= max;
    kn->exp(p + j, 1, p + j);
    lane[j % 16] += p[j];
  }
  for (size_t width = 8; width; width /= 2)
    for (size_t l = 0; l < width; l++) lane[l] += lane[l + width];
  CU_ASSERT(part.max == max && part.sum == lane[0]);
  for (size_t d = 0; d < DIM; d++) {
    float a = 0;
    for (size_t j = LO; j < N; j++) a = fmaf(p[j], (float)element(&c, true, j, d), a);
    CU_ASSERT_EQUAL(acc[d], a);
  }
  cache_free(&c);
}

MT_TEST_MAIN("kernel attention", {"store", test_store}, {"f16 rounding", test_f16_rounding},
             {"q8 ends", test_q8_ends}, {"float64", test_float64}, {"outside", test_outside},
             {"merge", test_merge}, {"recipe", test_recipe})
