/* A GGUF model of any family, shape, types and damage, loaded by 1 to 8 ranks: the slices of a
 * matrix, read back, are the file's tensor, each element on one rank (keys' and values' on one at
 * least). A file that is cut short while it is read is refused by every rank with one code. The
 * ranks are threads (fuzz_comm.h). */
#include "../../src/model/model_impl.h"
#include "fuzz_comm.h"
#include "fuzz_file.h"

/* Loops of the checks over every element: following their branches would be most of the time. */
#define UNFOLLOWED __attribute__((no_sanitize("coverage")))

/* ---- the model --------------------------------------------------------------------------- */

static const char *const FAMILY[] = {"llama", "qwen2", "qwen3", "phi3", "gemma3"};
enum { LLAMA, QWEN2, QWEN3, PHI3, GEMMA3, N_FAMILIES };

/* GGUF's numbers of the types; the first three are those of vectors. */
static const struct {
  uint32_t code;
  mt_dtype type;
} TYPE[] = {{0, MT_F32},   {1, MT_F16},     {30, MT_BF16},   {8, MT_Q8_0},
            {2, MT_Q4_0},  {3, MT_Q4_1},    {6, MT_Q5_0},    {7, MT_Q5_1},
            {10, MT_Q2_K}, {11, MT_Q3_K},   {12, MT_Q4_K},   {13, MT_Q5_K},
            {14, MT_Q6_K}, {20, MT_IQ4_NL}, {23, MT_IQ4_XS}, {39, MT_MXFP4}};
enum { N_TYPES = sizeof TYPE / sizeof TYPE[0], N_VECTOR_TYPES = 3, MAX_TENSORS = 64 };

typedef struct tensor {
  char name[40];
  uint64_t rows, cols; /* cols 0: a vector */
  int type;            /* in TYPE */
} tensor;

typedef struct model {
  int family, ranks, threads;
  bool shared, tied, biases;
  uint32_t layers, kv_heads, heads, head_dim, hidden, ffn, vocab;
  tensor tensor[MAX_TENSORS];
  size_t n;
} model;

static void add(model *m, input *in, uint32_t layer, const char *name, uint64_t rows,
                uint64_t cols) {
  tensor *t = &m->tensor[m->n++];
  *t = (tensor){
      .rows = rows, .cols = cols, .type = (int)choose(in, cols ? N_TYPES : N_VECTOR_TYPES)};
  if (cols && cols % mt_dtype_get(TYPE[t->type].type)->block_elems) t->type %= N_VECTOR_TYPES;
  if (layer == UINT32_MAX)
    snprintf(t->name, sizeof t->name, "%s", name);
  else
    snprintf(t->name, sizeof t->name, "blk.%u.%s", layer, name);
}

static void add_attention(model *m, input *in, uint32_t l) {
  uint64_t q = (uint64_t)m->heads * m->head_dim, kv = (uint64_t)m->kv_heads * m->head_dim;
  add(m, in, l, "attn_norm.weight", m->hidden, 0);
  if (m->family == PHI3) {
    add(m, in, l, "attn_qkv.weight", q + 2 * kv, m->hidden);
  } else {
    add(m, in, l, "attn_q.weight", q, m->hidden);
    add(m, in, l, "attn_k.weight", kv, m->hidden);
    add(m, in, l, "attn_v.weight", kv, m->hidden);
  }
  add(m, in, l, "attn_output.weight", m->hidden, q);
  if (m->family == QWEN2 || (m->family == LLAMA && m->biases)) {
    add(m, in, l, "attn_q.bias", q, 0);
    add(m, in, l, "attn_k.bias", kv, 0);
    add(m, in, l, "attn_v.bias", kv, 0);
  }
  if (m->family == QWEN3 || m->family == GEMMA3) {
    add(m, in, l, "attn_q_norm.weight", m->head_dim, 0);
    add(m, in, l, "attn_k_norm.weight", m->head_dim, 0);
  }
  if (m->family == GEMMA3) add(m, in, l, "post_attention_norm.weight", m->hidden, 0);
}

static void add_ffn(model *m, input *in, uint32_t l) {
  add(m, in, l, "ffn_norm.weight", m->hidden, 0);
  if (m->family != PHI3) add(m, in, l, "ffn_gate.weight", m->ffn, m->hidden);
  add(m, in, l, "ffn_up.weight", m->family == PHI3 ? 2 * m->ffn : m->ffn, m->hidden);
  add(m, in, l, "ffn_down.weight", m->hidden, m->ffn);
  if (m->family == LLAMA && m->biases) {
    add(m, in, l, "ffn_gate.bias", m->ffn, 0);
    add(m, in, l, "ffn_up.bias", m->ffn, 0);
    add(m, in, l, "ffn_down.bias", m->hidden, 0);
  }
  if (m->family == GEMMA3) add(m, in, l, "post_ffw_norm.weight", m->hidden, 0);
}

/* 1 to `most`: any, or whole blocks of 32, 64 or 256. */
static uint32_t choose_width(input *in, uint32_t most) {
  static const uint32_t step[] = {32, 256, 1, 64};
  uint32_t by = step[choose(in, 4)];
  return by <= most ? by * (1 + choose(in, 256) % (most / by)) : most;
}

static void choose_model(model *m, input *in) {
  *m = (model){.family = (int)choose(in, N_FAMILIES), .ranks = 1 + (int)choose(in, FUZZ_RANKS)};
  uint32_t flags = choose(in, 256);
  m->shared = flags & 1;
  m->tied = flags & 2;
  m->biases = flags & 4;
  m->threads = 1 + (int)(flags >> 5) % 3;
  m->layers = 1 + choose(in, 8) / 7;
  m->kv_heads = 1 + choose(in, 3);
  m->heads = m->kv_heads * (1 + choose(in, 3));
  m->head_dim = 2 * (1 + choose(in, 40));
  m->hidden = choose_width(in, choose(in, 2) ? 256 : 96);
  m->ffn = choose_width(in, 768);
  m->vocab = 1 + choose(in, 256);
  add(m, in, UINT32_MAX, "token_embd.weight", m->vocab, m->hidden);
  add(m, in, UINT32_MAX, "output_norm.weight", m->hidden, 0);
  if (!m->tied) add(m, in, UINT32_MAX, "output.weight", m->vocab, m->hidden);
  for (uint32_t l = 0; l < m->layers; l++) {
    add_attention(m, in, l);
    add_ffn(m, in, l);
  }
}

/* ---- the file ---------------------------------------------------------------------------- */

static void put(mt_buf *b, const void *p, size_t n) {
  require(!mt_buf_append(b, p, n));
}
static void put_u32(mt_buf *b, uint32_t v) {
  put(b, &v, sizeof v);
}
static void put_u64(mt_buf *b, uint64_t v) {
  put(b, &v, sizeof v);
}
static void put_text(mt_buf *b, const char *s) {
  put_u64(b, strlen(s));
  put(b, s, strlen(s));
}
static void put_key(mt_buf *b, const model *m, const char *key, uint32_t value) {
  char name[80];
  snprintf(name, sizeof name, "%s.%s", FAMILY[m->family], key);
  put_text(b, name);
  put_u32(b, 4);
  put_u32(b, value);
}

static uint64_t tensor_bytes(const tensor *t) {
  const mt_dtype_info *d = mt_dtype_get(TYPE[t->type].type);
  return t->rows * (t->cols ? t->cols : 1) / d->block_elems * d->block_bytes;
}

static void put_header(mt_buf *b, const model *m) {
  put(b, "GGUF", 4);
  put_u32(b, 3);
  put_u64(b, m->n);
  put_u64(b, 11);
  put_text(b, "general.architecture");
  put_u32(b, 8);
  put_text(b, FAMILY[m->family]);
  put_key(b, m, "block_count", m->layers);
  put_key(b, m, "embedding_length", m->hidden);
  put_key(b, m, "feed_forward_length", m->ffn);
  put_key(b, m, "attention.head_count", m->heads);
  put_key(b, m, "attention.head_count_kv", m->kv_heads);
  put_key(b, m, "attention.key_length", m->head_dim);
  put_key(b, m, "attention.value_length", m->head_dim);
  put_key(b, m, "attention.sliding_window", 8);
  put_key(b, m, "context_length", 64);
  char name[80];
  float eps = 1e-6f;
  snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", FAMILY[m->family]);
  put_text(b, name);
  put_u32(b, 6);
  put(b, &eps, sizeof eps);
  uint64_t at = 0;
  for (size_t i = 0; i < m->n; i++) {
    const tensor *t = &m->tensor[i];
    put_text(b, t->name);
    put_u32(b, t->cols ? 2 : 1);
    if (t->cols) put_u64(b, t->cols);
    put_u64(b, t->rows);
    put_u32(b, TYPE[t->type].code);
    put_u64(b, at);
    at += (tensor_bytes(t) + 31) / 32 * 32;
  }
}

/* No two stretches alike, so that a row or a block in a wrong place is seen. */
static void put_data(mt_buf *b, size_t bytes) {
  static uint64_t *pool, n;
  while (b->len % 32) put(b, "", 1);
  if (n * sizeof *pool < bytes) {
    n = bytes / sizeof *pool + 1;
    require((pool = realloc(pool, n * sizeof *pool)) != NULL);
    uint64_t x = 88172645463325252u; /* xorshift (Marsaglia, 2003) */
    for (size_t i = 0; i < n; i++) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
      pool[i] = x;
    }
  }
  put(b, pool, bytes);
}

/* Bytes of the header, to which something is added. */
static bool damage(mt_buf *b, input *in, uint32_t times) {
  bool any = false;
  while (times--) {
    size_t at = (choose(in, 256) << 8 | choose(in, 256)) % b->len;
    uint32_t by = choose(in, 256);
    b->data[at] = (char)(b->data[at] + (char)by);
    any |= by != 0;
  }
  return any;
}

/* ---- ranks ------------------------------------------------------------------------------- */

typedef struct job {
  mt_comm comm;
  const char *path;
  int threads;
  const mt_kernels *kernels;
  mt_model *model;
  int rc;
  mt_err err;
  pthread_t thread;
} job;

static void *load(void *arg) {
  job *j = arg;
  mt_team *team = NULL;
  const mt_model_options opt = {.kernels = j->kernels,
                                .kv_tokens = 16,
                                .max_seqs = 1,
                                .max_rows = 2,
                                .max_memory_bytes = 128u << 20};
  require(!mt_team_new(&team, NULL, j->threads, NULL, true, &j->err));
  j->rc = mt_model_load(&j->model, &j->comm, team, j->path, &opt, &j->err);
  require(!j->rc == (j->model != NULL));
  mt_team_free(team); /* what was loaded is only read from now on */
  return NULL;
}

static void *unload(void *arg) {
  mt_model_free(((job *)arg)->model);
  return NULL;
}

static void run_all(job *j, int n, void *(*fn)(void *)) {
  for (int r = 0; r < n; r++) require(!pthread_create(&j[r].thread, NULL, fn, &j[r]));
  for (int r = 0; r < n; r++) require(!pthread_join(j[r].thread, NULL));
}

/* ---- checks ------------------------------------------------------------------------------ */

UNFOLLOWED static bool same(float a, float b) {
  return !memcmp(&a, &b, sizeof a) || (a != a && b != b);
}

/* A tensor of the file as floats, and how often each element was found on a rank. */
typedef struct whole {
  size_t rows, cols;
  float *value;
  uint8_t *seen;
} whole;

static void read_whole(whole *x, mt_weights *w, const char *name) {
  const mt_tensor_info *t = mt_weights_find(w, name);
  require(t != NULL);
  x->rows = (size_t)t->shape.dim[0];
  x->cols = t->shape.n > 1 ? (size_t)t->shape.dim[1] : 1;
  void *raw = malloc(t->bytes);
  x->value = malloc(x->rows * x->cols * sizeof *x->value);
  x->seen = calloc(x->rows, x->cols);
  require(raw && x->value && x->seen);
  require(!mt_weights_read(w, t, 0, (size_t)t->bytes, raw, NULL));
  mt_dequantize(t->type, raw, x->rows * x->cols, x->value);
  free(raw);
}

/* GGUF's llama has rows 0, n/2, 1, n/2 + 1 … of each head of q and k. */
static size_t file_row(const mt_model_config *c, bool turned, size_t row) {
  if (!turned || !c->permuted_qk) return row;
  size_t in = row % c->head_dim, half = c->head_dim / 2;
  return row - in + (in < half ? 2 * in : 2 * (in - half) + 1);
}

/* Rows of m are those from `row` on of the part of the tensor that begins at `part`. */
UNFOLLOWED static void check_matrix(whole *x, const mt_model_config *c, const mt_matrix *m,
                                    size_t part, size_t row, bool turned) {
  float *got = malloc((m->cols + 1) * sizeof *got);
  require(got != NULL);
  for (size_t r = 0; m->cols && r < m->rows; r++) {
    size_t from = part + file_row(c, turned, row + r);
    require(from < x->rows && m->k_begin + m->cols <= x->cols);
    mt_matrix_row(m, r, got);
    for (size_t k = 0; k < m->cols; k++) {
      size_t at = from * x->cols + m->k_begin + k;
      require(same(got[k], x->value[at]));
      if (x->seen[at] < 255) x->seen[at]++;
    }
  }
  free(got);
}

UNFOLLOWED static void check_vector(whole *x, const mt_model_config *c, const float *v,
                                    size_t begin, size_t end, bool turned) {
  for (size_t i = begin; i < end; i++) {
    size_t at = file_row(c, turned, i);
    require(at < x->rows && same(v[i - begin], x->value[at]));
    x->seen[at] = 1;
  }
}

/* How often the elements [begin, end) were seen: once, or at least once. */
UNFOLLOWED static void check_seen(const whole *x, size_t begin, size_t end, bool once) {
  for (size_t i = begin * x->cols; i < end * x->cols; i++)
    require(once ? x->seen[i] == 1 : x->seen[i] > 0);
}

static void free_whole(whole *x) {
  free(x->value);
  free(x->seen);
}

typedef struct source {
  const char *name;      /* in a layer */
  size_t part, unit;     /* where its rows begin in the tensor; rows of what is dealt out */
  const mt_range *dealt; /* NULL: all rows, and the columns are dealt out */
  bool turned, once;
} source;

/* The seven matrices of a layer on every rank, against the tensors of the file. */
static void check_layer(job *j, int n, uint32_t l) {
  const mt_model_config *c = &j->model->cfg;
  bool fused = c->fused_qkv;
  size_t hd = c->head_dim, q = c->n_heads * hd, kv = c->n_kv_heads * hd;
  for (int i = 0; i < MT_LAYER_MATRICES; i++) {
    const source s[MT_LAYER_MATRICES] = {
        {fused ? "attn_qkv.weight" : "attn_q.weight", 0, q, NULL, true, true},
        {fused ? "attn_qkv.weight" : "attn_k.weight", fused ? q : 0, kv, NULL, true, false},
        {fused ? "attn_qkv.weight" : "attn_v.weight", fused ? q + kv : 0, kv, NULL, false, false},
        {"attn_output.weight", 0, c->hidden, NULL, false, true},
        {c->fused_gate_up ? "ffn_up.weight" : "ffn_gate.weight", 0, c->ffn, NULL, false, true},
        {"ffn_up.weight", c->fused_gate_up ? c->ffn : 0, c->ffn, NULL, false, true},
        {"ffn_down.weight", 0, c->hidden, NULL, false, true}};
    char name[60];
    whole x;
    snprintf(name, sizeof name, "blk.%u.%s", l, s[i].name);
    read_whole(&x, j->model->weights, name);
    for (int r = 0; r < n; r++) {
      const mt_shard *p = &j[r].model->shard;
      const size_t row[MT_LAYER_MATRICES] = {p->heads.begin * hd,
                                             p->kv_heads.begin * hd,
                                             p->kv_heads.begin * hd,
                                             0,
                                             p->ffn.begin,
                                             p->ffn.begin,
                                             0};
      check_matrix(&x, c, mt_layer_matrix(&j[r].model->layer[l], i), s[i].part, row[i],
                   s[i].turned);
    }
    check_seen(&x, s[i].part, s[i].part + s[i].unit, s[i].once);
    free_whole(&x);
  }
}

static void check_layer_vectors(job *j, int n, uint32_t l) {
  const mt_model_config *c = &j->model->cfg;
  size_t hd = c->head_dim;
  static const char *const NAME[] = {
      "attn_norm.weight",     "ffn_norm.weight",    "post_attention_norm.weight",
      "post_ffw_norm.weight", "attn_q_norm.weight", "attn_k_norm.weight",
      "attn_q.bias",          "attn_k.bias",        "attn_v.bias",
      "attn_output.bias",     "ffn_gate.bias",      "ffn_up.bias",
      "ffn_down.bias"};
  for (size_t i = 0; i < sizeof NAME / sizeof NAME[0]; i++) {
    char name[60];
    whole x;
    snprintf(name, sizeof name, "blk.%u.%s", l, NAME[i]);
    if (!mt_weights_find(j->model->weights, name)) continue;
    read_whole(&x, j->model->weights, name);
    for (int r = 0; r < n; r++) {
      const mt_shard *p = &j[r].model->shard;
      const mt_layer *y = &j[r].model->layer[l];
      const float *v[] = {y->attn_norm, y->ffn_norm, y->post_attn_norm, y->post_ffn_norm, y->q_norm,
                          y->k_norm,    y->q_bias,   y->k_bias,         y->v_bias,        y->o_bias,
                          y->gate_bias, y->up_bias,  y->down_bias};
      size_t begin = 0, end = x.rows;
      if (i == 6) begin = p->heads.begin * hd, end = p->heads.end * hd;
      if (i == 7 || i == 8) begin = p->kv_heads.begin * hd, end = p->kv_heads.end * hd;
      if (i == 10 || i == 11) begin = p->ffn.begin, end = p->ffn.end;
      check_vector(&x, c, v[i], begin, end, i == 6 || i == 7 || i == 4 || i == 5);
    }
    check_seen(&x, 0, x.rows, false);
    free_whole(&x);
  }
}

static void check_ends(job *j, int n) {
  const mt_model_config *c = &j->model->cfg;
  whole embed, norm, head;
  read_whole(&embed, j->model->weights, "token_embd.weight");
  read_whole(&norm, j->model->weights, "output_norm.weight");
  if (!c->tied) read_whole(&head, j->model->weights, "output.weight");
  for (int r = 0; r < n; r++) {
    const mt_model *m = j[r].model;
    check_matrix(&embed, c, &m->embed, 0, m->shard.vocab.begin, false);
    check_vector(&norm, c, m->final_norm, 0, c->hidden, false);
    if (!c->tied) check_matrix(&head, c, &m->head, 0, m->shard.vocab.begin, false);
  }
  check_seen(&embed, 0, embed.rows, true);
  check_seen(&norm, 0, norm.rows, false);
  if (!c->tied) check_seen(&head, 0, head.rows, true);
  free_whole(&embed);
  free_whole(&norm);
  if (!c->tied) free_whole(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static model m;
  static job j[FUZZ_RANKS];
  input in = {data, size};
  mt_buf file = {0};
  mt_log_set_level(MT_LOG_ERROR);
  fuzz_world world = {0};
  world.cut_agreements = (int)choose(&in, 32);
  size_t cut = choose(&in, 256);
  uint32_t damages = choose(&in, 16);
  choose_model(&m, &in);
  put_header(&file, &m);
  bool damaged = damage(&file, &in, damages < 8 ? 0 : damages % 4 + 1);
  uint64_t bytes = 0;
  for (size_t i = 0; i < m.n; i++) bytes += (tensor_bytes(&m.tensor[i]) + 31) / 32 * 32;
  put_data(&file, bytes);
  const char *path = fuzz_file((const uint8_t *)file.data, file.len);
  world.size = m.ranks;
  world.shared = m.shared;
  world.cut_fd = fuzz_fd();
  world.cut_bytes = file.len / 256 * cut;
  require(!pthread_barrier_init(&world.meeting, NULL, (unsigned)m.ranks));
  const mt_kernels *kernels;
  require(!mt_kernels_get(NULL, &kernels, NULL));
  for (int r = 0; r < m.ranks; r++)
    j[r] = (job){.comm = {&world, r}, .path = path, .threads = m.threads, .kernels = kernels};
  bool never = world.cut_agreements == 0;
  run_all(j, m.ranks, load);
  for (int r = 0; r < m.ranks; r++) require(j[r].rc == j->rc && (!j->rc || j[r].err.msg[0]));
  require(!j->rc || damaged || !never);
  bool whole_file = never || world.cut_agreements > 0;
  for (uint32_t l = 0; !j->rc && whole_file && l < j->model->cfg.n_layers; l++) {
    check_layer(j, m.ranks, l);
    check_layer_vectors(j, m.ranks, l);
  }
  if (!j->rc && whole_file) check_ends(j, m.ranks);
  if (!j->rc) run_all(j, m.ranks, unload);
  pthread_barrier_destroy(&world.meeting);
  mt_buf_free(&file);
  return 0;
}
