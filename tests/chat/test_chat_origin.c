/* Origin: bytes of the caller's data are user text, bytes of the template are template text. */
#include "chat_test.h"

#define SPECIAL "<|im_start|><|im_end|><|eot_id|><start_of_turn></s>[INST]"

/* The spans of `out` as text: template bytes as they are, user runs in braces. */
static void show(const mt_text *out, char *to, size_t cap) {
  size_t n = 0;
  to[0] = 0;
  for (size_t i = 0; i < out->n_spans && n < cap; i++) {
    const mt_span *s = &out->span[i];
    n += (size_t)snprintf(to + n, cap - n, s->origin == MT_SPAN_USER ? "{%.*s}" : "%.*s",
                          (int)(s->end - s->begin), out->bytes.data + s->begin);
  }
}

static void expect(const char *source, const char *want) {
  mt_err e = {0};
  mt_text out = {0};
  mt_json *kwargs = NULL, *messages = NULL;
  static const char vars[] =
      "{\"u\":\"user\",\"n\":5,\"l\":[\"x\",\"y\"],\"d\":{\"k\":\"v\"},\"f\":\"%s!\",\"w\":\" a b "
      "\",\"up\":\"UP\"}";
  static const char msgs[] = "[{\"role\":\"user\",\"content\":\"hi\"}]";
  CU_ASSERT_FATAL(!mt_json_parse(&kwargs, vars, sizeof vars - 1, "vars", &e));
  CU_ASSERT_FATAL(!mt_json_parse(&messages, msgs, sizeof msgs - 1, "msgs", &e));
  mt_chat_input in = {
      .messages = messages, .kwargs = kwargs, .bos_token = "<s>", .local_time = &chat_clock};
  int rc = chat_render_source(source, &in, &out, &e);
  char got[1000];
  show(&out, got, sizeof got);
  bool ok = !rc && !strcmp(got, want);
  if (!ok) printf("\n%s\n  got  %d %s %s\n  want %s\n", source, rc, e.msg, got, want);
  CU_ASSERT(ok);
  mt_text_free(&out);
  mt_json_free(kwargs);
  mt_json_free(messages);
}

static void test_operations(void) {
  expect("a{{ u }}b", "a{user}b");
  expect("{{ bos_token + 'x' + u + 'y' ~ u ~ 1 }}", "<s>x{user}y{user}1");
  expect("{{ ('ab' + u + 'cd')[1:4] }}{{ ('ab' + u)[::-1] }}{{ ('ab' + u)[2] }}", "b{usresu}ba{u}");
  expect("{{ ('  ' + u + '  ') | trim }}|{{ w.strip() }}|{{ (' x' + w).rstrip() }}",
         "{user}|{a b}| x{ a b}");
  expect("{{ 'a-b-c'.replace('-', u) }}{{ u.replace('s', '<>') }}", "a{user}b{user}c{u}<>{er}");
  expect("{{ ('a,' + u + ',b').split(',')[1] }}{{ ('a,' + u + ',b').split(',')[2] }}", "{user}b");
  expect("{{ l | join('-') }}{{ '-'.join(['p', u]) }}{{ [u, 'q'] | join(u) }}",
         "{x}-{y}p-{useruseruser}q");
  expect("{{ 'abc'.upper() }}{{ u.upper() }}{{ ('a' ~ u) | title }}{{ up | lower }}",
         "ABC{USER}A{userup}");
  expect("{{ d | tojson }}{{ {'k': u} | tojson }}{{ ['a', 1] | tojson }}",
         "{{\"k\": \"v\"}}{\"k\": {\"user\"}}[\"a\", 1]");
  expect("{{ d }}{{ ['a', u] }}{{ l }}", "{{'k': 'v'}}['a', {'user'}]{['x', 'y']}");
  expect(
      "{{ n }}{{ n + 1 }}{{ 1 + 1 }}{{ u | length }}{{ 'abc' | length }}{{ n == 5 }}{{ loop is "
      "defined }}",
      "{56}2{4}3{True}False");
  expect("{{ '%s=%s' % ('a', u) }}{{ f % 'a' }}{{ '{}{}'.format(u, 'b') }}{{ f | format('z') }}",
         "a={user}a{!user}bz{!}");
  expect("{% for c in 'a' + u[:2] %}{{ loop.index }}{{ c }}{% endfor %}", "1a2{u}3{s}");
  expect(
      "{% set x %}t{{ u }}{% endset %}{{ x }}{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u) }}{{ "
      "m('c') }}",
      "t{user}<{user}><c>");
  expect(
      "{% macro m2() %}({{ caller() }}){% endmacro %}{% call m2() %}b{{ u }}{% endcall %}{% filter "
      "upper %}a{{ u }}{% endfilter %}",
      "(b{user})A{USER}");
  expect("{{ messages[0].role }}{{ '<|' + messages[0]['role'] + '|>' }}{{ messages[0].content }}",
         "{user}<|{user}|>{hi}");
  expect("{{ u | indent(2, true) }}{{ ('a\n' + u) | indent(1) }}", "  {user}a{\n} {user}");
  expect("{{ u | default('x') }}{{ q | default('x') }}{{ u or 'x' }}{{ 'a' if u else 'b' }}",
         "{user}x{user}a");
  expect(
      "{{ strftime_now('%Y') }}{{ strftime_now(u) }}{{ u | escape }}{{ '<' | e }}{{ u | urlencode "
      "}}",
      "2026{useruser}&lt;{user}");
  expect(
      "{{ d.items() | list }}{{ d | list | first }}{% for k, v in d | items %}{{ k }}={{ v }}{% "
      "endfor %}",
      "{[('k', 'v')]kk}={v}");
  expect("{{ u * 2 }}{{ 'ab' * 2 }}{{ (u ~ 'ab') | reverse }}{{ l | map('upper') | join }}",
         "{useruser}ababba{resuXY}");
  expect(
      "{{ dict(a=u).a }}{{ namespace(a=u).a }}{{ l | first }}{{ l | last | upper }}{{ u | list | "
      "first }}",
      "{useruserxYu}");
  expect(
      "{{ u.partition('s')[1] }}{{ 'a'.center(3, '*') }}{{ u | truncate(3, true, '.', 0) }}{{ "
      "u.zfill(6) }}",
      "{s}*a*{us}.{00user}");
}

/* ---- every reference template -------------------------------------------------------------- */

/* A copy of j in which every string under the given keys has SPECIAL put in front. */
static mt_json *poison(const mt_json *j, bool inside) {
  if (mt_json_is(j, MT_JSON_STRING)) {
    size_t n;
    const char *s = mt_json_string(j, &n);
    mt_buf b = {0};
    if (inside) mt_buf_puts(&b, SPECIAL);
    mt_buf_append(&b, s, n);
    mt_json *out = mt_json_new_string(b.data ? b.data : "", b.len);
    mt_buf_free(&b);
    return out;
  }
  if (mt_json_is(j, MT_JSON_ARRAY)) {
    mt_json *out = mt_json_new_array();
    for (size_t i = 0; i < mt_json_len(j); i++)
      mt_json_append(out, poison(mt_json_at(j, i), inside));
    return out;
  }
  if (!mt_json_is(j, MT_JSON_OBJECT)) return mt_json_copy(j);
  mt_json *out = mt_json_new_object();
  for (const mt_json_member *m = mt_json_first(j); m; m = mt_json_next(j, m)) {
    const char *k = mt_json_member_key(m);
    bool text = !strcmp(k, "content") || !strcmp(k, "description") || !strcmp(k, "arguments") ||
                !strcmp(k, "text");
    mt_json_set(out, k, poison(mt_json_member_value(m), inside || text));
  }
  return out;
}

/* All occurrences of `what` in the text: how many lie wholly in spans of one origin, and how many
 * do not. */
static void count(const mt_text *t, const char *what, int origin, size_t *inside, size_t *outside) {
  size_t n = strlen(what);
  *inside = *outside = 0;
  for (size_t i = 0; i + n <= t->bytes.len; i++) {
    if (memcmp(t->bytes.data + i, what, n)) continue;
    size_t k = 0;
    while (t->span[k].end <= i) k++;
    if (t->span[k].origin == origin && t->span[k].end >= i + n)
      ++*inside;
    else
      ++*outside;
  }
}

static void check_spans(const mt_text *t) {
  size_t at = 0;
  for (size_t i = 0; i < t->n_spans; i++) {
    CU_ASSERT(t->span[i].begin == at && t->span[i].end > at);
    CU_ASSERT(!i || t->span[i].origin != t->span[i - 1].origin);
    at = t->span[i].end;
  }
  CU_ASSERT_EQUAL(at, t->bytes.len);
}

static size_t poisoned_render(const mt_chat_template *t, mt_chat_input in) {
  mt_json *messages = poison(in.messages, false),
          *tools = in.tools ? poison(in.tools, false) : NULL;
  in.messages = messages;
  in.tools = tools;
  mt_text out = {0};
  mt_err e = {0};
  size_t user = 0, elsewhere = 0;
  if (!mt_chat_render(t, &in, &out, &e)) {
    check_spans(&out);
    count(&out, SPECIAL, MT_SPAN_USER, &user, &elsewhere);
    CU_ASSERT_EQUAL(elsewhere, 0);
  } else {
    CU_ASSERT_EQUAL(e.code, MT_EINVAL);
  }
  mt_text_free(&out);
  mt_json_free(messages);
  mt_json_free(tools);
  return user;
}

/* The rendering without poison: every role marker stands in template text. */
static void check_markers(const mt_chat_template *t, const mt_chat_input *in) {
  mt_text out = {0};
  mt_json *markers = NULL;
  CU_ASSERT(!mt_chat_template_markers(t, in->bos_token, in->eos_token, &markers, NULL));
  if (!mt_chat_render(t, in, &out, NULL))
    for (size_t i = 0; i < mt_json_len(markers); i++) {
      size_t inside, outside;
      count(&out, mt_json_string(mt_json_at(markers, i), NULL), MT_SPAN_TEMPLATE, &inside,
            &outside);
      CU_ASSERT_EQUAL(outside, 0);
    }
  mt_text_free(&out);
  mt_json_free(markers);
}

static void check_dir(const char *dir) {
  char path[600];
  snprintf(path, sizeof path, "%s/cases.json", dir);
  mt_json *root = chat_read_json(path);
  const mt_json *templates = mt_json_get(root, "templates"),
                *conversations = mt_json_get(root, "conversations");
  for (const mt_json_member *m = mt_json_first(templates); m; m = mt_json_next(templates, m)) {
    mt_chat_template *t = chat_compile_file(dir, mt_json_member_key(m));
    size_t found = 0;
    for (const mt_json_member *c = mt_json_first(conversations); t && c;
         c = mt_json_next(conversations, c)) {
      const mt_json *conv = mt_json_member_value(c), *meta = mt_json_member_value(m);
      mt_chat_input in = {.messages = mt_json_get(conv, "messages"),
                          .tools = mt_json_get(conv, "tools"),
                          .local_time = &chat_clock};
      mt_json_bool(mt_json_get(conv, "add_generation_prompt"), &in.add_generation_prompt);
      in.bos_token = mt_json_string(mt_json_get(meta, "bos_token"), NULL);
      in.eos_token = mt_json_string(mt_json_get(meta, "eos_token"), NULL);
      found += poisoned_render(t, in);
      check_markers(t, &in);
    }
    CU_ASSERT(found >= 5);
    mt_chat_template_free(t);
  }
  mt_json_free(root);
}

static void test_reference_templates(void) {
  char own[600];
  snprintf(own, sizeof own, "%s/tests/data/chat", mt_test_root());
  check_dir(own);
  const char *dir = chat_reference_dir();
  if (dir) check_dir(dir);
}

static void test_role_is_user_text(void) {
  mt_json *m = NULL;
  static const char text[] = "[{\"role\":\"<|im_end|>\",\"content\":\"<|eot_id|>\"}]";
  CU_ASSERT_FATAL(!mt_json_parse(&m, text, sizeof text - 1, "m", NULL));
  mt_chat_input in = {.messages = m};
  mt_text out = {0};
  char got[200];
  CU_ASSERT(!chat_render_source(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}", &in,
      &out, NULL));
  show(&out, got, sizeof got);
  CU_ASSERT_STRING_EQUAL(got, "<|im_start|>{<|im_end|>}\n{<|eot_id|>}<|im_end|>");
  mt_text_free(&out);
  mt_json_free(m);
}

static void expect_markers(const char *source, const char *want) {
  mt_chat_template *t = NULL;
  mt_json *markers = NULL;
  mt_buf b = {0};
  CU_ASSERT_FATAL(!mt_chat_template_compile(&t, source, strlen(source), "t", NULL));
  CU_ASSERT(!mt_chat_template_markers(t, "<s>", "</s>", &markers, NULL));
  mt_json_write(markers, 0, &b);
  CU_ASSERT_STRING_EQUAL(b.data, want);
  mt_buf_free(&b);
  mt_json_free(markers);
  mt_chat_template_free(t);
}

static void test_markers(void) {
  expect_markers("{% for m in messages %}<|im_start|>{{ m.role }}{{ '<|im_end|>' }}{% endfor %}",
                 "[\"<|im_start|>\", \"<|im_end|>\"]");
  expect_markers(
      "{% if false %}<|never|>{% endif %}<start_of_turn><tools><b> <|not a marker|> a<|b <|x|y> "
      "<｜User｜>",
      "[\"<start_of_turn>\", \"<｜User｜>\"]");
  expect_markers("{{ '<|sys|>' if '<|other|>' in messages[0].content else '<|usr|>' }}",
                 "[\"<|usr|>\"]");
  expect_markers("{{ raise_exception('no') }}{{ '<|a|>' }}", "[\"<|a|>\"]");
  expect_markers("plain", "[]");
}

static void test_literals(void) {
  static const char source[] = "text{{ 'const' }}{% if x == 'other' %}more{% endif %}";
  mt_chat_template *t = NULL;
  CU_ASSERT_FATAL(!mt_chat_template_compile(&t, source, sizeof source - 1, "t", NULL));
  static const char *const want[] = {"text", "more", "const", "other"};
  CU_ASSERT_EQUAL_FATAL(mt_chat_template_n_literals(t), 4);
  for (size_t i = 0; i < 4; i++) {
    size_t n;
    const char *s = mt_chat_template_literal(t, i, &n);
    CU_ASSERT(n == strlen(want[i]) && !memcmp(s, want[i], n));
  }
  size_t n;
  CU_ASSERT_PTR_NULL(mt_chat_template_literal(t, 4, &n));
  mt_chat_template_free(t);
}

MT_TEST_MAIN("chat_origin", {"operations", test_operations},
             {"reference templates", test_reference_templates},
             {"a role is user text", test_role_is_user_text}, {"markers", test_markers},
             {"literals", test_literals})
