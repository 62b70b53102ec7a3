/* Windows: memory that the ranks of a group share. */
#include <stdlib.h>
#include <unistd.h>

#include "comm_impl.h"

/* The leader makes the memory and tells the others where it is. */
static int map_shared(mt_comm_window *w, mt_err *e) {
  mt_comm *c = w->comm;
  void *map = NULL;
  mt_offer *offer = &c->control->offer;
  int rc = MT_OK, fault = mt_comm_enter(c, "the set-up of shared memory", e);
  if (fault) return fault;
  fault = mt_group_gather(c);
  if (!fault && c->group_rank == 0) rc = mt_share_create(&map, w->map_bytes, offer, e);
  if (!fault) fault = mt_group_release(c);
  fault = mt_comm_leave(c, fault, e);
  if (fault) return fault;
  if (c->group_rank > 0) rc = mt_share_attach(&map, offer, e);
  w->base = map;
  return rc;
}

static int map_alone(mt_comm_window *w, mt_err *e) {
  w->base = mt_pages_alloc(w->map_bytes);
  return w->base ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for %zu bytes", w->map_bytes);
}

static void window_unmap(mt_comm_window *w) {
  if (w->comm->group_size == 1)
    mt_pages_free(w->base, w->map_bytes);
  else
    mt_share_detach(w->base, w->map_bytes);
}

int mt_comm_window_new(mt_comm_window **out, mt_comm *c, size_t bytes, mt_err *e) {
  mt_err own = {0};
  size_t total = 0;
  *out = NULL;
  mt_comm_window *w = mt_calloc(1, sizeof *w);
  int rc = w ? MT_OK : mt_err_set(&own, MT_ENOMEM, "no memory for a window");
  size_t segment = mt_share_round(bytes ? bytes : 1);
  if (!rc && (!segment || !mt_size_mul(segment, (size_t)c->group_size, &total)))
    rc = mt_err_set(&own, MT_ENOMEM, "a shared window of %zu bytes a rank is too large", bytes);
  rc = mt_comm_agree(c, rc, &own); /* from here on all members take part */
  if (!rc) {
    w->comm = c;
    w->segment_bytes = segment;
    w->map_bytes = total;
    rc = c->group_size == 1 ? map_alone(w, &own) : map_shared(w, &own);
    rc = mt_comm_agree(c, rc, &own);
    if (c->group_size > 1 && c->group_rank == 0 && c->control->offer.fd >= 0) {
      close(c->control->offer.fd);
      c->control->offer.fd = -1;
    }
  }
  if (rc) {
    if (w && w->base) window_unmap(w);
    free(w);
    if (e) *e = own;
    return rc;
  }
  *out = w;
  return MT_OK;
}

void mt_comm_window_free(mt_comm_window *w) {
  if (!w) return;
  window_unmap(w);
  free(w);
}

void *mt_comm_window_at(mt_comm_window *w, int i) {
  return w->base + (size_t)i * w->segment_bytes;
}
