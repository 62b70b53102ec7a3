/* Methods of strings, as Python's. */
#include <string.h>

#include "runtime.h"

static val upper(rt *r, val s, const args *a) {
  (void)a;
  return mt_chat_text_map_case(r, s.u.s, UNI_TO_UPPER);
}
static val lower(rt *r, val s, const args *a) {
  (void)a;
  return mt_chat_text_map_case(r, s.u.s, UNI_TO_LOWER);
}
static val casefold(rt *r, val s, const args *a) {
  (void)a;
  return mt_chat_text_map_case(r, s.u.s, UNI_TO_FOLD);
}
static val title(rt *r, val s, const args *a) {
  (void)a;
  return mt_chat_text_title(r, s.u.s);
}
static val capitalize(rt *r, val s, const args *a) {
  (void)a;
  return mt_chat_text_capitalize(r, s.u.s);
}

static val swapcase(rt *r, val v, const args *a) {
  (void)a;
  return mt_chat_text_swapcase(r, v.u.s);
}

static val strip(rt *r, val s, const args *a) {
  return mt_chat_text_strip(r, s.u.s, mt_arg_str(r, a, 0, "chars"), STRIP_LEFT | STRIP_RIGHT);
}
static val lstrip(rt *r, val s, const args *a) {
  return mt_chat_text_strip(r, s.u.s, mt_arg_str(r, a, 0, "chars"), STRIP_LEFT);
}
static val rstrip(rt *r, val s, const args *a) {
  return mt_chat_text_strip(r, s.u.s, mt_arg_str(r, a, 0, "chars"), STRIP_RIGHT);
}

static const str *needed(rt *r, const args *a, size_t i, const char *name) {
  const str *s = mt_arg_str(r, a, i, name);
  if (!s) mt_chat_fail(r, "%s must be a string, not None", name);
  return s;
}

static val replace(rt *r, val s, const args *a) {
  val count = mt_arg_or(a, 2, "count", mt_val_int(-1, MT_SPAN_TEMPLATE));
  return mt_chat_text_replace(r, s.u.s, needed(r, a, 0, "old"), needed(r, a, 1, "new"),
                              mt_val_to_index(r, count, "count"));
}

/* ---- searching ----------------------------------------------------------------------------- */

/* The part of s that the optional arguments start and end (at i and i + 1) name, in bytes; false:
 * it is empty by its bounds, so that not even "" is found in it. */
static bool window(rt *r, const str *s, const args *a, size_t i, size_t *from, size_t *to) {
  *from = 0;
  *to = s->len;
  val start = mt_arg_get(a, i, "start"), end = mt_arg_get(a, i + 1, "end");
  bool none_start = start.kind == V_MISSING || start.kind == V_NONE,
       none_end = end.kind == V_MISSING || end.kind == V_NONE;
  if (none_start && none_end) return true;
  int64_t n = (int64_t)mt_str_chars(r, s), x = none_start ? 0 : mt_val_to_index(r, start, "start"),
          y = none_end ? n : mt_val_to_index(r, end, "end");
  if (x < 0) x = x < -n ? 0 : x + n;
  if (y < 0) y = y < -n ? 0 : y + n;
  if (y > n) y = n;
  if (x > y) return false;
  *from = mt_str_offset(r, s, (size_t)x);
  *to = mt_str_offset(r, s, (size_t)y);
  return true;
}

/* startswith and endswith take one string or a tuple of them. */
static val affix(rt *r, val v, const args *a, bool at_end) {
  size_t from, to;
  val what = mt_arg_get(a, 0, "prefix"), *one = mt_val_array(r, 1);
  if (what.kind == V_UNDEF) mt_chat_fail_undefined(r, what);
  *one = what;
  list single = {.form = LIST_TUPLE, .n = 1, .v = one};
  const list *l = what.kind == V_LIST && what.u.l->form == LIST_TUPLE ? what.u.l : &single;
  bool found = false, open = window(r, v.u.s, a, 1, &from, &to);
  for (size_t i = 0; i < l->n; i++) {
    if (l->v[i].kind != V_STR)
      mt_chat_fail(r, "startswith and endswith need a string or a tuple of strings, not %s",
                   mt_val_type_name(l->v[i]));
    const str *x = l->v[i].u.s;
    mt_chat_charge(r, x->len);
    if (open && x->len <= to - from &&
        !memcmp(v.u.s->p + (at_end ? to - x->len : from), x->p, x->len))
      found = true;
  }
  return mt_val_bool(found, mt_val_origin(v));
}
static val startswith(rt *r, val v, const args *a) {
  return affix(r, v, a, false);
}
static val endswith(rt *r, val v, const args *a) {
  return affix(r, v, a, true);
}

static val search(rt *r, val v, const args *a, bool from_right, bool must) {
  size_t from, to, hit = SIZE_MAX;
  const str *s = v.u.s, *what = needed(r, a, 0, "sub");
  if (window(r, s, a, 1, &from, &to)) {
    const str head = {.p = s->p, .len = to};
    hit = from_right ? mt_str_rfind(r, &head, what, to) : mt_str_find(r, &head, what, from);
    if (hit != SIZE_MAX && hit < from) hit = SIZE_MAX;
  }
  if (hit == SIZE_MAX && must) mt_chat_fail(r, "substring not found");
  int64_t at = -1;
  if (hit != SIZE_MAX) {
    const str head = {.p = s->p, .len = hit};
    at = (int64_t)mt_str_chars(r, &head);
  }
  return mt_val_int(at, mt_val_origin(v));
}
static val find(rt *r, val v, const args *a) {
  return search(r, v, a, false, false);
}
static val rfind(rt *r, val v, const args *a) {
  return search(r, v, a, true, false);
}
static val index_of(rt *r, val v, const args *a) {
  return search(r, v, a, false, true);
}
static val rindex_of(rt *r, val v, const args *a) {
  return search(r, v, a, true, true);
}

static val count(rt *r, val v, const args *a) {
  size_t from, to;
  const str *what = needed(r, a, 0, "sub");
  int64_t n = 0;
  if (window(r, v.u.s, a, 1, &from, &to)) {
    const str head = {.p = v.u.s->p, .len = to};
    const str part = {.p = v.u.s->p + from, .len = to - from};
    if (!what->len)
      n = (int64_t)mt_str_chars(r, &part) + 1;
    else
      for (size_t hit = from; (hit = mt_str_find(r, &head, what, hit)) != SIZE_MAX;
           hit += what->len)
        n++;
  }
  return mt_val_int(n, mt_val_origin(v));
}

/* ---- splitting ----------------------------------------------------------------------------- */

static val split_space(rt *r, const str *s, int64_t max, bool from_right) {
  vec out = {.r = r};
  size_t a = mt_uni_skip_space(s->p, s->len, 0), z = mt_uni_trim_end(s->p, a, s->len), next;
  mt_chat_charge(r, s->len * 4);
  if (from_right) {
    a = 0;
    while (z > a && max-- != 0) {
      size_t word = z;
      while (word > a &&
             !mt_uni_is_space(mt_uni_at(s->p, s->len, mt_uni_before(s->p, word), &next)))
        word = mt_uni_before(s->p, word);
      mt_vec_push(&out, mt_val_slice(r, s, word, z));
      z = mt_uni_trim_end(s->p, a, word);
    }
    if (z > a) mt_vec_push(&out, mt_val_slice(r, s, a, z)); /* leading space stays, as in Python */
    for (size_t i = 0; i < out.n / 2; i++) {
      val t = out.v[i];
      out.v[i] = out.v[out.n - 1 - i];
      out.v[out.n - 1 - i] = t;
    }
    return mt_vec_list(&out, LIST_LIST, mt_str_worst_origin(s));
  }
  z = s->len;
  while (a < z && max-- != 0) {
    size_t word = a;
    while (word < z && !mt_uni_is_space(mt_uni_at(s->p, s->len, word, &next))) word = next;
    mt_vec_push(&out, mt_val_slice(r, s, a, word));
    a = mt_uni_skip_space(s->p, s->len, word);
  }
  if (a < z) mt_vec_push(&out, mt_val_slice(r, s, a, z));
  return mt_vec_list(&out, LIST_LIST, mt_str_worst_origin(s));
}

static val split_at(rt *r, const str *s, const str *sep, int64_t max) {
  vec out = {.r = r};
  size_t at = 0, hit;
  if (!sep->len) mt_chat_fail(r, "empty separator");
  while (max-- != 0 && (hit = mt_str_find(r, s, sep, at)) != SIZE_MAX) {
    mt_vec_push(&out, mt_val_slice(r, s, at, hit));
    at = hit + sep->len;
  }
  mt_vec_push(&out, mt_val_slice(r, s, at, s->len));
  return mt_vec_list(&out, LIST_LIST, mt_str_worst_origin(s));
}

static val rsplit_at(rt *r, const str *s, const str *sep, int64_t max) {
  vec out = {.r = r};
  size_t end = s->len, hit;
  if (!sep->len) mt_chat_fail(r, "empty separator");
  while (max-- != 0 && (hit = mt_str_rfind(r, s, sep, end)) != SIZE_MAX) {
    mt_vec_push(&out, mt_val_slice(r, s, hit + sep->len, end));
    end = hit;
  }
  mt_vec_push(&out, mt_val_slice(r, s, 0, end));
  for (size_t i = 0; i < out.n / 2; i++) {
    val t = out.v[i];
    out.v[i] = out.v[out.n - 1 - i];
    out.v[out.n - 1 - i] = t;
  }
  return mt_vec_list(&out, LIST_LIST, mt_str_worst_origin(s));
}

static val split_either(rt *r, val v, const args *a, bool from_right) {
  const str *sep = mt_arg_str(r, a, 0, "sep");
  int64_t max =
      mt_val_to_index(r, mt_arg_or(a, 1, "maxsplit", mt_val_int(-1, MT_SPAN_TEMPLATE)), "maxsplit");
  if (!sep) return split_space(r, v.u.s, max, from_right);
  return from_right ? rsplit_at(r, v.u.s, sep, max) : split_at(r, v.u.s, sep, max);
}
static val split(rt *r, val v, const args *a) {
  return split_either(r, v, a, false);
}
static val rsplit(rt *r, val v, const args *a) {
  return split_either(r, v, a, true);
}

static val splitlines(rt *r, val v, const args *a) {
  return mt_chat_text_splitlines(r, v.u.s, mt_arg_bool(r, a, 0, "keepends", false));
}

static val partition_at(rt *r, val v, const args *a, bool from_right) {
  const str *s = v.u.s, *sep = needed(r, a, 0, "sep");
  if (!sep->len) mt_chat_fail(r, "empty separator");
  size_t hit = from_right ? mt_str_rfind(r, s, sep, s->len) : mt_str_find(r, s, sep, 0);
  val *t = mt_val_array(r, 3);
  t[0] = t[1] = t[2] = mt_val_cstr(r, "");
  if (hit == SIZE_MAX) {
    t[from_right ? 2 : 0] = v;
  } else {
    t[0] = mt_val_slice(r, s, 0, hit);
    t[1] = mt_val_slice(r, s, hit, hit + sep->len);
    t[2] = mt_val_slice(r, s, hit + sep->len, s->len);
  }
  return mt_val_list(r, t, 3, LIST_TUPLE, mt_str_worst_origin(s));
}
static val partition(rt *r, val v, const args *a) {
  return partition_at(r, v, a, false);
}
static val rpartition(rt *r, val v, const args *a) {
  return partition_at(r, v, a, true);
}

static val removeprefix(rt *r, val v, const args *a) {
  const str *x = needed(r, a, 0, "prefix"), *s = v.u.s;
  bool has = x->len <= s->len && !memcmp(s->p, x->p, x->len);
  return has ? mt_val_slice(r, s, x->len, s->len) : v;
}
static val removesuffix(rt *r, val v, const args *a) {
  const str *x = needed(r, a, 0, "suffix"), *s = v.u.s;
  bool has = x->len <= s->len && !memcmp(s->p + s->len - x->len, x->p, x->len);
  return has ? mt_val_slice(r, s, 0, s->len - x->len) : v;
}

static val join(rt *r, val v, const args *a) {
  return mt_chat_text_join(r, mt_val_items(r, mt_arg_get(a, 0, "iterable")), v.u.s, true);
}

/* ---- padding ------------------------------------------------------------------------------- */

static val justify(rt *r, val v, const args *a, int mode) {
  const str *fill = mt_arg_str(r, a, 1, "fillchar");
  if (!fill) fill = mt_val_cstr(r, " ").u.s;
  if (mt_str_chars(r, fill) != 1) mt_chat_fail(r, "the fill character must be one character");
  int64_t n = (int64_t)mt_str_chars(r, v.u.s),
          width = mt_val_to_index(r, mt_arg_get(a, 0, "width"), "width"),
          pad = width > n ? width - n : 0;
  int64_t left = mode == STRIP_LEFT ? pad : mode == STRIP_RIGHT ? 0 : pad / 2 + (pad & width & 1);
  return mt_chat_text_pad(r, v.u.s, left, pad - left, fill);
}
static val ljust(rt *r, val v, const args *a) {
  return justify(r, v, a, STRIP_RIGHT);
}
static val rjust(rt *r, val v, const args *a) {
  return justify(r, v, a, STRIP_LEFT);
}
static val center(rt *r, val v, const args *a) {
  return justify(r, v, a, 0);
}

static val zfill(rt *r, val v, const args *a) {
  const str *s = v.u.s;
  int64_t n = (int64_t)mt_str_chars(r, s),
          width = mt_val_to_index(r, mt_arg_get(a, 0, "width"), "width");
  size_t sign = s->len && (s->p[0] == '+' || s->p[0] == '-');
  sb b = mt_sb_new(r);
  mt_sb_part(&b, s, 0, sign);
  for (int64_t i = n; i < width; i++) mt_sb_puts(&b, "0", mt_str_worst_origin(s));
  mt_sb_part(&b, s, sign, s->len);
  return mt_sb_val(&b);
}

static val expandtabs(rt *r, val v, const args *a) {
  const str *s = v.u.s;
  int64_t size = mt_val_to_index(r, mt_arg_or(a, 0, "tabsize", mt_val_int(8, MT_SPAN_TEMPLATE)),
                                 "tabsize"),
          column = 0;
  sb b = mt_sb_new(r);
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = mt_uni_at(s->p, s->len, i, &next);
    if (cp == '\t') {
      int64_t n = size > 0 ? size - column % size : 0;
      for (int64_t k = 0; k < n; k++) mt_sb_puts(&b, " ", mt_str_origin(s, i));
      column += n;
      continue;
    }
    column = cp == '\n' || cp == '\r' ? 0 : column + 1;
    mt_sb_part(&b, s, i, next);
  }
  return mt_sb_val(&b);
}

/* ---- questions ----------------------------------------------------------------------------- */

static val all_have(rt *r, val v, unsigned flags) {
  bool yes = v.u.s->len > 0;
  mt_chat_charge(r, v.u.s->len * 4);
  for (size_t i = 0; yes && i < v.u.s->len;)
    yes = mt_uni_flags(mt_uni_at(v.u.s->p, v.u.s->len, i, &i)) & flags;
  return mt_val_bool(yes, mt_val_origin(v));
}
static val isalpha_(rt *r, val v, const args *a) {
  (void)a;
  return all_have(r, v, UNI_ALPHA);
}
static val isalnum_(rt *r, val v, const args *a) {
  (void)a;
  return all_have(r, v, UNI_ALPHA | UNI_DECIMAL | UNI_DIGIT | UNI_NUMERIC);
}
static val isdigit_(rt *r, val v, const args *a) {
  (void)a;
  return all_have(r, v, UNI_DIGIT);
}
static val isdecimal_(rt *r, val v, const args *a) {
  (void)a;
  return all_have(r, v, UNI_DECIMAL);
}
static val isnumeric_(rt *r, val v, const args *a) {
  (void)a;
  return all_have(r, v, UNI_NUMERIC);
}
static val isupper_(rt *r, val v, const args *a) {
  (void)a;
  return mt_val_bool(mt_chat_text_has_case(r, v.u.s, UNI_UPPER, UNI_LOWER), mt_val_origin(v));
}
static val islower_(rt *r, val v, const args *a) {
  (void)a;
  return mt_val_bool(mt_chat_text_has_case(r, v.u.s, UNI_LOWER, UNI_UPPER), mt_val_origin(v));
}
static val isspace_(rt *r, val v, const args *a) {
  (void)a;
  mt_chat_charge(r, v.u.s->len);
  return mt_val_bool(v.u.s->len && mt_uni_skip_space(v.u.s->p, v.u.s->len, 0) == v.u.s->len,
                     mt_val_origin(v));
}
static val isascii_(rt *r, val v, const args *a) {
  (void)a;
  return mt_val_bool(mt_str_chars(r, v.u.s) == v.u.s->len, mt_val_origin(v));
}
static val format(rt *r, val v, const args *a) {
  return mt_chat_format_braces(r, v.u.s, a);
}

#define METHOD(name, params, fn) \
  { {"method", name, params}, V_STR, fn }
const method_def mt_chat_str_methods[] = {
    METHOD("strip", "chars?", strip),
    METHOD("lstrip", "chars?", lstrip),
    METHOD("rstrip", "chars?", rstrip),
    METHOD("split", "sep?,maxsplit?", split),
    METHOD("rsplit", "sep?,maxsplit?", rsplit),
    METHOD("splitlines", "keepends?", splitlines),
    METHOD("replace", "old,new,count?", replace),
    METHOD("startswith", "prefix,start?,end?", startswith),
    METHOD("endswith", "prefix,start?,end?", endswith),
    METHOD("upper", "", upper),
    METHOD("lower", "", lower),
    METHOD("title", "", title),
    METHOD("capitalize", "", capitalize),
    METHOD("casefold", "", casefold),
    METHOD("swapcase", "", swapcase),
    METHOD("find", "sub,start?,end?", find),
    METHOD("rfind", "sub,start?,end?", rfind),
    METHOD("index", "sub,start?,end?", index_of),
    METHOD("rindex", "sub,start?,end?", rindex_of),
    METHOD("count", "sub,start?,end?", count),
    METHOD("join", "iterable", join),
    METHOD("format", "*", format),
    METHOD("partition", "sep", partition),
    METHOD("rpartition", "sep", rpartition),
    METHOD("removeprefix", "prefix", removeprefix),
    METHOD("removesuffix", "suffix", removesuffix),
    METHOD("ljust", "width,fillchar?", ljust),
    METHOD("rjust", "width,fillchar?", rjust),
    METHOD("center", "width,fillchar?", center),
    METHOD("zfill", "width", zfill),
    METHOD("expandtabs", "tabsize?", expandtabs),
    METHOD("isalpha", "", isalpha_),
    METHOD("isalnum", "", isalnum_),
    METHOD("isascii", "", isascii_),
    METHOD("isdigit", "", isdigit_),
    METHOD("isdecimal", "", isdecimal_),
    METHOD("isnumeric", "", isnumeric_),
    METHOD("isupper", "", isupper_),
    METHOD("islower", "", islower_),
    METHOD("isspace", "", isspace_),
    {{NULL, NULL, NULL}, 0, NULL},
};
