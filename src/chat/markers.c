/* Which role markers a template emits, by rendering probe conversations. */
#include <string.h>

#include "mutirao/chat.h"

enum { MAX_MARKER = 80 };

/* Length of the marker that starts at s, or 0: <|name|>, <｜name｜> (U+FF5C), <name_of_name>. */
static size_t marker_length(const char *s, size_t n) {
  static const char wide[] = "\xEF\xBD\x9C";
  if (n < 3 || s[0] != '<') return 0;
  size_t bar = s[1] == '|' ? 1 : n > 3 && !memcmp(s + 1, wide, 3) ? 3 : 0, i = 1 + bar;
  for (; i < n && i < MAX_MARKER && s[i] != '>'; i++) {
    char c = s[i];
    bool letter = (c >= 'a' && c <= 'z') || c == '_';
    if (c == '<' || (unsigned char)c <= ' ' || (!bar && !letter)) return 0;
  }
  if (i >= n || i >= MAX_MARKER) return 0;
  if (!bar) return memmem(s, i, "_of_", 4) ? i + 1 : 0;
  bool closed = i >= 1 + 2 * bar + 1 && !memcmp(s + i - bar, s + 1, bar);
  return closed ? i + 1 : 0;
}

static bool has(const mt_json *list, const char *s, size_t n) {
  for (size_t i = 0; i < mt_json_len(list); i++) {
    size_t len;
    const char *old = mt_json_string(mt_json_at(list, i), &len);
    if (len == n && !memcmp(old, s, n)) return true;
  }
  return false;
}

static int collect(mt_json *list, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    size_t len = marker_length(s + i, n - i);
    if (!len) continue;
    if (!has(list, s + i, len) && mt_json_append(list, mt_json_new_string(s + i, len)))
      return MT_ENOMEM;
    i += len - 1;
  }
  return MT_OK;
}

/* MT_EINVAL where the template refuses the probe. */
static int probe(const mt_chat_template *t, const char *messages, bool prompt, const char *bos,
                 const char *eos, mt_json *list) {
  mt_json *m = NULL;
  mt_text out = {0};
  int rc = mt_json_parse(&m, messages, strlen(messages), "probe", NULL);
  if (rc) return rc;
  mt_chat_input in = {
      .messages = m, .add_generation_prompt = prompt, .bos_token = bos, .eos_token = eos};
  rc = mt_chat_render(t, &in, &out, NULL);
  for (size_t i = 0; !rc && i < out.n_spans; i++)
    if (out.span[i].origin == MT_SPAN_TEMPLATE)
      rc = collect(list, out.bytes.data + out.span[i].begin, out.span[i].end - out.span[i].begin);
  mt_text_free(&out);
  mt_json_free(m);
  return rc;
}

static int collect_literals(const mt_chat_template *t, mt_json *list) {
  int rc = MT_OK;
  size_t len;
  for (size_t i = 0; !rc && i < mt_chat_template_n_literals(t); i++) {
    const char *s = mt_chat_template_literal(t, i, &len);
    rc = collect(list, s, len);
  }
  return rc;
}

int mt_chat_template_markers(const mt_chat_template *t, const char *bos_token,
                             const char *eos_token, mt_json **out, mt_err *e) {
  static const char *const probes[] = {
      "[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]",
      "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":"
      "\"user\",\"content\":\"c\"}]",
  };
  mt_json *list = mt_json_new_array();
  bool rendered = false;
  int rc = list ? MT_OK : MT_ENOMEM;
  for (size_t i = 0; i < 2 && rc != MT_ENOMEM; i++) {
    rc = probe(t, probes[i], i == 1, bos_token, eos_token, list);
    rendered |= !rc;
  }
  if (rc != MT_ENOMEM && !rendered) rc = collect_literals(t, list);
  if (rc == MT_ENOMEM) {
    mt_json_free(list);
    return mt_err_set(e, MT_ENOMEM, "no memory for the template's markers");
  }
  *out = list;
  return MT_OK;
}
