/* Packing the 16 rows of a panel together. It moves bits and computes nothing, so it has no table
 * by instruction set: vectors as the compiler offers them, transposed. Its oracle is
 * packing row by row (matrix.c), which also does what is not here: cut blocks, panels with fewer
 * rows. */
#include "impl.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum {
  ROWS = MT_PANEL_ROWS,
  VECTOR_BYTES = 64, /* of codes: 4 bytes a row */
  MAX_BLOCKS = 16,   /* in a block of 256 */
  MAX_RECORD_BYTES = 352
};

/* Vectors of two halves of 16 bytes that go the same way. */
typedef uint32_t words __attribute__((vector_size(32)));
typedef uint16_t halfwords __attribute__((vector_size(32)));
typedef uint32_t half __attribute__((vector_size(16)));
typedef uint8_t bytes __attribute__((vector_size(16)));

INLINE words load_two(const uint8_t *a, const uint8_t *b) {
  half x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7);
}
INLINE void store_two(uint8_t *a, uint8_t *b, words v) {
  half x = __builtin_shufflevector(v, v, 0, 1, 2, 3), y = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  memcpy(a, &x, sizeof x);
  memcpy(b, &y, sizeof y);
}

/* In each half, v[i] becomes word i of the four vectors. */
INLINE void transpose_words(words v[4]) {
  words a = __builtin_shufflevector(v[0], v[1], 0, 8, 1, 9, 4, 12, 5, 13),
        b = __builtin_shufflevector(v[2], v[3], 0, 8, 1, 9, 4, 12, 5, 13),
        c = __builtin_shufflevector(v[0], v[1], 2, 10, 3, 11, 6, 14, 7, 15),
        d = __builtin_shufflevector(v[2], v[3], 2, 10, 3, 11, 6, 14, 7, 15);
  v[0] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
  v[1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  v[2] = __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13);
  v[3] = __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15);
}

/* Interleaving the first half of the vectors with the second turns the bits of (vector, place in
 * it) by one: after as many rounds as a vector's number has bits, the two have changed places. */
INLINE void transpose_halfwords(halfwords v[8]) {
  UNROLL for (int round = 0; round < 3; round++) {
    halfwords w[8];
    UNROLL for (int i = 0; i < 4; i++) {
      w[2 * i] = __builtin_shufflevector(v[i], v[i + 4], 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25,
                                         10, 26, 11, 27);
      w[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 4], 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13,
                                             29, 14, 30, 15, 31);
    }
    UNROLL for (int i = 0; i < 8; i++) v[i] = w[i];
  }
}

INLINE void transpose_bytes(bytes v[16]) {
  UNROLL for (int round = 0; round < 4; round++) {
    bytes w[16];
    UNROLL for (int i = 0; i < 8; i++) {
      w[2 * i] = __builtin_shufflevector(v[i], v[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                         6, 22, 7, 23);
      w[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                             13, 29, 14, 30, 15, 31);
    }
    UNROLL for (int i = 0; i < 16; i++) v[i] = w[i];
  }
}

/* Word i of the 16 bytes at `at` of eight rows in v[i]. */
INLINE void columns(words v[4], const uint8_t *const *row, size_t at) {
  UNROLL for (int r = 0; r < 4; r++) v[r] = load_two(row[r] + at, row[r + 4] + at);
  transpose_words(v);
}

/* 4 bytes each of rows r … r + 7 of the panel. */
INLINE void put(uint8_t *to, size_t at, size_t r, words v) {
  memcpy(to + at + 4 * r, &v, sizeof v);
}

/* ---- plain types ------------------------------------------------------------------------- */

/* Elements [k, cols) one by one. */
static void pack_rest(uint8_t *to, const uint8_t *const *row, size_t k, size_t cols, size_t size) {
  for (; k < cols; k++)
    for (size_t r = 0; r < ROWS; r++) memcpy(to + (k * ROWS + r) * size, row[r] + k * size, size);
}

/* A cache line of each row at a time: rows are often a multiple of 4096 bytes apart, where their
 * lines drive each other out of the cache. A vector has 32 bytes of one row: elements i … in its
 * first half, i + 4 … (halfwords: i + 8 …) in the second. */
static void pack_words(uint8_t *to, const uint8_t *const *row, size_t cols) {
  size_t whole = cols / 16 * 16;
  for (size_t k = 0; k < whole; k += 16)
    for (size_t r = 0; r < ROWS; r += 4)
      for (size_t i = k; i < k + 16; i += 8) {
        words v[4];
        uint8_t *at = to + (i * ROWS + r) * 4;
        UNROLL for (size_t j = 0; j < 4; j++) memcpy(&v[j], row[r + j] + 4 * i, sizeof v[j]);
        transpose_words(v);
        UNROLL for (size_t j = 0; j < 4; j++)
            store_two(at + j * 4 * ROWS, at + (j + 4) * 4 * ROWS, v[j]);
      }
  pack_rest(to, row, whole, cols, 4);
}

static void pack_halfwords(uint8_t *to, const uint8_t *const *row, size_t cols) {
  size_t whole = cols / 32 * 32;
  for (size_t k = 0; k < whole; k += 32)
    for (size_t r = 0; r < ROWS; r += 8)
      for (size_t i = k; i < k + 32; i += 16) {
        halfwords v[8];
        uint8_t *at = to + (i * ROWS + r) * 2;
        UNROLL for (size_t j = 0; j < 8; j++) memcpy(&v[j], row[r + j] + 2 * i, sizeof v[j]);
        transpose_halfwords(v);
        UNROLL for (size_t j = 0; j < 8; j++)
            store_two(at + j * 2 * ROWS, at + (j + 8) * 2 * ROWS, (words)v[j]);
      }
  pack_rest(to, row, whole, cols, 2);
}

/* ---- codes ------------------------------------------------------------------------------- */

/* Rows r … r + 7 of the panel (r is 0 or 8): row[i] is row r + i of one block of the file, and rec
 * the first of the records that it becomes. */
typedef void codes_fn(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec);

/* `bits` bits of each byte of four groups of elements in one word, those of each group above those
 * of the one before. */
INLINE words join(const words v[4], uint32_t shift, uint32_t bits) {
  words all = {0};
  uint32_t mask = 0x01010101u * ((1u << bits) - 1u);
  UNROLL for (uint32_t g = 0; g < 4; g++) all |= (v[g] >> shift & mask) << bits * g;
  return all;
}

INLINE void codes_q8_0(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  (void)qi;
  UNROLL for (size_t i = 0; i < 8; i += 4) {
    words v[4];
    columns(v, row, 2 + 4 * i);
    UNROLL for (size_t j = 0; j < 4; j++) put(rec, VECTOR_BYTES * (i + j), r, v[j]);
  }
}

/* 16 bytes with elements e and e + 16 in a byte, as a record has them. */
INLINE void nibbles(const uint8_t *const *row, size_t at, size_t r, uint8_t *rec) {
  words v[4];
  columns(v, row, at);
  UNROLL for (size_t i = 0; i < 4; i++) put(rec, VECTOR_BYTES * i, r, v[i]);
}

INLINE void codes_q4_0(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  (void)qi;
  nibbles(row, 2, r, rec);
}
INLINE void codes_q4_1(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  (void)qi;
  nibbles(row, 4, r, rec);
}

INLINE void codes_mxfp4(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  (void)qi;
  nibbles(row, 1, r, rec);
}

/* Exchanges two bits of the number of each bit, which then are `distance` apart. */
INLINE words swap_index(words w, uint32_t distance, uint32_t mask) {
  words t = (w ^ w >> distance) & mask;
  return w ^ t ^ t << distance;
}

/* 32 bits at `at`, bit 4 g + i to bit g of byte i: the number's five bits are turned by two. */
INLINE words bits_32(const uint8_t *const *row, size_t at) {
  words w = {0};
  UNROLL for (int r = 0; r < 8; r++) {
    uint32_t word;
    memcpy(&word, row[r] + at, sizeof word);
    w[r] = word;
  }
  w = swap_index(w, 12, 0x0000f0f0u);
  w = swap_index(w, 14, 0x0000ccccu);
  w = swap_index(w, 7, 0x00aa00aau);
  return swap_index(w, 1, 0x22222222u);
}

INLINE void codes_q5_0(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  nibbles(row, 6, r, rec);
  put(rec, qi->low_bytes, r, bits_32(row, 2));
}
INLINE void codes_q5_1(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  nibbles(row, 8, r, rec);
  put(rec, qi->low_bytes, r, bits_32(row, 4));
}

INLINE void codes_iq4_xs(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  for (size_t s = 0; s < 8; s++, rec += qi->record_bytes) nibbles(row, 8 + 16 * s, r, rec);
}

/* Every 32 bytes from `at` on: a block in their low nibbles, the next in the high ones. */
INLINE void nibbles_k(const mt_qinfo *qi, const uint8_t *const *row, size_t at, size_t r,
                      uint8_t *rec) {
  const uint32_t low = 0x0f0f0f0fu;
  for (size_t s = 0; s < 8; s += 2, at += 32, rec += 2 * qi->record_bytes) {
    words a[4], b[4];
    columns(a, row, at);
    columns(b, row, at + 16);
    UNROLL for (size_t i = 0; i < 4; i++) {
      put(rec, VECTOR_BYTES * i, r, (a[i] & low) | (b[i] & low) << 4);
      put(rec, qi->record_bytes + VECTOR_BYTES * i, r, (a[i] >> 4 & low) | (b[i] & ~low));
    }
  }
}

INLINE void codes_q4_k(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  nibbles_k(qi, row, 16, r, rec);
}

INLINE void codes_q5_k(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  words a[4], b[4];
  nibbles_k(qi, row, 48, r, rec);
  columns(a, row, 16);
  columns(b, row, 32);
  for (uint32_t s = 0; s < 8; s++, rec += qi->record_bytes)
    put(rec, qi->low_bytes, r, join(a, s, 1) | join(b, s, 1) << 4);
}

/* Every 16 bytes from `at` on hold four blocks; which ones is as the file's loops run. */
INLINE void pairs_k(const mt_qinfo *qi, const uint8_t *const *row, size_t at, size_t r,
                    uint8_t *rec) {
  for (size_t i = 0; i < 4; i++) {
    words v[4];
    columns(v, row, at + 16 * i);
    UNROLL for (uint32_t j = 0; j < 4; j++)
        put(rec, (8 * (i / 2) + 2 * j + i % 2) * qi->record_bytes, r, join(v, 2 * j, 2));
  }
}

INLINE void codes_q2_k(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  pairs_k(qi, row, 16, r, rec);
}

/* Rows 8 – 15 share the bytes of rows 0 – 7 in the high plane, and come after them. */
INLINE void codes_q3_k(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  pairs_k(qi, row, 32, r, rec);
  for (size_t odd = 0; odd < 2; odd++) {
    words v[4], old;
    columns(v, row, 16 * odd);
    for (uint32_t j = 0; j < 8; j++) {
      uint8_t *high = rec + (2 * j + odd) * qi->record_bytes + qi->low_bytes;
      words bits = join(v, j, 1);
      if (r) {
        memcpy(&old, high, sizeof old);
        bits = old | bits << 4;
      }
      put(high, 0, 0, bits);
    }
  }
}

INLINE void codes_q6_k(const mt_qinfo *qi, const uint8_t *const *row, size_t r, uint8_t *rec) {
  const uint32_t low = 0x0f0f0f0fu;
  for (size_t i = 0; i < 8; i++) { /* half of the block, quarter % 2, odd */
    words v[4];
    columns(v, row, 16 * i);
    uint8_t *first = rec + (i / 4 * 8 + i % 4) * qi->record_bytes,
            *other = first + 4 * qi->record_bytes;
    UNROLL for (size_t j = 0; j < 2; j++) {
      put(first, VECTOR_BYTES * j, r, (v[j] & low) | (v[j + 2] & low) << 4);
      put(other, VECTOR_BYTES * j, r, (v[j] >> 4 & low) | (v[j + 2] & ~low));
    }
  }
  pairs_k(qi, row, 128, r, rec + qi->low_bytes);
}

/* ---- scales ------------------------------------------------------------------------------ */

/* The scales of one row of a block of 256, a byte for each of its blocks, then (where there are
 * any) for each of their minima, as a record has them. */
typedef bytes scales_fn(const uint8_t *block);

INLINE bytes scales_q2_k(const uint8_t *block) {
  bytes v;
  memcpy(&v, block, sizeof v);
  return v;
}
INLINE bytes scales_q6_k(const uint8_t *block) {
  bytes v;
  memcpy(&v, block + 192, sizeof v);
  return v;
}

/* Six-bit fields, of four blocks at a time (dequant.c has them one by one). */
INLINE bytes scales_q3_k(const uint8_t *block) {
  uint32_t w[3], out[4];
  bytes v;
  memcpy(w, block + 96, sizeof w);
  for (unsigned i = 0; i < 4; i++)
    out[i] = (w[i % 2] >> i / 2 * 4 & 0x0f0f0f0fu) | (w[2] >> 2 * i & 0x03030303u) << 4;
  memcpy(&v, out, sizeof v);
  return v - 32;
}
INLINE bytes scales_q45_k(const uint8_t *block) {
  uint32_t w[3], out[4];
  bytes v;
  memcpy(w, block + 4, sizeof w);
  out[0] = w[0] & 0x3f3f3f3fu;
  out[1] = (w[2] & 0x0f0f0f0fu) | (w[0] >> 2 & 0x30303030u);
  out[2] = w[1] & 0x3f3f3f3fu;
  out[3] = (w[2] >> 4 & 0x0f0f0f0fu) | (w[1] >> 2 & 0x30303030u);
  memcpy(&v, out, sizeof v);
  return v;
}

INLINE bytes scales_iq4_xs(const uint8_t *block) {
  uint16_t up = mt_load_u16(block + 2);
  bytes v = {0};
  UNROLL for (int s = 0; s < 8; s++) v[s] =
      (uint8_t)((block[4 + s / 2] >> s % 2 * 4 & 15) | (up >> 2 * s & 3) << 4);
  return v - 32;
}

/* The f16 at `at` of each of eight rows. */
INLINE void put_halves(uint8_t *to, const uint8_t *const *row, size_t at) {
  uint64_t all[2] = {0};
  UNROLL for (int r = 0; r < 8; r++) all[r / 4] |= (uint64_t)mt_load_u16(row[r] + at) << r % 4 * 16;
  memcpy(to, all, sizeof all);
}

/* ---- panels ------------------------------------------------------------------------------ */

typedef struct panel_job {
  const mt_matrix *m;
  const mt_qinfo *qi;
  uint8_t *to;
  const uint8_t *const *row; /* [16], each at a block of the file */
  size_t src_k;              /* a multiple of the slots */
} panel_job;

/* Blocks that are packed half a panel after the other: their records stay in the nearest cache. */
enum { TILE_BLOCKS = 8 };

/* The scales of eight rows beside their block: f16, or a byte. */
INLINE void put_scales(const mt_qinfo *qi, uint8_t *scales, const uint8_t *const *row, size_t r) {
  if (qi->scale == MT_SCALE_E8M0) {
    for (size_t i = 0; i < 8; i++) scales[r + i] = row[i][0];
    return;
  }
  put_halves(scales + 2 * r, row, qi->d_at);
  if (qi->has_min) put_halves(scales + 2 * (ROWS + r), row, qi->m_at);
}

/* Types whose scales stand in the block. */
INLINE void pack_blocks(const panel_job *j, codes_fn *codes) {
  const mt_qinfo *qi = j->qi;
  size_t block_bytes = mt_dtype_get(j->m->type)->block_bytes,
         planes = qi->low_bytes + qi->high_bytes;
  size_t at = j->src_k / qi->slots * block_bytes, n = j->m->n_blocks, tile;
  uint8_t *to = j->to;
  for (size_t b = 0; b < n; b += tile, at += tile * block_bytes, to += tile * qi->record_bytes) {
    tile = n - b < TILE_BLOCKS ? n - b : TILE_BLOCKS;
    for (size_t r = 0; r < ROWS; r += 8) {
      const uint8_t *row[8];
      UNROLL for (size_t k = 0; k < 8; k++) row[k] = j->row[r + k] + at;
      uint8_t *rec = to;
      for (size_t i = 0; i < tile; i++, rec += qi->record_bytes) {
        codes(qi, row, r, rec);
        put_scales(qi, rec + planes, row, r);
        UNROLL for (int k = 0; k < 8; k++) row[k] += block_bytes;
      }
    }
  }
}

/* All records of a block of 256. */
INLINE void pack_super(const mt_qinfo *qi, const uint8_t *const *block, uint8_t *rec,
                       codes_fn *codes, scales_fn *scales) {
  bytes scale[ROWS]; /* of each row, then transposed */
  for (size_t r = 0; r < ROWS; r += 8) codes(qi, block + r, r, rec);
  UNROLL for (size_t r = 0; r < ROWS; r++) scale[r] = scales(block[r]);
  transpose_bytes(scale);
  uint8_t *at = rec + qi->low_bytes + qi->high_bytes;
  for (size_t s = 0; s < 256u / qi->slots; s++, at += qi->record_bytes) {
    memcpy(at, &scale[s], ROWS);
    if (qi->scale_bytes > ROWS) memcpy(at + ROWS, &scale[8 + s], ROWS);
  }
}

/* Types with f16 scales for 256 elements. A slice may begin or end within such a block: then all
 * of it goes to a side, and what belongs to the slice is copied. */
INLINE void pack_k(const panel_job *j, codes_fn *codes, scales_fn *scales) {
  const mt_dtype_info *t = mt_dtype_get(j->m->type);
  const mt_qinfo *qi = j->qi;
  const uint8_t *block[ROWS];
  uint8_t side[MAX_BLOCKS * MAX_RECORD_BYTES], *rec = j->to + mt_panel_supers_bytes(j->m, qi);
  size_t per = t->block_elems / qi->slots, n;
  for (size_t b = 0; b < j->m->n_blocks; b += n, rec += n * qi->record_bytes) {
    const mt_kblock *kb = &j->m->block[b];
    size_t k = j->src_k + kb->begin, s = k % t->block_elems / qi->slots;
    n = j->m->n_blocks - b < per - s ? j->m->n_blocks - b : per - s;
    uint8_t *super = j->to + kb->super * qi->super_bytes;
    for (size_t r = 0; r < ROWS; r++) block[r] = j->row[r] + k / t->block_elems * t->block_bytes;
    for (size_t r = 0; r < ROWS; r += 8) put_scales(qi, super, block + r, r);
    pack_super(qi, block, n == per ? rec : side, codes, scales);
    if (n < per) memcpy(rec, side + s * qi->record_bytes, n * qi->record_bytes);
  }
}

#define BLOCKS(type)                            \
  static void pack_##type(const panel_job *j) { \
    pack_blocks(j, codes_##type);               \
  }
#define SUPERS(type, scales)                    \
  static void pack_##type(const panel_job *j) { \
    pack_k(j, codes_##type, scales);            \
  }
BLOCKS(q8_0)
BLOCKS(q4_0)
BLOCKS(q4_1)
BLOCKS(q5_0)
BLOCKS(q5_1)
BLOCKS(mxfp4)
SUPERS(q2_k, scales_q2_k)
SUPERS(q3_k, scales_q3_k)
SUPERS(q4_k, scales_q45_k)
SUPERS(q5_k, scales_q45_k)
SUPERS(q6_k, scales_q6_k)
SUPERS(iq4_xs, scales_iq4_xs)

static void (*const QUANTIZED[MT_DTYPE_COUNT])(const panel_job *) = {
    [MT_Q8_0] = pack_q8_0,  [MT_Q4_0] = pack_q4_0,   [MT_Q4_1] = pack_q4_1,
    [MT_Q5_0] = pack_q5_0,  [MT_Q5_1] = pack_q5_1,   [MT_Q2_K] = pack_q2_k,
    [MT_Q3_K] = pack_q3_k,  [MT_Q4_K] = pack_q4_k,   [MT_Q5_K] = pack_q5_k,
    [MT_Q6_K] = pack_q6_k,  [MT_IQ4_NL] = pack_q4_0, [MT_IQ4_XS] = pack_iq4_xs,
    [MT_MXFP4] = pack_mxfp4};

bool mt_pack_panel(mt_matrix *m, size_t panel, const uint8_t *const row[MT_PANEL_ROWS],
                   size_t src_k) {
  const mt_qinfo *qi = mt_qinfo_get(m->type);
  size_t size = mt_dtype_get(m->type)->block_bytes;
  uint8_t *to = m->data + panel * m->panel_bytes;
  if (m->layout != MT_LAYOUT_PANELS || m->rows - panel * ROWS < ROWS) return false;
  if (!qi) {
    const uint8_t *from[ROWS];
    for (size_t r = 0; r < ROWS; r++) from[r] = row[r] + src_k * size;
    (size == 4 ? pack_words : pack_halfwords)(to, from, m->cols);
    return true;
  }
  if (!QUANTIZED[m->type] || m->n_blocks * qi->slots != m->cols) return false; /* cut blocks */
  QUANTIZED[m->type](&(panel_job){m, qi, to, row, src_k});
  return true;
}
