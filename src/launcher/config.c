/* The configuration file: YAML read by libcyaml through a schema that is built from the table of
 * options, so that its keys are the long option names. Top-level keys hold for every command that
 * takes them; a section named like a command holds for that command and wins over the top level;
 * the command line wins over both. */
#include <cyaml/cyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

/* What one key holds: a text, or (lists, repeatable options) several. */
typedef struct entry {
  char *text;
  char **list;
  uint32_t n;
} entry;

/* Section 0 is the top level, section 1 + c that of command c; each has one entry for every row of
 * the table. */
enum { N_SECTIONS = 1 + MT_CMD_COUNT };
typedef struct schema {
  const mt_opt_row *rows;
  size_t n_rows;
  cyaml_schema_field_t *fields[N_SECTIONS];
  cyaml_schema_value_t top;
} schema;

/* libcyaml tells what is wrong through its log only: its first line that says what, and the first
 * line number that it names. */
typedef struct complaint {
  char text[300];
  int line;
} complaint;

static const cyaml_schema_value_t list_item = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 0, CYAML_UNLIMITED)};

static void hear(cyaml_log_t level, void *ctx, const char *fmt, va_list args) {
  complaint *c = ctx;
  char line[300];
  if (level < CYAML_LOG_ERROR) return;
  vsnprintf(line, sizeof line, fmt, args);
  line[strcspn(line, "\n")] = 0;
  const char *at = strstr(line, "(line: "), *text = strncmp(line, "Load: ", 6) ? line : line + 6;
  bool backtrace = text[0] == ' ' || !strncmp(text, "Backtrace", 9);
  if (!c->text[0] && !backtrace) snprintf(c->text, sizeof c->text, "%s", text);
  if (at && !c->line) c->line = atoi(at + 7);
}

static bool is_list(const mt_opt_row *row) {
  return row->kind == MT_OPT_STRINGS || row->kind == MT_OPT_IDS || row->kind == MT_OPT_DOUBLES ||
         row->kind == MT_OPT_BIASES;
}

/* True if rows[i] may stand in section s: not what reads the file or ends the program, and on the
 * top level only names that no command has, each once. */
static bool belongs(const schema *sc, int s, size_t i) {
  const char *name = sc->rows[i].name;
  if (!strcmp(name, "config") || !strcmp(name, "help") || !strcmp(name, "version")) return false;
  if (s > 0) return sc->rows[i].commands >> (s - 1) & 1;
  if (mt_opt_command_by_name(name) != MT_CMD_COUNT) return false;
  for (size_t k = 0; k < i; k++)
    if (!strcmp(sc->rows[k].name, name)) return false;
  return true;
}

static void set_field(cyaml_schema_field_t *f, const mt_opt_row *row, size_t offset) {
  *f = (cyaml_schema_field_t){.key = row->name, .data_offset = (uint32_t)offset};
  if (is_list(row)) {
    f->data_offset += (uint32_t)offsetof(entry, list);
    f->count_offset = (uint32_t)(offset + offsetof(entry, n));
    f->count_size = sizeof(uint32_t);
    f->value = (cyaml_schema_value_t){CYAML_VALUE_SEQUENCE(CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                                                           char *, &list_item, 0, CYAML_UNLIMITED)};
  } else {
    f->data_offset += (uint32_t)offsetof(entry, text);
    f->value = (cyaml_schema_value_t){
        CYAML_VALUE_STRING(CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, char, 0, CYAML_UNLIMITED)};
  }
}

static void free_schema(schema *sc) {
  for (int s = 0; s < N_SECTIONS; s++) free(sc->fields[s]);
}

static int build_schema(schema *sc, mt_err *e) {
  sc->rows = mt_opt_rows(&sc->n_rows);
  size_t section_bytes = sc->n_rows * sizeof(entry);
  for (int s = N_SECTIONS - 1; s >= 0; s--) { /* the top level last: it refers to the others */
    cyaml_schema_field_t *f = mt_calloc(sc->n_rows + MT_CMD_COUNT + 1, sizeof *f);
    if (!(sc->fields[s] = f)) return mt_err_set(e, MT_ENOMEM, "no memory for the configuration");
    for (size_t i = 0; i < sc->n_rows; i++)
      if (belongs(sc, s, i)) set_field(f++, &sc->rows[i], i * sizeof(entry));
    if (s > 0) continue;
    for (int c = 0; c < MT_CMD_COUNT; c++, f++)
      *f = (cyaml_schema_field_t){.key = mt_opt_command_name((mt_command)c),
                                  .data_offset = (uint32_t)((size_t)(1 + c) * section_bytes),
                                  .value = {.type = CYAML_MAPPING,
                                            .flags = CYAML_FLAG_OPTIONAL,
                                            .data_size = (uint32_t)section_bytes,
                                            .mapping = {.fields = sc->fields[1 + c]}}};
  }
  sc->top = (cyaml_schema_value_t){.type = CYAML_MAPPING,
                                   .flags = CYAML_FLAG_POINTER,
                                   .data_size = (uint32_t)(N_SECTIONS * section_bytes),
                                   .mapping = {.fields = sc->fields[0]}};
  return MT_OK;
}

/* Line (from 1) at which `key` stands, within the section of that name where it is not NULL; 0 if
 * not found. */
static int find_line(const char *text, const char *section, const char *key) {
  int line = 1;
  size_t len = strlen(key);
  bool inside = section == NULL;
  for (const char *p = text; *p; line++) {
    const char *word = p + strspn(p, " ");
    if (section && word == p && *p != '\n' && *p != '#')
      inside = !strncmp(p, section, strlen(section)) && p[strlen(section)] == ':';
    const char *after = word + len;
    if (inside && !strncmp(word, key, len) && after[strspn(after, " ")] == ':' &&
        (section != NULL) == (word > p))
      return line;
    p += strcspn(p, "\n");
    p += *p == '\n';
  }
  return 0;
}

static int refuse_file(const char *path, const char *text, const complaint *c, mt_err *e) {
  static const char unexpected[] = "Unexpected key: ";
  int line = c->line;
  if (!strncmp(c->text, unexpected, sizeof unexpected - 1)) {
    const char *key = c->text + sizeof unexpected - 1;
    int own = find_line(text, NULL, key);
    for (int k = 0; k < MT_CMD_COUNT && !own; k++)
      own = find_line(text, mt_opt_command_name((mt_command)k), key);
    return mt_err_set(e, MT_EINVAL,
                      "%s:%d: unknown key '%s' (keys are the long option names of the command)",
                      path, own ? own : line, key);
  }
  return mt_err_set(e, MT_EINVAL, "%s:%d: %s", path, line ? line : 1,
                    c->text[0] ? c->text : "not YAML");
}

static int add_switch(const mt_opt_row *row, const char *text, mt_args *out, mt_err *e) {
  static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
  if (row->kind == MT_OPT_COUNT && text[0] >= '0' && text[0] <= '9' && !text[1]) {
    int rc = MT_OK;
    for (int i = 0; i < text[0] - '0' && !rc; i++) rc = mt_args_addf(out, e, "--%s", row->name);
    return rc;
  }
  for (size_t i = 0; i < 3; i++) {
    if (!strcmp(text, yes[i])) return mt_args_addf(out, e, "--%s", row->name);
    if (!strcmp(text, no[i])) return MT_OK;
  }
  return mt_err_set(e, MT_EINVAL, "--%s: '%.60s' is neither true nor false", row->name, text);
}

static int add_list(const mt_opt_row *row, const entry *v, mt_args *out, mt_err *e) {
  mt_buf joined = {0};
  int rc = MT_OK;
  bool repeat = row->kind == MT_OPT_STRINGS || row->kind == MT_OPT_BIASES;
  for (uint32_t i = 0; i < v->n && !rc; i++) {
    if (repeat) {
      rc = mt_opt_check_value(row, v->list[i], e);
      if (!rc) rc = mt_args_addf(out, e, "--%s=%s", row->name, v->list[i]);
    } else if (mt_buf_printf(&joined, "%s%s", i ? "," : "", v->list[i])) {
      rc = mt_err_set(e, MT_ENOMEM, "no memory for a list");
    }
  }
  if (!repeat && !rc) rc = mt_opt_check_value(row, joined.data ? joined.data : "", e);
  if (!repeat && !rc) rc = mt_args_addf(out, e, "--%s=%s", row->name, joined.data);
  mt_buf_free(&joined);
  return rc;
}

static int add_entry(const mt_opt_row *row, const entry *v, mt_args *out, mt_err *e) {
  if (is_list(row)) return add_list(row, v, out, e);
  if (row->kind == MT_OPT_FLAG || row->kind == MT_OPT_COUNT)
    return add_switch(row, v->text, out, e);
  int rc = mt_opt_check_value(row, v->text, e);
  return rc ? rc : mt_args_addf(out, e, "--%s=%s", row->name, v->text);
}

static bool present(const entry *v) {
  return v->text || v->list;
}

/* The entry for rows[i] (a row that `c` takes): that of the command's section, else that of the top
 * level, which stands at the first row of that name. *section tells which. */
static const entry *choose(const schema *sc, const entry *doc, mt_command c, size_t i,
                           const char **section) {
  const entry *own = &doc[(size_t)(1 + c) * sc->n_rows + i];
  *section = mt_opt_command_name(c);
  if (present(own)) return own;
  *section = NULL;
  for (size_t k = 0; k < sc->n_rows; k++)
    if (!strcmp(sc->rows[k].name, sc->rows[i].name)) return &doc[k];
  return NULL;
}

int mt_launcher_read_config(const char *path, const mt_opt *given, mt_args *out, mt_err *e) {
  schema sc = {0};
  complaint heard = {0};
  mt_buf text = {0};
  void *doc = NULL;
  cyaml_config_t cfg = {.log_fn = hear,
                        .log_ctx = &heard,
                        .log_level = CYAML_LOG_ERROR,
                        .mem_fn = cyaml_mem,
                        .flags = CYAML_CFG_NO_ALIAS};
  mt_command c = mt_opt_get_command(given);
  int rc = mt_buf_read_file(&text, path, MAX_CONFIG_BYTES, e);
  if (!rc) rc = build_schema(&sc, e);
  if (rc) goto out;
  if (!text.len) goto out;
  if (cyaml_load_data((const uint8_t *)text.data, text.len, &cfg, &sc.top, &doc, NULL) !=
      CYAML_OK) {
    rc = refuse_file(path, text.data, &heard, e);
    goto out;
  }
  for (size_t i = 0; i < sc.n_rows && doc && !rc; i++) {
    const mt_opt_row *row = &sc.rows[i];
    const char *section;
    if (!(row->commands >> c & 1) || mt_opt_is_set(given, row->name)) continue;
    const entry *v = choose(&sc, doc, c, i, &section);
    if (!v || !present(v)) continue;
    if ((rc = add_entry(row, v, out, e)))
      mt_err_prefix(e, rc, "%s:%d", path, find_line(text.data, section, row->name));
  }
out:
  if (doc) cyaml_free(&cfg, &sc.top, doc, 0);
  free_schema(&sc);
  mt_buf_free(&text);
  return rc;
}
