/* Values, strings with origins, and the state of one rendering. Everything lives in the rendering's
 * arena; failures jump to mt_chat_render (arena.h), so functions return values, not codes. Values
 * are immutable except namespaces, loops, cyclers and joiners. */
#ifndef CHAT_RUNTIME_H
#define CHAT_RUNTIME_H

#include "ast.h"
#include "unicode.h"

/* ---- values -------------------------------------------------------------------------------- */

typedef enum val_kind {
  V_MISSING, /* an argument that was not given; never seen by templates */
  V_UNDEF,
  V_NONE,
  V_BOOL,
  V_INT,
  V_FLOAT,
  V_STR,
  V_LIST,
  V_DICT,
  V_NS,
  V_MACRO,
  V_FUNC,   /* a built-in function */
  V_METHOD, /* a method bound to its object */
  V_LOOP,
  V_CYCLER,
  V_JOINER
} val_kind;

typedef struct run {
  size_t end; /* offset after it; runs are ascending, neighbours differ in origin */
  int origin; /* MT_SPAN_* */
} run;

/* UTF-8, immutable; the bytes may belong to the template or to the caller's JSON. */
typedef struct str {
  const char *p;
  size_t len, n_runs;
  const run *runs; /* none if empty */
} str;

typedef struct val val;
typedef struct list list;
typedef struct dict dict;
typedef struct namespace namespace;
typedef struct macro macro;
typedef struct method method;
typedef struct loop loop;
typedef struct cycler cycler;

struct val {
  uint8_t kind;
  uint8_t
      origin;  /* of what is not a string; for lists and dicts, of their punctuation when printed */
  bool markup; /* V_STR: marked by safe or escape; what is then added to it is escaped (markup.c) */
  union {
    bool b;
    int64_t i;
    double f;
    const str *s; /* V_STR; V_UNDEF: what is undefined, or NULL */
    const list *l;
    const dict *d;
    namespace *ns;
    const macro *m;
    int fn; /* V_FUNC */
    const method *method;
    loop *loop;
    cycler *cycler; /* V_CYCLER, V_JOINER */
  } u;
};

enum { LIST_LIST, LIST_TUPLE, LIST_RANGE, LIST_KEYS, LIST_VALUES, LIST_ITEMS };
struct list {
  int form;
  size_t n;
  const val *v;
  int64_t start, stop, step; /* LIST_RANGE, for printing */
};
struct dict {
  size_t n;
  const val *kv; /* key, value, key, value …; keys are distinct */
};
typedef struct ns_slot {
  const sym *name;
  val v;
} ns_slot;
struct namespace {
  ns_slot *v;
  size_t n, cap;
};
struct cycler {
  const val *v; /* of a joiner: the separator */
  size_t n, at;
};
struct method {
  val self;
  const struct method_def *def;
};

/* Variables of a scope; names compare by pointer. */
typedef struct env {
  struct env *up;
  ns_slot *v;
  size_t n, cap;
  bool kept; /* a macro was made here, so a loop may not reuse it */
} env;

struct macro {
  const node *n; /* N_MACRO or N_CALL_BLOCK */
  env *closure;
};

struct loop {
  const node *n, *filter; /* filter: NULL when there is none (left) */
  env *outer;
  const val *v; /* all items, before the filter */
  size_t total, next;
  int64_t index0;
  bool has_after; /* looked ahead: `after` comes next */
  val before, current, after;
  bool has_before, has_changed;
  val changed;
  int64_t known_length; /* -1 until asked for */
  unsigned depth0;
};

/* ---- one rendering ------------------------------------------------------------------------- */

typedef struct sb {
  struct rt *r;
  char *p;
  size_t len, cap;
  run *runs;
  size_t n_runs, cap_runs;
} sb;

typedef struct rt {
  arena mem;
  trap trap;
  const mt_chat_template *t;
  const mt_chat_input *in;
  size_t steps, max_steps;
  unsigned depth, macros; /* evaluations and macro calls within each other */
  env *globals;
  sb *out;
} rt;

enum { MAX_EVAL_DEPTH = 2000, MAX_MACRO_DEPTH = 200, MAX_DATA_DEPTH = 520 };

/* Counts work: 1 and one for each 64 bytes or so touched. MT_ELIMIT beyond the budget. */
void mt_chat_charge(rt *r, size_t bytes);
noreturn void mt_chat_fail(rt *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mt_chat_enter(rt *r); /* bounded recursion */
void mt_chat_leave(rt *r);

/* ---- str.c: strings ------------------------------------------------------------------------ */

val mt_val_str(rt *r, const char *p, size_t n, int origin);           /* borrows the bytes */
val mt_val_cstr(rt *r, const char *literal);                          /* template origin */
const str *mt_str_slice(rt *r, const str *s, size_t from, size_t to); /* bytes */
val mt_val_slice(rt *r, const str *s, size_t from, size_t to);
bool mt_str_is(const str *s, const char *literal);
int mt_str_cmp(const str *a, const str *b);
/* Offset of the first occurrence of b in a at or after `from`, or SIZE_MAX. b empty: from. */
size_t mt_str_find(rt *r, const str *a, const str *b, size_t from);
size_t mt_str_rfind(rt *r, const str *a, const str *b,
                    size_t end);                         /* last that ends at or before `end` */
size_t mt_str_chars(rt *r, const str *s);                /* code points */
size_t mt_str_offset(rt *r, const str *s, size_t chars); /* byte offset of a code point */
int mt_str_origin(const str *s, size_t at);              /* of the byte at offset `at` */
int mt_str_worst_origin(const str *s);                   /* user if any byte is */

sb mt_sb_new(rt *r);
void mt_sb_add(sb *b, const char *p, size_t n, int origin);
void mt_sb_puts(sb *b, const char *s, int origin);
void mt_sb_str(sb *b, const str *s);
void mt_sb_part(sb *b, const str *s, size_t from, size_t to);
void mt_sb_cp(sb *b, uint32_t cp, int origin);
val mt_sb_val(sb *b);

/* ---- value.c ------------------------------------------------------------------------------- */

val mt_val_undef(rt *r, const char *what, ...)
    __attribute__((format(printf, 2, 3))); /* "'x'", "… has no …" */
val mt_val_none(void);
val mt_val_bool(bool b, int origin);
val mt_val_int(int64_t i, int origin);
val mt_val_float(double f, int origin);
val mt_val_list(rt *r, const val *v, size_t n, int form, int origin);
val mt_val_dict(rt *r, const val *kv, size_t n, int origin);
val *mt_val_array(rt *r, size_t n);
bool mt_val_truth(rt *r, val v);
bool mt_val_eq(rt *r, val a, val b);
int mt_val_cmp(rt *r, val a, val b, const char *op); /* fails for types without order */
int mt_val_origin(val v);
bool mt_val_is_number(val v); /* bool, int, float */
double mt_val_number(val v);
const char *mt_val_type_name(val v); /* Python's name of its type */
noreturn void mt_chat_fail_undefined(rt *r, val v);
const val *mt_dict_get(rt *r, const dict *d, val key); /* the value, or NULL */
/* Items of a list, characters of a string, keys of a dict, nothing of undefined; anything else
 * fails. */
const list *mt_val_items(rt *r, val v);
bool mt_val_iterable(val v);
size_t mt_val_length(rt *r, val v);
bool mt_val_contains(rt *r, val container, val item);
void mt_val_need_key(rt *r, val v); /* fails unless it can be a key of a dict */
int64_t mt_val_to_index(rt *r, val v, const char *what); /* an int or bool; else fails */
const str *mt_val_to_str(rt *r, val v);                  /* as Python's str() */

/* A growing array of values. */
typedef struct vec {
  rt *r;
  val *v;
  size_t n, cap;
} vec;
void mt_vec_push(vec *a, val v);
val mt_vec_list(vec *a, int form, int origin);

/* Sorts in place, stably, by key (ascending by val_cmp, or descending). */
void mt_chat_sort_by_keys(rt *r, val *keys, val *items, size_t n, bool reverse);

/* ---- text forms: repr.c, tojson.c, format.c ------------------------------------------------ */

void mt_chat_put_str(sb *b, val v); /* as Python's str() */
void mt_chat_put_repr(sb *b, val v);
size_t mt_chat_format_float_repr(double f, char out[40]);
val mt_chat_to_json(rt *r, val v, val ensure_ascii, val indent, val separators, val sort_keys);
struct args;
val mt_chat_format_percent(rt *r, const str *fmt, val arg);
val mt_chat_format_braces(rt *r, const str *fmt, const struct args *a);

/* ---- text.c: what filters and methods share ------------------------------------------------ */

val mt_chat_text_map_case(rt *r, const str *s, int how);
val mt_chat_text_title(rt *r, const str *s); /* as str.title */
val mt_chat_text_swapcase(rt *r, const str *s);
val mt_chat_text_capitalize(rt *r, const str *s);
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };
val mt_chat_text_strip(rt *r, const str *s, const str *chars,
                       int sides); /* chars NULL: white space */
val mt_chat_text_replace(rt *r, const str *s, const str *from, const str *to,
                         int64_t count); /* count < 0: all */
/* Pads with `fill` (one character) to width characters, `left` of them before the text. */
val mt_chat_text_pad(rt *r, const str *s, int64_t left, int64_t right, const str *fill);
val mt_chat_text_join(rt *r, const list *l, const str *sep,
                      bool strict); /* strict: items must be strings */
val mt_chat_text_splitlines(rt *r, const str *s, bool keep_ends);
bool mt_chat_text_has_case(rt *r, const str *s, unsigned wanted,
                           unsigned other); /* as str.isupper and str.islower */

/* ---- markup.c ------------------------------------------------------------------------------ */

val mt_markup_escape(rt *r, val v); /* v if it is markup, else its text escaped; markup */
val mt_markup_mark(rt *r, val v);   /* strings, and strings in a list: markup */
val mt_markup_call(rt *r, const struct method_def *m, val self, const struct args *a);

/* ---- operator.c, access.c ------------------------------------------------------------------ */

val mt_chat_arith(rt *r, int op, val a, val b);
val mt_chat_negate(rt *r, val a);
bool mt_chat_compare(rt *r, int op, val a, val b);
val mt_chat_get_attr(rt *r, val v, const sym *name);
val mt_chat_get_attr_named(rt *r, val v,
                           const str *name); /* item first, then attribute, as Jinja's getitem */
val mt_chat_get_item(rt *r, val v, val key);
val mt_chat_get_slice(rt *r, val v, val from, val to, val step);
/* "a.b.0" in turn; what is undefined on the way becomes `otherwise`, unless that is none or
 * missing. */
val mt_chat_get_path(rt *r, val v, val path, val otherwise);

/* ---- calls --------------------------------------------------------------------------------- */

typedef struct kwarg {
  const str *name;
  val v;
} kwarg;
typedef struct args {
  const val *pos;
  const kwarg *kw;
  size_t n_pos, n_kw;
} args;

/* The i-th argument, also by name; V_MISSING if not given. */
val mt_arg_get(const args *a, size_t i, const char *name);
val mt_arg_or(const args *a, size_t i, const char *name, val otherwise);
const str *mt_arg_str(rt *r, const args *a, size_t i,
                      const char *name); /* NULL if missing or none; else must be a string */
bool mt_arg_bool(rt *r, const args *a, size_t i, const char *name, bool otherwise);

/* What a built-in takes: names joined by commas, `?` after the optional ones, `*` for anything. */
typedef struct signature {
  const char *kind, *name, *params;
} signature;
/* Fails unless the arguments fit; `names` are the keywords. At run time with MT_EINVAL; when
 * compiling with MT_EFORMAT (one is missing) or MT_EUNSUPPORTED (one too many). OPEN: *a or **a may
 * add arguments. */
enum { SIGNATURE_RUN, SIGNATURE_COMPILE, SIGNATURE_COMPILE_OPEN };
void mt_signature_check(trap *t, const signature *s, size_t n_pos, const char *const *names,
                        size_t n_names, int when);
void mt_signature_check_args(rt *r, const signature *s, const args *a);

typedef struct filter_def {
  signature sig;
  val (*fn)(rt *r, val in, const args *a);
  bool keeps_markup;
} filter_def;
typedef struct test_def {
  signature sig;
  bool (*fn)(rt *r, val in, const args *a);
} test_def;
typedef struct method_def {
  signature sig;
  uint8_t kind; /* of its object */
  val (*fn)(rt *r, val self, const args *a);
} method_def;
typedef struct function_def {
  signature sig;
  val (*fn)(rt *r, const args *a);
} function_def;

const filter_def *mt_chat_filter_find(const char *name, size_t len);
const test_def *mt_chat_test_find(const char *name, size_t len);
const method_def *mt_chat_method_find(val_kind kind, const char *name,
                                      size_t len);       /* kind V_MISSING: any */
int mt_chat_function_find(const char *name, size_t len); /* -1 if none */
const function_def *mt_chat_function_at(int i);
bool mt_chat_is_loop_method(const char *name); /* loop.cycle and the like */

val mt_chat_call_filter(rt *r, const filter_def *f, val in, const args *a);
bool mt_chat_call_test(rt *r, const test_def *t, val in, const args *a);
val mt_chat_call_value(rt *r, val fn, const args *a, const node *at);
val mt_chat_call_macro(rt *r, const macro *m, const args *a);

extern const filter_def mt_chat_text_filters[], mt_chat_list_filters[]; /* end with a NULL name */
extern const method_def mt_chat_str_methods[], mt_chat_other_methods[];

/* ---- eval.c, exec.c ------------------------------------------------------------------------ */

val mt_chat_eval(rt *r, env *e, const node *n);
args mt_chat_eval_args(rt *r, env *e, const node_list *kids);
val mt_chat_eval_filter_chain(rt *r, env *e, const node *n, val in);

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };
enum flow mt_chat_exec_list(rt *r, env *e, const node_list *l);
val mt_chat_exec_capture(rt *r, env *e, const node_list *l); /* what the statements print */
val mt_chat_exec_loop(rt *r, const node *n, env *outer, val items,
                      unsigned depth0); /* recursive: returns what it printed */
val mt_loop_attr(rt *r, loop *l, const sym *name);
val mt_loop_call_method(rt *r, loop *l, const char *name, const args *a);

env *mt_env_new(rt *r, env *up);
void mt_env_set(rt *r, env *e, const sym *name, val v);
const val *mt_env_get(const env *e, const sym *name);
void mt_ns_set(rt *r, namespace *ns, const sym *name, val v);

#endif
