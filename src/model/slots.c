/* Which tensors a model has: their names in Hugging Face and GGUF files, their shapes, and the
 * check that a file holds exactly these. A tensor that nothing here uses is refused, since leaving
 * it out would run another model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

static const struct {
  const char *hf, *gguf;
} names[SLOT_COUNT] = {
    [SLOT_EMBED] = {"model.embed_tokens.weight", "token_embd.weight"},
    [SLOT_FINAL_NORM] = {"model.norm.weight", "output_norm.weight"},
    [SLOT_HEAD] = {"lm_head.weight", "output.weight"},
    [SLOT_ATTN_NORM] = {"model.layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight"},
    [SLOT_Q] = {"model.layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight"},
    [SLOT_K] = {"model.layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight"},
    [SLOT_V] = {"model.layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight"},
    [SLOT_QKV] = {"model.layers.%u.self_attn.qkv_proj.weight", "blk.%u.attn_qkv.weight"},
    [SLOT_O] = {"model.layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight"},
    [SLOT_Q_BIAS] = {"model.layers.%u.self_attn.q_proj.bias", "blk.%u.attn_q.bias"},
    [SLOT_K_BIAS] = {"model.layers.%u.self_attn.k_proj.bias", "blk.%u.attn_k.bias"},
    [SLOT_V_BIAS] = {"model.layers.%u.self_attn.v_proj.bias", "blk.%u.attn_v.bias"},
    [SLOT_O_BIAS] = {"model.layers.%u.self_attn.o_proj.bias", "blk.%u.attn_output.bias"},
    [SLOT_Q_NORM] = {"model.layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight"},
    [SLOT_K_NORM] = {"model.layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight"},
    [SLOT_POST_ATTN_NORM] = {"", "blk.%u.post_attention_norm.weight"},
    [SLOT_FFN_NORM] = {"model.layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight"},
    [SLOT_GATE] = {"model.layers.%u.mlp.gate_proj.weight", "blk.%u.ffn_gate.weight"},
    [SLOT_UP] = {"model.layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight"},
    [SLOT_GATE_UP] = {"model.layers.%u.mlp.gate_up_proj.weight", "blk.%u.ffn_up.weight"},
    [SLOT_DOWN] = {"model.layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight"},
    [SLOT_GATE_BIAS] = {"model.layers.%u.mlp.gate_proj.bias", "blk.%u.ffn_gate.bias"},
    [SLOT_UP_BIAS] = {"model.layers.%u.mlp.up_proj.bias", "blk.%u.ffn_up.bias"},
    [SLOT_DOWN_BIAS] = {"model.layers.%u.mlp.down_proj.bias", "blk.%u.ffn_down.bias"},
    [SLOT_POST_FFN_NORM] = {"", "blk.%u.post_ffw_norm.weight"},
};

/* Is this slot part of the model at all; a bias may also be there without being demanded. */
typedef enum { ABSENT, OPTIONAL, NEEDED } need;

static need slot_need(const mt_model_config *c, mt_slot s) {
  switch (s) {
    case SLOT_HEAD:
      return c->tied ? OPTIONAL : NEEDED; /* a tied model's copy of the embedding is passed over */
    case SLOT_Q:
    case SLOT_K:
    case SLOT_V: return c->fused_qkv ? ABSENT : NEEDED;
    case SLOT_QKV: return c->fused_qkv ? NEEDED : ABSENT;
    case SLOT_GATE:
    case SLOT_UP: return c->fused_gate_up ? ABSENT : NEEDED;
    case SLOT_GATE_UP: return c->fused_gate_up ? NEEDED : ABSENT;
    case SLOT_Q_BIAS:
    case SLOT_K_BIAS:
    case SLOT_V_BIAS: return c->fused_qkv ? ABSENT : c->bias_qkv ? NEEDED : OPTIONAL;
    case SLOT_O_BIAS: return c->bias_o ? NEEDED : OPTIONAL;
    case SLOT_GATE_BIAS:
    case SLOT_UP_BIAS: return c->fused_gate_up ? ABSENT : c->bias_mlp ? NEEDED : OPTIONAL;
    case SLOT_DOWN_BIAS: return c->bias_mlp ? NEEDED : OPTIONAL;
    case SLOT_Q_NORM:
    case SLOT_K_NORM: return c->qk_norm ? NEEDED : ABSENT;
    case SLOT_POST_ATTN_NORM:
    case SLOT_POST_FFN_NORM: return c->post_norms ? NEEDED : ABSENT;
    default: return NEEDED;
  }
}

/* Shape [rows, cols]; cols 0 for a vector. */
static void slot_shape(const mt_model_config *c, mt_slot s, uint64_t *rows, uint64_t *cols) {
  uint64_t q = (uint64_t)c->n_heads * c->head_dim, kv = (uint64_t)c->n_kv_heads * c->head_dim;
  *cols = 0;
  switch (s) {
    case SLOT_EMBED:
    case SLOT_HEAD: *rows = c->vocab, *cols = c->hidden; break;
    case SLOT_Q: *rows = q, *cols = c->hidden; break;
    case SLOT_K:
    case SLOT_V: *rows = kv, *cols = c->hidden; break;
    case SLOT_QKV: *rows = q + 2 * kv, *cols = c->hidden; break;
    case SLOT_O: *rows = c->hidden, *cols = q; break;
    case SLOT_GATE:
    case SLOT_UP: *rows = c->ffn, *cols = c->hidden; break;
    case SLOT_GATE_UP: *rows = 2 * (uint64_t)c->ffn, *cols = c->hidden; break;
    case SLOT_DOWN: *rows = c->hidden, *cols = c->ffn; break;
    case SLOT_Q_BIAS: *rows = q; break;
    case SLOT_K_BIAS:
    case SLOT_V_BIAS: *rows = kv; break;
    case SLOT_Q_NORM:
    case SLOT_K_NORM: *rows = c->head_dim; break;
    case SLOT_GATE_BIAS:
    case SLOT_UP_BIAS: *rows = c->ffn; break;
    default: *rows = c->hidden; break;
  }
}

static void slot_name(const mt_model_config *c, mt_slot s, uint32_t layer, char out[160]) {
  const char *fmt = names[s].gguf;
  if (c->source == MT_WEIGHTS_SAFETENSORS) {
    const mt_family *f = mt_family_by_name(c->family);
    fmt = f && f->hf_names && f->hf_names[s] ? f->hf_names[s] : names[s].hf;
  }
  const char *mark = strstr(fmt, "%u");
  if (mark)
    snprintf(out, 160, "%.*s%u%s", (int)(mark - fmt), fmt, layer, mark + 2);
  else
    snprintf(out, 160, "%s", fmt);
}

const mt_tensor_info *mt_slot_find(const mt_model_config *cfg, const mt_weights *w, mt_slot slot,
                                   uint32_t layer) {
  if (slot_need(cfg, slot) == ABSENT) return NULL;
  char name[160];
  slot_name(cfg, slot, layer, name);
  return name[0] ? mt_weights_find(w, name) : NULL;
}

static int check_slot(const mt_model_config *cfg, const mt_weights *w, mt_slot s, uint32_t layer,
                      mt_err *e) {
  need n = slot_need(cfg, s);
  if (n == ABSENT) return MT_OK;
  char name[160];
  slot_name(cfg, s, layer, name);
  const mt_tensor_info *t = name[0] ? mt_weights_find(w, name) : NULL;
  if (!t) return n == NEEDED ? mt_err_set(e, MT_EFORMAT, "tensor %s is missing", name) : MT_OK;
  const mt_dtype_info *type = mt_dtype_get(t->type);
  if (!type->weight)
    return mt_err_set(e, MT_EUNSUPPORTED, "tensor %s is of type %s, which no kernel multiplies",
                      name, type->name);
  uint64_t rows, cols;
  slot_shape(cfg, s, &rows, &cols);
  if (!cols && type->quantized)
    return mt_err_set(e, MT_EUNSUPPORTED, "vector %s is of type %s; F32, F16 or BF16 is needed",
                      name, type->name);
  bool fits = cols ? t->shape.n == 2 && t->shape.dim[0] == rows && t->shape.dim[1] == cols
                   : t->shape.n == 1 && t->shape.dim[0] == rows;
  if (fits) return MT_OK;
  char is[80] = "";
  for (int i = 0; i < t->shape.n; i++)
    snprintf(is + strlen(is), sizeof is - strlen(is), "%s%llu", i ? ", " : "",
             (unsigned long long)t->shape.dim[i]);
  char *fmt_cols = (char[32]){0};
  if (cols) snprintf(fmt_cols, 32, ", %llu", (unsigned long long)cols);
  return mt_err_set(e, MT_EFORMAT, "tensor %s has shape [%s], the configuration wants [%llu%s]",
                    name, is, (unsigned long long)rows, fmt_cols);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Tensors that carry nothing that we would compute with. */
static bool ignorable(const char *name) {
  static const char *const whole[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                      "rope_factors_short.weight"};
  for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
    if (!strcmp(name, whole[i])) return true;
  return strstr(name, "rotary_emb.inv_freq") != NULL;
}

/* Every tensor of the file must be one that some slot names. */
static int check_leftovers(const mt_model_config *cfg, const mt_weights *w, mt_err *e) {
  size_t n = 0, cap = 3 + (size_t)cfg->n_layers * (SLOT_COUNT - SLOT_ATTN_NORM);
  const char **used = mt_malloc(cap, sizeof *used);
  if (!used) return mt_err_set(e, MT_ENOMEM, "no memory for %zu tensor names", cap);
  for (uint32_t l = 0; l < cfg->n_layers; l++)
    for (int s = l ? SLOT_ATTN_NORM : 0; s < SLOT_COUNT; s++) {
      const mt_tensor_info *t = mt_slot_find(cfg, w, (mt_slot)s, l);
      if (t) used[n++] = t->name;
    }
  qsort(used, n, sizeof *used, compare_names);
  int rc = MT_OK;
  for (size_t i = 0; !rc && i < mt_weights_count(w); i++) {
    const char *name = mt_weights_at(w, i)->name;
    if (!bsearch(&name, used, n, sizeof *used, compare_names) && !ignorable(name))
      rc = mt_err_set(e, MT_EUNSUPPORTED, "tensor %s has no place in a %s model of %u layers", name,
                      cfg->family, cfg->n_layers);
  }
  free(used);
  return rc;
}

int mt_slots_check(const mt_model_config *cfg, const mt_weights *w, mt_err *e) {
  int rc = MT_OK;
  for (uint32_t l = 0; !rc && l < cfg->n_layers; l++)
    for (int s = l ? SLOT_ATTN_NORM : 0; !rc && s < SLOT_COUNT; s++)
      rc = check_slot(cfg, w, (mt_slot)s, l, e);
  return rc ? rc : check_leftovers(cfg, w, e);
}
