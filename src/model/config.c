/* From config.json or GGUF metadata to an mt_model_config: the keys that all families share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

enum { CONFIG_MAX_BYTES = 4 << 20, MAX_LAYERS = 4096 };

/* ---- keys -------------------------------------------------------------------------------- */

int mt_config_u32(const mt_json *j, const char *key, uint32_t *out, bool required, mt_err *e) {
  const mt_json *v = mt_json_get(j, key);
  if (!v || mt_json_is(v, MT_JSON_NULL))
    return required ? mt_err_set(e, MT_EFORMAT, "config.json: %s is missing", key) : MT_OK;
  int64_t n;
  if (!mt_json_int(v, &n))
    return mt_err_set(e, MT_EFORMAT, "config.json: %s is not an integer", key);
  if (n < 0 || n > INT32_MAX)
    return mt_err_set(e, MT_EFORMAT, "config.json: %s is %lld, outside 0 to %d", key, (long long)n,
                      INT32_MAX);
  *out = (uint32_t)n;
  return MT_OK;
}

int mt_config_bool(const mt_json *j, const char *key, bool *out, mt_err *e) {
  const mt_json *v = mt_json_get(j, key);
  if (!v || mt_json_is(v, MT_JSON_NULL)) return MT_OK;
  if (!mt_json_bool(v, out))
    return mt_err_set(e, MT_EFORMAT, "config.json: %s is not true or false", key);
  return MT_OK;
}

int mt_config_number(const mt_json *j, const char *key, double *out, mt_err *e) {
  const mt_json *v = mt_json_get(j, key);
  if (!v || mt_json_is(v, MT_JSON_NULL)) return MT_OK;
  if (!mt_json_number(v, out))
    return mt_err_set(e, MT_EFORMAT, "config.json: %s is not a number", key);
  return MT_OK;
}

int mt_gguf_key_u32(const mt_weights *w, const char *arch, const char *key, uint32_t *out,
                    bool required, mt_err *e) {
  char full[128];
  snprintf(full, sizeof full, "%s.%s", arch, key);
  uint64_t v;
  if (!mt_gguf_has(w, full))
    return required
               ? mt_err_set(e, MT_EFORMAT, "%s: %s is missing", mt_weights_file_name(w, 0), full)
               : MT_OK;
  if (!mt_gguf_u64(w, full, &v) || v > INT32_MAX)
    return mt_err_set(e, MT_EFORMAT, "%s: %s is not a count", mt_weights_file_name(w, 0), full);
  *out = (uint32_t)v;
  return MT_OK;
}

/* ---- windows ----------------------------------------------------------------------------- */

void mt_config_window_all(mt_model_config *cfg, uint32_t window) {
  for (uint32_t i = 0; i < cfg->n_layers; i++) cfg->layer[i].window = window;
}

int mt_config_layer_types(mt_model_config *cfg, const mt_json *j, uint32_t window, bool *found,
                          mt_err *e) {
  const mt_json *types = mt_json_get(j, "layer_types");
  *found = mt_json_is(types, MT_JSON_ARRAY);
  if (!*found) return MT_OK;
  if (mt_json_len(types) != cfg->n_layers)
    return mt_err_set(e, MT_EFORMAT, "config.json: layer_types has %zu entries for %u layers",
                      mt_json_len(types), cfg->n_layers);
  for (uint32_t i = 0; i < cfg->n_layers; i++) {
    const char *s = mt_json_string(mt_json_at(types, i), NULL);
    if (s && !strcmp(s, "full_attention"))
      cfg->layer[i].window = 0;
    else if (s && !strcmp(s, "sliding_attention"))
      cfg->layer[i].window = window;
    else
      return mt_err_set(e, MT_EUNSUPPORTED,
                        "config.json: layer_types[%u] is %s, which is not supported", i,
                        s ? s : "not a string");
    if (s[0] == 's' && !window)
      return mt_err_set(e, MT_EFORMAT,
                        "config.json: layer %u slides, but sliding_window is missing", i);
  }
  return MT_OK;
}

int mt_config_optional_window(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  bool use = false, found;
  uint32_t window = 0, from = 0;
  int rc = mt_config_bool(j, "use_sliding_window", &use, e);
  if (!rc) rc = mt_config_u32(j, "sliding_window", &window, false, e);
  if (!rc) rc = mt_config_u32(j, "max_window_layers", &from, false, e);
  if (rc) return rc;
  if (!use) window = 0;
  if (use) {
    rc = mt_config_layer_types(cfg, j, window, &found, e);
    if (rc || found) return rc;
    for (uint32_t i = from; i < cfg->n_layers; i++) cfg->layer[i].window = window;
  }
  return MT_OK;
}

/* ---- what every family shares ------------------------------------------------------------ */

static int layers_new(mt_model_config *cfg, mt_err *e) {
  if (!cfg->n_layers || cfg->n_layers > MAX_LAYERS)
    return mt_err_set(e, MT_EFORMAT, "the model has %u layers; 1 to %d are possible", cfg->n_layers,
                      MAX_LAYERS);
  cfg->layer = mt_calloc(cfg->n_layers, sizeof *cfg->layer);
  return cfg->layer ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for %u layers", cfg->n_layers);
}

static int check_dims(const mt_model_config *cfg, mt_err *e) {
  const struct {
    const char *name;
    uint32_t value, max;
  } dim[] = {{"hidden size", cfg->hidden, 1 << 20},  {"attention heads", cfg->n_heads, 1 << 16},
             {"KV heads", cfg->n_kv_heads, 1 << 16}, {"head size", cfg->head_dim, 1024},
             {"FFN size", cfg->ffn, 1 << 22},        {"vocabulary", cfg->vocab, 1 << 24},
             {"context", cfg->context, 1u << 30}};
  for (size_t i = 0; i < sizeof dim / sizeof dim[0]; i++)
    if (dim[i].value < 1 || dim[i].value > dim[i].max)
      return mt_err_set(e, MT_EFORMAT, "%s is %u; 1 to %u are possible", dim[i].name, dim[i].value,
                        dim[i].max);
  if (cfg->n_heads % cfg->n_kv_heads)
    return mt_err_set(e, MT_EFORMAT, "%u attention heads are no multiple of %u KV heads",
                      cfg->n_heads, cfg->n_kv_heads);
  if (!cfg->rotary_dim || cfg->rotary_dim % 2 || cfg->rotary_dim > cfg->head_dim)
    return mt_err_set(e, MT_EFORMAT, "%u rotary dimensions do not fit a head of %u",
                      cfg->rotary_dim, cfg->head_dim);
  if (!(cfg->eps > 0 && cfg->eps < 1))
    return mt_err_set(e, MT_EFORMAT, "the norms' epsilon is %g", (double)cfg->eps);
  return MT_OK;
}

static int activation_hf(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  const char *act = mt_json_string(mt_json_get(j, "hidden_activation"), NULL);
  if (!act) act = mt_json_string(mt_json_get(j, "hidden_act"), NULL);
  if (!act || !strcmp(act, "silu") || !strcmp(act, "swish"))
    cfg->activation = MT_ACT_SILU;
  else if (!strcmp(act, "gelu_pytorch_tanh"))
    cfg->activation = MT_ACT_GELU_TANH;
  else
    return mt_err_set(e, MT_EUNSUPPORTED, "config.json: activation %s is not supported", act);
  return MT_OK;
}

/* Keys that change the numbers and that no family here knows: refused, never run wrongly. */
static int refuse_unknown(const mt_json *j, mt_err *e) {
  static const char *const keys[] = {"quantization_config",
                                     "final_logit_softcapping",
                                     "attn_logit_softcapping",
                                     "num_local_experts",
                                     "num_experts",
                                     "attention_multiplier",
                                     "residual_multiplier",
                                     "logits_scaling",
                                     "embedding_multiplier"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    const mt_json *v = mt_json_get(j, keys[i]);
    if (v && !mt_json_is(v, MT_JSON_NULL))
      return mt_err_set(e, MT_EUNSUPPORTED, "config.json: %s is not supported", keys[i]);
  }
  return MT_OK;
}

static int common_hf(mt_model_config *cfg, const mt_json *j, mt_err *e) {
  int rc = refuse_unknown(j, e);
  double eps = 1e-6, partial = 1;
  if (!rc) rc = mt_config_u32(j, "num_hidden_layers", &cfg->n_layers, true, e);
  if (!rc) rc = mt_config_u32(j, "hidden_size", &cfg->hidden, true, e);
  if (!rc) rc = mt_config_u32(j, "num_attention_heads", &cfg->n_heads, true, e);
  cfg->n_kv_heads = cfg->n_heads;
  if (!rc) rc = mt_config_u32(j, "num_key_value_heads", &cfg->n_kv_heads, false, e);
  if (!rc) rc = mt_config_u32(j, "intermediate_size", &cfg->ffn, true, e);
  if (!rc) rc = mt_config_u32(j, "vocab_size", &cfg->vocab, true, e);
  cfg->context = 2048;
  if (!rc) rc = mt_config_u32(j, "max_position_embeddings", &cfg->context, false, e);
  if (!rc) rc = mt_config_u32(j, "head_dim", &cfg->head_dim, false, e);
  if (!rc) rc = mt_config_number(j, "rms_norm_eps", &eps, e);
  if (!rc) rc = mt_config_number(j, "partial_rotary_factor", &partial, e);
  if (!rc) rc = mt_config_bool(j, "tie_word_embeddings", &cfg->tied, e);
  if (!rc) rc = mt_config_bool(j, "attention_bias", &cfg->bias_qkv, e);
  if (!rc) rc = mt_config_bool(j, "mlp_bias", &cfg->bias_mlp, e);
  if (!rc) rc = activation_hf(cfg, j, e);
  if (!rc) rc = layers_new(cfg, e);
  if (rc) return rc;
  cfg->bias_o = cfg->bias_qkv;
  if (!cfg->head_dim && cfg->n_heads) cfg->head_dim = cfg->hidden / cfg->n_heads;
  const mt_json *nested = mt_json_get(j, "rope_parameters");
  rc = mt_config_number(nested, "partial_rotary_factor", &partial, e);
  if (rc) return rc;
  if (!(partial > 0 && partial <= 1))
    return mt_err_set(e, MT_EFORMAT, "config.json: partial_rotary_factor is %g", partial);
  cfg->rotary_dim = (uint32_t)(partial * cfg->head_dim);
  cfg->eps = (float)eps;
  cfg->n_ropes = 1;
  return MT_OK;
}

static int common_gguf(mt_model_config *cfg, const mt_weights *w, const char *arch, mt_err *e) {
  int rc = mt_gguf_key_u32(w, arch, "block_count", &cfg->n_layers, true, e);
  if (!rc) rc = mt_gguf_key_u32(w, arch, "embedding_length", &cfg->hidden, true, e);
  if (!rc) rc = mt_gguf_key_u32(w, arch, "feed_forward_length", &cfg->ffn, true, e);
  if (!rc) rc = mt_gguf_key_u32(w, arch, "attention.head_count", &cfg->n_heads, true, e);
  cfg->n_kv_heads = cfg->n_heads;
  if (!rc) rc = mt_gguf_key_u32(w, arch, "attention.head_count_kv", &cfg->n_kv_heads, false, e);
  if (!rc) rc = mt_gguf_key_u32(w, arch, "context_length", &cfg->context, true, e);
  if (!rc && cfg->n_heads) cfg->head_dim = cfg->hidden / cfg->n_heads;
  if (!rc) rc = mt_gguf_key_u32(w, arch, "attention.key_length", &cfg->head_dim, false, e);
  uint32_t value_dim = cfg->head_dim, experts = 0;
  if (!rc) rc = mt_gguf_key_u32(w, arch, "attention.value_length", &value_dim, false, e);
  if (!rc) rc = mt_gguf_key_u32(w, arch, "expert_count", &experts, false, e);
  cfg->rotary_dim = cfg->head_dim;
  if (!rc) rc = mt_gguf_key_u32(w, arch, "rope.dimension_count", &cfg->rotary_dim, false, e);
  if (!rc) rc = layers_new(cfg, e);
  if (rc) return rc;
  if (value_dim != cfg->head_dim)
    return mt_err_set(e, MT_EUNSUPPORTED,
                      "heads of %u for keys and %u for values are not supported", cfg->head_dim,
                      value_dim);
  if (experts)
    return mt_err_set(e, MT_EUNSUPPORTED, "%s with %u experts is not supported", arch, experts);
  char key[128];
  double eps = 1e-6;
  snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
  if (!mt_gguf_number(w, key, &eps))
    return mt_err_set(e, MT_EFORMAT, "%s: %s is missing", mt_weights_file_name(w, 0), key);
  cfg->eps = (float)eps;
  const mt_tensor_info *embed = mt_weights_find(w, "token_embd.weight");
  if (!embed || embed->shape.n != 2 || embed->shape.dim[0] > INT32_MAX)
    return mt_err_set(e, MT_EFORMAT, "%s: no tensor token_embd.weight of two dimensions",
                      mt_weights_file_name(w, 0));
  cfg->vocab = (uint32_t)embed->shape.dim[0];
  cfg->tied = !mt_weights_find(w, "output.weight");
  cfg->n_ropes = 1;
  return mt_config_rope_gguf(cfg, w, arch, e);
}

/* ---- entry ------------------------------------------------------------------------------- */

static const mt_family *const families[] = {&mt_family_llama,  &mt_family_mistral, &mt_family_qwen2,
                                            &mt_family_qwen3,  &mt_family_gemma3,  &mt_family_phi3,
                                            &mt_family_smollm3};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

const char *mt_model_activations(const mt_weights *w, bool int8) {
  for (size_t i = 0; i < mt_weights_count(w); i++)
    if (mt_dtype_get(mt_weights_at(w, i)->type)->quantized) return int8 ? "int8" : "int16";
  return "f32";
}

const char *const *mt_model_families(void) {
  static const char *names[N_FAMILIES + 1];
  for (int i = 0; i < N_FAMILIES; i++) names[i] = families[i]->name;
  return names;
}

const mt_family *mt_family_by_name(const char *name) {
  for (int i = 0; i < N_FAMILIES; i++)
    if (!strcmp(families[i]->name, name)) return families[i];
  return NULL;
}

static const mt_family *family_of(const char *arch, bool gguf) {
  for (int i = 0; i < N_FAMILIES; i++)
    for (const char *const *a = gguf ? families[i]->gguf : families[i]->hf; a && *a; a++)
      if (!strcmp(*a, arch)) return families[i];
  return NULL;
}

static int read_hf(mt_model_config *cfg, const char *text, size_t len, mt_err *e) {
  mt_json *j = NULL;
  int rc = mt_json_parse(&j, text, len, "config.json", e);
  if (rc) return rc;
  const char *arch = mt_json_string(mt_json_at(mt_json_get(j, "architectures"), 0), NULL);
  const mt_family *f = arch ? family_of(arch, false) : NULL;
  if (!arch)
    rc = mt_err_set(e, MT_EFORMAT, "config.json: architectures is missing");
  else if (!f)
    rc = mt_err_set(e, MT_EUNSUPPORTED, "config.json: architecture %s is not supported", arch);
  if (!rc) {
    cfg->family = f->name;
    cfg->tied = f->tied;
    rc = common_hf(cfg, j, e);
  }
  cfg->attention_scale = 0;
  if (!rc && f->configure_hf) rc = f->configure_hf(cfg, j, e);
  if (!rc && !cfg->rope[0].theta)
    rc = mt_config_rope(cfg, 0, j, mt_json_get(j, "rope_parameters"), e);
  mt_json_free(j);
  return rc;
}

static int read_gguf(mt_model_config *cfg, const mt_weights *w, mt_err *e) {
  mt_bytes arch;
  if (!mt_gguf_string(w, "general.architecture", &arch))
    return mt_err_set(e, MT_EFORMAT, "%s: general.architecture is missing",
                      mt_weights_file_name(w, 0));
  const mt_family *f = family_of(arch.ptr, true);
  if (!f)
    return mt_err_set(e, MT_EUNSUPPORTED, "%s: architecture %s is not supported",
                      mt_weights_file_name(w, 0), arch.ptr);
  cfg->family = f->name;
  int rc = common_gguf(cfg, w, arch.ptr, e);
  if (!rc && f->configure_gguf) rc = f->configure_gguf(cfg, w, e);
  return rc;
}

/* 1/sqrt(n) in double, rounded once. */
float mt_config_inverse_sqrt(double n) {
  return (float)(1.0 / __builtin_sqrt(n));
}

int mt_model_config_read(mt_model_config *cfg, const mt_weights *w, const char *config_json,
                         size_t len, mt_err *e) {
  *cfg = (mt_model_config){.source = mt_weights_get_kind(w), .embedding_scale = 1};
  int rc =
      cfg->source == MT_WEIGHTS_GGUF ? read_gguf(cfg, w, e) : read_hf(cfg, config_json, len, e);
  if (!rc) rc = check_dims(cfg, e);
  if (!rc && !cfg->attention_scale) cfg->attention_scale = mt_config_inverse_sqrt(cfg->head_dim);
  if (!rc) rc = mt_slots_check(cfg, w, e);
  if (rc) mt_model_config_free(cfg);
  return rc;
}

void mt_model_config_free(mt_model_config *cfg) {
  free(cfg->layer);
  for (int r = 0; r < MT_MODEL_ROPES; r++) {
    free(cfg->rope[r].divisor_short);
    free(cfg->rope[r].divisor_long);
  }
  *cfg = (mt_model_config){0};
}

mt_shard_dims mt_model_shard_dims(const mt_model_config *cfg) {
  return (mt_shard_dims){cfg->n_heads, cfg->n_kv_heads, cfg->head_dim, cfg->ffn, cfg->vocab};
}

int mt_model_open(const char *path, mt_weights **w, mt_model_config *cfg, mt_err *e) {
  *cfg = (mt_model_config){0};
  mt_buf text = {0};
  int rc = mt_weights_open(w, path, e);
  if (rc) return rc;
  if (mt_weights_get_kind(*w) == MT_WEIGHTS_SAFETENSORS) {
    mt_buf name = {0};
    if (mt_buf_printf(&name, "%s/config.json", path))
      rc = mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
    if (!rc) rc = mt_buf_read_file(&text, name.data, CONFIG_MAX_BYTES, e);
    mt_buf_free(&name);
  }
  if (!rc) {
    rc = mt_model_config_read(cfg, *w, text.data ? text.data : "", text.len, e);
    if (rc) mt_err_prefix(e, rc, "%s", path);
  }
  mt_buf_free(&text);
  if (rc) {
    mt_weights_close(*w);
    *w = NULL;
  }
  return rc;
}
