/* Work on strings that filters and methods share; origin stays with each byte. */
#include <string.h>

#include "runtime.h"

/* Greek sigma at [i, next) ends a word: a cased letter before it and none after it, ignorable
 * characters aside. */
static bool is_final_sigma(const str *s, size_t i, size_t next) {
  bool before = false;
  for (size_t k = i, n = 0; k > 0 && n < 64; n++) {
    size_t unused;
    k = mt_uni_before(s->p, k);
    unsigned f = mt_uni_flags(mt_uni_at(s->p, s->len, k, &unused));
    if (f & UNI_CASE_IGNORABLE) continue;
    before = f & (UNI_UPPER | UNI_LOWER | UNI_TITLE);
    break;
  }
  if (!before) return false;
  for (size_t k = next, n = 0; k < s->len && n < 64; n++) {
    unsigned f = mt_uni_flags(mt_uni_at(s->p, s->len, k, &k));
    if (f & UNI_CASE_IGNORABLE) continue;
    return !(f & (UNI_UPPER | UNI_LOWER | UNI_TITLE));
  }
  return true;
}

/* One character in another case, appended. */
static void put_case(sb *b, const str *s, size_t i, size_t next, uint32_t cp, int how) {
  uint32_t to[3];
  int origin = mt_str_origin(s, i);
  if (cp == 0x3A3 && how == UNI_TO_LOWER && is_final_sigma(s, i, next)) {
    mt_sb_cp(b, 0x3C2, origin);
    return;
  }
  int n = mt_uni_map_case(cp, how, to);
  for (int k = 0; k < n; k++) mt_sb_cp(b, to[k], origin);
}

val mt_chat_text_map_case(rt *r, const str *s, int how) {
  sb b = mt_sb_new(r);
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = mt_uni_at(s->p, s->len, i, &next);
    put_case(&b, s, i, next, cp, how);
  }
  return mt_sb_val(&b);
}

val mt_chat_text_title(rt *r, const str *s) {
  sb b = mt_sb_new(r);
  bool within = false;
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = mt_uni_at(s->p, s->len, i, &next);
    put_case(&b, s, i, next, cp, within ? UNI_TO_LOWER : UNI_TO_TITLE);
    within = mt_uni_flags(cp) & (UNI_UPPER | UNI_LOWER | UNI_TITLE);
  }
  return mt_sb_val(&b);
}

val mt_chat_text_capitalize(rt *r, const str *s) {
  sb b = mt_sb_new(r);
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = mt_uni_at(s->p, s->len, i, &next);
    put_case(&b, s, i, next, cp, i ? UNI_TO_LOWER : UNI_TO_TITLE);
  }
  return mt_sb_val(&b);
}

val mt_chat_text_swapcase(rt *r, const str *s) {
  sb b = mt_sb_new(r);
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = mt_uni_at(s->p, s->len, i, &next);
    unsigned f = mt_uni_flags(cp);
    if (f & (UNI_UPPER | UNI_LOWER))
      put_case(&b, s, i, next, cp, f & UNI_UPPER ? UNI_TO_LOWER : UNI_TO_UPPER);
    else
      mt_sb_part(&b, s, i, next);
  }
  return mt_sb_val(&b);
}

static bool is_in(const str *set, uint32_t cp) {
  if (!set) return mt_uni_is_space(cp);
  for (size_t i = 0; i < set->len;)
    if (mt_uni_at(set->p, set->len, i, &i) == cp) return true;
  return false;
}

val mt_chat_text_strip(rt *r, const str *s, const str *chars, int sides) {
  size_t from = 0, to = s->len, next;
  if (chars && chars->len > 256) mt_chat_fail(r, "more than 256 bytes of characters to strip");
  if (sides & STRIP_LEFT)
    while (from < to && is_in(chars, mt_uni_at(s->p, s->len, from, &next))) {
      from = next;
      mt_chat_charge(r, chars ? chars->len : 0);
    }
  if (sides & STRIP_RIGHT)
    while (to > from) {
      size_t i = mt_uni_before(s->p, to);
      if (!is_in(chars, mt_uni_at(s->p, s->len, i, &next))) break;
      to = i;
      mt_chat_charge(r, chars ? chars->len : 0);
    }
  return mt_val_slice(r, s, from, to);
}

/* Between all characters, as Python does for an empty `from`. */
static val interleave(rt *r, const str *s, const str *to, int64_t count) {
  sb b = mt_sb_new(r);
  for (size_t i = 0, next; i <= s->len; i = next) {
    if (count != 0) {
      mt_sb_str(&b, to);
      count--;
    }
    next = i + 1;
    if (i == s->len) break;
    mt_uni_at(s->p, s->len, i, &next);
    mt_sb_part(&b, s, i, next);
  }
  return mt_sb_val(&b);
}

val mt_chat_text_replace(rt *r, const str *s, const str *from, const str *to, int64_t count) {
  if (!from->len) return interleave(r, s, to, count);
  sb b = mt_sb_new(r);
  size_t at = 0, hit;
  while (count != 0 && (hit = mt_str_find(r, s, from, at)) != SIZE_MAX) {
    mt_sb_part(&b, s, at, hit);
    mt_sb_str(&b, to);
    at = hit + from->len;
    count--;
  }
  if (!at) return (val){.kind = V_STR, .u.s = s};
  mt_sb_part(&b, s, at, s->len);
  return mt_sb_val(&b);
}

val mt_chat_text_pad(rt *r, const str *s, int64_t left, int64_t right, const str *fill) {
  sb b = mt_sb_new(r);
  for (int64_t i = 0; i < left; i++) mt_sb_str(&b, fill);
  mt_sb_str(&b, s);
  for (int64_t i = 0; i < right; i++) mt_sb_str(&b, fill);
  return mt_sb_val(&b);
}

val mt_chat_text_join(rt *r, const list *l, const str *sep, bool strict) {
  sb b = mt_sb_new(r);
  for (size_t i = 0; i < l->n; i++) {
    if (strict && l->v[i].kind != V_STR)
      mt_chat_fail(r, "join: element %zu is not a string but %s", i, mt_val_type_name(l->v[i]));
    mt_chat_charge(r, 0);
    if (i) mt_sb_str(&b, sep);
    mt_chat_put_str(&b, l->v[i]);
  }
  return mt_sb_val(&b);
}

bool mt_chat_text_has_case(rt *r, const str *s, unsigned wanted, unsigned other) {
  bool any = false;
  mt_chat_charge(r, s->len * 4);
  for (size_t i = 0; i < s->len;) {
    unsigned f = mt_uni_flags(mt_uni_at(s->p, s->len, i, &i));
    if (f & (other | UNI_TITLE)) return false;
    any |= (f & wanted) != 0;
  }
  return any;
}

val mt_chat_text_splitlines(rt *r, const str *s, bool keep_ends) {
  vec out = {.r = r};
  mt_chat_charge(r, s->len);
  for (size_t from = 0; from < s->len;) {
    size_t end = from, next = from;
    bool newline = false;
    while (next < s->len && !newline) {
      end = next;
      uint32_t cp = mt_uni_at(s->p, s->len, end, &next);
      newline = mt_uni_is_newline(cp);
      if (cp == '\r' && next < s->len && s->p[next] == '\n') next++;
    }
    mt_vec_push(&out, mt_val_slice(r, s, from, newline && !keep_ends ? end : next));
    from = next;
  }
  return mt_vec_list(&out, LIST_LIST, mt_str_worst_origin(s));
}
