/* The kernels of each weight type, and the products that choose among them. Included by every
 * instruction set after chains_plain and chains_quantized and, with HAS_DIRECT, direct_rows. */

#define WEIGHT_TYPES(X)           \
  X(f32, MT_F32, plain)           \
  X(f16, MT_F16, plain)           \
  X(bf16, MT_BF16, plain)         \
  X(q8_0, MT_Q8_0, quantized)     \
  X(q4_0, MT_Q4_0, quantized)     \
  X(q4_1, MT_Q4_1, quantized)     \
  X(q5_0, MT_Q5_0, quantized)     \
  X(q5_1, MT_Q5_1, quantized)     \
  X(q2_k, MT_Q2_K, quantized)     \
  X(q3_k, MT_Q3_K, quantized)     \
  X(q4_k, MT_Q4_K, quantized)     \
  X(q5_k, MT_Q5_K, quantized)     \
  X(q6_k, MT_Q6_K, quantized)     \
  X(iq4_nl, MT_IQ4_NL, quantized) \
  X(iq4_xs, MT_IQ4_XS, quantized) \
  X(mxfp4, MT_MXFP4, quantized)

#ifdef HAS_DIRECT
#define DEFINE_DIRECT(name, type)                                                          \
  static bool NAME(direct_##name)(const walk *j, const int *exp, int64_t *acc, float *out, \
                                  size_t ld) {                                             \
    return direct_rows(type, j, exp, acc, out, ld);                                        \
  }
#define DIRECT_OF(name) NAME(direct_##name)
#else
#define DEFINE_DIRECT(name, type)
#define DIRECT_OF(name) NULL
#endif
#define DEFINE_TYPE(name, type, kind)                                    \
  static void NAME(chains_##name)(const walk *j, size_t c0, size_t c1) { \
    chains_##kind(type, j, c0, c1);                                      \
  }                                                                      \
  DEFINE_DIRECT(name, type)
#define TYPE_ROW(name, type, kind) [type] = {NAME(chains_##name), DIRECT_OF(name)},

WEIGHT_TYPES(DEFINE_TYPE)

static const walk_fns FNS[MT_DTYPE_COUNT] = {WEIGHT_TYPES(TYPE_ROW)};

void NAME(mt_gemm)(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                   size_t row_begin, size_t row_end, float *out, size_t ld_out) {
  walk_panels(m, panel_begin, panel_end, a, row_begin, row_end, &FNS[m->type], NULL, NULL, out,
              ld_out);
}

int NAME(mt_gemm_units)(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                        size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld) {
  return walk_panels(m, panel_begin, panel_end, a, row_begin, row_end, &FNS[m->type], exp, acc,
                     NULL, ld);
}
