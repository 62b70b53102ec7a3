/* Arguments of built-ins, their tables' look-up, and calls. */
#include <stdio.h>
#include <string.h>

#include "runtime.h"

val mt_arg_get(const args *a, size_t i, const char *name) {
  if (i < a->n_pos) return a->pos[i];
  for (size_t k = 0; k < a->n_kw; k++)
    if (mt_str_is(a->kw[k].name, name)) return a->kw[k].v;
  return (val){.kind = V_MISSING};
}

val mt_arg_or(const args *a, size_t i, const char *name, val otherwise) {
  val v = mt_arg_get(a, i, name);
  return v.kind == V_MISSING ? otherwise : v;
}

const str *mt_arg_str(rt *r, const args *a, size_t i, const char *name) {
  val v = mt_arg_get(a, i, name);
  if (v.kind == V_MISSING || v.kind == V_NONE) return NULL;
  if (v.kind == V_UNDEF) mt_chat_fail_undefined(r, v);
  if (v.kind != V_STR) mt_chat_fail(r, "%s must be a string, not %s", name, mt_val_type_name(v));
  return v.u.s;
}

bool mt_arg_bool(rt *r, const args *a, size_t i, const char *name, bool otherwise) {
  val v = mt_arg_get(a, i, name);
  return v.kind == V_MISSING ? otherwise : mt_val_truth(r, v);
}

/* ---- signatures ---------------------------------------------------------------------------- */

/* The next parameter of a list "a,b?": its name's length; *optional; moves on. 0 at the end. */
static size_t next_param(const char **p, const char **name, bool *optional) {
  if (!**p) return 0;
  size_t n = strcspn(*p, ",");
  *name = *p;
  *p += n + ((*p)[n] == ',');
  *optional = (*name)[n - 1] == '?';
  return n - *optional;
}

static bool has_name(const char *const *names, size_t n, const char *name, size_t len) {
  for (size_t i = 0; i < n; i++)
    if (strlen(names[i]) == len && !memcmp(names[i], name, len)) return true;
  return false;
}

static bool takes(const signature *s, const char *name) {
  const char *p = s->params, *param;
  bool optional;
  for (size_t len; (len = next_param(&p, &param, &optional));)
    if (strlen(name) == len && !memcmp(param, name, len)) return true;
  return false;
}

void mt_signature_check(trap *t, const signature *s, size_t n_pos, const char *const *names,
                        size_t n_names, int when) {
  if (*s->params == '*') return;
  int bad = when == SIGNATURE_RUN ? MT_EINVAL : MT_EFORMAT;
  int strange = when == SIGNATURE_RUN ? MT_EINVAL : MT_EUNSUPPORTED;
  const char *p = s->params, *param;
  bool optional;
  size_t i = 0;
  for (size_t len; (len = next_param(&p, &param, &optional)); i++) {
    bool given = has_name(names, n_names, param, len);
    if (given && i < n_pos)
      mt_trap_throw(t, bad, "%s '%s': argument '%.*s' is given twice", s->kind, s->name, (int)len,
                    param);
    if (!given && i >= n_pos && !optional && when != SIGNATURE_COMPILE_OPEN)
      mt_trap_throw(t, bad, "%s '%s' needs the argument '%.*s'", s->kind, s->name, (int)len, param);
  }
  if (n_pos > i)
    mt_trap_throw(t, strange, "%s '%s' takes not more than %zu arguments", s->kind, s->name, i);
  for (size_t k = 0; k < n_names; k++)
    if (!takes(s, names[k]))
      mt_trap_throw(t, strange, "%s '%s': the argument '%.100s' is not supported", s->kind, s->name,
                    names[k]);
}

void mt_signature_check_args(rt *r, const signature *s, const args *a) {
  if (*s->params == '*') return;
  const char **names = mt_arena_alloc(&r->mem, a->n_kw + 1, sizeof *names);
  for (size_t i = 0; i < a->n_kw; i++) {
    const str *k = a->kw[i].name;
    char *name = mt_arena_alloc(&r->mem, k->len + 1, 1);
    memcpy(name, k->p, k->len);
    names[i] = name;
  }
  mt_signature_check(&r->trap, s, a->n_pos, names, a->n_kw, SIGNATURE_RUN);
}

/* ---- tables -------------------------------------------------------------------------------- */

static bool named(const signature *s, const char *name, size_t len) {
  return strlen(s->name) == len && !memcmp(s->name, name, len);
}

const filter_def *mt_chat_filter_find(const char *name, size_t len) {
  for (const filter_def *f = mt_chat_text_filters; f->sig.name; f++)
    if (named(&f->sig, name, len)) return f;
  for (const filter_def *f = mt_chat_list_filters; f->sig.name; f++)
    if (named(&f->sig, name, len)) return f;
  return NULL;
}

val mt_chat_call_filter(rt *r, const filter_def *f, val in, const args *a) {
  mt_chat_enter(r);
  mt_signature_check_args(r, &f->sig, a);
  val v = f->fn(r, in, a);
  if (f->keeps_markup && in.kind == V_STR && in.markup && v.kind == V_STR) v.markup = true;
  mt_chat_leave(r);
  return v;
}

bool mt_chat_call_test(rt *r, const test_def *t, val in, const args *a) {
  mt_chat_enter(r);
  mt_signature_check_args(r, &t->sig, a);
  bool b = t->fn(r, in, a);
  mt_chat_leave(r);
  return b;
}

val mt_chat_call_value(rt *r, val fn, const args *a, const node *at) {
  val v;
  r->trap.line = at->line;
  mt_chat_enter(r);
  if (fn.kind == V_MACRO) {
    v = mt_chat_call_macro(r, fn.u.m, a);
  } else if (fn.kind == V_FUNC) {
    const function_def *f = mt_chat_function_at(fn.u.fn);
    mt_signature_check_args(r, &f->sig, a);
    v = f->fn(r, a);
  } else if (fn.kind == V_METHOD) {
    mt_signature_check_args(r, &fn.u.method->def->sig, a);
    const method *m = fn.u.method;
    v = m->self.kind == V_STR && m->self.markup ? mt_markup_call(r, m->def, m->self, a)
                                                : m->def->fn(r, m->self, a);
  } else if (fn.kind == V_LOOP) {
    if (a->n_pos != 1 || a->n_kw) mt_chat_fail(r, "loop() takes one argument");
    v = mt_chat_exec_loop(r, fn.u.loop->n, fn.u.loop->outer, a->pos[0], fn.u.loop->depth0 + 1);
  } else if (fn.kind == V_JOINER) {
    v = fn.u.cycler->at++ ? fn.u.cycler->v[0] : mt_val_cstr(r, "");
  } else if (fn.kind == V_UNDEF) {
    mt_chat_fail_undefined(r, fn);
  } else {
    mt_chat_fail(r, "a %s cannot be called", mt_val_type_name(fn));
  }
  mt_chat_leave(r);
  return v;
}
