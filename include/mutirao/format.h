/* format: readers of GGUF (v2, v3) and safetensors (one file or a sharded index). Layer 2; every
 * length and offset is checked before use; no knowledge of architectures. Nothing here is
 * collective. */
#ifndef MUTIRAO_FORMAT_H
#define MUTIRAO_FORMAT_H

#include "mutirao/base.h"
#include "mutirao/tensor.h"

typedef struct mt_weights mt_weights;
typedef enum mt_weights_kind { MT_WEIGHTS_SAFETENSORS, MT_WEIGHTS_GGUF } mt_weights_kind;

typedef struct mt_tensor_info {
  const char *name; /* owned by the mt_weights */
  mt_dtype type;
  mt_shape shape; /* row-major, outermost first, for GGUF too (its dimensions are turned round) */
  int file;       /* which of the files */
  uint64_t offset, bytes; /* of the data within that file */
} mt_tensor_info;

/* Opens a GGUF file or one safetensors file (told apart by the first bytes), or a directory with
 * model.safetensors.index.json (preferred) or model.safetensors, and reads the headers only. Checks
 * that every tensor lies inside its file, that none overlaps another or comes twice, that sizes fit
 * types and shapes, that every shard that the index names is there and holds just the tensors that
 * the index gives it, and, for safetensors, that no byte of the data is left over. Errors name file
 * and place: MT_EFORMAT for what is malformed, truncated or missing, MT_EUNSUPPORTED for an element
 * type, GGUF version or split file that we do not read, MT_EIO, MT_ENOMEM. */
int mt_weights_open(mt_weights **out, const char *path, mt_err *e);
void mt_weights_close(mt_weights *w);

/* The header bytes of all files in one block, for rank 0 to broadcast (appended to out; it holds
 * the paths as given to mt_weights_open); and opening from such a block, which reads no header
 * again (the files are opened for mt_weights_read, and their sizes must still be the same: else
 * MT_EIO). Import checks everything that open does but the index, which the exporter has checked.
 */
int mt_weights_export(const mt_weights *w, mt_buf *out, mt_err *e);
int mt_weights_import(mt_weights **out, const void *block, size_t bytes, mt_err *e);

mt_weights_kind mt_weights_get_kind(const mt_weights *w);
size_t mt_weights_count(const mt_weights *w);
/* In the order of the headers; NULL beyond the end. */
const mt_tensor_info *mt_weights_at(const mt_weights *w, size_t i);
const mt_tensor_info *mt_weights_find(const mt_weights *w, const char *name); /* NULL if absent */
const char *mt_weights_file_name(const mt_weights *w,
                                 int file);          /* its path; NULL beyond the last file */
uint64_t mt_weights_file_bytes(const mt_weights *w); /* all files together */

/* Reads `bytes` bytes from `offset` within the tensor's data. Every byte read counts in
 * mt_weights_bytes_read. Safe to call from several threads. A short read is MT_EIO with file and
 * offset. */
int mt_weights_read(mt_weights *w, const mt_tensor_info *t, uint64_t offset, size_t bytes,
                    void *dst, mt_err *e);
uint64_t mt_weights_bytes_read(const mt_weights *w); /* by this process, headers included */

/* GGUF metadata. Each returns false where the key is absent or of another kind (integers convert
 * where the value fits; f32 and f64 both are "number", and integers are numbers too). Pointers stay
 * owned by the mt_weights. Strings are counted, may hold any bytes, and are also 0-terminated. */
typedef struct mt_bytes {
  const char *ptr;
  size_t len;
} mt_bytes;
bool mt_gguf_has(const mt_weights *w, const char *key);
bool mt_gguf_u64(const mt_weights *w, const char *key, uint64_t *out);
bool mt_gguf_number(const mt_weights *w, const char *key, double *out);
bool mt_gguf_bool(const mt_weights *w, const char *key, bool *out);
bool mt_gguf_string(const mt_weights *w, const char *key, mt_bytes *out);
/* Arrays: the length, then an element by index; the same conversions, and booleans count as 0 and 1
 * for u64. Arrays of arrays are refused by mt_weights_open. */
bool mt_gguf_array_len(const mt_weights *w, const char *key, size_t *out);
bool mt_gguf_array_string(const mt_weights *w, const char *key, size_t i, mt_bytes *out);
bool mt_gguf_array_number(const mt_weights *w, const char *key, size_t i, double *out);
bool mt_gguf_array_u64(const mt_weights *w, const char *key, size_t i, uint64_t *out);
/* Keys in file order, for `inspect`; NULL beyond the end. */
const char *mt_gguf_key_at(const mt_weights *w, size_t i);

/* ---- kept slices -------------------------------------------------------------------------
 * A file of bytes that were made from a model (a rank's packed weights), to be read again instead
 * of being made again: in chunks of MT_SLICE_CHUNK bytes (the last may be shorter), each with a
 * hash. The hashes find damage, not malice: who may write the file may choose the bytes. */

enum { MT_SLICE_CHUNK = 1 << 20 };

/* What a slice is made from and for; all of it must be equal for it to be used. */
typedef struct mt_slice_key {
  uint64_t source_bytes, source_time_ns, source_hash; /* mt_slice_set_source */
  uint64_t layout; /* hash of all else that its bytes depend on */
  uint64_t rank, n_ranks;
} mt_slice_key;

typedef struct mt_slice mt_slice;
/* Size, time of modification and header of the files of w. MT_EIO. */
int mt_slice_set_source(mt_slice_key *key, const mt_weights *w, mt_err *e);
/* Opens the slice at path for reading, which must be of `bytes` bytes. *out is NULL (and the code
 * MT_OK) where there is no such file. MT_EFORMAT where it is damaged or made from or for something
 * else, MT_EIO, MT_ENOMEM; the message says why. */
int mt_slice_open(mt_slice **out, const char *path, const mt_slice_key *key, uint64_t bytes,
                  mt_err *e);
/* Begins a slice that will stand at path once it is finished; until then what stands there stays.
 * *out is NULL (and the code MT_OK) where another process is writing it. MT_ESYSTEM, MT_ENOMEM. */
int mt_slice_create(mt_slice **out, const char *path, const mt_slice_key *key, uint64_t bytes,
                    mt_err *e);
size_t mt_slice_chunks(const mt_slice *s);
/* Reads a chunk into dst and checks it, or writes it. Safe to call from several threads, for
 * different chunks. MT_EFORMAT and MT_EIO, or MT_ESYSTEM. */
int mt_slice_read(const mt_slice *s, size_t chunk, void *dst, mt_err *e);
int mt_slice_write(mt_slice *s, size_t chunk, const void *src, mt_err *e);
/* After the last chunk: the file gets its name. MT_ESYSTEM. */
int mt_slice_finish(mt_slice *s, mt_err *e);
void mt_slice_close(mt_slice *s); /* NULL allowed; what is not finished is removed */

#endif
