/* Arithmetic and comparison, as Python does them on 64-bit integers and doubles. */
#include <math.h>

#include "runtime.h"

static int worst(val a, val b) {
  return mt_val_origin(a) == MT_SPAN_USER || mt_val_origin(b) == MT_SPAN_USER ? MT_SPAN_USER
                                                                              : MT_SPAN_TEMPLATE;
}

static int64_t as_int(val v) {
  return v.kind == V_BOOL ? v.u.b : v.u.i;
}

static int64_t power_int(rt *r, int64_t base, int64_t exp) {
  int64_t out = 1;
  for (; exp > 0; exp >>= 1) {
    if ((exp & 1) && __builtin_mul_overflow(out, base, &out))
      mt_chat_fail(r, "an integer exceeds 64 bits");
    if (exp > 1 && __builtin_mul_overflow(base, base, &base))
      mt_chat_fail(r, "an integer exceeds 64 bits");
  }
  return out;
}

/* Quotient rounded down, remainder with the divisor's sign. */
static void divide_int(rt *r, int64_t a, int64_t b, int64_t *q, int64_t *m) {
  if (b == 0) mt_chat_fail(r, "division by zero");
  if (b == -1) { /* INT64_MIN / -1 traps */
    if (__builtin_sub_overflow((int64_t)0, a, q)) mt_chat_fail(r, "an integer exceeds 64 bits");
    *m = 0;
    return;
  }
  *q = a / b;
  *m = a % b;
  if (*m && (*m < 0) != (b < 0)) {
    *q -= 1;
    *m += b;
  }
}

static val arith_int(rt *r, int op, int64_t a, int64_t b, int origin) {
  int64_t v = 0, rest = 0;
  bool over = false;
  switch (op) {
    case '+': over = __builtin_add_overflow(a, b, &v); break;
    case '-': over = __builtin_sub_overflow(a, b, &v); break;
    case '*': over = __builtin_mul_overflow(a, b, &v); break;
    case TOK_FLOORDIV: divide_int(r, a, b, &v, &rest); break;
    case '%': divide_int(r, a, b, &rest, &v); break;
    case TOK_POW:
      if (b < 0) mt_chat_fail(r, "a negative exponent is not supported");
      v = power_int(r, a, b);
      break;
    default:
      if (b == 0) mt_chat_fail(r, "division by zero");
      return mt_val_float((double)a / (double)b, origin);
  }
  if (over) mt_chat_fail(r, "an integer exceeds 64 bits");
  return mt_val_int(v, origin);
}

/* a - n·b by long division in binary: exact, as C's fmod; both positive and finite. */
static double remainder_positive(double a, double b) {
  double t = b;
  while (t <= a / 2) t *= 2;
  for (; a >= b; t /= 2)
    if (a >= t) a -= t;
  return a;
}

static double modulo(double a, double b) {
  if (isinf(a) || isnan(a) || isnan(b)) return NAN;
  double m = isinf(b) ? fabs(a) : remainder_positive(fabs(a), fabs(b));
  if (a < 0) m = -m;
  if (m != 0 && (m < 0) != (b < 0)) m += b;
  return m;
}

static double floor_div(double a, double b) {
  double m = modulo(a, b), q = (a - m) / b;
  if (!(fabs(q) < 0x1p52)) return q;
  double whole = (double)(int64_t)q;
  if (q - whole > 0.5) whole += 1;
  if (q - whole < -0.5) whole -= 1;
  return whole;
}

static val arith_float(rt *r, int op, double a, double b, int origin) {
  if ((op == '/' || op == '%' || op == TOK_FLOORDIV) && b == 0) mt_chat_fail(r, "division by zero");
  switch (op) {
    case '+': return mt_val_float(a + b, origin);
    case '-': return mt_val_float(a - b, origin);
    case '*': return mt_val_float(a * b, origin);
    case '/': return mt_val_float(a / b, origin);
    case '%': return mt_val_float(modulo(a, b), origin);
    case TOK_FLOORDIV: return mt_val_float(floor_div(a, b), origin);
    default: mt_chat_fail(r, "powers of floating-point numbers are not supported");
  }
}

static val repeat(rt *r, val v, int64_t times) {
  if (times < 0) times = 0;
  if (v.kind == V_STR) {
    sb b = mt_sb_new(r);
    for (int64_t i = 0; i < times && v.u.s->len; i++) mt_sb_str(&b, v.u.s);
    val out = mt_sb_val(&b);
    out.markup = v.markup;
    return out;
  }
  vec out = {.r = r};
  for (int64_t i = 0; i < times && v.u.l->n; i++)
    for (size_t k = 0; k < v.u.l->n; k++) mt_vec_push(&out, v.u.l->v[k]);
  return mt_vec_list(&out, v.u.l->form, v.origin);
}

static val join_lists(rt *r, val a, val b) {
  size_t n = a.u.l->n + b.u.l->n;
  val *v = mt_val_array(r, n);
  for (size_t i = 0; i < n; i++) v[i] = i < a.u.l->n ? a.u.l->v[i] : b.u.l->v[i - a.u.l->n];
  return mt_val_list(r, v, n, a.u.l->form, worst(a, b));
}

/* The arguments of marked text are escaped: strings here, and the text of other values when they
 * are put in as text. */
static val percent(rt *r, val a, val b) {
  if (!a.markup) return mt_chat_format_percent(r, a.u.s, b);
  if (b.kind == V_DICT) mt_chat_fail(r, "formatting marked text by keys is not supported");
  const list *l = b.kind == V_LIST && b.u.l->form == LIST_TUPLE ? b.u.l : NULL;
  size_t n = l ? l->n : 1;
  val *escaped = mt_val_array(r, n);
  for (size_t i = 0; i < n; i++) {
    escaped[i] = l ? l->v[i] : b;
    if (!mt_val_is_number(escaped[i])) escaped[i] = mt_markup_escape(r, escaped[i]);
  }
  return mt_markup_mark(r, mt_chat_format_percent(
                               r, a.u.s, mt_val_list(r, escaped, n, LIST_TUPLE, MT_SPAN_TEMPLATE)));
}

static bool repeatable(val v) {
  return v.kind == V_STR || (v.kind == V_LIST && v.u.l->form <= LIST_TUPLE);
}

static const char *op_name(int op) {
  switch (op) {
    case '+': return "+";
    case '-': return "-";
    case '*': return "*";
    case '/': return "/";
    case '%': return "%";
    case TOK_FLOORDIV: return "//";
    default: return "**";
  }
}

val mt_chat_arith(rt *r, int op, val a, val b) {
  if (a.kind == V_UNDEF) mt_chat_fail_undefined(r, a);
  if (a.kind == V_STR && op == '%') return percent(r, a, b);
  if (b.kind == V_UNDEF) mt_chat_fail_undefined(r, b);
  if (mt_val_is_number(a) && mt_val_is_number(b)) {
    if (a.kind == V_FLOAT || b.kind == V_FLOAT)
      return arith_float(r, op, mt_val_number(a), mt_val_number(b), worst(a, b));
    return arith_int(r, op, as_int(a), as_int(b), worst(a, b));
  }
  if (op == '+' && a.kind == V_STR && b.kind == V_STR) {
    sb out = mt_sb_new(r);
    bool markup = a.markup || b.markup;
    mt_sb_str(&out, (markup ? mt_markup_escape(r, a) : a).u.s);
    mt_sb_str(&out, (markup ? mt_markup_escape(r, b) : b).u.s);
    val sum = mt_sb_val(&out);
    sum.markup = markup;
    return sum;
  }
  if (op == '+' && a.kind == V_LIST && b.kind == V_LIST && a.u.l->form == b.u.l->form &&
      repeatable(a))
    return join_lists(r, a, b);
  if (op == '*' && repeatable(a) && (b.kind == V_INT || b.kind == V_BOOL))
    return repeat(r, a, as_int(b));
  if (op == '*' && repeatable(b) && (a.kind == V_INT || a.kind == V_BOOL))
    return repeat(r, b, as_int(a));
  if (op == '+' && (a.kind == V_STR || b.kind == V_STR))
    mt_chat_fail(r, "can only concatenate str to str, not %s and %s", mt_val_type_name(a),
                 mt_val_type_name(b));
  mt_chat_fail(r, "unsupported operand types for %s: %s and %s", op_name(op), mt_val_type_name(a),
               mt_val_type_name(b));
}

val mt_chat_negate(rt *r, val a) {
  if (a.kind == V_FLOAT) return mt_val_float(-a.u.f, a.origin);
  if (a.kind == V_UNDEF) mt_chat_fail_undefined(r, a);
  if (!mt_val_is_number(a))
    mt_chat_fail(r, "bad operand type for unary -: %s", mt_val_type_name(a));
  return arith_int(r, '-', 0, as_int(a), a.origin);
}

bool mt_chat_compare(rt *r, int op, val a, val b) {
  switch (op) {
    case TOK_EQ: return mt_val_eq(r, a, b);
    case TOK_NE: return !mt_val_eq(r, a, b);
    case '<': return mt_val_cmp(r, a, b, "<") == -1;
    case '>': return mt_val_cmp(r, a, b, ">") == 1;
    case TOK_LE: return (unsigned)(mt_val_cmp(r, a, b, "<=") + 1) <= 1;
    case TOK_GE: return (unsigned)mt_val_cmp(r, a, b, ">=") <= 1;
    case OP_IN: return mt_val_contains(r, b, a);
    default: return !mt_val_contains(r, b, a);
  }
}
