/* Shared inside module model: families, tensor slots, the loaded model. */
#ifndef MT_MODEL_IMPL_H
#define MT_MODEL_IMPL_H

#include "mutirao/model.h"
#include "mutirao/reduce.h"

/* Every tensor that a family may have. The first three stand once, the others in each layer. */
typedef enum mt_slot {
  SLOT_EMBED,
  SLOT_FINAL_NORM,
  SLOT_HEAD,
  SLOT_ATTN_NORM,
  SLOT_Q,
  SLOT_K,
  SLOT_V,
  SLOT_QKV,
  SLOT_O,
  SLOT_Q_BIAS,
  SLOT_K_BIAS,
  SLOT_V_BIAS,
  SLOT_O_BIAS,
  SLOT_Q_NORM,
  SLOT_K_NORM,
  SLOT_POST_ATTN_NORM,
  SLOT_FFN_NORM,
  SLOT_GATE,
  SLOT_UP,
  SLOT_GATE_UP,
  SLOT_DOWN,
  SLOT_GATE_BIAS,
  SLOT_UP_BIAS,
  SLOT_DOWN_BIAS,
  SLOT_POST_FFN_NORM,
  SLOT_COUNT
} mt_slot;

/* One architecture family: a file of its own in this directory, listed in families.c. */
typedef struct mt_family {
  const char *name;
  const char *const *hf;   /* values of config.json "architectures", NULL-terminated */
  const char *const *gguf; /* values of general.architecture */
  /* Names that differ from the usual Hugging Face ones: [SLOT_COUNT], NULL entries keep the usual;
   * or NULL. */
  const char *const *hf_names;
  bool tied; /* what an absent tie_word_embeddings means: config.json leaves defaults out */
  /* Fills what is the family's own, after the common keys were read. Each may be NULL. */
  int (*configure_hf)(mt_model_config *cfg, const mt_json *j, mt_err *e);
  int (*configure_gguf)(mt_model_config *cfg, const mt_weights *w, mt_err *e);
} mt_family;

extern const mt_family mt_family_llama, mt_family_mistral, mt_family_qwen2, mt_family_qwen3,
    mt_family_gemma3, mt_family_phi3, mt_family_smollm3;
const mt_family *mt_family_by_name(const char *name);

/* Helpers for families (config.c, config_rope.c). */
int mt_config_u32(const mt_json *j, const char *key, uint32_t *out, bool required, mt_err *e);
int mt_config_bool(const mt_json *j, const char *key, bool *out, mt_err *e);
int mt_config_number(const mt_json *j, const char *key, double *out, mt_err *e);
/* 1/sqrt(n) in double, rounded once. */
float mt_config_inverse_sqrt(double n);
void mt_config_window_all(mt_model_config *cfg, uint32_t window);
/* layer_types ("full_attention", "sliding_attention") where present; *found says whether. */
int mt_config_layer_types(mt_model_config *cfg, const mt_json *j, uint32_t window, bool *found,
                          mt_err *e);
/* use_sliding_window, sliding_window, max_window_layers, layer_types as Qwen 2 and 3 and SmolLM3
 * mean them. */
int mt_config_optional_window(mt_model_config *cfg, const mt_json *j, mt_err *e);
/* Rope of config.json: the spelling of transformers 4 or 5. `params` is rope_parameters or one
 * entry of it (NULL: rope_theta and rope_scaling of j). */
int mt_config_rope(mt_model_config *cfg, int r, const mt_json *j, const mt_json *params, mt_err *e);
int mt_config_rope_gguf(mt_model_config *cfg, const mt_weights *w, const char *arch, mt_err *e);
int mt_gguf_key_u32(const mt_weights *w, const char *arch, const char *key, uint32_t *out,
                    bool required, mt_err *e);

/* Tensors by slot (slots.c). NULL where the file has none. */
const mt_tensor_info *mt_slot_find(const mt_model_config *cfg, const mt_weights *w, mt_slot slot,
                                   uint32_t layer);
/* That every needed tensor is there in the right shape, and that no tensor is left over. */
int mt_slots_check(const mt_model_config *cfg, const mt_weights *w, mt_err *e);

/* ---- one rank's slice -------------------------------------------------------------------- */

typedef struct mt_layer {
  float *attn_norm, *ffn_norm;           /* [hidden], replicated */
  float *post_attn_norm, *post_ffn_norm; /* [hidden] or NULL */
  float *q_norm, *k_norm;                /* [head_dim] or NULL */
  float *q_bias, *k_bias, *v_bias;       /* this rank's rows, or NULL */
  float *o_bias, *down_bias;  /* [hidden], replicated, added once after the sum; or NULL */
  float *gate_bias, *up_bias; /* this rank's columns, or NULL */
  mt_matrix q, k, v;          /* [heads·head_dim][hidden], column-parallel */
  mt_matrix o;                /* [hidden][heads·head_dim], row-parallel, a unit per head */
  mt_matrix gate, up;         /* [ffn columns][hidden] */
  mt_matrix down;             /* [hidden][ffn columns], a unit per run of columns */
} mt_layer;

enum { MT_LAYER_MATRICES = 7 };
mt_matrix *mt_layer_matrix(mt_layer *l, int i); /* q, k, v, o, gate, up, down */

/* Where a matrix comes from: rows of which tensor. */
typedef struct mt_source {
  mt_slot slot;
  uint64_t row_begin; /* of the tensor, for the whole model's part (fused tensors: where q, k, v,
                         gate or up starts) */
  uint32_t permute;   /* head_dim where rows of each head are interleaved, else 0 */
} mt_source;

typedef struct mt_buffers mt_buffers; /* forward.c */

struct mt_model {
  mt_model_config cfg;
  mt_model_options opt;
  mt_comm *comm;
  mt_team *team;
  const mt_kernels *kn;
  mt_shard_dims dims;
  mt_shard shard;
  mt_weights *weights;
  mt_matrix embed, head; /* this rank's vocabulary rows; head unused where tied */
  float *final_norm;
  mt_layer *layer; /* [n_layers] */
  void *data;      /* all packed weights, one mapping */
  size_t data_bytes;
  float *vectors; /* norms and biases of all layers, one block */
  mt_kv *kv;
  mt_reduce *reduce;
  mt_buffers *buf;
  mt_model_stats stats;
};

/* Layout of every matrix of this rank (mt_matrix_init), data pointers unset. plan.c */
int mt_plan_layer(const mt_model_config *cfg, const mt_weights *w, const mt_shard *s,
                  const mt_kernels *kn, uint32_t layer, mt_layer *out, mt_err *e);
int mt_plan_vocab(const mt_model_config *cfg, const mt_weights *w, const mt_shard *s,
                  const mt_kernels *kn, mt_matrix *embed, mt_matrix *head, mt_err *e);
void mt_plan_layer_fini(mt_layer *l);
mt_source mt_plan_source(const mt_model_config *cfg, int matrix);
/* Floats of the replicated and per-rank vectors. */
size_t mt_plan_small_floats(const mt_model_config *cfg, const mt_weights *w, const mt_shard *s);

int mt_load_weights(mt_model *m, mt_err *e); /* collective; load.c */
/* File bytes that loading holds at a time besides the packed slices: the stages of all threads
 * (more where 16 rows a thread are more), and a round of row-parallel tensors, twice. */
enum { MT_LOAD_STAGE_BYTES = 4 << 20, MT_LOAD_ROUND_BYTES = 2 << 20 };

/* The next multiple of 64 bytes: areas begin on cache lines. */
size_t mt_round64(size_t n);
size_t mt_buffers_bytes(const mt_model_config *cfg, const mt_shard *s, const mt_model_options *opt,
                        uint32_t n_ranks, bool is_root);
int mt_buffers_new(mt_model *m, mt_err *e);
void mt_buffers_free(mt_model *m);

#endif
