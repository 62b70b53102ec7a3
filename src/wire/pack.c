/* Packing and unpacking of any message. */
#include "wire_impl.h"

int mt_wire_pack(const ProtobufCMessage *m, mt_buf *out, mt_err *e) {
  size_t n = protobuf_c_message_get_packed_size(m);
  mt_buf_clear(out);
  if (n > MT_WIRE_BYTES_MOST)
    return mt_err_set(e, MT_ERANGE, "a message of %zu bytes is longer than %d", n,
                      MT_WIRE_BYTES_MOST);
  if (mt_buf_reserve(out, n + 1)) return mt_err_set(e, MT_ENOMEM, "no memory for a message");
  out->len = protobuf_c_message_pack(m, (uint8_t *)out->data);
  out->data[out->len] = 0;
  return MT_OK;
}

void *mt_wire_unpack(const ProtobufCMessageDescriptor *d, const void *data, size_t n,
                     const char *name, int *rc, mt_err *e) {
  *rc = MT_OK;
  if (n > MT_WIRE_BYTES_MOST) {
    *rc = mt_err_set(e, MT_ERANGE, "a %s of %zu bytes is longer than %d", name, n,
                     MT_WIRE_BYTES_MOST);
    return NULL;
  }
  void *m = protobuf_c_message_unpack(d, NULL, n, data);
  if (!m) *rc = mt_err_set(e, MT_EFORMAT, "%zu bytes that are no %s", n, name);
  return m;
}

int mt_wire_check_version(uint32_t version, const char *name, mt_err *e) {
  if (version == MT_WIRE_VERSION) return MT_OK;
  return mt_err_set(e, MT_EUNSUPPORTED,
                    "a %s of protocol version %u, but this program speaks version %d: all ranks "
                    "must run the same program",
                    name, version, MT_WIRE_VERSION);
}
