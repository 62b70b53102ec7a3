/* The public functions: compile, render, literals. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum { TEMPLATE_BYTES = 96 << 20 };

/* ---- compiling ----------------------------------------------------------------------------- */

/* \r\n and \r become \n; one newline at the end goes. */
static void normalise(mt_chat_template *t, const char *source, size_t len) {
  char *s = mt_arena_alloc(&t->mem, len + 1, 1);
  size_t n = 0;
  for (size_t i = 0; i < len; i++) {
    if (source[i] == '\r' && i + 1 < len && source[i + 1] == '\n') continue;
    s[n++] = source[i] == '\r' ? '\n' : source[i];
  }
  if (n && s[n - 1] == '\n') n--;
  s[n] = 0;
  t->source = s;
  t->source_len = n;
}

static void compile(mt_chat_template *t, const char *source, size_t len) {
  size_t bad;
  if (len > MAX_SOURCE_BYTES)
    mt_trap_throw_bare(&t->trap, MT_ELIMIT, "%s: a template of %zu bytes, more than %d", t->name,
                       len, MAX_SOURCE_BYTES);
  if (!mt_utf8_valid(source, len, &bad))
    mt_trap_throw_bare(&t->trap, MT_EFORMAT, "%s: the template is not UTF-8 at byte %zu", t->name,
                       bad);
  normalise(t, source, len);
  mt_chat_lex(t);
  mt_chat_parse(t);
  mt_chat_check(t);
}

int mt_chat_template_compile(mt_chat_template **out, const char *source, size_t len,
                             const char *name, mt_err *e) {
  *out = NULL;
  mt_chat_template *t = mt_calloc(1, sizeof *t);
  if (!t) return mt_err_set(e, MT_ENOMEM, "%s: no memory for a template", name);
  mt_arena_init(&t->mem, TEMPLATE_BYTES, &t->trap);
  t->trap.e = e;
  t->trap.name = name;
  t->trap.line = 1;
  if (setjmp(t->trap.env)) {
    int code = t->trap.code;
    mt_chat_template_free(t);
    return code;
  }
  size_t n = strlen(name);
  t->name = mt_arena_alloc(&t->mem, n + 1, 1);
  memcpy(t->name, name, n);
  compile(t, source, len);
  *out = t;
  return MT_OK;
}

void mt_chat_template_free(mt_chat_template *t) {
  if (!t) return;
  mt_arena_free(&t->mem);
  free(t);
}

size_t mt_chat_template_n_literals(const mt_chat_template *t) {
  return t->texts.n + t->constants.n;
}

const char *mt_chat_template_literal(const mt_chat_template *t, size_t i, size_t *len) {
  if (i >= mt_chat_template_n_literals(t)) return NULL;
  const node *n = i < t->texts.n ? t->texts.v[i] : t->constants.v[i - t->texts.n];
  *len = n->len;
  return n->text;
}

/* ---- what the template sees ---------------------------------------------------------------- */

static val import(rt *r, const mt_json *j, int origin, unsigned depth);

static val import_array(rt *r, const mt_json *j, int origin, unsigned depth) {
  size_t n = mt_json_len(j);
  val *v = mt_val_array(r, n);
  for (size_t i = 0; i < n; i++) v[i] = import(r, mt_json_at(j, i), origin, depth + 1);
  return mt_val_list(r, v, n, LIST_LIST, origin);
}

static val import_object(rt *r, const mt_json *j, int origin, unsigned depth) {
  size_t n = mt_json_len(j), i = 0;
  val *kv = mt_val_array(r, 2 * n);
  for (const mt_json_member *m = mt_json_first(j); m && i < n; m = mt_json_next(j, m), i++) {
    const char *key = mt_json_member_key(m);
    kv[2 * i] = mt_val_str(r, key, strlen(key), origin);
    kv[2 * i + 1] = import(r, mt_json_member_value(m), origin, depth + 1);
  }
  return mt_val_dict(r, kv, i, origin);
}

static val import(rt *r, const mt_json *j, int origin, unsigned depth) {
  int64_t i = 0;
  double f = 0;
  bool b = false;
  size_t len = 0;
  const char *s;
  if (depth > MAX_DATA_DEPTH)
    mt_trap_throw_bare(&r->trap, MT_ELIMIT, "the input nests deeper than %d levels",
                       MAX_DATA_DEPTH);
  switch (mt_json_get_kind(j)) {
    case MT_JSON_NULL: return (val){.kind = V_NONE, .origin = (uint8_t)origin};
    case MT_JSON_BOOL: mt_json_bool(j, &b); return mt_val_bool(b, origin);
    case MT_JSON_INT: mt_json_int(j, &i); return mt_val_int(i, origin);
    case MT_JSON_REAL: mt_json_number(j, &f); return mt_val_float(f, origin);
    case MT_JSON_STRING: s = mt_json_string(j, &len); return mt_val_str(r, s, len, origin);
    case MT_JSON_ARRAY: return import_array(r, j, origin, depth);
    default: return import_object(r, j, origin, depth);
  }
}

/* Bytes of text and count of values in the input: what the sandbox's defaults grow with. */
static size_t weigh(const mt_json *j, unsigned depth) {
  size_t n = 64, len = 0;
  if (!j || depth > MAX_DATA_DEPTH) return 0;
  if (mt_json_string(j, &len)) return n + len;
  if (mt_json_is(j, MT_JSON_ARRAY))
    for (size_t i = 0; i < mt_json_len(j); i++) n += weigh(mt_json_at(j, i), depth + 1);
  else if (mt_json_is(j, MT_JSON_OBJECT))
    for (const mt_json_member *m = mt_json_first(j); m; m = mt_json_next(j, m))
      n += 64 + strlen(mt_json_member_key(m)) + weigh(mt_json_member_value(m), depth + 1);
  return n;
}

static void define(rt *r, const char *name, val v) {
  const sym *s = mt_sym_find(r->t, name, strlen(name));
  if (s) mt_env_set(r, r->globals, s, v);
}

static void define_token(rt *r, const char *name, const char *text) {
  if (!text) return;
  size_t n = strlen(text);
  if (!mt_utf8_valid(text, n, NULL))
    mt_trap_throw_bare(&r->trap, MT_EINVAL, "%s is not UTF-8", name);
  define(r, name, mt_val_str(r, text, n, MT_SPAN_TEMPLATE));
}

static void define_members(rt *r, const mt_json *object, int origin) {
  static const char *const reserved[] = {"messages", "tools", "documents", "add_generation_prompt"};
  for (const mt_json_member *m = mt_json_is(object, MT_JSON_OBJECT) ? mt_json_first(object) : NULL;
       m; m = mt_json_next(object, m)) {
    const char *key = mt_json_member_key(m);
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
      if (!strcmp(key, reserved[i]))
        mt_trap_throw_bare(&r->trap, MT_EINVAL,
                           "template arguments must not name '%s': it has its own place", key);
    define(r, key, import(r, mt_json_member_value(m), origin, 1));
  }
}

static val list_or(rt *r, const mt_json *j, val otherwise) {
  return mt_json_is(j, MT_JSON_ARRAY) ? import(r, j, MT_SPAN_USER, 0) : otherwise;
}

static void define_globals(rt *r, const mt_chat_input *in) {
  r->globals = mt_env_new(r, NULL);
  define_token(r, "bos_token", in->bos_token);
  define_token(r, "eos_token", in->eos_token);
  define_members(r, in->special_tokens, MT_SPAN_TEMPLATE);
  define_members(r, in->kwargs, MT_SPAN_USER);
  define(r, "messages", list_or(r, in->messages, mt_val_list(r, NULL, 0, LIST_LIST, MT_SPAN_USER)));
  define(r, "tools", list_or(r, in->tools, mt_val_none()));
  define(r, "documents", list_or(r, in->documents, mt_val_none()));
  define(r, "add_generation_prompt", mt_val_bool(in->add_generation_prompt, MT_SPAN_TEMPLATE));
}

/* ---- rendering ----------------------------------------------------------------------------- */

static int copy_out(const sb *b, mt_text *out, mt_err *e) {
  size_t from = 0;
  for (size_t i = 0; i < b->n_runs; i++) {
    if (mt_text_append(out, b->p + from, b->runs[i].end - from, b->runs[i].origin)) {
      mt_text_free(out);
      return mt_err_set(e, MT_ENOMEM, "no memory for a prompt of %zu bytes", b->len);
    }
    from = b->runs[i].end;
  }
  return MT_OK;
}

static void set_limits(rt *r, const mt_chat_input *in) {
  size_t weight =
      weigh(in->messages, 0) + weigh(in->tools, 0) + weigh(in->documents, 0) + weigh(in->kwargs, 0);
  if (weight > SIZE_MAX / 128) weight = SIZE_MAX / 128;
  r->max_steps = in->max_steps ? in->max_steps : ((size_t)20 << 20) + 16 * weight;
  mt_arena_init(&r->mem, in->max_bytes ? in->max_bytes : ((size_t)128 << 20) + 64 * weight,
                &r->trap);
}

int mt_chat_render(const mt_chat_template *t, const mt_chat_input *in, mt_text *out, mt_err *e) {
  rt *r = mt_calloc(1, sizeof *r);
  if (!r) return mt_err_set(e, MT_ENOMEM, "%s: no memory to render", t->name);
  r->t = t;
  r->in = in;
  r->trap.e = e;
  r->trap.name = t->name;
  set_limits(r, in);
  int rc;
  if (setjmp(r->trap.env)) {
    rc = r->trap.code;
  } else {
    sb b = mt_sb_new(r);
    r->out = &b;
    define_globals(r, in);
    mt_chat_exec_list(r, r->globals, &t->body);
    rc = copy_out(&b, out, e);
  }
  mt_arena_free(&r->mem);
  free(r);
  return rc;
}
