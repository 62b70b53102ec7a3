/* The exact all-reduce against a serial oracle: the same bits by every algorithm, on any number of
 * ranks, groups and threads, and failures that every rank learns of. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <sched.h>

#include "mpi_test.h"
#include "mutirao/reduce.h"
#include "mutirao/shard.h"

enum { MAX_ROWS = 70, WIDTH = 577 };
static uint64_t seed = 20261130;

/* One oracle for all: long double holds every int64 exactly, the scaling is exact, the conversion
 * rounds once. */
static float oracle(__int128 sum, int exp) {
  return (float)ldexpl((long double)(int64_t)sum, exp);
}

/* Element i of rank r: magnitudes from a few to `bits` bits. */
static int64_t element(int r, size_t i, int bits) {
  uint32_t counter[4] = {(uint32_t)i, (uint32_t)r, (uint32_t)bits, 1};
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];
  mt_philox4x32(counter, key, out);
  uint64_t v = (uint64_t)out[0] << 32 | out[1];
  int64_t magnitude = (int64_t)(v >> (64 - 1 - (int)(out[2] % (uint32_t)bits)));
  return out[3] & 1 ? magnitude : -magnitude;
}

static bool same_bits(const float *a, const float *b, size_t n) {
  return !memcmp(a, b, n * sizeof *a);
}

/* Sums of whole numbers of up to `bits` bits with one exponent a row, from `exp` on. */
static void check_integers(mt_comm *c, mt_reduce *r, size_t rows, int bits, int exp0) {
  static float out[MAX_ROWS * WIDTH], want[MAX_ROWS * WIDTH];
  static int exp[MAX_ROWS];
  mt_err e = {0};
  int64_t *acc = mt_reduce_acc(r, rows);
  for (size_t i = 0; i < rows; i++) exp[i] = exp0 + (int)i % 9;
  for (size_t i = 0; i < rows * WIDTH; i++) {
    __int128 sum = 0;
    for (int k = 0; k < mt_comm_size(c); k++) sum += element(k, i, bits);
    want[i] = oracle(sum, exp[i / WIDTH]);
    acc[i] = element(mt_comm_rank(c), i, bits);
  }
  CHECK(mt_reduce_sum(r, rows, exp, 0, "test", out, &e) == MT_OK);
  CHECK(same_bits(out, want, rows * WIDTH));
}

/* Just above a tie of f32, by less than double can tell: rounding twice would go down. */
static void check_ties(mt_comm *c, mt_reduce *r) {
  static float out[WIDTH];
  int exp = -20;
  int64_t *acc = mt_reduce_acc(r, 1);
  bool last = mt_comm_rank(c) == mt_comm_size(c) - 1;
  for (size_t i = 0; i < WIDTH; i++)
    acc[i] = last ? (i % 2 ? -1 : 1) * ((1ll << 57) + (1ll << 33)) : 0;
  for (size_t i = 0; last && i < WIDTH; i++) acc[i] += (int64_t)(i % 5) - 2;
  CHECK(mt_reduce_sum(r, 1, &exp, 0, "ties", out, NULL) == MT_OK);
  for (size_t i = 0; i < WIDTH; i++) {
    int64_t sum = (i % 2 ? -1 : 1) * ((1ll << 57) + (1ll << 33)) + (int64_t)(i % 5) - 2;
    CHECK(out[i] == oracle(sum, exp));
  }
}

/* 24 units a element, dealt to the ranks as the model deals them: the result is that of one rank.
 */
static void check_units(mt_comm *c, mt_reduce *r) {
  enum { UNITS = 24 };
  static float out[WIDTH], want[WIDTH];
  mt_range own = mt_shard_deal(UNITS, (uint32_t)mt_comm_size(c), (uint32_t)mt_comm_rank(c));
  int64_t *acc = mt_reduce_acc(r, 1);
  int exp = mt_reduce_quantum_exp(0.37f);
  for (size_t i = 0; i < WIDTH; i++) {
    int64_t sum = 0;
    acc[i] = 0;
    for (uint32_t u = 0; u < UNITS; u++) {
      double x = (mt_uniform(seed, u, i, 7) - 0.5) * 40;
      for (int k = 0; k > exp; k--) x *= 2;
      int64_t q = (int64_t)x;
      sum += q;
      if (u >= own.begin && u < own.end) acc[i] += q;
    }
    want[i] = oracle(sum, exp);
  }
  CHECK(mt_reduce_sum(r, 1, &exp, 0, "units", out, NULL) == MT_OK);
  CHECK(same_bits(out, want, WIDTH));
}

static void clear(mt_reduce *r) {
  memset(mt_reduce_acc(r, 1), 0, WIDTH * sizeof(int64_t));
}

static void expect_failure(mt_comm *c, int rc, const mt_err *e, int rank) {
  char head[80];
  snprintf(head, sizeof head, "layer 7, MLP: rank %d on %s: ", rank, mt_comm_rank_host(c, rank));
  CHECK(rc == MT_ENUMERIC);
  CHECK(e->code == MT_ENUMERIC && !strncmp(e->msg, head, strlen(head)));
}

/* Each rank in turn is the lowest that failed. */
static void check_failures(mt_comm *c, mt_reduce *r) {
  static float out[WIDTH];
  int n = mt_comm_size(c), me = mt_comm_rank(c), exp = -32;
  for (int bad = 0; bad < n; bad++) {
    mt_err e = {0};
    clear(r);
    bool fails = me == bad || (me > bad && me % 2);
    expect_failure(c, mt_reduce_sum(r, 1, &exp, fails, "layer 7, MLP", out, &e), &e, bad);
    for (int sign = -1; sign <= 1; sign += 2) { /* too large to be summed safely */
      clear(r);
      if (me >= bad) mt_reduce_acc(r, 1)[(size_t)(bad * 83) % WIDTH] = sign * ((1ll << 62) + 1);
      expect_failure(c, mt_reduce_sum(r, 1, &exp, 0, "layer 7, MLP", out, &e), &e, bad);
    }
  }
  clear(r);
  for (size_t i = 0; i < WIDTH; i++)
    mt_reduce_acc(r, 1)[i] = (1ll << 58) / 16; /* just not too large */
  CHECK(mt_reduce_sum(r, 1, &exp, 0, "", out, NULL) == MT_OK);
  CHECK(out[0] == oracle((__int128)n << 54, exp));
}

static void check_range(mt_comm *c, mt_reduce *r) {
  static float out[WIDTH];
  mt_err e = {0};
  clear(r);
  int exp = 127;
  if (mt_comm_rank(c) == 0) mt_reduce_acc(r, 1)[5] = 1;
  CHECK(mt_reduce_sum(r, 1, &exp, 0, "x", out, &e) == MT_OK && out[5] == 0x1p127f && out[6] == 0);
  clear(r);
  if (mt_comm_rank(c) == 0) mt_reduce_acc(r, 1)[WIDTH - 1] = -2; /* −2^128 is no f32 */
  CHECK(mt_reduce_sum(r, 1, &exp, 0, "x", out, &e) == MT_ENUMERIC);
  CHECK(strstr(e.msg, "too large for 32-bit") != NULL);
  clear(r);
  exp = INT_MIN;
  CHECK(mt_reduce_sum(r, 1, &exp, 0, "x", out, &e) == MT_ENUMERIC);
  CHECK(mt_reduce_sum(r, MAX_ROWS + 1, &exp, 0, "x", out, &e) == MT_ERANGE);
}

static void check_sent_is_received(mt_comm *c) {
  mt_comm_stats s = mt_comm_get_stats(c), all[64];
  size_t bytes[64], offset[64];
  uint64_t sent = 0, received = 0;
  for (int r = 0; r < mt_comm_size(c); r++) {
    bytes[r] = sizeof s;
    offset[r] = sizeof s * (size_t)r;
  }
  CHECK(mt_comm_allgatherv(c, &s, all, bytes, offset, NULL) == MT_OK);
  for (int r = 0; r < mt_comm_size(c); r++) {
    sent += all[r].sent_bytes;
    received += all[r].received_bytes;
  }
  CHECK(sent == received);
  CHECK(mt_comm_size(c) == 1 ? sent == 0 : sent > 0);
}

/* Sums of all lengths in any order, while ranks are late in turn: nobody fills an accumulator that
 * another still reads. */
static void check_order(mt_comm *c, mt_reduce *r) {
  static float out[MAX_ROWS * WIDTH];
  static const int exp[MAX_ROWS]; /* all 0 */
  int n = mt_comm_size(c), me = mt_comm_rank(c);
  for (uint64_t i = 0; i < 200; i++) {
    size_t rows = mt_uniform(seed, 3, i, 0) < 0.7 ? 1 + i % 3 : 1 + i * 7 % MAX_ROWS, wrong = 0;
    for (double y = mt_uniform(seed, 4 + (uint32_t)me, i, 0) * 4; y > 1; y--) sched_yield();
    int64_t *acc = mt_reduce_acc(r, rows);
    for (size_t k = 0; k < rows * WIDTH; k++) acc[k] = (int64_t)(k + i * 99) + me;
    CHECK(mt_reduce_sum(r, rows, exp, 0, "order", out, NULL) == MT_OK);
    for (size_t k = 0; k < rows * WIDTH; k++)
      wrong += out[k] != (float)((int64_t)(k + i * 99) * n + n * (n - 1) / 2);
    CHECK(wrong == 0);
  }
}

enum { FIRST_TILE = 33, TILE_TURNS = 12 };

static void fill_tile(mt_comm *c, mt_reduce *r, size_t first, size_t rows, int turn) {
  int64_t *acc = mt_reduce_tile_acc(r, first);
  for (size_t k = 0; k < rows * WIDTH; k++)
    acc[k] = element(mt_comm_rank(c), first * WIDTH + k, 20 + turn);
}

static bool tile_is_right(mt_comm *c, const float *out, const int *exp, size_t first, size_t rows,
                          int turn) {
  bool right = true;
  for (size_t k = 0; k < rows * WIDTH; k++) {
    __int128 sum = 0;
    for (int m = 0; m < mt_comm_size(c); m++) sum += element(m, first * WIDTH + k, 20 + turn);
    right &= out[k] == oracle(sum, exp[first + k / WIDTH]);
  }
  return right;
}

/* Tiles in turn, as the halves of layers: while one is under way the other is filled. In some turns
 * a rank fails: the sum says so when it is finished, and the next one is right again. */
static void check_tiles(mt_comm *c, mt_reduce *r) {
  static float out[MAX_ROWS * WIDTH];
  static int exp[MAX_ROWS];
  mt_err e = {0};
  CHECK(mt_reduce_tiles(r, 20) == 1);
  CHECK(mt_reduce_finish(r, &e) == MT_OK);
  if (mt_reduce_tiles(r, MAX_ROWS) == 1) return;
  for (size_t i = 0; i < MAX_ROWS; i++) exp[i] = -30 + (int)i % 7;
  for (int turn = 0; turn <= TILE_TURNS; turn++) {
    size_t first[] = {0, FIRST_TILE}, rows[] = {FIRST_TILE, MAX_ROWS - FIRST_TILE};
    int own = turn % 2, other = 1 - own, bad = turn % 5 == 3 ? turn % mt_comm_size(c) : -1,
        bad_before = turn % 5 == 4 ? (turn - 1) % mt_comm_size(c) : -1;
    if (turn < TILE_TURNS) fill_tile(c, r, first[own], rows[own], turn);
    for (int i = 0; i < turn * (1 + mt_comm_rank(c)); i++) mt_reduce_poll(r);
    int rc = mt_reduce_finish(r, &e);
    if (bad_before >= 0)
      expect_failure(c, rc, &e, bad_before);
    else
      CHECK(rc == MT_OK);
    if (turn && bad_before < 0)
      CHECK(tile_is_right(c, out + first[other] * WIDTH, exp, first[other], rows[other], turn - 1));
    if (turn == TILE_TURNS) break;
    CHECK(mt_reduce_begin(r, first[own], rows[own], exp + first[own], bad == mt_comm_rank(c),
                          "layer 7, MLP", out + first[own] * WIDTH, &e) == MT_OK);
  }
  CHECK(mt_reduce_begin(r, 1, MAX_ROWS, exp, 0, "too long", out, &e) == MT_ERANGE);
}

/* Where tiles are worth while: between groups, by the algorithm that has stages. */
static void check_tiles_are_cut(mt_comm *c, const mt_reduce *r, mt_reduce_between between) {
  bool cut = mt_comm_groups(c) > 1 && between != MT_BETWEEN_DOUBLING;
  CHECK(mt_reduce_tiles(r, MAX_ROWS) == (cut ? 2 : 1));
}

static void check_all(mt_comm *c, const mt_reduce_options *o) {
  mt_reduce *r = NULL;
  mt_err e = {0};
  CHECK(mt_reduce_new(&r, c, o, MAX_ROWS, WIDTH, &e) == MT_OK);
  if (!r) return;
  for (size_t rows = 0; rows <= 3; rows++) check_integers(c, r, rows, 40, -40);
  check_integers(c, r, MAX_ROWS, 58, -44);
  check_integers(c, r, 1, 30, -158); /* subnormal results */
  check_integers(c, r, 9, 58, -170);
  check_integers(c, r, 5, 20, 90);
  check_ties(c, r);
  check_units(c, r);
  check_failures(c, r);
  check_range(c, r);
  check_order(c, r);
  check_tiles_are_cut(c, r, o->between);
  check_tiles(c, r);
  check_integers(c, r, 2, 45, -50);
  mt_reduce_free(r);
}

/* Every algorithm, with a team or without, for one rank count and grouping. */
static void check_algorithms(mt_comm *c, const mt_kernels *kn, mt_team *team) {
  int between = mt_comm_groups(c) > 1 ? MT_BETWEEN_SCATTER : MT_BETWEEN_AUTO;
  for (int i = MT_INSIDE_AUTO; i <= MT_INSIDE_TWO_PHASE; i++)
    for (int b = MT_BETWEEN_AUTO; b <= between; b++) {
      mt_reduce_options o = {team, kn, (mt_reduce_inside)i, (mt_reduce_between)b};
      check_all(c, &o);
    }
}

static void check_odd_widths(mt_comm *c, const mt_reduce_options *o) {
  for (size_t width = 1; width <= 130; width += 43) {
    mt_reduce *r = NULL;
    float out[130];
    int exp = 0;
    CHECK(mt_reduce_new(&r, c, o, 1, width, NULL) == MT_OK);
    if (!r) continue;
    for (size_t i = 0; i < width; i++) mt_reduce_acc(r, 1)[i] = (int64_t)i + mt_comm_rank(c);
    CHECK(mt_reduce_sum(r, 1, &exp, 0, "", out, NULL) == MT_OK);
    int n = mt_comm_size(c);
    for (size_t i = 0; i < width; i++) CHECK(out[i] == (float)((int)i * n + n * (n - 1) / 2));
    mt_reduce_free(r);
  }
  mt_reduce *none = NULL;
  CHECK(mt_reduce_new(&none, c, o, SIZE_MAX / 4, 8, NULL) != MT_OK);
  CHECK(mt_reduce_new(&none, c, o, 1, 0, NULL) == MT_ERANGE);
  CHECK(none == NULL);
}

int main(int argc, char **argv) {
  mt_comm *c = test_open(argc, argv);
  if (mt_comm_rank(c) == 0) printf("seed %llu\n", (unsigned long long)seed);
  const mt_kernels *kn = NULL;
  CHECK(mt_kernels_get(NULL, &kn, NULL) == MT_OK);
  mt_team *team = NULL;
  CHECK(mt_team_new(&team, NULL, 2, NULL, true, NULL) == MT_OK);
  check_algorithms(c, kn, NULL);
  check_algorithms(c, kn, team);
  mt_team_free(team);
  check_odd_widths(c, &(mt_reduce_options){.kernels = kn});
  check_sent_is_received(c);
  return test_close(c);
}
