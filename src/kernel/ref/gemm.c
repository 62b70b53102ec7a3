/* Reference matrix products in portable C: the recipe of kernel.h, lane by lane. */
#include "ref.h"

enum { LANES = MT_PANEL_ROWS, TILE = 8 }; /* input rows that share the decoding of a weight */

typedef float tile[TILE][LANES];

/* Chain over k in [k0, k1) for n rows of x. */
static void chain_plain(const mt_matrix *m, const uint8_t *panel, size_t k0, size_t k1,
                        const float *x, size_t ld, size_t n, tile acc) {
  for (size_t k = k0; k < k1; k++) {
    float w[LANES];
    if (m->type == MT_F32)
      memcpy(w, panel + k * sizeof w, sizeof w);
    else
      for (size_t l = 0; l < LANES; l++) {
        uint16_t h = mt_load_u16(panel + (k * LANES + l) * 2);
        w[l] = m->type == MT_F16 ? mt_f16_to_f32(h) : mt_bf16_to_f32(h);
      }
    for (size_t t = 0; t < n; t++)
      for (size_t l = 0; l < LANES; l++) acc[t][l] = fma_f32(w[l], x[t * ld + k], acc[t][l]);
  }
}

static int32_t dot_block(const int8_t *w, const int16_t *q, size_t slots) {
  int32_t i = 0;
  for (size_t e = 0; e < slots; e++) i += (int32_t)w[e] * q[e];
  return i;
}

/* Chain over the blocks [b0, b1) for rows [row, row + n) of a. */
static void chain_quantized(const mt_matrix *m, size_t panel, size_t b0, size_t b1, const mt_act *a,
                            size_t row, size_t n, tile acc) {
  size_t slots = a->block_slots;
  bool has_min = mt_qinfo_get(m->type)->has_min;
  for (size_t b = b0; b < b1; b++)
    for (size_t l = 0; l < LANES; l++) {
      int8_t w[32];
      float dw, mw;
      mt_packed_values(m, panel, b, l, w);
      mt_packed_scales(m, panel, b, l, &dw, &mw);
      for (size_t t = 0; t < n; t++) {
        float da = a->scale[(row + t) * a->n_blocks + b];
        float sum = (float)a->sum[(row + t) * a->n_blocks + b];
        float f = (float)dot_block(w, a->q + (row + t) * a->q_stride + b * slots, slots);
        acc[t][l] = fma_f32(dw * da, f, acc[t][l]);
        if (has_min) acc[t][l] = fma_f32(mw, da * sum, acc[t][l]);
      }
    }
}

static void unit_sum(const mt_matrix *m, size_t panel, size_t u, const mt_act *a, size_t row,
                     size_t n, tile sum) {
  memset(sum, 0, sizeof(tile));
  for (size_t c = m->unit_chain[u]; c < m->unit_chain[u + 1]; c++) {
    tile acc = {{0}};
    if (mt_qinfo_get(m->type))
      chain_quantized(m, panel, m->chain[c], m->chain[c + 1], a, row, n, acc);
    else
      chain_plain(m, m->data + panel * m->panel_bytes, m->chain[c], m->chain[c + 1],
                  a->x + row * a->ld_x, a->ld_x, n, acc);
    for (size_t t = 0; t < n; t++)
      for (size_t l = 0; l < LANES; l++) sum[t][l] += acc[t][l];
  }
}

void mt_gemm_ref(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                 size_t row_begin, size_t row_end, float *out, size_t ld_out) {
  for (size_t p = panel_begin; p < panel_end; p++)
    for (size_t row = row_begin; row < row_end; row += TILE) {
      size_t n = row_end - row < TILE ? row_end - row : TILE;
      tile total = {{0}}, sum;
      for (size_t u = 0; u < m->n_units; u++) {
        unit_sum(m, p, u, a, row, n, sum);
        for (size_t t = 0; t < n; t++)
          for (size_t l = 0; l < LANES; l++) total[t][l] += sum[t][l];
      }
      for (size_t t = 0; t < n; t++)
        memcpy(out + (row + t) * ld_out + p * LANES, total[t], mt_panel_rows(m, p) * sizeof(float));
    }
}

int mt_gemm_units_ref(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                      size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld) {
  int failed = 0;
  for (size_t p = panel_begin; p < panel_end; p++)
    for (size_t row = row_begin; row < row_end; row += TILE) {
      size_t n = row_end - row < TILE ? row_end - row : TILE;
      for (size_t t = 0; t < n; t++)
        memset(acc + (row + t) * ld + p * LANES, 0, mt_panel_rows(m, p) * sizeof *acc);
      for (size_t u = 0; u < m->n_units; u++) {
        tile sum;
        if (m->unit[u] == m->unit[u + 1]) continue;
        unit_sum(m, p, u, a, row, n, sum);
        for (size_t t = 0; t < n; t++)
          failed += mt_add_units(sum[t], mt_panel_rows(m, p), mt_unit_factor(exp[row + t]),
                                 acc + (row + t) * ld + p * LANES);
      }
    }
  return failed;
}
