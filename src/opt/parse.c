/* argv to options: names, values, and which of them go together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opt_priv.h"

/* Commands of the design that a later version brings: refused by name. */
static const char *const later[] = {"serve", "batch", "plan", "scale"};
/* Options of the launcher alone: how ranks are started, and the file that holds the rest. */
static const char *const launcher_only[] = {"hostfile", "via", "config"};

bool mt_opt_row_is_launcher(const mt_opt_row *row) {
  for (size_t i = 0; i < sizeof launcher_only / sizeof *launcher_only; i++)
    if (!strcmp(row->name, launcher_only[i])) return true;
  return false;
}

mt_command mt_opt_command_by_name(const char *name) {
  for (int c = 0; c < MT_CMD_COUNT; c++)
    if (!strcmp(name, mt_opt_commands[c].name)) return (mt_command)c;
  return MT_CMD_COUNT;
}

static int refuse_command(const char *word, mt_err *e) {
  if (*word == '-')
    return mt_err_set(e, MT_EINVAL,
                      "'%.60s' stands where a command is expected: mutirao COMMAND [options]; "
                      "mutirao --help lists the commands",
                      word);
  for (size_t i = 0; i < sizeof later / sizeof *later; i++)
    if (!strcmp(word, later[i]))
      return mt_err_set(e, MT_EINVAL, "the command '%s' is not in this version (%s)", word,
                        MT_VERSION);
  const char *words[MT_CMD_COUNT];
  for (int c = 0; c < MT_CMD_COUNT; c++) words[c] = mt_opt_commands[c].name;
  const char *near = mt_opt_nearest(word, words, MT_CMD_COUNT);
  if (near)
    return mt_err_set(e, MT_EINVAL, "unknown command '%.60s'; did you mean '%s'?", word, near);
  return mt_err_set(e, MT_EINVAL, "unknown command '%.60s'; mutirao --help lists the commands",
                    word);
}

/* Index of the row of that name (len bytes) which `command` takes; -1 if there is none. */
static int find_long(mt_command command, const char *name, size_t len) {
  size_t n;
  const mt_opt_row *rows = mt_opt_rows(&n);
  for (size_t i = 0; i < n; i++)
    if ((rows[i].commands >> command & 1) && strlen(rows[i].name) == len &&
        !memcmp(rows[i].name, name, len))
      return (int)i;
  return -1;
}

static int find_short(mt_command command, char letter) {
  size_t n;
  const mt_opt_row *rows = mt_opt_rows(&n);
  for (size_t i = 0; i < n; i++)
    if ((rows[i].commands >> command & 1) && rows[i].letter == letter) return (int)i;
  return -1;
}

/* Says that `command` does not know the option, and which it may have meant. */
static int refuse_option(mt_command command, const char *name, mt_err *e) {
  const char *cmd = mt_opt_commands[command].name, *words[MT_OPT_MAX_ROWS];
  size_t n, n_words = 0;
  const mt_opt_row *rows = mt_opt_rows(&n);
  for (int c = 0; c < MT_CMD_COUNT; c++)
    if (find_long((mt_command)c, name, strlen(name)) >= 0)
      return mt_err_set(e, MT_EINVAL,
                        "%s does not take --%s (%s does); mutirao %s --help lists what it takes",
                        cmd, name, mt_opt_commands[c].name, cmd);
  for (size_t i = 0; i < n; i++)
    if (rows[i].commands >> command & 1) words[n_words++] = rows[i].name;
  const char *near = mt_opt_nearest(name, words, n_words);
  if (near)
    return mt_err_set(e, MT_EINVAL, "%s: unknown option --%.60s; did you mean --%s?", cmd, name,
                      near);
  return mt_err_set(e, MT_EINVAL,
                    "%s: unknown option --%.60s; mutirao %s --help lists what it takes", cmd, name,
                    cmd);
}

static int set_value(mt_opt *o, int index, const char *text, mt_err *e) {
  size_t n;
  const mt_opt_row *row = &mt_opt_rows(&n)[index];
  if (o->program == MT_OPT_RANK && mt_opt_row_is_launcher(row))
    return mt_err_set(e, MT_EINVAL,
                      "--%s is read by mutirao, which starts mutirao-rank: use mutirao %s",
                      row->name, mt_opt_commands[o->command].name);
  o->value[index].given++;
  o->given[o->n_given++] = (mt_opt_given){index, text};
  return mt_opt_read_value(row, text, &o->value[index], e);
}

static bool takes_value(int index) {
  size_t n;
  const mt_opt_row *row = &mt_opt_rows(&n)[index];
  return row->kind != MT_OPT_FLAG && row->kind != MT_OPT_COUNT;
}

/* --name, --name VALUE or --name=VALUE at argv[*i]. */
static int parse_long(mt_opt *o, int argc, char *const *argv, int *i, mt_err *e) {
  const char *name = argv[*i] + 2, *equals = strchr(name, '=');
  size_t len = equals ? (size_t)(equals - name) : strlen(name);
  int index = find_long(o->command, name, len);
  if (index < 0) {
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(len < 60 ? len : 60), name);
    return refuse_option(o->command, word, e);
  }
  if (!takes_value(index)) {
    if (equals) return mt_err_set(e, MT_EINVAL, "--%.*s takes no value", (int)len, name);
    return set_value(o, index, NULL, e);
  }
  if (equals) return set_value(o, index, equals + 1, e);
  if (*i + 1 >= argc) return mt_err_set(e, MT_EINVAL, "--%s needs a value", name);
  return set_value(o, index, argv[++*i], e);
}

/* -v, -vv, -n 2 or -n2 at argv[*i]. */
static int parse_short(mt_opt *o, int argc, char *const *argv, int *i, mt_err *e) {
  for (const char *p = argv[*i] + 1; *p; p++) {
    int index = find_short(o->command, *p);
    if (index < 0)
      return mt_err_set(e, MT_EINVAL,
                        "%s: unknown option -%c; mutirao %s --help lists what it takes",
                        mt_opt_commands[o->command].name, *p, mt_opt_commands[o->command].name);
    if (!takes_value(index)) {
      int rc = set_value(o, index, NULL, e);
      if (rc) return rc;
      continue;
    }
    if (p[1]) return set_value(o, index, p + 1, e);
    if (*i + 1 >= argc) return mt_err_set(e, MT_EINVAL, "-%c needs a value", *p);
    return set_value(o, index, argv[++*i], e);
  }
  return MT_OK;
}

static int parse_options(mt_opt *o, int argc, char *const *argv, mt_err *e) {
  for (int i = 2; i < argc; i++) {
    int rc;
    const char *a = argv[i];
    if (a[0] == '-' && a[1] == '-' && a[2])
      rc = parse_long(o, argc, argv, &i, e);
    else if (a[0] == '-' && a[1] && a[1] != '-')
      rc = parse_short(o, argc, argv, &i, e);
    else
      rc = mt_err_set(e, MT_EINVAL, "%s: '%.60s' belongs to no option%s",
                      mt_opt_commands[o->command].name, a,
                      find_long(o->command, "prompt", 6) >= 0 && o->command != MT_CMD_BENCH
                          ? " (a prompt is given with -p)"
                          : "");
    if (rc) return rc;
  }
  return MT_OK;
}

/* Takes the next word of a rule's list into `word`; false at the end. */
static bool next_name(const char **list, char word[32]) {
  size_t len = strcspn(*list, " ");
  if (!len) return false;
  snprintf(word, 32, "%.*s", (int)len, *list);
  *list += len + strspn(*list + len, " ");
  return true;
}

/* "--prompt, --prompt-file or --ids" */
static void spell_names(const char *list, char *out, size_t size) {
  char word[32];
  size_t len = 0;
  out[0] = 0;
  while (next_name(&list, word) && len < size)
    len += (size_t)snprintf(out + len, size - len, "%s--%s",
                            !len    ? ""
                            : *list ? ", "
                                    : " or ",
                            word);
}

static int check_rule(const mt_opt *o, const mt_opt_rule *rule, mt_err *e) {
  const char *cmd = mt_opt_commands[o->command].name, *list = rule->names;
  char word[32], first[32] = "", all[160];
  int given = 0;
  bool head = true, head_given = false;
  while (next_name(&list, word)) {
    bool set = mt_opt_is_set(o, word);
    if (rule->kind != MT_RULE_NEEDS && set && given)
      return mt_err_set(e, MT_EINVAL, "%s: --%s and --%s exclude each other", cmd, first, word);
    if (head) head_given = set;
    head = false;
    given += set;
    if (set) snprintf(first, sizeof first, "%s", word);
  }
  if (rule->kind == MT_RULE_ONE_OF && !given) {
    spell_names(rule->names, all, sizeof all);
    return mt_err_set(e, MT_EINVAL, "%s: %s is needed", cmd, all);
  }
  if (rule->kind == MT_RULE_NEEDS && head_given && given == 1) {
    spell_names(strchr(rule->names, ' ') + 1, all, sizeof all);
    return mt_err_set(e, MT_EINVAL, "%s: --%s means something only with %s", cmd, first, all);
  }
  return MT_OK;
}

static int check_rules(const mt_opt *o, mt_err *e) {
  for (size_t i = 0; i < mt_opt_n_rules; i++) {
    if (!(mt_opt_rules[i].commands >> o->command & 1)) continue;
    int rc = check_rule(o, &mt_opt_rules[i], e);
    if (rc) return rc;
  }
  if (o->command == MT_CMD_SCORE && mt_opt_is_set(o, "stride") && mt_opt_is_set(o, "window") &&
      mt_opt_int(o, "stride") >= mt_opt_int(o, "window"))
    return mt_err_set(e, MT_EINVAL, "score: --stride %d is not less than --window %d",
                      mt_opt_int(o, "stride"), mt_opt_int(o, "window"));
  return MT_OK;
}

/* Defaults are text in the table and pass through the same readers. */
static int fill_defaults(mt_opt *o, mt_err *e) {
  size_t n;
  const mt_opt_row *rows = mt_opt_rows(&n);
  for (size_t i = 0; i < n; i++) {
    if (!rows[i].def || o->value[i].given) continue;
    int rc = mt_opt_read_value(&rows[i], rows[i].def, &o->value[i], e);
    if (rc) return rc;
  }
  return MT_OK;
}

/* What stands alone on the command line: --help, --version, --describe. */
static bool parse_bare(mt_opt *o, int argc, char *const *argv) {
  if (argc < 2) return false;
  const char *a = argv[1];
  if (!strcmp(a, "--help") || !strcmp(a, "-h"))
    o->action = MT_OPT_HELP;
  else if (!strcmp(a, "--version"))
    o->action = MT_OPT_VERSION;
  else if (!strcmp(a, "--describe") && o->program == MT_OPT_RANK)
    o->action = MT_OPT_DESCRIBE;
  else
    return false;
  return true;
}

/* --help and --version hold even where the rest of the line would be refused. */
static bool find_help(mt_opt *o, int argc, char *const *argv) {
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
      o->action = MT_OPT_HELP;
    else if (!strcmp(argv[i], "--version"))
      o->action = MT_OPT_VERSION;
    else
      continue;
    /* Not where it is another option's value, as in -p --help. */
    const char *before = argv[i - 1];
    if (i > 2 && before[0] == '-') {
      int index = before[1] == '-' ? find_long(o->command, before + 2, strlen(before + 2))
                                   : find_short(o->command, before[strlen(before) - 1]);
      if (index >= 0 && takes_value(index)) continue;
    }
    return true;
  }
  o->action = MT_OPT_RUN;
  return false;
}

int mt_opt_scan(mt_opt **out, mt_opt_program program, int argc, char *const *argv, mt_err *e) {
  *out = NULL;
  int rc = MT_OK;
  size_t n_letters = 1; /* every option takes at least one character of the line */
  for (int i = 2; i < argc; i++) n_letters += strlen(argv[i]);
  mt_opt *o = mt_calloc(1, sizeof *o);
  if (o) o->given = mt_calloc(n_letters, sizeof *o->given);
  if (!o || !o->given) {
    rc = mt_err_set(e, MT_ENOMEM, "no memory for the options");
    goto out;
  }
  o->program = program;
  o->command = MT_CMD_COUNT;
  if (parse_bare(o, argc, argv)) goto done;
  if (argc < 2) {
    rc = mt_err_set(e, MT_EINVAL,
                    "a command is needed: mutirao COMMAND [options]; mutirao --help lists them");
    goto out;
  }
  o->command = mt_opt_command_by_name(argv[1]);
  if (o->command == MT_CMD_COUNT) {
    rc = refuse_command(argv[1], e);
    goto out;
  }
  if (!find_help(o, argc, argv) && (rc = parse_options(o, argc, argv, e))) goto out;
done:
  *out = o;
  o = NULL;
out:
  mt_opt_free(o);
  return rc;
}

int mt_opt_parse(mt_opt **out, mt_opt_program program, int argc, char *const *argv, mt_err *e) {
  int rc = mt_opt_scan(out, program, argc, argv, e);
  if (rc || (*out)->action != MT_OPT_RUN) return rc;
  if ((rc = check_rules(*out, e)) || (rc = fill_defaults(*out, e))) {
    mt_opt_free(*out);
    *out = NULL;
  }
  return rc;
}

bool mt_opt_get_given(const mt_opt *o, size_t i, const mt_opt_row **row, const char **text) {
  size_t n;
  if (i >= o->n_given) return false;
  *row = &mt_opt_rows(&n)[o->given[i].index];
  *text = o->given[i].text;
  return true;
}

void mt_opt_free(mt_opt *o) {
  if (!o) return;
  for (size_t i = 0; i < MT_OPT_MAX_ROWS; i++) mt_opt_value_fini(&o->value[i]);
  free(o->given);
  free(o);
}
