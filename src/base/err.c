/* Error codes, their names, and the line that goes with one. */
#include <stdio.h>
#include <string.h>

#include "mutirao/base.h"

const char *mt_err_name(int code) {
  switch (code) {
    case MT_OK: return "ok";
    case MT_EINVAL: return "wrong usage";
    case MT_ENOMEM: return "not enough memory";
    case MT_EIO: return "input cannot be read";
    case MT_EFORMAT: return "malformed input";
    case MT_EUNSUPPORTED: return "not supported";
    case MT_ERANGE: return "out of range";
    case MT_ENUMERIC: return "numeric failure";
    case MT_EPEER: return "another rank failed";
    case MT_ELIMIT: return "limit reached";
    case MT_ECANCELED: return "cancelled";
    case MT_ESYSTEM: return "the system refused";
    default: return "unknown error";
  }
}

int mt_err_set(mt_err *e, int code, const char *fmt, ...) {
  if (!e) return code;
  e->code = code;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(e->msg, sizeof e->msg, fmt, ap);
  va_end(ap);
  for (char *p = e->msg; *p; p++) /* one line, whatever a file name or a template put in */
    if ((unsigned char)*p < 0x20) *p = ' ';
  return code;
}

int mt_err_prefix(mt_err *e, int code, const char *fmt, ...) {
  if (!e) return code;
  char old[sizeof e->msg], head[sizeof e->msg];
  memcpy(old, e->msg, sizeof old);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(head, sizeof head, fmt, ap);
  va_end(ap);
  int kept = e->code ? e->code : code;
  return mt_err_set(e, kept, "%.400s: %.590s", head, old[0] ? old : mt_err_name(kept));
}

int mt_err_exit_status(int code) {
  switch (code) {
    case MT_OK: return 0;
    case MT_EINVAL: return 2;
    case MT_EIO:
    case MT_EFORMAT:
    case MT_EUNSUPPORTED: return 3;
    default: return 1;
  }
}
