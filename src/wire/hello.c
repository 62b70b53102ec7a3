/* The handshake. */
#include <stdio.h>
#include <string.h>

#include "mutirao.pb-c.h"
#include "wire_impl.h"

int mt_wire_pack_hello(const mt_hello *h, mt_buf *out, mt_err *e) {
  Mutirao__Hello m = MUTIRAO__HELLO__INIT;
  mt_hello copy = *h; /* protobuf-c wants writable, terminated strings */
  if (!memchr(copy.program, 0, sizeof copy.program) || !memchr(copy.isa, 0, sizeof copy.isa))
    return mt_err_set(e, MT_EINVAL, "a greeting with a text that has no end");
  m.version = MT_WIRE_VERSION;
  m.program = copy.program;
  m.isa = copy.isa;
  m.kernel_hash = h->kernel_hash;
  m.model_hash = h->model_hash;
  m.config_hash = h->config_hash;
  m.threads = h->threads;
  return mt_wire_pack(&m.base, out, e);
}

static int take_text(char *to, size_t room, const char *from, const char *what, mt_err *e) {
  size_t n = strlen(from);
  if (n >= room)
    return mt_err_set(e, MT_ERANGE, "a greeting whose %s has %zu bytes, of at most %zu", what, n,
                      room - 1);
  if (!mt_utf8_valid(from, n, NULL))
    return mt_err_set(e, MT_EFORMAT, "a greeting whose %s is no UTF-8", what);
  memcpy(to, from, n + 1);
  return MT_OK;
}

int mt_wire_unpack_hello(const void *data, size_t n, mt_hello *out, mt_err *e) {
  int rc;
  memset(out, 0, sizeof *out);
  Mutirao__Hello *m = mt_wire_unpack(&mutirao__hello__descriptor, data, n, "greeting", &rc, e);
  if (!m) return rc;
  rc = mt_wire_check_version(m->version, "greeting", e);
  if (!rc) rc = take_text(out->program, sizeof out->program, m->program, "program version", e);
  if (!rc) rc = take_text(out->isa, sizeof out->isa, m->isa, "instruction set", e);
  out->kernel_hash = m->kernel_hash;
  out->model_hash = m->model_hash;
  out->config_hash = m->config_hash;
  out->threads = m->threads;
  if (rc) memset(out, 0, sizeof *out);
  mutirao__hello__free_unpacked(m, NULL);
  return rc;
}

static int differ(const char *what, uint64_t here, uint64_t there, int rank, mt_err *e) {
  if (here == there) return MT_OK;
  return mt_err_set(e, MT_EINVAL, "%s: %016llx here, %016llx on rank %d", what,
                    (unsigned long long)here, (unsigned long long)there, rank);
}

int mt_wire_compare_hello(const mt_hello *here, const mt_hello *there, int rank, mt_err *e) {
  char what[160];
  if (strcmp(here->program, there->program))
    return mt_err_set(e, MT_EINVAL, "ranks run different programs: %s here, %s on rank %d",
                      here->program, there->program, rank);
  snprintf(what, sizeof what, "ranks compute different numbers (kernels %s here, %s there)",
           here->isa, there->isa);
  int rc = differ(what, here->kernel_hash, there->kernel_hash, rank, e);
  if (!rc) rc = differ("ranks have different models", here->model_hash, there->model_hash, rank, e);
  if (!rc)
    rc = differ("ranks have another command, model or options", here->config_hash,
                there->config_hash, rank, e);
  return rc;
}
