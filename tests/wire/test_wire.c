/* Step plans and greetings: pack then unpack gives the same; what is broken is refused by name. */
#include "mt_test.h"
#include "mutirao/wire.h"

static unsigned long long seed;

static uint32_t pick(uint32_t i, uint32_t what, uint32_t n) {
  return (uint32_t)(mt_uniform(seed, what, i, 0) * n);
}

static mt_step_plan make_plan(uint32_t i, size_t rows, size_t commands) {
  mt_step_plan p = {
      .step = (uint64_t)i << 33, .kind = MT_STEP_RUN, .n_rows = rows, .n_commands = commands};
  p.token = mt_calloc(rows, 4);
  p.position = mt_calloc(rows, 4);
  p.sequence = mt_calloc(rows, 4);
  p.flags = mt_calloc(rows, 4);
  p.planned = mt_calloc(rows, 4);
  p.command = mt_calloc(commands, sizeof *p.command);
  for (uint32_t k = 0; k < rows; k++) {
    p.token[k] = pick(k, i, 300000);
    p.position[k] = k == 0 ? MT_WIRE_NUMBER_MOST : pick(k, i + 1000, 100000);
    p.sequence[k] = pick(k, i + 2000, 64);
    p.planned[k] = pick(k, i + 3000, 4096);
    p.flags[k] = k % 3 == 0 ? MT_ROW_LOGITS : 0;
    p.planned[k] = pick(k, i + 3000, 4096);
  }
  for (uint32_t k = 0; k < commands; k++) {
    static const mt_cache_command sample[] = {
        {MT_CACHE_FREE, 4, 0, 0}, {MT_CACHE_FORK, 7, 3, 100}, {MT_CACHE_TRUNCATE, 0, 0, 55}};
    p.command[k] = sample[k % 3];
  }
  return p;
}

static void check_same(const mt_step_plan *a, const mt_step_plan *b) {
  CU_ASSERT_EQUAL(a->step, b->step);
  CU_ASSERT_EQUAL(a->kind, b->kind);
  CU_ASSERT_EQUAL_FATAL(a->n_rows, b->n_rows);
  CU_ASSERT_EQUAL_FATAL(a->n_commands, b->n_commands);
  CU_ASSERT(!memcmp(a->token, b->token, 4 * a->n_rows));
  CU_ASSERT(!memcmp(a->position, b->position, 4 * a->n_rows));
  CU_ASSERT(!memcmp(a->sequence, b->sequence, 4 * a->n_rows));
  CU_ASSERT(!memcmp(a->flags, b->flags, 4 * a->n_rows));
  CU_ASSERT(!memcmp(a->planned, b->planned, 4 * a->n_rows));
  CU_ASSERT(!memcmp(a->planned, b->planned, 4 * a->n_rows));
  for (size_t i = 0; i < a->n_commands; i++) {
    CU_ASSERT_EQUAL(a->command[i].op, b->command[i].op);
    CU_ASSERT_EQUAL(a->command[i].sequence, b->command[i].sequence);
    CU_ASSERT_EQUAL(a->command[i].source, b->command[i].source);
    CU_ASSERT_EQUAL(a->command[i].length, b->command[i].length);
  }
}

static void test_round_trip(void) {
  static const size_t rows[] = {0, 1, 2, 33, 512, 5000}, commands[] = {0, 1, 3, 0, 70, 2};
  seed = mt_test_seed();
  for (uint32_t i = 0; i < 6; i++) {
    mt_step_plan p = make_plan(i, rows[i], commands[i]), q;
    mt_buf b = {0};
    CU_ASSERT_EQUAL_FATAL(mt_wire_pack_step(&p, &b, NULL), MT_OK);
    CU_ASSERT_EQUAL_FATAL(mt_wire_unpack_step(b.data, b.len, &q, NULL), MT_OK);
    check_same(&p, &q);
    mt_step_plan_free(&q);
    CU_ASSERT_PTR_NULL(q.token);
    mt_step_plan_free(&p);
    mt_buf_free(&b);
  }
}

static void test_kinds(void) {
  for (int k = MT_STEP_STOP; k <= MT_STEP_ATTENTION; k++) {
    mt_step_plan p = {.step = 9, .kind = (mt_step_kind)k, .argument = k >= MT_STEP_PROBE ? 7 : 0},
                 q;
    mt_buf b = {0};
    CU_ASSERT_EQUAL_FATAL(mt_wire_pack_step(&p, &b, NULL), MT_OK);
    CU_ASSERT_EQUAL_FATAL(mt_wire_unpack_step(b.data, b.len, &q, NULL), MT_OK);
    CU_ASSERT_EQUAL(q.kind, p.kind);
    CU_ASSERT_EQUAL(q.step, 9);
    CU_ASSERT_EQUAL(q.argument, p.argument);
    CU_ASSERT_EQUAL(q.argument, p.argument);
    mt_step_plan_free(&q);
    mt_buf_free(&b);
  }
}

/* Bytes as Protocol Buffers' own documentation says they are: field 1 varint 1 (version), field 2
 * varint 300 (step), field 3 varint 1 (kind), fields 4 to 7 packed [5], [6], [0], [1], field 9
 * packed [8]. */
static void test_format(void) {
  static const unsigned char want[] = {0x08, 1, 0x10, 0xac, 2, 0x18, 1, 0x22, 1,    5, 0x2a,
                                       1,    6, 0x32, 1,    0, 0x3a, 1, 1,    0x4a, 1, 8};
  mt_step_plan p = make_plan(0, 1, 0);
  mt_buf b = {0};
  p.step = 300;
  p.token[0] = 5;
  p.position[0] = 6;
  p.sequence[0] = 0;
  p.planned[0] = 8;
  CU_ASSERT_EQUAL(mt_wire_pack_step(&p, &b, NULL), MT_OK);
  CU_ASSERT_EQUAL_FATAL(b.len, sizeof want);
  CU_ASSERT(!memcmp(b.data, want, sizeof want));
  mt_step_plan_free(&p);
  mt_buf_free(&b);
}

static int unpack(const void *data, size_t n, mt_err *e) {
  mt_step_plan q;
  int rc = mt_wire_unpack_step(data, n, &q, e);
  CU_ASSERT(rc == MT_OK || (!q.token && !q.n_rows));
  mt_step_plan_free(&q);
  return rc;
}

static void test_refuses_bytes(void) {
  static const struct {
    unsigned char bytes[28];
    size_t n;
    int code;
    const char *says;
  } bad[] = {
      {{0}, 0, MT_EUNSUPPORTED, "version 0"},
      {{0x08, 2, 0x18, 1}, 4, MT_EUNSUPPORTED, "version 2"},
      {{0x08, 1}, 2, MT_EFORMAT, "kind of step, 0"},
      {{0x08, 1, 0x18, 9}, 4, MT_EFORMAT, "kind of step, 9"},
      {{0x08, 1, 0x18, 1, 0x22, 2, 5, 6, 0x2a, 1, 1}, 11, MT_EFORMAT, "2 tokens, 1 positions"},
      {{0x08, 1, 0x18, 1, 0x22, 1, 5, 0x2a, 1, 6, 0x32, 1, 0, 0x3a, 1, 1},
       16,
       MT_EFORMAT,
       "1 flags, 0 plans"},
      {{0x08, 1, 0x18, 2, 0x22, 1, 5, 0x2a, 1, 6, 0x32, 1, 0, 0x3a, 1, 1, 0x4a, 1, 8},
       19,
       MT_EFORMAT,
       "kind 2 with rows"},
      {{0x08, 1, 0x18, 1, 0x50, 1}, 6, MT_EFORMAT, "kind 1 with an argument"},
      {{0x08, 1, 0x18, 1, 0x22, 1, 5, 0x2a, 1, 6, 0x32, 1, 0, 0x3a, 1, 2, 0x4a, 1, 8},
       19,
       MT_EFORMAT,
       "flags"},
      {{0x08, 1, 0x18, 1, 0x22, 5,    0xff, 0xff, 0xff, 0xff, 0xf, 0x2a,
        1,    6, 0x32, 1, 0,    0x3a, 1,    1,    0x4a, 1,    8},
       23,
       MT_ERANGE,
       "row 0"},
      {{0x08, 1, 0x18, 1, 0x42, 0}, 6, MT_EFORMAT, "operation 0"},
      {{0x08, 1, 0x18, 1, 0x42, 2, 0x08, 7}, 8, MT_EFORMAT, "operation 7"},
      {{0x08, 1, 0x18, 1, 0x42, 6, 0x08, 2, 0x10, 3, 0x18, 3}, 12, MT_EFORMAT, "itself"},
      {{0x08, 1, 0x18, 1, 0x42, 4, 0x08, 1, 0x20, 3}, 10, MT_EFORMAT, "field"},
      {{0x08, 1, 0x18, 1, 0x22, 100, 5}, 7, MT_EFORMAT, "no step plan"},
      {{0xff, 0xff, 0xff}, 3, MT_EFORMAT, "no step plan"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    mt_err e = {0};
    CU_ASSERT_EQUAL(unpack(bad[i].bytes, bad[i].n, &e), bad[i].code);
    if (!strstr(e.msg, bad[i].says)) printf("\ncase %zu says: %s\n", i, e.msg);
    CU_ASSERT(strstr(e.msg, bad[i].says) != NULL);
  }
}

static void test_refuses_size(void) {
  mt_err e = {0};
  char *big = mt_calloc(MT_WIRE_BYTES_MOST + 1ull, 1);
  CU_ASSERT_FATAL(big != NULL);
  CU_ASSERT_EQUAL(unpack(big, MT_WIRE_BYTES_MOST + 1ull, &e), MT_ERANGE);
  /* One row more than allowed: a packed field of bytes 0. */
  size_t rows = MT_WIRE_ROWS_MOST + 1, at = 0;
  static const unsigned char head[] = {0x08, 1, 0x18, 1};
  memcpy(big, head, sizeof head);
  at = sizeof head;
  static const int fields[] = {4, 5, 6, 7, 9};
  for (int f = 0; f < 5; f++) {
    big[at++] = (char)(fields[f] << 3 | 2);
    for (size_t v = rows; v; v >>= 7) big[at++] = (char)((v & 127) | (v > 127 ? 128 : 0));
    at += rows;
  }
  CU_ASSERT_EQUAL(unpack(big, at, &e), MT_ERANGE);
  CU_ASSERT(strstr(e.msg, "1048577 rows") != NULL);
  free(big);
}

/* Every truncation and every flipped bit is either refused or a plan that packs again. */
static void test_damage(void) {
  mt_step_plan p = make_plan(5, 9, 4);
  mt_buf b = {0}, again = {0};
  CU_ASSERT_EQUAL_FATAL(mt_wire_pack_step(&p, &b, NULL), MT_OK);
  for (size_t n = 0; n < b.len; n++) {
    mt_step_plan q;
    if (!mt_wire_unpack_step(b.data, n, &q, NULL)) {
      CU_ASSERT_EQUAL(mt_wire_pack_step(&q, &again, NULL), MT_OK);
      CU_ASSERT(again.len <= n);
    }
    mt_step_plan_free(&q);
  }
  for (size_t bit = 0; bit < 8 * b.len; bit++) {
    mt_step_plan q;
    b.data[bit / 8] ^= (char)(1 << bit % 8);
    if (!mt_wire_unpack_step(b.data, b.len, &q, NULL))
      CU_ASSERT_EQUAL(mt_wire_pack_step(&q, &again, NULL), MT_OK);
    mt_step_plan_free(&q);
    b.data[bit / 8] ^= (char)(1 << bit % 8);
  }
  mt_step_plan_free(&p);
  mt_buf_free(&b);
  mt_buf_free(&again);
}

static void test_refuses_plans(void) {
  mt_buf b = {0};
  mt_err e = {0};
  mt_step_plan p = make_plan(1, 2, 1);
  p.flags[1] = 8;
  CU_ASSERT_EQUAL(mt_wire_pack_step(&p, &b, &e), MT_EINVAL);
  p.flags[1] = 0;
  p.sequence[1] = 1u << 31;
  CU_ASSERT_EQUAL(mt_wire_pack_step(&p, &b, &e), MT_ERANGE);
  p.sequence[1] = 0;
  p.command[0].op = 0;
  CU_ASSERT_EQUAL(mt_wire_pack_step(&p, &b, &e), MT_EINVAL);
  p.command[0].op = MT_CACHE_FREE;
  p.kind = MT_STEP_STOP;
  CU_ASSERT_EQUAL(mt_wire_pack_step(&p, &b, &e), MT_EINVAL);
  p.kind = MT_STEP_RUN;
  CU_ASSERT_EQUAL(mt_wire_pack_step(&p, &b, &e), MT_OK);
  mt_step_plan_free(&p);
  mt_buf_free(&b);
}

static void test_hello(void) {
  mt_hello h = {"0.1.0 α", "avx2", ~0ull, 1, 0, 4}, g;
  mt_buf b = {0};
  mt_err e = {0};
  CU_ASSERT_EQUAL_FATAL(mt_wire_pack_hello(&h, &b, NULL), MT_OK);
  CU_ASSERT_EQUAL_FATAL(mt_wire_unpack_hello(b.data, b.len, &g, NULL), MT_OK);
  CU_ASSERT_STRING_EQUAL(g.program, h.program);
  CU_ASSERT_STRING_EQUAL(g.isa, h.isa);
  CU_ASSERT_EQUAL(g.kernel_hash, ~0ull);
  CU_ASSERT_EQUAL(g.model_hash, 1);
  CU_ASSERT_EQUAL(g.threads, 4);
  strcpy(g.isa, "avx512");
  g.threads = 1;
  CU_ASSERT_EQUAL(mt_wire_compare_hello(&h, &g, 3, &e), MT_OK);
  g.kernel_hash = 5;
  CU_ASSERT_EQUAL(mt_wire_compare_hello(&h, &g, 3, &e), MT_EINVAL);
  CU_ASSERT(strstr(e.msg, "avx2 here, avx512 there") && strstr(e.msg, "rank 3"));
  g = h;
  g.model_hash++;
  CU_ASSERT_EQUAL(mt_wire_compare_hello(&h, &g, 3, &e), MT_EINVAL);
  CU_ASSERT(strstr(e.msg, "models") != NULL);
  g = h;
  g.config_hash++;
  CU_ASSERT_EQUAL(mt_wire_compare_hello(&h, &g, 3, &e), MT_EINVAL);
  CU_ASSERT(strstr(e.msg, "another command") != NULL);
  g = h;
  strcpy(g.program, "0.2");
  CU_ASSERT_EQUAL(mt_wire_compare_hello(&h, &g, 3, &e), MT_EINVAL);
  CU_ASSERT(strstr(e.msg, "0.2 on rank 3") != NULL);
  CU_ASSERT_EQUAL(mt_wire_unpack_hello("\x08\x05", 2, &g, &e), MT_EUNSUPPORTED);
  CU_ASSERT_EQUAL(mt_wire_unpack_hello("\x08\x01\x12\x02\xff\xfe", 6, &g, &e), MT_EFORMAT);
  char longer[80] = "\x08\x01\x12\x46";
  memset(longer + 4, 'a', 70);
  CU_ASSERT_EQUAL(mt_wire_unpack_hello(longer, 74, &g, &e), MT_ERANGE);
  memset(h.isa, 'x', sizeof h.isa);
  CU_ASSERT_EQUAL(mt_wire_pack_hello(&h, &b, &e), MT_EINVAL);
  mt_buf_free(&b);
}

MT_TEST_MAIN("wire", {"round trip", test_round_trip}, {"kinds", test_kinds},
             {"format", test_format}, {"refuses bytes", test_refuses_bytes},
             {"refuses size", test_refuses_size}, {"damage", test_damage},
             {"refuses plans", test_refuses_plans}, {"hello", test_hello})
