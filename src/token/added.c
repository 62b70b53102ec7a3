/* Added tokens: whole tokens recognised in the text before anything else is done to it. A trie,
 * walked at every position that may begin one; the longest match at the leftmost place wins, as in
 * the reference. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int trie_push(mt_trie *t, unsigned char byte, uint32_t *index) {
  if (t->n == t->cap) {
    size_t cap = t->cap ? 2 * t->cap : 64;
    mt_trie_node *p = mt_realloc(t->node, cap, sizeof *p);
    if (!p) return MT_ENOMEM;
    t->node = p;
    t->cap = cap;
  }
  *index = (uint32_t)t->n;
  t->node[t->n++] = (mt_trie_node){.added = MT_TOKEN_NONE, .byte = byte};
  return MT_OK;
}

static uint32_t trie_child(const mt_trie *t, uint32_t at, unsigned char byte) {
  if (!at) return t->first[byte];
  uint32_t c = t->node[at].child;
  while (c && t->node[c].byte != byte) c = t->node[c].sibling;
  return c;
}

int mt_trie_insert(mt_trie *t, const char *s, size_t len, uint32_t added) {
  uint32_t at = 0, fresh;
  if (!t->n && trie_push(t, 0, &fresh)) return MT_ENOMEM;
  for (size_t i = 0; i < len; i++) {
    unsigned char byte = (unsigned char)s[i];
    uint32_t child = trie_child(t, at, byte);
    if (!child) {
      if (trie_push(t, byte, &child)) return MT_ENOMEM;
      if (at) {
        t->node[child].sibling = t->node[at].child;
        t->node[at].child = child;
      } else {
        t->first[byte] = child;
      }
    }
    at = child;
  }
  t->node[at].added = added;
  return MT_OK;
}

void mt_trie_free(mt_trie *t) {
  free(t->node);
  *t = (mt_trie){0};
}

static unsigned class_before(const char *s, size_t at) {
  size_t i = at;
  do i--;
  while (i && ((unsigned char)s[i] & 0xC0) == 0x80);
  uint32_t cp = 0;
  return mt_utf8_decode(s + i, at - i, &cp) > 0 ? mt_unicode_class(cp) : 0;
}

static unsigned class_at(const char *s, size_t n, size_t at, size_t *len) {
  uint32_t cp = 0;
  int k = mt_utf8_decode(s + at, n - at, &cp);
  *len = k > 0 ? (size_t)k : 1;
  return k > 0 ? mt_unicode_class(cp) : 0;
}

static bool inside_template(const mt_added_scope *scope, size_t begin, size_t end) {
  const mt_text *text = scope->text;
  size_t lo = 0, hi = text->n_spans; /* the span that holds `begin` */
  begin += scope->offset;
  end += scope->offset;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (text->span[mid].end <= begin)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < text->n_spans && text->span[lo].begin <= begin && end <= text->span[lo].end &&
         text->span[lo].origin == MT_SPAN_TEMPLATE;
}

static bool word_at_edge(const mt_added_scan *x, size_t begin, size_t end) {
  size_t len;
  return (begin && (class_before(x->s, begin) & MT_UC_WORD)) ||
         (end < x->n && (class_at(x->s, x->n, end, &len) & MT_UC_WORD));
}

static bool allowed(const mt_added_scan *x, const mt_added *a, size_t begin, size_t end) {
  if (a->special && !x->scope.parse_special) return false;
  if (a->special && x->scope.text && !inside_template(&x->scope, begin, end)) return false;
  return !a->single_word || !word_at_edge(x, begin, end);
}

/* The added token at `at`: its index, or MT_TOKEN_NONE; *end its end. What is not allowed hides
 * shorter ones and is passed over as a whole, as in the reference; but with spans, where a user's
 * text must not hide the template's tokens, the longest allowed one counts. */
static uint32_t match_at(const mt_added_scan *x, size_t at, size_t *end) {
  uint32_t node = 0, best = MT_TOKEN_NONE;
  for (size_t i = at; i < x->n; i++) {
    node = trie_child(x->trie, node, (unsigned char)x->s[i]);
    if (!node) break;
    uint32_t a = x->trie->node[node].added;
    if (a == MT_TOKEN_NONE) continue;
    if (x->scope.text && !allowed(x, &x->t->added[a], at, i + 1)) continue;
    best = a;
    *end = i + 1;
  }
  return best;
}

static void widen(const mt_added_scan *x, const mt_added *a, size_t *begin, size_t *end) {
  size_t len;
  while (a->lstrip && *begin > x->at && (class_before(x->s, *begin) & MT_UC_SPACE)) {
    do --*begin;
    while (*begin > x->at && ((unsigned char)x->s[*begin] & 0xC0) == 0x80);
  }
  while (a->rstrip && *end < x->n && (class_at(x->s, x->n, *end, &len) & MT_UC_SPACE)) *end += len;
}

bool mt_added_next(mt_added_scan *x, mt_added_match *m) {
  if (x->has_held) {
    *m = x->held;
    x->has_held = false;
    return true;
  }
  if (x->at >= x->n) return false;
  for (size_t i = x->at; x->trie->n && i < x->n; i++) {
    if (!x->trie->first[(unsigned char)x->s[i]]) continue;
    size_t begin = i, end = i;
    uint32_t a = match_at(x, i, &end);
    if (a == MT_TOKEN_NONE) continue;
    const mt_added *token = &x->t->added[a];
    if (!x->scope.text && !allowed(x, token, begin, end)) {
      i = end - 1;
      continue;
    }
    widen(x, token, &begin, &end);
    x->held = (mt_added_match){begin, end, token->id};
    x->has_held = begin > x->at;
    *m = x->has_held ? (mt_added_match){x->at, begin, MT_TOKEN_NONE} : x->held;
    x->at = end;
    return true;
  }
  *m = (mt_added_match){x->at, x->n, MT_TOKEN_NONE};
  x->at = x->n;
  return true;
}
