/* Any bytes as a safetensors file, and the same bytes as a broadcast block of headers. */
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mt_weights *w = fuzz_open(data, size);
  mt_weights_close(w);
  w = NULL;
  if (!mt_weights_import(&w, data, size, NULL)) mt_weights_close(w);
  return 0;
}
