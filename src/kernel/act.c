/* Room for prepared input rows. The kernels' quantize fills it. */
#include <stdlib.h>

#include "impl.h"

enum { ALIGN = 64 };

bool mt_matrix_same_blocks(const mt_matrix *a, const mt_matrix *b) {
  const mt_qinfo *qa = mt_qinfo_get(a->type), *qb = mt_qinfo_get(b->type);
  if (a->cols != b->cols || !qa != !qb) return false;
  if (!qa) return true;
  if (qa->slots != qb->slots || a->n_blocks != b->n_blocks) return false;
  for (size_t i = 0; i < a->n_blocks; i++)
    if (a->block[i].begin != b->block[i].begin) return false;
  return true;
}

/* Takes n × size bytes of the arena, aligned; *at is its level. */
static bool take(size_t *at, size_t n, size_t size, size_t *offset) {
  size_t bytes;
  *offset = *at;
  if (!mt_size_mul(n, size, &bytes) || !mt_size_add(bytes, *at + ALIGN - 1, at)) return false;
  *at -= *at % ALIGN;
  return true;
}

int mt_act_reserve(mt_act *a, const mt_matrix *m, const float *x, size_t ld_x, size_t n_rows,
                   mt_err *e) {
  const mt_qinfo *qi = mt_qinfo_get(m->type);
  size_t slots = qi ? qi->slots : 0, stride = (m->n_blocks * slots + ALIGN - 1) / ALIGN * ALIGN;
  size_t n, n_scales, at = 0, q, hi, lo, scale, sum;
  if (!mt_size_mul(n_rows, stride, &n) || !mt_size_mul(n_rows, m->n_blocks, &n_scales) ||
      !take(&at, n, sizeof *a->q, &q) || !take(&at, n, 1, &hi) ||
      !take(&at, a->int8 ? 0 : n, 1, &lo) || !take(&at, n_scales, sizeof *a->scale, &scale) ||
      !take(&at, n_scales, sizeof *a->sum, &sum))
    return mt_err_set(e, MT_ERANGE, "%zu input rows of %zu do not fit", n_rows, m->cols);
  if (at > a->cap_bytes) {
    free(a->mem);
    a->mem = aligned_alloc(ALIGN, at);
    a->cap_bytes = a->mem ? at : 0;
    if (!a->mem) return mt_err_set(e, MT_ENOMEM, "no memory for %zu input rows", n_rows);
  }
  a->n_rows = n_rows;
  a->x = x;
  a->ld_x = ld_x;
  a->n_blocks = m->n_blocks;
  a->block_slots = slots;
  a->q_stride = stride;
  if (!at) return MT_OK;
  uint8_t *mem = a->mem;
  a->q = (int16_t *)(void *)(mem + q);
  a->hi = (int8_t *)(mem + hi);
  a->lo = a->int8 ? NULL : (int8_t *)(mem + lo);
  a->scale = (float *)(void *)(mem + scale);
  a->sum = (int32_t *)(void *)(mem + sum);
  return MT_OK;
}

void mt_act_free(mt_act *a) {
  free(a->mem);
  *a = (mt_act){0};
}
