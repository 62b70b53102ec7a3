/* The vocabulary: spellings, ids, merges; what the tables are built from and how they are asked. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static uint64_t text_hash(const char *s, size_t len) {
  uint64_t h = mt_hash64(MT_HASH_INIT, s, len);
  return h ^ h >> 29;
}

/* The slot of by_text where the spelling is or would go. */
static size_t text_slot(const mt_tokenizer *t, const char *s, size_t len) {
  size_t i = (size_t)text_hash(s, len) & (t->cap_text - 1);
  for (; t->by_text[i]; i = (i + 1) & (t->cap_text - 1)) {
    const mt_token_entry *k = &t->token[t->by_text[i] - 1];
    if (k->len == len && !memcmp(t->spellings.data + k->offset, s, len)) break;
  }
  return i;
}

uint32_t mt_token_lookup(const mt_tokenizer *t, const char *s, size_t len, unsigned flags) {
  if (!t->cap_text) return MT_TOKEN_NONE;
  uint32_t found = t->by_text[text_slot(t, s, len)];
  return found && (t->token[found - 1].flags & flags) ? found - 1 : MT_TOKEN_NONE;
}

static int grow_text(mt_tokenizer *t) {
  if (2 * (t->n_text + 1) <= t->cap_text) return MT_OK;
  size_t old_cap = t->cap_text, cap = old_cap ? 2 * old_cap : 1024;
  uint32_t *old = t->by_text, *fresh = mt_calloc(cap, sizeof *fresh);
  if (!fresh) return MT_ENOMEM;
  t->by_text = fresh;
  t->cap_text = cap;
  for (size_t i = 0; i < old_cap; i++)
    if (old[i])
      fresh[text_slot(t, mt_token_spelling(t, old[i] - 1), t->token[old[i] - 1].len)] = old[i];
  free(old);
  return MT_OK;
}

static int grow_ids(mt_tokenizer *t, size_t need) {
  if (need > t->cap_tokens) {
    size_t cap = t->cap_tokens ? t->cap_tokens : 1024;
    while (cap < need) cap *= 2;
    mt_token_entry *p = mt_realloc(t->token, cap, sizeof *p);
    if (!p) return MT_ENOMEM;
    t->token = p;
    t->cap_tokens = cap;
  }
  if (need > t->n_tokens) {
    memset(t->token + t->n_tokens, 0, (need - t->n_tokens) * sizeof *t->token);
    t->n_tokens = need;
  }
  return MT_OK;
}

int mt_token_put(mt_tokenizer *t, uint64_t id, const char *s, size_t len, unsigned flags,
                 mt_err *e) {
  if (id >= MT_TOKEN_MAX_ID)
    return mt_err_set(e, MT_ERANGE, "%s: token id %llu is above %d", t->name.data,
                      (unsigned long long)id, MT_TOKEN_MAX_ID - 1);
  if (!mt_utf8_valid(s, len, NULL))
    return mt_err_set(e, MT_EFORMAT, "%s: token %llu is not UTF-8", t->name.data,
                      (unsigned long long)id);
  if (grow_text(t) || grow_ids(t, (size_t)id + 1)) goto no_memory;
  mt_token_entry *k = &t->token[id];
  size_t slot = text_slot(t, s, len);
  uint32_t holder = t->by_text[slot];
  if ((holder && holder - 1 != id) || ((k->flags & MT_TOKEN_USED) && holder != id + 1))
    return mt_err_set(e, MT_EFORMAT,
                      "%s: token %llu \"%.*s\" comes twice, with another id or spelling",
                      t->name.data, (unsigned long long)id, (int)(len < 80 ? len : 80), s);
  k->flags |= flags | MT_TOKEN_USED;
  if (holder) return MT_OK;
  if (t->spellings.len + len > UINT32_MAX)
    return mt_err_set(e, MT_ERANGE, "%s: spellings above 4 GiB", t->name.data);
  k->offset = (uint32_t)t->spellings.len;
  k->len = (uint32_t)len;
  if (mt_buf_append(&t->spellings, s, len)) goto no_memory;
  t->by_text[slot] = (uint32_t)id + 1;
  t->n_text++;
  return MT_OK;
no_memory:
  return mt_err_set(e, MT_ENOMEM, "%s: no memory for the vocabulary", t->name.data);
}

static void pair_store(mt_tokenizer *t, mt_token_pair p) {
  size_t i = mt_token_pair_slot(t, p.left, p.right);
  for (; t->pair[i].left != MT_TOKEN_NONE; i = (i + 1) & (t->cap_pairs - 1))
    if (t->pair[i].left == p.left && t->pair[i].right == p.right) break;
  if (t->pair[i].left == MT_TOKEN_NONE) t->n_pairs++;
  t->pair[i] = p;
}

int mt_token_put_pair(mt_tokenizer *t, uint32_t left, uint32_t right, uint32_t rank, uint32_t id) {
  if (5 * (t->n_pairs + 1) > 3 * t->cap_pairs) {
    size_t old_cap = t->cap_pairs, cap = old_cap ? 2 * old_cap : 1024;
    mt_token_pair *old = t->pair, *fresh = mt_malloc(cap, sizeof *fresh);
    if (!fresh) return MT_ENOMEM;
    memset(fresh, 0xFF, cap * sizeof *fresh);
    t->pair = fresh;
    t->cap_pairs = cap;
    t->n_pairs = 0;
    for (size_t i = 0; i < old_cap; i++)
      if (old[i].left != MT_TOKEN_NONE) pair_store(t, old[i]);
    free(old);
  }
  pair_store(t, (mt_token_pair){left, right, rank, id});
  return MT_OK;
}

/* The byte-level alphabet: printable Latin-1 stands for itself, the other 68 bytes for U+0100 on,
 * in order. */
static bool stands_for_itself(unsigned b) {
  return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

uint32_t mt_symbol_of_byte(unsigned char b) {
  if (stands_for_itself(b)) return b;
  if (b <= 0x20) return 0x100u + b;
  if (b <= 0xA0) return 0x121u + (b - 0x7Fu);
  return 0x143;
}

int mt_byte_of_symbol(uint32_t cp) {
  if (cp < 0x100) return stands_for_itself(cp) ? (int)cp : -1;
  if (cp <= 0x120) return (int)cp - 0x100;
  if (cp <= 0x142) return (int)cp - 0x121 + 0x7F;
  return cp == 0x143 ? 0xAD : -1;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

int mt_byte_of_fallback(const char *s, size_t len) {
  if (len != 6 || memcmp(s, "<0x", 3) || s[5] != '>') return -1;
  int hi = hex_digit(s[3]), lo = hex_digit(s[4]);
  return hi < 0 || lo < 0 ? -1 : 16 * hi + lo;
}

int mt_token_put_added(mt_tokenizer *t, const mt_added *a, const char *s, size_t len, mt_err *e) {
  if (!len) return MT_OK;
  unsigned flags = MT_TOKEN_ADDED | (a->special ? MT_TOKEN_SPECIAL : 0u);
  int rc = mt_token_put(t, a->id, s, len, flags, e);
  if (rc) return rc;
  mt_added *p = mt_realloc(t->added, t->n_added + 1, sizeof *p);
  if (!p) return mt_err_set(e, MT_ENOMEM, "%s: no memory for the added tokens", t->name.data);
  t->added = p;
  p[t->n_added++] = *a;
  return MT_OK;
}

static void fill_symbols(mt_tokenizer *t) {
  for (unsigned b = 0; b < 256; b++) {
    char s[16];
    size_t n;
    if (t->byte_level) {
      n = (size_t)mt_utf8_encode(mt_symbol_of_byte((unsigned char)b), s);
    } else {
      static const char hex[] = "0123456789ABCDEF";
      memcpy(s, "<0x  >", 6);
      s[3] = hex[b >> 4];
      s[4] = hex[b & 15];
      n = 6;
    }
    bool want = t->byte_level || t->byte_fallback;
    t->byte_id[b] = want ? mt_token_lookup(t, s, n, MT_TOKEN_MODEL | MT_TOKEN_BYTE) : MT_TOKEN_NONE;
    if (!t->byte_level && t->byte_id[b] != MT_TOKEN_NONE)
      t->token[t->byte_id[b]].flags |= MT_TOKEN_BYTE;
  }
  for (unsigned c = 0; c < 128; c++) {
    char s = (char)c;
    t->ascii_id[c] = mt_token_lookup(t, &s, 1, MT_TOKEN_MODEL);
  }
}

/* Normalized added tokens are looked for in the normalized text, by their own normalized spelling.
 */
static int fill_tries(mt_tokenizer *t, mt_err *e) {
  mt_encoder x = {.t = t, .err = e, .has_newer = true};
  int rc = MT_OK;
  for (size_t i = 0; i < t->n_added && !rc; i++) {
    const mt_token_entry *k = &t->token[t->added[i].id];
    const char *s = t->spellings.data + k->offset;
    size_t n = k->len;
    if (t->added[i].normalized && (rc = mt_norm_run(&x, s, n, &s, &n))) break;
    if (n && mt_trie_insert(t->added[i].normalized ? &t->normalized : &t->raw, s, n, (uint32_t)i))
      rc = mt_err_set(e, MT_ENOMEM, "%s: no memory for the added tokens", t->name.data);
  }
  mt_regex_scratch_free(x.scratch);
  mt_buf_free(&x.norm[0]);
  mt_buf_free(&x.norm[1]);
  return rc;
}

int mt_tokenizer_seal(mt_tokenizer *t, mt_err *e) {
  if (!t->n_tokens) return mt_err_set(e, MT_EFORMAT, "%s: the vocabulary is empty", t->name.data);
  fill_symbols(t);
  int rc = fill_tries(t, e);
  if (rc) return rc;
  if (mt_decode_prepare(t) || mt_bpe_make_joins(t) || !(t->cache = mt_word_cache_new()))
    return mt_err_set(e, MT_ENOMEM, "%s: no memory for the tokenizer's tables", t->name.data);
  return MT_OK;
}
