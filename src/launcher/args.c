/* A growing argument vector. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

int mt_args_add(mt_args *a, const char *s, mt_err *e) {
  if (a->n + 1 >= a->cap) {
    size_t cap = a->cap ? 2 * a->cap : 32;
    char **v = mt_realloc(a->v, cap, sizeof *v);
    if (!v) return mt_err_set(e, MT_ENOMEM, "no memory for arguments");
    a->v = v;
    a->cap = cap;
  }
  if (!(a->v[a->n] = strdup(s))) return mt_err_set(e, MT_ENOMEM, "no memory for arguments");
  a->v[++a->n] = NULL;
  return MT_OK;
}

int mt_args_addf(mt_args *a, mt_err *e, const char *fmt, ...) {
  char *s = NULL;
  va_list ap;
  va_start(ap, fmt);
  int len = vasprintf(&s, fmt, ap);
  va_end(ap);
  if (len < 0) return mt_err_set(e, MT_ENOMEM, "no memory for arguments");
  int rc = mt_args_add(a, s, e);
  free(s);
  return rc;
}

void mt_args_free(mt_args *a) {
  for (size_t i = 0; i < a->n; i++) free(a->v[i]);
  free(a->v);
  *a = (mt_args){0};
}
