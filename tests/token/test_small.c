/* Small tokenizers, one for each feature of tokenizer.json, against what the Hugging Face
 * tokenizers library makes of them (tests/data/tokenizers/small.json, from
 * tests/data/generators/generate_small_tokenizers.py). */
#include "token_test.h"

/* The file holds each model once; a tokenizer names it and gives the options that differ. */
static mt_tokenizer *assemble(const mt_json *models, const mt_json *row) {
  const mt_json *spec = mt_json_get(row, "spec"), *options = mt_json_get(row, "options");
  mt_json *all = mt_json_copy(spec);
  mt_json *model =
      mt_json_copy(mt_json_get(models, mt_json_string(mt_json_get(spec, "model"), NULL)));
  for (const mt_json_member *m = mt_json_first(options); m; m = mt_json_next(options, m))
    mt_json_set(model, mt_json_member_key(m), mt_json_copy(mt_json_member_value(m)));
  mt_json_set(all, "model", model);
  mt_buf text = {0};
  mt_tokenizer *t = NULL;
  mt_err e = {0};
  mt_json_write(all, 0, &text);
  char path[] = "/tmp/mt-small-XXXXXX";
  int fd = mkstemp(path);
  CU_ASSERT_FATAL(fd >= 0 && write(fd, text.data, text.len) == (ssize_t)text.len);
  close(fd);
  if (mt_tokenizer_open_json(&t, path, &e)) printf("%s\n", e.msg);
  unlink(path);
  mt_buf_free(&text);
  mt_json_free(all);
  return t;
}

static void small(void) {
  char path[4096];
  mt_json *j = NULL;
  CU_ASSERT_FATAL(find_data("small.json", path, sizeof path));
  CU_ASSERT_EQUAL_FATAL(mt_json_read_file(&j, path, 1 << 26, NULL), MT_OK);
  const mt_json *list = mt_json_get(j, "tokenizers");
  size_t cases = 0, bad = 0;
  CU_ASSERT(mt_json_len(list) > 80);
  for (size_t i = 0; i < mt_json_len(list); i++) {
    const mt_json *row = mt_json_at(list, i), *c = mt_json_get(row, "cases");
    const char *name = mt_json_string(mt_json_get(row, "name"), NULL);
    mt_tokenizer *t = assemble(mt_json_get(j, "models"), row);
    CU_ASSERT_PTR_NOT_NULL(t);
    for (size_t k = 0; t && k < mt_json_len(c); k++, cases++) {
      if (check_case(t, mt_json_at(c, k))) continue;
      printf("%s: text %zu differs\n", name, k);
      bad++;
    }
    mt_tokenizer_free(t);
  }
  printf("%zu of %zu cases hold\n", cases - bad, cases);
  CU_ASSERT_EQUAL(bad, 0);
  mt_json_free(j);
}

MT_TEST_MAIN("token small", {"every feature", small})
