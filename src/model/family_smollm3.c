/* SmolLM3: Llama in which some layers do not rotate (NoPE). */
#include "model_impl.h"

static const char *const hf[] = {"SmolLM3ForCausalLM", NULL};
static const char *const gguf[] = {"smollm3", NULL};

static void every_nth_still(mt_model_config *cfg, uint32_t interval) {
  for (uint32_t i = 0; interval && i < cfg->n_layers; i++)
    if ((i + 1) % interval == 0) cfg->layer[i].rope = -1;
}

/* no_rope_layers[i] is 1 where the layer DOES rotate. */
static int configure_hf(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  int rc = mt_config_optional_window(cfg, j, e);
  if (rc) return rc;
  const mt_json *list = mt_json_get(j, "no_rope_layers");
  if (!mt_json_is(list, MT_JSON_ARRAY)) {
    uint32_t interval = 4;
    rc = mt_config_u32(j, "no_rope_layer_interval", &interval, false, e);
    if (!rc) every_nth_still(cfg, interval);
    return rc;
  }
  if (mt_json_len(list) != cfg->n_layers)
    return mt_err_set(e, MT_EFORMAT, "config.json: no_rope_layers has %zu entries for %u layers",
                      mt_json_len(list), cfg->n_layers);
  for (uint32_t i = 0; i < cfg->n_layers; i++) {
    int64_t v;
    if (!mt_json_int(mt_json_at(list, i), &v))
      return mt_err_set(e, MT_EFORMAT, "config.json: no_rope_layers[%u] is not an integer", i);
    if (!v) cfg->layer[i].rope = -1;
  }
  return MT_OK;
}

static int configure_gguf(mt_model_config *cfg, const mt_weights *w, mt_err *e) {
  (void)w;
  (void)e;
  cfg->permuted_qk = true;
  every_nth_still(cfg, 4); /* the file does not say it; every released SmolLM3 is so */
  return MT_OK;
}

const mt_family mt_family_smollm3 = {.name = "smollm3",
                                     .hf = hf,
                                     .gguf = gguf,
                                     .tied = true,
                                     .configure_hf = configure_hf,
                                     .configure_gguf = configure_gguf};
