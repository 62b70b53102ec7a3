/* Qwen 2 and 2.5: bias on q, k and v. */
#include "model_impl.h"

static const char *const hf[] = {"Qwen2ForCausalLM", NULL};
static const char *const gguf[] = {"qwen2", NULL};

static int configure_hf(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  cfg->bias_qkv = true;
  cfg->bias_o = false;
  return mt_config_optional_window(cfg, j, e);
}

static int configure_gguf(mt_model_config *cfg, const mt_weights *w, mt_err *e) {
  (void)w;
  (void)e;
  cfg->bias_qkv = true;
  return MT_OK;
}

const mt_family mt_family_qwen2 = {.name = "qwen2",
                                   .hf = hf,
                                   .gguf = gguf,
                                   .configure_hf = configure_hf,
                                   .configure_gguf = configure_gguf};
