/* Qwen 3: RMSNorm on each head of q and k before rotation. */
#include "model_impl.h"

static const char *const hf[] = {"Qwen3ForCausalLM", NULL};
static const char *const gguf[] = {"qwen3", NULL};

static int configure_hf(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  cfg->qk_norm = true;
  return mt_config_optional_window(cfg, j, e);
}

static int configure_gguf(mt_model_config *cfg, const mt_weights *w, mt_err *e) {
  (void)w;
  (void)e;
  cfg->qk_norm = true;
  return MT_OK;
}

const mt_family mt_family_qwen3 = {.name = "qwen3",
                                   .hf = hf,
                                   .gguf = gguf,
                                   .configure_hf = configure_hf,
                                   .configure_gguf = configure_gguf};
