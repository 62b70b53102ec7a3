/* model: one table per architecture family, sharded loading, the forward pass. Layer 4. Every rank
 * holds its share of heads, FFN units and vocabulary rows; norms and the residual rows are
 * replicated. */
#ifndef MUTIRAO_MODEL_H
#define MUTIRAO_MODEL_H

#include "mutirao/base.h"
#include "mutirao/comm.h"
#include "mutirao/cpu.h"
#include "mutirao/format.h"
#include "mutirao/json.h"
#include "mutirao/kernel.h"
#include "mutirao/kv.h"
#include "mutirao/reduce.h"
#include "mutirao/shard.h"

/* ---- what a model is --------------------------------------------------------------------- */

typedef enum mt_rope_kind {
  MT_ROPE_DEFAULT,
  MT_ROPE_LINEAR,   /* frequencies divided by factor */
  MT_ROPE_DYNAMIC,  /* NTK by length: base grows once the length passes the original context */
  MT_ROPE_LLAMA3,   /* Llama 3.1: long wavelengths divided, a smooth band between */
  MT_ROPE_YARN,     /* Peng et al., "YaRN", 2023 */
  MT_ROPE_LONGROPE, /* Ding et al., "LongRoPE", 2024: one divisor per frequency, short or long set
                       by length */
  MT_ROPE_DIVISORS  /* one divisor per frequency from the file (GGUF rope_freqs) */
} mt_rope_kind;

typedef struct mt_rope_params {
  mt_rope_kind kind;
  double theta;                             /* base */
  double factor;                            /* of the scaling; 1 where none */
  double original_context;                  /* tokens */
  double low_freq_factor, high_freq_factor; /* llama3 */
  double beta_fast, beta_slow;              /* yarn */
  double attention_factor;                  /* multiplies cos and sin; 0: computed from the kind */
  bool truncate;                            /* yarn: round the ramp's ends */
  float *divisor_short,
      *divisor_long; /* [rotary_dim/2], owned; longrope both, DIVISORS only the first */
} mt_rope_params;

typedef struct mt_layer_kind {
  uint32_t window; /* keys that a query sees, itself included; 0: all */
  int rope;        /* which of the config's ropes turns this layer's heads; −1: none (NoPE) */
} mt_layer_kind;

typedef enum mt_activation { MT_ACT_SILU, MT_ACT_GELU_TANH } mt_activation;

enum { MT_MODEL_ROPES = 2 };

typedef struct mt_model_config {
  const char *family; /* "llama", "qwen3", …; static */
  mt_weights_kind source;
  uint32_t n_layers, hidden, n_heads, n_kv_heads, head_dim, ffn, vocab;
  uint32_t context;      /* tokens that the model was made for */
  uint32_t rotary_dim;   /* leading dimensions of a head that turn; even */
  float eps;             /* of the norms */
  float attention_scale; /* of q·k */
  float embedding_scale; /* 1 where none */
  mt_activation activation;
  bool tied;       /* the head is the embedding */
  bool qk_norm;    /* RMSNorm on each head of q and k before rotation */
  bool post_norms; /* attention's and the FFN's sums are normalised before they are added (Gemma) */
  bool norm_plus_one;              /* the file stores w, the norm multiplies by 1 + w */
  bool bias_qkv, bias_o, bias_mlp; /* demanded by the configuration */
  bool fused_qkv, fused_gate_up;   /* stored as one tensor, rows q, k, v or gate, up */
  bool permuted_qk; /* GGUF llama: rows of q and k in each head are interleaved; undone at load */
  mt_rope_params rope[MT_MODEL_ROPES];
  int n_ropes;
  mt_layer_kind *layer; /* [n_layers], owned */
} mt_model_config;

/* Opens the weights at `path` (GGUF file or directory) and derives the configuration: which family
 * it is, and that the file holds exactly the tensors that this family needs, in the right shapes.
 * What is not supported is refused by name. The caller closes and frees both. Not collective; reads
 * headers and config.json only. */
int mt_model_open(const char *path, mt_weights **w, mt_model_config *cfg, mt_err *e);
/* The same from parts: config_json is the text of config.json (NULL for GGUF). */
int mt_model_config_read(mt_model_config *cfg, const mt_weights *w, const char *config_json,
                         size_t len, mt_err *e);
void mt_model_config_free(mt_model_config *cfg);
/* Names of the families, NULL-terminated. */
const char *const *mt_model_families(void);
/* Frequencies of rope `r` for a request of planned_tokens tokens (prompt and output together; only
 * DYNAMIC and LONGROPE depend on it): inv_freq [rotary_dim/2]; *attention_factor multiplies cos and
 * sin. */
void mt_model_rope_frequencies(const mt_model_config *cfg, int r, uint32_t planned_tokens,
                               float *inv_freq, float *attention_factor);
/* True if the frequencies depend on the planned length. */
bool mt_model_rope_depends_on_length(const mt_model_config *cfg);
mt_shard_dims mt_model_shard_dims(const mt_model_config *cfg);

/* "f32" where no tensor is quantized, else "int16" or "int8". */
const char *mt_model_activations(const mt_weights *w, bool int8);

/* ---- memory ------------------------------------------------------------------------------ */

typedef struct mt_model_options {
  const mt_kernels *kernels;
  mt_kv_type kv_type;
  bool int8_activations;     /* what mt_act.int8 says; 16 bits otherwise */
  size_t kv_tokens;          /* room of the cache, all sequences together */
  size_t max_seqs;           /* sequences at a time */
  size_t max_rows;           /* rows of a step */
  uint64_t max_memory_bytes; /* of this rank; 0: what the machine has to give, shared by the node's
                                ranks */
  const char *pack_cache; /* directory where this rank's packed weights are kept; NULL: nowhere */
  /* Told, while weights are loaded, how many bytes of this rank's part of the file are packed; from
   * any thread of the team, one at a time. NULL: nobody. */
  void (*progress)(void *arg, uint64_t done_bytes, uint64_t total_bytes);
  void *progress_arg;
  mt_reduce_inside reduce_inside; /* of sums over ranks; the bits are the same for each */
  mt_reduce_between reduce_between;
  /* For mt_model_predict; mt_model_load asks its communicator. */
  int groups; /* of ranks that share memory (nodes); 0 or 1: all do */
  bool leads; /* of several, the rank leads its group, and holds what the others send */
} mt_model_options;

typedef struct mt_model_memory {
  uint64_t weights, replicated, kv, buffers,
      total;             /* bytes of one rank; buffers: of a step, or of loading if larger */
  uint64_t kv_per_token; /* bytes of this rank's cache for one token */
} mt_model_memory;
/* What rank `rank` of `n_ranks` will take. Pure arithmetic. */
int mt_model_predict(const mt_model_config *cfg, const mt_weights *w, uint32_t n_ranks,
                     uint32_t rank, const mt_model_options *opt, mt_model_memory *out, mt_err *e);

/* Bytes that a rank of n_ranks reads in `passes` passes through weights of weight_bytes in all: 7e9
 * parameters of two bytes, 500 passes: 7e12, divided by n_ranks. */
double mt_model_bytes_read(uint64_t weight_bytes, uint64_t passes, uint32_t n_ranks);

/* ---- the loaded model -------------------------------------------------------------------- */

typedef struct mt_model mt_model;

/* Loads this rank's slices of the model at `path` (only rank 0's path and options decide). Every
 * rank reads its rows of column-parallel tensors and a stripe of the row-parallel ones, which are
 * then exchanged; rank 0 reads the headers and the replicated tensors for all. Refuses (MT_ENOMEM,
 * with both numbers and the largest cache that fits) before it reads weights where a rank would
 * exceed its memory. On failure every rank returns the same code. Collective. */
int mt_model_load(mt_model **out, mt_comm *c, mt_team *team, const char *path,
                  const mt_model_options *opt, mt_err *e);
void mt_model_free(mt_model *m); /* collective */
const mt_model_config *mt_model_get_config(const mt_model *m);
const mt_model_options *mt_model_get_options(const mt_model *m);
const mt_weights *mt_model_get_weights(const mt_model *m); /* headers only are read from it */
mt_comm *mt_model_get_comm(const mt_model *m);
mt_kv *mt_model_get_kv(const mt_model *m);

/* One row of a step: a token of a sequence. */
typedef struct mt_row {
  uint32_t token, position, seq;
  uint32_t
      planned; /* tokens that the sequence's request plans in all, for ropes that depend on it */
  bool want_logits;
} mt_row;

/* Receives logits [vocab] of rows[row], ascending in row; on rank 0 only. Non-zero stops nothing
 * but is returned. */
typedef int (*mt_logits_fn)(void *arg, size_t row, const float *logits);

/* Computes n_rows rows (at most max_rows): their K and V enter the cache, then every row attends to
 * the keys of its sequence up to its own position. Rows of a sequence stand in ascending position,
 * gapless after what is cached; the cache has been grown for them (mt_kv_grow). MT_ENUMERIC names
 * layer and rank. Collective, with equal rows. */
int mt_model_forward(mt_model *m, const mt_row *rows, size_t n_rows, mt_logits_fn sink, void *arg,
                     mt_err *e);

/* ---- where the time goes ----------------------------------------------------------------- */

typedef struct mt_model_stats { /* sums since mt_model_reset_stats, of one rank */
  uint64_t steps, rows;
  uint64_t tiled_steps; /* of these, cut in two tiles whose sums travel between nodes meanwhile */
  uint64_t embed_ns, attention_ns, ffn_ns, head_ns; /* collectives included */
  uint64_t collective_ns;                           /* of these, inside collectives */
  uint64_t weight_bytes, kv_bytes;                  /* read */
  uint64_t net_bytes;                               /* sent and received */
} mt_model_stats;
mt_model_stats mt_model_get_stats(const mt_model *m);
void mt_model_reset_stats(mt_model *m);
/* Bytes of packed weights that one step reads on this rank (the embedding counts only where it is
 * the head too). */
uint64_t mt_model_weight_bytes(const mt_model *m);
uint64_t mt_model_file_bytes_read(const mt_model *m); /* at load, by this rank */

/* Attention probe: while `on`, the last row of each step leaves its attention weights behind.
 * mt_model_attention then gathers, on rank 0, weight [n_layers][n_heads][n_keys] (positions 0 …
 * n_keys − 1; 0 where not seen). MT_ENOMEM is agreed upon, and leaves the probe off on all ranks.
 * Collective. */
int mt_model_probe_attention(mt_model *m, bool on, mt_err *e);
int mt_model_attention(mt_model *m, size_t n_keys, float *weight, mt_err *e);

#endif
