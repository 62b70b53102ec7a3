/* logits: raw logits of given token ids, float32 little-endian [tokens, vocabulary]. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "session.h"

typedef struct writer {
  FILE *f;
  size_t vocab;
  const char *path;
  mt_err *err;
} writer;

static int write_row(void *arg, size_t position, const float *logits) {
  writer *w = arg;
  for (size_t i = 0; i < w->vocab; i++)
    if (!(logits[i] - logits[i] == 0)) /* NaN and the infinities */
      return mt_err_set(w->err, MT_ENUMERIC, "the logits at position %zu are not numbers",
                        position);
  if (fwrite(logits, sizeof *logits, w->vocab, w->f) == w->vocab) return MT_OK;
  return mt_err_set(w->err, MT_ESYSTEM, "%s: writing failed", w->path);
}

static int lead(mt_session *s, const uint32_t *ids, size_t n, mt_err *e) {
  writer w = {.path = mt_opt_string(s->opt, "out"),
              .vocab = mt_model_get_config(s->model)->vocab,
              .err = e};
  bool to_stdout = !strcmp(w.path, "-");
  w.f = to_stdout ? stdout : fopen(w.path, "wb");
  if (!w.f) return mt_err_set(e, MT_ESYSTEM, "%s: cannot be opened for writing", w.path);
  mt_request r = {.ids = ids, .n_ids = n, .on_prompt = write_row, .arg = &w};
  if (mt_opt_flag(s->opt, "last")) r.prompt_from = n - 1;
  mt_sample_params_init(&r.sample);
  int rc = mt_engine_submit(s->engine, &r, e);
  if (!rc) rc = mt_engine_run(s->engine, e);
  bool closed = to_stdout ? fflush(w.f) == 0 : fclose(w.f) == 0;
  if (!rc && !closed) rc = mt_err_set(e, MT_ESYSTEM, "%s: writing failed", w.path);
  return rc;
}

int mt_cmd_logits(const mt_opt *opt) {
  mt_err e = {0};
  mt_session s;
  const uint32_t *ids;
  size_t n = mt_opt_ids(opt, "ids", &ids);
  int rc = mt_session_open(&s, opt, &e), own = MT_OK;
  if (!rc) rc = mt_session_load(&s, MT_OK, (mt_room){.tokens = n, .seqs = 1}, &e);
  if (!rc) {
    if (s.root) own = lead(&s, ids, n, &e);
    rc = mt_session_follow(&s, own, &e);
  }
  return mt_session_close(&s, rc, &e);
}
