/* A traced step, as a table for people and as JSON for programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

enum { SHOWN_KEYS = 4 };

/* One token's text with quotes and control characters made visible. */
static void print_token(const mt_texts *t, uint32_t id) {
  mt_buf text = {0};
  if (mt_texts_decode(t, id, &text, NULL)) return;
  putchar('\'');
  for (size_t i = 0; i < text.len; i++) {
    unsigned char c = (unsigned char)text.data[i];
    if (c == '\n')
      fputs("\\n", stdout);
    else if (c < 0x20)
      printf("\\x%02x", c);
    else
      putchar(c);
  }
  putchar('\'');
  mt_buf_free(&text);
}

/* Stages 2 to 4 of a rank: name, time. */
static void stage_times(const mt_model_stats *st, const char *const **name, uint64_t ns[3]) {
  static const char *const names[] = {"2 embedding", "3 layers", "4 logits"};
  *name = names;
  ns[0] = st->embed_ns;
  ns[1] = st->attention_ns + st->ffn_ns;
  ns[2] = st->head_ns;
}

static void print_times(const trace_run *t) {
  int n = mt_comm_size(t->s->comm);
  uint64_t ns[3];
  const char *const *name;
  printf("  %-12s %5s %10s\n", "stage", "rank", "µs");
  printf("  %-12s %5d %10.1f   %zu tokens in the sequence before it\n", "1 ids", 0,
         t->number ? 0.0 : (double)t->tokenize_ns * 1e-3, (size_t)t->step.position);
  for (int k = 0; k < 3; k++)
    for (int r = 0; r < n; r++) {
      stage_times(&t->step.rank[r], &name, ns);
      printf("  %-12s %5d %10.1f", name[k], r, (double)ns[k] * 1e-3);
      if (k == 1) {
        const mt_model_stats *st = &t->step.rank[r];
        printf(
            "   attention %.1f, FFN %.1f, in collectives %.1f; %.3f MB of weights, %.3f MB of "
            "cache, %.3f MB of "
            "network",
            (double)st->attention_ns * 1e-3, (double)st->ffn_ns * 1e-3,
            (double)st->collective_ns * 1e-3, (double)st->weight_bytes * 1e-6,
            (double)st->kv_bytes * 1e-6, (double)st->net_bytes * 1e-6);
      }
      putchar('\n');
    }
  printf("  %-12s %5d %10.1f\n  %-12s %5d %10.1f\n", "5 choice", 0,
         (double)t->step.choice_ns * 1e-3, "6 text", 0, (double)t->step.text_ns * 1e-3);
}

static void print_stages(const trace_run *t) {
  double shown = -1;
  const double *list;
  bool several = mt_opt_doubles(t->s->opt, "temperatures", &list) > 0;
  for (size_t i = 0; i < t->step.n_stages; i++) {
    const trace_stage *s = &t->step.stage[i];
    if (several && s->temperature != shown) printf("  at temperature %g\n", shown = s->temperature);
    printf("  after %-20s %7zu kept, entropy %.4f nats, nucleus of %.2f: %zu tokens\n   ", s->name,
           s->kept, s->entropy, s->nucleus_p, s->nucleus);
    for (size_t k = 0; k < s->n_top; k++) {
      putchar(' ');
      print_token(t->texts, s->top[k].id);
      printf(" %.2f%%", 100 * mt_exp64(s->top[k].logprob));
    }
    putchar('\n');
  }
}

/* The strongest keys of one head, strongest first; returns how many. */
static size_t strongest(const float *w, size_t n, size_t most, size_t *key) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    size_t at = found;
    while (at && w[i] > w[key[at - 1]]) at--;
    if (at >= most) continue;
    size_t end = found < most ? found++ : most - 1;
    for (size_t k = end; k > at; k--) key[k] = key[k - 1];
    key[at] = i;
  }
  return found;
}

static uint32_t token_at(const trace_run *t, size_t position) {
  return position < t->prompt->n ? t->prompt->id[position] : t->ids.id[position - t->prompt->n];
}

static void print_attention(const trace_run *t) {
  const mt_model_config *c = mt_model_get_config(t->s->model);
  puts("  attention of the last token: position, text and weight of what each head reads most");
  for (uint32_t l = 0; l < c->n_layers; l++)
    for (uint32_t h = 0; h < c->n_heads; h++) {
      const float *w = t->step.attention + ((size_t)l * c->n_heads + h) * t->step.n_keys;
      size_t key[SHOWN_KEYS], n = strongest(w, t->step.n_keys, SHOWN_KEYS, key);
      printf("    layer %2u head %2u:", l, h);
      for (size_t i = 0; i < n; i++) {
        printf("  %zu ", key[i]);
        print_token(t->texts, token_at(t, key[i]));
        printf(" %.3f", (double)w[key[i]]);
      }
      putchar('\n');
    }
}

int mt_trace_print_step(trace_run *t, mt_err *e) {
  printf("step %zu, %.3f ms: ", t->number, (double)t->step.total_ns * 1e-6);
  if (t->step.chosen) {
    print_token(t->texts, t->step.id);
    printf(" (id %u, log-probability %.4f)\n", t->step.id, t->step.logprob);
  } else {
    puts("the model ends its text here");
  }
  print_times(t);
  print_stages(t);
  if (t->step.attention) print_attention(t);
  return fflush(stdout) ? mt_err_set(e, MT_ESYSTEM, "standard output: writing failed") : MT_OK;
}

/* ---- JSON -------------------------------------------------------------------------------- */

static int set_real(mt_json *j, const char *key, double v) {
  return mt_json_set(j, key, mt_json_new_real(v));
}

static mt_json *rank_json(const mt_model_stats *st) {
  const struct {
    const char *key;
    uint64_t v;
  } field[] = {{"embedding_ns", st->embed_ns},
               {"attention_ns", st->attention_ns},
               {"ffn_ns", st->ffn_ns},
               {"logits_ns", st->head_ns},
               {"collective_ns", st->collective_ns},
               {"weight_bytes", st->weight_bytes},
               {"kv_bytes", st->kv_bytes},
               {"network_bytes", st->net_bytes},
               {"tiled_steps", st->tiled_steps}};
  mt_json *j = mt_json_new_object();
  for (size_t i = 0; j && i < sizeof field / sizeof field[0]; i++)
    if (mt_set_int(j, field[i].key, field[i].v)) {
      mt_json_free(j);
      return NULL;
    }
  return j;
}

static mt_json *stage_json(const trace_run *t, const trace_stage *s) {
  mt_json *j = mt_json_new_object(), *top = mt_json_new_array();
  int rc = j && top ? MT_OK : MT_ENOMEM;
  for (size_t i = 0; !rc && i < s->n_top; i++) {
    mt_json *one = mt_json_new_object();
    mt_buf text = {0};
    if (!one || mt_texts_decode(t->texts, s->top[i].id, &text, NULL)) rc = MT_ENOMEM;
    if (!rc) rc = mt_set_int(one, "id", s->top[i].id);
    if (!rc)
      rc = mt_json_set(one, "text", mt_json_new_string(text.data ? text.data : "", text.len));
    if (!rc) rc = set_real(one, "probability", mt_exp64(s->top[i].logprob));
    mt_buf_free(&text);
    if (rc)
      mt_json_free(one);
    else
      rc = mt_json_append(top, one);
  }
  if (!rc) rc = mt_json_set(j, "after", mt_json_new_string(s->name, strlen(s->name)));
  if (!rc) rc = set_real(j, "temperature", s->temperature);
  if (!rc) rc = mt_set_int(j, "kept", s->kept);
  if (!rc) rc = set_real(j, "entropy_nats", s->entropy);
  if (!rc) rc = mt_set_int(j, "nucleus_tokens", s->nucleus);
  if (!rc) rc = set_real(j, "nucleus_p", s->nucleus_p);
  if (!rc) rc = mt_json_set(j, "top", top);
  if (!rc) return j;
  mt_json_free(j);
  return NULL;
}

static mt_json *attention_json(const trace_run *t) {
  const mt_model_config *c = mt_model_get_config(t->s->model);
  mt_json *layers = mt_json_new_array();
  for (uint32_t l = 0; layers && l < c->n_layers; l++) {
    mt_json *heads = mt_json_new_array();
    for (uint32_t h = 0; heads && h < c->n_heads; h++) {
      mt_json *keys = mt_json_new_array();
      const float *w = t->step.attention + ((size_t)l * c->n_heads + h) * t->step.n_keys;
      for (size_t k = 0; keys && k < t->step.n_keys; k++)
        (void)mt_json_append(keys, mt_json_new_real((double)w[k]));
      if (mt_json_append(heads, keys)) break;
    }
    if (mt_json_append(layers, heads)) break;
  }
  return layers;
}

mt_json *mt_trace_step_json(trace_run *t) {
  mt_json *j = mt_json_new_object(), *ranks = mt_json_new_array(), *stages = mt_json_new_array();
  const trace_step *s = &t->step;
  int rc = j && ranks && stages ? MT_OK : MT_ENOMEM;
  for (int r = 0; !rc && r < mt_comm_size(t->s->comm); r++)
    rc = mt_json_append(ranks, rank_json(&s->rank[r]));
  for (size_t i = 0; !rc && i < s->n_stages; i++)
    rc = mt_json_append(stages, stage_json(t, &s->stage[i]));
  if (!rc && s->chosen) rc = mt_set_int(j, "id", s->id);
  if (!rc && s->chosen)
    rc = mt_json_set(j, "text", mt_json_new_string(s->text.data ? s->text.data : "", s->text.len));
  if (!rc && s->chosen) rc = set_real(j, "logprob", s->logprob);
  if (!rc) rc = mt_set_int(j, "position", s->position);
  if (!rc) rc = mt_set_int(j, "ids_ns", t->number ? 0 : t->tokenize_ns);
  if (!rc) rc = mt_set_int(j, "choice_ns", s->choice_ns);
  if (!rc) rc = mt_set_int(j, "text_ns", s->text_ns);
  if (!rc) rc = mt_set_int(j, "total_ns", s->total_ns);
  if (!rc) rc = mt_json_set(j, "ranks", ranks);
  if (!rc) rc = mt_json_set(j, "stages", stages);
  if (!rc && s->attention) rc = mt_json_set(j, "attention", attention_json(t));
  if (!rc) return j;
  mt_json_free(j);
  return NULL;
}
