/* Any bytes as a chat template: it compiles or is refused, and what compiles renders or stops
 * within the sandbox. The text that comes out must be UTF-8, its spans gapless, and no byte of the
 * poisoned message may pass for template text. */
#include <stdlib.h>
#include <string.h>

#include "mutirao/chat.h"

#define POISON "\xE2\x98\xA0" /* not in any template that has no such character itself */

static mt_json *parse(const char *text) {
  mt_json *j = NULL;
  return mt_json_parse(&j, text, strlen(text), "fuzz", NULL) ? NULL : j;
}

static void check(const mt_text *t, bool poison_is_users) {
  size_t at = 0;
  if (!mt_utf8_valid(t->bytes.data ? t->bytes.data : "", t->bytes.len, NULL)) abort();
  for (size_t i = 0; i < t->n_spans; i++) {
    const mt_span *s = &t->span[i];
    if (s->begin != at || s->end <= at || (i && s[-1].origin == s->origin)) abort();
    if (poison_is_users && s->origin == MT_SPAN_TEMPLATE &&
        memmem(t->bytes.data + at, s->end - at, POISON, 3))
      abort();
    at = s->end;
  }
  if (at != t->bytes.len) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mt_json *messages, *tools, *kwargs;
  if (!messages) {
    messages = parse("[{\"role\":\"system\",\"content\":\"" POISON
                     "a\"},{\"role\":\"user\",\"content\":\"x" POISON
                     " y\"},"
                     "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"" POISON
                     "\",\"function\":{\"name\":\"f\","
                     "\"arguments\":{\"a\":[1,2.5,null,true],\"" POISON
                     "\":\"v\"}}}]},{\"role\":\"tool\",\"content\":\"" POISON "\"}]");
    tools = parse("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"" POISON
                  "\",\"parameters\":{}}}]");
    kwargs = parse("{\"u\":\"" POISON "u%s{}\",\"n\":7,\"l\":[\"b" POISON
                   "\",\"a\"],\"d\":{\"k\":\"" POISON "\"},\"t\":true}");
  }
  mt_chat_template *t = NULL;
  mt_err e = {0};
  int rc = mt_chat_template_compile(&t, (const char *)data, size, "fuzz", &e);
  if (rc) {
    if (t || e.code != rc || !e.msg[0]) abort();
    return 0;
  }
  static const struct tm clock = {.tm_year = 126, .tm_mon = 0, .tm_mday = 15};
  mt_chat_input in = {.messages = messages,
                      .tools = tools,
                      .kwargs = kwargs,
                      .add_generation_prompt = true,
                      .bos_token = "<s>",
                      .eos_token = "</s>",
                      .local_time = &clock,
                      .max_steps = 50000,
                      .max_bytes = 8 << 20};
  mt_text out = {0};
  rc = mt_chat_render(t, &in, &out, &e);
  bool spells = memchr(data, 0xE2, size) ||
                memchr(data, '\\', size); /* the template may write the character itself */
  if (!rc) check(&out, !spells);
  if (rc && (out.bytes.len || e.code != rc)) abort();
  mt_text_free(&out);
  mt_chat_template_free(t);
  return 0;
}
