/* tokenizer_config.json and chat_template.jinja beside tokenizer.json: names of special tokens,
 * chat templates. */
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { MAX_CONFIG_BYTES = 64 << 20, MAX_TEMPLATE_BYTES = 4 << 20 };

/* A token is named by a string, or by an object with its content; null and absent are the same. */
static int read_token(const mt_tokenizer *t, const mt_json *config, const char *key, int64_t *id,
                      mt_err *e) {
  const mt_json *j = mt_json_get(config, key);
  if (mt_json_is(j, MT_JSON_OBJECT)) j = mt_json_get(j, "content");
  size_t len;
  const char *s = mt_json_string(j, &len);
  if (!s) return MT_OK;
  int64_t found = mt_tokenizer_find(t, s, len);
  if (found < 0)
    return mt_err_set(e, MT_EFORMAT,
                      "%s: %s \"%.80s\" of tokenizer_config.json is not in the vocabulary",
                      t->name.data, key, s);
  *id = found;
  return MT_OK;
}

static int read_templates(mt_tokenizer *t, const mt_json *j, mt_err *e) {
  size_t len, name_len;
  const char *s = mt_json_string(j, &len);
  int rc = s ? mt_token_put_template(t, "default", 7, s, len) : MT_OK;
  for (size_t i = 0; !s && mt_json_is(j, MT_JSON_ARRAY) && i < mt_json_len(j) && !rc; i++) {
    const char *name = mt_json_string(mt_json_get(mt_json_at(j, i), "name"), &name_len);
    const char *text = mt_json_string(mt_json_get(mt_json_at(j, i), "template"), &len);
    if (!name || !text)
      return mt_err_set(e, MT_EFORMAT,
                        "%s: chat_template %zu of tokenizer_config.json lacks a name or a template",
                        t->name.data, i);
    rc = mt_token_put_template(t, name, name_len, text, len);
  }
  return rc ? mt_err_set(e, rc, "%s: no memory for the chat templates", t->name.data) : MT_OK;
}

static int read_config(mt_tokenizer *t, const char *path, mt_err *e) {
  mt_json *j;
  if (access(path, F_OK)) return MT_OK;
  int rc = mt_json_read_file(&j, path, MAX_CONFIG_BYTES, e);
  if (rc) return rc;
  if (!mt_json_is(j, MT_JSON_OBJECT)) rc = mt_err_set(e, MT_EFORMAT, "%s: not an object", path);
  if (!rc) rc = read_token(t, j, "bos_token", &t->bos, e);
  if (!rc) rc = read_token(t, j, "eos_token", &t->eos, e);
  if (!rc) rc = read_token(t, j, "unk_token", &t->unk, e);
  if (!rc) rc = read_token(t, j, "pad_token", &t->pad, e);
  if (!rc) rc = read_templates(t, mt_json_get(j, "chat_template"), e);
  mt_json_free(j);
  return rc;
}

/* A template in a file of its own comes first, as in the reference. */
static int read_template_file(mt_tokenizer *t, const char *path, mt_err *e) {
  if (access(path, F_OK)) return MT_OK;
  mt_buf text = {0};
  int rc = mt_buf_read_file(&text, path, MAX_TEMPLATE_BYTES, e);
  if (!rc && !mt_utf8_valid(text.data, text.len, NULL))
    rc = mt_err_set(e, MT_EFORMAT, "%s: not UTF-8", path);
  if (!rc && mt_token_put_template(t, "default", 7, text.data, text.len))
    rc = mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
  mt_buf_free(&text);
  return rc;
}

int mt_load_config(mt_tokenizer *t, const char *dir, mt_err *e) {
  mt_buf path = {0};
  int rc = mt_buf_printf(&path, "%s/chat_template.jinja", dir);
  if (!rc) rc = read_template_file(t, path.data, e);
  mt_buf_clear(&path);
  if (!rc) rc = mt_buf_printf(&path, "%s/tokenizer_config.json", dir);
  if (!rc) rc = read_config(t, path.data, e);
  t->stops.n = 0; /* anew, now that eos is known: it comes first */
  if (!rc) rc = mt_token_find_stops(t);
  mt_buf_free(&path);
  return rc == MT_ENOMEM ? mt_err_set(e, rc, "%s: no memory", dir) : rc;
}
