/* Times attention alone, one thread. Decode: one token whose query heads share a KV head, in GB/s
 * of the cache and in percent of what f32 multiply-adds on registers give; the cache lies as the
 * engine's and is larger than the CPU's caches, or is one segment that stays in them. Prefill:
 * tiles of 12 queries, 4 heads by 3 rows, at the end of the context. The best of many short runs,
 * in the thread's own time: other programs may run meanwhile.
 *
 *   build/bench/attend [isa [context [head_dim [f16 | f32 | q8]]]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mutirao/kernel.h"

enum {
  KV_HEADS = 4,
  REPEAT = 5,
  PEAK_REPEAT = 100,
  MEMORY_BYTES = 192 << 20,
  SEGMENT_BLOCKS = MT_ATTN_SEGMENT / MT_KV_BLOCK,
  MAX_HEAD_DIM = 256
};

/* As src/kv lays it out: [blocks][layers][KV_HEADS][K, V]. */
typedef struct cache {
  const mt_kernels *kn;
  mt_kv_type type;
  size_t head_dim, context, layers, k_bytes, head_bytes, block_bytes, bytes;
  uint8_t *mem;
  float *q, *part, *total, *scratch;
} cache;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float *floats(size_t n) {
  float *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
  if (!x) exit(1);
  for (size_t i = 0; i < n; i++) x[i] = (float)((int)(i * 7 % 31) - 15) / 16;
  return x;
}

static void open_cache(cache *c) {
  size_t blocks = (c->context + MT_KV_BLOCK - 1) / MT_KV_BLOCK;
  c->k_bytes = mt_kv_k_bytes(c->type, c->head_dim);
  c->head_bytes = c->k_bytes + mt_kv_v_bytes(c->type, c->head_dim);
  c->layers = MEMORY_BYTES / (blocks * KV_HEADS * c->head_bytes) + 1;
  c->block_bytes = c->layers * KV_HEADS * c->head_bytes;
  c->bytes = blocks * c->block_bytes;
  c->mem = mt_pages_alloc(c->bytes);
  c->q = floats(MT_ATTEND_QUERIES * c->head_dim);
  c->part = floats(MT_ATTEND_QUERIES * c->head_dim);
  c->total = floats(MT_ATTEND_QUERIES * c->head_dim);
  c->scratch = floats(mt_attend_scratch_floats(c->head_dim));
  if (!c->mem) exit(1);
  for (size_t at = 0; at < c->bytes; at += c->head_bytes)
    for (size_t slot = 0; slot < MT_KV_BLOCK; slot++) /* any two rows of c->q's */
      c->kn->kv_store(c->type, c->head_dim, c->mem + at, c->mem + at + c->k_bytes, slot,
                      c->q + slot % 5 * c->head_dim, c->q + (slot + 1) % 5 * c->head_dim);
}

static void close_cache(cache *c) {
  mt_pages_free(c->mem, c->bytes);
  free(c->q);
  free(c->part);
  free(c->total);
  free(c->scratch);
}

static uint8_t *block_of(const cache *c, size_t layer, size_t head, size_t key) {
  return c->mem + key / MT_KV_BLOCK * c->block_bytes + (layer * KV_HEADS + head) * c->head_bytes;
}

/* n queries of one KV head over the keys [0, n_keys[t]) of the context, as the engine does it;
 * `next` is what is read afterwards. */
static void attend_head(const cache *c, size_t layer, size_t head, size_t n, const size_t *n_keys,
                        const uint8_t *next) {
  mt_attn_part part[MT_ATTEND_QUERIES], total[MT_ATTEND_QUERIES];
  const float *q[MT_ATTEND_QUERIES];
  for (size_t t = 0; t < n; t++) {
    q[t] = c->q + t * c->head_dim;
    part[t].acc = c->part + t * c->head_dim;
    total[t].acc = c->total + t * c->head_dim;
  }
  for (size_t base = 0; base < n_keys[n - 1]; base += MT_ATTN_SEGMENT) {
    const void *k[SEGMENT_BLOCKS], *v[SEGMENT_BLOCKS];
    size_t lo[MT_ATTEND_QUERIES] = {0}, hi[MT_ATTEND_QUERIES];
    for (size_t b = 0; b < SEGMENT_BLOCKS; b++) {
      uint8_t *at = block_of(c, layer, head, base + b * MT_KV_BLOCK);
      k[b] = at;
      v[b] = at + c->k_bytes;
    }
    const size_t after = base + MT_ATTN_SEGMENT;
    size_t t0 = 0; /* queries before it see nothing of the segment */
    while (n_keys[t0] <= base) t0++;
    for (size_t t = t0; t < n; t++)
      hi[t] = n_keys[t] - base < MT_ATTN_SEGMENT ? n_keys[t] - base : MT_ATTN_SEGMENT;
    c->kn->attend_many(c->type, c->head_dim, n - t0, q + t0, 0.125f, k, v, lo, hi + t0,
                       after < n_keys[n - 1] ? block_of(c, layer, head, after) : next,
                       (base ? part : total) + t0, c->scratch);
    for (size_t t = t0; base && t < n; t++) c->kn->attend_merge(c->head_dim, &total[t], &part[t]);
  }
}

/* Keys that the queries see in a second, added up over the queries: a run is one layer, or as many
 * keys of one head. */
static double keys_per_s(const cache *c, size_t n, const size_t *n_keys, bool cached) {
  size_t keys = 0, heads = KV_HEADS;
  double best = 0;
  if (cached) heads *= (c->context + n_keys[0] - 1) / n_keys[0];
  for (size_t t = 0; t < n; t++) keys += n_keys[t];
  for (size_t run = 0; run < REPEAT * c->layers; run++) {
    double start = seconds();
    const size_t layer = cached ? 0 : run % c->layers;
    for (size_t h = 0; h < heads; h++)
      attend_head(c, layer, cached ? 0 : h, n, n_keys,
                  h + 1 < heads ? block_of(c, layer, cached ? 0 : h + 1, 0) : NULL);
    double g = (double)(heads * keys) / (seconds() - start);
    if (g > best) best = g;
  }
  return best;
}

static double fma_per_s(const mt_kernels *kn) {
  double best = 0;
  for (int r = 0; r < PEAK_REPEAT; r++) {
    double start = seconds(), g = (double)mt_kernels_run_fma(kn, 1 << 15) / 2;
    g /= seconds() - start;
    if (g > best) best = g;
  }
  return best;
}

static void bench_decode(const cache *c, size_t heads, double peak) {
  size_t n_keys[MT_ATTEND_QUERIES], short_keys[MT_ATTEND_QUERIES];
  for (size_t t = 0; t < heads; t++) {
    n_keys[t] = c->context;
    short_keys[t] = c->context < MT_ATTN_SEGMENT ? c->context : MT_ATTN_SEGMENT;
  }
  double far = keys_per_s(c, heads, n_keys, false), near = keys_per_s(c, heads, short_keys, true);
  double gb = (double)c->head_bytes / MT_KV_BLOCK / (double)heads * 1e-9;
  double macs = 2 * (double)c->head_dim / peak * 100;
  printf(
      "  decode %2zu heads: memory %6.2f GB/s, %5.1f %% of the peak; cached %6.2f GB/s, %5.1f %%\n",
      heads, far * gb, far * macs, near * gb, near * macs);
}

static void bench_prefill(const cache *c, double peak) {
  enum { HEADS = 4 };
  size_t n_keys[MT_ATTEND_QUERIES];
  for (size_t t = 0; t < MT_ATTEND_QUERIES; t++)
    n_keys[t] = c->context - (MT_ATTEND_QUERIES - 1 - t) / HEADS;
  double per_s = keys_per_s(c, MT_ATTEND_QUERIES, n_keys, false);
  printf("  prefill: %6.1f GMAC/s, %5.1f %% of the peak\n", per_s * 2 * (double)c->head_dim * 1e-9,
         per_s * 2 * (double)c->head_dim / peak * 100);
}

int main(int argc, char **argv) {
  enum { N_TYPES = MT_KV_Q8 + 1 };
  static const char *const name[N_TYPES] = {"f16", "f32", "q8"};
  static const size_t heads[] = {1, 2, 3, 4, 6, 8, 12};
  cache c = {.context = 8192, .head_dim = 64};
  mt_err e = {0};
  int only = -1;
  for (int t = 0; argc > 4 && t < N_TYPES; t++)
    if (!strcmp(argv[4], name[t])) only = t;
  if (argc > 2) c.context = (size_t)atoi(argv[2]);
  if (argc > 3) c.head_dim = (size_t)atoi(argv[3]);
  if (mt_kernels_get(argc > 1 ? argv[1] : NULL, &c.kn, &e) || c.context < MT_ATTEND_QUERIES ||
      !c.head_dim || c.head_dim > MAX_HEAD_DIM || (argc > 4 && only < 0)) {
    fprintf(stderr, "%s\n",
            e.msg[0] ? e.msg : "attend [isa [context [head_dim [f16 | f32 | q8]]]]");
    return 2;
  }
  mt_kernels_set_fp_control();
  double peak = fma_per_s(c.kn);
  printf("attention %s, context %zu, heads of %zu; peak %.1f GMAC/s\n", c.kn->isa, c.context,
         c.head_dim, peak * 1e-9);
  for (mt_kv_type type = MT_KV_F16; type <= MT_KV_Q8; type++) {
    if (only >= 0 && (int)type != only) continue;
    c.type = type;
    open_cache(&c);
    printf("%s\n", name[type]);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) bench_decode(&c, heads[i], peak);
    bench_prefill(&c, peak);
    close_cache(&c);
  }
  return 0;
}
