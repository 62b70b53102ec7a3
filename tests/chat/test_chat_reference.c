/* Every conversation through every reference template: the prompt byte for byte, refusals with the template's own words,
 * and the origin of every byte. */
#include "mt_test.h"

#include <time.h>

#include "mutirao/chat.h"

static char dir[512];

static bool find_reference(void) {
  const char *r = getenv("MT_REFERENCE");
  if (r) snprintf(dir, sizeof dir, "%s/chat_templates", r);
  else snprintf(dir, sizeof dir, "%s/../shared/reference/chat_templates", mt_test_root());
  char path[600];
  snprintf(path, sizeof path, "%s/cases.json", dir);
  FILE *f = fopen(path, "rb");
  if (f) fclose(f);
  else printf("skipped: %s is not there\n", path);
  return f != NULL;
}

static mt_json *read_cases(void) {
  char path[600];
  snprintf(path, sizeof path, "%s/cases.json", dir);
  mt_err e = {0};
  mt_json *j = NULL;
  if (mt_json_read_file(&j, path, 64 << 20, &e)) CU_FAIL_FATAL(e.msg);
  return j;
}

static mt_chat_template *compile_file(const char *name) {
  char path[700];
  snprintf(path, sizeof path, "%s/%s.jinja", dir, name);
  mt_buf b = {0};
  mt_err e = {0};
  mt_chat_template *t = NULL;
  if (mt_buf_read_file(&b, path, 1 << 20, &e) || mt_chat_template_compile(&t, b.data, b.len, name, &e)) {
    printf("%s\n", e.msg);
    CU_FAIL("compile");
  }
  mt_buf_free(&b);
  return t;
}

static mt_chat_input input_of(const mt_json *root, const char *name, const mt_json *conv) {
  static const struct tm clock = {.tm_year = 126, .tm_mon = 0, .tm_mday = 15, .tm_hour = 10, .tm_min = 30};
  const mt_json *meta = mt_json_get(mt_json_get(root, "templates"), name);
  mt_chat_input in = {.messages = mt_json_get(conv, "messages"), .tools = mt_json_get(conv, "tools"),
                      .kwargs = mt_json_get(conv, "kwargs"), .local_time = &clock};
  mt_json_bool(mt_json_get(conv, "add_generation_prompt"), &in.add_generation_prompt);
  in.bos_token = mt_json_string(mt_json_get(meta, "bos_token"), NULL);
  in.eos_token = mt_json_string(mt_json_get(meta, "eos_token"), NULL);
  return in;
}

static void check_case(const mt_json *root, const mt_json *c) {
  const char *name = mt_json_string(mt_json_get(c, "template"), NULL);
  const char *id = mt_json_string(mt_json_get(c, "conversation"), NULL);
  const char *kind = mt_json_string(mt_json_get(c, "error_kind"), NULL);
  mt_chat_template *t = compile_file(name);
  if (!t) return;
  mt_chat_input in = input_of(root, name, mt_json_get(mt_json_get(root, "conversations"), id));
  mt_text out = {0};
  mt_err e = {0};
  int rc = mt_chat_render(t, &in, &out, &e);
  size_t n = 0;
  const char *want = mt_json_string(mt_json_get(c, "output"), &n);
  bool ok = true;
  if (want) {
    ok = !rc && out.bytes.len == n && !memcmp(out.bytes.data ? out.bytes.data : "", want, n);
  } else if (kind && !strcmp(kind, "raise_exception")) {
    const char *text = mt_json_string(mt_json_get(c, "error"), NULL);
    const char *message = strstr(text, ": ") + 2;
    ok = rc == MT_EINVAL && !strncmp(e.msg, message, strlen(message));
  }
  if (!ok) printf("%s/%s: rc %d %s\n--- got\n%s\n--- want\n%s\n", name, id, rc, e.msg, out.bytes.data ? out.bytes.data : "", want ? want : "(error)");
  CU_ASSERT(ok);
  mt_text_free(&out);
  mt_chat_template_free(t);
}

static void test_renderings(void) {
  if (!find_reference()) {
    CU_PASS("skipped");
    return;
  }
  mt_json *root = read_cases();
  const mt_json *cases = mt_json_get(root, "cases");
  CU_ASSERT(mt_json_len(cases) >= 90);
  for (size_t i = 0; i < mt_json_len(cases); i++) check_case(root, mt_json_at(cases, i));
  mt_json_free(root);
}

MT_TEST_MAIN("chat_reference", {"renderings", test_renderings})
