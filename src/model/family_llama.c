/* Llama 2, 3, 3.1, 3.2 and everything that has their form (SmolLM2, TinyLlama, GGUF of Mistral 7B
 * v0.3 …). */
#include "model_impl.h"

static const char *const hf[] = {"LlamaForCausalLM", NULL};
static const char *const gguf[] = {"llama", NULL};

static int configure_gguf(mt_model_config *cfg, const mt_weights *w, mt_err *e) {
  (void)w;
  if (cfg->rotary_dim != cfg->head_dim)
    return mt_err_set(e, MT_EUNSUPPORTED,
                      "llama.rope.dimension_count %u with heads of %u is not supported",
                      cfg->rotary_dim, cfg->head_dim);
  cfg->permuted_qk = true; /* its converter interleaves the rows of each head of q and k */
  return MT_OK;
}

const mt_family mt_family_llama = {
    .name = "llama", .hf = hf, .gguf = gguf, .configure_gguf = configure_gguf};
