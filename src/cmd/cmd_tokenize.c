/* tokenize: text to ids and back, counts, merges, the rendered chat template. One process; standard
 * input to standard output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "mutirao/token.h"
#include "template.h"

enum { STDIN_MAX_BYTES = 1 << 30 };

static int write_out(const mt_buf *b, mt_err *e) {
  bool ok = fwrite(b->data, 1, b->len, stdout) == b->len && fflush(stdout) == 0;
  return ok ? MT_OK : mt_err_set(e, MT_ESYSTEM, "standard output: writing failed");
}

static int read_text(mt_buf *in, mt_err *e) {
  size_t bad;
  int rc = mt_buf_read_file(in, "-", STDIN_MAX_BYTES, e);
  if (!rc)
    rc = mt_buf_reserve(in, 1) ? mt_err_set(e, MT_ENOMEM, "standard input: no memory") : MT_OK;
  if (!rc && !mt_utf8_valid(in->data, in->len, &bad))
    rc = mt_err_set(e, MT_EFORMAT, "standard input: not UTF-8 at byte %zu", bad);
  return rc;
}

static int flags_of(const mt_opt *o) {
  return (mt_opt_flag(o, "no-special") ? 0 : MT_ENCODE_ADD_SPECIAL) |
         (mt_opt_flag(o, "no-parse-special") ? 0 : MT_ENCODE_PARSE_SPECIAL);
}

/* ---- --chat ------------------------------------------------------------------------------ */

static int read_request(mt_json **request, mt_chat_input *in, mt_err *e) {
  static const char name[] = "standard input";
  mt_buf text = {0};
  int rc = read_text(&text, e);
  if (!rc) rc = mt_json_parse(request, text.data, text.len, name, e);
  mt_buf_free(&text);
  if (rc) return rc;
  if (!mt_json_is(*request, MT_JSON_OBJECT) ||
      !mt_json_is(mt_json_get(*request, "messages"), MT_JSON_ARRAY))
    return mt_err_set(e, MT_EFORMAT, "%s: expected an object with an array \"messages\"", name);
  in->add_generation_prompt = true;
  for (const mt_json_member *m = mt_json_first(*request); m; m = mt_json_next(*request, m)) {
    const char *key = mt_json_member_key(m);
    const mt_json *v = mt_json_member_value(m);
    bool null = mt_json_is(v, MT_JSON_NULL), fits = true;
    if (!strcmp(key, "messages")) {
      in->messages = v;
    } else if (!strcmp(key, "tools") || !strcmp(key, "documents")) {
      if ((fits = null || mt_json_is(v, MT_JSON_ARRAY)) && !null)
        *(*key == 't' ? &in->tools : &in->documents) = v;
    } else if (!strcmp(key, "chat_template_kwargs")) {
      if ((fits = null || mt_json_is(v, MT_JSON_OBJECT)) && !null) in->kwargs = v;
    } else if (!strcmp(key, "add_generation_prompt")) {
      fits = mt_json_bool(v, &in->add_generation_prompt);
    } else {
      return mt_err_set(e, MT_EFORMAT, "%s: unknown key \"%.60s\"", name, key);
    }
    if (!fits) return mt_err_set(e, MT_EFORMAT, "%s: \"%s\" is of the wrong kind", name, key);
  }
  return MT_OK;
}

static int render_chat(const mt_opt *o, const char *model, mt_err *e) {
  mt_template_source t;
  mt_json *request = NULL;
  mt_chat_input in = {0};
  mt_text text = {0};
  int rc = mt_template_open(&t, model, mt_opt_string(o, "chat-template"), e);
  if (rc) return rc;
  rc = read_request(&request, &in, e);
  if (!rc) {
    in.bos_token = t.bos;
    in.eos_token = t.eos;
    in.special_tokens = t.special;
    rc = mt_chat_render(t.compiled, &in, &text, e);
    /* What the template refuses is bad input, not a wrong command line. */
    if (rc == MT_EINVAL) {
      mt_err_prefix(e, rc, "chat template");
      rc = MT_EFORMAT;
    }
  }
  if (!rc) rc = write_out(&text.bytes, e);
  mt_text_free(&text);
  mt_json_free(request);
  mt_template_close(&t);
  return rc;
}

/* ---- ids and text ------------------------------------------------------------------------ */

static int decode(const mt_tokenizer *t, mt_err *e) {
  mt_buf in = {0}, out = {0};
  uint32_t *ids = NULL;
  size_t n = 0;
  int rc = read_text(&in, e);
  if (!rc &&
      mt_opt_parse_ids("standard input", in.data, (uint32_t)mt_tokenizer_vocab(t) - 1, &ids, &n, e))
    rc = MT_EFORMAT;
  if (!rc) rc = mt_tokenizer_decode(t, ids, n, false, &out, e);
  if (!rc) rc = write_out(&out, e);
  free(ids);
  mt_buf_free(&in);
  mt_buf_free(&out);
  return rc;
}

static int put_ids(const mt_ids *ids, mt_buf *out) {
  int rc = MT_OK;
  for (size_t i = 0; i < ids->n && !rc; i++)
    rc = mt_buf_printf(out, "%s%u", i ? "," : "", ids->id[i]);
  return rc ? rc : mt_buf_putc(out, '\n');
}

/* ---- --stats and --explain
 * -------------------------------------------------------------------------------------------- */

typedef struct report {
  const mt_tokenizer *tok;
  mt_buf text; /* for people */
  mt_json *pieces; /* for programs: [{"piece": …, "symbols": […], "merges": […], "tokens": […]}…] */
  mt_json *symbols, *merges, *tokens; /* of the last piece */
  int rc;
} report;

static mt_json *new_text(const char *s, size_t len) {
  mt_buf b = {0};
  mt_json *j =
      mt_utf8_append_lossy(&b, s, len) ? NULL : mt_json_new_string(b.data ? b.data : "", b.len);
  mt_buf_free(&b);
  return j;
}

/* The token as the file spells it. */
static mt_json *new_token(const mt_tokenizer *t, uint32_t id) {
  size_t len = 0;
  const char *s = mt_tokenizer_token(t, id, &len);
  return new_text(s ? s : "", s ? len : 0);
}

static mt_json *new_merge(const report *r, const mt_explain_event *ev) {
  mt_json *j = mt_json_new_object();
  if (j && !mt_json_set(j, "left", new_token(r->tok, ev->left)) &&
      !mt_json_set(j, "right", new_token(r->tok, ev->right)) &&
      !mt_json_set(j, "rank", mt_json_new_int(ev->rank)))
    return j;
  mt_json_free(j);
  return NULL;
}

static int begin_piece(report *r, mt_json *text) {
  mt_json *piece = mt_json_new_object();
  r->symbols = mt_json_new_array();
  r->merges = mt_json_new_array();
  r->tokens = mt_json_new_array();
  int rc = piece ? MT_OK : MT_ENOMEM;
  /* No shortcut: set takes each value, also on failure. */
  if (mt_json_set(piece, "piece", text)) rc = MT_ENOMEM;
  if (mt_json_set(piece, "symbols", r->symbols)) rc = MT_ENOMEM;
  if (mt_json_set(piece, "merges", r->merges)) rc = MT_ENOMEM;
  if (mt_json_set(piece, "tokens", r->tokens)) rc = MT_ENOMEM;
  if (!rc) return mt_json_append(r->pieces, piece);
  mt_json_free(piece);
  return rc;
}

static int explain_json(report *r, const mt_explain_event *ev) {
  switch (ev->kind) {
    case MT_EXPLAIN_PIECE: return begin_piece(r, new_text(ev->text, ev->len));
    case MT_EXPLAIN_START: return mt_json_append(r->symbols, new_token(r->tok, ev->id));
    case MT_EXPLAIN_MERGE: return mt_json_append(r->merges, new_merge(r, ev));
    case MT_EXPLAIN_TOKEN:
      /* A special or added token was never cut: it is a piece of its own. */
      if (mt_tokenizer_is_added(r->tok, ev->id)) {
        int rc = begin_piece(r, new_token(r->tok, ev->id));
        if (rc) return rc;
      }
      return mt_json_append(r->tokens, mt_json_new_int(ev->id));
  }
  return MT_OK;
}

static int explain_text(report *r, const mt_explain_event *ev) {
  size_t a = 0, b = 0;
  const char *left, *right;
  switch (ev->kind) {
    case MT_EXPLAIN_PIECE:
      return mt_buf_printf(&r->text, "piece \"%.*s\"\n", (int)ev->len, ev->text);
    case MT_EXPLAIN_START:
      left = mt_tokenizer_token(r->tok, ev->id, &a);
      return mt_buf_printf(&r->text, "  symbol %-8u %.*s\n", ev->id, (int)a, left ? left : "");
    case MT_EXPLAIN_MERGE:
      left = mt_tokenizer_token(r->tok, ev->left, &a);
      right = mt_tokenizer_token(r->tok, ev->right, &b);
      return mt_buf_printf(&r->text, "  merge %-9u %.*s + %.*s\n", ev->rank, (int)a,
                           left ? left : "", (int)b, right ? right : "");
    case MT_EXPLAIN_TOKEN:
      left = mt_tokenizer_token(r->tok, ev->id, &a);
      return mt_buf_printf(&r->text, "%stoken %-9u %.*s\n",
                           mt_tokenizer_is_added(r->tok, ev->id) ? "" : "  ", ev->id, (int)a,
                           left ? left : "");
  }
  return MT_OK;
}

static void on_explain(void *arg, const mt_explain_event *ev) {
  report *r = arg;
  if (!r->rc) r->rc = r->pieces ? explain_json(r, ev) : explain_text(r, ev);
}

static int add_stats(report *r, mt_json *json, const mt_buf *in, size_t n_tokens) {
  size_t chars, words;
  mt_text_count(in->data, in->len, &chars, &words);
  double per_word = words ? (double)n_tokens / (double)words : 0;
  double per_token = n_tokens ? (double)chars / (double)n_tokens : 0;
  if (!json)
    return mt_buf_printf(&r->text,
                         "bytes %zu\ncharacters %zu\nwords %zu\ntokens %zu\ntokens per word %.3f\n"
                         "characters per token %.3f\n",
                         in->len, chars, words, n_tokens, per_word, per_token);
  return mt_json_set(json, "bytes", mt_json_new_int((int64_t)in->len)) ||
                 mt_json_set(json, "characters", mt_json_new_int((int64_t)chars)) ||
                 mt_json_set(json, "words", mt_json_new_int((int64_t)words)) ||
                 mt_json_set(json, "tokens", mt_json_new_int((int64_t)n_tokens)) ||
                 mt_json_set(json, "tokens_per_word", mt_json_new_real(per_word)) ||
                 mt_json_set(json, "characters_per_token", mt_json_new_real(per_token))
             ? MT_ENOMEM
             : MT_OK;
}

static int write_report(const mt_opt *o, const mt_tokenizer *t, const mt_buf *in, const mt_ids *ids,
                        mt_err *e) {
  report r = {.tok = t};
  bool as_json = mt_opt_flag(o, "json"), explain = mt_opt_flag(o, "explain"),
       stats = mt_opt_flag(o, "stats");
  mt_json *json = as_json ? mt_json_new_object() : NULL;
  int rc = as_json && (!json || (explain && !(r.pieces = mt_json_new_array()))) ? MT_ENOMEM : MT_OK;
  if (!rc && explain)
    rc = mt_tokenizer_explain(t, in->data, in->len, flags_of(o), on_explain, &r, e);
  if (!rc) rc = r.rc;
  if (!rc && stats) rc = add_stats(&r, json, in, ids->n);
  if (!rc && r.pieces) {
    rc = mt_json_set(json, "pieces", r.pieces);
    r.pieces = NULL;
  }
  if (!rc && json)
    rc = mt_json_write(json, 0, &r.text) || mt_buf_putc(&r.text, '\n') ? MT_ENOMEM : MT_OK;
  if (!rc)
    rc = write_out(&r.text, e);
  else if (rc == MT_ENOMEM)
    mt_err_set(e, rc, "no memory for the report");
  mt_json_free(r.pieces);
  mt_json_free(json);
  mt_buf_free(&r.text);
  return rc;
}

static int encode(const mt_opt *o, const mt_tokenizer *t, mt_err *e) {
  mt_buf in = {0}, out = {0};
  mt_ids ids = {0};
  int rc = read_text(&in, e);
  if (!rc) rc = mt_tokenizer_encode(t, in.data, in.len, flags_of(o), &ids, e);
  if (!rc && (mt_opt_flag(o, "stats") || mt_opt_flag(o, "explain")))
    rc = write_report(o, t, &in, &ids, e);
  else if (!rc)
    rc = put_ids(&ids, &out) ? mt_err_set(e, MT_ENOMEM, "no memory for the ids")
                             : write_out(&out, e);
  mt_ids_free(&ids);
  mt_buf_free(&in);
  mt_buf_free(&out);
  return rc;
}

int mt_cmd_tokenize(const mt_opt *o) {
  mt_err e = {0};
  char *model = NULL;
  mt_tokenizer *t = NULL;
  int rc = mt_opt_find_model(o, &model, &e);
  if (!rc && mt_opt_flag(o, "chat")) {
    rc = render_chat(o, model, &e);
  } else if (!rc) {
    rc = mt_tokenizer_open(&t, model, &e);
    if (!rc) rc = mt_opt_flag(o, "decode") ? decode(t, &e) : encode(o, t, &e);
  }
  if (rc) mt_log(MT_LOG_ERROR, "%s", e.msg);
  mt_tokenizer_free(t);
  free(model);
  return mt_err_exit_status(rc);
}
