/* The set of ids that a sequence has seen, with counts: memory follows the sequence, not the
 * vocabulary. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The slot that holds id, or the free one where it would go. There is always a free one. */
static size_t find_slot(const history *h, uint32_t id) {
  size_t mask = h->n_slots - 1, i = (id * 0x9E3779B1u) & mask;
  while (h->slot[i] && h->entry[h->slot[i] - 1].id != id) i = (i + 1) & mask;
  return i;
}

static int grow(history *h) {
  size_t cap = h->cap ? 2 * h->cap : 64;
  seen *entry = mt_realloc(h->entry, cap, sizeof *entry);
  if (!entry) return MT_ENOMEM;
  h->entry = entry;
  uint32_t *slot = mt_calloc(2 * cap, sizeof *slot);
  if (!slot) return MT_ENOMEM;
  free(h->slot);
  h->slot = slot;
  h->n_slots = 2 * cap;
  h->cap = cap;
  for (size_t i = 0; i < h->n; i++) slot[find_slot(h, entry[i].id)] = (uint32_t)i + 1;
  return MT_OK;
}

int mt_sample_history_add(history *h, uint32_t id, bool generated) {
  if (h->n == h->cap && grow(h)) return MT_ENOMEM;
  size_t i = find_slot(h, id);
  if (!h->slot[i]) {
    h->entry[h->n++] = (seen){id, 0};
    h->slot[i] = (uint32_t)h->n;
  }
  h->entry[h->slot[i] - 1].generated += generated;
  return MT_OK;
}

int mt_sample_history_copy(history *to, const history *from) {
  *to = (history){0};
  if (!from->n) return MT_OK;
  to->entry = mt_malloc(from->cap, sizeof *to->entry);
  to->slot = mt_malloc(from->n_slots, sizeof *to->slot);
  if (!to->entry || !to->slot) {
    mt_sample_history_free(to);
    return MT_ENOMEM;
  }
  memcpy(to->entry, from->entry, from->n * sizeof *to->entry);
  memcpy(to->slot, from->slot, from->n_slots * sizeof *to->slot);
  to->n = from->n;
  to->cap = from->cap;
  to->n_slots = from->n_slots;
  return MT_OK;
}

void mt_sample_history_clear(history *h) {
  h->n = 0;
  if (h->slot) memset(h->slot, 0, h->n_slots * sizeof *h->slot);
}

void mt_sample_history_free(history *h) {
  free(h->entry);
  free(h->slot);
  *h = (history){0};
}
