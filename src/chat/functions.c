/* The functions a template finds ready: range, dict, namespace, cycler, joiner, raise_exception,
 * strftime_now. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime.h"

static val range_fn(rt *r, const args *a) {
  int64_t from = 0, to = mt_val_to_index(r, mt_arg_get(a, 0, "start"), "range"), step = 1;
  if (a->n_pos > 1) {
    from = to;
    to = mt_val_to_index(r, a->pos[1], "range");
  }
  if (a->n_pos > 2) step = mt_val_to_index(r, a->pos[2], "range");
  if (step == 0) mt_chat_fail(r, "range: the step must not be zero");
  int origin = MT_SPAN_TEMPLATE;
  for (size_t i = 0; i < a->n_pos; i++)
    if (mt_val_origin(a->pos[i]) == MT_SPAN_USER) origin = MT_SPAN_USER;
  vec out = {.r = r};
  for (int64_t i = from; step > 0 ? i < to : i > to;) {
    mt_vec_push(&out, mt_val_int(i, origin));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  list *l = mt_arena_alloc(&r->mem, 1, sizeof *l);
  *l = (list){LIST_RANGE, out.n, out.v, from, to, step};
  return (val){.kind = V_LIST, .origin = (uint8_t)origin, .u.l = l};
}

static val key_of(rt *r, const kwarg *k) {
  return mt_val_slice(r, k->name, 0, k->name->len);
}

static void dict_put(vec *kv, val key, val v) {
  for (size_t i = 0; i < kv->n; i += 2)
    if (mt_val_eq(kv->r, kv->v[i], key)) {
      kv->v[i + 1] = v;
      return;
    }
  mt_vec_push(kv, key);
  mt_vec_push(kv, v);
}

/* What dict() and namespace() are given: a dict or pairs, then keywords. */
static val dict_fn(rt *r, const args *a) {
  vec kv = {.r = r};
  int origin = MT_SPAN_TEMPLATE;
  if (a->n_pos > 1) mt_chat_fail(r, "dict() takes not more than one positional argument");
  if (a->n_pos && a->pos[0].kind == V_DICT) {
    const dict *d = a->pos[0].u.d;
    origin = a->pos[0].origin;
    for (size_t i = 0; i < 2 * d->n; i++) mt_vec_push(&kv, d->kv[i]);
  } else if (a->n_pos) {
    const list *pairs = mt_val_items(r, a->pos[0]);
    for (size_t i = 0; i < pairs->n; i++) {
      const list *pair = mt_val_items(r, pairs->v[i]);
      if (pair->n != 2) mt_chat_fail(r, "dict() needs pairs");
      mt_val_need_key(r, pair->v[0]);
      dict_put(&kv, pair->v[0], pair->v[1]);
    }
  }
  for (size_t i = 0; i < a->n_kw; i++) dict_put(&kv, key_of(r, &a->kw[i]), a->kw[i].v);
  return mt_val_dict(r, kv.v, kv.n / 2, origin);
}

static val namespace_fn(rt *r, const args *a) {
  val d = dict_fn(r, a);
  namespace *ns = mt_arena_alloc(&r->mem, 1, sizeof *ns);
  for (size_t i = 0; i < d.u.d->n; i++) {
    val key = d.u.d->kv[2 * i];
    if (key.kind != V_STR) mt_chat_fail(r, "namespace(): keys must be strings");
    const sym *name = mt_sym_find(r->t, key.u.s->p,
                                  key.u.s->len); /* what the template never names it cannot read */
    if (name) mt_ns_set(r, ns, name, d.u.d->kv[2 * i + 1]);
  }
  return (val){.kind = V_NS, .u.ns = ns};
}

static val new_cycler(rt *r, val_kind kind, const val *v, size_t n) {
  cycler *c = mt_arena_alloc(&r->mem, 1, sizeof *c);
  *c = (cycler){.v = v, .n = n};
  return (val){.kind = (uint8_t)kind, .u.cycler = c};
}

static val cycler_fn(rt *r, const args *a) {
  if (!a->n_pos || a->n_kw) mt_chat_fail(r, "cycler() needs items");
  return new_cycler(r, V_CYCLER, a->pos, a->n_pos);
}

static val joiner_fn(rt *r, const args *a) {
  val *sep = mt_val_array(r, 1);
  *sep = mt_arg_or(a, 0, "sep", mt_val_cstr(r, ", "));
  return new_cycler(r, V_JOINER, sep, 1);
}

static val raise_exception_fn(rt *r, const args *a) {
  const str *s = mt_val_to_str(r, mt_arg_get(a, 0, "message"));
  mt_trap_throw_bare(&r->trap, MT_EINVAL, "%.*s", (int)(s->len < 4096 ? s->len : 4096), s->p);
}

/* ---- strftime_now -------------------------------------------------------------------------- */

static struct tm now(rt *r) {
  struct tm t;
  if (r->in->local_time) {
    t = *r->in->local_time;
    struct tm day = {.tm_year = t.tm_year, .tm_mon = t.tm_mon, .tm_mday = t.tm_mday, .tm_hour = 12};
    time_t noon = timegm(&day); /* fills in the day of the week and of the year */
    if (noon == (time_t)-1 && day.tm_year != 69)
      mt_chat_fail(r, "the time given for strftime_now is out of range");
    t.tm_wday = day.tm_wday;
    t.tm_yday = day.tm_yday;
    return t;
  }
  time_t seconds = r->in->now > 0 ? (time_t)r->in->now : time(NULL);
  if (!localtime_r(&seconds, &t))
    mt_chat_fail(r, "the time given for strftime_now is out of range");
  return t;
}

/* One directive from fmt[i] on, after its %; returns the offset after it. As Python on Linux: the C
 * library's, except that %f is microseconds and that a time without zone prints none. */
static size_t put_directive(rt *r, sb *b, const str *fmt, size_t i, const struct tm *t,
                            int origin) {
  char one[8] = "%", text[256];
  size_t n = 1;
  while (i < fmt->len && n < 3 && fmt->p[i] && strchr("-_0^#", fmt->p[i])) one[n++] = fmt->p[i++];
  char c = i < fmt->len ? fmt->p[i++] : 0;
  if (!c || !strchr("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYfzZ%", c))
    mt_chat_fail(r, "strftime_now: an unknown directive");
  if (c == 'z' || c == 'Z') return i;
  if (c == 'f') {
    mt_sb_puts(b, "000000", origin);
    return i;
  }
  one[n] = c;
  size_t len = strftime(text, sizeof text, one, t);
  mt_sb_add(b, text, len, origin);
  return i;
}

static val strftime_now_fn(rt *r, const args *a) {
  const str *fmt = mt_arg_str(r, a, 0, "format");
  if (!fmt) mt_chat_fail(r, "strftime_now needs a format");
  struct tm t = now(r);
  sb b = mt_sb_new(r);
  for (size_t i = 0; i < fmt->len;) {
    int origin = mt_str_origin(fmt, i);
    if (fmt->p[i] == '%') {
      i = put_directive(r, &b, fmt, i + 1, &t, origin);
    } else {
      mt_sb_part(&b, fmt, i, i + 1);
      i++;
    }
  }
  return mt_sb_val(&b);
}

static const function_def functions[] = {
    {{"function", "range", "start,stop?,step?"}, range_fn},
    {{"function", "dict", "*"}, dict_fn},
    {{"function", "namespace", "*"}, namespace_fn},
    {{"function", "cycler", "*"}, cycler_fn},
    {{"function", "joiner", "sep?"}, joiner_fn},
    {{"function", "raise_exception", "message"}, raise_exception_fn},
    {{"function", "strftime_now", "format"}, strftime_now_fn},
};

int mt_chat_function_find(const char *name, size_t len) {
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
    if (strlen(functions[i].sig.name) == len && !memcmp(functions[i].sig.name, name, len))
      return (int)i;
  return -1;
}

const function_def *mt_chat_function_at(int i) {
  return &functions[i];
}
