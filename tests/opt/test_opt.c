/* The table's laws, reading of every kind of value, rules, refusals, --help. */
#include "mutirao/opt.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <unistd.h>

#include "mt_test.h"

enum { MAX_WORDS = 64 };

/* Splits a line at blanks into argv; '_' inside a word stands for a blank. */
static int split(char *line, char **argv) {
  int n = 0;
  for (char *w = strtok(line, " "); w && n < MAX_WORDS; w = strtok(NULL, " ")) {
    for (char *p = w; *p; p++)
      if (*p == '_') *p = ' ';
    argv[n++] = w;
  }
  return n;
}

/* Parses "mutirao " + line. The options keep pointers into the static copy: one line at a time. */
static int parse_as(mt_opt **o, mt_opt_program program, const char *line, mt_err *e) {
  static char copy[4096];
  static char *argv[MAX_WORDS + 1];
  snprintf(copy, sizeof copy, "mutirao %s", line);
  *e = (mt_err){0};
  int argc = split(copy, argv);
  return mt_opt_parse(o, program, argc, argv, e);
}

static int parse(mt_opt **o, const char *line, mt_err *e) {
  return parse_as(o, MT_OPT_LAUNCHER, line, e);
}

static bool says(const mt_err *e, const char *part) {
  if (strstr(e->msg, part)) return true;
  printf("\n    message: %s\n    lacks:   %s\n", e->msg, part);
  return false;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void test_table(void) {
  size_t n;
  const mt_opt_row *rows = mt_opt_rows(&n);
  for (size_t i = 0; i < n; i++) {
    const mt_opt_row *r = &rows[i];
    CU_ASSERT(r->commands != 0 && r->commands < 1u << MT_CMD_COUNT);
    CU_ASSERT(r->help && *r->help && r->help[strlen(r->help) - 1] != '.');
    bool flag = r->kind == MT_OPT_FLAG || r->kind == MT_OPT_COUNT;
    CU_ASSERT_EQUAL(flag, r->value == NULL);
    CU_ASSERT_EQUAL(r->kind == MT_OPT_CHOICE, r->choices != NULL);
    CU_ASSERT(r->min <= r->max);
    for (const char *p = r->name; *p; p++) CU_ASSERT(islower((unsigned char)*p) || *p == '-');
    mt_err e = {0};
    if (r->def) CU_ASSERT_EQUAL(mt_opt_check_value(r, r->def, &e), MT_OK);
    for (size_t k = 0; k < i; k++) {
      if (!(rows[k].commands & r->commands)) continue;
      CU_ASSERT(strcmp(rows[k].name, r->name) != 0);
      CU_ASSERT(!r->letter || rows[k].letter != r->letter);
    }
  }
}

/* Help names every option of the command, no other, and stays within 100 columns. */
static void test_help(void) {
  size_t n;
  const mt_opt_row *rows = mt_opt_rows(&n);
  for (int c = 0; c < MT_CMD_COUNT; c++) {
    mt_buf b = {0};
    CU_ASSERT_EQUAL_FATAL(mt_opt_write_help((mt_command)c, &b), MT_OK);
    for (size_t i = 0; i < n; i++) {
      char word[64];
      bool taken = rows[i].commands >> c & 1, named = false;
      snprintf(word, sizeof word, "--%s", rows[i].name);
      for (const char *p = b.data; (p = strstr(p, word)); p += strlen(word)) {
        const char *line = p;
        while (line > b.data && line[-1] != '\n') line--;
        char after = p[strlen(word)];
        /* The option's own line is indented by two and has at most "-x, " before it. */
        bool own = p - line == 6 && line[0] == ' ' && (after == ' ' || after == '\n');
        named |= own;
      }
      for (size_t k = 0; k < n && !taken; k++)
        if ((rows[k].commands >> c & 1) && !strcmp(rows[k].name, rows[i].name)) taken = true;
      CU_ASSERT_EQUAL(named, taken);
      if (named != taken)
        printf("\n    %s --%s\n", mt_opt_command_name((mt_command)c), rows[i].name);
    }
    for (const char *p = b.data; *p; p += strcspn(p, "\n") + 1) {
      size_t columns = 0;
      for (const char *q = p; *q && *q != '\n'; q++) columns += ((unsigned char)*q & 0xc0) != 0x80;
      CU_ASSERT(columns <= 100);
      if (!p[strcspn(p, "\n")]) break;
    }
    mt_buf_free(&b);
  }
  mt_buf b = {0};
  CU_ASSERT_EQUAL_FATAL(mt_opt_write_help(MT_CMD_COUNT, &b), MT_OK);
  for (int c = 0; c < MT_CMD_COUNT; c++)
    CU_ASSERT_PTR_NOT_NULL(strstr(b.data, mt_opt_command_name((mt_command)c)));
  CU_ASSERT_PTR_NULL(strstr(b.data, "serve"));
  mt_buf_free(&b);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void test_kinds(void) {
  mt_opt *o;
  mt_err e;
  const char *const *s;
  const uint32_t *ids;
  const mt_opt_bias *bias;
  CU_ASSERT_EQUAL_FATAL(
      parse(&o,
            "generate -n3 --threads=2 -p a_text --seed 18446744073709551615 --temperature 0.25 "
            "--kv-type q8 --activations int8 --stop x --stop=--y -vv --max-memory 1.5G "
            "--logit-bias 7=-2.5 "
            "--logit-bias 8=1 --presence-penalty -1 --ignore-eos --ids-out=a=b",
            &e),
      MT_OK);
  CU_ASSERT_EQUAL(mt_opt_get_action(o), MT_OPT_RUN);
  CU_ASSERT_EQUAL(mt_opt_get_command(o), MT_CMD_GENERATE);
  CU_ASSERT_EQUAL(mt_opt_int(o, "ranks"), 3);
  CU_ASSERT_EQUAL(mt_opt_int(o, "threads"), 2);
  CU_ASSERT_STRING_EQUAL(mt_opt_string(o, "prompt"), "a text");
  CU_ASSERT_EQUAL(mt_opt_u64(o, "seed"), UINT64_MAX);
  CU_ASSERT_EQUAL(mt_opt_double(o, "temperature"), 0.25);
  CU_ASSERT_STRING_EQUAL(mt_opt_string(o, "kv-type"), "q8");
  CU_ASSERT_STRING_EQUAL(mt_opt_string(o, "activations"), "int8");
  CU_ASSERT_EQUAL_FATAL(mt_opt_strings(o, "stop", &s), 2);
  CU_ASSERT(!strcmp(s[0], "x") && !strcmp(s[1], "--y"));
  CU_ASSERT_EQUAL(mt_opt_int(o, "verbose"), 2);
  CU_ASSERT_EQUAL(mt_opt_u64(o, "max-memory"), 3ull << 29);
  CU_ASSERT_EQUAL_FATAL(mt_opt_biases(o, "logit-bias", &bias), 2);
  CU_ASSERT(bias[0].id == 7 && bias[0].value == -2.5f && bias[1].id == 8 && bias[1].value == 1);
  CU_ASSERT_EQUAL(mt_opt_double(o, "presence-penalty"), -1);
  CU_ASSERT(mt_opt_flag(o, "ignore-eos") && !mt_opt_flag(o, "chat"));
  CU_ASSERT_STRING_EQUAL(mt_opt_string(o, "ids-out"), "a=b");
  CU_ASSERT_EQUAL(mt_opt_ids(o, "ids", &ids), 0);
  CU_ASSERT_PTR_NULL(mt_opt_string(o, "model"));
  mt_opt_free(o);

  CU_ASSERT_EQUAL_FATAL(parse(&o, "logits --ids 1,_22,333 --seed=1", &e), MT_EINVAL);
  CU_ASSERT_EQUAL_FATAL(parse(&o, "logits --ids 1,_22,333", &e), MT_OK);
  CU_ASSERT_EQUAL_FATAL(mt_opt_ids(o, "ids", &ids), 3);
  CU_ASSERT(ids[0] == 1 && ids[1] == 22 && ids[2] == 333);
  mt_opt_free(o);

  const double *t;
  CU_ASSERT_EQUAL_FATAL(parse(&o, "trace -p x --temperatures 0.1,0.7,1.5", &e), MT_OK);
  CU_ASSERT_EQUAL_FATAL(mt_opt_doubles(o, "temperatures", &t), 3);
  CU_ASSERT(t[0] == 0.1 && t[1] == 0.7 && t[2] == 1.5);
  mt_opt_free(o);
}

/* Defaults are values; an option that the command lacks answers as its default; the last one wins.
 */
static void test_defaults(void) {
  mt_opt *o;
  mt_err e;
  CU_ASSERT_EQUAL_FATAL(parse(&o, "bench", &e), MT_OK);
  CU_ASSERT_EQUAL(mt_opt_int(o, "prompt"), 256);
  CU_ASSERT_EQUAL(mt_opt_int(o, "repeat"), 3);
  CU_ASSERT(!mt_opt_is_set(o, "prompt"));
  CU_ASSERT_STRING_EQUAL(mt_opt_string(o, "kv-type"), "f16");
  CU_ASSERT_EQUAL(mt_opt_int(o, "choices"), 1);
  CU_ASSERT_EQUAL(mt_opt_int(o, "ranks"), 0);
  mt_opt_free(o);
  CU_ASSERT_EQUAL_FATAL(parse(&o, "bench --repeat 5 --prompt 7 --repeat 9", &e), MT_OK);
  CU_ASSERT_EQUAL(mt_opt_int(o, "repeat"), 9);
  CU_ASSERT_EQUAL(mt_opt_int(o, "prompt"), 7);
  const mt_opt_row *row;
  const char *text;
  CU_ASSERT(mt_opt_get_given(o, 1, &row, &text) && !strcmp(row->name, "prompt") &&
            !strcmp(text, "7"));
  CU_ASSERT(!mt_opt_get_given(o, 3, &row, &text));
  mt_opt_free(o);
}

static void test_ids_file(void) {
  mt_opt *o;
  mt_err e;
  char path[] = "/tmp/mt-opt-XXXXXX", line[128];
  int fd = mkstemp(path);
  CU_ASSERT_FATAL(fd >= 0);
  CU_ASSERT_EQUAL(write(fd, "5, 6,7\n", 7), 7);
  snprintf(line, sizeof line, "logits --ids @%s", path);
  CU_ASSERT_EQUAL_FATAL(parse(&o, line, &e), MT_OK);
  const uint32_t *ids;
  CU_ASSERT(mt_opt_ids(o, "ids", &ids) == 3 && ids[2] == 7);
  mt_opt_free(o);
  CU_ASSERT_EQUAL(write(fd, ",x", 2), 2);
  CU_ASSERT_EQUAL(parse(&o, line, &e), MT_EFORMAT);
  CU_ASSERT(says(&e, path));
  CU_ASSERT_EQUAL(parse(&o, "logits --ids @/nonexistent/file", &e), MT_EIO);
  close(fd);
  unlink(path);
}

/* ---- refusals -------------------------------------------------------------------------------- */

typedef struct refusal {
  const char *line, *part;
} refusal;

static void refuse_all(const refusal *r, size_t n) {
  for (size_t i = 0; i < n; i++) {
    mt_opt *o = NULL;
    mt_err e;
    CU_ASSERT_EQUAL(parse(&o, r[i].line, &e), MT_EINVAL);
    CU_ASSERT_PTR_NULL(o);
    CU_ASSERT(says(&e, r[i].part));
    mt_opt_free(o);
  }
}

static void test_unknown(void) {
  static const refusal r[] = {
      {"", "a command is needed"},
      {"generat -p x", "did you mean 'generate'"},
      {"frobnicate", "unknown command 'frobnicate'"},
      {"serve", "not in this version"},
      {"batch -i x", "not in this version"},
      {"plan", "not in this version"},
      {"scale", "not in this version"},
      {"-n 2 generate", "'-n' stands where a command"},
      {"generate -p x --temprature 1", "did you mean --temperature"},
      {"generate -p x --max-token 1", "did you mean --max-tokens"},
      {"generate -p x --presence 1", "did you mean --presence-penalty"},
      {"generate -p x --frobnicate", "unknown option --frobnicate"},
      {"generate -p x --temprature=1", "did you mean --temperature"},
      {"generate -p x -z", "unknown option -z"},
      {"generate -p x --window 4", "does not take --window (score does)"},
      {"tokenize --seed 4", "does not take --seed"},
      {"tokenize -n 4", "unknown option -n"},
      {"logits --ids 1 --temperature 1", "does not take --temperature"},
      {"generate text", "a prompt is given with -p"},
      {"generate -p x y", "'y' belongs to no option"},
      {"generate -p x -- y", "'--' belongs to no option"},
      {"generate -p", "needs a value"},
      {"generate -p x --seed", "--seed needs a value"},
      {"generate -p x --echo=1", "--echo takes no value"},
      {"generate --describe", "unknown option --describe"},
  };
  refuse_all(r, sizeof r / sizeof *r);
}

static void test_ranges(void) {
  static const refusal r[] = {
      {"generate -p x -n 0", "(1 to 65536)"},
      {"generate -p x -n two", "not a whole number"},
      {"generate -p x -n 2.5", "not a whole number"},
      {"generate -p x -n 99999999999999999999", "(1 to 65536)"},
      {"generate -p x --temperature -1", "(0 to 100)"},
      {"generate -p x --temperature nan", "not a number"},
      {"generate -p x --temperature inf", "not a number"},
      {"generate -p x --temperature 1e999", "not a number"},
      {"generate -p x --temperature=", "not a number"},
      {"generate -p x --top-p 0", "(above 0, at most 1)"},
      {"generate -p x --top-p 1.01", "(above 0, at most 1)"},
      {"generate -p x --max-tokens 0", "(at least 1)"},
      {"generate -p x --kv-type f64", "none of f16|f32|q8"},
      {"generate -p x --kv-type f", "none of f16|f32|q8"},
      {"bench --activations int4", "none of int16|int8"},
      {"generate -p x --seed -1", "not a whole number"},
      {"generate -p x --seed 18446744073709551616", "0 to 18446744073709551615"},
      {"generate -p x --max-memory 0", "not a size"},
      {"generate -p x --max-memory 5X", "not a size"},
      {"generate -p x --max-memory 5GB", "not a size"},
      {"generate -p x --logit-bias 5", "ID=VALUE"},
      {"generate -p x --logit-bias 5=x", "ID=VALUE"},
      {"generate -p x --logit-bias 5=1001", "(-1000 to 1000)"},
      {"generate -p x --stop=", "the text is empty"},
      {"generate -p x --hostfile=", "the path is empty"},
      {"logits --ids 1,,2", "entry 2, ',2', is not a token id"},
      {"logits --ids 1,2,", "a comma and an id"},
      {"logits --ids 1;2", "a comma and an id"},
      {"logits --ids -1", "entry 1, '-1', is not a token id"},
      {"logits --ids 4294967296", "is not a token id"},
      {"logits --ids=", "the list is empty"},
      {"trace -p x --temperatures 1,x", "not a list of numbers"},
      {"trace -p x --temperatures 1,101", "(0 to 100)"},
  };
  refuse_all(r, sizeof r / sizeof *r);
}

static void test_rules(void) {
  static const refusal r[] = {
      {"generate", "--prompt, --prompt-file or --ids is needed"},
      {"generate -p x --ids 1", "--prompt and --ids exclude each other"},
      {"generate --ids 1 --chat", "--chat and --ids exclude each other"},
      {"generate -p x --echo --json", "--echo and --json exclude each other"},
      {"generate -p x --system s", "--system means something only with --chat"},
      {"generate -p x --chat-template f", "only with --chat"},
      {"score", "--prompt, --file or --ids is needed"},
      {"score -p x --window 4 --stride 5", "--stride 5 is not less than --window 4"},
      {"logits", "--ids is needed"},
      {"tokenize --decode --chat", "exclude each other"},
      {"tokenize --json", "--json means something only with --stats or --explain"},
      {"generate -p x -q -v", "exclude each other"},
      {"trace -p x --temperature 1 --temperatures 1,2", "exclude each other"},
  };
  refuse_all(r, sizeof r / sizeof *r);
  static const char *const good[] = {"generate -p x --chat --system s --chat-template f",
                                     "tokenize --stats --explain --json",
                                     "score -p x --stride 4",
                                     "chat --system s --chat-template f",
                                     "inspect -n 8",
                                     "tokenize"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    mt_opt *o;
    mt_err e;
    CU_ASSERT_EQUAL(parse(&o, good[i], &e), MT_OK);
    mt_opt_free(o);
  }
}

/* ---- programs -------------------------------------------------------------------------------- */

static void test_actions(void) {
  static const struct {
    const char *line;
    mt_opt_action action;
    mt_command command;
  } c[] = {
      {"--help", MT_OPT_HELP, MT_CMD_COUNT},
      {"-h", MT_OPT_HELP, MT_CMD_COUNT},
      {"--version", MT_OPT_VERSION, MT_CMD_COUNT},
      {"chat --help", MT_OPT_HELP, MT_CMD_CHAT},
      {"chat --nonsense --help", MT_OPT_HELP, MT_CMD_CHAT},
      {"generate -p --help", MT_OPT_RUN, MT_CMD_GENERATE},
      {"generate --prompt -h", MT_OPT_RUN, MT_CMD_GENERATE},
      {"score --version", MT_OPT_VERSION, MT_CMD_SCORE},
  };
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    mt_opt *o;
    mt_err e;
    CU_ASSERT_EQUAL_FATAL(parse(&o, c[i].line, &e), MT_OK);
    CU_ASSERT_EQUAL(mt_opt_get_action(o), c[i].action);
    CU_ASSERT_EQUAL(mt_opt_get_command(o), c[i].command);
    mt_opt_free(o);
  }
}

static void test_rank_program(void) {
  mt_opt *o;
  mt_err e;
  CU_ASSERT_EQUAL_FATAL(parse_as(&o, MT_OPT_RANK, "--describe", &e), MT_OK);
  CU_ASSERT_EQUAL(mt_opt_get_action(o), MT_OPT_DESCRIBE);
  mt_opt_free(o);
  CU_ASSERT_EQUAL(parse(&o, "--describe", &e), MT_EINVAL);
  static const char *const only[] = {"--hostfile f", "--via srun", "--config f"};
  for (size_t i = 0; i < 3; i++) {
    char line[80];
    snprintf(line, sizeof line, "generate -p x %s", only[i]);
    CU_ASSERT_EQUAL(parse_as(&o, MT_OPT_RANK, line, &e), MT_EINVAL);
    CU_ASSERT(says(&e, "use mutirao generate"));
    CU_ASSERT_EQUAL(parse(&o, line, &e), MT_OK);
    mt_opt_free(o);
  }
}

static void test_log_levels(void) {
  static const struct {
    const char *line;
    int level;
  } c[] = {{"bench", MT_LOG_WARN},
           {"bench -v", MT_LOG_INFO},
           {"bench -v --verbose", MT_LOG_DEBUG},
           {"bench -vvv", MT_LOG_DEBUG},
           {"bench -q", MT_LOG_ERROR}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    mt_opt *o;
    mt_err e;
    CU_ASSERT_EQUAL_FATAL(parse(&o, c[i].line, &e), MT_OK);
    mt_opt_apply_log(o);
    CU_ASSERT_EQUAL(mt_log_level(), c[i].level);
    mt_opt_free(o);
  }
}

/* Whatever stands on the line: an answer or a refusal with a message, never a crash. */
static void test_noise(void) {
  static const char *const words[] = {
      "generate", "chat",  "tokenize", "-p",        "--ids",  "1,2",          "@",       "--",
      "-",        "-vq",   "--stop",   "--=",       "--help", "-n",           "-n-1",    "=",
      "",         "-1",    "-p-",      "--seed=0x", "0xff",   "--ids=",       "--top-k", "1e3",
      "--json",   "--via", "ü",        "-ü",        "--ü",    "--prompt-file"};
  enum { N = sizeof words / sizeof *words };
  unsigned long long seed = mt_test_seed();
  int refused = 0, taken = 0;
  for (uint64_t i = 0; i < 20000; i++) {
    char *argv[8] = {(char *)(uintptr_t) "mutirao"};
    int argc = 1 + (int)(mt_uniform(seed, 0, i, 0) * 7);
    for (int k = 1; k < argc; k++)
      argv[k] = (char *)(uintptr_t)words[(int)(mt_uniform(seed, 1, i, (uint32_t)k) * N)];
    mt_opt *o = NULL;
    mt_err e = {0};
    int rc = mt_opt_parse(&o, i % 2 ? MT_OPT_RANK : MT_OPT_LAUNCHER, argc, argv, &e);
    if (rc)
      refused += e.msg[0] != 0 && !o;
    else
      taken += o != NULL;
    mt_opt_free(o);
  }
  CU_ASSERT_EQUAL(refused + taken, 20000);
  CU_ASSERT(taken > 100);
}

static void test_find_model(void) {
  mt_opt *o;
  mt_err e;
  char *path;
  CU_ASSERT_EQUAL_FATAL(parse(&o, "tokenize -m some/where", &e), MT_OK);
  CU_ASSERT_EQUAL_FATAL(mt_opt_find_model(o, &path, &e), MT_OK);
  CU_ASSERT_STRING_EQUAL(path, "some/where");
  free(path);
  mt_opt_free(o);
  /* This program lies in BUILD/tests/opt: no model beside it. */
  CU_ASSERT_EQUAL_FATAL(parse(&o, "tokenize", &e), MT_OK);
  CU_ASSERT_EQUAL(mt_opt_find_model(o, &path, &e), MT_EIO);
  CU_ASSERT_PTR_NULL(path);
  CU_ASSERT(says(&e, "../../models/mirim"));
  CU_ASSERT(says(&e, "../share/mutirao/models/mirim"));
  mt_opt_free(o);
}

MT_TEST_MAIN("opt", {"table", test_table}, {"help", test_help}, {"kinds", test_kinds},
             {"defaults", test_defaults}, {"ids from a file", test_ids_file},
             {"unknown", test_unknown}, {"ranges", test_ranges}, {"rules", test_rules},
             {"actions", test_actions}, {"rank program", test_rank_program},
             {"log levels", test_log_levels}, {"noise", test_noise},
             {"default model", test_find_model})
