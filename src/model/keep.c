/* --pack-cache: a rank's packed weights in a file, to be read at the next start instead of being
 * packed again. They are read into memory, not mapped: so they lie on huge pages, near the threads
 * that use them, and what was checked cannot change afterwards. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "load.h"

/* ---- name and key ------------------------------------------------------------------------ */

/* DIR/MODEL-HASH-RANKofRANKS.slice: the hash is that of the model's whole path, so that a model
 * that is replaced meets the slice of the former one, and replaces it. */
static int slice_path(const mt_loader *l, mt_buf *out) {
  const mt_model *m = l->m;
  const char *path = mt_weights_file_name(m->weights, 0);
  char *real = realpath(path, NULL), base[61];
  const char *from = real ? real : path, *slash = strrchr(from, '/');
  uint64_t h = mt_hash64(MT_HASH_INIT, from, strlen(from));
  size_t n = 0;
  for (const char *p = slash ? slash + 1 : from; *p && n + 1 < sizeof base; p++)
    base[n++] = isalnum((unsigned char)*p) || *p == '.' || *p == '-' ? *p : '_';
  base[n] = 0;
  free(real);
  return mt_buf_printf(out, "%s/%s-%016llx-%dof%d%s.slice", m->opt.pack_cache, base,
                       (unsigned long long)h, mt_comm_rank(m->comm), mt_comm_size(m->comm),
                       m->kn->exact ? "" : "-inexact");
}

/* Everything that the bytes of a matrix depend on besides the file's and the layout of its type. */
static uint64_t hash_part(const mt_loader *l, uint64_t h, const mt_load_part *p) {
  const mt_matrix *m = p->m;
  const uint64_t v[] = {m->type,        m->rows,
                        m->cols,        m->k_begin,
                        m->panel_bytes, (uint64_t)p->t->file,
                        p->t->offset,   p->row,
                        p->permute,     (uint64_t)(m->data - (uint8_t *)l->m->data)};
  h = mt_hash64(h, v, sizeof v);
  return mt_hash64(h, m->unit, (m->n_units + 1) * sizeof *m->unit);
}

/* The version stands for the code that puts rows in their places, which no other hash knows of. */
static int make_key(const mt_loader *l, mt_slice_key *key, mt_err *e) {
  bool has[MT_DTYPE_COUNT] = {false};
  uint64_t h = mt_hash64(MT_HASH_INIT, MT_VERSION, sizeof MT_VERSION), layout;
  for (size_t g = 0; g < l->n_groups; g++)
    for (int i = 0; i < l->group[g].n; i++) {
      h = hash_part(l, h, &l->group[g].part[i]);
      has[l->group[g].part[i].m->type] = true;
    }
  for (int type = 0; type < MT_DTYPE_COUNT; type++) {
    layout = has[type] ? mt_matrix_layout_hash(l->m->kn, (mt_dtype)type) : 0;
    h = mt_hash64(h, &layout, sizeof layout);
  }
  *key = (mt_slice_key){.layout = h,
                        .rank = (uint64_t)mt_comm_rank(l->m->comm),
                        .n_ranks = (uint64_t)mt_comm_size(l->m->comm)};
  return mt_slice_set_source(key, l->m->weights, e);
}

/* ---- chunks and threads ------------------------------------------------------------------ */

/* A round ends after so long: a rank that waits for another's file learns that it goes on, and its
 * watchdog, which knows rounds only, takes for a hang what is one. */
enum { ROUND_NS = 100 * 1000000 };

typedef struct keep_job {
  mt_loader *l;
  mt_slice *file;
  bool write;
  size_t *done;      /* [threads] chunks of its shares, in all rounds */
  uint64_t until_ns; /* this round */
  _Atomic bool left; /* chunks for another round */
} keep_job;

/* Byte of m->data at which a thread's share of a group begins, as columns_thread (load_columns.c)
 * deals panels. */
static size_t share_begin(const mt_loader *l, size_t g, int thread, int n_threads) {
  if (g == l->n_groups) return l->m->data_bytes;
  const mt_load_group *group = &l->group[g];
  size_t panels = 0, begin, end;
  for (int i = 0; i < group->n; i++) panels += group->part[i].m->n_panels;
  mt_team_share(panels, thread, n_threads, &begin, &end);
  int i = 0;
  for (; i + 1 < group->n && begin >= group->part[i].m->n_panels; i++)
    begin -= group->part[i].m->n_panels;
  const mt_matrix *m = group->part[i].m;
  return (size_t)(m->data - (uint8_t *)l->m->data) + begin * m->panel_bytes;
}

static size_t chunk_from(size_t byte) {
  return byte / MT_SLICE_CHUNK + (byte % MT_SLICE_CHUNK != 0);
}

static void keep_chunk(const keep_job *j, size_t c) {
  uint8_t *at = (uint8_t *)j->l->m->data + c * MT_SLICE_CHUNK;
  mt_err e = {0};
  int rc = j->write ? mt_slice_write(j->file, c, at, &e) : mt_slice_read(j->file, c, at, &e);
  if (rc) mt_loader_fail(j->l, -1, rc, &e);
  if (!j->write) mt_loader_advance(j->l, MT_SLICE_CHUNK);
}

/* A thread takes the chunks that begin in its shares: it first touches, but for the borders, what
 * it will read. At least one in each round. */
static void keep_thread(void *arg, int thread, int n_threads) {
  keep_job *j = arg;
  size_t passed = 0, before = j->done[thread];
  for (size_t g = 0; g < j->l->n_groups; g++) {
    size_t c = chunk_from(share_begin(j->l, g, thread, n_threads));
    size_t end = thread + 1 < n_threads ? share_begin(j->l, g, thread + 1, n_threads)
                                        : share_begin(j->l, g + 1, 0, n_threads);
    for (; c < chunk_from(end) && !atomic_load(&j->l->failed); c++) {
      if (passed++ < j->done[thread]) continue;
      if (j->done[thread] > before && mt_clock_ns() > j->until_ns) {
        atomic_store(&j->left, true);
        return;
      }
      keep_chunk(j, c);
      j->done[thread]++;
    }
  }
}

/* All chunks of this rank's file (NULL: it has none, or none any more, to read or write), round by
 * round. *rc is what became of it; the result, whether the ranks still are together. Collective. */
static int run(mt_loader *l, mt_slice *file, bool write, int *rc, mt_err *e) {
  mt_err agreed;
  int all;
  keep_job j = {.l = l, .file = *rc ? NULL : file, .write = write};
  j.done = mt_calloc((size_t)mt_team_size(l->m->team), sizeof *j.done);
  if (j.file && !j.done) {
    *rc = mt_err_set(e, MT_ENOMEM, "no memory for a kept slice");
    j.file = NULL;
  }
  do {
    atomic_store(&j.left, false);
    agreed = (mt_err){0};
    j.until_ns = mt_clock_ns() + ROUND_NS;
    if (j.file) mt_team_run(l->m->team, keep_thread, &j);
    if (j.file && (*rc = mt_loader_outcome(l, e))) j.file = NULL;
    all = mt_comm_agree(l->m->comm, j.file && atomic_load(&j.left) ? MT_ECANCELED : MT_OK, &agreed);
  } while (all == MT_ECANCELED);
  free(j.done);
  atomic_store(&l->failed, 0); /* nobody's failure but the file's */
  if (all && e) *e = agreed;
  return all;
}

/* ---- reading and writing ----------------------------------------------------------------- */

int mt_keep_read(mt_loader *l, bool *found, mt_err *e) {
  mt_model *m = l->m;
  mt_buf path = {0};
  mt_slice *file = NULL;
  mt_err own = {0};
  int rc = MT_OK;
  if (m->opt.pack_cache) {
    rc = slice_path(l, &path);
    if (!rc) rc = make_key(l, &l->key, &own);
    if (!rc) rc = mt_slice_open(&file, path.data, &l->key, m->data_bytes, &own);
  }
  if (!rc && file) mt_loader_restart(l, m->data_bytes);
  int all = run(l, file, false, &rc, &own);
  if (rc && file) mt_pages_clear(m->data, m->data_bytes);
  *found = !rc && !all && file;
  if (rc) mt_log(MT_LOG_WARN, "%s; the weights are packed anew", own.msg);
  if (*found) mt_log(MT_LOG_INFO, "packed weights from %s", path.data);
  if (all && e) *e = own;
  mt_slice_close(file);
  mt_buf_free(&path);
  return all;
}

static bool same_source(const mt_slice_key *a, const mt_slice_key *b) {
  return a->source_bytes == b->source_bytes && a->source_time_ns == b->source_time_ns &&
         a->source_hash == b->source_hash;
}

/* The file of the key, begun; NULL where another process writes it. What was packed may be neither
 * the model as it was nor as it is, if that changed meanwhile. */
static int begin_file(const mt_loader *l, mt_buf *path, mt_slice **file, mt_err *e) {
  mt_slice_key key;
  if (mkdir(l->m->opt.pack_cache, 0777) && errno != EEXIST)
    return mt_err_set(e, MT_ESYSTEM, "%s: %s", l->m->opt.pack_cache, strerror(errno));
  int rc = slice_path(l, path);
  if (!rc) rc = make_key(l, &key, e);
  if (!rc && !same_source(&key, &l->key))
    rc = mt_err_set(e, MT_EFORMAT, "the model was modified while it was read");
  return rc ? rc : mt_slice_create(file, path->data, &key, l->m->data_bytes, e);
}

int mt_keep_write(mt_loader *l, bool wanted, mt_err *e) {
  mt_buf path = {0};
  mt_slice *file = NULL;
  mt_err own = {0};
  int rc = wanted ? begin_file(l, &path, &file, &own) : MT_OK;
  int all = run(l, file, true, &rc, &own);
  if (!rc && !all && file) rc = mt_slice_finish(file, &own);
  if (rc)
    mt_log(MT_LOG_WARN, "the packed weights are not kept: %s", own.msg);
  else if (wanted && !all)
    mt_log(MT_LOG_INFO, file ? "packed weights kept in %s" : "%s is being written by another",
           path.data);
  if (all && e) *e = own;
  mt_slice_close(file);
  mt_buf_free(&path);
  return all;
}
