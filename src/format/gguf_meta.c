/* GGUF's types, and its metadata by key. */
#include <stdlib.h>
#include <string.h>

#include "gguf_types.h"
#include "internal.h"

size_t mt_gguf_type_bytes(uint32_t type) {
  static const uint8_t bytes[] = {[GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
                                  [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
                                  [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
  return type < sizeof bytes ? bytes[type] : 0;
}

const char *mt_gguf_tensor_type(uint32_t type, mt_dtype *out) {
  static const struct {
    const char *name;
    mt_dtype type; /* read only where `known` */
    bool known;
  } table[] = {
      [0] = {"F32", MT_F32, true},        [1] = {"F16", MT_F16, true},
      [2] = {"Q4_0", MT_Q4_0, true},      [3] = {"Q4_1", MT_Q4_1, true},
      [6] = {"Q5_0", MT_Q5_0, true},      [7] = {"Q5_1", MT_Q5_1, true},
      [8] = {"Q8_0", MT_Q8_0, true},      [9] = {.name = "Q8_1"},
      [10] = {"Q2_K", MT_Q2_K, true},     [11] = {"Q3_K", MT_Q3_K, true},
      [12] = {"Q4_K", MT_Q4_K, true},     [13] = {"Q5_K", MT_Q5_K, true},
      [14] = {"Q6_K", MT_Q6_K, true},     [15] = {.name = "Q8_K"},
      [16] = {.name = "IQ2_XXS"},         [17] = {.name = "IQ2_XS"},
      [18] = {.name = "IQ3_XXS"},         [19] = {.name = "IQ1_S"},
      [20] = {"IQ4_NL", MT_IQ4_NL, true}, [21] = {.name = "IQ3_S"},
      [22] = {.name = "IQ2_S"},           [23] = {"IQ4_XS", MT_IQ4_XS, true},
      [24] = {"I8", MT_I8, true},         [25] = {"I16", MT_I16, true},
      [26] = {"I32", MT_I32, true},       [27] = {"I64", MT_I64, true},
      [28] = {"F64", MT_F64, true},       [29] = {.name = "IQ1_M"},
      [30] = {"BF16", MT_BF16, true},     [34] = {.name = "TQ1_0"},
      [35] = {.name = "TQ2_0"},           [39] = {"MXFP4", MT_MXFP4, true},
  };
  *out = MT_DTYPE_COUNT;
  if (type >= sizeof table / sizeof table[0] || !table[type].name) return "unknown";
  if (table[type].known) *out = table[type].type;
  return table[type].name;
}

static int by_key(const void *a, const void *b) {
  return strcmp((*(const mt_gguf_kv *const *)a)->key, (*(const mt_gguf_kv *const *)b)->key);
}

int mt_gguf_seal(mt_weights *w, mt_err *e) {
  w->by_key = mt_malloc(w->n_kv, sizeof *w->by_key);
  if (!w->by_key) return mt_err_set(e, MT_ENOMEM, "%s: no memory", w->file[0].path);
  for (size_t i = 0; i < w->n_kv; i++) w->by_key[i] = &w->kv[i];
  if (w->n_kv) qsort(w->by_key, w->n_kv, sizeof *w->by_key, by_key);
  for (size_t i = 1; i < w->n_kv; i++)
    if (!strcmp(w->by_key[i - 1]->key, w->by_key[i]->key))
      return mt_err_set(e, MT_EFORMAT, "%s: key '%.200s' comes twice", w->file[0].path,
                        w->by_key[i]->key);
  return MT_OK;
}

static int key_against(const void *key, const void *p) {
  return strcmp(key, (*(const mt_gguf_kv *const *)p)->key);
}

static const mt_gguf_kv *find(const mt_weights *w, const char *key) {
  if (!w->n_kv) return NULL;
  const mt_gguf_kv *const *p = bsearch(key, w->by_key, w->n_kv, sizeof *w->by_key, key_against);
  return p ? *p : NULL;
}

/* Element i of the array, or the scalar (array = false, i = 0), under that key; NULL if absent or
 * of the other kind. */
static const mt_gguf_kv *find_element(const mt_weights *w, const char *key, bool array, size_t i) {
  const mt_gguf_kv *kv = find(w, key);
  return kv && kv->array == array && i < kv->n ? kv : NULL;
}

/* An integer or boolean, as sign and magnitude's 64 bits. */
typedef struct integer {
  uint64_t bits; /* two's complement where signed */
  bool is_signed;
} integer;

static bool get_integer(const mt_weights *w, const mt_gguf_kv *kv, size_t i, integer *out) {
  const char *p = w->file[0].header.data + kv->at + i * mt_gguf_type_bytes(kv->type);
  union {
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    uint64_t u64;
  } v;
  memcpy(&v, p, mt_gguf_type_bytes(kv->type));
  switch (kv->type) {
    case GGUF_BOOL:
    case GGUF_U8: *out = (integer){v.u8, false}; return true;
    case GGUF_U16: *out = (integer){v.u16, false}; return true;
    case GGUF_U32: *out = (integer){v.u32, false}; return true;
    case GGUF_U64: *out = (integer){v.u64, false}; return true;
    case GGUF_I8: *out = (integer){(uint64_t)(int64_t)v.i8, true}; return true;
    case GGUF_I16: *out = (integer){(uint64_t)(int64_t)v.i16, true}; return true;
    case GGUF_I32: *out = (integer){(uint64_t)(int64_t)v.i32, true}; return true;
    case GGUF_I64: *out = (integer){v.u64, true}; return true;
    default: return false;
  }
}

static bool get_u64(const mt_weights *w, const mt_gguf_kv *kv, size_t i, uint64_t *out) {
  integer v;
  if (!kv || kv->strings || !get_integer(w, kv, i, &v) || (v.is_signed && v.bits >> 63))
    return false;
  *out = v.bits;
  return true;
}

static bool get_number(const mt_weights *w, const mt_gguf_kv *kv, size_t i, double *out) {
  integer v;
  float f;
  if (!kv || kv->strings || kv->type == GGUF_BOOL) return false;
  const char *p = w->file[0].header.data + kv->at + i * mt_gguf_type_bytes(kv->type);
  if (kv->type == GGUF_F64) {
    memcpy(out, p, sizeof *out);
  } else if (kv->type == GGUF_F32) {
    memcpy(&f, p, sizeof f);
    *out = (double)f;
  } else if (get_integer(w, kv, i, &v)) {
    *out = v.is_signed ? (double)(int64_t)v.bits : (double)v.bits;
  }
  return true;
}

bool mt_gguf_has(const mt_weights *w, const char *key) {
  return find(w, key) != NULL;
}

bool mt_gguf_u64(const mt_weights *w, const char *key, uint64_t *out) {
  const mt_gguf_kv *kv = find_element(w, key, false, 0);
  return kv && kv->type != GGUF_BOOL && get_u64(w, kv, 0, out);
}

bool mt_gguf_number(const mt_weights *w, const char *key, double *out) {
  return get_number(w, find_element(w, key, false, 0), 0, out);
}

bool mt_gguf_bool(const mt_weights *w, const char *key, bool *out) {
  const mt_gguf_kv *kv = find_element(w, key, false, 0);
  uint64_t v;
  if (!kv || kv->type != GGUF_BOOL || !get_u64(w, kv, 0, &v)) return false;
  *out = v != 0;
  return true;
}

bool mt_gguf_string(const mt_weights *w, const char *key, mt_bytes *out) {
  const mt_gguf_kv *kv = find_element(w, key, false, 0);
  if (!kv || !kv->strings) return false;
  *out = kv->strings[0];
  return true;
}

bool mt_gguf_array_len(const mt_weights *w, const char *key, size_t *out) {
  const mt_gguf_kv *kv = find(w, key);
  if (!kv || !kv->array) return false;
  *out = kv->n;
  return true;
}

bool mt_gguf_array_string(const mt_weights *w, const char *key, size_t i, mt_bytes *out) {
  const mt_gguf_kv *kv = find_element(w, key, true, i);
  if (!kv || !kv->strings) return false;
  *out = kv->strings[i];
  return true;
}

bool mt_gguf_array_number(const mt_weights *w, const char *key, size_t i, double *out) {
  return get_number(w, find_element(w, key, true, i), i, out);
}

bool mt_gguf_array_u64(const mt_weights *w, const char *key, size_t i, uint64_t *out) {
  return get_u64(w, find_element(w, key, true, i), i, out);
}

const char *mt_gguf_key_at(const mt_weights *w, size_t i) {
  return i < w->n_kv ? w->kv[i].key : NULL;
}
