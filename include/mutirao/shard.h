/* shard: which rank owns which heads, FFN units and vocabulary blocks. Layer 2; pure arithmetic, no
 * state, nothing collective: every rank computes the same answers for every rank. */
#ifndef MUTIRAO_SHARD_H
#define MUTIRAO_SHARD_H

#include "mutirao/base.h"

typedef struct mt_range {
  uint32_t begin, end; /* half-open; empty where equal */
} mt_range;

enum { MT_VOCAB_BLOCK = 64 }; /* rows of the vocabulary are dealt in whole blocks of this many */

/* What is cut. Every field at least 1; n_heads is a multiple of n_kv_heads. */
typedef struct mt_shard_dims {
  uint32_t n_heads, n_kv_heads, head_dim, ffn, vocab;
} mt_shard_dims;

typedef struct mt_shard {
  mt_range heads;     /* query heads */
  mt_range kv_heads;  /* KV heads that those queries read; may be shared with a neighbour; empty
                         where heads is */
  mt_range ffn_units; /* units of mt_shard_ffn_unit columns */
  mt_range ffn;       /* columns; the last unit may be short */
  mt_range vocab;     /* rows, cut at multiples of MT_VOCAB_BLOCK */
} mt_shard;

/* Items of `rank`: contiguous runs, as even as possible, the first n % n_ranks ranks have one more.
 */
mt_range mt_shard_deal(uint32_t n, uint32_t n_ranks, uint32_t rank);
/* Columns of an FFN unit, a function of the FFN's width alone (so that no rank count shows in the
 * bits). */
uint32_t mt_shard_ffn_unit(uint32_t ffn);
/* The share of one rank. MT_ERANGE where dims are not as stated. */
int mt_shard_plan(const mt_shard_dims *d, uint32_t n_ranks, uint32_t rank, mt_shard *out,
                  mt_err *e);
/* Rank that owns row `row` of the vocabulary. */
uint32_t mt_shard_vocab_owner(const mt_shard_dims *d, uint32_t n_ranks, uint32_t row);

#endif
