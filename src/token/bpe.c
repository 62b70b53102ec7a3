/* Byte-pair encoding of one pre-token (Sennrich et al., 2016): the pair of lowest rank is merged
 * first, the leftmost among equals, until no pair has a rank. Short words scan for the lowest rank;
 * long ones keep a winner tree over segments, so that the time stays n log n. Words seen lately
 * come from a cache. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum {
  SHORT_WORD = 40,
  SEGMENT = 32,
  CACHE_BITS = 15,
  KEY_BYTES = 24,
  CACHE_IDS = 9,
  JOIN_BITS = 21
};

/* ---- symbols and pairs ----------------------------------------------------------------------- */

static inline const mt_token_pair *find_pair(const mt_tokenizer *t, uint32_t left, uint32_t right) {
  if (!t->n_pairs) return NULL;
  for (size_t i = mt_token_pair_slot(t, left, right);; i++) {
    const mt_token_pair *p = &t->pair[i & (t->cap_pairs - 1)];
    if (p->left == left && p->right == right) return p;
    if (p->left == MT_TOKEN_NONE) return NULL;
  }
}

static inline uint32_t rank_of(const mt_tokenizer *t, uint32_t left, uint32_t right) {
  const mt_token_pair *p = find_pair(t, left, right);
  return p ? p->rank : MT_TOKEN_NONE;
}

/* One symbol for each character; an unknown one becomes its byte tokens, or the unknown token (a
 * run of them only one, if fused), or, where the vocabulary has neither, nothing. The order in
 * which a pending unknown token is written follows the reference. At most n symbols. */
static size_t char_symbols(const mt_tokenizer *t, const char *s, size_t n, uint32_t *ids) {
  size_t count = 0;
  bool pending = false;
  for (size_t i = 0; i < n;) {
    uint32_t cp = 0, id;
    size_t len = (size_t)mt_utf8_decode(s + i, n - i, &cp);
    id = cp < 128 ? t->ascii_id[cp] : mt_token_lookup(t, s + i, len, MT_TOKEN_MODEL);
    if (id != MT_TOKEN_NONE) {
      if (pending) ids[count++] = t->model_unk;
      pending = false;
      ids[count++] = id;
      i += len;
      continue;
    }
    size_t known = 0;
    while (known < len && t->byte_id[(unsigned char)s[i + known]] != MT_TOKEN_NONE) known++;
    if (known == len) {
      for (size_t k = 0; k < len; k++) ids[count++] = t->byte_id[(unsigned char)s[i + k]];
    } else if (t->model_unk != MT_TOKEN_NONE) {
      if (pending && !t->fuse_unk) ids[count++] = t->model_unk;
      pending = true;
    }
    i += len;
  }
  if (pending) ids[count++] = t->model_unk;
  return count;
}

static size_t symbols(const mt_tokenizer *t, const char *s, size_t n, uint32_t *ids) {
  if (!t->byte_level) return char_symbols(t, s, n, ids);
  size_t count = 0;
  bool pending = false;
  for (size_t i = 0; i < n; i++) {
    uint32_t id = t->byte_id[(unsigned char)s[i]];
    if (id != MT_TOKEN_NONE) {
      if (pending) ids[count++] = t->model_unk;
      pending = false;
      ids[count++] = id;
    } else if (t->model_unk != MT_TOKEN_NONE) {
      if (pending && !t->fuse_unk) ids[count++] = t->model_unk;
      pending = true;
    }
  }
  if (pending) ids[count++] = t->model_unk;
  return count;
}

/* ---- merging --------------------------------------------------------------------------------- */

static size_t merge_short(const mt_tokenizer *t, uint32_t *ids, size_t n) {
  uint32_t rank[SHORT_WORD];
  for (size_t i = 0; i + 1 < n; i++) rank[i] = rank_of(t, ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; i++)
      if (rank[i] < rank[best]) best = i;
    if (rank[best] == MT_TOKEN_NONE) break;
    ids[best] = find_pair(t, ids[best], ids[best + 1])->id;
    n--;
    for (size_t i = best + 1; i < n; i++) ids[i] = ids[i + 1];
    for (size_t i = best + 1; i + 1 < n; i++) rank[i] = rank[i + 1];
    if (best) rank[best - 1] = rank_of(t, ids[best - 1], ids[best]);
    if (best + 1 < n) rank[best] = rank_of(t, ids[best], ids[best + 1]);
  }
  return n;
}

static int reserve_symbols(mt_encoder *x, size_t n) {
  if (n <= x->cap_sym) return MT_OK;
  uint32_t **field[] = {&x->sym, &x->prev, &x->next, &x->rank};
  size_t cap = n < 1024 ? 1024 : n + n / 2, leaves = 1;
  for (size_t i = 0; i < 4; i++) {
    uint32_t *p = mt_realloc(*field[i], cap, sizeof *p);
    if (!p) return MT_ENOMEM;
    *field[i] = p;
  }
  while (leaves * SEGMENT < cap) leaves *= 2;
  if (2 * leaves > x->cap_best) {
    uint64_t *p = mt_realloc(x->best, 2 * leaves, sizeof *p);
    if (!p) return MT_ENOMEM;
    x->best = p;
    x->cap_best = 2 * leaves;
  }
  x->cap_sym = cap;
  return MT_OK;
}

/* The lowest rank of a segment and the leftmost place that has it, as one number. */
static uint64_t segment_best(const uint32_t *rank, size_t n, size_t segment) {
  size_t end = (segment + 1) * SEGMENT < n ? (segment + 1) * SEGMENT : n;
  uint64_t best = UINT64_MAX;
  for (size_t i = segment * SEGMENT; i < end; i++) {
    uint64_t v = (uint64_t)rank[i] << 32 | i;
    best = v < best ? v : best;
  }
  return best;
}

/* x->best[leaves + i] is segment i's; each node before has the lower of its two children, the root
 * is best[1]. */
static void update_segment(mt_encoder *x, size_t n, size_t leaves, size_t segment) {
  size_t i = leaves + segment;
  uint64_t v = segment_best(x->rank, n, segment);
  while (x->best[i] != v) {
    x->best[i] = v;
    if (i == 1) break;
    uint64_t beside = x->best[i ^ 1];
    v = beside < v ? beside : v;
    i /= 2;
  }
}

static void report_merge(const mt_encoder *x, uint32_t at, const mt_token_pair *p) {
  size_t before = 0;
  for (uint32_t i = x->prev[at]; i != MT_TOKEN_NONE; i = x->prev[i]) before++;
  mt_explain_event ev = {.kind = MT_EXPLAIN_MERGE,
                         .left = p->left,
                         .right = p->right,
                         .id = p->id,
                         .rank = p->rank,
                         .at = before};
  x->explain(x->explain_arg, &ev);
}

/* Joins the symbol at `at` with the one behind it and ranks the two new neighbourhoods. */
static void merge_at(mt_encoder *x, size_t n, size_t leaves, uint32_t at) {
  const mt_tokenizer *t = x->t;
  uint32_t gone = x->next[at], after = x->next[gone], before = x->prev[at];
  const mt_token_pair *p = find_pair(t, x->sym[at], x->sym[gone]);
  if (x->explain) report_merge(x, at, p);
  x->sym[at] = p->id;
  x->next[at] = after;
  x->rank[gone] = MT_TOKEN_NONE;
  x->rank[at] = after == MT_TOKEN_NONE ? MT_TOKEN_NONE : rank_of(t, p->id, x->sym[after]);
  if (after != MT_TOKEN_NONE) x->prev[after] = at;
  update_segment(x, n, leaves, at / SEGMENT);
  if (gone / SEGMENT != at / SEGMENT) update_segment(x, n, leaves, gone / SEGMENT);
  if (before == MT_TOKEN_NONE) return;
  x->rank[before] = rank_of(t, x->sym[before], p->id);
  update_segment(x, n, leaves, before / SEGMENT);
}

/* The symbols lie in x->sym[0..n). */
static int merge_long(mt_encoder *x, size_t n) {
  size_t leaves = 1;
  while (leaves * SEGMENT < n) leaves *= 2;
  for (size_t i = 0; i < n; i++) {
    x->prev[i] = i ? (uint32_t)i - 1 : MT_TOKEN_NONE;
    x->next[i] = i + 1 < n ? (uint32_t)i + 1 : MT_TOKEN_NONE;
    x->rank[i] = i + 1 < n ? rank_of(x->t, x->sym[i], x->sym[i + 1]) : MT_TOKEN_NONE;
  }
  for (size_t i = 0; i < leaves; i++) x->best[leaves + i] = segment_best(x->rank, n, i);
  for (size_t i = leaves; i-- > 1;)
    x->best[i] = x->best[2 * i] < x->best[2 * i + 1] ? x->best[2 * i] : x->best[2 * i + 1];
  while (x->best[1] >> 32 != MT_TOKEN_NONE) merge_at(x, n, leaves, (uint32_t)x->best[1]);
  for (uint32_t i = 0; n && i != MT_TOKEN_NONE; i = x->next[i])
    if (mt_ids_push(x->out, x->sym[i])) return MT_ENOMEM;
  return MT_OK;
}

/* A word that is a token as it stands, for files that ask for no merges then. */
static uint32_t whole_word(const mt_tokenizer *t, const char *s, size_t n) {
  if (!t->byte_level) return mt_token_lookup(t, s, n, MT_TOKEN_MODEL);
  char spelled[512];
  size_t len = 0;
  if (n > sizeof spelled / 2) return MT_TOKEN_NONE;
  for (size_t i = 0; i < n; i++)
    len += (size_t)mt_utf8_encode(mt_symbol_of_byte((unsigned char)s[i]), spelled + len);
  return mt_token_lookup(t, spelled, len, MT_TOKEN_MODEL);
}

static void report(const mt_encoder *x, mt_explain_kind kind, const char *s, size_t n,
                   uint32_t id) {
  mt_explain_event ev = {.kind = kind, .text = s, .len = n, .id = id};
  x->explain(x->explain_arg, &ev);
}

static int encode_word(mt_encoder *x, const char *s, size_t n) {
  const mt_tokenizer *t = x->t;
  if (t->ignore_merges) {
    uint32_t id = whole_word(t, s, n);
    if (id != MT_TOKEN_NONE) return mt_ids_push(x->out, id);
  }
  if (n <= SHORT_WORD && !x->explain) {
    uint32_t ids[SHORT_WORD];
    size_t count = merge_short(t, ids, symbols(t, s, n, ids));
    for (size_t i = 0; i < count; i++)
      if (mt_ids_push(x->out, ids[i])) return MT_ENOMEM;
    return MT_OK;
  }
  if (reserve_symbols(x, n)) return MT_ENOMEM;
  size_t count = symbols(t, s, n, x->sym);
  for (size_t i = 0; x->explain && i < count; i++) report(x, MT_EXPLAIN_START, NULL, 0, x->sym[i]);
  return merge_long(x, count);
}

/* ---- cache ----------------------------------------------------------------------------------- */

typedef struct cache_entry { /* one cache line */
  uint64_t key[3];
  uint8_t len, n; /* len 0: empty */
  uint8_t unused[2];
  uint32_t id[CACHE_IDS];
} cache_entry;
struct mt_word_cache {
  cache_entry entry[1 << CACHE_BITS];
};

mt_word_cache *mt_word_cache_new(void) {
  mt_word_cache *c = aligned_alloc(64, sizeof *c);
  if (c) memset(c, 0, sizeof *c);
  return c;
}

/* Words overlap inside the key, so that each length up to KEY_BYTES has its own injective form. */
static inline void make_key(const char *s, size_t n, uint64_t key[3]) {
  uint64_t a = 0, b = 0, c = 0;
  if (n >= 8) {
    memcpy(&a, s, 8);
    memcpy(&b, s + n - 8, 8);
    if (n > 16) memcpy(&c, s + 8, 8);
  } else if (n >= 4) {
    uint32_t lo, hi;
    memcpy(&lo, s, 4);
    memcpy(&hi, s + n - 4, 4);
    a = (uint64_t)hi << 32 | lo;
  } else {
    a = (uint64_t)(unsigned char)s[0] | (uint64_t)(unsigned char)s[n / 2] << 8 |
        (uint64_t)(unsigned char)s[n - 1] << 16;
  }
  key[0] = a;
  key[1] = b;
  key[2] = c;
}

static int cached_word(mt_encoder *x, const char *s, size_t n) {
  uint64_t key[3];
  make_key(s, n, key);
  uint64_t h = (key[0] ^ n) * 0x9E3779B97F4A7C15ull;
  h = (h ^ h >> 32 ^ key[1]) * 0xBF58476D1CE4E5B9ull;
  h = (h ^ h >> 32 ^ key[2]) * 0x94D049BB133111EBull;
  cache_entry *c = &x->cache->entry[h >> (64 - CACHE_BITS)];
  mt_ids *out = x->out;
  if (c->len == n && c->key[0] == key[0] && c->key[1] == key[1] && c->key[2] == key[2]) {
    if (out->n + CACHE_IDS <= out->cap) { /* a fixed length is faster to copy than the right one */
      memcpy(out->id + out->n, c->id, sizeof c->id);
      out->n += c->n;
      return MT_OK;
    }
    for (size_t i = 0; i < c->n; i++)
      if (mt_ids_push(out, c->id[i])) return MT_ENOMEM;
    return MT_OK;
  }
  size_t before = out->n;
  if (encode_word(x, s, n)) return MT_ENOMEM;
  size_t got = out->n - before;
  if (got <= CACHE_IDS) {
    memcpy(c->key, key, sizeof key);
    c->len = (uint8_t)n;
    c->n = (uint8_t)got;
    if (got) memcpy(c->id, out->id + before, got * sizeof *c->id);
  }
  return MT_OK;
}

static int one_word(mt_encoder *x, const char *s, size_t n) {
  if (x->explain) report(x, MT_EXPLAIN_PIECE, s, n, 0);
  size_t before = x->out->n;
  int rc = x->cache && n <= KEY_BYTES ? cached_word(x, s, n) : encode_word(x, s, n);
  for (size_t i = before; x->explain && !rc && i < x->out->n; i++)
    report(x, MT_EXPLAIN_TOKEN, NULL, 0, x->out->id[i]);
  return rc ? mt_err_set(x->err, rc, "no memory to encode %zu bytes", n) : MT_OK;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

/* A merge across the border of characters a|b makes a token that has them side by side. Where no
 * token that a merge makes has, nothing ever crosses, and both sides can be encoded on their own.
 */
static inline size_t join_bit(uint32_t a, uint32_t b) {
  uint64_t h = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15ull;
  return (size_t)(h >> (64 - JOIN_BITS));
}

static bool cuts_are_exact(const mt_tokenizer *t) {
  if (t->byte_level || t->ignore_merges) return false;
  for (size_t b = 0; b < 256;
       b++) /* else unknown characters vanish or fuse, and their neighbours meet */
    if (t->byte_id[b] == MT_TOKEN_NONE) return false;
  for (size_t i = 0; i < t->cap_pairs; i++) {
    const mt_token_pair *p = &t->pair[i];
    if (p->left == MT_TOKEN_NONE) continue;
    if ((t->token[p->left].flags | t->token[p->right].flags) & MT_TOKEN_BYTE) return false;
  }
  return true;
}

int mt_bpe_make_joins(mt_tokenizer *t) {
  if (!cuts_are_exact(t)) return MT_OK;
  t->joins = mt_calloc((1u << JOIN_BITS) / 64, sizeof *t->joins);
  if (!t->joins) return MT_ENOMEM;
  for (size_t i = 0; i < t->cap_pairs; i++) {
    if (t->pair[i].left == MT_TOKEN_NONE) continue;
    const mt_token_entry *k = &t->token[t->pair[i].id];
    const char *s = t->spellings.data + k->offset;
    uint32_t last = MT_TOKEN_NONE, cp = 0;
    for (size_t at = 0; at < k->len; last = cp) {
      at += (size_t)mt_utf8_decode(s + at, k->len - at, &cp);
      if (last == MT_TOKEN_NONE) continue;
      size_t bit = join_bit(last, cp);
      t->joins[bit / 64] |= 1ull << bit % 64;
    }
  }
  return MT_OK;
}

int mt_bpe_word(mt_encoder *x, const char *s, size_t n) {
  const uint64_t *joins = x->t->joins;
  if (!n) return MT_OK;
  if (!joins) return one_word(x, s, n);
  size_t begin = 0;
  uint32_t last = MT_TOKEN_NONE, cp = 0;
  for (size_t at = 0; at < n; last = cp) {
    size_t here = at;
    cp = mt_unicode_step(s, &at);
    if (last == MT_TOKEN_NONE) continue;
    size_t bit = join_bit(last, cp);
    if (joins[bit / 64] >> bit % 64 & 1) continue;
    int rc = one_word(x, s + begin, here - begin);
    if (rc) return rc;
    begin = here;
  }
  return one_word(x, s + begin, n - begin);
}
