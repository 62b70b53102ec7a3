/* What the chat tests share: reading files of the tests, the fixed clock, rendering in one call. */
#ifndef CHAT_TEST_H
#define CHAT_TEST_H

#include <time.h>

#include "mt_test.h"
#include "mutirao/chat.h"

/* 2026-01-15 10:30:00, as in the golden files. */
static const struct tm chat_clock = {
    .tm_year = 126, .tm_mon = 0, .tm_mday = 15, .tm_hour = 10, .tm_min = 30};

static inline mt_json *chat_read_json(const char *path) {
  mt_err e = {0};
  mt_json *j = NULL;
  if (mt_json_read_file(&j, path, 64 << 20, &e)) {
    printf("%s\n", e.msg);
    CU_FAIL_FATAL("cannot read JSON");
  }
  return j;
}

/* The chat templates of the reference data, or NULL (and "skipped") where they are not there. */
static inline const char *chat_reference_dir(void) {
  static char dir[512];
  const char *r = getenv("MT_REFERENCE");
  char path[600];
  if (r)
    snprintf(dir, sizeof dir, "%s/chat_templates", r);
  else
    snprintf(dir, sizeof dir, "%s/../shared/reference/chat_templates", mt_test_root());
  snprintf(path, sizeof path, "%s/cases.json", dir);
  FILE *f = fopen(path, "rb");
  if (f)
    fclose(f);
  else
    printf("skipped: %s is not there\n", path);
  return f ? dir : NULL;
}

static inline mt_chat_template *chat_compile_file(const char *dir, const char *name) {
  char path[700];
  snprintf(path, sizeof path, "%s/%s.jinja", dir, name);
  mt_buf b = {0};
  mt_err e = {0};
  mt_chat_template *t = NULL;
  if (mt_buf_read_file(&b, path, 1 << 20, &e) ||
      mt_chat_template_compile(&t, b.data, b.len, name, &e)) {
    printf("%s\n", e.msg);
    CU_FAIL("compile");
  }
  mt_buf_free(&b);
  return t;
}

/* Compiles and renders `source` with `in` (NULL: nothing). */
static inline int chat_render_source(const char *source, const mt_chat_input *in, mt_text *out,
                                     mt_err *e) {
  static const mt_chat_input nothing = {.local_time = &chat_clock};
  mt_chat_template *t = NULL;
  int rc = mt_chat_template_compile(&t, source, strlen(source), "t", e);
  if (!rc) rc = mt_chat_render(t, in ? in : &nothing, out, e);
  mt_chat_template_free(t);
  return rc;
}

static inline const char *chat_text(const mt_text *t) {
  return t->bytes.data ? t->bytes.data : "";
}

#endif
