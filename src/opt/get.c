/* Typed answers, the default model, the log level. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opt_priv.h"

/* Index of `name` for this command; where it does not take it, that of another command's (never
 * given, so it answers as its default). A name that is in no row is a mistake in our own code. */
static size_t find(const mt_opt *o, const char *name) {
  size_t n, other = MT_OPT_MAX_ROWS;
  const mt_opt_row *rows = mt_opt_rows(&n);
  for (size_t i = 0; i < n; i++) {
    if (strcmp(rows[i].name, name) != 0) continue;
    if (o->command < MT_CMD_COUNT && (rows[i].commands >> o->command & 1)) return i;
    other = i;
  }
  assert(other < MT_OPT_MAX_ROWS);
  return other;
}

mt_opt_action mt_opt_get_action(const mt_opt *o) {
  return o->action;
}

mt_command mt_opt_get_command(const mt_opt *o) {
  return o->command;
}

bool mt_opt_is_set(const mt_opt *o, const char *name) {
  return o->value[find(o, name)].given > 0;
}

bool mt_opt_flag(const mt_opt *o, const char *name) {
  return mt_opt_is_set(o, name);
}

int mt_opt_int(const mt_opt *o, const char *name) {
  size_t n, i = find(o, name);
  if (mt_opt_rows(&n)[i].kind == MT_OPT_COUNT) return o->value[i].given;
  return (int)o->value[i].number;
}

uint64_t mt_opt_u64(const mt_opt *o, const char *name) {
  return o->value[find(o, name)].bits;
}

double mt_opt_double(const mt_opt *o, const char *name) {
  return o->value[find(o, name)].number;
}

const char *mt_opt_string(const mt_opt *o, const char *name) {
  return o->value[find(o, name)].text;
}

size_t mt_opt_strings(const mt_opt *o, const char *name, const char *const **out) {
  const mt_opt_value *v = &o->value[find(o, name)];
  *out = v->list;
  return v->n;
}

size_t mt_opt_ids(const mt_opt *o, const char *name, const uint32_t **out) {
  const mt_opt_value *v = &o->value[find(o, name)];
  *out = v->list;
  return v->n;
}

size_t mt_opt_doubles(const mt_opt *o, const char *name, const double **out) {
  const mt_opt_value *v = &o->value[find(o, name)];
  *out = v->list;
  return v->n;
}

size_t mt_opt_biases(const mt_opt *o, const char *name, const mt_opt_bias **out) {
  const mt_opt_value *v = &o->value[find(o, name)];
  *out = v->list;
  return v->n;
}

int mt_opt_find_model(const mt_opt *o, char **path, mt_err *e) {
  *path = NULL;
  const char *given = mt_opt_string(o, "model");
  if (given) {
    *path = strdup(given);
    return *path ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for a path");
  }
  char exe[4000];
  ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (len < 0)
    return mt_err_set(e, MT_EIO, "cannot find this program's own path; give the model with -m");
  exe[len] = 0;
  char *slash = strrchr(exe, '/');
  if (slash) *slash = 0;
  const char *const places[] = {"../../models/mirim", "../share/mutirao/models/mirim"};
  for (size_t i = 0; i < 2; i++) {
    char relative[4096];
    snprintf(relative, sizeof relative, "%s/%s", exe, places[i]);
    if ((*path = realpath(relative, NULL))) return MT_OK;
  }
  return mt_err_set(e, MT_EIO,
                    "no model given (-m) and none beside the program (looked in %s/%s and %s/%s)",
                    exe, places[0], exe, places[1]);
}

void mt_opt_apply_log(const mt_opt *o) {
  int v = mt_opt_int(o, "verbose");
  if (mt_opt_flag(o, "quiet"))
    mt_log_set_level(MT_LOG_ERROR);
  else
    mt_log_set_level(v >= 2 ? MT_LOG_DEBUG : v == 1 ? MT_LOG_INFO : MT_LOG_WARN);
}
