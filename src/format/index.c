/* A checkpoint in several safetensors files, with the index that says which tensor lies in which.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"
#include "mutirao/json.h"

enum { INDEX_MAX_BYTES = 100000000, MESSAGE_BYTES = 600 };

/* A plain file name in the same directory: the index comes from outside and must not lead
 * elsewhere. */
static bool name_ok(const char *s, size_t len) {
  return s && len && len < 256 && strlen(s) == len && !strchr(s, '/') && !strstr(s, "..") &&
         strcmp(s, ".");
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct file names of the map, sorted, still owned by it. *out is freed by the caller. */
static int list_shards(const char ***out, size_t *n_out, const mt_json *map, const char *path,
                       mt_err *e) {
  size_t n = 0, kept = 0;
  const char **name = mt_malloc(mt_json_len(map), sizeof *name);
  if (!name) return mt_err_set(e, MT_ENOMEM, "%s: no memory", path);
  for (const mt_json_member *it = mt_json_first(map); it; it = mt_json_next(map, it)) {
    size_t len;
    name[n] = mt_json_string(mt_json_member_value(it), &len);
    if (!name_ok(name[n], len)) {
      int rc = mt_err_set(e, MT_EFORMAT, "%s: weight_map '%.200s' names no plain file: '%.200s'",
                          path, mt_json_member_key(it), name[n] ? name[n] : "(not a string)");
      free(name);
      return rc;
    }
    n++;
  }
  if (n) qsort(name, n, sizeof *name, by_text);
  for (size_t i = 0; i < n; i++)
    if (!i || strcmp(name[i], name[kept - 1])) name[kept++] = name[i];
  *out = name;
  *n_out = kept;
  return MT_OK;
}

/* Refuses with the names of all shards that are not there. */
static int check_present(const char *dir, const char *const *name, size_t n, mt_err *e) {
  mt_buf list = {0}, path = {0};
  size_t missing = 0, shown = 0;
  int rc = MT_OK;
  for (size_t i = 0; i < n && !rc; i++) {
    struct stat st;
    mt_buf_clear(&path);
    rc = mt_buf_printf(&path, "%s/%s", dir, name[i]);
    if (rc || !stat(path.data, &st)) continue;
    missing++;
    if (list.len < MESSAGE_BYTES) rc = mt_buf_printf(&list, "%s%s", shown++ ? ", " : "", name[i]);
  }
  if (!rc && missing > shown) rc = mt_buf_printf(&list, " and %zu more", missing - shown);
  if (rc)
    rc = mt_err_set(e, MT_ENOMEM, "%s: no memory", dir);
  else if (missing)
    rc = mt_err_set(e, MT_EFORMAT, "%s: %zu of %zu files that the index names are missing: %s", dir,
                    missing, n, list.data);
  mt_buf_free(&list);
  mt_buf_free(&path);
  return rc;
}

static int open_shards(mt_weights *w, const char *dir, const char *const *name, size_t n,
                       mt_err *e) {
  mt_buf path = {0};
  int rc = MT_OK, file;
  for (size_t i = 0; i < n && !rc; i++) {
    mt_buf_clear(&path);
    if (mt_buf_printf(&path, "%s/%s", dir, name[i]))
      rc = mt_err_set(e, MT_ENOMEM, "%s: no memory", dir);
    else if (!(rc = mt_format_add_file(w, path.data, &file, e)) &&
             !(rc = mt_safetensors_read_header(w, file, e)))
      rc = mt_safetensors_parse(w, file, e);
  }
  mt_buf_free(&path);
  return rc ? rc : mt_format_seal(w, e);
}

/* Every tensor of the index is in the file that it says, and every tensor of the files is in the
 * index. */
static int check_map(const mt_weights *w, const mt_json *map, const char *path, mt_err *e) {
  for (const mt_json_member *it = mt_json_first(map); it; it = mt_json_next(map, it)) {
    const char *key = mt_json_member_key(it),
               *shard = mt_json_string(mt_json_member_value(it), NULL);
    const mt_tensor_info *t = mt_weights_find(w, key);
    const char *in = t ? strrchr(w->file[t->file].path, '/') + 1 : NULL;
    if (!in || strcmp(in, shard))
      return mt_err_set(e, MT_EFORMAT, "%s: tensor '%.200s' is not in %.255s but %s%.255s", path,
                        key, shard, in ? "in " : "nowhere", in ? in : "");
  }
  for (size_t i = 0; i < w->n_tensors; i++)
    if (!mt_json_get(map, w->tensor[i].name))
      return mt_err_set(e, MT_EFORMAT, "%s: tensor '%.200s' of %.300s is not in the index", path,
                        w->tensor[i].name, w->file[w->tensor[i].file].path);
  return MT_OK;
}

/* The index's text; its bytes count as read. */
static int read_index(mt_weights *w, const char *path, mt_json **out, mt_err *e) {
  mt_buf text = {0};
  int rc = mt_buf_read_file(&text, path, INDEX_MAX_BYTES, e);
  if (!rc) {
    atomic_fetch_add_explicit(&w->bytes_read, text.len, memory_order_relaxed);
    rc = mt_json_parse(out, text.data ? text.data : "", text.len, path, e);
  }
  mt_buf_free(&text);
  return rc;
}

int mt_safetensors_open_sharded(mt_weights *w, const char *dir, const char *index_path, mt_err *e) {
  mt_json *j;
  const char **shard = NULL;
  size_t n = 0;
  int rc = read_index(w, index_path, &j, e);
  if (rc) return rc;
  const mt_json *map = mt_json_get(j, "weight_map");
  if (!mt_json_is(map, MT_JSON_OBJECT) || !mt_json_len(map)) {
    rc = mt_err_set(e, MT_EFORMAT, "%s: no weight_map", index_path);
    goto out;
  }
  if ((rc = list_shards(&shard, &n, map, index_path, e))) goto out;
  if ((rc = check_present(dir, shard, n, e))) goto out;
  if ((rc = open_shards(w, dir, shard, n, e))) goto out;
  rc = check_map(w, map, index_path, e);
out:
  free(shard);
  mt_json_free(j);
  return rc;
}
