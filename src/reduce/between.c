/* Between groups: their leaders make the groups' sums one. Integers, so any order will do. */
#include <string.h>

#include "reduce_impl.h"

/* ---- recursive doubling -------------------------------------------------------------------- */

/* Element n carries the fault, so that it costs no message of its own. */
static size_t message_bytes(const mt_sum *s) {
  return (s->n + 1) * sizeof(int64_t);
}

static int give(mt_sum *s, int group, mt_err *e) {
  return mt_comm_leaders_swap(s->r->comm, group, s->total, message_bytes(s), NULL, 0, e);
}

static int take(mt_sum *s, int group, int64_t *to, mt_err *e) {
  return mt_comm_leaders_swap(s->r->comm, group, NULL, 0, to, message_bytes(s), e);
}

static void add_incoming(mt_sum *s) {
  const int64_t *in = s->r->incoming;
  mt_pass_add(s, in);
  if (in[s->n] < s->total[s->n]) s->total[s->n] = in[s->n];
}

/* Where the number of groups is no power of two, those beyond it give their sums first and take the
 * result last. */
int mt_between_doubling(mt_sum *s, mt_err *e) {
  mt_reduce *r = s->r;
  int power = 1, rc = MT_OK;
  while (power <= r->groups / 2) power *= 2;
  int partner = r->group < power ? r->group + power : r->group - power;
  bool paired = partner < r->groups;
  s->total[s->n] = s->fault;
  if (r->group >= power) {
    rc = give(s, partner, e);
    if (!rc) rc = take(s, partner, s->total, e);
    power = 0;
  } else if (paired) {
    rc = take(s, partner, r->incoming, e);
    if (!rc) add_incoming(s);
  }
  for (int bit = 1; !rc && bit < power; bit *= 2) {
    rc = mt_comm_leaders_swap(r->comm, r->group ^ bit, s->total, message_bytes(s), r->incoming,
                              message_bytes(s), e);
    if (!rc) add_incoming(s);
  }
  if (!rc && power && paired) rc = give(s, partner, e);
  s->fault = (int32_t)s->total[s->n];
  return rc;
}

/* ---- reduce-scatter and all-gather --------------------------------------------------------- */

/* Behind a piece on the board, one word: the fault that its group knows of. */
static float *word_at(const mt_sum *s, int group) {
  return s->r->board + mt_piece_begin(s->n, group + 1, s->r->groups) + (size_t)group * LINE;
}

int mt_between_start(mt_sum *s, mt_err *e) {
  mt_reduce *r = s->r;
  size_t mine = mt_piece_size(s->n, r->group, r->groups);
  for (int g = 0; g < r->groups; g++) {
    r->size[g] = mt_piece_size(s->n, g, r->groups) * sizeof(int64_t);
    r->offset[g] = mt_piece_begin(s->n, g, r->groups) * sizeof(int64_t);
    r->size2[g] = mine * sizeof(int64_t);
    r->offset2[g] = (size_t)g * mine * sizeof(int64_t);
    r->from[g] = r->incoming + (size_t)g * mine;
  }
  r->stage = MT_STAGE_INTEGERS;
  return mt_comm_leaders_start(r->comm, s->total, r->size, r->offset, r->incoming, r->size2,
                               r->offset2, e);
}

static int start_gather(mt_sum *s, size_t mine, mt_err *e) {
  mt_reduce *r = s->r;
  for (int g = 0; g < r->groups; g++) {
    size_t begin = mt_piece_begin(s->n, g, r->groups) + (size_t)g * LINE;
    r->size2[g] = (mt_piece_size(s->n, g, r->groups) + 1) * sizeof(float);
    r->offset2[g] = begin * sizeof(float);
    r->size[g] = (mine + 1) * sizeof(float);
  }
  for (int g = 0; g < r->groups; g++) r->offset[g] = r->offset2[r->group];
  r->stage = MT_STAGE_FLOATS;
  return mt_comm_leaders_start(r->comm, r->board, r->size, r->offset, r->board, r->size2,
                               r->offset2, e);
}

int mt_between_next(mt_sum *s, mt_err *e) {
  mt_reduce *r = s->r;
  if (r->stage == MT_STAGE_INTEGERS) {
    size_t begin = mt_piece_begin(s->n, r->group, r->groups),
           mine = mt_piece_size(s->n, r->group, r->groups);
    mt_pass_add_round(s, begin, begin + mine, r->from, (size_t)r->groups,
                      r->board + (size_t)r->group * LINE);
    memcpy(word_at(s, r->group), &s->fault, sizeof s->fault);
    return start_gather(s, mine, e);
  }
  for (int g = 0; g < r->groups; g++) {
    int32_t fault;
    memcpy(&fault, word_at(s, g), sizeof fault);
    s->fault = mt_sooner(s->fault, fault);
  }
  r->stage = MT_STAGE_NONE;
  return MT_OK;
}

int mt_between_scatter(mt_sum *s, mt_err *e) {
  int rc = mt_between_start(s, e);
  while (!rc && s->r->stage) {
    rc = mt_comm_leaders_wait(s->r->comm, e);
    if (!rc) rc = mt_between_next(s, e);
  }
  return rc;
}

size_t mt_between_incoming(const mt_reduce *r) {
  size_t piece = (r->max_elems / LINE / (size_t)r->groups + 1) * LINE * (size_t)r->groups;
  return piece > r->max_elems + LINE ? piece : r->max_elems + LINE;
}
