/* Rows that lie together in the file: every thread reads those of its own panels into its stage
 * and packs them from there, while they are in its cache. */
#include "load.h"

size_t mt_load_source_row(size_t r, uint32_t permute) {
  if (!permute) return r;
  size_t in = r % permute, half = permute / 2;
  return r - in + (in < half ? 2 * in : 2 * (in - half) + 1);
}

/* Panels that can be packed without the next ones: whole heads where rows are interleaved. */
static size_t unit_panels(uint32_t permute) {
  size_t rows = permute ? permute : MT_PANEL_ROWS;
  while (rows % MT_PANEL_ROWS) rows += permute;
  return rows / MT_PANEL_ROWS;
}

size_t mt_load_unit_bytes(const mt_load_part *p) {
  return unit_panels(p->permute) * MT_PANEL_ROWS * mt_dtype_row_bytes(p->t->type, p->m->cols);
}

static void pack_panels(const mt_load_part *p, size_t begin, size_t end, const uint8_t *src,
                        size_t row_bytes) {
  size_t first = begin * MT_PANEL_ROWS;
  if (!p->permute) {
    size_t last = end * MT_PANEL_ROWS < p->m->rows ? end * MT_PANEL_ROWS : p->m->rows;
    mt_matrix_pack(p->m, first, last - first, src, row_bytes, 0);
    return;
  }
  for (size_t i = begin; i < end; i++) {
    const void *row[MT_PANEL_ROWS] = {0};
    for (size_t k = 0, r = i * MT_PANEL_ROWS; k < MT_PANEL_ROWS && r < p->m->rows; k++, r++)
      row[k] = src + (mt_load_source_row(r, p->permute) - first) * row_bytes;
    mt_matrix_pack_panel(p->m, i, row, 0);
  }
}

/* Panels [begin, end) of a matrix, as many at a time as the stage holds. */
static void load_panels(mt_loader *l, const mt_load_part *p, size_t begin, size_t end, int thread) {
  size_t row_bytes = mt_dtype_row_bytes(p->t->type, p->m->cols), unit = unit_panels(p->permute);
  size_t step = l->stage_bytes / row_bytes / MT_PANEL_ROWS / unit * unit;
  uint8_t *stage = l->stage + (size_t)thread * l->stage_bytes;
  for (size_t i = begin; i < end && !atomic_load(&l->failed); i += step) {
    size_t stop = end - i < step ? end : i + step, row = i * MT_PANEL_ROWS,
           last = stop * MT_PANEL_ROWS;
    if (last > p->m->rows) last = p->m->rows;
    size_t bytes = (last - row) * row_bytes;
    mt_err e = {0};
    int rc = mt_weights_read(l->m->weights, p->t, (p->row + row) * row_bytes, bytes, stage, &e);
    if (rc) {
      mt_loader_fail(l, rc, &e);
      return;
    }
    pack_panels(p, i, stop, stage, row_bytes);
    mt_loader_advance(l, thread, bytes);
  }
}

typedef struct columns_job {
  mt_loader *l;
  const mt_load_group *g;
} columns_job;

/* The border of a thread's share moves to that of a head where heads are interleaved. */
static size_t whole_units(size_t panel, size_t n_panels, size_t unit) {
  return panel < n_panels ? panel / unit * unit : n_panels;
}

static void columns_thread(void *arg, int thread, int n_threads) {
  const columns_job *j = arg;
  size_t panels = 0, begin, end, first = 0;
  for (int i = 0; i < j->g->n; i++) panels += j->g->part[i].m->n_panels;
  mt_team_share(panels, thread, n_threads, &begin, &end);
  for (int i = 0; i < j->g->n; i++) {
    const mt_load_part *p = &j->g->part[i];
    size_t n = p->m->n_panels, unit = unit_panels(p->permute);
    size_t a = begin > first ? begin - first : 0, z = end > first ? end - first : 0;
    load_panels(j->l, p, whole_units(a, n, unit), whole_units(z, n, unit), thread);
    first += n;
  }
}

int mt_load_columns(mt_loader *l, const mt_load_group *g, mt_err *e) {
  mt_team_run(l->m->team, columns_thread, &(columns_job){l, g});
  return mt_loader_outcome(l, e);
}
