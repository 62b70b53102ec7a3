/* That packing keeps what the bytes of a file mean: halves, reading rows back, layout tables. */
#include "kernel_test.h"

/* Every f16 and bf16 against arithmetic with powers of two. */
static void test_halves(void) {
  unsigned bad = 0;
  for (unsigned h = 0; h < 65536; h++) {
    uint16_t raw = (uint16_t)h;
    float f, b;
    mt_dequantize(MT_F16, &raw, 1, &f);
    mt_dequantize(MT_BF16, &raw, 1, &b);
    int e = h >> 10 & 31, eb = h >> 7 & 255;
    double m = h & 1023, mb = h & 127, sign = h >> 15 ? -1 : 1;
    double want = e == 0 ? ldexp(m, -24) : e == 31 ? (m ? NAN : INFINITY) : ldexp(1024 + m, e - 25);
    double want_b = eb == 0     ? ldexp(mb, -133)
                    : eb == 255 ? (mb ? NAN : INFINITY)
                                : ldexp(128 + mb, eb - 134);
    bool ok = isnan(want) ? isnan(f) : f == (float)(sign * want) && !signbit(f) == !signbit(sign);
    ok = ok && (isnan(want_b) ? isnan(b) : b == (float)(sign * want_b));
    bad += !ok;
  }
  CU_ASSERT_EQUAL(bad, 0);
}

/* ---- packing --------------------------------------------------------------------------------- */

static const struct {
  size_t cols, k_begin, unit;
} CUTS[] = {{256, 0, 0},     {1, 0, 0},        {37, 13, 0},  {144, 24, 24},  {400, 240, 80},
            {640, 128, 128}, {1000, 300, 600}, {96, 250, 1}, {520, 520, 260}};

static void check_rows(const weight *w) {
  float *want = weight_values(w), *got = malloc((w->m.cols + 1) * sizeof *got);
  for (size_t r = 0; r < w->m.rows; r++) {
    mt_matrix_row(&w->m, r, got);
    CU_ASSERT(!memcmp(got, want + r * w->m.cols, w->m.cols * sizeof *got));
  }
  free(want);
  free(got);
}

static void test_rows_come_back(void) {
  rng r = {.seed = mt_test_seed()};
  static const char *const TABLES[] = {"ref", "openblas"};
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; i < N_WEIGHT_TYPES; i++)
      for (size_t c = 0; c < sizeof CUTS / sizeof CUTS[0]; c++) {
        uint32_t unit[1100] = {0};
        size_t n = 0, width = CUTS[c].unit ? CUTS[c].unit : CUTS[c].cols;
        for (; unit[n] < CUTS[c].cols; n++)
          unit[n + 1] = (uint32_t)(unit[n] + width < CUTS[c].cols ? unit[n] + width : CUTS[c].cols);
        weight w = {0};
        weight_new(&w, &r, kernels(TABLES[k]), WEIGHT_TYPES[i], 21, CUTS[c].cols, CUTS[c].k_begin,
                   unit, n, c % 2 ? 0 : 8, 16);
        check_rows(&w);
        weight_free(&w);
      }
}

/* Rows packed in pieces, and twice over other content, give the same bytes as packed at once. */
static void test_pieces(void) {
  rng r = {.seed = mt_test_seed()};
  for (size_t i = 0; i < N_WEIGHT_TYPES; i++) {
    weight w = {0};
    weight_new(&w, &r, kernels("ref"), WEIGHT_TYPES[i], 40, 288, 256, NULL, 0, 8, 16);
    mt_matrix again = w.m;
    again.data = mt_pages_alloc(w.m.data_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(again.data);
    mt_matrix_pack(&again, 0, 40, w.file + 0, 0,
                   w.src_k); /* row 0 everywhere, then the right ones */
    for (size_t at = 0, n; at < 40; at += n) {
      n = 1 + below(&r, 40 - at);
      mt_matrix_pack(&again, at, n, w.file + at * w.row_bytes, w.row_bytes, w.src_k);
    }
    CU_ASSERT(!memcmp(again.data, w.m.data, w.m.data_bytes));
    mt_pages_free(again.data, w.m.data_bytes);
    weight_free(&w);
  }
}

/* Whole panels, which are packed 16 rows at a time, against one row at a time: slices that begin
 * and end within a block of 256 or of 32, tails of plain types, a last panel with fewer rows, rows
 * that lie in another order in the file. */
static void test_panels(void) {
  static const struct {
    size_t cols, k_begin;
  } SLICE[] = {{512, 0},  {1024, 256}, {128, 128}, {320, 192}, {768, 96},
               {2304, 0}, {288, 32},   {84, 0},    {37, 5},    {250, 16}};
  rng r = {.seed = mt_test_seed()};
  for (size_t i = 0; i < N_WEIGHT_TYPES; i++)
    for (size_t c = 0; c < sizeof SLICE / sizeof SLICE[0]; c++) {
      enum { ROWS = 39 };
      weight w = {0};
      weight_new(&w, &r, kernels("ref"), WEIGHT_TYPES[i], ROWS, SLICE[c].cols, SLICE[c].k_begin,
                 NULL, 0, 8, 16);
      mt_matrix turned = w.m, single = w.m;
      turned.data = mt_pages_alloc(w.m.data_bytes);
      single.data = mt_pages_alloc(w.m.data_bytes);
      CU_ASSERT_FATAL(turned.data && single.data);
      for (size_t k = 0; k < ROWS; k++)
        mt_matrix_pack(&single, k, 1, w.file + (ROWS - 1 - k) * w.row_bytes, w.row_bytes, w.src_k);
      for (size_t p = 0; p < w.m.n_panels; p++) {
        const void *row[MT_PANEL_ROWS] = {0};
        for (size_t k = 0; k < MT_PANEL_ROWS && p * MT_PANEL_ROWS + k < ROWS; k++)
          row[k] = w.file + (ROWS - 1 - p * MT_PANEL_ROWS - k) * w.row_bytes;
        mt_matrix_pack_panel(&turned, p, row, w.src_k);
      }
      CU_ASSERT(!memcmp(turned.data, single.data, w.m.data_bytes));
      mt_pages_free(turned.data, w.m.data_bytes);
      mt_pages_free(single.data, w.m.data_bytes);
      weight_free(&w);
    }
}

/* Blocks tile K, never straddle a unit or a block of the file; chains begin where they should;
 * memory is as docs/kernels.md says. */
static void check_tables(const mt_matrix *m, size_t unit, size_t slots) {
  size_t k = 0;
  for (size_t b = 0; b < m->n_blocks; b++) {
    const mt_kblock *kb = &m->block[b];
    CU_ASSERT(kb->begin == k && kb->len >= 1 && kb->len <= slots);
    CU_ASSERT_EQUAL(kb->begin / unit, (kb->begin + kb->len - 1) / unit);
    CU_ASSERT_EQUAL((m->k_begin + kb->begin) / slots,
                    (m->k_begin + kb->begin + kb->len - 1) / slots);
    k += kb->len;
  }
  CU_ASSERT_EQUAL(k, m->cols);
  for (size_t u = 0; u < m->n_units; u++)
    for (size_t c = m->unit_chain[u]; c < m->unit_chain[u + 1]; c++) {
      size_t from = m->unit[u] + (c - m->unit_chain[u]) * MT_CHAIN;
      CU_ASSERT(m->block[m->chain[c]].begin >= from);
      CU_ASSERT(m->chain[c] == 0 || m->block[m->chain[c] - 1].begin < from);
    }
}

static void test_tables(void) {
  mt_matrix m;
  for (size_t i = 3; i < N_WEIGHT_TYPES; i++) {
    mt_dtype type = WEIGHT_TYPES[i];
    size_t slots = type == MT_Q2_K || type == MT_Q3_K || type == MT_Q6_K ? 16 : 32;
    static const uint32_t UNIT[][4] = {{0, 24, 48, 72}, {0, 80, 160, 240}, {0, 600, 1200, 1800}};
    for (size_t u = 0; u < 3; u++) {
      CU_ASSERT_EQUAL_FATAL(
          mt_matrix_init(&m, kernels("ref"), type, 3, UNIT[u][3], UNIT[u][1], UNIT[u], 3, NULL), 0);
      check_tables(&m, UNIT[u][1], slots);
      mt_matrix_fini(&m);
    }
    CU_ASSERT_EQUAL(mt_matrix_init(&m, kernels("ref"), type, 64, 4096, 0, NULL, 0, NULL), 0);
    double file = (double)mt_dtype_row_bytes(type, 4096) * 64;
    CU_ASSERT((double)m.data_bytes <= 1.04 * file);
    size_t bytes = m.data_bytes;
    mt_matrix_fini(&m);
    /* a slice from far inside takes no more */
    CU_ASSERT_EQUAL(mt_matrix_init(&m, kernels("ref"), type, 64, 4096, 8192, NULL, 0, NULL), 0);
    CU_ASSERT_EQUAL(m.data_bytes, bytes);
    mt_matrix_fini(&m);
  }
}

static void test_bad_layouts(void) {
  static const uint32_t DOWN[] = {0, 40, 20, 64}, SHORT[] = {0, 32}, LATE[] = {1, 64};
  const mt_kernels *kn = kernels("ref");
  mt_matrix m;
  mt_err e = {0};
  CU_ASSERT_EQUAL(mt_matrix_init(&m, kn, MT_I8, 4, 64, 0, NULL, 0, &e), MT_EUNSUPPORTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, "I8"));
  CU_ASSERT_EQUAL(mt_matrix_init(&m, kn, MT_DTYPE_COUNT, 4, 64, 0, NULL, 0, &e), MT_EUNSUPPORTED);
  CU_ASSERT_EQUAL(mt_matrix_init(&m, kn, MT_Q8_0, 4, 64, 0, DOWN, 3, &e), MT_ERANGE);
  CU_ASSERT_EQUAL(mt_matrix_init(&m, kn, MT_F32, 4, 64, 0, SHORT, 1, &e), MT_ERANGE);
  CU_ASSERT_EQUAL(mt_matrix_init(&m, kn, MT_F32, 4, 64, 0, LATE, 1, &e), MT_ERANGE);
  CU_ASSERT_EQUAL(mt_matrix_init(&m, kn, MT_F32, SIZE_MAX / 16, 4096, 0, NULL, 0, &e), MT_ERANGE);
  CU_ASSERT_EQUAL(mt_matrix_init(&m, kn, MT_F32, SIZE_MAX, 1, 0, NULL, 0, &e), MT_ERANGE);
  CU_ASSERT_EQUAL(mt_matrix_init(&m, kn, MT_F32, 1, 1ull << 33, 0, NULL, 0, &e), MT_ERANGE);
}

/* A rank without a share: no rows, or no columns; the product is then 0. */
static void test_empty(void) {
  static const char *const TABLES[] = {"ref", NULL, "openblas"};
  static const mt_dtype TYPES[] = {MT_F32, MT_Q4_K};
  for (size_t k = 0; k < 3; k++)
    for (size_t i = 0; i < 2; i++) {
      const mt_kernels *kn = kernels(TABLES[k]);
      static const uint32_t none[1] = {0};
      float x[3] = {1, 2, 3}, out[3] = {7, 7, 7};
      int64_t sum[3] = {5, 6, 7};
      int exp[1] = {0};
      mt_matrix m;
      mt_act a = {0};
      CU_ASSERT_EQUAL_FATAL(mt_matrix_init(&m, kn, TYPES[i], 3, 0, 64, none, 0, NULL), 0);
      CU_ASSERT_EQUAL(m.data_bytes, 0);
      m.data = mt_pages_alloc(m.data_bytes);
      mt_matrix_pack(&m, 0, 3, x, 0, 0);
      CU_ASSERT_EQUAL_FATAL(mt_act_reserve(&a, &m, x, 0, 1, NULL), 0);
      kn->quantize(&a, &m, 0, 1);
      kn->gemm(&m, 0, m.n_panels, &a, 0, 1, out, 3);
      CU_ASSERT(out[0] == 0 && out[1] == 0 && out[2] == 0);
      CU_ASSERT_EQUAL(kn->gemm_units(&m, 0, m.n_panels, &a, 0, 1, exp, sum, 3), 0);
      CU_ASSERT(sum[0] == 0 && sum[1] == 0 && sum[2] == 0);
      mt_act_free(&a);
      mt_pages_free(m.data, 0);
      mt_matrix_fini(&m);
      CU_ASSERT_EQUAL_FATAL(mt_matrix_init(&m, kn, TYPES[i], 0, 256, 0, NULL, 0, NULL), 0);
      CU_ASSERT_EQUAL(m.n_panels, 0);
      mt_matrix_fini(&m);
    }
}

static void test_same_blocks(void) {
  static const uint32_t UNIT[] = {0, 80, 256};
  const mt_kernels *kn = kernels("ref");
  mt_matrix a, b, c, d, f, g;
  mt_matrix_init(&a, kn, MT_Q4_0, 5, 256, 0, NULL, 0, NULL);
  mt_matrix_init(&b, kn, MT_Q5_K, 9, 256, 256, NULL, 0, NULL);
  mt_matrix_init(&c, kn, MT_Q6_K, 9, 256, 0, NULL, 0, NULL);
  mt_matrix_init(&d, kn, MT_Q4_0, 9, 256, 0, UNIT, 2, NULL);
  mt_matrix_init(&f, kn, MT_F32, 9, 256, 0, UNIT, 2, NULL);
  mt_matrix_init(&g, kn, MT_BF16, 2, 256, 0, NULL, 0, NULL);
  CU_ASSERT(mt_matrix_same_blocks(&a, &b));
  CU_ASSERT_FALSE(mt_matrix_same_blocks(&a, &c));
  CU_ASSERT_FALSE(mt_matrix_same_blocks(&a, &d));
  CU_ASSERT_FALSE(mt_matrix_same_blocks(&a, &f));
  CU_ASSERT(mt_matrix_same_blocks(&f, &g));
  mt_matrix *all[] = {&a, &b, &c, &d, &f, &g};
  for (size_t i = 0; i < 6; i++) mt_matrix_fini(all[i]);
}

MT_TEST_MAIN("kernel packing", {"halves", test_halves}, {"rows come back", test_rows_come_back},
             {"pieces", test_pieces}, {"panels", test_panels}, {"tables", test_tables},
             {"bad layouts", test_bad_layouts}, {"empty", test_empty},
             {"same blocks", test_same_blocks})
