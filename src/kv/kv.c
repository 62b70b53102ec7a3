/* The pool of blocks, the sequences' tables and the reference counts. */
#include "mutirao/kv.h"

#include <stdlib.h>
#include <string.h>

typedef struct sequence {
  uint32_t *block; /* [n_blocks] numbers of blocks, in order */
  size_t n_blocks, cap, n_tokens;
} sequence;

struct mt_kv {
  mt_kv_dims d;
  size_t k_bytes, v_bytes; /* of one layer and head of a block */
  size_t block_bytes, n_blocks, max_seqs;
  char *pool;           /* [n_blocks][n_layers][n_kv_heads_local]{K, V} */
  uint32_t *refs;       /* [n_blocks] */
  uint32_t *free_block; /* [n_free] a stack; the lowest number on top at first */
  size_t n_free;
  sequence *seq; /* [max_seqs] */
};

size_t mt_kv_block_bytes(const mt_kv_dims *d) {
  size_t bytes;
  if (!mt_size_add(mt_kv_k_bytes(d->type, d->head_dim), mt_kv_v_bytes(d->type, d->head_dim),
                   &bytes) ||
      !mt_size_mul(bytes, d->n_layers, &bytes) || !mt_size_mul(bytes, d->n_kv_heads_local, &bytes))
    return SIZE_MAX;
  return bytes;
}

size_t mt_kv_blocks_for(size_t n_tokens) {
  return n_tokens / MT_KV_BLOCK + (n_tokens % MT_KV_BLOCK != 0);
}

int mt_kv_new(mt_kv **out, const mt_kv_dims *d, size_t n_blocks, size_t max_seqs, mt_err *e) {
  *out = NULL;
  size_t block_bytes = mt_kv_block_bytes(d), bytes;
  if (block_bytes == SIZE_MAX || n_blocks > UINT32_MAX ||
      !mt_size_mul(block_bytes, n_blocks, &bytes))
    return mt_err_set(e, MT_ERANGE,
                      "KV cache: %zu blocks of %u layers and %u heads of %u are too large",
                      n_blocks, d->n_layers, d->n_kv_heads_local, d->head_dim);
  mt_kv *kv = mt_calloc(1, sizeof *kv);
  if (!kv) goto no_memory;
  *kv = (mt_kv){.d = *d, .block_bytes = block_bytes, .n_blocks = n_blocks, .max_seqs = max_seqs};
  kv->k_bytes = mt_kv_k_bytes(d->type, d->head_dim);
  kv->v_bytes = mt_kv_v_bytes(d->type, d->head_dim);
  kv->refs = mt_calloc(n_blocks, sizeof *kv->refs);
  kv->free_block = mt_malloc(n_blocks, sizeof *kv->free_block);
  kv->seq = mt_calloc(max_seqs, sizeof *kv->seq);
  kv->pool = mt_pages_alloc(bytes);
  if (!kv->refs || !kv->free_block || !kv->seq || !kv->pool) goto no_memory;
  for (size_t i = 0; i < n_blocks; i++) kv->free_block[i] = (uint32_t)(n_blocks - 1 - i);
  kv->n_free = n_blocks;
  *out = kv;
  return MT_OK;
no_memory:
  mt_kv_free(kv);
  return mt_err_set(e, MT_ENOMEM, "KV cache: no memory for %zu blocks, %zu bytes", n_blocks, bytes);
}

void mt_kv_free(mt_kv *kv) {
  if (!kv) return;
  for (size_t i = 0; kv->seq && i < kv->max_seqs; i++) free(kv->seq[i].block);
  free(kv->seq);
  free(kv->refs);
  free(kv->free_block);
  mt_pages_free(kv->pool, kv->block_bytes * kv->n_blocks);
  free(kv);
}

size_t mt_kv_bytes(const mt_kv *kv) {
  return kv->block_bytes * kv->n_blocks;
}

/* ---- blocks ------------------------------------------------------------------------------ */

static uint32_t take(mt_kv *kv) { /* the caller has checked n_free */
  uint32_t b = kv->free_block[--kv->n_free];
  kv->refs[b] = 1;
  return b;
}

static void release(mt_kv *kv, uint32_t b) {
  if (!--kv->refs[b]) kv->free_block[kv->n_free++] = b;
}

static void copy_block(mt_kv *kv, uint32_t to, uint32_t from) {
  if (kv->block_bytes)
    memcpy(kv->pool + to * kv->block_bytes, kv->pool + from * kv->block_bytes, kv->block_bytes);
}

/* Checks that `need` blocks are free and makes room for n in the table. */
static int prepare(mt_kv *kv, sequence *s, size_t n, size_t need, mt_err *e) {
  if (need > kv->n_free)
    return mt_err_set(e, MT_ERANGE,
                      "KV cache: %zu blocks of %d tokens are needed, %zu of %zu are free", need,
                      MT_KV_BLOCK, kv->n_free, kv->n_blocks);
  if (n <= s->cap) return MT_OK;
  size_t cap = s->cap ? s->cap : 16;
  while (cap < n) cap *= 2; /* n is bounded by the blocks that there are */
  uint32_t *p = mt_realloc(s->block, cap, sizeof *p);
  if (!p) return mt_err_set(e, MT_ENOMEM, "KV cache: no memory for a table of %zu blocks", cap);
  s->block = p;
  s->cap = cap;
  return MT_OK;
}

/* ---- sequences --------------------------------------------------------------------------- */

int mt_kv_grow(mt_kv *kv, size_t seq, size_t n_tokens, mt_err *e) {
  if (seq >= kv->max_seqs)
    return mt_err_set(e, MT_EINVAL, "KV cache: sequence %zu, there are %zu", seq, kv->max_seqs);
  sequence *s = &kv->seq[seq];
  if (n_tokens <= s->n_tokens) return MT_OK;
  size_t n = mt_kv_blocks_for(n_tokens), last = s->n_blocks - 1;
  bool split = s->n_tokens % MT_KV_BLOCK != 0 && kv->refs[s->block[last]] > 1;
  int rc = prepare(kv, s, n, n - s->n_blocks + split, e);
  if (rc) return rc;
  if (split) {
    uint32_t own = take(kv);
    copy_block(kv, own, s->block[last]);
    release(kv, s->block[last]);
    s->block[last] = own;
  }
  while (s->n_blocks < n) s->block[s->n_blocks++] = take(kv);
  s->n_tokens = n_tokens;
  return MT_OK;
}

void mt_kv_truncate(mt_kv *kv, size_t seq, size_t n_tokens) {
  if (seq >= kv->max_seqs || n_tokens >= kv->seq[seq].n_tokens) return;
  sequence *s = &kv->seq[seq];
  size_t n = mt_kv_blocks_for(n_tokens);
  while (s->n_blocks > n) release(kv, s->block[--s->n_blocks]);
  s->n_tokens = n_tokens;
}

void mt_kv_drop(mt_kv *kv, size_t seq) {
  mt_kv_truncate(kv, seq, 0);
}

int mt_kv_fork(mt_kv *kv, size_t from, size_t to, size_t n_tokens, mt_err *e) {
  if (from >= kv->max_seqs || to >= kv->max_seqs)
    return mt_err_set(e, MT_EINVAL, "KV cache: sequences %zu and %zu, there are %zu", from, to,
                      kv->max_seqs);
  sequence *a = &kv->seq[from], *b = &kv->seq[to];
  if (b->n_tokens || n_tokens > a->n_tokens)
    return mt_err_set(e, MT_EINVAL,
                      "KV cache: cannot fork %zu of %zu tokens onto a sequence of %zu", n_tokens,
                      a->n_tokens, b->n_tokens);
  size_t full = n_tokens / MT_KV_BLOCK, n = mt_kv_blocks_for(n_tokens);
  int rc = prepare(kv, b, n, n - full, e);
  if (rc) return rc;
  for (size_t i = 0; i < full; i++) {
    b->block[i] = a->block[i];
    kv->refs[b->block[i]]++;
  }
  if (n > full) {
    b->block[full] = take(kv);
    copy_block(kv, b->block[full], a->block[full]);
  }
  b->n_blocks = n;
  b->n_tokens = n_tokens;
  return MT_OK;
}

size_t mt_kv_length(const mt_kv *kv, size_t seq) {
  return seq < kv->max_seqs ? kv->seq[seq].n_tokens : 0;
}
size_t mt_kv_free_blocks(const mt_kv *kv) {
  return kv->n_free;
}
size_t mt_kv_used_blocks(const mt_kv *kv) {
  return kv->n_blocks - kv->n_free;
}

void *mt_kv_k(const mt_kv *kv, size_t seq, size_t block_index, uint32_t layer, uint32_t head) {
  size_t at = ((size_t)layer * kv->d.n_kv_heads_local + head) * (kv->k_bytes + kv->v_bytes);
  return kv->pool + kv->seq[seq].block[block_index] * kv->block_bytes + at;
}

void *mt_kv_v(const mt_kv *kv, size_t seq, size_t block_index, uint32_t layer, uint32_t head) {
  return (char *)mt_kv_k(kv, seq, block_index, layer, head) + kv->k_bytes;
}
