/* Kept slices: what was written comes back; what is damaged, shortened, made from or for something
 * else is refused; what stands there stays until a new one is finished. */

#include "files.h"

static const mt_slice_key KEY = {1000, 77, 0x1234, 0x5678, 1, 3};

/* `bytes` bytes that differ from chunk to chunk. */
static uint8_t *content(size_t bytes) {
  uint8_t *p = malloc(bytes + 1);
  if (!p) exit(2);
  for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)(i * 7 + i / MT_SLICE_CHUNK + i / 251);
  return p;
}

static void keep(const char *path, const mt_slice_key *key, const uint8_t *p, size_t bytes) {
  mt_err e = {0};
  mt_slice *s = NULL;
  CU_ASSERT_EQUAL_FATAL(mt_slice_create(&s, path, key, bytes, &e), MT_OK);
  CU_ASSERT_PTR_NOT_NULL_FATAL(s);
  for (size_t c = mt_slice_chunks(s); c-- > 0;) /* any order */
    CU_ASSERT_EQUAL(mt_slice_write(s, c, p + c * MT_SLICE_CHUNK, &e), MT_OK);
  CU_ASSERT_EQUAL(mt_slice_finish(s, &e), MT_OK);
  mt_slice_close(s);
}

/* MT_OK if all of it comes back as it was written; else what refused it. */
static int check(const char *path, const mt_slice_key *key, const uint8_t *p, size_t bytes,
                 mt_err *e) {
  mt_slice *s = NULL;
  uint8_t *got = calloc(bytes + 1, 1);
  int rc = mt_slice_open(&s, path, key, bytes, e);
  if (!rc && !s) rc = mt_err_set(e, MT_EIO, "absent");
  for (size_t c = 0; !rc && c < mt_slice_chunks(s); c++)
    rc = mt_slice_read(s, c, got + c * MT_SLICE_CHUNK, e);
  if (!rc) CU_ASSERT(!memcmp(got, p, bytes));
  mt_slice_close(s);
  free(got);
  return rc;
}

static void refused(const char *path, const mt_slice_key *key, size_t bytes, int code,
                    const char *words) {
  mt_err e = {0};
  uint8_t *p = content(bytes);
  int rc = check(path, key, p, bytes, &e);
  bool ok = rc == code && strstr(e.msg, words) && strstr(e.msg, path);
  if (!ok) printf("\n  got %d '%s', wanted %d '%s'\n", rc, e.msg, code, words);
  CU_ASSERT(ok);
  free(p);
}

static void test_round_trip(void) {
  static const size_t BYTES[] = {0,
                                 1,
                                 4096,
                                 MT_SLICE_CHUNK - 1,
                                 MT_SLICE_CHUNK,
                                 MT_SLICE_CHUNK + 1,
                                 3 * MT_SLICE_CHUNK + 4097};
  for (size_t i = 0; i < sizeof BYTES / sizeof BYTES[0]; i++) {
    uint8_t *p = content(BYTES[i]);
    mt_err e = {0};
    keep(scratch("a.slice"), &KEY, p, BYTES[i]);
    CU_ASSERT_EQUAL(check(scratch("a.slice"), &KEY, p, BYTES[i], &e), MT_OK);
    CU_ASSERT(access(scratch("a.slice.new"), F_OK));
    free(p);
  }
}

static void test_key(void) {
  uint8_t *p = content(100);
  const char *path = scratch("k.slice");
  keep(path, &KEY, p, 100);
  mt_slice_key k = KEY;
  k.source_bytes++;
  refused(path, &k, 100, MT_EFORMAT, "another size");
  k = KEY;
  k.source_time_ns--;
  refused(path, &k, 100, MT_EFORMAT, "modified");
  k = KEY;
  k.source_hash ^= 1ull << 63;
  refused(path, &k, 100, MT_EFORMAT, "another header");
  k = KEY;
  k.layout++;
  refused(path, &k, 100, MT_EFORMAT, "otherwise");
  k = KEY;
  k.rank = 2;
  refused(path, &k, 100, MT_EFORMAT, "another rank");
  k = KEY;
  k.n_ranks = 2;
  refused(path, &k, 100, MT_EFORMAT, "another rank");
  refused(path, &KEY, 101, MT_EFORMAT, "otherwise");
  free(p);
}

static void test_absent(void) {
  mt_slice *s = (mt_slice *)1;
  mt_err e = {0};
  CU_ASSERT_EQUAL(mt_slice_open(&s, scratch("none.slice"), &KEY, 5, &e), MT_OK);
  CU_ASSERT_PTR_NULL(s);
  refused(scratch(""), &KEY, 5, MT_EIO, "regular");
  CU_ASSERT_EQUAL(mt_slice_create(&s, scratch("no/such.slice"), &KEY, 5, &e), MT_ESYSTEM);
  CU_ASSERT_PTR_NULL(s);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.msg, "such.slice"));
}

static size_t read_all(const char *path, uint8_t *buf, size_t cap) {
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(buf, 1, cap, f) : 0;
  if (f) fclose(f);
  return n;
}

/* Each bit of header, hashes and data turned; every length but the right one. */
static void test_damage(void) {
  enum { BYTES = 64, PAGE = 4096, MAX = PAGE + BYTES };
  uint8_t *p = content(BYTES), good[MAX + 1], bad[MAX + 1] = {0};
  const char *path = scratch("d.slice");
  unsigned passed = 0;
  mt_err e;
  keep(path, &KEY, p, BYTES);
  CU_ASSERT_EQUAL_FATAL(read_all(path, good, sizeof good), MAX);
  size_t table = PAGE;
  while (!good[table - 1]) table--; /* zeros lie between the hashes and the data */
  CU_ASSERT(table > 72 && table <= 88);
  for (size_t at = 0; at < MAX; at = at + 1 == table ? PAGE : at + 1)
    for (int bit = 0; bit < 8; bit++) {
      memcpy(bad, good, MAX);
      bad[at] ^= (uint8_t)(1u << bit);
      write_file("d.slice", bad, MAX);
      passed += check(path, &KEY, p, BYTES, &e) != MT_EFORMAT;
    }
  for (size_t n = 0; n <= MAX + 1; n++) {
    memcpy(bad, good, MAX);
    write_file("d.slice", bad, n);
    passed += n != MAX && check(path, &KEY, p, BYTES, &e) != MT_EFORMAT;
  }
  CU_ASSERT_EQUAL(passed, 0);
  write_file("d.slice", good, MAX);
  CU_ASSERT_EQUAL(check(path, &KEY, p, BYTES, &e), MT_OK);
  free(p);
}

/* Chunks that changed places, and a header that claims more than there is. */
static void test_forged(void) {
  size_t bytes = 2 * MT_SLICE_CHUNK, all = bytes + 4096;
  uint8_t *p = content(bytes), *file = malloc(all + 1);
  if (!file) exit(2);
  const char *path = scratch("f.slice");
  keep(path, &KEY, p, bytes);
  CU_ASSERT_EQUAL_FATAL(read_all(path, file, all + 1), all);
  memcpy(file + 4096, p + MT_SLICE_CHUNK, MT_SLICE_CHUNK);
  memcpy(file + 4096 + MT_SLICE_CHUNK, p, MT_SLICE_CHUNK);
  write_file("f.slice", file, all);
  refused(path, &KEY, bytes, MT_EFORMAT, "damaged");
  memset(file + 56, 0xff, 8); /* bytes */
  write_file("f.slice", file, all);
  refused(path, &KEY, bytes, MT_EFORMAT, "truncated");
  free(file);
  free(p);
}

static void test_writers(void) {
  uint8_t *old = content(10), *p = content(30);
  const char *path = scratch("w.slice"), *temp = scratch("w.slice.new");
  mt_slice *one = NULL, *two = NULL;
  mt_err e = {0};
  keep(path, &KEY, old, 10);
  write_file("w.slice.new", "what a killed process left behind, longer than needed", 50);
  CU_ASSERT_EQUAL_FATAL(mt_slice_create(&one, path, &KEY, 30, &e), MT_OK);
  CU_ASSERT_PTR_NOT_NULL_FATAL(one);
  CU_ASSERT_EQUAL(mt_slice_create(&two, path, &KEY, 30, &e), MT_OK);
  CU_ASSERT_PTR_NULL(two); /* one writes it */
  CU_ASSERT_EQUAL(mt_slice_write(one, 0, p, &e), MT_OK);
  CU_ASSERT_EQUAL(check(path, &KEY, old, 10, &e), MT_OK); /* the former one stays */
  CU_ASSERT_EQUAL(mt_slice_finish(one, &e), MT_OK);
  CU_ASSERT_EQUAL(check(path, &KEY, p, 30, &e), MT_OK);
  CU_ASSERT_EQUAL(mt_slice_create(&two, path, &KEY, 10, &e), MT_OK);
  CU_ASSERT_PTR_NOT_NULL_FATAL(two);
  mt_slice_close(one);
  CU_ASSERT_EQUAL(access(temp, F_OK), 0);
  mt_slice_close(two); /* not finished */
  CU_ASSERT(access(temp, F_OK));
  CU_ASSERT_EQUAL(check(path, &KEY, p, 30, &e), MT_OK);
  free(old);
  free(p);
}

static mt_slice_key source(const char *path) {
  mt_slice_key k = {0};
  mt_weights *w = expect_open(path);
  CU_ASSERT_EQUAL(mt_slice_set_source(&k, w, NULL), MT_OK);
  mt_weights_close(w);
  return k;
}

static bool same(mt_slice_key a, mt_slice_key b) {
  return !memcmp(&a, &b, sizeof a);
}

static const char *make_model(const char *header, size_t data) {
  static uint8_t buf[300];
  uint64_t n = strlen(header);
  memcpy(buf, &n, 8);
  memcpy(buf + 8, header, n);
  return write_file("m.safetensors", buf, 8 + n + data);
}

static void test_source(void) {
  const struct timespec then[2] = {{1700000000, 5}, {1700000000, 5}},
                        later[2] = {{1700000000, 6}, {1700000000, 6}};
  const char *x = "{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
             *y = "{\"y\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
             *longer = "{\"x\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]}}";
  const char *path = make_model(x, 4);
  utimensat(AT_FDCWD, path, then, 0);
  mt_slice_key first = source(path);
  CU_ASSERT(same(first, source(path)));
  utimensat(AT_FDCWD, path, later, 0);
  CU_ASSERT_FALSE(same(first, source(path)));
  make_model(y, 4);
  utimensat(AT_FDCWD, path, then, 0);
  mt_slice_key other = source(path);
  CU_ASSERT(other.source_hash != first.source_hash && other.source_bytes == first.source_bytes);
  make_model(longer, 5);
  utimensat(AT_FDCWD, path, then, 0);
  CU_ASSERT_EQUAL(source(path).source_bytes, first.source_bytes + 1);
}

MT_TEST_MAIN("kept slices", {"round trip", test_round_trip}, {"key", test_key},
             {"absent", test_absent}, {"damage", test_damage}, {"forged", test_forged},
             {"writers", test_writers}, {"source", test_source})
