/* inspect: what a model is, how it is cut over N ranks, what each rank will take. One process, no
 * ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "session.h"

enum { DEFAULT_CTX = 4096, DEFAULT_ROWS = 128 };

typedef struct inspection {
  const mt_opt *o;
  char *path;
  mt_weights *w;
  mt_model_config cfg;
  mt_model_options opt;
  mt_cpu *cpu;
  uint32_t n_ranks;
  uint64_t limit;          /* bytes that a rank may take */
  mt_model_memory *memory; /* [n_ranks] */
  mt_shard *shard;         /* [n_ranks] */
  uint64_t parameters;
  uint64_t by_type[MT_DTYPE_COUNT]; /* bytes */
} inspection;

static const uint32_t lengths[] = {2048, 4096, 8192, 16384, 32768, 65536, 131072};
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };

/* The ranks of a node follow each other; the first leads them. */
static bool leads(uint32_t rank, uint32_t n_ranks, int nodes) {
  bool first = false;
  for (int i = 0; i < nodes; i++) {
    size_t begin, end;
    mt_team_share(n_ranks, i, nodes, &begin, &end);
    first |= begin == rank;
  }
  return first;
}

static int look(inspection *x, mt_err *e) {
  x->n_ranks = mt_opt_is_set(x->o, "ranks") ? (uint32_t)mt_opt_int(x->o, "ranks") : 1;
  int rc = mt_opt_find_model(x->o, &x->path, e);
  if (!rc) rc = mt_cpu_open(&x->cpu, NULL, e);
  if (!rc) rc = mt_model_open(x->path, &x->w, &x->cfg, e);
  if (!rc) rc = mt_kernels_get(NULL, &x->opt.kernels, e);
  if (rc) return rc;
  x->opt.kv_type = mt_session_kv_type(x->o);
  x->opt.int8_activations = mt_session_int8(x->o);
  x->opt.kv_tokens = mt_opt_is_set(x->o, "ctx")     ? (size_t)mt_opt_int(x->o, "ctx")
                     : x->cfg.context < DEFAULT_CTX ? x->cfg.context
                                                    : DEFAULT_CTX;
  x->opt.max_seqs = 1;
  x->opt.max_rows = DEFAULT_ROWS;
  x->opt.groups = (int)mt_opt_int(x->o, "nodes");
  if (x->opt.groups > (int)x->n_ranks)
    return mt_err_set(e, MT_EINVAL, "--nodes %d: there are %u ranks", x->opt.groups, x->n_ranks);
  x->limit = mt_opt_is_set(x->o, "max-memory") ? mt_opt_u64(x->o, "max-memory")
                                               : mt_cpu_memory_available_bytes(x->cpu);
  x->memory = mt_calloc(x->n_ranks, sizeof *x->memory);
  x->shard = mt_calloc(x->n_ranks, sizeof *x->shard);
  if (!x->memory || !x->shard)
    return mt_err_set(e, MT_ENOMEM, "no memory for a plan of %u ranks", x->n_ranks);
  mt_shard_dims d = mt_model_shard_dims(&x->cfg);
  for (uint32_t r = 0; !rc && r < x->n_ranks; r++) {
    x->opt.leads = leads(r, x->n_ranks, x->opt.groups);
    rc = mt_model_predict(&x->cfg, x->w, x->n_ranks, r, &x->opt, &x->memory[r], e);
    if (!rc) rc = mt_shard_plan(&d, x->n_ranks, r, &x->shard[r], e);
  }
  for (size_t i = 0; !rc && i < mt_weights_count(x->w); i++) {
    const mt_tensor_info *t = mt_weights_at(x->w, i);
    uint64_t n;
    if (mt_shape_elems(&t->shape, &n)) x->parameters += n;
    x->by_type[t->type] += t->bytes;
  }
  return rc;
}

/* Sequences of `length` tokens for which every rank has memory. */
static uint64_t sequences(const inspection *x, uint32_t length) {
  uint64_t fewest = UINT64_MAX;
  for (uint32_t r = 0; r < x->n_ranks; r++) {
    const mt_model_memory *m = &x->memory[r];
    uint64_t rest = m->total - m->kv, each = m->kv_per_token * length;
    uint64_t n = !each ? UINT64_MAX : x->limit > rest ? (x->limit - rest) / each : 0;
    if (n < fewest) fewest = n;
  }
  return fewest;
}

static double mib(uint64_t n) {
  return (double)n / 1048576.0;
}

static const char *kv_name(mt_kv_type t) {
  static const char *const name[] = {[MT_KV_F16] = "f16", [MT_KV_F32] = "f32", [MT_KV_Q8] = "q8"};
  return name[t];
}

/* ---- for people -------------------------------------------------------------------------- */

static void print_model(const inspection *x) {
  const mt_model_config *c = &x->cfg;
  printf("%s\n", x->path);
  printf("family        %s, %s\n", c->family,
         c->source == MT_WEIGHTS_GGUF ? "GGUF" : "safetensors");
  printf("parameters    %.2f million in %zu tensors, %.1f MiB:", (double)x->parameters * 1e-6,
         mt_weights_count(x->w), mib(mt_weights_file_bytes(x->w)));
  for (int t = 0; t < MT_DTYPE_COUNT; t++)
    if (x->by_type[t]) printf(" %s %.1f MiB", mt_dtype_get((mt_dtype)t)->name, mib(x->by_type[t]));
  printf("\nlayers        %u, hidden %u, FFN %u\n", c->n_layers, c->hidden, c->ffn);
  printf("heads         %u of %u, %u KV heads\n", c->n_heads, c->head_dim, c->n_kv_heads);
  printf("vocabulary    %u%s\n", c->vocab, c->tied ? ", embedding and head are one tensor" : "");
  uint32_t sliding = 0, still = 0, window = 0;
  for (uint32_t i = 0; i < c->n_layers; i++) {
    sliding += c->layer[i].window != 0;
    still += c->layer[i].rope < 0;
    if (c->layer[i].window) window = c->layer[i].window;
  }
  printf("context       %u tokens", c->context);
  if (sliding) printf(", %u layers see %u", sliding, window);
  if (still) printf(", %u layers without rotation", still);
  printf("\nactivations   %s\n", mt_model_activations(x->w, x->opt.int8_activations));
}

static void print_ranks(const inspection *x) {
  printf("\ncut over %u rank%s, KV cache of %zu tokens in %s, MiB\n", x->n_ranks,
         x->n_ranks > 1 ? "s" : "", x->opt.kv_tokens, kv_name(x->opt.kv_type));
  printf("%5s %9s %8s %9s %13s %9s %9s %9s %9s\n", "rank", "heads", "KV", "FFN", "vocabulary",
         "weights", "KV cache", "buffers", "total");
  for (uint32_t r = 0; r < x->n_ranks; r++) {
    const mt_shard *s = &x->shard[r];
    const mt_model_memory *m = &x->memory[r];
    printf("%5u %4u-%-4u %3u-%-4u %9u %6u-%-6u %9.1f %9.1f %9.1f %9.1f\n", r, s->heads.begin,
           s->heads.end, s->kv_heads.begin, s->kv_heads.end, s->ffn.end - s->ffn.begin,
           s->vocab.begin, s->vocab.end, mib(m->weights + m->replicated), mib(m->kv),
           mib(m->buffers), mib(m->total));
  }
}

static void print_cache(const inspection *x) {
  const mt_model_config *c = &x->cfg;
  mt_kv_dims d = {c->n_layers, c->n_kv_heads, c->head_dim, x->opt.kv_type};
  printf("\nKV cache      2 × %u layers × %u KV heads × %u × %s = %zu bytes a token in all\n",
         c->n_layers, c->n_kv_heads, c->head_dim, kv_name(x->opt.kv_type),
         mt_kv_block_bytes(&d) / MT_KV_BLOCK);
  printf("sequences     in %.1f MiB a rank:", mib(x->limit));
  for (int i = 0; i < N_LENGTHS && lengths[i] <= c->context; i++)
    printf("  %uk %llu", lengths[i] / 1024, (unsigned long long)sequences(x, lengths[i]));
  if (c->context < lengths[0])
    printf("  %u tokens %llu", c->context, (unsigned long long)sequences(x, c->context));
  putchar('\n');
  uint64_t weights = 0;
  for (uint32_t r = 0; r < x->n_ranks; r++) weights += x->memory[r].weights;
  printf(
      "reading       %.1f MB of weights a token; 500 tokens take %.3f TB, %.3f TB on each rank\n",
      (double)weights * 1e-6, mt_model_bytes_read(weights, 500, 1) * 1e-12,
      mt_model_bytes_read(weights, 500, x->n_ranks) * 1e-12);
}

/* ---- for programs ------------------------------------------------------------------------ */

static mt_json *rank_json(const inspection *x, uint32_t r) {
  const mt_shard *s = &x->shard[r];
  const mt_model_memory *m = &x->memory[r];
  const struct {
    const char *key;
    uint64_t v;
  } field[] = {{"heads_begin", s->heads.begin},
               {"heads_end", s->heads.end},
               {"kv_heads_begin", s->kv_heads.begin},
               {"kv_heads_end", s->kv_heads.end},
               {"ffn_begin", s->ffn.begin},
               {"ffn_end", s->ffn.end},
               {"vocab_begin", s->vocab.begin},
               {"vocab_end", s->vocab.end},
               {"weight_bytes", m->weights},
               {"replicated_bytes", m->replicated},
               {"kv_bytes", m->kv},
               {"kv_bytes_per_token", m->kv_per_token},
               {"buffer_bytes", m->buffers},
               {"total_bytes", m->total}};
  mt_json *j = mt_json_new_object();
  for (size_t i = 0; j && i < sizeof field / sizeof field[0]; i++)
    if (mt_set_int(j, field[i].key, field[i].v)) {
      mt_json_free(j);
      return NULL;
    }
  return j;
}

static int print_json(const inspection *x, mt_err *e) {
  const mt_model_config *c = &x->cfg;
  mt_kv_dims d = {c->n_layers, c->n_kv_heads, c->head_dim, x->opt.kv_type};
  mt_json *j = mt_json_new_object(), *ranks = mt_json_new_array(), *fit = mt_json_new_object();
  int rc = j && ranks && fit ? MT_OK : MT_ENOMEM;
  for (uint32_t r = 0; !rc && r < x->n_ranks; r++) rc = mt_json_append(ranks, rank_json(x, r));
  for (int i = 0; !rc && i < N_LENGTHS && lengths[i] <= c->context; i++) {
    char key[16];
    uint64_t n = sequences(x, lengths[i]);
    snprintf(key, sizeof key, "%u", lengths[i]);
    rc = mt_set_int(fit, key, n > INT64_MAX ? INT64_MAX : n);
  }
  const struct {
    const char *key;
    uint64_t v;
  } field[] = {{"parameters", x->parameters},
               {"file_bytes", mt_weights_file_bytes(x->w)},
               {"layers", c->n_layers},
               {"hidden", c->hidden},
               {"heads", c->n_heads},
               {"kv_heads", c->n_kv_heads},
               {"head_dim", c->head_dim},
               {"ffn", c->ffn},
               {"vocab", c->vocab},
               {"context", c->context},
               {"kv_bytes_per_token", mt_kv_block_bytes(&d) / MT_KV_BLOCK}};
  const char *act = mt_model_activations(x->w, x->opt.int8_activations);
  if (!rc) rc = mt_json_set(j, "family", mt_json_new_string(c->family, strlen(c->family)));
  if (!rc) rc = mt_json_set(j, "activations", mt_json_new_string(act, strlen(act)));
  for (size_t i = 0; !rc && i < sizeof field / sizeof field[0]; i++)
    rc = mt_set_int(j, field[i].key, field[i].v);
  if (!rc) rc = mt_json_set(j, "ranks", ranks);
  if (!rc) rc = mt_json_set(j, "sequences_that_fit", fit);
  if (!rc) return mt_print_json(j, e);
  mt_json_free(j);
  return mt_err_set(e, rc, "no memory for JSON");
}

int mt_cmd_inspect(const mt_opt *o) {
  mt_err e = {0};
  inspection x = {.o = o};
  int rc = look(&x, &e);
  if (!rc && mt_opt_flag(o, "json")) {
    rc = print_json(&x, &e);
  } else if (!rc) {
    print_model(&x);
    print_ranks(&x);
    print_cache(&x);
  }
  if (rc) mt_log(MT_LOG_ERROR, "%s", e.msg);
  free(x.memory);
  free(x.shard);
  free(x.path);
  mt_model_config_free(&x.cfg);
  mt_weights_close(x.w);
  mt_cpu_close(x.cpu);
  return mt_err_exit_status(rc);
}
