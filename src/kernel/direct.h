/* One or two rows of input, as in decode: the weights of a panel are read where they lie, in one
 * ascending stream, and the sums of all its units stay in registers. Then the table of the types.
 * Included by an instruction set of x86-64 at the end of its templates, which bring
 *   vec, ivec, VECTORS   LANES floats, as many bits, and how many of them make a panel
 *   direct_plain, direct_quantized, chains_plain, chains_quantized
 *   OUT_OF_THE_WAY(v)    keeps v in memory while blocks are multiplied, where registers are few
 * and, on one vector of sums,
 *   zero_vec, zero_bits, add_vec
 *   larger       the largest magnitudes yet, as bits
 *   below_limit  whether those of the first `rows` sums are below a limit
 *   add_rounded  adds rint(sum × factor) and MT_RINT_MAGIC_BITS to the integers [2]
 *   store_rows   stores the first `rows`; store_integers the integers, less `magic` */

/* All units of one panel, n rows. Gives up, with nothing written, where a sum is out of range. */
MT_INLINE bool direct(mt_dtype type, const walk *j, const int *exp, int64_t *to, float *out,
                      size_t ld, bool int8, size_t n) {
  const mt_act a = *j->a; /* its fields stay in registers */
  const mt_matrix *m = j->m;
  const size_t rows = mt_panel_rows(m, j->panel), at = j->row * ld + j->panel * MT_PANEL_ROWS;
  place p = start_of_panel(type, j);
  /* Read one by one, the scales of super-blocks would be a second stream beside that of the blocks.
   */
  for (size_t i = 0; i < m->n_supers * mt_record_size_of(type).super; i += 64)
    _mm_prefetch((const char *)p.supers + i, _MM_HINT_T0);
  vec total[DIRECT_ROWS][VECTORS];
  double factor[DIRECT_ROWS];
  ivec acc[DIRECT_ROWS][VECTORS][2], largest[DIRECT_ROWS][VECTORS];
  MT_UNROLL for (size_t t = 0; t < n; t++) {
    factor[t] = to ? mt_unit_factor(exp[j->row + t]) : 0;
    MT_UNROLL for (size_t v = 0; v < VECTORS; v++) {
      total[t][v] = zero_vec();
      acc[t][v][0] = acc[t][v][1] = largest[t][v] = zero_bits();
    }
  }
  for (size_t u = 0; u < m->n_units; u++) {
    vec sum[DIRECT_ROWS][VECTORS];
    MT_UNROLL for (size_t i = 0; i < n * VECTORS; i++) sum[i / VECTORS][i % VECTORS] = zero_vec();
    OUT_OF_THE_WAY(total);
    OUT_OF_THE_WAY(acc);
    OUT_OF_THE_WAY(largest);
    for (size_t c = m->unit_chain[u]; c < m->unit_chain[u + 1]; c++) {
      OUT_OF_THE_WAY(sum);
      vec chain[DIRECT_ROWS][VECTORS];
      MT_UNROLL for (size_t i = 0; i < n * VECTORS; i++) chain[i / VECTORS][i % VECTORS] =
          zero_vec();
      if (is_plain(type))
        direct_plain(type, j, c, n, chain);
      else
        direct_quantized(type, j, &a, &p, c, to != NULL, int8, n, chain);
      MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t v = 0; v < VECTORS; v++)
          sum[t][v] = add_vec(sum[t][v], chain[t][v]);
    }
    MT_UNROLL for (size_t t = 0; t < n; t++) MT_UNROLL for (size_t v = 0; v < VECTORS; v++) {
      if (!to) {
        total[t][v] = add_vec(total[t][v], sum[t][v]);
        continue;
      }
      largest[t][v] = larger(largest[t][v], sum[t][v]);
      add_rounded(acc[t][v], sum[t][v], factor[t]);
    }
  }
  for (size_t t = 0; to && t < n; t++)
    for (size_t v = 0; v < VECTORS && v * LANES < rows; v++)
      if (!below_limit(largest[t][v], mt_unit_limit_bits(exp[j->row + t]), rows - v * LANES))
        return false;
  const int64_t magic = (int64_t)(m->n_units * (uint64_t)MT_RINT_MAGIC_BITS);
  for (size_t t = 0; t < n; t++)
    for (size_t v = 0; v < VECTORS && v * LANES < rows; v++) {
      const size_t here = at + t * ld + v * LANES;
      if (to)
        store_integers(to + here, acc[t][v], magic, rows - v * LANES);
      else
        store_rows(out + here, total[t][v], rows - v * LANES);
    }
  return true;
}

MT_INLINE bool direct_rows(mt_dtype type, const walk *j, const int *exp, int64_t *to, float *out,
                           size_t ld) {
  const bool int8 = j->a->int8 && !is_plain(type);
  if (j->n == 1)
    return int8 ? direct(type, j, exp, to, out, ld, true, 1)
                : direct(type, j, exp, to, out, ld, false, 1);
  return int8 ? direct(type, j, exp, to, out, ld, true, 2)
              : direct(type, j, exp, to, out, ld, false, 2);
}

/* ---- by type ----------------------------------------------------------------------------- */

#define DEFINE_TYPE(name, type, chains_of)                                                 \
  static void NAME(chains_##name)(const walk *j, size_t c0, size_t c1) {                   \
    chains_of(type, j, c0, c1);                                                            \
  }                                                                                        \
  static bool NAME(direct_##name)(const walk *j, const int *exp, int64_t *acc, float *out, \
                                  size_t ld) {                                             \
    return direct_rows(type, j, exp, acc, out, ld);                                        \
  }

DEFINE_TYPE(f32, MT_F32, chains_plain)
DEFINE_TYPE(f16, MT_F16, chains_plain)
DEFINE_TYPE(bf16, MT_BF16, chains_plain)
DEFINE_TYPE(q8_0, MT_Q8_0, chains_quantized)
DEFINE_TYPE(q4_0, MT_Q4_0, chains_quantized)
DEFINE_TYPE(q4_1, MT_Q4_1, chains_quantized)
DEFINE_TYPE(q5_0, MT_Q5_0, chains_quantized)
DEFINE_TYPE(q5_1, MT_Q5_1, chains_quantized)
DEFINE_TYPE(q2_k, MT_Q2_K, chains_quantized)
DEFINE_TYPE(q3_k, MT_Q3_K, chains_quantized)
DEFINE_TYPE(q4_k, MT_Q4_K, chains_quantized)
DEFINE_TYPE(q5_k, MT_Q5_K, chains_quantized)
DEFINE_TYPE(q6_k, MT_Q6_K, chains_quantized)
DEFINE_TYPE(iq4_nl, MT_IQ4_NL, chains_quantized)
DEFINE_TYPE(iq4_xs, MT_IQ4_XS, chains_quantized)
DEFINE_TYPE(mxfp4, MT_MXFP4, chains_quantized)

#define TYPE(name) \
  { NAME(chains_##name), NAME(direct_##name) }
static const walk_fns FNS[MT_DTYPE_COUNT] = {
    [MT_F32] = TYPE(f32),     [MT_F16] = TYPE(f16),       [MT_BF16] = TYPE(bf16),
    [MT_Q8_0] = TYPE(q8_0),   [MT_Q4_0] = TYPE(q4_0),     [MT_Q4_1] = TYPE(q4_1),
    [MT_Q5_0] = TYPE(q5_0),   [MT_Q5_1] = TYPE(q5_1),     [MT_Q2_K] = TYPE(q2_k),
    [MT_Q3_K] = TYPE(q3_k),   [MT_Q4_K] = TYPE(q4_k),     [MT_Q5_K] = TYPE(q5_k),
    [MT_Q6_K] = TYPE(q6_k),   [MT_IQ4_NL] = TYPE(iq4_nl), [MT_IQ4_XS] = TYPE(iq4_xs),
    [MT_MXFP4] = TYPE(mxfp4),
};

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
