/* What the scripts of this directory need and a shell lacks: reading JSON, writing models of any
 * size, breaking them, measuring a process. Called by lib.sh. tool_e2e json FILE PATH        value
 * at PATH ("choices.0.text", "ids.#" for a length, "" for nothing); exit 1 if FILE is not exactly
 * one JSON value or PATH is not in it tool_e2e model DIR LAYERS HIDDEN HEADS KV_HEADS FFN VOCAB
 * CONTEXT a Llama with random bf16 weights and no tokenizer tool_e2e poke FILE TENSOR INDEX HEX
 *                                  overwrites element INDEX of a safetensors tensor with the bytes
 * HEX tool_e2e peak OUT COMMAND…     runs COMMAND, writes its peak resident KiB to OUT (".RANK"
 * appended under mpirun) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mutirao/base.h"
#include "mutirao/json.h"

static int fail(const char *what) {
  fprintf(stderr, "tool_e2e: %s\n", what);
  return 1;
}

/* ---- json -------------------------------------------------------------------------------- */

static void print_value(const mt_json *j) {
  size_t len;
  int64_t i;
  double d;
  bool b;
  mt_buf out = {0};
  const char *s = mt_json_string(j, &len);
  if (s) {
    fwrite(s, 1, len, stdout);
    putchar('\n');
  } else if (mt_json_is(j, MT_JSON_INT) && mt_json_int(j, &i)) {
    printf("%lld\n", (long long)i);
  } else if (mt_json_number(j, &d)) {
    printf("%.17g\n", d);
  } else if (mt_json_bool(j, &b)) {
    puts(b ? "true" : "false");
  } else if (mt_json_is(j, MT_JSON_ARRAY)) { /* one value a line */
    for (size_t k = 0; k < mt_json_len(j); k++) print_value(mt_json_at(j, k));
  } else {
    if (!mt_json_write(j, 0, &out) && out.data) printf("%.*s\n", (int)out.len, out.data);
    mt_buf_free(&out);
  }
}

static int do_json(const char *file, char *path) {
  mt_json *root = NULL;
  mt_err e = {0};
  if (mt_json_read_file(&root, file, 256u << 20, &e)) return fail(e.msg);
  const mt_json *j = root;
  int rc = 0;
  for (char *key = strtok(path, "."); key && !rc; key = strtok(NULL, ".")) {
    if (!strcmp(key, "#")) {
      printf("%zu\n", mt_json_len(j));
      mt_json_free(root);
      return 0;
    }
    const mt_json *next =
        mt_json_is(j, MT_JSON_ARRAY) ? mt_json_at(j, strtoul(key, NULL, 10)) : mt_json_get(j, key);
    if (!next) rc = fail(key);
    j = next;
  }
  if (!rc && *path) print_value(j);
  mt_json_free(root);
  return rc;
}

/* ---- model ------------------------------------------------------------------------------- */

typedef struct tensor {
  char name[64];
  size_t rows, cols; /* cols 0: a vector */
} tensor;

static size_t elements(const tensor *t) {
  return t->rows * (t->cols ? t->cols : 1);
}

static size_t list_tensors(tensor *t, size_t layers, size_t hidden, size_t q, size_t kv, size_t ffn,
                           size_t vocab) {
  size_t n = 0;
  t[n++] = (tensor){"model.embed_tokens.weight", vocab, hidden};
  t[n++] = (tensor){"model.norm.weight", hidden, 0};
  for (size_t l = 0; l < layers; l++) {
    const tensor own[] = {
        {"input_layernorm.weight", hidden, 0},   {"post_attention_layernorm.weight", hidden, 0},
        {"self_attn.q_proj.weight", q, hidden},  {"self_attn.k_proj.weight", kv, hidden},
        {"self_attn.v_proj.weight", kv, hidden}, {"self_attn.o_proj.weight", hidden, q},
        {"mlp.gate_proj.weight", ffn, hidden},   {"mlp.up_proj.weight", ffn, hidden},
        {"mlp.down_proj.weight", hidden, ffn}};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
      t[n] = own[i];
      snprintf(t[n].name, sizeof t[n].name, "model.layers.%u.%.40s", (unsigned)l, own[i].name);
      n++;
    }
  }
  return n;
}

static int write_header(FILE *f, const tensor *t, size_t n) {
  mt_buf h = {0};
  size_t at = 0;
  int rc = mt_buf_putc(&h, '{');
  for (size_t i = 0; i < n && !rc; i++) {
    size_t bytes = 2 * elements(&t[i]);
    rc = mt_buf_printf(&h, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%zu", i ? "," : "", t[i].name,
                       t[i].rows);
    if (!rc && t[i].cols) rc = mt_buf_printf(&h, ",%zu", t[i].cols);
    if (!rc) rc = mt_buf_printf(&h, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
    at += bytes;
  }
  if (!rc) rc = mt_buf_putc(&h, '}');
  while (!rc && h.len % 8) rc = mt_buf_putc(&h, ' ');
  uint64_t len = h.len;
  if (!rc && (fwrite(&len, 8, 1, f) != 1 || fwrite(h.data, 1, h.len, f) != h.len)) rc = 1;
  mt_buf_free(&h);
  return rc;
}

/* Uniform in ±sqrt(3 / cols): each row of a product keeps about the size of its input. Vectors
 * are 1. */
static int write_tensor(FILE *f, const tensor *t, size_t which) {
  uint16_t row[16384];
  double scale = t->cols ? 2 * mt_exp64(0.5 * mt_log64(3.0 / (double)t->cols)) : 0;
  for (size_t at = 0, n = elements(t); at < n;) {
    size_t k = n - at < 16384 ? n - at : 16384;
    for (size_t i = 0; i < k; i++) {
      float v = t->cols ? (float)(scale * (mt_uniform(7, (uint32_t)which, at + i, 0) - 0.5)) : 1.0f;
      uint32_t bits;
      memcpy(&bits, &v, 4);
      row[i] = (uint16_t)(bits >> 16);
    }
    if (fwrite(row, 2, k, f) != k) return 1;
    at += k;
  }
  return 0;
}

static int write_config(const char *dir, const size_t *v, size_t head_dim) {
  char path[4200];
  snprintf(path, sizeof path, "%s/config.json", dir);
  FILE *f = fopen(path, "w");
  if (!f) return 1;
  fprintf(f,
          "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_act\":"
          "\"silu\",\"num_hidden_layers\":"
          "%zu,\"hidden_size\":%zu,\"num_attention_heads\":%zu,\"num_key_value_heads\":%zu,\"head_"
          "dim\":%zu,"
          "\"intermediate_size\":%zu,\"vocab_size\":%zu,\"max_position_embeddings\":%zu,\"rms_norm_"
          "eps\":1e-5,"
          "\"rope_theta\":10000.0,\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\"}\n",
          v[0], v[1], v[2], v[3], head_dim, v[4], v[5], v[6]);
  return fclose(f) != 0;
}

static int do_model(const char *dir, char **number) {
  size_t v[7]; /* layers, hidden, heads, KV heads, FFN, vocabulary, context */
  for (int i = 0; i < 7; i++) v[i] = strtoul(number[i], NULL, 10);
  size_t head_dim = v[1] / v[2], n;
  tensor *t = calloc(2 + 9 * v[0], sizeof *t);
  char path[4200];
  mkdir(dir, 0777);
  snprintf(path, sizeof path, "%s/model.safetensors", dir);
  FILE *f = t ? fopen(path, "wb") : NULL;
  if (!f) {
    free(t);
    return fail("cannot write the model");
  }
  n = list_tensors(t, v[0], v[1], v[2] * head_dim, v[3] * head_dim, v[4], v[5]);
  int rc = write_header(f, t, n);
  for (size_t i = 0; i < n && !rc; i++) rc = write_tensor(f, &t[i], i);
  rc |= fclose(f);
  if (!rc) rc = write_config(dir, v, head_dim);
  free(t);
  return rc ? fail("writing the model failed") : 0;
}

/* ---- poke -------------------------------------------------------------------------------- */

static int do_poke(const char *file, const char *tensor_name, size_t index, const char *hex) {
  FILE *f = fopen(file, "r+b");
  uint64_t len;
  if (!f || fread(&len, 8, 1, f) != 1 || len > 64u << 20) return fail("cannot read the header");
  char *text = malloc(len + 1);
  mt_json *j = NULL;
  mt_err e = {0};
  int64_t at = -1;
  int rc = text && fread(text, 1, len, f) == len && !mt_json_parse(&j, text, len, file, &e) ? 0 : 1;
  if (!rc &&
      !mt_json_int(mt_json_at(mt_json_get(mt_json_get(j, tensor_name), "data_offsets"), 0), &at))
    rc = 1;
  uint8_t bytes[8];
  size_t n = strlen(hex) / 2;
  for (size_t i = 0; i < n && i < 8; i++) {
    char two[3] = {hex[2 * i], hex[2 * i + 1], 0};
    bytes[i] = (uint8_t)strtoul(two, NULL, 16);
  }
  if (!rc && (n > 8 || fseek(f, (long)(8 + len + (uint64_t)at + index * n), SEEK_SET) ||
              fwrite(bytes, 1, n, f) != n))
    rc = 1;
  rc |= fclose(f);
  mt_json_free(j);
  free(text);
  return rc ? fail("no such tensor, or writing failed") : 0;
}

/* ---- peak -------------------------------------------------------------------------------- */

static int do_peak(const char *out, char **command) {
  pid_t pid = fork();
  if (pid == 0) {
    execvp(command[0], command);
    _exit(127);
  }
  int status = 0;
  struct rusage used;
  if (pid < 0 || wait4(pid, &status, 0, &used) != pid) return fail("cannot run the command");
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  char path[4200];
  snprintf(path, sizeof path, "%s.%s", out, rank ? rank : "0");
  FILE *f = fopen(path, "w");
  if (!f) return fail("cannot write the peak");
  fprintf(f, "%ld\n", used.ru_maxrss);
  fclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "json") && argc == 4) return do_json(argv[2], argv[3]);
  if (!strcmp(what, "model") && argc == 10) return do_model(argv[2], argv + 3);
  if (!strcmp(what, "poke") && argc == 6)
    return do_poke(argv[2], argv[3], strtoul(argv[4], NULL, 10), argv[5]);
  if (!strcmp(what, "peak") && argc > 3) return do_peak(argv[2], argv + 3);
  return fail("json FILE PATH | model DIR … | poke FILE TENSOR INDEX HEX | peak OUT COMMAND…");
}
