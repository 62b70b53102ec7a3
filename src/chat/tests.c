/* Tests: `value is name(args)`. */
#include <string.h>

#include "runtime.h"

#define KIND_TEST(name, condition)                \
  static bool name(rt *r, val v, const args *a) { \
    (void)r;                                      \
    (void)a;                                      \
    return condition;                             \
  }
KIND_TEST(is_defined, v.kind != V_UNDEF)
KIND_TEST(is_undefined, v.kind == V_UNDEF)
KIND_TEST(is_none, v.kind == V_NONE)
KIND_TEST(is_boolean, v.kind == V_BOOL)
KIND_TEST(is_true, v.kind == V_BOOL && v.u.b)
KIND_TEST(is_false, v.kind == V_BOOL && !v.u.b)
KIND_TEST(is_integer, v.kind == V_INT)
KIND_TEST(is_float, v.kind == V_FLOAT)
KIND_TEST(is_number, mt_val_is_number(v))
KIND_TEST(is_string, v.kind == V_STR)
KIND_TEST(is_escaped, v.kind == V_STR && v.markup)
KIND_TEST(is_mapping, v.kind == V_DICT)
KIND_TEST(is_iterable, mt_val_iterable(v))
KIND_TEST(is_sequence, mt_val_iterable(v) && !(v.kind == V_LIST && v.u.l->form >= LIST_KEYS))
KIND_TEST(is_callable, v.kind == V_UNDEF || (v.kind >= V_MACRO && v.kind != V_CYCLER))
KIND_TEST(is_filter, v.kind == V_STR && mt_chat_filter_find(v.u.s->p, v.u.s->len))
KIND_TEST(is_test, v.kind == V_STR && mt_chat_test_find(v.u.s->p, v.u.s->len))
KIND_TEST(is_upper, mt_chat_text_has_case(r, mt_val_to_str(r, v), UNI_UPPER, UNI_LOWER))
KIND_TEST(is_lower, mt_chat_text_has_case(r, mt_val_to_str(r, v), UNI_LOWER, UNI_UPPER))

#define COMPARE_TEST(name, op)                                   \
  static bool name(rt *r, val v, const args *a) {                \
    return mt_chat_compare(r, op, v, mt_arg_get(a, 0, "other")); \
  }
COMPARE_TEST(is_eq, TOK_EQ)
COMPARE_TEST(is_ne, TOK_NE)
COMPARE_TEST(is_lt, '<')
COMPARE_TEST(is_le, TOK_LE)
COMPARE_TEST(is_gt, '>')
COMPARE_TEST(is_ge, TOK_GE)
COMPARE_TEST(is_in, OP_IN)

static bool is_sameas(rt *r, val v, const args *a) {
  val o = mt_arg_get(a, 0, "other");
  if (v.kind != o.kind) return false;
  if (v.kind == V_LIST) return v.u.l == o.u.l;
  if (v.kind == V_DICT) return v.u.d == o.u.d;
  return mt_val_eq(r, v, o);
}

static bool remainder_is(rt *r, val v, val by, int64_t wanted) {
  return mt_val_eq(r, mt_chat_arith(r, '%', v, by), mt_val_int(wanted, MT_SPAN_TEMPLATE));
}
static bool is_odd(rt *r, val v, const args *a) {
  (void)a;
  return remainder_is(r, v, mt_val_int(2, MT_SPAN_TEMPLATE), 1);
}
static bool is_even(rt *r, val v, const args *a) {
  (void)a;
  return remainder_is(r, v, mt_val_int(2, MT_SPAN_TEMPLATE), 0);
}
static bool is_divisibleby(rt *r, val v, const args *a) {
  return remainder_is(r, v, mt_arg_get(a, 0, "num"), 0);
}

#define TEST(name, params, fn) \
  { {"test", name, params}, fn }
static const test_def tests[] = {
    TEST("defined", "", is_defined),
    TEST("undefined", "", is_undefined),
    TEST("none", "", is_none),
    TEST("boolean", "", is_boolean),
    TEST("true", "", is_true),
    TEST("false", "", is_false),
    TEST("integer", "", is_integer),
    TEST("float", "", is_float),
    TEST("number", "", is_number),
    TEST("string", "", is_string),
    TEST("escaped", "", is_escaped),
    TEST("mapping", "", is_mapping),
    TEST("iterable", "", is_iterable),
    TEST("sequence", "", is_sequence),
    TEST("callable", "", is_callable),
    TEST("filter", "", is_filter),
    TEST("test", "", is_test),
    TEST("upper", "", is_upper),
    TEST("lower", "", is_lower),
    TEST("eq", "other", is_eq),
    TEST("==", "other", is_eq),
    TEST("equalto", "other", is_eq),
    TEST("ne", "other", is_ne),
    TEST("!=", "other", is_ne),
    TEST("lt", "other", is_lt),
    TEST("<", "other", is_lt),
    TEST("lessthan", "other", is_lt),
    TEST("le", "other", is_le),
    TEST("<=", "other", is_le),
    TEST("gt", "other", is_gt),
    TEST(">", "other", is_gt),
    TEST("greaterthan", "other", is_gt),
    TEST("ge", "other", is_ge),
    TEST(">=", "other", is_ge),
    TEST("in", "other", is_in),
    TEST("sameas", "other", is_sameas),
    TEST("odd", "", is_odd),
    TEST("even", "", is_even),
    TEST("divisibleby", "num", is_divisibleby),
};

const test_def *mt_chat_test_find(const char *name, size_t len) {
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
    if (strlen(tests[i].sig.name) == len && !memcmp(tests[i].sig.name, name, len)) return &tests[i];
  return NULL;
}
