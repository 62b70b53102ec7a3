/* How many multiplications and additions a prompt takes, from the shapes in the model's headers. */
#include <string.h>

#include "bench.h"

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && !strcmp(s + n - m, end);
}

/* Scores and values of the rows: 2 + 2 operations for each dimension of each key that one sees. */
static double count_attention(const mt_model_config *cfg, size_t begin, size_t end) {
  double keys = 0;
  for (uint32_t l = 0; l < cfg->n_layers; l++)
    for (size_t at = begin; at < end; at++) {
      size_t window = cfg->layer[l].window;
      keys += (double)(window && at >= window ? window : at + 1);
    }
  return 4.0 * cfg->n_heads * cfg->head_dim * keys;
}

int mt_bench_count(const mt_session *s, size_t begin, size_t end, mt_bench_work *out, mt_err *e) {
  mt_weights *w = NULL;
  mt_model_config cfg;
  int rc = mt_model_open(s->path, &w, &cfg, e);
  if (rc) return rc;
  *out = (mt_bench_work){.fma = count_attention(&cfg, begin, end)};
  for (size_t i = 0; i < mt_weights_count(w); i++) {
    const mt_tensor_info *t = mt_weights_at(w, i);
    if (t->shape.n != 2) continue;
    bool embed =
        ends_with(t->name, "token_embd.weight") || ends_with(t->name, "embed_tokens.weight");
    bool head = !strcmp(t->name, "output.weight") || !strcmp(t->name, "lm_head.weight");
    if (embed && !cfg.tied) continue;
    double ops = 2.0 * (double)t->shape.dim[0] * (double)t->shape.dim[1];
    if (!embed && !head) ops *= (double)(end - begin);
    if (mt_dtype_get(t->type)->quantized)
      out->dot += mt_session_int8(s->opt) ? ops : 2 * ops;
    else
      out->fma += ops;
  }
  mt_model_config_free(&cfg);
  mt_weights_close(w);
  return MT_OK;
}
