/* Gemma 3, text only: norms of 1 + w, two more norms a layer, sliding layers with a rope of their
 * own, scaled embeddings, tanh GELU. */
#include "model_impl.h"

static const char *const hf[] = {"Gemma3ForCausalLM", NULL};
static const char *const gguf[] = {"gemma3", NULL};
static const char *const hf_names[SLOT_COUNT] = {
    [SLOT_POST_ATTN_NORM] = "model.layers.%u.post_attention_layernorm.weight",
    [SLOT_FFN_NORM] = "model.layers.%u.pre_feedforward_layernorm.weight",
    [SLOT_POST_FFN_NORM] = "model.layers.%u.post_feedforward_layernorm.weight",
};

/* Full layers turn by rope 0, sliding ones by rope 1. */
static void common(mt_model_config *cfg) {
  cfg->qk_norm = cfg->post_norms = true;
  cfg->embedding_scale = (float)__builtin_sqrt((double)cfg->hidden);
  cfg->n_ropes = 2;
  for (uint32_t i = 0; i < cfg->n_layers; i++) cfg->layer[i].rope = cfg->layer[i].window ? 1 : 0;
}

static void pattern_layers(mt_model_config *cfg, uint32_t window, uint32_t pattern) {
  for (uint32_t i = 0; i < cfg->n_layers; i++)
    cfg->layer[i].window = (i + 1) % pattern ? window : 0;
}

static int windows_hf(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  uint32_t window = 0, pattern = 0;
  bool found;
  int rc = mt_config_u32(j, "sliding_window", &window, true, e);
  if (!rc) rc = mt_config_layer_types(cfg, j, window, &found, e);
  if (rc || found) return rc;
  rc = mt_config_u32(j, "sliding_window_pattern", &pattern, false, e);
  if (!rc && !pattern) rc = mt_config_u32(j, "_sliding_window_pattern", &pattern, false, e);
  if (rc) return rc;
  pattern_layers(cfg, window, pattern ? pattern : 6);
  return MT_OK;
}

static int ropes_hf(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  const mt_json *p = mt_json_get(j, "rope_parameters");
  if (mt_json_get(p, "full_attention")) {
    int rc = mt_config_rope(cfg, 0, j, mt_json_get(p, "full_attention"), e);
    return rc ? rc : mt_config_rope(cfg, 1, j, mt_json_get(p, "sliding_attention"), e);
  }
  int rc = mt_config_rope(cfg, 0, j, NULL, e);
  if (!mt_json_get(j, "rope_theta")) cfg->rope[0].theta = 1e6;
  cfg->rope[1] = (mt_rope_params){.theta = 10000, .factor = 1, .original_context = cfg->context};
  return rc ? rc : mt_config_number(j, "rope_local_base_freq", &cfg->rope[1].theta, e);
}

static int configure_hf(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  double scalar = 256;
  int rc = windows_hf(cfg, j, e);
  if (!rc) rc = ropes_hf(cfg, j, e);
  if (!rc) rc = mt_config_number(j, "query_pre_attn_scalar", &scalar, e);
  if (!rc && !(scalar > 0))
    rc = mt_err_set(e, MT_EFORMAT, "config.json: query_pre_attn_scalar is %g", scalar);
  if (rc) return rc;
  cfg->activation = MT_ACT_GELU_TANH;
  cfg->norm_plus_one = true;
  cfg->attention_scale = mt_config_inverse_sqrt(scalar);
  common(cfg);
  return MT_OK;
}

static int configure_gguf(mt_model_config *cfg, const mt_weights *w, mt_err *e) {
  enum {
    LAYERS_27B = 62
  }; /* the one size whose scale is not head_dim's; the file does not say it */
  uint32_t window = 0;
  int rc = mt_gguf_key_u32(w, "gemma3", "attention.sliding_window", &window, true, e);
  if (rc) return rc;
  pattern_layers(cfg, window, 6);
  cfg->rope[1] = (mt_rope_params){.theta = 10000, .factor = 1, .original_context = cfg->context};
  (void)mt_gguf_number(w, "gemma3.rope.freq_base_swa", &cfg->rope[1].theta);
  cfg->activation = MT_ACT_GELU_TANH;
  cfg->attention_scale = mt_config_inverse_sqrt(
      cfg->n_layers == LAYERS_27B ? (double)cfg->hidden / cfg->n_heads : cfg->head_dim);
  common(cfg); /* the file's norms already hold 1 + w */
  return MT_OK;
}

const mt_family mt_family_gemma3 = {.name = "gemma3",
                                    .hf = hf,
                                    .gguf = gguf,
                                    .hf_names = hf_names,
                                    .tied = true,
                                    .configure_hf = configure_hf,
                                    .configure_gguf = configure_gguf};
