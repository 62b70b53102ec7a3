/* Every construct against the real Jinja: tests/data/chat/constructs.json, made by generate.py
 * beside this file. */
#include "chat_test.h"

static bool right(const mt_json *c, int rc, const mt_text *out, const mt_err *e) {
  size_t n;
  const char *want = mt_json_string(mt_json_get(c, "output"), &n);
  const char *kind = mt_json_string(mt_json_get(c, "error"), NULL);
  if (want) return !rc && out->bytes.len == n && !memcmp(chat_text(out), want, n);
  if (!strcmp(kind, "syntax")) return rc == MT_EFORMAT;
  if (!strcmp(kind, "raise"))
    return rc == MT_EINVAL && !strcmp(e->msg, mt_json_string(mt_json_get(c, "message"), NULL));
  return rc != MT_OK && rc != MT_ELIMIT && rc != MT_ENOMEM && !strncmp(e->msg, "t:1: ", 5);
}

static void test_constructs(void) {
  char path[600];
  snprintf(path, sizeof path, "%s/tests/data/chat/constructs.json", mt_test_root());
  mt_json *root = chat_read_json(path);
  const mt_json *data = mt_json_get(root, "data"), *cases = mt_json_get(root, "cases");
  mt_chat_input in = {.messages = mt_json_get(data, "messages"),
                      .tools = mt_json_get(data, "tools"),
                      .kwargs = mt_json_get(data, "kwargs"),
                      .add_generation_prompt = true,
                      .local_time = &chat_clock};
  in.bos_token = mt_json_string(mt_json_get(root, "bos_token"), NULL);
  in.eos_token = mt_json_string(mt_json_get(root, "eos_token"), NULL);
  CU_ASSERT(mt_json_len(cases) > 600);
  for (size_t i = 0; i < mt_json_len(cases); i++) {
    const mt_json *c = mt_json_at(cases, i);
    mt_text out = {0};
    mt_err e = {0};
    int rc = chat_render_source(mt_json_string(mt_json_get(c, "template"), NULL), &in, &out, &e);
    bool ok = right(c, rc, &out, &e);
    CU_ASSERT(ok);
    if (!ok) {
      const char *want = mt_json_string(mt_json_get(c, "output"), NULL);
      printf("\n%s\n  got  %d %s [%s]\n  want [%s]\n",
             mt_json_string(mt_json_get(c, "template"), NULL), rc, e.msg, chat_text(&out),
             want ? want : mt_json_string(mt_json_get(c, "message"), NULL));
    }
    mt_text_free(&out);
  }
  mt_json_free(root);
}

MT_TEST_MAIN("chat_constructs", {"constructs", test_constructs})
