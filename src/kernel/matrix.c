/* Packed weights: layout, packing, reading a row back. */
#include <stdlib.h>

#include "impl.h"

enum { CACHE_LINE = 64, PACK_TILE = 64 };

/* ---- layout ------------------------------------------------------------------------------ */

static int check_units(const uint32_t *unit, size_t n_units, size_t cols, mt_err *e) {
  bool ok = cols <= INT32_MAX && unit[0] == 0 && unit[n_units] == cols;
  for (size_t u = 0; ok && u < n_units; u++) ok = unit[u] <= unit[u + 1];
  return ok ? MT_OK : mt_err_set(e, MT_ERANGE, "unit borders do not ascend from 0 to %zu", cols);
}

static int copy_units(mt_matrix *m, const uint32_t *unit, size_t n_units, mt_err *e) {
  uint32_t whole[2] = {0, (uint32_t)m->cols};
  if (!unit) {
    unit = whole;
    n_units = 1;
  }
  int rc = check_units(unit, n_units, m->cols, e);
  if (rc) return rc;
  m->n_units = n_units;
  m->unit = mt_malloc(n_units + 1, sizeof *m->unit);
  m->unit_chain = mt_malloc(n_units + 1, sizeof *m->unit_chain);
  if (!m->unit || !m->unit_chain) return mt_err_set(e, MT_ENOMEM, "no memory for unit tables");
  memcpy(m->unit, unit, (n_units + 1) * sizeof *unit);
  return MT_OK;
}

/* Cuts the file's blocks at unit borders; with block NULL only counts. */
static size_t cut_blocks(const mt_matrix *m, const mt_qinfo *qi, mt_kblock *block) {
  size_t n = 0, super_elems = mt_dtype_get(m->type)->block_elems;
  for (size_t u = 0; u < m->n_units; u++) {
    size_t k = m->unit[u], end = m->unit[u + 1];
    while (k < end) {
      size_t len = qi->slots - (m->k_begin + k) % qi->slots;
      if (len > end - k) len = end - k;
      if (block)
        block[n] = (mt_kblock){
            .begin = (uint32_t)k,
            .len = (uint32_t)len,
            .super = qi->super_bytes
                         ? (uint32_t)((m->k_begin + k) / super_elems - m->k_begin / super_elems)
                         : 0};
      n++;
      k += len;
    }
  }
  return n;
}

/* Borders of the chains and their places; with chain NULL only counts. */
static size_t cut_chains(mt_matrix *m, uint32_t *chain, uint8_t *place) {
  size_t n = 0, b = 0;
  for (size_t u = 0; u < m->n_units; u++) {
    m->unit_chain[u] = (uint32_t)n;
    for (size_t k = m->unit[u]; k < m->unit[u + 1]; k += MT_CHAIN) {
      while (m->block && b < m->n_blocks && m->block[b].begin < k) b++;
      if (chain) {
        chain[n] = (uint32_t)(m->block ? b : k);
        place[n] = (k == m->unit[u] ? MT_UNIT_FIRST : 0) |
                   (m->unit[u + 1] - k <= MT_CHAIN ? MT_UNIT_LAST : 0);
      }
      n++;
    }
    while (m->block && b < m->n_blocks && m->block[b].begin < m->unit[u + 1]) b++;
  }
  m->unit_chain[m->n_units] = (uint32_t)n;
  if (chain) chain[n] = (uint32_t)(m->block ? m->n_blocks : m->cols);
  return n;
}

static int make_tables(mt_matrix *m, mt_err *e) {
  const mt_qinfo *qi = mt_qinfo_get(m->type);
  if (qi) {
    m->n_blocks = cut_blocks(m, qi, NULL);
    m->block = mt_malloc(m->n_blocks, sizeof *m->block);
    if (!m->block) return mt_err_set(e, MT_ENOMEM, "no memory for block tables");
    cut_blocks(m, qi, m->block);
    m->n_supers = m->n_blocks && qi->super_bytes ? m->block[m->n_blocks - 1].super + 1u : 0;
  }
  size_t n_chains = cut_chains(m, NULL, NULL);
  m->chain = mt_malloc(n_chains + 1, sizeof *m->chain);
  m->place = mt_malloc(n_chains + 1, sizeof *m->place);
  if (!m->chain || !m->place) return mt_err_set(e, MT_ENOMEM, "no memory for chain tables");
  cut_chains(m, m->chain, m->place);
  return MT_OK;
}

static int measure(mt_matrix *m, mt_err *e) {
  const mt_qinfo *qi = mt_qinfo_get(m->type);
  size_t bytes;
  if (qi)
    bytes = m->n_supers * qi->super_bytes + m->n_blocks * qi->record_bytes;
  else
    bytes = m->cols * MT_PANEL_ROWS *
            (m->layout == MT_LAYOUT_ROWS_F32 ? 4 : mt_dtype_get(m->type)->block_bytes);
  m->panel_bytes = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
  if (m->layout == MT_LAYOUT_ROWS_F32) m->panel_bytes = bytes; /* rows follow without a gap */
  m->n_panels = m->rows / MT_PANEL_ROWS + (m->rows % MT_PANEL_ROWS != 0);
  if (!mt_size_mul(m->n_panels, m->panel_bytes, &m->data_bytes))
    return mt_err_set(e, MT_ERANGE, "a matrix of %zu x %zu does not fit", m->rows, m->cols);
  return MT_OK;
}

int mt_matrix_init(mt_matrix *m, const mt_kernels *kn, mt_dtype type, size_t rows, size_t cols,
                   size_t k_begin, const uint32_t *unit, size_t n_units, mt_err *e) {
  *m = (mt_matrix){.type = type, .rows = rows, .cols = cols, .k_begin = k_begin};
  if ((unsigned)type >= MT_DTYPE_COUNT || !mt_dtype_get(type)->weight)
    return mt_err_set(e, MT_EUNSUPPORTED, "no kernel multiplies with type %s",
                      (unsigned)type < MT_DTYPE_COUNT ? mt_dtype_get(type)->name : "?");
  if (!kn->exact && !mt_dtype_get(type)->quantized) m->layout = MT_LAYOUT_ROWS_F32;
  int rc = copy_units(m, unit, n_units, e);
  if (!rc) rc = make_tables(m, e);
  if (!rc) rc = measure(m, e);
  if (rc) mt_matrix_fini(m);
  return rc;
}

void mt_matrix_fini(mt_matrix *m) {
  free(m->unit);
  free(m->unit_chain);
  free(m->chain);
  free(m->place);
  free(m->block);
  *m = (mt_matrix){0};
}

/* ---- packing ----------------------------------------------------------------------------- */

static uint32_t load_u32(const void *p) {
  uint32_t u;
  memcpy(&u, p, sizeof u);
  return u;
}
static void store_u32(void *p, uint32_t u) {
  memcpy(p, &u, sizeof u);
}

/* The high plane: bits `low_bits` … of the codes of each group of four, a byte per code. */
static void put_high(const mt_qinfo *qi, uint8_t *high, size_t row, const uint8_t *code) {
  unsigned bits = qi->high_bits;
  uint32_t mask = 0x01010101u * ((1u << bits) - 1u), plane = 0;
  for (unsigned g = 0; g < qi->slots / 4u; g++)
    plane |= (load_u32(code + 4 * g) >> qi->low_bits & mask) << (bits * g);
  if (qi->high_bytes == 2 * 16) { /* rows 8–15 share the bytes of rows 0–7 */
    unsigned shift = 4u * (unsigned)(row / 8);
    uint8_t *at = high + row % 8 * 4;
    store_u32(at, (load_u32(at) & ~(0x0f0f0f0fu << shift)) | plane << shift);
  } else if (bits) {
    store_u32(high + row * 4, plane);
  }
}

/* All codes of one row of a block, as impl.h says, four bytes at a time. */
static void put_codes(const mt_qinfo *qi, uint8_t *rec, size_t row, const uint8_t *code) {
  unsigned groups = qi->slots / 4u, shared = 8u / qi->low_bits; /* groups in one byte */
  uint32_t mask = 0x01010101u * ((1u << qi->low_bits) - 1u);
  unsigned vectors = groups / shared;
  for (unsigned v = 0; v < vectors; v++) {
    uint32_t word = 0;
    for (unsigned i = 0; i < shared; i++)
      word |= (load_u32(code + 4 * (v + i * vectors)) & mask) << (qi->low_bits * i);
    store_u32(rec + 64 * v + 4 * row, word);
  }
  put_high(qi, rec + qi->low_bytes, row, code);
}

static unsigned get_code(const mt_qinfo *qi, const uint8_t *rec, size_t row, size_t e) {
  size_t g = e / 4, p = row * 4 + e % 4, half = qi->slots / 8u;
  const uint8_t *high = rec + qi->low_bytes;
  unsigned up = 0;
  if (qi->high_bits == 2)
    up = high[p] >> (2 * g) & 3u;
  else if (qi->high_bits == 1)
    up = qi->slots == 32 ? high[p] >> g & 1u : high[p % 32] >> (g + 4 * (p / 32)) & 1u;
  if (qi->low_bits == 8) return rec[64 * g + p];
  if (qi->low_bits == 4) return (rec[64 * (g % half) + p] >> (4 * (g / half)) & 15u) | up << 4;
  return (rec[p] >> (2 * g) & 3u) | up << 2;
}

/* Scales are kept as they are; only six-bit fields become bytes. `scales` is the record's, `super`
 * the panel's entry for the block of 256, b the file's block, sc and m what its type has beside the
 * codes. */
static void put_scales(const mt_qinfo *qi, uint8_t *scales, uint8_t *super, size_t row,
                       const uint8_t *b, uint8_t sc, uint8_t m) {
  if (qi->scale != MT_SCALE_E8M0) {
    uint8_t *to = qi->scale == MT_SCALE_SUPER ? super : scales;
    memcpy(to + 2 * row, b + qi->d_at, 2);
    if (qi->has_min) memcpy(to + 2 * (MT_PANEL_ROWS + row), b + qi->m_at, 2);
  }
  if (qi->scale == MT_SCALE_F16) return;
  bool apart = qi->has_min && qi->scale_bytes == 2 * MT_PANEL_ROWS;
  scales[row] = (uint8_t)(apart ? sc : sc | m << 4);
  if (apart) scales[MT_PANEL_ROWS + row] = m;
}

static void pack_quantized_row(mt_matrix *m, size_t row, const uint8_t *src, size_t src_k) {
  const mt_qinfo *qi = mt_qinfo_get(m->type);
  uint8_t *panel = m->data + row / MT_PANEL_ROWS * m->panel_bytes;
  uint8_t *rec = panel + mt_panel_supers_bytes(m, qi);
  size_t lane = row % MT_PANEL_ROWS;
  for (size_t i = 0; i < m->n_blocks; i++, rec += qi->record_bytes) {
    const mt_kblock *kb = &m->block[i];
    size_t at = src_k + kb->begin;
    uint8_t file[32], code[32] = {0}, sc, min;
    const uint8_t *b = mt_file_codes(m->type, src, at / qi->slots, file, &sc, &min);
    memcpy(code, file + at % qi->slots, kb->len);
    put_codes(qi, rec, lane, code);
    put_scales(qi, rec + qi->low_bytes + qi->high_bytes, panel + kb->super * qi->super_bytes, lane,
               b, sc, min);
  }
}

/* Rows [row, end) of one panel, in tiles of K, so that the lines they share stay in cache. */
static void pack_plain_rows(mt_matrix *m, size_t row, size_t end, const uint8_t *src,
                            size_t src_row_bytes, size_t src_k) {
  size_t size = mt_dtype_get(m->type)->block_bytes, lane0 = row % MT_PANEL_ROWS;
  uint8_t *panel = m->data + row / MT_PANEL_ROWS * m->panel_bytes;
  for (size_t k0 = 0; k0 < m->cols; k0 += PACK_TILE) {
    size_t k1 = k0 + PACK_TILE < m->cols ? k0 + PACK_TILE : m->cols;
    for (size_t r = row; r < end; r++) {
      const uint8_t *from = src + (r - row) * src_row_bytes + (src_k + k0) * size;
      uint8_t *to = panel + (k0 * MT_PANEL_ROWS + lane0 + (r - row)) * size;
      for (size_t k = k0; k < k1; k++, from += size, to += MT_PANEL_ROWS * size)
        if (size == 4)
          memcpy(to, from, 4);
        else
          memcpy(to, from, 2);
    }
  }
}

/* Rows [row, end) of one panel, stride bytes apart. */
static void pack_rows(mt_matrix *m, size_t row, size_t end, const uint8_t *src, size_t stride,
                      size_t src_k) {
  size_t size = mt_dtype_get(m->type)->block_bytes;
  if (!m->n_blocks && m->layout == MT_LAYOUT_PANELS) {
    pack_plain_rows(m, row, end, src, stride, src_k);
    return;
  }
  for (; row < end; row++, src += stride)
    if (m->layout == MT_LAYOUT_ROWS_F32)
      mt_dequantize(m->type, src + src_k * size, m->cols, (float *)(void *)m->data + row * m->cols);
    else
      pack_quantized_row(m, row, src, src_k);
}

void mt_matrix_pack_panel(mt_matrix *m, size_t panel, const void *const *row, size_t src_k) {
  const uint8_t *from[MT_PANEL_ROWS] = {0};
  size_t first = panel * MT_PANEL_ROWS, n = mt_panel_rows(m, panel);
  for (size_t r = 0; r < n; r++) from[r] = row[r];
  if (mt_pack_panel(m, panel, from, src_k)) return;
  for (size_t r = 0; r < n; r++) pack_rows(m, first + r, first + r + 1, from[r], 0, src_k);
}

void mt_matrix_pack(mt_matrix *m, size_t row_begin, size_t n_rows, const void *src,
                    size_t src_row_bytes, size_t src_k) {
  const uint8_t *from = src;
  size_t end = row_begin + n_rows;
  for (size_t r = row_begin, next; r < end; from += (next - r) * src_row_bytes, r = next) {
    const uint8_t *row[MT_PANEL_ROWS];
    next = (r / MT_PANEL_ROWS + 1) * MT_PANEL_ROWS;
    if (next > end) next = end;
    for (size_t i = 0; i < next - r; i++) row[i] = from + i * src_row_bytes;
    if (next - r < MT_PANEL_ROWS || !mt_pack_panel(m, r / MT_PANEL_ROWS, row, src_k))
      pack_rows(m, r, next, from, src_row_bytes, src_k);
  }
}

/* ---- reading back ------------------------------------------------------------------------ */

void mt_packed_scales(const mt_matrix *m, size_t panel, size_t block, size_t row, float *scale,
                      float *min) {
  const mt_qinfo *qi = mt_qinfo_get(m->type);
  const uint8_t *p = m->data + panel * m->panel_bytes;
  const uint8_t *sc =
      p + mt_panel_supers_bytes(m, qi) + (block + 1) * qi->record_bytes - qi->scale_bytes;
  const uint8_t *halves =
      qi->scale == MT_SCALE_SUPER ? p + m->block[block].super * qi->super_bytes : sc;
  bool nibbles = qi->scale == MT_SCALE_SUPER && qi->has_min && qi->scale_bytes == MT_PANEL_ROWS;
  uint8_t s = nibbles ? sc[row] & 15 : sc[row];
  uint8_t mn = nibbles ? sc[row] >> 4 : qi->has_min ? sc[MT_PANEL_ROWS + row] : 0;
  mt_scales(qi, halves + 2 * row, halves + 2 * (MT_PANEL_ROWS + row), s, mn, scale, min);
}

void mt_packed_values(const mt_matrix *m, size_t panel, size_t block, size_t row, int8_t *value) {
  const mt_qinfo *qi = mt_qinfo_get(m->type);
  const uint8_t *rec =
      m->data + panel * m->panel_bytes + mt_panel_supers_bytes(m, qi) + block * qi->record_bytes;
  for (size_t e = 0; e < qi->slots; e++)
    value[e] = mt_code_value(qi, (uint8_t)get_code(qi, rec, row, e));
}

static void quantized_row(const mt_matrix *m, size_t row, float *out) {
  bool has_min = mt_qinfo_get(m->type)->has_min;
  for (size_t b = 0; b < m->n_blocks; b++) {
    int8_t value[32];
    float scale, min;
    mt_packed_values(m, row / MT_PANEL_ROWS, b, row % MT_PANEL_ROWS, value);
    mt_packed_scales(m, row / MT_PANEL_ROWS, b, row % MT_PANEL_ROWS, &scale, &min);
    float *to = out + m->block[b].begin;
    for (size_t e = 0; e < m->block[b].len; e++) {
      float v = scale * (float)value[e];
      to[e] = has_min ? v + min : v;
    }
  }
}

void mt_matrix_row(const mt_matrix *m, size_t row, float *out) {
  if (m->layout == MT_LAYOUT_ROWS_F32) {
    memcpy(out, (const float *)(const void *)m->data + row * m->cols, m->cols * sizeof *out);
    return;
  }
  if (m->n_blocks) {
    quantized_row(m, row, out);
    return;
  }
  size_t size = mt_dtype_get(m->type)->block_bytes;
  const uint8_t *at = m->data + row / MT_PANEL_ROWS * m->panel_bytes + row % MT_PANEL_ROWS * size;
  for (size_t k = 0; k < m->cols; k++)
    mt_dequantize(m->type, at + k * MT_PANEL_ROWS * size, 1, out + k);
}
