/* Phi-3 and 3.5 mini, Phi-4: q, k, v in one tensor, gate and up in another; part of a head may
 * turn; longrope. */
#include "model_impl.h"

static const char *const hf[] = {"Phi3ForCausalLM", NULL};
static const char *const gguf[] = {"phi3", NULL};

static int configure_hf(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  uint32_t window = 0;
  int rc = mt_config_u32(j, "sliding_window", &window, false, e);
  if (rc) return rc;
  mt_config_window_all(cfg, window < cfg->context ? window : 0);
  cfg->fused_qkv = cfg->fused_gate_up = true;
  return MT_OK;
}

static int configure_gguf(mt_model_config *cfg, const mt_weights *w, mt_err *e) {
  uint32_t window = 0;
  int rc = mt_gguf_key_u32(w, "phi3", "attention.sliding_window", &window, false, e);
  if (rc) return rc;
  mt_config_window_all(cfg, window < cfg->context ? window : 0);
  cfg->fused_qkv = cfg->fused_gate_up = true;
  return MT_OK;
}

const mt_family mt_family_phi3 = {.name = "phi3",
                                  .hf = hf,
                                  .gguf = gguf,
                                  .configure_hf = configure_hf,
                                  .configure_gguf = configure_gguf};
