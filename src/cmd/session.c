/* Ranks, machine, threads, kernels, model: opened in this order on every rank, closed in the other.
 */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutirao/wire.h"
#include "progress.h"

static int open_team(mt_session *s, mt_err *e) {
  int rc = mt_cpu_open(&s->cpu, NULL, e);
  if (rc) return rc;
  int local = mt_comm_local_rank(s->comm), locals = mt_comm_local_size(s->comm);
  int n = mt_opt_is_set(s->opt, "threads") ? mt_opt_int(s->opt, "threads")
                                           : mt_cpu_default_threads(s->cpu, local, locals);
  int *core = mt_malloc((size_t)n, sizeof *core);
  if (!core) return mt_err_set(e, MT_ENOMEM, "no memory for %d threads", n);
  int shared = mt_cpu_plan(s->cpu, local, locals, n, core);
  bool crowded = shared > 0 || mt_cpu_quota_cores(s->cpu) < n * locals;
  mt_comm_set_oversubscribed(s->comm, crowded);
  rc = mt_team_new(&s->team, s->cpu, n, crowded ? NULL : core, crowded, e);
  free(core);
  if (!rc && crowded)
    mt_log(MT_LOG_INFO, "%d ranks of %d threads share %d cores here: waiting threads yield", locals,
           n, mt_cpu_quota_cores(s->cpu));
  s->memory_limit = mt_opt_is_set(s->opt, "max-memory")
                        ? mt_opt_u64(s->opt, "max-memory")
                        : mt_cpu_memory_available_bytes(s->cpu) / (uint64_t)locals;
  return rc;
}

/* Core types are a host's: the first rank of each speaks. */
static void warn_openblas(const mt_session *s) {
  mt_blas_core core;
  if (s->root)
    mt_log(MT_LOG_WARN,
           "--backend openblas: the last bits may differ between rank counts and machines");
  if (mt_comm_local_rank(s->comm) == 0 && !mt_kernels_judge_openblas(&core))
    mt_log(
        MT_LOG_WARN,
        "OpenBLAS takes this CPU for '%s': %.0f GFLOP/s of %.0f; set OPENBLAS_CORETYPE=%s in the "
        "environment",
        core.name, core.sgemm_per_s * 1e-9, core.fma_per_s * 1e-9, core.better);
}

static int open_kernels(mt_session *s, mt_err *e) {
  bool blas = !strcmp(mt_opt_string(s->opt, "backend"), "openblas");
  int rc = mt_kernels_get(mt_opt_string(s->opt, "isa"), &s->kn, e);
  if (!rc && blas) rc = mt_kernels_openblas(s->kn, &s->kn, e);
  mt_kernels_set_cache(mt_cpu_cache_bytes(s->cpu, 2));
  if (!rc && blas) warn_openblas(s);
  if (!rc) mt_log(MT_LOG_INFO, "kernels %s, %d threads", s->kn->isa, mt_team_size(s->team));
  return rc;
}

/* Command and options as a hash; what may differ from machine to machine is left out. */
static uint64_t hash_request(const mt_opt *o) {
  static const char *const local[] = {"threads", "max-memory", "isa",       "ranks",
                                      "verbose", "quiet",      "pack-cache"};
  int command = (int)mt_opt_get_command(o);
  uint64_t h = mt_hash64(MT_HASH_INIT, &command, sizeof command);
  const mt_opt_row *row;
  const char *text;
  for (size_t i = 0; mt_opt_get_given(o, i, &row, &text); i++) {
    bool skip = false;
    for (size_t k = 0; k < sizeof local / sizeof local[0]; k++)
      skip |= !strcmp(row->name, local[k]);
    if (skip) continue;
    h = mt_hash64(h, row->name, strlen(row->name) + 1);
    if (text) h = mt_hash64(h, text, strlen(text) + 1);
  }
  return h;
}

/* Every rank compares itself with rank 0: program, request, bits of the kernels (case D10).
 * Collective. */
static int shake_hands(mt_session *s, mt_err *e) {
  if (mt_comm_size(s->comm) == 1) return MT_OK;
  mt_hello first, mine = {.kernel_hash = mt_kernels_self_test(s->kn),
                          .config_hash = hash_request(s->opt),
                          .threads = (uint32_t)mt_team_size(s->team)};
  snprintf(mine.program, sizeof mine.program, "%s", MT_VERSION);
  snprintf(mine.isa, sizeof mine.isa, "%s", s->kn->isa);
  mt_buf packed = {0};
  int rc = s->root ? mt_wire_pack_hello(&mine, &packed, e) : MT_OK;
  rc = mt_comm_agree(s->comm, rc, e);
  if (!rc) rc = mt_comm_bcast_buf(s->comm, &packed, 0, e);
  if (!rc) {
    rc = mt_wire_unpack_hello(packed.data, packed.len, &first, e);
    if (!rc) rc = mt_wire_compare_hello(&mine, &first, 0, e);
    rc = mt_comm_agree(s->comm, rc, e);
  }
  mt_buf_free(&packed);
  return rc;
}

int mt_session_open(mt_session *s, const mt_opt *o, mt_err *e) {
  *s = (mt_session){.opt = o};
  int rc = mt_comm_open(&s->comm, e);
  if (rc) return rc;
  s->root = mt_comm_rank(s->comm) == 0;
  if (!s->root) mt_log_set_rank(mt_comm_rank(s->comm)); /* rank 0 speaks for the program */
  rc = open_team(s, e);
  if (!rc) rc = open_kernels(s, e);
  if (!rc && s->root) rc = mt_opt_find_model(o, &s->path, e);
  rc = mt_comm_agree(s->comm, rc, e);
  return rc ? rc : shake_hands(s, e);
}

/* No request is longer than the model's context: what is asked for beyond it is refused when it is
 * submitted, with both counts, not here for want of memory. */
static size_t bounded_room(const mt_session *s, mt_room room, mt_err *e) {
  mt_weights *w = NULL;
  mt_model_config cfg;
  if (mt_model_open(s->path, &w, &cfg, e)) return room.tokens; /* loading will say why */
  size_t most = room.seqs * mt_kv_blocks_for(cfg.context) * MT_KV_BLOCK;
  mt_model_config_free(&cfg);
  mt_weights_close(w);
  return room.tokens < most ? room.tokens : most;
}

/* The largest cache, in tokens, with which every rank stays below rank 0's limit; at least one
 * block. */
static size_t largest_room(const mt_session *s, mt_model_options *opt, mt_err *e) {
  mt_weights *w = NULL;
  mt_model_config cfg;
  if (mt_model_open(s->path, &w, &cfg, e)) return MT_KV_BLOCK; /* loading will say why */
  uint64_t tokens = cfg.context;
  opt->kv_tokens = 0;
  opt->groups = mt_comm_groups(s->comm);
  opt->leads = true; /* any rank may */
  for (int r = 0; r < mt_comm_size(s->comm); r++) {
    mt_model_memory p;
    if (mt_model_predict(&cfg, w, (uint32_t)mt_comm_size(s->comm), (uint32_t)r, opt, &p, e)) break;
    uint64_t left = s->memory_limit > p.total ? s->memory_limit - p.total : 0;
    if (p.kv_per_token && left / p.kv_per_token < tokens) tokens = left / p.kv_per_token;
  }
  mt_model_config_free(&cfg);
  mt_weights_close(w);
  tokens = tokens / MT_KV_BLOCK * MT_KV_BLOCK;
  return tokens ? (size_t)tokens : MT_KV_BLOCK;
}

mt_kv_type mt_session_kv_type(const mt_opt *o) {
  const char *kv = mt_opt_string(o, "kv-type");
  return !strcmp(kv, "f32") ? MT_KV_F32 : !strcmp(kv, "q8") ? MT_KV_Q8 : MT_KV_F16;
}

bool mt_session_int8(const mt_opt *o) {
  return !strcmp(mt_opt_string(o, "activations"), "int8");
}

mt_reduce_options mt_session_reduce(const mt_session *s) {
  const char *inside = mt_opt_string(s->opt, "reduce-inside"),
             *between = mt_opt_string(s->opt, "reduce-between");
  mt_reduce_options o = {.team = s->team, .kernels = s->kn};
  if (!strcmp(inside, "one-phase")) o.inside = MT_INSIDE_ONE_PHASE;
  if (!strcmp(inside, "two-phase")) o.inside = MT_INSIDE_TWO_PHASE;
  if (!strcmp(between, "doubling")) o.between = MT_BETWEEN_DOUBLING;
  if (!strcmp(between, "scatter")) o.between = MT_BETWEEN_SCATTER;
  return o;
}

int mt_session_load(mt_session *s, int rc, mt_room room, mt_err *e) {
  rc = mt_comm_agree(s->comm, rc, e);
  if (rc) return rc;
  size_t chunk = mt_opt_is_set(s->opt, "chunk") ? (size_t)mt_opt_int(s->opt, "chunk") : room.chunk;
  if (!chunk) chunk = MT_SESSION_CHUNK;
  mt_model_options opt = {.kernels = s->kn,
                          .kv_type = mt_session_kv_type(s->opt),
                          .int8_activations = mt_session_int8(s->opt),
                          .kv_tokens = room.tokens,
                          .max_seqs = room.seqs,
                          .max_rows = chunk > room.seqs ? chunk : room.seqs,
                          .max_memory_bytes = s->memory_limit,
                          .pack_cache = mt_opt_string(s->opt, "pack-cache"),
                          .reduce_inside = mt_session_reduce(s).inside,
                          .reduce_between = mt_session_reduce(s).between};
  if (mt_opt_is_set(s->opt, "ctx"))
    opt.kv_tokens = (size_t)mt_opt_int(s->opt, "ctx");
  else if (s->root && room.tokens)
    opt.kv_tokens = bounded_room(s, room, e);
  if (s->root && !opt.kv_tokens) opt.kv_tokens = largest_room(s, &opt, e);
  mt_progress progress;
  mt_progress_begin(&progress, mt_comm_size(s->comm));
  if (s->root) {
    opt.progress = mt_progress_tell;
    opt.progress_arg = &progress;
  }
  uint64_t t = mt_clock_ns();
  rc = mt_model_load(&s->model, s->comm, s->team, s->path, &opt, e);
  mt_progress_end(&progress);
  if (rc) return rc;
  mt_log(MT_LOG_INFO, "loaded in %.2f s, %.1f MiB read here, activations %s",
         (double)(mt_clock_ns() - t) * 1e-9, (double)mt_model_file_bytes_read(s->model) / 1048576.0,
         mt_model_activations(mt_model_get_weights(s->model), opt.int8_activations));
  return mt_comm_agree(s->comm, mt_engine_new(&s->engine, s->model, chunk, e), e);
}

/* A step that fails by its numbers fails on every rank alike. Anything else is this rank's own: the
 * others wait for it in a collective, and only ending the job lets them go. */
int mt_session_follow(mt_session *s, int own, mt_err *e) {
  int rc = s->root ? mt_engine_stop(s->engine, own ? NULL : e) : mt_engine_follow(s->engine, e);
  if (own) rc = own;
  bool alone = s->root ? rc == MT_EPEER : rc && rc != MT_ENUMERIC;
  if (alone) {
    mt_log(MT_LOG_ERROR, "%s", e->msg);
    mt_comm_abort(s->comm, mt_err_exit_status(rc));
  }
  mt_err mine = *e; /* without "rank 0": what rank 0 refuses is nobody else's */
  rc = mt_comm_agree(s->comm, rc, e);
  if (own) *e = mine;
  return rc;
}

int mt_session_close(mt_session *s, int rc, mt_err *e) {
  /* A failure that every rank has is told once. Another rank's own failure is told by that rank. */
  if (rc && (s->root || !s->comm)) {
    if (!strncmp(e->msg, "rank ", 5))
      mt_log_set_rank(-1); /* the message names the rank that it is about */
    mt_log(MT_LOG_ERROR, "%s", e->msg[0] ? e->msg : mt_err_name(rc));
  }
  mt_engine_free(s->engine);
  mt_model_free(s->model);
  mt_team_free(s->team);
  mt_cpu_close(s->cpu);
  mt_comm_close(s->comm);
  free(s->path);
  return mt_err_exit_status(rc);
}

int mt_write_all(const char *path, const void *data, size_t n, mt_err *e) {
  FILE *f = strcmp(path, "-") ? fopen(path, "wb") : stdout;
  if (!f) return mt_err_set(e, MT_ESYSTEM, "%s: cannot be opened for writing", path);
  bool ok = (!n || fwrite(data, 1, n, f) == n) && fflush(f) == 0 && !ferror(f);
  if (f == stdout) path = "standard output";
  if (f != stdout && fclose(f)) ok = false;
  return ok ? MT_OK : mt_err_set(e, MT_ESYSTEM, "%s: writing failed", path);
}

int mt_set_int(mt_json *j, const char *key, uint64_t v) {
  return mt_json_set(j, key, mt_json_new_int((int64_t)v));
}

int mt_print_json(mt_json *j, mt_err *e) {
  mt_buf b = {0};
  int rc = j && !mt_json_write(j, 0, &b) && !mt_buf_putc(&b, '\n')
               ? MT_OK
               : mt_err_set(e, MT_ENOMEM, "no memory for JSON");
  if (!rc) rc = mt_write_all("-", b.data, b.len, e);
  mt_json_free(j);
  mt_buf_free(&b);
  return rc;
}
