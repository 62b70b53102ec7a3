/* What is refused, when, and in which words: unsupported constructs and bad syntax at compile time
 * with name and line, runtime errors with the line, and hostile templates by the sandbox. */
#include "chat_test.h"

typedef struct refusal {
  const char *source;
  int code;
  const char *message;
} refusal;

/* ---- compile time -------------------------------------------------------------------------- */

static void expect_compile(const refusal *c) {
  mt_chat_template *t = NULL;
  mt_err e = {0};
  int rc = mt_chat_template_compile(&t, c->source, strlen(c->source), "x.jinja", &e);
  bool ok = rc == c->code && e.code == rc && !strncmp(e.msg, c->message, strlen(c->message)) && !t;
  if (!ok) printf("\n%s\n  got  %d %s\n  want %d %s\n", c->source, rc, e.msg, c->code, c->message);
  CU_ASSERT(ok);
  mt_chat_template_free(t);
}

static void test_unsupported(void) {
  static const refusal cases[] = {
      {"a\n{% include 'b' %}", MT_EUNSUPPORTED,
       "x.jinja:2: the statement 'include' is not supported"},
      {"{% extends 'b' %}", MT_EUNSUPPORTED, "x.jinja:1: the statement 'extends'"},
      {"{% import 'b' as c %}", MT_EUNSUPPORTED, "x.jinja:1: the statement 'import'"},
      {"{% from 'b' import c %}", MT_EUNSUPPORTED, "x.jinja:1: the statement 'from'"},
      {"{% block a %}{% endblock %}", MT_EUNSUPPORTED, "x.jinja:1: the statement 'block'"},
      {"{% autoescape true %}{% endautoescape %}", MT_EUNSUPPORTED,
       "x.jinja:1: the statement 'autoescape'"},
      {"{% do x.append(1) %}", MT_EUNSUPPORTED, "x.jinja:1: the statement 'do'"},
      {"{% trans %}a{% endtrans %}", MT_EUNSUPPORTED, "x.jinja:1: the statement 'trans'"},
      {"{% if false %}\n\n{{ x | frobnicate }}{% endif %}", MT_EUNSUPPORTED,
       "x.jinja:3: the filter 'frobnicate' is not"},
      {"{{ x | random }}", MT_EUNSUPPORTED, "x.jinja:1: the filter 'random'"},
      {"{{ x | groupby('a') }}", MT_EUNSUPPORTED, "x.jinja:1: the filter 'groupby'"},
      {"{{ x is odd and y is weird }}", MT_EUNSUPPORTED,
       "x.jinja:1: the test 'weird' is not supported"},
      {"{{ x | select('weird') }}", MT_EUNSUPPORTED, "x.jinja:1: the test 'weird'"},
      {"{{ x | selectattr('a', 'weird') }}", MT_EUNSUPPORTED, "x.jinja:1: the test 'weird'"},
      {"{{ x | map('weird') }}", MT_EUNSUPPORTED, "x.jinja:1: the filter 'weird'"},
      {"\n{{ lipsum() }}", MT_EUNSUPPORTED, "x.jinja:2: the function 'lipsum' is not supported"},
      {"{{ super() }}", MT_EUNSUPPORTED, "x.jinja:1: the function 'super'"},
      {"{% set m = [] %}{{ m.append(1) }}", MT_EUNSUPPORTED,
       "x.jinja:1: the method 'append' is not supported"},
      {"{{ x.encode('utf8') }}", MT_EUNSUPPORTED, "x.jinja:1: the method 'encode'"},
      {"{{ ''.__class__.mro() }}", MT_EUNSUPPORTED, "x.jinja:1: the method 'mro'"},
      {"{{ x | tojson(default=1) }}", MT_EUNSUPPORTED,
       "x.jinja:1: filter 'tojson': the argument 'default' is not"},
      {"{{ x | upper(1) }}", MT_EUNSUPPORTED,
       "x.jinja:1: filter 'upper' takes not more than 0 arguments"},
      {"{{ x | replace('a') }}", MT_EFORMAT,
       "x.jinja:1: filter 'replace' needs the argument 'new'"},
      {"{{ range() }}", MT_EFORMAT, "x.jinja:1: function 'range' needs the argument 'start'"},
      {"{{ x is divisibleby }}", MT_EFORMAT,
       "x.jinja:1: test 'divisibleby' needs the argument 'num'"},
      {"{{ '\\N{BULLET}' }}", MT_EUNSUPPORTED, "x.jinja:1: the escape \\N"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) expect_compile(&cases[i]);
}

static void test_syntax(void) {
  static const refusal cases[] = {
      {"{{ 1 + }}", MT_EFORMAT, "x.jinja:1: an expression was expected"},
      {"{{ }}", MT_EFORMAT, "x.jinja:1: an expression was expected"},
      {"a\n{{ x", MT_EFORMAT, "x.jinja:2: {{ has no end"},
      {"a\n{% if x", MT_EFORMAT, "x.jinja:2: {% has no end"},
      {"\n\n{# x", MT_EFORMAT, "x.jinja:3: a comment {# has no end"},
      {"{% raw %}x", MT_EFORMAT, "x.jinja:1: a {% raw %} block has no end"},
      {"a\n{% if x %}\nb", MT_EFORMAT, "x.jinja:2: the block that starts here has no endif"},
      {"{% for x in y %}", MT_EFORMAT, "x.jinja:1: the block that starts here has no endfor"},
      {"{% if x %}{% else %}{% elif y %}{% endif %}", MT_EFORMAT,
       "x.jinja:1: this belongs to no open if, at elif"},
      {"{% endif %}", MT_EFORMAT, "x.jinja:1: this ends nothing that is open, at endif"},
      {"{% if x %}{% endfor %}", MT_EFORMAT,
       "x.jinja:1: this ends nothing that is open, at endfor"},
      {"{% %}", MT_EFORMAT, "x.jinja:1: expected a statement"},
      {"{% 5 %}", MT_EFORMAT, "x.jinja:1: expected a statement, at 5"},
      {"{{ 'abc }}", MT_EFORMAT, "x.jinja:1: a string has no end"},
      {"{{ (1 }}", MT_EFORMAT, "x.jinja:1: a closing bracket does not match"},
      {"{{ 1) }}", MT_EFORMAT, "x.jinja:1: a closing bracket does not match"},
      {"{{ a[ }}", MT_EFORMAT, "x.jinja:1: a closing bracket does not match"},
      {"{{ a[] }}", MT_EFORMAT, "x.jinja:1: an empty subscript"},
      {"{{ a. }}", MT_EFORMAT, "x.jinja:1: expected a name or number after the dot"},
      {"{{ a b }}", MT_EFORMAT, "x.jinja:1: expected }}, at b"},
      {"{{ $ }}", MT_EFORMAT, "x.jinja:1: an unexpected character in a tag"},
      {"{{ é }}", MT_EFORMAT, "x.jinja:1: an unexpected character in a tag"},
      {"{{ f(a=1, 2) }}", MT_EFORMAT, "x.jinja:1: a positional argument after a keyword argument"},
      {"{% set 1 = 2 %}", MT_EFORMAT, "x.jinja:1: expected a name to assign to"},
      {"{% set x %}", MT_EFORMAT, "x.jinja:1: the block that starts here has no endset"},
      {"{% for x of y %}{% endfor %}", MT_EFORMAT, "x.jinja:1: expected in, at of"},
      {"{% macro m(a=1, b) %}{% endmacro %}", MT_EFORMAT, "x.jinja:1: a parameter without default"},
      {"{% call 5 %}{% endcall %}", MT_EFORMAT, "x.jinja:1: a call block needs a call"},
      {"{% break %}", MT_EFORMAT, "x.jinja:1: break or continue outside a loop"},
      {"{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}", MT_EFORMAT,
       "x.jinja:1: break or"},
      {"{{ x is defined is none }}", MT_EFORMAT, "x.jinja:1: tests cannot be chained"},
      {"{{ 99999999999999999999 }}", MT_EFORMAT, "x.jinja:1: a number is too large"},
      {"{{ 012 }}", MT_EFORMAT, "x.jinja:1: a decimal number starts with 0"},
      {"{{ 0x }}", MT_EFORMAT, "x.jinja:1: a number has no digits"},
      {"{{ '\\x4' }}", MT_EFORMAT, "x.jinja:1: a string has a broken"},
      {"{{ '\\ud800' }}", MT_EFORMAT, "x.jinja:1: a string has an escape for a surrogate"},
      {"{{ 5() }}", MT_EFORMAT, "x.jinja:1: a constant cannot be called"},
      {"\xff", MT_EFORMAT, "x.jinja: the template is not UTF-8 at byte 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) expect_compile(&cases[i]);
}

/* Every prefix of a real template compiles or is refused with a line, never worse. */
static void test_prefixes(void) {
  static const char *const names[] = {"qwen3", "mistral_nemo", "smollm3"};
  for (size_t k = 0; k < 3; k++) {
    char path[600];
    mt_buf b = {0};
    snprintf(path, sizeof path, "%s/tests/data/chat/%s.jinja", mt_test_root(), names[k]);
    CU_ASSERT_FATAL(!mt_buf_read_file(&b, path, 1 << 20, NULL));
    for (size_t n = 0; n < b.len; n += 3) {
      mt_chat_template *t = NULL;
      mt_err e = {0};
      int rc = mt_chat_template_compile(&t, b.data, n, "x", &e);
      CU_ASSERT(rc == MT_OK || (rc == MT_EFORMAT && !strncmp(e.msg, "x:", 2)) ||
                rc == MT_EUNSUPPORTED);
      mt_chat_template_free(t);
    }
    mt_buf_free(&b);
  }
}

/* ---- runtime ------------------------------------------------------------------------------- */

static void expect_render(const refusal *c, const mt_chat_input *in) {
  mt_text out = {0};
  mt_err e = {0};
  int rc = chat_render_source(c->source, in, &out, &e);
  bool ok = rc == c->code && !strncmp(e.msg, c->message, strlen(c->message)) && !out.bytes.len &&
            !out.n_spans;
  if (!ok)
    printf("\n%.200s\n  got  %d %s\n  want %d %s\n", c->source, rc, e.msg, c->code, c->message);
  CU_ASSERT(ok);
  mt_text_free(&out);
}

static void test_runtime(void) {
  static const refusal cases[] = {
      {"{{ raise_exception('System role not supported') }}", MT_EINVAL,
       "System role not supported"},
      {"x\n{{ messages[0].role }}", MT_EINVAL, "t:2: list has no element 0"},
      {"{{ a.b }}", MT_EINVAL, "t:1: 'a' is undefined"},
      {"\n\n{% set n = 'x' + 1 %}", MT_EINVAL,
       "t:3: can only concatenate str to str, not str and int"},
      {"{{ 9223372036854775807 + 1 }}", MT_EINVAL, "t:1: an integer exceeds 64 bits"},
      {"{{ 9223372036854775807 * -2 }}", MT_EINVAL, "t:1: an integer exceeds 64 bits"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", MT_EINVAL, "t:1: an integer exceeds 64 bits"},
      {"{{ -(-9223372036854775807 - 1) }}", MT_EINVAL, "t:1: an integer exceeds 64 bits"},
      {"{{ 2 ** 64 }}", MT_EINVAL, "t:1: an integer exceeds 64 bits"},
      {"{{ 2 ** -1 }}", MT_EINVAL, "t:1: a negative exponent"},
      {"{{ 2.5 ** 2 }}", MT_EINVAL, "t:1: powers of floating-point numbers"},
      {"{{ strftime_now('%Q') }}", MT_EINVAL, "t:1: strftime_now: an unknown directive"},
      {"{{ strftime_now('%') }}", MT_EINVAL, "t:1: strftime_now: an unknown directive"},
      {"{{ '%9999999s' % 'a' }}", MT_EINVAL, "t:1: a format asks for a width"},
      {"{{ '{:9999999}'.format('a') }}", MT_EINVAL, "t:1: a format asks for a width"},
      {"{{ '{0.a.b' .format(1) }}", MT_EINVAL, "t:1: format: a field is not closed"},
      {"{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", MT_EINVAL,
       "t:1: a namespace cannot be printed"},
      {"{% for a, b in [1] %}{% endfor %}", MT_EINVAL, "t:1: int is not iterable"},
      {"{{ [1, 2, 3][::0] }}", MT_EINVAL, "t:1: slice step cannot be zero"},
      {"{{ undefined_fn() if undefined_fn is not defined }}", MT_EINVAL,
       "t:1: 'undefined_fn' is undefined"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) expect_render(&cases[i], NULL);
}

static void test_long_exception(void) {
  char source[3000];
  snprintf(source, sizeof source, "{{ raise_exception('%02000d') }}", 7);
  mt_text out = {0};
  mt_err e = {0};
  CU_ASSERT_EQUAL(chat_render_source(source, NULL, &out, &e), MT_EINVAL);
  CU_ASSERT(strlen(e.msg) > 900 && e.msg[0] == '0');
  mt_text_free(&out);
}

static void test_reserved_kwargs(void) {
  mt_json *j = NULL;
  static const char text[] = "{\"messages\": []}";
  CU_ASSERT_FATAL(!mt_json_parse(&j, text, sizeof text - 1, "k", NULL));
  mt_chat_input in = {.kwargs = j};
  const refusal c = {"x", MT_EINVAL, "template arguments must not name 'messages'"};
  expect_render(&c, &in);
  mt_json_free(j);
}

/* ---- sandbox ------------------------------------------------------------------------------- */

static void test_hostile(void) {
  static const refusal cases[] = {
      {"{% for i in range(1000000000000) %}{% endfor %}", MT_ELIMIT, "t:1: the template"},
      {"{{ range(-9223372036854775807, 9223372036854775807) | length }}", MT_ELIMIT,
       "t:1: the template"},
      {"{{ 'a' * 1000000000000 }}", MT_ELIMIT, "t:1: the template"},
      {"{{ [0] * 1000000000000 }}", MT_ELIMIT, "t:1: the template"},
      {"{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% "
       "endfor %}",
       MT_ELIMIT, "t:1:"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% "
       "endfor %}",
       MT_ELIMIT, "t:1:"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
       "endfor %}{{ ns.x }}",
       MT_ELIMIT, "t:1:"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
       "endfor %}"
       "{% set ms = namespace(x=[1]) %}{% for i in range(60) %}{% set ms.x = [ms.x, ms.x] %}{% "
       "endfor %}{{ ms.x == ns.x }}",
       MT_ELIMIT, "t:1:"},
      {"{% set ns = namespace(x=[]) %}{% for i in range(9000) %}{% set ns.x = [ns.x] %}{% endfor "
       "%}{{ ns.x }}",
       MT_ELIMIT, "t:1:"},
      {"{% set ns = namespace(x=[]) %}{% for i in range(9000) %}{% set ns.x = [ns.x] %}{% endfor "
       "%}{{ ns.x | tojson }}",
       MT_ELIMIT, "t:1:"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", MT_ELIMIT, "t:1: macro calls recurse"},
      {"{% macro m() %}{% if caller %}{% endif %}{% call m() %}{% endcall %}{% endmacro %}{{ m() "
       "}}",
       MT_ELIMIT, "t:1: macro calls recurse"},
      {"{% macro a(n) %}{{ b(n) }}{% endmacro %}{% macro b(n) %}{{ a(n) }}{% endmacro %}{{ a(1) }}",
       MT_ELIMIT, "t:1: macro"},
      {"{% macro m(x=m()) %}{% endmacro %}{{ m() }}", MT_ELIMIT, "t:1: "},
      {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", MT_ELIMIT,
       "t:1: a loop recurses"},
      {"{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor "
       "%}{% endfor %}{% endfor %}",
       MT_ELIMIT, "t:1:"},
      {"{{ 'x'.center(999999999999) }}", MT_ELIMIT, "t:1:"},
      {"{{ 'x'.zfill(999999999999) }}", MT_ELIMIT, "t:1:"},
      {"{{ 'x' | indent(999999999999) }}", MT_ELIMIT, "t:1:"},
      {"{{ 'a\tb'.expandtabs(999999999999) }}", MT_ELIMIT, "t:1:"},
      {"{{ [1] | batch(999999999999, 0) | list }}", MT_ELIMIT, "t:1:"},
      {"{{ [1] | slice(999999999999, 0) | list }}", MT_ELIMIT, "t:1:"},
      {"{{ ('a' * 1000000).replace('', 'b' * 1000000) }}", MT_ELIMIT, "t:1:"},
      {"{{ (['a' * 1000000] * 100000) | join(',') }}", MT_ELIMIT, "t:1:"},
      {"{% set a = 'a' * 9000000 %}{% for i in range(99999) %}{% if a.rfind('b' ~ a) %}{% endif "
       "%}{{ a.find('aab') }}{% endfor %}",
       MT_ELIMIT, "t:1:"},
      {"{% set a = 'a' * 5000000 %}{{ a.count(a[:2000000] ~ 'b') }}{% for i in range(99999) %}{{ "
       "a.split('b') | length }}{% endfor %}",
       MT_ELIMIT, "t:1:"},
      {"{% set a = 'a' * 3000000 %}{{ a.rfind(a[:1000000] ~ 'b' ~ a[:1000000]) }}", MT_ELIMIT,
       "t:1:"},
      {"{% for i in range(9999999) %}{{ 1e308 % 5e-324 }}{% endfor %}", MT_ELIMIT, "t:1:"},
      {"{% for i in range(9999999) %}{{ (range(9999) | list) == (range(9999) | list) }}{% endfor "
       "%}",
       MT_ELIMIT, "t:1:"},
      {"{% for i in range(9999999) %}{{ range(9999) | sort | unique | list | length }}{% endfor %}",
       MT_ELIMIT, "t:1:"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) expect_render(&cases[i], NULL);
}

static char *repeat(const char *head, const char *piece, size_t n, const char *middle,
                    const char *tail_piece) {
  mt_buf b = {0};
  mt_buf_puts(&b, head);
  for (size_t i = 0; i < n; i++) mt_buf_puts(&b, piece);
  mt_buf_puts(&b, middle);
  for (size_t i = 0; i < n; i++) mt_buf_puts(&b, tail_piece);
  return b.data;
}

static void test_deep_sources(void) {
  static const struct {
    const char *head, *piece, *middle, *tail;
  } cases[] = {
      {"{{ ", "(", "1 }}", ""},
      {"{{ ", "[", "1 }}", ""},
      {"{{ ", "{'a':", "1 }}", ""},
      {"{{ ", "-", "1 }}", ""},
      {"{{ ", "not ", "1 }}", ""},
      {"{{ 1", "+1", " }}", ""},
      {"{{ 1", "|abs", " }}", ""},
      {"{{ 1", " if 1 else 1", " }}", ""},
      {"{{ a", ".a", " }}", ""},
      {"{{ a", "[0]", " }}", ""},
      {"{{ a", "()", " }}", ""},
      {"{{ 1", " and 1", " }}", ""},
      {"{{ 1", "**1", " }}", ""},
      {"{{ 1", " is odd", " }}", ""},
      {"", "{% if 1 %}", "x", "{% endif %}"},
      {"", "{% for a in b %}", "x", "{% endfor %}"},
      {"", "{% set x %}", "x", "{% endset %}"},
      {"", "{% macro m() %}", "x", "{% endmacro %}"},
      {"{% set ", "(", "a", "),"},
      {"{% if 1 %}", "{% elif 1 %}", "", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char *source = repeat(cases[i].head, cases[i].piece, 50000, cases[i].middle, cases[i].tail);
    mt_chat_template *t = NULL;
    mt_err e = {0};
    int rc = mt_chat_template_compile(&t, source, strlen(source), "t", &e);
    bool ok = rc == MT_ELIMIT || rc == MT_EFORMAT;
    if (!ok) printf("\n%s%s: %d %s\n", cases[i].head, cases[i].piece, rc, e.msg);
    CU_ASSERT(ok);
    mt_chat_template_free(t);
    free(source);
  }
  char *many = repeat("{{ 1", "~1", 200000, " }}", ""); /* long, not deep */
  mt_text out = {0};
  CU_ASSERT_EQUAL(chat_render_source(many, NULL, &out, NULL), MT_OK);
  CU_ASSERT_EQUAL(out.bytes.len, 200001);
  mt_text_free(&out);
  free(many);
  char *huge = repeat("", "0123456789abcdef", 70000, "", "");
  mt_err e = {0};
  CU_ASSERT_EQUAL(chat_render_source(huge, NULL, &out, &e), MT_ELIMIT);
  free(huge);
}

/* The worst recursion that is allowed must fit the stack: macros as deep as they may, each with a
 * deep expression. */
static void test_deepest_allowed(void) {
  char *expr = repeat("{% macro m(n) %}{% if n > 0 %}{{ ", "(1 ~ ", 60, "m(n - 1)", ")");
  mt_buf b = {0};
  mt_buf_puts(&b, expr);
  mt_buf_puts(&b, " }}{% endif %}{% endmacro %}{{ m(190) }}");
  mt_text out = {0};
  mt_err e = {0};
  int rc = chat_render_source(b.data, NULL, &out, &e);
  CU_ASSERT(rc == MT_OK || rc == MT_ELIMIT);
  mt_text_free(&out);
  mt_buf_free(&b);
  free(expr);
}

static void test_own_limits(void) {
  mt_chat_input in = {.max_steps = 1000};
  const refusal steps = {"{% for i in range(2000) %}{% endfor %}", MT_ELIMIT,
                         "t:1: the template takes more than 1000 steps"};
  expect_render(&steps, &in);
  in = (mt_chat_input){.max_bytes = 1 << 20};
  const refusal bytes = {"{{ 'a' * 2000000 }}", MT_ELIMIT,
                         "t:1: the template needs more than 1048576 bytes"};
  expect_render(&bytes, &in);
}

/* The defaults grow with the input: ten megabytes of message are no attack. */
static void test_large_input(void) {
  size_t n = 10 << 20;
  char *text = malloc(n);
  CU_ASSERT_FATAL(text != NULL);
  memset(text, 'a', n);
  mt_json *m = mt_json_new_object(), *messages = mt_json_new_array();
  mt_json_set(m, "role", mt_json_new_string("user", 4));
  mt_json_set(m, "content", mt_json_new_string(text, n));
  mt_json_append(messages, m);
  mt_chat_input in = {.messages = messages};
  mt_text out = {0};
  mt_err e = {0};
  CU_ASSERT_EQUAL(
      chat_render_source(
          "{% for m in messages %}<{{ m.role + ':' + m.content | trim + '>' }}{% endfor %}", &in,
          &out, &e),
      MT_OK);
  CU_ASSERT_EQUAL(out.bytes.len, n + 7);
  mt_text_free(&out);
  mt_json_free(messages);
  free(text);
}

MT_TEST_MAIN("chat_refuse", {"unsupported", test_unsupported}, {"syntax", test_syntax},
             {"prefixes", test_prefixes}, {"runtime", test_runtime},
             {"long exception", test_long_exception}, {"reserved kwargs", test_reserved_kwargs},
             {"hostile", test_hostile}, {"deep sources", test_deep_sources},
             {"deepest allowed", test_deepest_allowed}, {"own limits", test_own_limits},
             {"large input", test_large_input})
