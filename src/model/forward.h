/* The buffers of a step and the pieces of the forward pass that forward.c and attention.c share. */
#ifndef MT_MODEL_FORWARD_H
#define MT_MODEL_FORWARD_H

#include "model_impl.h"

enum {
  MT_LOGIT_ROWS = 16,    /* rows whose logits are computed and gathered at a time */
  MT_INPUT_LAYOUTS = 3,  /* block layouts among q, k and v at most */
  MT_ATTN_FEW_TILES = 2, /* for each thread: with fewer, segments are shared out too */
  MT_ATTN_WAVE = 4       /* segments for each thread, over all tiles, between two merges */
};

struct mt_buffers {
  float *x;         /* [max_rows][hidden] residual rows, the same on every rank */
  float *h;         /* [max_rows][hidden] after a norm */
  float *sum;       /* [max_rows][hidden] what the all-reduce gives */
  float *q;         /* [max_rows][n_heads_local · head_dim]; becomes the attention's output */
  float *k, *v;     /* [max_rows][n_kv_heads_local · head_dim] */
  float *att;       /* [max_rows][n_heads_local · head_dim] */
  float *gate, *up; /* [max_rows][ffn_local]; gate becomes silu(gate) · up */
  float *cos, *sin; /* [n_ropes][max_rows][rotary_dim/2] */
  float *inv_freq;  /* [n_ropes][rotary_dim/2] */
  float *embed;     /* [max_rows][hidden] rows that travel: this rank's, then all */
  float *logits_local, *logits_all,
      *logits_row; /* [16][vocab_local]; on rank 0 [16 · vocab] and [vocab] */
  /* Attention: for each thread scratch of the kernels; parts and areas for their outputs, as many
   * as the tiles of a wave take; totals and marks of few tiles. */
  float *scratch, *part_acc;
  mt_attn_part *part, *total;
  unsigned *seen, *started;
  int *exp;               /* [max_rows] exponent of each row's quantum */
  size_t *count, *offset; /* [n_ranks] */
  mt_act in[MT_INPUT_LAYOUTS], att_act, ffn_act;
  void *mem;
  size_t mem_bytes;
  float *probe;     /* [n_layers][n_heads_local][kv_tokens], NULL while the probe is off */
  float *probe_max; /* [n_heads_local][segments]: maxima of the probed row */
};

/* One step, as the threads see it. */
typedef struct mt_step {
  mt_model *m;
  mt_buffers *b;
  const mt_row *row;
  size_t n;     /* rows */
  bool tile;    /* of the rows of a step: its sums are begun here and finished by the next tile */
  size_t first; /* of the step's rows */
  uint32_t l;   /* layer */
  mt_layer *layer;
  int failed; /* unit sums that did not fit, atomically counted */
} mt_step;

/* Rotates, normalises and stores q, k, v of the step's rows; then attention into b->att. Team
 * functions. */
void mt_forward_heads(void *step, int thread, int n_threads);
void mt_forward_attend(void *step, int thread, int n_threads);
/* The weights of the step's last row, for the attention probe. */
void mt_forward_probe(void *step, int thread, int n_threads);
/* cos and sin of every row. */
void mt_forward_angles(mt_step *s);

#ifdef MT_PLAIN_SUMS
/* Instead of the exact sums, for `make bench` alone: bench/exactness. */
int mt_plain_sum(mt_step *s, const mt_matrix *w, const mt_act *act, const char *what, mt_err *e);
#endif

#endif
