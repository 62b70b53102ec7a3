/* Work on strings that filters and methods share; origin stays with each byte. */
#include <string.h>

#include "runtime.h"

/* Greek sigma at [i, next) ends a word: a cased letter before it and none after it, ignorable
 * characters aside. */
static bool is_final_sigma(const str *s, size_t i, size_t next) {
  bool before = false;
  for (size_t k = i, n = 0; k > 0 && n < 64; n++) {
    size_t unused;
    k = uni_before(s->p, k);
    unsigned f = uni_flags(uni_at(s->p, s->len, k, &unused));
    if (f & UNI_CASE_IGNORABLE) continue;
    before = f & (UNI_UPPER | UNI_LOWER | UNI_TITLE);
    break;
  }
  if (!before) return false;
  for (size_t k = next, n = 0; k < s->len && n < 64; n++) {
    unsigned f = uni_flags(uni_at(s->p, s->len, k, &k));
    if (f & UNI_CASE_IGNORABLE) continue;
    return !(f & (UNI_UPPER | UNI_LOWER | UNI_TITLE));
  }
  return true;
}

/* One character in another case, appended. */
static void put_case(sb *b, const str *s, size_t i, size_t next, uint32_t cp, int how) {
  uint32_t to[3];
  int origin = str_origin(s, i);
  if (cp == 0x3A3 && how == UNI_TO_LOWER && is_final_sigma(s, i, next)) {
    sb_cp(b, 0x3C2, origin);
    return;
  }
  int n = uni_map_case(cp, how, to);
  for (int k = 0; k < n; k++) sb_cp(b, to[k], origin);
}

val text_map_case(rt *r, const str *s, int how) {
  sb b = sb_new(r);
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = uni_at(s->p, s->len, i, &next);
    put_case(&b, s, i, next, cp, how);
  }
  return sb_val(&b);
}

val text_title(rt *r, const str *s) {
  sb b = sb_new(r);
  bool within = false;
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = uni_at(s->p, s->len, i, &next);
    put_case(&b, s, i, next, cp, within ? UNI_TO_LOWER : UNI_TO_TITLE);
    within = uni_flags(cp) & (UNI_UPPER | UNI_LOWER | UNI_TITLE);
  }
  return sb_val(&b);
}

val text_capitalize(rt *r, const str *s) {
  sb b = sb_new(r);
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = uni_at(s->p, s->len, i, &next);
    put_case(&b, s, i, next, cp, i ? UNI_TO_LOWER : UNI_TO_TITLE);
  }
  return sb_val(&b);
}

val text_swapcase(rt *r, const str *s) {
  sb b = sb_new(r);
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = uni_at(s->p, s->len, i, &next);
    unsigned f = uni_flags(cp);
    if (f & (UNI_UPPER | UNI_LOWER))
      put_case(&b, s, i, next, cp, f & UNI_UPPER ? UNI_TO_LOWER : UNI_TO_UPPER);
    else
      sb_part(&b, s, i, next);
  }
  return sb_val(&b);
}

static bool is_in(const str *set, uint32_t cp) {
  if (!set) return uni_is_space(cp);
  for (size_t i = 0; i < set->len;)
    if (uni_at(set->p, set->len, i, &i) == cp) return true;
  return false;
}

val text_strip(rt *r, const str *s, const str *chars, int sides) {
  size_t from = 0, to = s->len, next;
  if (chars && chars->len > 256) fail(r, "more than 256 bytes of characters to strip");
  if (sides & STRIP_LEFT)
    while (from < to && is_in(chars, uni_at(s->p, s->len, from, &next))) {
      from = next;
      charge(r, chars ? chars->len : 0);
    }
  if (sides & STRIP_RIGHT)
    while (to > from) {
      size_t i = uni_before(s->p, to);
      if (!is_in(chars, uni_at(s->p, s->len, i, &next))) break;
      to = i;
      charge(r, chars ? chars->len : 0);
    }
  return val_slice(r, s, from, to);
}

/* Between all characters, as Python does for an empty `from`. */
static val interleave(rt *r, const str *s, const str *to, int64_t count) {
  sb b = sb_new(r);
  for (size_t i = 0, next; i <= s->len; i = next) {
    if (count != 0) {
      sb_str(&b, to);
      count--;
    }
    next = i + 1;
    if (i == s->len) break;
    uni_at(s->p, s->len, i, &next);
    sb_part(&b, s, i, next);
  }
  return sb_val(&b);
}

val text_replace(rt *r, const str *s, const str *from, const str *to, int64_t count) {
  if (!from->len) return interleave(r, s, to, count);
  sb b = sb_new(r);
  size_t at = 0, hit;
  while (count != 0 && (hit = str_find(r, s, from, at)) != SIZE_MAX) {
    sb_part(&b, s, at, hit);
    sb_str(&b, to);
    at = hit + from->len;
    count--;
  }
  if (!at) return (val){.kind = V_STR, .u.s = s};
  sb_part(&b, s, at, s->len);
  return sb_val(&b);
}

val text_pad(rt *r, const str *s, int64_t left, int64_t right, const str *fill) {
  sb b = sb_new(r);
  for (int64_t i = 0; i < left; i++) sb_str(&b, fill);
  sb_str(&b, s);
  for (int64_t i = 0; i < right; i++) sb_str(&b, fill);
  return sb_val(&b);
}

val text_join(rt *r, const list *l, const str *sep, bool strict) {
  sb b = sb_new(r);
  for (size_t i = 0; i < l->n; i++) {
    if (strict && l->v[i].kind != V_STR)
      fail(r, "join: element %zu is not a string but %s", i, val_type_name(l->v[i]));
    charge(r, 0);
    if (i) sb_str(&b, sep);
    put_str(&b, l->v[i]);
  }
  return sb_val(&b);
}

bool text_has_case(rt *r, const str *s, unsigned wanted, unsigned other) {
  bool any = false;
  charge(r, s->len * 4);
  for (size_t i = 0; i < s->len;) {
    unsigned f = uni_flags(uni_at(s->p, s->len, i, &i));
    if (f & (other | UNI_TITLE)) return false;
    any |= (f & wanted) != 0;
  }
  return any;
}

val text_splitlines(rt *r, const str *s, bool keep_ends) {
  vec out = {.r = r};
  charge(r, s->len);
  for (size_t from = 0; from < s->len;) {
    size_t end = from, next = from;
    bool newline = false;
    while (next < s->len && !newline) {
      end = next;
      uint32_t cp = uni_at(s->p, s->len, end, &next);
      newline = uni_is_newline(cp);
      if (cp == '\r' && next < s->len && s->p[next] == '\n') next++;
    }
    vec_push(&out, val_slice(r, s, from, newline && !keep_ends ? end : next));
    from = next;
  }
  return vec_list(&out, LIST_LIST, str_worst_origin(s));
}
