/* One value: text to number, list or word, with the legal range in every refusal. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opt_priv.h"

enum { MAX_LIST_BYTES = 1 << 28 };

static int grow(mt_opt_value *v, size_t entry_bytes) {
  if (v->n < v->cap) return MT_OK;
  size_t cap = v->cap ? 2 * v->cap : 8;
  void *p = mt_realloc(v->list, cap, entry_bytes);
  if (!p) return MT_ENOMEM;
  v->list = p;
  v->cap = cap;
  return MT_OK;
}

void mt_opt_value_fini(mt_opt_value *v) {
  free(v->list);
  *v = (mt_opt_value){0};
}

void mt_opt_write_range(const mt_opt_row *row, char *out, size_t size) {
  bool open = row->max >= 2147483647.0;
  if (row->above)
    snprintf(out, size, "above %.15g, at most %.15g", row->min, row->max);
  else if (open)
    snprintf(out, size, "at least %.15g", row->min);
  else
    snprintf(out, size, "%.15g to %.15g", row->min, row->max);
}

static int bad_number(const mt_opt_row *row, const char *text, const char *what, mt_err *e) {
  char range[96];
  mt_opt_write_range(row, range, sizeof range);
  return mt_err_set(e, MT_EINVAL, "--%s: '%.60s' is not %s (%s)", row->name, text, what, range);
}

static bool in_range(const mt_opt_row *row, double x) {
  return x <= row->max && (row->above ? x > row->min : x >= row->min);
}

/* The number at s, up to *end; false where there is none or it is not finite. */
static bool scan_double(const char *s, char **end, double *out) {
  if (*s == ' ' || *s == '\t' || *s == 0) return false;
  *out = strtod(s, end);
  return *end != s && isfinite(*out);
}

static bool scan_u64(const char *s, char **end, uint64_t *out) {
  if (*s < '0' || *s > '9') return false; /* strtoull would take a sign and blanks */
  errno = 0;
  bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
  *out = strtoull(s, end, hex ? 16 : 10);
  return *end != s && errno == 0;
}

static int read_int(const mt_opt_row *row, const char *text, mt_opt_value *v, mt_err *e) {
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  if (end == text || *end || errno == EINVAL) return bad_number(row, text, "a whole number", e);
  if (errno || !in_range(row, (double)n)) return bad_number(row, text, "in range", e);
  v->number = (double)n;
  return MT_OK;
}

static int read_double(const mt_opt_row *row, const char *text, mt_opt_value *v, mt_err *e) {
  char *end;
  double x;
  if (!scan_double(text, &end, &x) || *end) return bad_number(row, text, "a number", e);
  if (!in_range(row, x)) return bad_number(row, text, "in range", e);
  v->number = x;
  return MT_OK;
}

static int read_u64(const mt_opt_row *row, const char *text, mt_opt_value *v, mt_err *e) {
  char *end;
  if (!scan_u64(text, &end, &v->bits) || *end)
    return mt_err_set(e, MT_EINVAL,
                      "--%s: '%.60s' is not a whole number (0 to 18446744073709551615)", row->name,
                      text);
  return MT_OK;
}

static int read_size(const mt_opt_row *row, const char *text, mt_opt_value *v, mt_err *e) {
  char *end;
  double x;
  if (!scan_double(text, &end, &x)) goto bad;
  const char *unit = "KMGT", *u = *end ? strchr(unit, *end & ~0x20) : NULL;
  if (u) {
    for (const char *k = unit; k <= u; k++) x *= 1024;
    end++;
  }
  if (*end || x < 1 || x >= 0x1p63) goto bad;
  v->bits = (uint64_t)x;
  return MT_OK;
bad:
  return mt_err_set(e, MT_EINVAL,
                    "--%s: '%.60s' is not a size (such as 4096, 512M or 1.5G; at least 1)",
                    row->name, text);
}

static int read_choice(const mt_opt_row *row, const char *text, mt_opt_value *v, mt_err *e) {
  size_t len = strlen(text);
  for (const char *p = row->choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
    if (len == strcspn(p, "|") && len && !memcmp(p, text, len)) {
      v->text = text;
      return MT_OK;
    }
  return mt_err_set(e, MT_EINVAL, "--%s: '%.60s' is none of %s", row->name, text, row->choices);
}

static int add_string(const mt_opt_row *row, const char *text, mt_opt_value *v, mt_err *e) {
  if (!*text) return mt_err_set(e, MT_EINVAL, "--%s: the text is empty", row->name);
  if (grow(v, sizeof(const char *))) return mt_err_set(e, MT_ENOMEM, "--%s: no memory", row->name);
  ((const char **)v->list)[v->n++] = text;
  return MT_OK;
}

static const char *skip_blanks(const char *s) {
  return s + strspn(s, " \t\r\n");
}

int mt_opt_parse_ids(const char *name, const char *text, uint32_t max, uint32_t **ids, size_t *n,
                     mt_err *e) {
  mt_opt_value v = {0};
  int rc = MT_OK;
  const char *s = skip_blanks(text);
  while (*s && !rc) {
    char *end;
    uint64_t id;
    if (!scan_u64(s, &end, &id) || id > max) {
      rc = mt_err_set(e, MT_EINVAL,
                      "%s: entry %zu, '%.24s', is not a token id (comma-separated, 0 to %u)", name,
                      v.n + 1, s, max);
      break;
    }
    if (grow(&v, sizeof(uint32_t))) {
      rc = mt_err_set(e, MT_ENOMEM, "%s: no memory for a list", name);
      break;
    }
    ((uint32_t *)v.list)[v.n++] = (uint32_t)id;
    s = skip_blanks(end);
    if (*s == ',' && *(s = skip_blanks(s + 1))) continue;
    if (*s || s[-1] == ',')
      rc = mt_err_set(e, MT_EINVAL, "%s: expected a comma and an id after entry %zu, got '%.24s'",
                      name, v.n, s);
  }
  *ids = v.list;
  *n = v.n;
  if (rc) {
    mt_opt_value_fini(&v);
    *ids = NULL;
    *n = 0;
  }
  return rc;
}

static int read_ids(const mt_opt_row *row, const char *text, mt_opt_value *v, mt_err *e) {
  mt_buf file = {0};
  char name[48];
  snprintf(name, sizeof name, "--%s", row->name);
  bool from_file = *text == '@';
  int rc = from_file ? mt_buf_read_file(&file, text + 1, MAX_LIST_BYTES, e) : MT_OK;
  const char *list = !from_file ? text : file.data ? file.data : "";
  free(v->list); /* of several lists the last counts */
  uint32_t *ids = NULL;
  size_t n = 0;
  if (!rc)
    rc = mt_opt_parse_ids(from_file ? text + 1 : name, list, (uint32_t)row->max, &ids, &n, e);
  v->list = ids;
  v->n = v->cap = n;
  if (rc == MT_EINVAL && from_file) { /* the file is at fault, not the command line */
    rc = MT_EFORMAT;
    if (e) e->code = rc;
  }
  if (!rc && !v->n) rc = mt_err_set(e, MT_EINVAL, "%s: the list is empty", name);
  mt_buf_free(&file);
  return rc;
}

static int read_doubles(const mt_opt_row *row, const char *s, mt_opt_value *v, mt_err *e) {
  v->n = 0;
  for (;;) {
    char *end;
    double x;
    if (!scan_double(s, &end, &x) || (*end && *end != ','))
      return bad_number(row, s, "a list of numbers", e);
    if (!in_range(row, x)) return bad_number(row, s, "in range", e);
    if (grow(v, sizeof(double))) return mt_err_set(e, MT_ENOMEM, "--%s: no memory", row->name);
    ((double *)v->list)[v->n++] = x;
    if (!*end) return MT_OK;
    s = end + 1;
  }
}

static int add_bias(const mt_opt_row *row, const char *text, mt_opt_value *v, mt_err *e) {
  char *end;
  uint64_t id;
  double x;
  if (!scan_u64(text, &end, &id) || id > UINT32_MAX || *end != '=' ||
      !scan_double(end + 1, &end, &x) || *end)
    return bad_number(row, text, "of the form ID=VALUE, such as 42=-5.5", e);
  if (!in_range(row, x)) return bad_number(row, text, "in range", e);
  if (grow(v, sizeof(mt_opt_bias))) return mt_err_set(e, MT_ENOMEM, "--%s: no memory", row->name);
  ((mt_opt_bias *)v->list)[v->n++] = (mt_opt_bias){(uint32_t)id, (float)x};
  return MT_OK;
}

int mt_opt_read_value(const mt_opt_row *row, const char *text, mt_opt_value *v, mt_err *e) {
  switch (row->kind) {
    case MT_OPT_FLAG:
    case MT_OPT_COUNT: return MT_OK;
    case MT_OPT_INT: return read_int(row, text, v, e);
    case MT_OPT_U64: return read_u64(row, text, v, e);
    case MT_OPT_DOUBLE: return read_double(row, text, v, e);
    case MT_OPT_SIZE: return read_size(row, text, v, e);
    case MT_OPT_STRING: v->text = text; return MT_OK;
    case MT_OPT_PATH:
      if (!*text) return mt_err_set(e, MT_EINVAL, "--%s: the path is empty", row->name);
      v->text = text;
      return MT_OK;
    case MT_OPT_CHOICE: return read_choice(row, text, v, e);
    case MT_OPT_STRINGS: return add_string(row, text, v, e);
    case MT_OPT_IDS: return read_ids(row, text, v, e);
    case MT_OPT_DOUBLES: return read_doubles(row, text, v, e);
    case MT_OPT_BIASES: return add_bias(row, text, v, e);
  }
  return mt_err_set(e, MT_EINVAL, "--%s: unknown kind of option", row->name);
}

int mt_opt_check_value(const mt_opt_row *row, const char *value, mt_err *e) {
  mt_opt_value v = {0};
  int rc = mt_opt_read_value(row, value, &v, e);
  mt_opt_value_fini(&v);
  return rc;
}
