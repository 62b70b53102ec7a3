/* Rank 0's side: requests, admission, the mix of a step, choosing tokens. */
#include <math.h> /* NAN only */
#include <stdlib.h>
#include <string.h>

#include "engine_impl.h"

const char *mt_finish_name(mt_finish f) {
  static const char *const name[] = {"", "length", "eos", "stop"};
  return name[f];
}

/* What only rank 0 has: plans with room for every row, and the memory that samplers share. */
static int leader_new(mt_engine *g, mt_err *e) {
  uint32_t **array[] = {&g->plan.token, &g->plan.position, &g->plan.sequence, &g->plan.flags,
                        &g->plan.planned};
  for (size_t i = 0; i < sizeof array / sizeof array[0]; i++)
    if (!(*array[i] = mt_calloc(g->max_rows, sizeof **array[i])))
      return mt_err_set(e, MT_ENOMEM, "no memory for plans");
  g->plan.command = mt_calloc(g->max_seqs, sizeof *g->plan.command);
  if (!g->plan.command) return mt_err_set(e, MT_ENOMEM, "no memory for plans");
  return mt_sampler_new(&g->seen, mt_model_get_options(g->m)->kernels, g->vocab, e);
}

int mt_engine_new(mt_engine **out, mt_model *m, size_t chunk, mt_err *e) {
  const mt_model_options *o = mt_model_get_options(m);
  mt_engine *g = *out = mt_calloc(1, sizeof *g);
  if (!g) return mt_err_set(e, MT_ENOMEM, "no memory for the engine");
  g->m = m;
  g->comm = mt_model_get_comm(m);
  g->max_rows = o->max_rows;
  g->chunk = chunk && chunk < o->max_rows ? chunk : o->max_rows;
  g->max_seqs = o->max_seqs;
  g->vocab = mt_model_get_config(m)->vocab;
  g->blocks_total = mt_kv_blocks_for(o->kv_tokens);
  g->tail = &g->queue;
  g->seq = mt_calloc(g->max_seqs, sizeof *g->seq);
  g->row = mt_calloc(g->max_rows, sizeof *g->row);
  int rc = g->seq && g->row ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for the engine");
  if (!rc && mt_comm_rank(g->comm) == 0) rc = leader_new(g, e);
  if (rc) {
    mt_engine_free(g);
    *out = NULL;
  }
  return rc;
}

static void sequence_fini(sequence *s) {
  free((void *)(uintptr_t)s->r.eos);
  free(s->token);
  mt_sampler_free(s->sampler);
  *s = (sequence){0};
}

void mt_engine_free(mt_engine *g) {
  if (!g) return;
  for (size_t i = 0; g->seq && i < g->max_seqs; i++) sequence_fini(&g->seq[i]);
  while (g->queue) {
    sequence *s = g->queue;
    g->queue = s->next;
    sequence_fini(s);
    free(s);
  }
  free(g->seq);
  free(g->row);
  mt_step_plan_free(&g->plan);
  mt_sampler_free(g->seen);
  mt_buf_free(&g->wire);
  free(g);
}

/* ---- requests ---------------------------------------------------------------------------- */

static int check_request(const mt_engine *g, const mt_request *r, mt_err *e) {
  const mt_model_config *cfg = mt_model_get_config(g->m);
  size_t room = mt_model_get_options(g->m)->kv_tokens,
         limit = room < cfg->context ? room : cfg->context;
  if (!r->n_ids) return mt_err_set(e, MT_EINVAL, "the prompt is empty");
  if (r->n_ids > limit || r->max_tokens > limit - r->n_ids)
    return mt_err_set(e, MT_ERANGE,
                      "%zu prompt tokens and %zu to generate are %zu; the context has %zu",
                      r->n_ids, r->max_tokens, r->n_ids + r->max_tokens, limit);
  for (size_t i = 0; i < r->n_ids; i++)
    if (r->ids[i] >= g->vocab)
      return mt_err_set(e, MT_EINVAL, "token id %u is outside the vocabulary of %zu", r->ids[i],
                        g->vocab);
  return mt_sample_params_check(&r->sample, e);
}

int mt_engine_submit(mt_engine *g, const mt_request *r, mt_err *e) {
  int rc = check_request(g, r, e);
  if (rc) return rc;
  sequence *s = mt_calloc(1, sizeof *s);
  uint32_t *token = mt_malloc(r->n_ids + r->max_tokens, sizeof *token),
           *eos = mt_malloc(r->n_eos, sizeof *eos);
  if (!s || !token || !eos) {
    free(s);
    free(token);
    free(eos);
    return mt_err_set(e, MT_ENOMEM, "no memory for a request of %zu tokens",
                      r->n_ids + r->max_tokens);
  }
  memcpy(token, r->ids, r->n_ids * sizeof *token);
  if (r->n_eos) memcpy(eos, r->eos, r->n_eos * sizeof *eos);
  *s = (sequence){.used = true, .r = *r, .token = token, .n_tokens = r->n_ids};
  s->r.ids = token;
  s->r.eos = eos;
  if (!s->r.planned_tokens) s->r.planned_tokens = r->n_ids + r->max_tokens;
  s->blocks = mt_kv_blocks_for(r->n_ids + r->max_tokens);
  rc = mt_sampler_fork(&s->sampler, g->seen, e);
  for (size_t i = 0; !rc && i < r->n_ids; i++)
    if (mt_sampler_accept(s->sampler, r->ids[i], false))
      rc = mt_err_set(e, MT_ENOMEM, "no memory for a request");
  if (rc) {
    sequence_fini(s);
    free(s);
    return rc;
  }
  *g->tail = s;
  g->tail = &s->next;
  return MT_OK;
}

/* Moves requests from the queue into free slots, in order, while the cache has room for their whole
 * length. */
static void admit(mt_engine *g) {
  for (size_t i = 0; g->queue && i < g->max_seqs; i++) {
    if (g->seq[i].used) continue;
    sequence *s = g->queue;
    if (g->blocks_reserved + s->blocks > g->blocks_total) return;
    g->queue = s->next;
    if (!g->queue) g->tail = &g->queue;
    s->next = NULL;
    g->seq[i] = *s;
    free(s);
    g->blocks_reserved += g->seq[i].blocks;
  }
}

/* ---- the mix of a step ------------------------------------------------------------------- */

static void add_rows(mt_engine *g, size_t slot, size_t n) {
  sequence *s = &g->seq[slot];
  s->step_rows = n;
  for (size_t i = 0; i < n; i++) {
    size_t at = s->n_cached + i;
    bool last = at + 1 == s->n_tokens;
    bool reported = s->r.on_prompt && at < s->r.n_ids && at >= s->r.prompt_from && s->n_out == 0;
    size_t k = g->plan.n_rows++;
    g->plan.token[k] = s->token[at];
    g->plan.position[k] = (uint32_t)at;
    g->plan.sequence[k] = (uint32_t)slot;
    g->plan.planned[k] = (uint32_t)s->r.planned_tokens;
    g->plan.flags[k] = reported || (last && s->r.max_tokens) ? MT_ROW_LOGITS : 0;
  }
}

/* Decode rows first, so that nobody's prompt holds up another's stream; then prompts share the rest
 * of the step. */
static bool mix(mt_engine *g) {
  g->plan.kind = MT_STEP_RUN;
  g->plan.argument = 0;
  g->plan.n_rows = 0;
  bool prompt_rows = false;
  for (size_t i = 0; i < g->max_seqs; i++) {
    g->seq[i].step_rows = 0;
    g->seq[i].step_chose = false;
  }
  for (size_t i = 0; i < g->max_seqs && g->plan.n_rows < g->max_rows; i++)
    if (g->seq[i].used && g->seq[i].n_tokens - g->seq[i].n_cached == 1) {
      prompt_rows |= g->seq[i].n_out == 0;
      add_rows(g, i, 1);
    }
  size_t left = g->chunk < g->max_rows - g->plan.n_rows ? g->chunk : g->max_rows - g->plan.n_rows;
  for (size_t i = 0; i < g->max_seqs && left; i++) {
    sequence *s = &g->seq[i];
    size_t todo = s->used ? s->n_tokens - s->n_cached : 0;
    if (todo < 2) continue;
    size_t n = todo < left ? todo : left;
    add_rows(g, i, n);
    left -= n;
    prompt_rows = true;
  }
  return prompt_rows;
}

/* ---- choosing ---------------------------------------------------------------------------- */

static bool is_eos(const mt_request *r, uint32_t id) {
  for (size_t i = 0; i < r->n_eos; i++)
    if (r->eos[i] == id) return true;
  return false;
}

static void finish(sequence *s, mt_finish why) {
  s->finished = true;
  if (s->r.on_finish) s->r.on_finish(s->r.arg, why);
}

static int choose(mt_engine *g, sequence *s, const float *logits, mt_err *e) {
  uint32_t id;
  double logprob = (double)NAN, *asked = s->r.logprobs ? &logprob : NULL;
  uint64_t position = s->n_tokens;
  int rc = s->r.choose
               ? s->r.choose(s->r.arg, s->sampler, &s->r.sample, logits, position, &id, asked, e)
               : mt_sampler_choose(s->sampler, &s->r.sample, logits, position, &id, asked, e);
  if (rc) return rc;
  if (is_eos(&s->r, id)) {
    finish(s, MT_FINISH_EOS);
    return MT_OK;
  }
  mt_token_event ev = {id, s->n_out, (uint32_t)position, logprob, logits};
  int stop = s->r.on_token ? s->r.on_token(s->r.arg, &ev) : 0;
  s->token[s->n_tokens++] = id;
  s->step_chose = true;
  s->n_out++;
  g->counts.output_tokens++;
  if (mt_sampler_accept(s->sampler, id, true))
    return mt_err_set(e, MT_ENOMEM, "no memory for a sequence");
  if (stop)
    finish(s, MT_FINISH_STOP);
  else if (s->n_out == s->r.max_tokens)
    finish(s, MT_FINISH_LENGTH);
  return MT_OK;
}

/* Its failures are rank 0's alone: kept aside, so that the step itself ends as it does on the other
 * ranks. */
static int sink(void *arg, size_t row, const float *logits) {
  mt_engine *g = arg;
  sequence *s = &g->seq[g->row[row].seq];
  if (g->sink_rc || s->finished) return MT_OK;
  size_t at = g->row[row].position;
  if (s->r.on_prompt && s->n_out == 0 && at < s->r.n_ids && at >= s->r.prompt_from)
    g->sink_rc = s->r.on_prompt(s->r.arg, at, logits);
  if (!g->sink_rc && at + 1 == s->n_tokens && s->r.max_tokens)
    g->sink_rc = choose(g, s, logits, g->sink_err);
  return MT_OK;
}

/* ---- the loop ---------------------------------------------------------------------------- */

/* The sequence's cache goes with the next plan. */
static void give_back(mt_engine *g, size_t slot) {
  g->plan.command[g->plan.n_commands++] =
      (mt_cache_command){.op = MT_CACHE_FREE, .sequence = (uint32_t)slot};
}

static void after_step(mt_engine *g) {
  g->plan.n_commands = 0;
  for (size_t i = 0; i < g->max_seqs; i++) {
    sequence *s = &g->seq[i];
    if (!s->used) continue;
    size_t before = s->n_cached;
    s->n_cached += s->step_rows;
    if (before < s->r.n_ids && s->n_out <= 1)
      g->counts.prompt_tokens += (s->n_cached < s->r.n_ids ? s->n_cached : s->r.n_ids) - before;
    if (!s->finished && !s->r.max_tokens && s->n_cached == s->r.n_ids) finish(s, MT_FINISH_LENGTH);
    if (s->finished) {
      give_back(g, i);
      g->blocks_reserved -= s->blocks;
      sequence_fini(s);
    } else if (s->r.no_kv_cache && s->step_chose) {
      give_back(g, i);
      s->n_cached = 0;
    }
  }
}

static bool busy(const mt_engine *g) {
  if (g->queue) return true;
  for (size_t i = 0; i < g->max_seqs; i++)
    if (g->seq[i].used) return true;
  return false;
}

static int step(mt_engine *g, mt_err *e) {
  uint64_t t = mt_clock_ns();
  bool prompt_rows = mix(g);
  g->sink_rc = MT_OK;
  g->sink_err = e;
  int rc = mt_plan_share(g, e);
  if (!rc) rc = mt_plan_run(g, sink, e);
  if (rc) {
    g->broken = true;
    return rc;
  }
  if (g->sink_rc) return g->sink_rc;
  after_step(g);
  g->counts.passes++;
  *(prompt_rows ? &g->counts.prefill_ns : &g->counts.decode_ns) += mt_clock_ns() - t;
  return MT_OK;
}

/* Gives up every request; their caches go with the next plan. */
static void abandon(mt_engine *g) {
  g->plan.n_commands = 0;
  while (g->queue) {
    sequence *s = g->queue;
    g->queue = s->next;
    sequence_fini(s);
    free(s);
  }
  g->tail = &g->queue;
  for (size_t i = 0; i < g->max_seqs; i++) {
    if (!g->seq[i].used) continue;
    give_back(g, i);
    g->blocks_reserved -= g->seq[i].blocks;
    sequence_fini(&g->seq[i]);
  }
}

int mt_engine_step(mt_engine *g, bool *is_busy, mt_err *e) {
  int rc = MT_OK;
  admit(g);
  if (busy(g)) rc = step(g, e);
  if (rc) abandon(g);
  *is_busy = busy(g);
  return rc;
}

int mt_engine_run(mt_engine *g, mt_err *e) {
  int rc = MT_OK;
  for (bool more = true; !rc && more;) rc = mt_engine_step(g, &more, e);
  return rc;
}

/* ---- other plans ------------------------------------------------------------------------- */

/* A plan without rows or commands; commands that wait for the next step stay. */
static int send_plan(mt_engine *g, mt_step_kind kind, uint64_t argument, mt_err *e) {
  if (g->broken) return mt_err_set(e, MT_EPEER, "the other ranks have left after a failed step");
  size_t waiting = g->plan.n_commands;
  g->plan.kind = kind;
  g->plan.argument = argument;
  g->plan.n_rows = g->plan.n_commands = 0;
  int rc = mt_plan_share(g, e);
  g->plan.n_commands = waiting;
  return rc;
}

int mt_engine_stop(mt_engine *g, mt_err *e) {
  if (g->broken) return MT_OK;
  int rc = send_plan(g, MT_STEP_STOP, 0, e);
  g->broken = true;
  return rc;
}

int mt_engine_stats(mt_engine *g, mt_model_stats *stats, mt_err *e) {
  int rc = send_plan(g, MT_STEP_STATS, 0, e);
  return rc ? rc : mt_plan_gather_stats(g, stats, e);
}

int mt_engine_probe(mt_engine *g, bool on, mt_err *e) {
  int rc = send_plan(g, MT_STEP_PROBE, on, e);
  return rc ? rc : mt_model_probe_attention(g->m, on, e);
}

int mt_engine_attention(mt_engine *g, size_t n_keys, float *weight, mt_err *e) {
  int rc = send_plan(g, MT_STEP_ATTENTION, n_keys, e);
  return rc ? rc : mt_model_attention(g->m, n_keys, weight, e);
}

mt_engine_counts mt_engine_get_counts(const mt_engine *g) {
  return g->counts;
}
void mt_engine_reset_counts(mt_engine *g) {
  g->counts = (mt_engine_counts){0};
}
mt_model *mt_engine_get_model(const mt_engine *g) {
  return g->m;
}
