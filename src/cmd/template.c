/* Reads chat_template.jinja or tokenizer_config.json of a directory, or the keys of a GGUF file. */
#include "template.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mutirao/token.h"

enum { TEMPLATE_MAX_BYTES = 1 << 20, CONFIG_MAX_BYTES = 64 << 20 };

/* A special token is a string, or an object with its content. */
static const char *spelling(const mt_json *config, const char *key, size_t *len) {
  const mt_json *j = mt_json_get(config, key);
  if (mt_json_is(j, MT_JSON_OBJECT)) j = mt_json_get(j, "content");
  return mt_json_string(j, len);
}

static int read_special(mt_template_source *t, const mt_json *config) {
  static const char *const others[] = {"unk_token", "pad_token", "sep_token", "cls_token",
                                       "mask_token"};
  const char *bos = spelling(config, "bos_token", NULL), *eos = spelling(config, "eos_token", NULL);
  if (bos && !(t->bos = strdup(bos))) return MT_ENOMEM;
  if (eos && !(t->eos = strdup(eos))) return MT_ENOMEM;
  if (!(t->special = mt_json_new_object())) return MT_ENOMEM;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    size_t len;
    const char *s = spelling(config, others[i], &len);
    if (s && mt_json_set(t->special, others[i], mt_json_new_string(s, len))) return MT_ENOMEM;
  }
  return MT_OK;
}

/* The main one of chat_template: a string, or that of the list which is named "default". */
static const char *main_template(const mt_json *config, size_t *len) {
  const mt_json *j = mt_json_get(config, "chat_template");
  const char *s = mt_json_string(j, len);
  for (size_t i = 0; !s && i < mt_json_len(j); i++) {
    const char *name = mt_json_string(mt_json_get(mt_json_at(j, i), "name"), NULL);
    if (name && !strcmp(name, "default"))
      s = mt_json_string(mt_json_get(mt_json_at(j, i), "template"), len);
  }
  return s;
}

static bool is_there(const char *path) {
  struct stat st;
  return stat(path, &st) == 0;
}

static int compile_file(mt_template_source *t, const char *path, mt_err *e) {
  mt_buf text = {0};
  int rc = mt_buf_read_file(&text, path, TEMPLATE_MAX_BYTES, e);
  if (!rc)
    rc = mt_chat_template_compile(&t->compiled, text.data ? text.data : "", text.len, path, e);
  mt_buf_free(&text);
  return rc;
}

static int no_template(const char *model, mt_err *e) {
  return mt_err_set(e, MT_EUNSUPPORTED,
                    "%s has no chat template; give one with --chat-template FILE", model);
}

int mt_template_special(mt_json **out, const char *model, mt_err *e) {
  mt_template_source t = {0};
  mt_buf path = {0};
  mt_json *config = NULL;
  int rc = mt_buf_printf(&path, "%s/tokenizer_config.json", model)
               ? mt_err_set(e, MT_ENOMEM, "no memory for a path")
               : MT_OK;
  if (!rc && is_there(path.data)) rc = mt_json_read_file(&config, path.data, CONFIG_MAX_BYTES, e);
  if (!rc && read_special(&t, config)) rc = mt_err_set(e, MT_ENOMEM, "%s: no memory", path.data);
  *out = rc ? NULL : t.special;
  if (!rc) t.special = NULL;
  mt_template_close(&t);
  mt_json_free(config);
  mt_buf_free(&path);
  return rc;
}

static int open_directory(mt_template_source *t, const char *model, const char *file, mt_err *e) {
  mt_buf own = {0}, path = {0};
  mt_json *config = NULL;
  size_t len;
  int rc = MT_OK;
  if (mt_buf_printf(&own, "%s/chat_template.jinja", model) ||
      mt_buf_printf(&path, "%s/tokenizer_config.json", model))
    rc = mt_err_set(e, MT_ENOMEM, "no memory for a path");
  if (!rc && is_there(path.data)) rc = mt_json_read_file(&config, path.data, CONFIG_MAX_BYTES, e);
  if (!rc && read_special(t, config)) rc = mt_err_set(e, MT_ENOMEM, "%s: no memory", path.data);
  if (!rc && !file && is_there(own.data)) file = own.data;
  const char *source = main_template(config, &len);
  if (!rc && file)
    rc = compile_file(t, file, e);
  else if (!rc && source)
    rc = mt_chat_template_compile(&t->compiled, source, len, path.data, e);
  else if (!rc)
    rc = no_template(model, e);
  mt_json_free(config);
  mt_buf_free(&own);
  mt_buf_free(&path);
  return rc;
}

static char *token_text(const mt_tokenizer *tok, int64_t id) {
  const char *s = id >= 0 ? mt_tokenizer_token(tok, (uint32_t)id, NULL) : NULL;
  return s ? strdup(s) : NULL;
}

static int open_gguf(mt_template_source *t, const char *model, const char *file, mt_err *e) {
  mt_tokenizer *tok = NULL;
  size_t len;
  int rc = mt_tokenizer_open(&tok, model, e);
  if (rc) return rc;
  t->bos = token_text(tok, mt_tokenizer_bos(tok));
  t->eos = token_text(tok, mt_tokenizer_eos(tok));
  const char *source = mt_tokenizer_template(tok, NULL, &len);
  if (file)
    rc = compile_file(t, file, e);
  else if (source)
    rc = mt_chat_template_compile(&t->compiled, source, len, model, e);
  else
    rc = no_template(model, e);
  mt_tokenizer_free(tok);
  return rc;
}

int mt_template_open(mt_template_source *t, const char *model, const char *file, mt_err *e) {
  struct stat st;
  *t = (mt_template_source){0};
  bool directory = stat(model, &st) == 0 && S_ISDIR(st.st_mode);
  int rc = directory ? open_directory(t, model, file, e) : open_gguf(t, model, file, e);
  if (rc) mt_template_close(t);
  return rc;
}

void mt_template_close(mt_template_source *t) {
  mt_chat_template_free(t->compiled);
  mt_json_free(t->special);
  free(t->bos);
  free(t->eos);
  *t = (mt_template_source){0};
}
