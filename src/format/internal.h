/* What the files of module format share: the files of a model, the table of tensors, GGUF's
 * metadata. */
#ifndef MUTIRAO_FORMAT_INTERNAL_H
#define MUTIRAO_FORMAT_INTERNAL_H

#include <stdatomic.h>

#include "mutirao/format.h"

/* Headers beyond these sizes are refused before they are read: real ones stay below a few dozen MB.
 * The first is the limit that the safetensors specification states. */
#define MT_SAFETENSORS_HEADER_MAX 100000000u
#define MT_GGUF_HEADER_MAX        (256u << 20)

typedef struct mt_format_file {
  char *path;
  int fd;
  uint64_t bytes; /* size of the file */
  mt_buf header; /* its header as read: safetensors: the JSON text; GGUF: from the magic to the last
                    tensor's entry */
} mt_format_file;

typedef struct mt_gguf_kv {
  char *key;
  uint32_t type; /* of the value, or of an array's elements; as the file numbers them */
  bool array;
  size_t n;          /* elements; 1 for a scalar */
  size_t at;         /* numbers and booleans: offset of the first in the header */
  mt_bytes *strings; /* strings: one block, table first, text after it */
} mt_gguf_kv;

struct mt_weights {
  mt_weights_kind kind;
  mt_format_file *file;
  size_t n_files;
  mt_tensor_info *tensor; /* in the order of the files and of their headers */
  size_t n_tensors, cap_tensors;
  const mt_tensor_info **by_name; /* sorted */
  mt_gguf_kv *kv;                 /* in file order */
  size_t n_kv, cap_kv;
  const mt_gguf_kv **by_key; /* sorted */
  _Atomic uint64_t bytes_read;
};

/* file.c */
/* Opens path as the next file of w and notes its size; *index is its number. Regular files only: a
 * FIFO would hang. */
int mt_format_add_file(mt_weights *w, const char *path, int *index, mt_err *e);
/* bytes from offset of a file into dst, counted. MT_EIO names file and offset. */
int mt_format_read_at(mt_weights *w, int file, uint64_t offset, size_t bytes, void *dst, mt_err *e);

/* table.c */
mt_weights *mt_format_new(mt_weights_kind kind);
/* Appends one tensor; its name is copied. MT_ENOMEM. */
int mt_format_add_tensor(mt_weights *w, const mt_tensor_info *t, mt_err *e);
/* Checks the places of the tensors from number `first` on, all of them in `file`: each inside the
 * file, none overlapping; with gapless also that from data_start on there is no byte that belongs
 * to none. */
int mt_format_check_layout(const mt_weights *w, size_t first, int file, uint64_t data_start,
                           bool gapless, mt_err *e);
/* After the last tensor: sorts by name and refuses duplicates. */
int mt_format_seal(mt_weights *w, mt_err *e);

/* safetensors.c: reads (read_header) and interprets (parse) the header of one file; index.c: the
 * sharded index. */
int mt_safetensors_read_header(mt_weights *w, int file, mt_err *e);
int mt_safetensors_parse(mt_weights *w, int file, mt_err *e);
int mt_safetensors_open_sharded(mt_weights *w, const char *dir, const char *index_path, mt_err *e);

/* gguf.c: reads and interprets; with complete = true the header is already in memory and nothing is
 * read. */
int mt_gguf_parse(mt_weights *w, int file, bool complete, mt_err *e);
int mt_gguf_seal(mt_weights *w, mt_err *e); /* gguf_meta.c: sorts the keys, refuses duplicates */

#endif
