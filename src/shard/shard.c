/* The sharding plan: contiguous runs, as even as possible. */
#include "mutirao/shard.h"

enum { UNIT_WIDE = 256, UNIT_NARROW = 128, WIDE_UNITS_LEAST = 16 };

mt_range mt_shard_deal(uint32_t n, uint32_t n_ranks, uint32_t rank) {
  if (!n_ranks || rank >= n_ranks) return (mt_range){n, n};
  uint32_t share = n / n_ranks, extra = n % n_ranks;
  uint32_t begin = share * rank + (rank < extra ? rank : extra);
  return (mt_range){begin, begin + share + (rank < extra)};
}

/* Wide units halve the rounding to the quantum, but a narrow FFN needs enough units to go round. */
uint32_t mt_shard_ffn_unit(uint32_t ffn) {
  bool wide = ffn % UNIT_WIDE == 0 && ffn / UNIT_WIDE >= WIDE_UNITS_LEAST;
  return wide ? UNIT_WIDE : UNIT_NARROW;
}

static uint32_t blocks_of(uint32_t n, uint32_t block) {
  return n / block + (n % block != 0);
}

/* A range of blocks as a range of items; the last block may be short. */
static mt_range items_of(mt_range blocks, uint32_t block, uint32_t n) {
  uint64_t begin = (uint64_t)blocks.begin * block, end = (uint64_t)blocks.end * block;
  return (mt_range){begin < n ? (uint32_t)begin : n, end < n ? (uint32_t)end : n};
}

/* The KV heads that a run of query heads reads; a run that is empty stays where it is, empty. */
static mt_range kv_of(mt_range heads, uint32_t per_kv) {
  if (heads.begin == heads.end) return (mt_range){heads.begin / per_kv, heads.begin / per_kv};
  return (mt_range){heads.begin / per_kv, (heads.end - 1) / per_kv + 1};
}

int mt_shard_plan(const mt_shard_dims *d, uint32_t n_ranks, uint32_t rank, mt_shard *out,
                  mt_err *e) {
  if (!d->n_heads || !d->n_kv_heads || !d->head_dim || !d->ffn || !d->vocab)
    return mt_err_set(e, MT_ERANGE,
                      "a model dimension is 0: heads %u, KV heads %u, head size %u, FFN %u, "
                      "vocabulary %u",
                      d->n_heads, d->n_kv_heads, d->head_dim, d->ffn, d->vocab);
  if (d->n_heads % d->n_kv_heads)
    return mt_err_set(e, MT_ERANGE, "%u query heads are no multiple of %u KV heads", d->n_heads,
                      d->n_kv_heads);
  if (rank >= n_ranks)
    return mt_err_set(e, MT_ERANGE, "rank %u is not among %u ranks", rank, n_ranks);
  uint32_t unit = mt_shard_ffn_unit(d->ffn);
  out->heads = mt_shard_deal(d->n_heads, n_ranks, rank);
  out->kv_heads = kv_of(out->heads, d->n_heads / d->n_kv_heads);
  out->ffn_units = mt_shard_deal(blocks_of(d->ffn, unit), n_ranks, rank);
  out->ffn = items_of(out->ffn_units, unit, d->ffn);
  mt_range blocks = mt_shard_deal(blocks_of(d->vocab, MT_VOCAB_BLOCK), n_ranks, rank);
  out->vocab = items_of(blocks, MT_VOCAB_BLOCK, d->vocab);
  return MT_OK;
}

uint32_t mt_shard_vocab_owner(const mt_shard_dims *d, uint32_t n_ranks, uint32_t row) {
  uint32_t n = blocks_of(d->vocab, MT_VOCAB_BLOCK), block = row / MT_VOCAB_BLOCK;
  uint32_t share = n / n_ranks, extra = n % n_ranks;
  uint32_t in_larger = extra * (share + 1); /* blocks of the ranks that have one more */
  if (block < in_larger) return block / (share + 1);
  return extra + (block - in_larger) / share;
}
