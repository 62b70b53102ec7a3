/* The model in the repository, end to end: its template gives the prompts that it was measured
 * with, and its answers to held-out prompts and its greedy continuations are those of torch in
 * float32, as far as no step of torch's was a near tie. models/mirim/heldout.json and golden.json
 * are torch's. */
#include <unistd.h>

#include "mpi_test.h"
#include "mutirao/chat.h"
#include "mutirao/engine.h"

enum { MAX_TOKENS = 256 };
static const double NEAR_TIE = 1e-2; /* of a logit; two float32 evaluations differ by about 1e-4 */

typedef struct answer {
  mt_ids ids;
} answer;

static int on_token(void *arg, const mt_token_event *ev) {
  return mt_ids_push(&((answer *)arg)->ids, ev->id);
}

static mt_tokenizer *tok;
static mt_chat_template *tmpl;
static mt_engine *engine;

static void generate(const mt_ids *prompt, size_t max_tokens, bool stop, answer *out) {
  const uint32_t *stops;
  mt_err e = {0};
  mt_request r = {.ids = prompt->id,
                  .n_ids = prompt->n,
                  .max_tokens = max_tokens,
                  .on_token = on_token,
                  .arg = out};
  if (stop) r.n_eos = mt_tokenizer_stops(tok, &stops);
  if (stop) r.eos = stops;
  mt_sample_params_init(&r.sample);
  r.sample.temperature = 0;
  out->ids.n = 0;
  int rc = mt_engine_submit(engine, &r, &e);
  if (!rc) rc = mt_engine_run(engine, &e);
  if (rc) fprintf(stderr, "%s\n", e.msg);
  CHECK(rc == MT_OK);
}

/* The messages through the template, and their ids; the text must be the one in the file. */
static void render(const mt_json *item, mt_ids *ids) {
  mt_err e = {0};
  mt_text text = {0};
  const mt_json *messages = mt_json_get(item, "messages"), *tools = mt_json_get(item, "tools");
  size_t len = 0;
  const char *want = mt_json_string(mt_json_get(item, "prompt"), &len);
  ids->n = 0;
  if (!mt_json_is(messages, MT_JSON_ARRAY)) { /* a text to go on from, without template */
    CHECK(mt_tokenizer_encode(tok, want, len, MT_ENCODE_PARSE_SPECIAL, ids, &e) == MT_OK);
    return;
  }
  mt_chat_input in = {.messages = messages, .add_generation_prompt = true};
  if (mt_json_is(tools, MT_JSON_ARRAY)) in.tools = tools;
  int rc = mt_chat_render(tmpl, &in, &text, &e);
  if (rc) fprintf(stderr, "%s\n", e.msg);
  CHECK(rc == MT_OK);
  CHECK(text.bytes.len == len && want && !memcmp(text.bytes.data, want, len));
  CHECK(mt_tokenizer_encode_text(tok, &text, MT_ENCODE_PARSE_SPECIAL, ids, &e) == MT_OK);
  mt_text_free(&text);
}

static void check_held_out(const mt_json *cases) {
  size_t right = 0, compared = 0;
  mt_ids prompt = {0};
  answer a = {0};
  for (size_t i = 0; i < mt_json_len(cases); i++) {
    const mt_json *item = mt_json_at(cases, i);
    double margin = 0;
    mt_buf text = {0};
    const char *want = mt_json_string(mt_json_get(item, "greedy"), NULL);
    const char *expected = mt_json_string(mt_json_get(item, "expected"), NULL);
    CHECK(want && expected && mt_json_number(mt_json_get(item, "least_margin"), &margin));
    render(item, &prompt);
    generate(&prompt, MAX_TOKENS, true, &a);
    CHECK(mt_tokenizer_decode(tok, a.ids.id, a.ids.n, true, &text, NULL) == MT_OK);
    const char *got = text.data ? text.data : "";
    right += !strcmp(got, expected);
    if (margin >= NEAR_TIE) {
      /* A wrong answer may have been cut in the file, where no right one is as long. */
      bool is_right = false, same = !strncmp(got, want, strlen(want));
      CHECK(mt_json_bool(mt_json_get(item, "right"), &is_right));
      if (is_right) same = !strcmp(got, want);
      if (!same) fprintf(stderr, "held out %zu: '%s', torch says '%s'\n", i, got, want);
      CHECK(same);
      compared++;
    }
    mt_buf_free(&text);
  }
  printf("held out: %zu of %zu right, %zu compared with torch\n", right, mt_json_len(cases),
         compared);
  CHECK(compared * 2 > mt_json_len(cases));
  mt_ids_free(&prompt);
  mt_ids_free(&a.ids);
}

static void read_ids(const mt_json *list, mt_ids *ids) {
  int64_t v = 0;
  ids->n = 0;
  for (size_t i = 0; i < mt_json_len(list); i++)
    CHECK(mt_json_int(mt_json_at(list, i), &v) && !mt_ids_push(ids, (uint32_t)v));
}

static void check_golden(const mt_json *cases) {
  mt_ids prompt = {0}, encoded = {0}, want = {0};
  answer a = {0};
  CHECK(mt_json_len(cases) > 0);
  for (size_t i = 0; i < mt_json_len(cases); i++) {
    const mt_json *item = mt_json_at(cases, i), *margins = mt_json_get(item, "margins");
    size_t len = 0, steps = 0;
    double margin = 0;
    const char *text = mt_json_string(mt_json_get(item, "prompt"), &len);
    read_ids(mt_json_get(item, "ids"), &prompt);
    read_ids(mt_json_get(item, "greedy_ids"), &want);
    encoded.n = 0;
    CHECK(text && !mt_tokenizer_encode(tok, text, len, MT_ENCODE_PARSE_SPECIAL, &encoded, NULL));
    CHECK(encoded.n == prompt.n && !memcmp(encoded.id, prompt.id, prompt.n * sizeof *prompt.id));
    generate(&prompt, want.n, false, &a);
    while (steps < want.n && mt_json_number(mt_json_at(margins, steps), &margin) &&
           margin >= NEAR_TIE)
      steps++;
    CHECK(steps > 0 && a.ids.n >= steps);
    CHECK(!memcmp(a.ids.id, want.id, steps * sizeof *want.id));
  }
  mt_ids_free(&prompt);
  mt_ids_free(&encoded);
  mt_ids_free(&want);
  mt_ids_free(&a.ids);
}

static mt_json *read_json(const char *dir, const char *name) {
  char path[600];
  mt_json *j = NULL;
  mt_err e = {0};
  snprintf(path, sizeof path, "%s/%s", dir, name);
  if (mt_json_read_file(&j, path, 4 << 20, &e)) fprintf(stderr, "%s\n", e.msg);
  CHECK(j != NULL);
  return j;
}

static void lead(const char *dir) {
  mt_err e = {0};
  size_t len;
  int rc = mt_tokenizer_open(&tok, dir, &e);
  const char *source = rc ? NULL : mt_tokenizer_template(tok, NULL, &len);
  if (source) rc = mt_chat_template_compile(&tmpl, source, len, "template", &e);
  if (rc) fprintf(stderr, "%s\n", e.msg);
  CHECK(!rc && tmpl);
  mt_json *held_out = read_json(dir, "heldout.json"), *golden = read_json(dir, "golden.json");
  if (tmpl) check_held_out(mt_json_get(held_out, "cases"));
  if (tok) check_golden(mt_json_get(golden, "cases"));
  mt_json_free(held_out);
  mt_json_free(golden);
  mt_chat_template_free(tmpl);
  mt_tokenizer_free(tok);
  CHECK(mt_engine_stop(engine, &e) == MT_OK);
}

int main(int argc, char **argv) {
  char dir[500];
  snprintf(dir, sizeof dir, "%s/models/mirim",
           getenv("MUTIRAO_ROOT") ? getenv("MUTIRAO_ROOT") : ".");
  mt_comm *comm = test_open(argc, argv);
  mt_err e = {0};
  mt_cpu *cpu = NULL;
  mt_team *team = NULL;
  mt_model *m = NULL;
  mt_model_options o = {.kv_type = MT_KV_F32, .kv_tokens = 1024, .max_seqs = 1, .max_rows = 64};
  mt_log_set_level(MT_LOG_ERROR);
  mt_comm_set_oversubscribed(comm, true);
  int rc = mt_kernels_get(NULL, &o.kernels, &e);
  if (!rc) rc = mt_cpu_open(&cpu, NULL, &e);
  if (!rc) rc = mt_team_new(&team, cpu, 1, NULL, true, &e);
  if (!rc) rc = mt_model_load(&m, comm, team, dir, &o, &e);
  if (!rc) rc = mt_engine_new(&engine, m, 0, &e);
  if (rc) fprintf(stderr, "%s\n", e.msg);
  CHECK(rc == MT_OK);
  if (!rc && mt_comm_rank(comm) == 0)
    lead(dir);
  else if (!rc)
    CHECK(mt_engine_follow(engine, &e) == MT_OK);
  mt_engine_free(engine);
  mt_model_free(m);
  mt_team_free(team);
  mt_cpu_close(cpu);
  return test_close(comm);
}
