/* One or two rows of input, as in decode: the weights of a panel are read where they lie, in one
 * ascending stream, and the sums of all its units stay in registers. Then by_type.h.
 * Included by an instruction set of x86-64 at the end of its templates, which bring
 *   vec, ivec, VECTORS   LANES floats, as many bits, and how many of them make a panel
 *   super_scales              scales of a super-block, and which one it is
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
  super_scales super = {.at = SIZE_MAX};
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
        direct_quantized(type, j, &a, &p, &super, c, int8, n, chain);
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

#define HAS_DIRECT
#include "by_type.h"
