/* synth: writes a Llama of any shape with seeded random weights as GGUF, so that speed can be
 * measured on models that nobody has to fetch. It streams: memory stays at a few MB. The same
 * options give the same bytes on every little-endian machine. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mutirao/base.h"

/* ---- types ------------------------------------------------------------------------------- */

/* A scale or minimum within a block: a little-endian number of `width` bytes at `at`, drawn from
 * base … base + mask. The rest of a block is random bits. */
typedef struct field {
  uint8_t at, width;
  uint16_t base, mask;
} field;

/* How the file numbers a type, its block, and its fields (halves but for MXFP4), chosen so that
 * values spread by about 0.02 around a mean of about 0. */
typedef struct type_rule {
  const char *name;
  uint32_t ggml, file_type, block_elems, block_bytes;
  field field[2];
} type_rule;

static const type_rule TYPES[] = {
    {"F32", 0, 0, 1, 4, {{0}}},
    {"F16", 1, 1, 1, 2, {{0}}},
    {"BF16", 30, 32, 1, 2, {{0}}},
    {"Q8_0", 8, 7, 32, 34, {{0, 2, 0x0c00, 0x1ff}}},
    {"Q4_0", 2, 2, 32, 18, {{0, 2, 0x1c00, 0x1ff}}},
    {"Q4_1", 3, 3, 32, 20, {{0, 2, 0x1c00, 0x1ff}, {2, 2, 0xa800, 0x1ff}}},
    {"Q5_0", 6, 8, 32, 22, {{0, 2, 0x1800, 0x1ff}}},
    {"Q5_1", 7, 9, 32, 24, {{0, 2, 0x1800, 0x1ff}, {2, 2, 0xa800, 0x1ff}}},
    {"Q2_K", 10, 10, 256, 84, {{80, 2, 0x1400, 0x1ff}, {82, 2, 0x1600, 0x1ff}}},
    {"Q3_K", 11, 11, 256, 110, {{108, 2, 0x1000, 0x1ff}}},
    {"Q4_K", 12, 14, 256, 144, {{0, 2, 0x0400, 0x1ff}, {2, 2, 0x1000, 0x1ff}}},
    {"Q5_K", 13, 16, 256, 176, {{0, 2, 0x0200, 0x0ff}, {2, 2, 0x1000, 0x1ff}}},
    {"Q6_K", 14, 18, 256, 210, {{208, 2, 0x00e0, 0x03f}}},
    {"IQ4_NL", 20, 25, 32, 18, {{0, 2, 0x0c00, 0x1ff}}},
    {"IQ4_XS", 23, 30, 256, 136, {{0, 2, 0x0100, 0x03f}}},
    {"MXFP4", 39, 38, 32, 17, {{0, 1, 119, 1}}},
};
enum { N_TYPES = sizeof TYPES / sizeof TYPES[0] };

static const type_rule *find_type(const char *name) {
  for (int i = 0; i < N_TYPES; i++)
    if (!strcasecmp(name, TYPES[i].name)) return &TYPES[i];
  return NULL;
}

/* ---- options ----------------------------------------------------------------------------- */

typedef struct shape {
  const type_rule *type;
  const char *out;
  uint64_t hidden, layers, heads, kv_heads, ffn, vocab, context, seed;
} shape;

enum { N_SPECIAL = 3, N_BYTES = 256, MIN_VOCAB = N_SPECIAL + N_BYTES + 1 };

static void print_help(void) {
  puts(
      "usage: synth --out FILE [--type F32] [--hidden 2048] [--layers 22] [--heads 32] "
      "[--kv-heads 4]\n"
      "             [--ffn 5632] [--vocab 32000] [--context 16384] [--seed 1]\n"
      "Writes a Llama with random weights as GGUF. Matrices get the type, norms F32. Types:");
  for (int i = 0; i < N_TYPES; i++) printf(" %s", TYPES[i].name);
  putchar('\n');
}

static int bad_usage(const char *what) {
  fprintf(stderr, "synth: %s (--help lists the options)\n", what);
  return 2;
}

static int check_shape(const shape *s) {
  uint32_t block = s->type ? s->type->block_elems : 1;
  if (!s->type) return bad_usage("unknown --type");
  if (!s->out) return bad_usage("--out is missing");
  if (!s->hidden || !s->layers || !s->heads || !s->kv_heads || !s->ffn || !s->context)
    return bad_usage("a count is 0");
  if (s->hidden % s->heads || s->hidden / s->heads % 2 || s->heads % s->kv_heads)
    return bad_usage("heads do not divide evenly");
  if (s->hidden % block || s->ffn % block)
    return bad_usage("hidden and ffn must be multiples of the type's block");
  if (s->vocab < MIN_VOCAB) return bad_usage("--vocab is too small for the bytes");
  return 0;
}

/* 0: go on; else the exit status plus 1. */
static int parse_options(shape *s, int argc, char **argv) {
  static const struct option options[] = {
      {"out", 1, NULL, 'o'},  {"type", 1, NULL, 't'}, {"hidden", 1, NULL, 0},
      {"layers", 1, NULL, 1}, {"heads", 1, NULL, 2},  {"kv-heads", 1, NULL, 3},
      {"ffn", 1, NULL, 4},    {"vocab", 1, NULL, 5},  {"context", 1, NULL, 6},
      {"seed", 1, NULL, 7},   {"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};
  uint64_t *const number[] = {&s->hidden, &s->layers, &s->heads,   &s->kv_heads,
                              &s->ffn,    &s->vocab,  &s->context, &s->seed};
  for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (c == 'h') {
      print_help();
      return 1;
    }
    if (c == '?') return 3;
    if (c == 'o')
      s->out = optarg;
    else if (c == 't')
      s->type = find_type(optarg);
    else {
      char *end;
      errno = 0;
      *number[c] = strtoull(optarg, &end, 10);
      if (errno || *end || optarg[0] < '0' || optarg[0] > '9' || (c != 7 && *number[c] >> 31))
        return 1 + bad_usage("not a number");
    }
  }
  if (optind < argc) return 1 + bad_usage("too many arguments");
  int rc = check_shape(s);
  return rc ? rc + 1 : 0;
}

/* ---- tensors ----------------------------------------------------------------------------- */

typedef struct tensor {
  char name[48];
  uint64_t rows, cols; /* rows 0: a vector, F32 */
} tensor;

static size_t list_tensors(const shape *s, tensor *t) {
  uint64_t h = s->hidden, kv = h / s->heads * s->kv_heads;
  const tensor layer[] = {{"attn_norm", 0, h},     {"attn_q", h, h},      {"attn_k", kv, h},
                          {"attn_v", kv, h},       {"attn_output", h, h}, {"ffn_norm", 0, h},
                          {"ffn_gate", s->ffn, h}, {"ffn_up", s->ffn, h}, {"ffn_down", h, s->ffn}};
  size_t n = 0;
  t[n++] = (tensor){"token_embd.weight", s->vocab, h};
  for (uint64_t l = 0; l < s->layers; l++)
    for (size_t i = 0; i < sizeof layer / sizeof layer[0]; i++) {
      t[n] = layer[i];
      snprintf(t[n++].name, sizeof t[n].name, "blk.%u.%.16s.weight", (unsigned)l, layer[i].name);
    }
  t[n++] = (tensor){"output_norm.weight", 0, h};
  t[n++] = (tensor){"output.weight", s->vocab, h};
  return n;
}

static const type_rule *type_of(const shape *s, const tensor *t) {
  return t->rows ? s->type : &TYPES[0];
}

static uint64_t blocks_of(const shape *s, const tensor *t) {
  return (t->rows ? t->rows : 1) * t->cols / type_of(s, t)->block_elems;
}

static uint64_t align32(uint64_t n) {
  return (n + 31) & ~(uint64_t)31;
}

/* ---- header ------------------------------------------------------------------------------ */

enum { KV_U32 = 4, KV_I32 = 5, KV_F32 = 6, KV_BOOL = 7, KV_STRING = 8, KV_ARRAY = 9 };

/* A header under construction; `failed` once memory ran out. */
typedef struct header {
  mt_buf b;
  uint64_t n_kv;
  bool failed;
} header;

static void put(header *h, const void *p, size_t n) {
  if (mt_buf_append(&h->b, p, n)) h->failed = true;
}
static void put_u32(header *h, uint32_t v) {
  put(h, &v, sizeof v);
}
static void put_u64(header *h, uint64_t v) {
  put(h, &v, sizeof v);
}
static void put_string(header *h, const char *s) {
  put_u64(h, strlen(s));
  put(h, s, strlen(s));
}
static void put_key(header *h, const char *key, uint32_t kind) {
  put_string(h, key);
  put_u32(h, kind);
  h->n_kv++;
}
static void kv_u32(header *h, const char *key, uint64_t v) {
  put_key(h, key, KV_U32);
  put_u32(h, (uint32_t)v);
}
static void kv_f32(header *h, const char *key, float v) {
  put_key(h, key, KV_F32);
  put(h, &v, sizeof v);
}
static void kv_string(header *h, const char *key, const char *v) {
  put_key(h, key, KV_STRING);
  put_string(h, v);
}
static void kv_array(header *h, const char *key, uint32_t kind, uint64_t n) {
  put_key(h, key, KV_ARRAY);
  put_u32(h, kind);
  put_u64(h, n);
}

/* Token i of a SentencePiece vocabulary: <unk>, <s>, </s>, the bytes, the mark of a space, then
 * all words over a … z in order of length, each also with the mark before it: so the parts of
 * every token are tokens. */
static void spell_token(uint64_t i, char out[32]) {
  static const char *const special[N_SPECIAL] = {"<unk>", "<s>", "</s>"};
  if (i < N_SPECIAL) {
    snprintf(out, 32, "%s", special[i]);
  } else if (i < N_SPECIAL + N_BYTES) {
    snprintf(out, 32, "<0x%02X>", (unsigned)(i - N_SPECIAL));
  } else {
    char word[16], *w = word + sizeof word - 1;
    *w = 0;
    i -= N_SPECIAL + N_BYTES;
    for (uint64_t k = (i + 1) / 2; k; k = (k - 1) / 26) *--w = (char)('a' + (k - 1) % 26);
    snprintf(out, 32, "%s%s", i % 2 ? "" : "\xE2\x96\x81", w);
  }
}

static void put_tokenizer(header *h, uint64_t vocab) {
  enum { NORMAL = 1, UNKNOWN, CONTROL, BYTE = 6 };
  kv_string(h, "tokenizer.ggml.model", "llama");
  kv_array(h, "tokenizer.ggml.tokens", KV_STRING, vocab);
  for (uint64_t i = 0; i < vocab; i++) {
    char text[32];
    spell_token(i, text);
    put_string(h, text);
  }
  kv_array(h, "tokenizer.ggml.scores", KV_F32, vocab);
  for (uint64_t i = 0; i < vocab; i++) {
    float score = i < N_SPECIAL + N_BYTES ? 0 : -(float)(i - N_SPECIAL - N_BYTES);
    put(h, &score, sizeof score);
  }
  kv_array(h, "tokenizer.ggml.token_type", KV_I32, vocab);
  for (uint64_t i = 0; i < vocab; i++)
    put_u32(h, i == 0                    ? UNKNOWN
               : i < N_SPECIAL           ? CONTROL
               : i < N_SPECIAL + N_BYTES ? BYTE
                                         : NORMAL);
  kv_u32(h, "tokenizer.ggml.unknown_token_id", 0);
  kv_u32(h, "tokenizer.ggml.bos_token_id", 1);
  kv_u32(h, "tokenizer.ggml.eos_token_id", 2);
  put_key(h, "tokenizer.ggml.add_bos_token", KV_BOOL);
  put(h, "\1", 1);
}

static void put_keys(header *h, const shape *s) {
  char name[80];
  snprintf(name, sizeof name, "random Llama, %s, seed %llu", s->type->name,
           (unsigned long long)s->seed);
  kv_string(h, "general.architecture", "llama");
  kv_string(h, "general.name", name);
  kv_u32(h, "general.file_type", s->type->file_type);
  kv_u32(h, "general.quantization_version", 2);
  kv_u32(h, "llama.block_count", s->layers);
  kv_u32(h, "llama.context_length", s->context);
  kv_u32(h, "llama.embedding_length", s->hidden);
  kv_u32(h, "llama.feed_forward_length", s->ffn);
  kv_u32(h, "llama.attention.head_count", s->heads);
  kv_u32(h, "llama.attention.head_count_kv", s->kv_heads);
  kv_f32(h, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
  kv_u32(h, "llama.rope.dimension_count", s->hidden / s->heads);
  kv_f32(h, "llama.rope.freq_base", 10000);
  kv_u32(h, "llama.vocab_size", s->vocab);
  put_tokenizer(h, s->vocab);
}

static void put_tensor_infos(header *h, const shape *s, const tensor *t, size_t n) {
  uint64_t offset = 0;
  for (size_t i = 0; i < n; i++) {
    put_string(h, t[i].name);
    put_u32(h, t[i].rows ? 2 : 1);
    put_u64(h, t[i].cols); /* GGUF names the innermost dimension first */
    if (t[i].rows) put_u64(h, t[i].rows);
    put_u32(h, type_of(s, &t[i])->ggml);
    put_u64(h, offset);
    offset += align32(blocks_of(s, &t[i]) * type_of(s, &t[i])->block_bytes);
  }
}

static bool write_header(FILE *f, const shape *s, const tensor *t, size_t n) {
  header keys = {0}, h = {0};
  put_keys(&keys, s);
  put(&h, "GGUF", 4);
  put_u32(&h, 3);
  put_u64(&h, n);
  put_u64(&h, keys.n_kv);
  put(&h, keys.b.data, keys.b.len);
  put_tensor_infos(&h, s, t, n);
  while (h.b.len % 32 && !h.failed) put(&h, "", 1);
  bool ok = !keys.failed && !h.failed && fwrite(h.b.data, 1, h.b.len, f) == h.b.len;
  mt_buf_free(&keys.b);
  mt_buf_free(&h.b);
  return ok;
}

/* ---- weights ----------------------------------------------------------------------------- */

enum { CHUNK_BLOCKS = 32768 }; /* a multiple of 8, so that chunks are whole words */

/* Words of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
 * 2014), which may start anywhere; Philox makes each tensor's key. */
static void fill_random(uint64_t key, uint64_t from, uint64_t *word, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint64_t z = key + (from + i) * 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    word[i] = z ^ z >> 31;
  }
}

/* Means of the norms are 1, but for the last: there the logits get a spread of about 8, as trained
 * models have it, so that sampling has as much to do as with those. */
static float norm_mean(const shape *s, const tensor *t) {
  if (strcmp(t->name, "output_norm.weight")) return 1;
  return 8 / (0.02f * sqrtf((float)s->hidden));
}

/* Random bits to floats, uniform in mean ± 0.035: a standard deviation of 0.02. */
static void make_floats(void *data, size_t n, float mean) {
  for (size_t i = 0; i < n; i++) {
    int32_t bits;
    memcpy(&bits, (char *)data + 4 * i, 4);
    float v = mean + (float)bits * (0.035f * 0x1p-31f);
    memcpy((char *)data + 4 * i, &v, 4);
  }
}

/* The same for f16 and bf16: 16 random bits choose among 65,536 values. What would be subnormal is
 * 0; the rest is rounded towards 0. */
static void fill_half_table(uint16_t *table, bool bf16) {
  for (int i = 0; i < 65536; i++) {
    float v = (float)(i - 32768) * (0.035f * 0x1p-15f);
    uint32_t u, sign;
    memcpy(&u, &v, 4);
    sign = u >> 16 & 0x8000u;
    u &= 0x7fffffffu;
    uint32_t f16 = u < 0x38800000u ? 0 : (u - 0x38000000u) >> 13;
    table[i] = (uint16_t)(sign | (bf16 ? u >> 16 : f16));
  }
}

static void make_halves(void *data, size_t n, bool bf16) {
  static uint16_t table[65536]; /* one type a run; entry 0 is never 0 once filled */
  if (!table[0]) fill_half_table(table, bf16);
  uint16_t *h = data;
  for (size_t i = 0; i < n; i++) h[i] = table[h[i]];
}

static void make_blocks(const type_rule *t, uint8_t *data, size_t n) {
  for (int k = 0; k < 2; k++) {
    const field *f = &t->field[k];
    uint8_t *p = data + f->at;
    for (size_t i = 0; f->width && i < n; i++, p += t->block_bytes) {
      unsigned v = p[0] | (f->width > 1 ? (unsigned)p[1] << 8 : 0);
      v = f->base + (v & f->mask);
      p[0] = (uint8_t)v;
      if (f->width > 1) p[1] = (uint8_t)(v >> 8);
    }
  }
}

static bool write_tensor(FILE *f, const shape *s, const tensor *t, size_t index, uint64_t *chunk) {
  const type_rule *type = type_of(s, t);
  const uint32_t counter[4] = {(uint32_t)index},
                 pair[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
  uint32_t w[4];
  mt_philox4x32(counter, pair, w);
  uint64_t key = (uint64_t)w[1] << 32 | w[0], n = blocks_of(s, t), bytes = 0;
  for (uint64_t b = 0; b < n; b += CHUNK_BLOCKS) {
    size_t m = n - b < CHUNK_BLOCKS ? (size_t)(n - b) : CHUNK_BLOCKS, size = m * type->block_bytes;
    fill_random(key, b * type->block_bytes / 8, chunk, (size + 7) / 8);
    if (type->ggml == 0)
      make_floats(chunk, m, t->rows ? 0 : norm_mean(s, t));
    else if (type->block_elems == 1)
      make_halves(chunk, m, type->ggml == 30);
    else
      make_blocks(type, (uint8_t *)chunk, m);
    if (fwrite(chunk, 1, size, f) != size) return false;
    bytes += size;
  }
  static const char zero[32];
  size_t rest = (size_t)(align32(bytes) - bytes);
  return fwrite(zero, 1, rest, f) == rest;
}

static bool write_model(FILE *f, const shape *s) {
  tensor *t = mt_calloc(3 + 9 * s->layers, sizeof *t);
  uint64_t *chunk = mt_malloc(CHUNK_BLOCKS, 256);
  size_t n = t ? list_tensors(s, t) : 0;
  bool ok = t && chunk && write_header(f, s, t, n);
  for (size_t i = 0; ok && i < n; i++) ok = write_tensor(f, s, &t[i], i, chunk);
  free(t);
  free(chunk);
  return ok;
}

int main(int argc, char **argv) {
  shape s = {.type = &TYPES[0],
             .hidden = 2048,
             .layers = 22,
             .heads = 32,
             .kv_heads = 4,
             .ffn = 5632,
             .vocab = 32000,
             .context = 16384,
             .seed = 1};
  int rc = parse_options(&s, argc, argv);
  if (rc) return rc - 1;
  /* Under another name until it is whole, so that a model that is there can be used. */
  mt_buf part = {0};
  FILE *f = mt_buf_printf(&part, "%s.part", s.out) ? NULL : fopen(part.data, "wb");
  bool ok = f && write_model(f, &s);
  if (f && fclose(f)) ok = false;
  if (ok && rename(part.data, s.out)) ok = false;
  if (!ok) {
    fprintf(stderr, "synth: cannot write %s: %s\n", s.out, strerror(errno));
    if (f) remove(part.data);
  }
  mt_buf_free(&part);
  return ok ? 0 : 1;
}
