/* What the files of wire share. */
#ifndef MUTIRAO_WIRE_IMPL_H
#define MUTIRAO_WIRE_IMPL_H

#include <protobuf-c/protobuf-c.h>

#include "mutirao/wire.h"

/* Packs any message into out, replacing its content. */
int mt_wire_pack(const ProtobufCMessage *m, mt_buf *out, mt_err *e);
/* Unpacks; NULL and MT_EFORMAT, MT_ERANGE or MT_ENOMEM in *rc. `name` is for messages. */
void *mt_wire_unpack(const ProtobufCMessageDescriptor *d, const void *data, size_t n,
                     const char *name, int *rc, mt_err *e);
int mt_wire_check_version(uint32_t version, const char *name, mt_err *e);

#endif
