/* Private to loading: what its parts share. */
#ifndef MT_MODEL_LOAD_H
#define MT_MODEL_LOAD_H

#include <stdatomic.h>

#include "model_impl.h"

/* A matrix as rows [row, row + m->rows) of a tensor, all of their columns. */
typedef struct mt_load_part {
  mt_matrix *m;
  const mt_tensor_info *t;
  uint64_t row;
  uint32_t permute; /* head size where the file interleaves the rows of a head */
} mt_load_part;

/* Matrices that are multiplied together: their panels lie in one row and are shared out as one, as
 * forward.c does, so that a thread loads (and first touches) what it will read. */
enum { MT_LOAD_GROUP = 3 };
typedef struct mt_load_group {
  mt_load_part part[MT_LOAD_GROUP];
  int n;
  int layer;      /* −1: none */
  bool exchanged; /* a single row-parallel tensor, of several ranks */
  bool heads;     /* whose columns are heads */
} mt_load_group;

typedef struct mt_loader {
  mt_model *m;
  mt_load_group *group; /* [n_groups], in the order of their places in m->data */
  size_t n_groups;
  uint8_t *stage; /* [threads][stage_bytes]: file bytes that a thread is packing */
  size_t stage_bytes;
  mt_comm_window *window; /* row-parallel tensors of ranks that share memory; or NULL */
  size_t window_bytes;    /* of one of the two halves of a rank's segment */
  bool turn;              /* which half comes next */
  _Atomic int failed;     /* 0, or the code of the thread that failed first; err is its message */
  mt_err err;
  _Atomic uint64_t done_bytes; /* of the file, by this rank */
  uint64_t total_bytes;
  atomic_flag telling; /* a thread is in opt.progress */
  mt_slice_key key;    /* of --pack-cache: of the model as it was when reading began */
} mt_loader;

/* A thread failed at a layer (or −1): the others stop at their next step. */
void mt_loader_fail(mt_loader *l, int layer, int code, const mt_err *e);
/* Another `bytes` of the file are packed; the thread tells how far all are, unless another does. */
void mt_loader_advance(mt_loader *l, uint64_t bytes);
/* From now on `total` bytes are to come. */
void mt_loader_restart(mt_loader *l, uint64_t total);
/* After a run of the team: what failed, or MT_OK. */
int mt_loader_outcome(mt_loader *l, mt_err *e);

/* Row of the file that becomes row r where heads are interleaved (permute: head size, or 0): within
 * each head the file has rows 0, n/2, 1, n/2 + 1, … */
size_t mt_load_source_row(size_t r, uint32_t permute);
/* File bytes of the fewest rows that can be packed by themselves. */
size_t mt_load_unit_bytes(const mt_load_part *p);
/* load_columns.c: all groups that are not exchanged. Not collective. */
int mt_load_columns(mt_loader *l, mt_err *e);
/* load_rows.c: an exchanged group. Collective. */
int mt_load_rows(mt_loader *l, const mt_load_group *g, mt_err *e);

/* Rows of such a tensor that are exchanged at a time: whole panels. */
size_t mt_load_round_rows(size_t row_bytes, size_t n_ranks, bool shared);

/* keep.c: --pack-cache. */
/* Fills all matrices from this rank's file where there is a good one: *found. What is not good is
 * warned of, and the matrices are then as cleared as before; the result is other ranks' alone.
 * Collective. */
int mt_keep_read(mt_loader *l, bool *found, mt_err *e);
/* Writes them there, if wanted on this rank. A failure is warned of; the result is other ranks'
 * alone. Collective. */
int mt_keep_write(mt_loader *l, bool wanted, mt_err *e);

#endif
