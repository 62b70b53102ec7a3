/* A kept slice with any bytes in any places of it, of any length, its hashes made right again or
 * not; or any bytes at all. What is accepted is what was asked for, and the file's bytes. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz_file.h"

enum { PAGE = 4096, WORD = sizeof(uint64_t), HEADER = 72, MAX_CHUNKS = 3 };

/* The hashes of the chunks and of the header as they should be, as far as they lie in the file. */
static void put_hashes(uint8_t *file, size_t size, size_t bytes, bool chunks) {
  size_t n = (bytes + MT_SLICE_CHUNK - 1) / MT_SLICE_CHUNK, table = HEADER + n * WORD;
  size_t data = (table + WORD + PAGE - 1) / PAGE * PAGE;
  for (size_t c = 0; chunks && c < n; c++) {
    size_t at = data + c * MT_SLICE_CHUNK, len = bytes - c * MT_SLICE_CHUNK;
    if (len > MT_SLICE_CHUNK) len = MT_SLICE_CHUNK;
    if (at + len > size) break;
    uint64_t h = XXH3_64bits(file + at, len);
    memcpy(file + HEADER + c * WORD, &h, WORD);
  }
  if (table + WORD > size) return;
  uint64_t h = XXH3_64bits(file, table);
  memcpy(file + table, &h, WORD);
}

/* Opens the file as the slice of this key and length. True if all of it was accepted. */
static bool accepted(const uint8_t *file, size_t size, const mt_slice_key *key, uint64_t bytes) {
  mt_slice *s = NULL;
  mt_err e = {0};
  int rc = mt_slice_open(&s, fuzz_file(file, size), key, bytes, &e);
  require(!rc == (s != NULL) && (!rc || e.msg[0]));
  if (rc) return false;
  require(bytes <= size && !memcmp(file + WORD, key, sizeof *key));
  uint64_t at = size - bytes, left = bytes;
  bool all = true;
  for (size_t c = 0; c < mt_slice_chunks(s); c++) {
    size_t n = left < MT_SLICE_CHUNK ? (size_t)left : MT_SLICE_CHUNK;
    uint8_t *got = malloc(n);
    require(got && n);
    if (mt_slice_read(s, c, got, &e))
      all = false;
    else
      require(!memcmp(got, file + at, n));
    free(got);
    at += n;
    left -= n;
  }
  require(!left);
  mt_slice_close(s);
  return all;
}

/* A slice like mt_slice_create's. */
static uint8_t *make(size_t bytes, const mt_slice_key *key, size_t *size) {
  size_t n = (bytes + MT_SLICE_CHUNK - 1) / MT_SLICE_CHUNK, table = HEADER + n * WORD;
  size_t data = (table + WORD + PAGE - 1) / PAGE * PAGE;
  *size = data + bytes;
  uint8_t *file = calloc(*size + PAGE, 1);
  require(file != NULL);
  const uint64_t lengths[] = {bytes, MT_SLICE_CHUNK};
  memcpy(file, "MTSLICE1", WORD);
  memcpy(file + WORD, key, sizeof *key);
  memcpy(file + WORD + sizeof *key, lengths, sizeof lengths);
  for (size_t i = 0; i < bytes; i++) file[data + i] = (uint8_t)(i * 7 + i / 251);
  put_hashes(file, *size, bytes, true);
  return file;
}

/* Some bytes change, mostly of the first two pages, and perhaps the length. */
static bool damage(uint8_t *file, size_t *size, input *in) {
  bool any = false;
  for (uint32_t i = choose(in, 8); i-- > 0 && in->left;) {
    size_t at = (choose(in, 256) | choose(in, 256) << 8) % (2 * PAGE), where = choose(in, 4);
    if (where < 2) at %= HEADER + (MAX_CHUNKS + 1) * WORD;
    if (at >= *size) continue;
    uint8_t by = (uint8_t)choose(in, 256);
    file[where == 3 ? *size - 1 - at : at] ^= by;
    any |= by != 0;
  }
  uint32_t how = choose(in, 8), by = choose(in, 256) * (how & 1 ? 1 : 16);
  if (how < 6 || !by) return any;
  *size = how == 6 ? *size + by : by < *size ? *size - by : 0;
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {data, size};
  mt_slice_key key = {1000, 77, 0x1234, 0x5678, 1, 3};
  uint32_t flags = choose(&in, 256), chunks = choose(&in, 16);
  if (flags & 1) { /* any bytes, asked for as what they say they are */
    uint64_t bytes = 0;
    if (in.left >= HEADER) {
      memcpy(&key, in.at + WORD, sizeof key);
      memcpy(&bytes, in.at + WORD + sizeof key, sizeof bytes);
    }
    if (bytes > (uint64_t)MAX_CHUNKS * MT_SLICE_CHUNK) bytes = 0;
    accepted(in.at, in.left, &key, bytes);
    return 0;
  }
  size_t bytes = choose(&in, 256) << 4 | choose(&in, 16), all;
  if (chunks < MAX_CHUNKS) bytes += chunks * (size_t)MT_SLICE_CHUNK;
  uint8_t *file = make(bytes, &key, &all);
  bool damaged = damage(file, &all, &in);
  if (flags & 2) put_hashes(file, all, bytes, flags & 4);
  bool ok = accepted(file, all, &key, bytes);
  require(ok || damaged);
  free(file);
  return 0;
}
