/* One rank has no memory for what only some requests ask of it, the attention probe: rank 0 is told
 * which and why, nobody waits, and work goes on afterwards. Memory is refused by this program's
 * calloc. */
#include <errno.h>

#include "mpi_test.h"
#include "mutirao/engine.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_calloc(size_t n, size_t size);

static size_t refused; /* more than so many bytes at once; 0: none */

void *calloc(size_t n, size_t size) {
  size_t bytes;
  if (refused && (__builtin_mul_overflow(n, size, &bytes) || bytes > refused)) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_calloc(n, size);
}

enum { KEYS = 5, ROOM = 4096 };
static mt_comm *comm;

typedef struct run {
  mt_engine *engine;
  const mt_model_config *cfg;
} run;

/* One token after a prompt, with the attention that its row leaves where the probe is on. */
static void answer(run *r) {
  static const uint32_t ids[KEYS] = {5, 4, 3, 2, 1};
  mt_err e = {0};
  mt_request q = {.ids = ids, .n_ids = KEYS, .max_tokens = 1};
  mt_sample_params_init(&q.sample);
  q.sample.temperature = 0;
  CHECK(mt_engine_submit(r->engine, &q, &e) == MT_OK);
  CHECK(mt_engine_run(r->engine, &e) == MT_OK);
}

static void lead(run *r, int poor) {
  mt_err e = {0};
  size_t heads = (size_t)r->cfg->n_layers * r->cfg->n_heads;
  float *weight = malloc(heads * KEYS * sizeof *weight);
  char who[20];
  snprintf(who, sizeof who, "rank %d ", poor);
  if (!weight) exit(2);
  CHECK(mt_engine_probe(r->engine, true, &e) == MT_ENOMEM);
  CHECK(strstr(e.msg, "no memory to keep the attention") != NULL);
  CHECK(mt_comm_size(comm) == 1 || !strncmp(e.msg, who, strlen(who)));
  answer(r); /* and nothing is kept, on any rank */
  CHECK(mt_engine_attention(r->engine, KEYS, weight, &e) == MT_ENOMEM);
  answer(r);
  refused = 0;
  CHECK(mt_engine_probe(r->engine, true, &e) == (poor ? MT_ENOMEM : MT_OK));
  CHECK(mt_engine_probe(r->engine, false, &e) == MT_OK);
  answer(r);
  if (!poor) { /* rank 0 has memory again */
    CHECK(mt_engine_probe(r->engine, true, &e) == MT_OK);
    answer(r);
    CHECK(mt_engine_attention(r->engine, KEYS, weight, &e) == MT_OK);
    for (size_t h = 0; h < heads; h++) {
      float sum = 0;
      for (size_t k = 0; k < KEYS; k++) sum += weight[h * KEYS + k];
      CHECK(sum > 0.999f && sum < 1.001f);
    }
  }
  CHECK(mt_engine_stop(r->engine, &e) == MT_OK);
  free(weight);
}

/* Rank `poor` may not have what the probe takes. */
static void check(const char *path, int poor) {
  mt_err e = {0};
  mt_team *team = NULL;
  mt_model *m = NULL;
  run r = {0};
  mt_model_options o = {.kv_type = MT_KV_F16, .kv_tokens = ROOM, .max_seqs = 2, .max_rows = 8};
  int rc = mt_kernels_get(NULL, &o.kernels, &e);
  if (!rc) rc = mt_team_new(&team, NULL, 2, NULL, true, &e);
  if (!rc) rc = mt_model_load(&m, comm, team, path, &o, &e);
  if (!rc) rc = mt_engine_new(&r.engine, m, 0, &e);
  if (rc) fprintf(stderr, "%s\n", e.msg);
  CHECK(rc == MT_OK);
  if (rc) exit(1);
  r.cfg = mt_model_get_config(m);
  refused = mt_comm_rank(comm) == poor ? ROOM * sizeof(float) - 1 : 0;
  if (mt_comm_rank(comm) == 0)
    lead(&r, poor);
  else
    CHECK(mt_engine_follow(r.engine, &e) == MT_OK);
  refused = 0;
  mt_engine_free(r.engine);
  mt_model_free(m);
  mt_team_free(team);
}

int main(int argc, char **argv) {
  char path[500];
  const char *root = getenv("MUTIRAO_ROOT");
  comm = test_open(argc, argv);
  mt_comm_set_oversubscribed(comm, true);
  mt_log_set_level(MT_LOG_ERROR);
  snprintf(path, sizeof path, "%s/tests/data/models/llama-gqa-f32", root ? root : ".");
  check(path, 0);
  if (mt_comm_size(comm) > 1) check(path, mt_comm_size(comm) - 1);
  return test_close(comm);
}
#else
int main(void) {
  puts("skipped: the sanitizer has its own calloc");
  return 0;
}
#endif
