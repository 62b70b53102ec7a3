/* Mistral: Llama with a sliding window in every layer (or none, from v0.2 on). Its GGUF files call
 * themselves llama. */
#include "model_impl.h"

static const char *const hf[] = {"MistralForCausalLM", NULL};

static int configure_hf(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  uint32_t window = 0;
  int rc = mt_config_u32(j, "sliding_window", &window, false, e);
  if (!rc) mt_config_window_all(cfg, window);
  return rc;
}

const mt_family mt_family_mistral = {.name = "mistral", .hf = hf, .configure_hf = configure_hf};
