/* Methods of strings, as Python's. */
#include <string.h>

#include "runtime.h"

static val upper(rt *r, val s, const args *a) {
  (void)a;
  return text_map_case(r, s.u.s, UNI_TO_UPPER);
}
static val lower(rt *r, val s, const args *a) {
  (void)a;
  return text_map_case(r, s.u.s, UNI_TO_LOWER);
}
static val casefold(rt *r, val s, const args *a) {
  (void)a;
  return text_map_case(r, s.u.s, UNI_TO_FOLD);
}
static val title(rt *r, val s, const args *a) {
  (void)a;
  return text_title(r, s.u.s);
}
static val capitalize(rt *r, val s, const args *a) {
  (void)a;
  return text_capitalize(r, s.u.s);
}

static val swapcase(rt *r, val v, const args *a) {
  (void)a;
  return text_swapcase(r, v.u.s);
}

static val strip(rt *r, val s, const args *a) {
  return text_strip(r, s.u.s, arg_str(r, a, 0, "chars"), STRIP_LEFT | STRIP_RIGHT);
}
static val lstrip(rt *r, val s, const args *a) {
  return text_strip(r, s.u.s, arg_str(r, a, 0, "chars"), STRIP_LEFT);
}
static val rstrip(rt *r, val s, const args *a) {
  return text_strip(r, s.u.s, arg_str(r, a, 0, "chars"), STRIP_RIGHT);
}

static const str *needed(rt *r, const args *a, size_t i, const char *name) {
  const str *s = arg_str(r, a, i, name);
  if (!s) fail(r, "%s must be a string, not None", name);
  return s;
}

static val replace(rt *r, val s, const args *a) {
  val count = arg_or(a, 2, "count", val_int(-1, MT_SPAN_TEMPLATE));
  return text_replace(r, s.u.s, needed(r, a, 0, "old"), needed(r, a, 1, "new"),
                      val_to_index(r, count, "count"));
}

/* ---- searching ----------------------------------------------------------------------------- */

/* The part of s that the optional arguments start and end (at i and i + 1) name, in bytes; false:
 * it is empty by its bounds, so that not even "" is found in it. */
static bool window(rt *r, const str *s, const args *a, size_t i, size_t *from, size_t *to) {
  *from = 0;
  *to = s->len;
  val start = arg_get(a, i, "start"), end = arg_get(a, i + 1, "end");
  bool none_start = start.kind == V_MISSING || start.kind == V_NONE,
       none_end = end.kind == V_MISSING || end.kind == V_NONE;
  if (none_start && none_end) return true;
  int64_t n = (int64_t)str_chars(r, s), x = none_start ? 0 : val_to_index(r, start, "start"),
          y = none_end ? n : val_to_index(r, end, "end");
  if (x < 0) x = x < -n ? 0 : x + n;
  if (y < 0) y = y < -n ? 0 : y + n;
  if (y > n) y = n;
  if (x > y) return false;
  *from = str_offset(r, s, (size_t)x);
  *to = str_offset(r, s, (size_t)y);
  return true;
}

/* startswith and endswith take one string or a tuple of them. */
static val affix(rt *r, val v, const args *a, bool at_end) {
  size_t from, to;
  val what = arg_get(a, 0, "prefix"), *one = val_array(r, 1);
  if (what.kind == V_UNDEF) fail_undefined(r, what);
  *one = what;
  list single = {.form = LIST_TUPLE, .n = 1, .v = one};
  const list *l = what.kind == V_LIST && what.u.l->form == LIST_TUPLE ? what.u.l : &single;
  bool found = false, open = window(r, v.u.s, a, 1, &from, &to);
  for (size_t i = 0; i < l->n; i++) {
    if (l->v[i].kind != V_STR)
      fail(r, "startswith and endswith need a string or a tuple of strings, not %s",
           val_type_name(l->v[i]));
    const str *x = l->v[i].u.s;
    charge(r, x->len);
    if (open && x->len <= to - from &&
        !memcmp(v.u.s->p + (at_end ? to - x->len : from), x->p, x->len))
      found = true;
  }
  return val_bool(found, val_origin(v));
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
    hit = from_right ? str_rfind(r, &head, what, to) : str_find(r, &head, what, from);
    if (hit != SIZE_MAX && hit < from) hit = SIZE_MAX;
  }
  if (hit == SIZE_MAX && must) fail(r, "substring not found");
  int64_t at = -1;
  if (hit != SIZE_MAX) {
    const str head = {.p = s->p, .len = hit};
    at = (int64_t)str_chars(r, &head);
  }
  return val_int(at, val_origin(v));
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
      n = (int64_t)str_chars(r, &part) + 1;
    else
      for (size_t hit = from; (hit = str_find(r, &head, what, hit)) != SIZE_MAX; hit += what->len)
        n++;
  }
  return val_int(n, val_origin(v));
}

/* ---- splitting ----------------------------------------------------------------------------- */

static val split_space(rt *r, const str *s, int64_t max, bool from_right) {
  vec out = {.r = r};
  size_t a = uni_skip_space(s->p, s->len, 0), z = uni_trim_end(s->p, a, s->len), next;
  charge(r, s->len * 4);
  if (from_right) {
    a = 0;
    while (z > a && max-- != 0) {
      size_t word = z;
      while (word > a && !uni_is_space(uni_at(s->p, s->len, uni_before(s->p, word), &next)))
        word = uni_before(s->p, word);
      vec_push(&out, val_slice(r, s, word, z));
      z = uni_trim_end(s->p, a, word);
    }
    if (z > a) vec_push(&out, val_slice(r, s, a, z)); /* leading space stays, as in Python */
    for (size_t i = 0; i < out.n / 2; i++) {
      val t = out.v[i];
      out.v[i] = out.v[out.n - 1 - i];
      out.v[out.n - 1 - i] = t;
    }
    return vec_list(&out, LIST_LIST, str_worst_origin(s));
  }
  z = s->len;
  while (a < z && max-- != 0) {
    size_t word = a;
    while (word < z && !uni_is_space(uni_at(s->p, s->len, word, &next))) word = next;
    vec_push(&out, val_slice(r, s, a, word));
    a = uni_skip_space(s->p, s->len, word);
  }
  if (a < z) vec_push(&out, val_slice(r, s, a, z));
  return vec_list(&out, LIST_LIST, str_worst_origin(s));
}

static val split_at(rt *r, const str *s, const str *sep, int64_t max) {
  vec out = {.r = r};
  size_t at = 0, hit;
  if (!sep->len) fail(r, "empty separator");
  while (max-- != 0 && (hit = str_find(r, s, sep, at)) != SIZE_MAX) {
    vec_push(&out, val_slice(r, s, at, hit));
    at = hit + sep->len;
  }
  vec_push(&out, val_slice(r, s, at, s->len));
  return vec_list(&out, LIST_LIST, str_worst_origin(s));
}

static val rsplit_at(rt *r, const str *s, const str *sep, int64_t max) {
  vec out = {.r = r};
  size_t end = s->len, hit;
  if (!sep->len) fail(r, "empty separator");
  while (max-- != 0 && (hit = str_rfind(r, s, sep, end)) != SIZE_MAX) {
    vec_push(&out, val_slice(r, s, hit + sep->len, end));
    end = hit;
  }
  vec_push(&out, val_slice(r, s, 0, end));
  for (size_t i = 0; i < out.n / 2; i++) {
    val t = out.v[i];
    out.v[i] = out.v[out.n - 1 - i];
    out.v[out.n - 1 - i] = t;
  }
  return vec_list(&out, LIST_LIST, str_worst_origin(s));
}

static val split_either(rt *r, val v, const args *a, bool from_right) {
  const str *sep = arg_str(r, a, 0, "sep");
  int64_t max =
      val_to_index(r, arg_or(a, 1, "maxsplit", val_int(-1, MT_SPAN_TEMPLATE)), "maxsplit");
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
  return text_splitlines(r, v.u.s, arg_bool(r, a, 0, "keepends", false));
}

static val partition_at(rt *r, val v, const args *a, bool from_right) {
  const str *s = v.u.s, *sep = needed(r, a, 0, "sep");
  if (!sep->len) fail(r, "empty separator");
  size_t hit = from_right ? str_rfind(r, s, sep, s->len) : str_find(r, s, sep, 0);
  val *t = val_array(r, 3);
  t[0] = t[1] = t[2] = val_cstr(r, "");
  if (hit == SIZE_MAX) {
    t[from_right ? 2 : 0] = v;
  } else {
    t[0] = val_slice(r, s, 0, hit);
    t[1] = val_slice(r, s, hit, hit + sep->len);
    t[2] = val_slice(r, s, hit + sep->len, s->len);
  }
  return val_list(r, t, 3, LIST_TUPLE, str_worst_origin(s));
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
  return has ? val_slice(r, s, x->len, s->len) : v;
}
static val removesuffix(rt *r, val v, const args *a) {
  const str *x = needed(r, a, 0, "suffix"), *s = v.u.s;
  bool has = x->len <= s->len && !memcmp(s->p + s->len - x->len, x->p, x->len);
  return has ? val_slice(r, s, 0, s->len - x->len) : v;
}

static val join(rt *r, val v, const args *a) {
  return text_join(r, val_items(r, arg_get(a, 0, "iterable")), v.u.s, true);
}

/* ---- padding ------------------------------------------------------------------------------- */

static val justify(rt *r, val v, const args *a, int mode) {
  const str *fill = arg_str(r, a, 1, "fillchar");
  if (!fill) fill = val_cstr(r, " ").u.s;
  if (str_chars(r, fill) != 1) fail(r, "the fill character must be one character");
  int64_t n = (int64_t)str_chars(r, v.u.s),
          width = val_to_index(r, arg_get(a, 0, "width"), "width"), pad = width > n ? width - n : 0;
  int64_t left = mode == STRIP_LEFT ? pad : mode == STRIP_RIGHT ? 0 : pad / 2 + (pad & width & 1);
  return text_pad(r, v.u.s, left, pad - left, fill);
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
  int64_t n = (int64_t)str_chars(r, s), width = val_to_index(r, arg_get(a, 0, "width"), "width");
  size_t sign = s->len && (s->p[0] == '+' || s->p[0] == '-');
  sb b = sb_new(r);
  sb_part(&b, s, 0, sign);
  for (int64_t i = n; i < width; i++) sb_puts(&b, "0", str_worst_origin(s));
  sb_part(&b, s, sign, s->len);
  return sb_val(&b);
}

static val expandtabs(rt *r, val v, const args *a) {
  const str *s = v.u.s;
  int64_t size = val_to_index(r, arg_or(a, 0, "tabsize", val_int(8, MT_SPAN_TEMPLATE)), "tabsize"),
          column = 0;
  sb b = sb_new(r);
  for (size_t i = 0, next; i < s->len; i = next) {
    uint32_t cp = uni_at(s->p, s->len, i, &next);
    if (cp == '\t') {
      int64_t n = size > 0 ? size - column % size : 0;
      for (int64_t k = 0; k < n; k++) sb_puts(&b, " ", str_origin(s, i));
      column += n;
      continue;
    }
    column = cp == '\n' || cp == '\r' ? 0 : column + 1;
    sb_part(&b, s, i, next);
  }
  return sb_val(&b);
}

/* ---- questions ----------------------------------------------------------------------------- */

static val all_have(rt *r, val v, unsigned flags) {
  bool yes = v.u.s->len > 0;
  charge(r, v.u.s->len * 4);
  for (size_t i = 0; yes && i < v.u.s->len;)
    yes = uni_flags(uni_at(v.u.s->p, v.u.s->len, i, &i)) & flags;
  return val_bool(yes, val_origin(v));
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
  return val_bool(text_has_case(r, v.u.s, UNI_UPPER, UNI_LOWER), val_origin(v));
}
static val islower_(rt *r, val v, const args *a) {
  (void)a;
  return val_bool(text_has_case(r, v.u.s, UNI_LOWER, UNI_UPPER), val_origin(v));
}
static val isspace_(rt *r, val v, const args *a) {
  (void)a;
  charge(r, v.u.s->len);
  return val_bool(v.u.s->len && uni_skip_space(v.u.s->p, v.u.s->len, 0) == v.u.s->len,
                  val_origin(v));
}
static val isascii_(rt *r, val v, const args *a) {
  (void)a;
  return val_bool(str_chars(r, v.u.s) == v.u.s->len, val_origin(v));
}
static val format(rt *r, val v, const args *a) {
  return format_braces(r, v.u.s, a);
}

#define METHOD(name, params, fn) \
  { {"method", name, params}, V_STR, fn }
const method_def chat_str_methods[] = {
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
