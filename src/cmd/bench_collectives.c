/* bench --collectives: the exact all-reduce by each algorithm, beside MPI's all-reduce of the same
 * integers and of f32, and beside the floor: a meeting of the ranks of a node and one pass over
 * what they have. */
#include "bench_collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutirao/reduce.h"

enum {
  BLOCK = 512,
  WAYS_MOST = 8,
  ROWS_MOST = 128,
  TIMES_LEAST = 3,
  TIMES_MOST = 400,
  WARM_UP = 1
};
static const double BUDGET_NS = 0.4e9; /* for one size */

static const struct {
  size_t rows, width;
} SIZES[] = {{1, 256},   {1, 512},   {1, 1024},  {1, 2048},  {1, 4096},   {1, 8192},
             {1, 16384}, {1, 32768}, {1, 65536}, {16, 2048}, {128, 2048}, {128, 8192}};
enum { N_SIZES = sizeof SIZES / sizeof SIZES[0] };

typedef struct bench bench;

/* One way of adding up. Its input is written anew before each turn, as the products of a step do:
 * each rank finds the others' in the others' caches. */
typedef struct way {
  char name[40];
  bool f32; /* what it adds; else int64 */
  void *(*input)(bench *b, const struct way *w);
  int (*run)(bench *b, const struct way *w, mt_err *e);
  mt_reduce *reduce;         /* of the exact ones */
  double sample[TIMES_MOST]; /* ns, this rank's */
  double us, low_us;         /* median and lower tenth of the slowest rank's; rank 0 */
} way;

struct bench {
  mt_session *s;
  size_t rows, width, n, times;
  way way[WAYS_MOST];
  int n_ways, chosen;     /* chosen: what the table takes, unless an option forces another */
  mt_comm_window *window; /* of the floors: two inputs [n] a rank, taken in turn */
  unsigned turn;
  const int64_t **part;   /* [members of the group] */
  void *in, *out;         /* [n] */
  size_t buffer_bytes;    /* of each */
  int exp[ROWS_MOST];     /* 0 */
  double *all;            /* [ranks][TIMES_MOST] */
  size_t *bytes, *offset; /* [ranks] */
  mt_json *list;          /* rank 0, with --json */
};

/* ---- the ways ------------------------------------------------------------------------------ */

static void *exact_input(bench *b, const way *w) {
  return mt_reduce_acc(w->reduce, b->rows);
}
static int exact_run(bench *b, const way *w, mt_err *e) {
  return mt_reduce_sum(w->reduce, b->rows, b->exp, 0, "bench", b->out, e);
}

static void *mpi_input(bench *b, const way *w) {
  (void)w;
  return b->in;
}
static int mpi_run(bench *b, const way *w, mt_err *e) {
  return mt_comm_mpi_sum(b->s->comm, b->in, b->out, b->n, w->f32, e);
}

static int64_t *floor_part(const bench *b, int member) {
  return (int64_t *)mt_comm_window_at(b->window, member) + b->turn % 2 * b->n;
}
static void *floor_input(bench *b, const way *w) {
  (void)w;
  return floor_part(b, mt_comm_group_rank(b->s->comm));
}
/* The result is left in the first cache, block over block: less cannot be done. */
static int floor_run(bench *b, const way *w, mt_err *e) {
  const mt_kernels *kn = b->s->kn;
  int members = mt_comm_group_size(b->s->comm);
  int32_t word = 0;
  for (int m = 0; m < members; m++) b->part[m] = floor_part(b, m);
  b->turn++;
  int rc = mt_comm_group_meet(b->s->comm, 0, &word, e);
  if (rc) return rc;
  for (size_t at = 0, n; at < b->n; at += n) {
    n = b->n - at < BLOCK ? b->n - at : BLOCK;
    if (!w->f32) {
      kn->sum_parts(b->part, (size_t)members, at, n, 62, b->out);
      continue;
    }
    memcpy(b->out, (const float *)(const void *)b->part[0] + at, n * sizeof(float));
    for (int m = 1; m < members; m++)
      kn->add(b->out, (const float *)(const void *)b->part[m] + at, n);
  }
  return MT_OK;
}

static way *add_way(bench *b, const char *name, bool f32, void *(*input)(bench *, const way *),
                    int (*run)(bench *, const way *, mt_err *)) {
  way *w = &b->way[b->n_ways++];
  w->input = input;
  w->run = run;
  w->f32 = f32;
  w->reduce = NULL;
  snprintf(w->name, sizeof w->name, "%s", name);
  return w;
}

/* One algorithm, unless an option forces another, or there is nothing to choose: inside a node of
 * one rank, or between nodes where there is one. */
static int add_algorithm(bench *b, mt_reduce_inside inside, mt_reduce_between between, mt_err *e) {
  static const char *const inside_name[] = {"", "one-phase", "two-phase"};
  static const char *const between_name[] = {"", "doubling", "scatter"};
  int members = mt_comm_group_size(b->s->comm), groups = mt_comm_groups(b->s->comm);
  mt_reduce_options asked = mt_session_reduce(b->s),
                    o = {asked.team, asked.kernels, inside, between};
  if ((asked.inside && asked.inside != inside) || (asked.between && asked.between != between))
    return MT_OK;
  if ((members == 1 && !asked.inside && inside != MT_INSIDE_ONE_PHASE) ||
      (groups == 1 && !asked.between && between != MT_BETWEEN_DOUBLING))
    return MT_OK;
  way *w = add_way(b, groups == 1 ? inside_name[inside] : between_name[between], false, exact_input,
                   exact_run);
  if (groups > 1 && members > 1)
    snprintf(w->name, sizeof w->name, "%s+%s", inside_name[inside], between_name[between]);
  if (inside == mt_reduce_choose_inside(asked.inside, members, b->n) &&
      (groups == 1 || between == mt_reduce_choose_between(asked.between, groups, b->n)))
    b->chosen = b->n_ways - 1;
  return mt_reduce_new(&w->reduce, b->s->comm, &o, b->rows, b->width, e);
}

static int open_size(bench *b, size_t rows, size_t width, mt_err *e) {
  int rc = MT_OK;
  b->rows = rows;
  b->width = width;
  b->n = rows * width;
  b->n_ways = b->chosen = 0;
  for (int i = 0; !rc && i < 4; i++)
    rc = add_algorithm(b, i < 2 ? MT_INSIDE_ONE_PHASE : MT_INSIDE_TWO_PHASE,
                       i % 2 ? MT_BETWEEN_SCATTER : MT_BETWEEN_DOUBLING, e);
  add_way(b, "MPI int64", false, mpi_input, mpi_run);
  add_way(b, "MPI f32", true, mpi_input, mpi_run);
  add_way(b, "floor int64", false, floor_input, floor_run);
  add_way(b, "floor f32", true, floor_input, floor_run);
  return rc ? rc : mt_comm_window_new(&b->window, b->s->comm, 2 * b->n * sizeof(int64_t), e);
}

static void close_size(bench *b) {
  for (int i = 0; i < b->n_ways; i++) mt_reduce_free(b->way[i].reduce);
  mt_comm_window_free(b->window);
  b->n_ways = 0;
  b->window = NULL;
}

/* ---- measuring ----------------------------------------------------------------------------- */

static void fill(bench *b, const way *w) {
  void *to = w->input(b, w);
  for (size_t i = 0; i < b->n; i++)
    if (w->f32)
      ((float *)to)[i] = (float)(i % 1000);
    else
      ((int64_t *)to)[i] = (int64_t)(i % 1000) << 20;
}

/* Each way once, so that what disturbs the machine disturbs them all. */
static int run_all(bench *b, size_t turn, mt_err *e) {
  int rc = MT_OK;
  for (int i = 0; !rc && i < b->n_ways; i++) {
    way *w = &b->way[i];
    fill(b, w);
    rc = mt_comm_barrier(b->s->comm, e);
    uint64_t start = mt_clock_ns();
    if (!rc) rc = w->run(b, w, e);
    w->sample[turn] = (double)(mt_clock_ns() - start);
  }
  return rc;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A sum has ended when it has on every rank. */
static int take_median(bench *b, way *w, mt_err *e) {
  int ranks = mt_comm_size(b->s->comm);
  for (int r = 0; r < ranks; r++) {
    b->bytes[r] = b->times * sizeof(double);
    b->offset[r] = (size_t)r * TIMES_MOST * sizeof(double);
  }
  int rc = mt_comm_gatherv(b->s->comm, w->sample, b->all, b->bytes, b->offset, 0, e);
  if (rc || !b->s->root) return rc;
  for (int r = 1; r < ranks; r++)
    for (size_t t = 0; t < b->times; t++) {
      double ns = b->all[(size_t)r * TIMES_MOST + t];
      if (ns > b->all[t]) b->all[t] = ns;
    }
  qsort(b->all, b->times, sizeof *b->all, by_value);
  w->us = b->all[b->times / 2] * 1e-3;
  w->low_us = b->all[b->times / 10] * 1e-3;
  return MT_OK;
}

/* Rank 0's warm-up says how often the time allows. */
static int measure(bench *b, mt_err *e) {
  int rc = MT_OK;
  uint64_t start = mt_clock_ns(), times;
  for (size_t t = 0; !rc && t < WARM_UP; t++) rc = run_all(b, t, e);
  double each = (double)(mt_clock_ns() - start) / WARM_UP;
  times = each * TIMES_MOST < BUDGET_NS ? TIMES_MOST : (uint64_t)(BUDGET_NS / each);
  if (times < TIMES_LEAST) times = TIMES_LEAST;
  if (!rc) rc = mt_comm_bcast(b->s->comm, &times, sizeof times, 0, e);
  b->times = times;
  for (size_t t = 0; !rc && t < times; t++) rc = run_all(b, t, e);
  for (int i = 0; !rc && i < b->n_ways; i++) rc = take_median(b, &b->way[i], e);
  return rc;
}

/* ---- printing: rank 0 ---------------------------------------------------------------------- */

/* MPI int64, MPI f32, floor int64, floor f32. */
static const way *first_compared(const bench *b) {
  return &b->way[b->n_ways - 4];
}

static int column(const way *w) {
  int n = (int)strlen(w->name);
  return n < 8 ? 8 : n;
}

static void print_row(const bench *b, bool head) {
  if (head) {
    printf("µs, medians of the slowest rank; * is what the table chooses\nrows  values");
    for (int i = 0; i < b->n_ways; i++) printf("  %*s ", column(&b->way[i]), b->way[i].name);
    printf("  exact/floor  MPI/exact\n");
  }
  printf("%4zu  %6zu", b->rows, b->width);
  for (int i = 0; i < b->n_ways; i++)
    printf("  %*.2f%c", column(&b->way[i]), b->way[i].us, i == b->chosen ? '*' : ' ');
  const way *w = first_compared(b);
  double exact = b->way[b->chosen].us;
  printf("  %11.2f  %9.2f\n", w[2].us > 0 ? exact / w[2].us : 0, exact > 0 ? w[0].us / exact : 0);
}

/* Microseconds by name; NULL where there is no memory. */
static mt_json *json_of_ways(const bench *b, bool low) {
  mt_json *j = mt_json_new_object();
  int rc = j ? MT_OK : MT_ENOMEM;
  for (int i = 0; !rc && i < b->n_ways; i++)
    rc = mt_json_set(j, b->way[i].name, mt_json_new_real(low ? b->way[i].low_us : b->way[i].us));
  if (!rc) return j;
  mt_json_free(j);
  return NULL;
}

static int append_row(bench *b) {
  mt_json *one = mt_json_new_object();
  int rc = one ? mt_json_set(one, "low", json_of_ways(b, true)) : MT_ENOMEM;
  const char *chosen = b->way[b->chosen].name;
  const way *compared = first_compared(b);
  if (!rc) rc = mt_set_int(one, "rows", b->rows);
  if (!rc) rc = mt_set_int(one, "values", b->width);
  if (!rc) rc = mt_set_int(one, "times", b->times);
  if (!rc) rc = mt_json_set(one, "chosen", mt_json_new_string(chosen, strlen(chosen)));
  if (!rc) rc = mt_json_set(one, "microseconds", mt_json_new_real(b->way[b->chosen].us));
  if (!rc) rc = mt_json_set(one, "mpi_int64_microseconds", mt_json_new_real(compared->us));
  if (!rc) rc = mt_json_set(one, "mpi_f32_microseconds", mt_json_new_real(compared[1].us));
  if (!rc) rc = mt_json_set(one, "floor_microseconds", mt_json_new_real(compared[2].us));
  if (!rc) rc = mt_json_set(one, "ways", json_of_ways(b, false));
  if (!rc) {
    rc = mt_json_append(b->list, one);
    one = NULL;
  }
  mt_json_free(one);
  return rc;
}

static int print_list(bench *b, mt_err *e) {
  mt_json *j = mt_json_new_object();
  int rc = j ? MT_OK : MT_ENOMEM;
  if (!rc) rc = mt_set_int(j, "ranks", (uint64_t)mt_comm_size(b->s->comm));
  if (!rc) rc = mt_set_int(j, "groups", (uint64_t)mt_comm_groups(b->s->comm));
  if (!rc) rc = mt_set_int(j, "threads", (uint64_t)mt_team_size(b->s->team));
  if (!rc) {
    rc = mt_json_set(j, "collectives", b->list);
    b->list = NULL;
  }
  if (!rc) return mt_print_json(j, e);
  mt_json_free(j);
  return mt_err_set(e, rc, "no memory for JSON");
}

/* ---- all sizes ------------------------------------------------------------------------------ */

static int open_bench(bench *b, mt_err *e) {
  size_t ranks = (size_t)mt_comm_size(b->s->comm), most = 0;
  for (int i = 0; i < N_SIZES; i++)
    if (SIZES[i].rows * SIZES[i].width > most) most = SIZES[i].rows * SIZES[i].width;
  b->buffer_bytes = most * sizeof(int64_t);
  b->in = mt_pages_alloc(b->buffer_bytes);
  b->out = mt_pages_alloc(b->buffer_bytes);
  b->part = mt_calloc(ranks, sizeof *b->part);
  b->all = mt_malloc(ranks * TIMES_MOST, sizeof *b->all);
  b->bytes = mt_calloc(ranks, sizeof *b->bytes);
  b->offset = mt_calloc(ranks, sizeof *b->offset);
  bool ok = b->in && b->out && b->part && b->all && b->bytes && b->offset;
  if (b->s->root && mt_opt_flag(b->s->opt, "json")) ok = (b->list = mt_json_new_array()) && ok;
  int rc = ok ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory to measure sums over ranks");
  return mt_comm_agree(b->s->comm, rc, e);
}

static int run_size(bench *b, int i, mt_err *e) {
  int rc = open_size(b, SIZES[i].rows, SIZES[i].width, e);
  if (!rc) rc = measure(b, e);
  if (!rc && b->list && append_row(b)) rc = mt_err_set(e, MT_ENOMEM, "no memory for JSON");
  if (!rc && b->s->root && !b->list) print_row(b, i == 0);
  close_size(b);
  return mt_comm_agree(b->s->comm, rc, e);
}

int mt_bench_collectives(mt_session *s, mt_err *e) {
  bench *b = mt_calloc(1, sizeof *b);
  int rc = b ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory to measure sums over ranks");
  rc = mt_comm_agree(s->comm, rc, e);
  if (b) b->s = s;
  if (!rc) rc = open_bench(b, e);
  for (int i = 0; !rc && i < N_SIZES; i++) rc = run_size(b, i, e);
  if (!rc && b->list) rc = print_list(b, e);
  if (b) {
    mt_json_free(b->list);
    mt_pages_free(b->in, b->buffer_bytes);
    mt_pages_free(b->out, b->buffer_bytes);
    free((void *)b->part);
    free(b->all);
    free(b->bytes);
    free(b->offset);
  }
  free(b);
  return rc;
}
