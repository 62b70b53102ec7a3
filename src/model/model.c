/* A model on this rank: configuration shared from rank 0, memory checked, slices laid out and
 * loaded. */
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

/* Rank 0 opens the model; the others get the bytes of its headers and of config.json. Collective.
 */
static int share_config(mt_model *m, const char *path, mt_err *e) {
  bool root = mt_comm_rank(m->comm) == 0;
  mt_buf block = {0}, text = {0}, name = {0};
  int rc = MT_OK;
  if (root) {
    rc = mt_model_open(path, &m->weights, &m->cfg, e);
    if (!rc) rc = mt_weights_export(m->weights, &block, e);
    if (!rc && m->cfg.source == MT_WEIGHTS_SAFETENSORS) {
      rc = mt_buf_printf(&name, "%s/config.json", path);
      if (!rc) rc = mt_buf_read_file(&text, name.data, 4 << 20, e);
    }
  }
  rc = mt_comm_agree(m->comm, rc, e);
  if (!rc) rc = mt_comm_bcast_buf(m->comm, &block, 0, e);
  if (!rc) rc = mt_comm_bcast_buf(m->comm, &text, 0, e);
  if (!rc && !root) {
    rc = mt_weights_import(&m->weights, block.data, block.len, e);
    if (!rc)
      rc = mt_model_config_read(&m->cfg, m->weights, text.data ? text.data : "", text.len, e);
  }
  rc = mt_comm_agree(m->comm, rc, e);
  mt_buf_free(&block);
  mt_buf_free(&text);
  mt_buf_free(&name);
  return rc;
}

/* Hosts may hold different copies of a file under one name: a few pages of it, spread over the
 * tensors, must hash alike on all ranks. Collective. */
static int check_same_file(mt_model *m, mt_err *e) {
  enum { PAGES = 8, PAGE = 4096 };
  char page[PAGE];
  uint64_t h = MT_HASH_INIT, first;
  size_t n = mt_weights_count(m->weights);
  int rc = MT_OK;
  for (size_t i = 0; !rc && i < PAGES; i++) {
    const mt_tensor_info *t = mt_weights_at(m->weights, i * (n - 1) / (PAGES - 1));
    size_t bytes = t->bytes < PAGE ? t->bytes : PAGE;
    rc = mt_weights_read(m->weights, t, t->bytes - bytes, bytes, page, e);
    if (!rc) h = mt_hash64(h, page, bytes);
  }
  first = h;
  rc = mt_comm_agree(m->comm, rc, e);
  if (!rc) rc = mt_comm_bcast(m->comm, &first, sizeof first, 0, e);
  if (!rc && first != h)
    rc = mt_err_set(e, MT_EFORMAT, "%s: the copy here is not that of rank 0",
                    mt_weights_file_name(m->weights, 0));
  return mt_comm_agree(m->comm, rc, e);
}

/* The sizes that every rank must share come from rank 0; kernels and the memory limit stay each
 * rank's own. */
static int share_options(mt_model *m, mt_err *e) {
  uint64_t v[7] = {m->opt.kv_type,         m->opt.kv_tokens,     m->opt.max_seqs,
                   m->opt.max_rows,        m->opt.reduce_inside, m->opt.reduce_between,
                   m->opt.int8_activations};
  int rc = mt_comm_bcast(m->comm, v, sizeof v, 0, e);
  m->opt.kv_type = (mt_kv_type)v[0];
  m->opt.kv_tokens = v[1];
  m->opt.max_seqs = v[2];
  m->opt.max_rows = v[3];
  m->opt.reduce_inside = (mt_reduce_inside)v[4];
  m->opt.reduce_between = (mt_reduce_between)v[5];
  m->opt.int8_activations = v[6];
  return rc;
}

static int check_memory(const mt_model *m, mt_err *e) {
  mt_model_memory p;
  int rc = mt_model_predict(&m->cfg, m->weights, (uint32_t)mt_comm_size(m->comm),
                            (uint32_t)mt_comm_rank(m->comm), &m->opt, &p, e);
  if (rc || !m->opt.max_memory_bytes || p.total <= m->opt.max_memory_bytes) return rc;
  uint64_t rest = p.total - p.kv, limit = m->opt.max_memory_bytes, fits = 0;
  if (limit > rest && p.kv_per_token)
    fits = (limit - rest) / (p.kv_per_token * MT_KV_BLOCK) * MT_KV_BLOCK;
  const double MiB = 1024.0 * 1024.0;
  if (fits)
    return mt_err_set(
        e, MT_ENOMEM,
        "the model needs %.1f MiB here (%.1f MiB of weights, %.1f MiB of KV cache for %zu tokens), "
        "%.1f MiB are allowed; --ctx %llu fits",
        (double)p.total / MiB, (double)p.weights / MiB, (double)p.kv / MiB, m->opt.kv_tokens,
        (double)limit / MiB, (unsigned long long)fits);
  return mt_err_set(e, MT_ENOMEM,
                    "the model needs %.1f MiB here (%.1f MiB of weights), %.1f MiB are allowed; no "
                    "context fits: use "
                    "more ranks on more nodes",
                    (double)p.total / MiB, (double)p.weights / MiB, (double)limit / MiB);
}

size_t mt_round64(size_t n) {
  return (n + 63) / 64 * 64;
}

/* The next 64-byte aligned place in the mapping. */
static void place(mt_model *m, mt_matrix *mat, size_t *at) {
  mat->data = (uint8_t *)m->data + *at;
  *at += mt_round64(mat->data_bytes);
}

static int lay_out(mt_model *m, mt_err *e) {
  m->layer = mt_calloc(m->cfg.n_layers, sizeof *m->layer);
  if (!m->layer) return mt_err_set(e, MT_ENOMEM, "no memory for %u layers", m->cfg.n_layers);
  int rc = mt_plan_vocab(&m->cfg, m->weights, &m->shard, m->kn, &m->embed, &m->head, e);
  size_t bytes = mt_round64(m->embed.data_bytes) + mt_round64(m->head.data_bytes);
  for (uint32_t l = 0; !rc && l < m->cfg.n_layers; l++) {
    rc = mt_plan_layer(&m->cfg, m->weights, &m->shard, m->kn, l, &m->layer[l], e);
    for (int i = 0; i < MT_LAYER_MATRICES; i++)
      bytes += mt_round64(mt_layer_matrix(&m->layer[l], i)->data_bytes);
  }
  if (rc) return rc;
  m->data_bytes = bytes;
  m->data = mt_pages_alloc(bytes);
  if (!m->data) return mt_err_set(e, MT_ENOMEM, "no memory for %zu bytes of weights", bytes);
  size_t at = 0;
  place(m, &m->embed, &at);
  if (!m->cfg.tied) place(m, &m->head, &at);
  for (uint32_t l = 0; l < m->cfg.n_layers; l++)
    for (int i = 0; i < MT_LAYER_MATRICES; i++) place(m, mt_layer_matrix(&m->layer[l], i), &at);
  return MT_OK;
}

static int make_cache(mt_model *m, mt_err *e) {
  mt_kv_dims d = {m->cfg.n_layers, m->shard.kv_heads.end - m->shard.kv_heads.begin, m->cfg.head_dim,
                  m->opt.kv_type};
  return mt_kv_new(&m->kv, &d, (m->opt.kv_tokens + MT_KV_BLOCK - 1) / MT_KV_BLOCK, m->opt.max_seqs,
                   e);
}

int mt_model_load(mt_model **out, mt_comm *c, mt_team *team, const char *path,
                  const mt_model_options *opt, mt_err *e) {
  *out = NULL;
  mt_model *m = mt_calloc(1, sizeof *m);
  int rc = m ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for a model");
  if ((rc = mt_comm_agree(c, rc, e))) goto out;
  m->comm = c;
  m->team = team;
  m->opt = *opt;
  m->kn = opt->kernels;
  m->opt.groups = mt_comm_groups(c);
  m->opt.leads = mt_comm_group_rank(c) == 0;
  if ((rc = share_config(m, path, e)) || (rc = share_options(m, e))) goto out;
  if (mt_comm_size(c) > 1 && (rc = check_same_file(m, e))) goto out;
  m->dims = mt_model_shard_dims(&m->cfg);
  rc = mt_shard_plan(&m->dims, (uint32_t)mt_comm_size(c), (uint32_t)mt_comm_rank(c), &m->shard, e);
  if (!rc) rc = check_memory(m, e);
  if ((rc = mt_comm_agree(c, rc, e))) goto out;
  rc = lay_out(m, e);
  if (!rc) rc = make_cache(m, e);
  if ((rc = mt_comm_agree(c, rc, e))) goto out;
  if ((rc = mt_load_weights(m, e))) goto out;
  const mt_reduce_options sums = {team, m->kn, m->opt.reduce_inside, m->opt.reduce_between};
  if ((rc = mt_reduce_new(&m->reduce, c, &sums, m->opt.max_rows, m->cfg.hidden, e))) goto out;
  rc = mt_comm_agree(c, mt_buffers_new(m, e), e);
out:
  if (rc)
    mt_model_free(m);
  else
    *out = m;
  return rc;
}

void mt_model_free(mt_model *m) {
  if (!m) return;
  mt_buffers_free(m);
  mt_reduce_free(m->reduce);
  mt_kv_free(m->kv);
  for (uint32_t l = 0; m->layer && l < m->cfg.n_layers; l++) mt_plan_layer_fini(&m->layer[l]);
  free(m->layer);
  mt_matrix_fini(&m->embed);
  mt_matrix_fini(&m->head);
  free(m->vectors);
  mt_pages_free(m->data, m->data_bytes);
  mt_weights_close(m->weights);
  mt_model_config_free(&m->cfg);
  free(m);
}

const mt_model_config *mt_model_get_config(const mt_model *m) {
  return &m->cfg;
}
const mt_model_options *mt_model_get_options(const mt_model *m) {
  return &m->opt;
}
const mt_weights *mt_model_get_weights(const mt_model *m) {
  return m->weights;
}
mt_comm *mt_model_get_comm(const mt_model *m) {
  return m->comm;
}
mt_kv *mt_model_get_kv(const mt_model *m) {
  return m->kv;
}
mt_model_stats mt_model_get_stats(const mt_model *m) {
  return m->stats;
}
void mt_model_reset_stats(mt_model *m) {
  m->stats = (mt_model_stats){0};
}
uint64_t mt_model_file_bytes_read(const mt_model *m) {
  return mt_weights_bytes_read(m->weights);
}

uint64_t mt_model_weight_bytes(const mt_model *m) {
  uint64_t n = m->cfg.tied ? m->embed.data_bytes : m->head.data_bytes;
  for (uint32_t l = 0; l < m->cfg.n_layers; l++)
    for (int i = 0; i < MT_LAYER_MATRICES; i++) n += mt_layer_matrix(&m->layer[l], i)->data_bytes;
  return n;
}
