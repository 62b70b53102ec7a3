/* kv: the paged cache of this rank's KV heads. A block holds MT_KV_BLOCK tokens of one sequence, K
 * and V of all layers and of this rank's KV heads; blocks are reference-counted, so that sequences
 * may share what they have in common. Layer 3. Nothing is collective: which block is taken depends
 * only on the order of calls, so ranks that follow the same step plans decide alike, also a rank
 * without KV heads, whose blocks have no bytes. Paged attention: Kwon et al., "Efficient memory
 * management for LLM serving with PagedAttention", SOSP 2023. */
#ifndef MUTIRAO_KV_H
#define MUTIRAO_KV_H

#include "mutirao/base.h"
#include "mutirao/kernel.h"

typedef struct mt_kv_dims {
  uint32_t n_layers;
  uint32_t n_kv_heads_local; /* 0 where this rank has none */
  uint32_t head_dim;
  mt_kv_type type;
} mt_kv_dims;

typedef struct mt_kv mt_kv;

/* Bytes of one block of MT_KV_BLOCK tokens over all layers and local heads; SIZE_MAX where that
 * does not fit. For f16 and f32 this is MT_KV_BLOCK × 2 · layers · KV heads · head size · bytes of
 * an element. */
size_t mt_kv_block_bytes(const mt_kv_dims *d);
/* Blocks that n_tokens take. */
size_t mt_kv_blocks_for(size_t n_tokens);

/* A cache of n_blocks blocks for sequences 0 … max_seqs − 1, all of length 0. The memory is
 * reserved here and touched when written. MT_ENOMEM with the bytes asked for, MT_ERANGE where they
 * do not fit into a size. */
int mt_kv_new(mt_kv **out, const mt_kv_dims *d, size_t n_blocks, size_t max_seqs, mt_err *e);
void mt_kv_free(mt_kv *kv);          /* NULL allowed */
size_t mt_kv_bytes(const mt_kv *kv); /* of all blocks: n_blocks × mt_kv_block_bytes */

/* `seq` must be below max_seqs, here and below; mt_kv_grow and mt_kv_fork answer MT_EINVAL where it
 * is not.
 *
 * Makes the sequence n_tokens long (no shorter than it is: then nothing happens). New tokens' K and
 * V are whatever lay there, until written. A last block that is not full and that others share is
 * copied first, so that everything from the old length on may be written. MT_ERANGE when blocks run
 * out, MT_ENOMEM; nothing is changed then. */
int mt_kv_grow(mt_kv *kv, size_t seq, size_t n_tokens, mt_err *e);
/* Forgets the tokens from n_tokens on (no-op where it is not longer). Blocks that nobody holds any
 * more become free. */
void mt_kv_truncate(mt_kv *kv, size_t seq, size_t n_tokens);
/* Truncates to nothing. */
void mt_kv_drop(mt_kv *kv, size_t seq);
/* `to` (which must be empty) becomes the first n_tokens of `from`: full blocks are shared, a
 * partial one is copied. MT_EINVAL where `to` is not empty or `from` is shorter; MT_ERANGE and
 * MT_ENOMEM as mt_kv_grow. */
int mt_kv_fork(mt_kv *kv, size_t from, size_t to, size_t n_tokens, mt_err *e);

size_t mt_kv_length(const mt_kv *kv, size_t seq); /* tokens */
size_t mt_kv_free_blocks(const mt_kv *kv);
size_t mt_kv_used_blocks(const mt_kv *kv); /* a shared block counts once */

/* K and V of tokens block_index × MT_KV_BLOCK … of the sequence, for one layer and one local KV
 * head, laid out as kernel.h says. Valid until the block leaves the sequence (truncate, drop; a
 * partial shared one also at grow). Do not write tokens below the length that the sequence had when
 * it was last grown or forked: others may share them. */
void *mt_kv_k(const mt_kv *kv, size_t seq, size_t block_index, uint32_t layer, uint32_t head);
void *mt_kv_v(const mt_kv *kv, size_t seq, size_t block_index, uint32_t layer, uint32_t head);

#endif
