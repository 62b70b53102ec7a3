/* Any bytes as a GGUF file; every key of what opens is asked for in every way. */
#include "fuzz_file.h"

static void ask_array(const mt_weights *w, const char *key) {
  size_t n, last[2];
  uint64_t u;
  double d;
  mt_bytes s;
  if (!mt_gguf_array_len(w, key, &n)) return;
  last[0] = n ? n - 1 : 0;
  last[1] = n;
  for (int k = 0; k < 2; k++) {
    bool any = mt_gguf_array_u64(w, key, last[k], &u) || mt_gguf_array_number(w, key, last[k], &d);
    if (mt_gguf_array_string(w, key, last[k], &s)) {
      any = true;
      require(s.ptr[s.len] == 0);
      mt_hash64(MT_HASH_INIT, s.ptr, s.len); /* touches every byte */
    }
    require(!any || last[k] < n);
  }
}

static void ask(const mt_weights *w, const char *key) {
  uint64_t u;
  double d;
  bool b;
  mt_bytes s;
  require(mt_gguf_has(w, key));
  if (mt_gguf_u64(w, key, &u)) require(mt_gguf_number(w, key, &d));
  if (mt_gguf_bool(w, key, &b)) require(!mt_gguf_number(w, key, &d));
  if (mt_gguf_string(w, key, &s))
    require(s.ptr[s.len] == 0 && mt_hash64(MT_HASH_INIT, s.ptr, s.len));
  ask_array(w, key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mt_weights *w = fuzz_open(data, size);
  const char *key;
  for (size_t i = 0; w && (key = mt_gguf_key_at(w, i)); i++) ask(w, key);
  mt_weights_close(w);
  return 0;
}
