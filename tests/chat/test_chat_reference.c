/* Every conversation through every reference template: the prompt byte for byte, refusals with the
 * template's own words, and the origin of every byte. */
#include "chat_test.h"

static mt_chat_input input_of(const mt_json *root, const char *name, const mt_json *conv) {
  const mt_json *meta = mt_json_get(mt_json_get(root, "templates"), name);
  mt_chat_input in = {.messages = mt_json_get(conv, "messages"),
                      .tools = mt_json_get(conv, "tools"),
                      .kwargs = mt_json_get(conv, "kwargs"),
                      .local_time = &chat_clock};
  mt_json_bool(mt_json_get(conv, "add_generation_prompt"), &in.add_generation_prompt);
  in.bos_token = mt_json_string(mt_json_get(meta, "bos_token"), NULL);
  in.eos_token = mt_json_string(mt_json_get(meta, "eos_token"), NULL);
  return in;
}

static void check_case(const char *dir, const mt_json *root, const mt_json *c) {
  const char *name = mt_json_string(mt_json_get(c, "template"), NULL);
  const char *id = mt_json_string(mt_json_get(c, "conversation"), NULL);
  const char *kind = mt_json_string(mt_json_get(c, "error_kind"), NULL);
  mt_chat_template *t = chat_compile_file(dir, name);
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
  if (!ok)
    printf("%s/%s: rc %d %s\n--- got\n%s\n--- want\n%s\n", name, id, rc, e.msg,
           out.bytes.data ? out.bytes.data : "", want ? want : "(error)");
  CU_ASSERT(ok);
  mt_text_free(&out);
  mt_chat_template_free(t);
}

static void check_dir(const char *dir, size_t least) {
  char path[600];
  snprintf(path, sizeof path, "%s/cases.json", dir);
  mt_json *root = chat_read_json(path);
  const mt_json *cases = mt_json_get(root, "cases");
  CU_ASSERT(mt_json_len(cases) >= least);
  for (size_t i = 0; i < mt_json_len(cases); i++) check_case(dir, root, mt_json_at(cases, i));
  mt_json_free(root);
}

static void test_own(void) {
  char path[600];
  snprintf(path, sizeof path, "%s/tests/data/chat", mt_test_root());
  check_dir(path, 42);
}

static void test_reference(void) {
  const char *dir = chat_reference_dir();
  if (dir)
    check_dir(dir, 90);
  else
    CU_PASS("skipped");
}

MT_TEST_MAIN("chat_reference", {"templates in the repository", test_own},
             {"all reference templates", test_reference})
