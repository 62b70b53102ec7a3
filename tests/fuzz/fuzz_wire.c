/* Any bytes are either refused or a message that packs and unpacks to itself. */
#include <stdlib.h>
#include <string.h>

#include "mutirao/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void step(const uint8_t *data, size_t n) {
  mt_step_plan p, q;
  mt_err e;
  mt_buf b = {0};
  if (mt_wire_unpack_step(data, n, &p, &e)) return;
  if (mt_wire_pack_step(&p, &b, &e) || mt_wire_unpack_step(b.data, b.len, &q, &e)) abort();
  if (p.n_rows != q.n_rows || p.n_commands != q.n_commands || p.step != q.step) abort();
  if (memcmp(p.token, q.token, p.n_rows * sizeof *p.token)) abort();
  mt_step_plan_free(&p);
  mt_step_plan_free(&q);
  mt_buf_free(&b);
}

static void hello(const uint8_t *data, size_t n) {
  mt_hello h, g;
  mt_err e;
  mt_buf b = {0};
  if (mt_wire_unpack_hello(data, n, &h, &e)) return;
  if (mt_wire_pack_hello(&h, &b, &e) || mt_wire_unpack_hello(b.data, b.len, &g, &e)) abort();
  if (mt_wire_compare_hello(&h, &g, 0, &e)) abort();
  mt_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  step(data, n);
  hello(data, n);
  return 0;
}
