/* Rotary embeddings: what config.json and GGUF say of them, and the frequencies that follow.
 * Frequencies are computed with the roundings of transformers' float32 code (modeling_rope_utils),
 * so that long positions agree with it. */
#include <stdio.h>
#include <string.h>

#include "model_impl.h"

static const struct {
  const char *name;
  mt_rope_kind kind;
} kinds[] = {{"default", MT_ROPE_DEFAULT}, {"linear", MT_ROPE_LINEAR},
             {"dynamic", MT_ROPE_DYNAMIC}, {"llama3", MT_ROPE_LLAMA3},
             {"yarn", MT_ROPE_YARN},       {"longrope", MT_ROPE_LONGROPE},
             {"su", MT_ROPE_LONGROPE},     {"none", MT_ROPE_DEFAULT}};

static bool kind_by_name(const char *s, mt_rope_kind *out) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (!strcmp(kinds[i].name, s)) {
      *out = kinds[i].kind;
      return true;
    }
  return false;
}

static int divisors(const mt_json *list, const char *key, uint32_t n, float **out, mt_err *e) {
  if (mt_json_len(list) != n)
    return mt_err_set(e, MT_EFORMAT, "config.json: %s has %zu entries, %u are needed", key,
                      mt_json_len(list), n);
  *out = mt_malloc(n, sizeof **out);
  if (!*out) return mt_err_set(e, MT_ENOMEM, "no memory for %s", key);
  for (uint32_t i = 0; i < n; i++) {
    double d;
    if (!mt_json_number(mt_json_at(list, i), &d) || !(d > 0))
      return mt_err_set(e, MT_EFORMAT, "config.json: %s[%u] is not a positive number", key, i);
    (*out)[i] = (float)d;
  }
  return MT_OK;
}

static int check_rope(const mt_rope_params *p, mt_err *e) {
  if (!(p->theta > 1 && p->theta < 1e15))
    return mt_err_set(e, MT_EFORMAT, "rope theta is %g", p->theta);
  if (!(p->factor >= 1 && p->factor < 1e6))
    return mt_err_set(e, MT_EFORMAT, "rope factor is %g", p->factor);
  if (!(p->original_context >= 1 && p->original_context < 1e9))
    return mt_err_set(e, MT_EFORMAT, "rope original context is %g", p->original_context);
  if (p->kind == MT_ROPE_LLAMA3 &&
      !(p->low_freq_factor > 0 && p->high_freq_factor > p->low_freq_factor))
    return mt_err_set(e, MT_EFORMAT, "rope llama3: low_freq_factor %g, high_freq_factor %g",
                      p->low_freq_factor, p->high_freq_factor);
  return MT_OK;
}

/* YaRN's attention factor where mscale and mscale_all_dim are both given (DeepSeek's spelling). */
static double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * mt_log64(factor) + 1.0;
}

/* max_position_embeddings is the length before the stretch for dynamic scaling, and for yarn where
 * it was switched on afterwards (Qwen 2.5's model card); without this a prompt long enough to need
 * the scaling would be refused. */
static void stretch_context(mt_model_config *cfg, mt_rope_params *p) {
  if (p->kind == MT_ROPE_DYNAMIC) p->original_context = cfg->context;
  if (p->kind != MT_ROPE_DYNAMIC && p->kind != MT_ROPE_YARN) return;
  double stretched = p->factor * p->original_context;
  if (stretched > cfg->context && stretched <= 1u << 30) cfg->context = (uint32_t)stretched;
}

int mt_config_rope(mt_model_config *cfg, int r, const mt_json *j, const mt_json *params,
                   mt_err *e) {
  mt_rope_params *p = &cfg->rope[r];
  const mt_json *s = params ? params : mt_json_get(j, "rope_scaling");
  if (mt_json_is(s, MT_JSON_NULL)) s = NULL;
  *p = (mt_rope_params){.theta = 10000,
                        .factor = 1,
                        .low_freq_factor = 1,
                        .high_freq_factor = 4,
                        .beta_fast = 32,
                        .beta_slow = 1,
                        .truncate = true};
  p->original_context = cfg->context;
  int rc = mt_config_number(j, "rope_theta", &p->theta, e);
  if (!rc) rc = mt_config_number(s, "rope_theta", &p->theta, e);
  if (rc || !s) return rc ? rc : check_rope(p, e);
  const char *type = mt_json_string(mt_json_get(s, "rope_type"), NULL);
  if (!type) type = mt_json_string(mt_json_get(s, "type"), NULL);
  if (type && !kind_by_name(type, &p->kind))
    return mt_err_set(e, MT_EUNSUPPORTED, "config.json: rope type %s is not supported", type);
  if (!type && !params)
    return mt_err_set(e, MT_EFORMAT, "config.json: rope_scaling names no rope_type");
  double mscale = 0, mscale_all = 0;
  rc = mt_config_number(s, "factor", &p->factor, e);
  /* Phi-3 says it beside the table; where both are there, transformers takes that one. */
  if (!rc) rc = mt_config_number(s, "original_max_position_embeddings", &p->original_context, e);
  if (!rc) rc = mt_config_number(j, "original_max_position_embeddings", &p->original_context, e);
  if (!rc) rc = mt_config_number(s, "low_freq_factor", &p->low_freq_factor, e);
  if (!rc) rc = mt_config_number(s, "high_freq_factor", &p->high_freq_factor, e);
  if (!rc) rc = mt_config_number(s, "beta_fast", &p->beta_fast, e);
  if (!rc) rc = mt_config_number(s, "beta_slow", &p->beta_slow, e);
  if (!rc) rc = mt_config_number(s, "attention_factor", &p->attention_factor, e);
  if (!rc) rc = mt_config_number(s, "mscale", &mscale, e);
  if (!rc) rc = mt_config_number(s, "mscale_all_dim", &mscale_all, e);
  if (!rc) rc = mt_config_bool(s, "truncate", &p->truncate, e);
  if (!rc && p->kind == MT_ROPE_YARN && !p->attention_factor && mscale && mscale_all)
    p->attention_factor = yarn_mscale(p->factor, mscale) / yarn_mscale(p->factor, mscale_all);
  if (!rc && p->kind == MT_ROPE_LONGROPE) {
    rc = divisors(mt_json_get(s, "short_factor"), "short_factor", cfg->rotary_dim / 2,
                  &p->divisor_short, e);
    if (!rc)
      rc = divisors(mt_json_get(s, "long_factor"), "long_factor", cfg->rotary_dim / 2,
                    &p->divisor_long, e);
    if (!rc && p->original_context > 0 && p->factor == 1)
      p->factor = cfg->context / p->original_context;
  }
  if (!rc) rc = check_rope(p, e);
  if (!rc) stretch_context(cfg, p);
  return rc;
}

/* One row of f32 divisors stored as a tensor. */
static int divisor_tensor(const mt_weights *w, const char *name, uint32_t n, float **out,
                          bool *found, mt_err *e) {
  const mt_tensor_info *t = mt_weights_find(w, name);
  *found = t != NULL;
  if (!t) return MT_OK;
  if (t->type != MT_F32 || t->shape.n != 1 || t->shape.dim[0] != n)
    return mt_err_set(e, MT_EFORMAT, "%s: %s is not %u f32 values", mt_weights_file_name(w, 0),
                      name, n);
  *out = mt_malloc(n, sizeof **out);
  if (!*out) return mt_err_set(e, MT_ENOMEM, "no memory for %s", name);
  /* The counter of bytes read is not part of what a const reader promises. */
  int rc = mt_weights_read((mt_weights *)(uintptr_t)w, t, 0, n * sizeof **out, *out, e);
  for (uint32_t i = 0; !rc && i < n; i++)
    if (!((*out)[i] > 0))
      rc = mt_err_set(e, MT_EFORMAT, "%s: %s[%u] is not positive", mt_weights_file_name(w, 0), name,
                      i);
  return rc;
}

int mt_config_rope_gguf(mt_model_config *cfg, const mt_weights *w, const char *arch, mt_err *e) {
  mt_rope_params *p = &cfg->rope[0];
  *p = (mt_rope_params){
      .theta = 10000, .factor = 1, .beta_fast = 32, .beta_slow = 1, .truncate = true};
  p->original_context = cfg->context;
  char key[128];
  snprintf(key, sizeof key, "%s.rope.freq_base", arch);
  (void)mt_gguf_number(w, key, &p->theta);
  snprintf(key, sizeof key, "%s.rope.scaling.factor", arch);
  bool has_factor = mt_gguf_number(w, key, &p->factor);
  snprintf(key, sizeof key, "%s.rope.scale_linear", arch); /* the older spelling */
  if (!has_factor && mt_gguf_number(w, key, &p->factor))
    p->kind = p->factor != 1 ? MT_ROPE_LINEAR : MT_ROPE_DEFAULT;
  snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", arch);
  (void)mt_gguf_number(w, key, &p->original_context);
  snprintf(key, sizeof key, "%s.rope.scaling.yarn_beta_fast", arch);
  (void)mt_gguf_number(w, key, &p->beta_fast);
  snprintf(key, sizeof key, "%s.rope.scaling.yarn_beta_slow", arch);
  (void)mt_gguf_number(w, key, &p->beta_slow);
  snprintf(key, sizeof key, "%s.rope.scaling.attn_factor", arch);
  (void)mt_gguf_number(w, key, &p->attention_factor);
  snprintf(key, sizeof key, "%s.rope.scaling.type", arch);
  mt_bytes type;
  if (mt_gguf_string(w, key, &type) && !kind_by_name(type.ptr, &p->kind))
    return mt_err_set(e, MT_EUNSUPPORTED, "%s: rope type %s is not supported",
                      mt_weights_file_name(w, 0), type.ptr);
  /* llama.cpp multiplies it with YaRN's own factor, which config.json's replaces. */
  if (p->kind == MT_ROPE_YARN && p->attention_factor > 0)
    p->attention_factor *= yarn_mscale(p->factor, 1);
  bool has_long, has_short, has_divisors;
  uint32_t n = cfg->rotary_dim / 2;
  int rc = divisor_tensor(w, "rope_factors_long.weight", n, &p->divisor_long, &has_long, e);
  if (!rc) rc = divisor_tensor(w, "rope_factors_short.weight", n, &p->divisor_short, &has_short, e);
  if (rc) return rc;
  if (has_long != has_short)
    return mt_err_set(e, MT_EFORMAT,
                      "%s: only one of rope_factors_long and rope_factors_short is there",
                      mt_weights_file_name(w, 0));
  if (has_long) {
    p->kind = MT_ROPE_LONGROPE;
    if (p->factor == 1 && p->original_context > 0) p->factor = cfg->context / p->original_context;
    return check_rope(p, e);
  }
  if (p->kind == MT_ROPE_LONGROPE)
    return mt_err_set(e, MT_EFORMAT, "%s: longrope without its factors",
                      mt_weights_file_name(w, 0));
  rc = divisor_tensor(w, "rope_freqs.weight", n, &p->divisor_short, &has_divisors, e);
  if (!rc && has_divisors) p->kind = MT_ROPE_DIVISORS;
  return rc ? rc : check_rope(p, e);
}

/* ---- frequencies ------------------------------------------------------------------------- */

static const double PI = 3.14159265358979323846;

/* 1 / base^(2i/dim), rounded at each step as a float32 program does. */
static void base_frequencies(double base, uint32_t dim, float *inv_freq) {
  for (uint32_t i = 0; i < dim / 2; i++) {
    float exponent = (float)(2 * i) / (float)dim;
    inv_freq[i] = 1.0f / (float)mt_pow64(base, (double)exponent);
  }
}

/* Llama 3.1: wavelengths above original/low are stretched by factor, below original/high kept,
 * between blended. */
static void llama3_frequencies(const mt_rope_params *p, uint32_t n, float *inv_freq) {
  double low_wavelen = p->original_context / p->low_freq_factor,
         high_wavelen = p->original_context / p->high_freq_factor;
  for (uint32_t i = 0; i < n; i++) {
    float wavelen = (float)(2 * PI) / inv_freq[i];
    if ((double)wavelen < high_wavelen) continue;
    float stretched = inv_freq[i] / (float)p->factor;
    if ((double)wavelen > low_wavelen) {
      inv_freq[i] = stretched;
      continue;
    }
    float smooth = ((float)p->original_context / wavelen - (float)p->low_freq_factor) /
                   (float)(p->high_freq_factor - p->low_freq_factor);
    inv_freq[i] = (1.0f - smooth) * stretched + smooth * inv_freq[i];
  }
}

/* Dimension whose wave turns `rotations` times within the original context. */
static double yarn_dimension(const mt_rope_params *p, uint32_t dim, double rotations) {
  return dim * mt_log64(p->original_context / (rotations * 2 * PI)) / (2 * mt_log64(p->theta));
}

static double floor64(double x) {
  double t = (double)(int64_t)x;
  return t > x ? t - 1 : t;
}

static void yarn_frequencies(const mt_rope_params *p, uint32_t dim, float *inv_freq) {
  double low = yarn_dimension(p, dim, p->beta_fast), high = yarn_dimension(p, dim, p->beta_slow);
  if (p->truncate) {
    low = floor64(low);
    high = -floor64(-high);
  }
  if (low < 0) low = 0;
  if (high > dim - 1) high = dim - 1;
  if (low == high) high += 0.001;
  for (uint32_t i = 0; i < dim / 2; i++) {
    float ramp = (float)((i - low) / (high - low));
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    float keep = 1.0f - ramp;
    inv_freq[i] = inv_freq[i] / (float)p->factor * (1.0f - keep) + inv_freq[i] * keep;
  }
}

/* Positions beyond the original context enlarge the base (HF's dynamic NTK). */
static double dynamic_base(const mt_rope_params *p, uint32_t dim, double tokens) {
  if (tokens <= p->original_context) return p->theta;
  double grow = p->factor * tokens / p->original_context - (p->factor - 1);
  return p->theta * mt_pow64(grow, (double)dim / ((double)dim - 2));
}

static double attention_factor_of(const mt_rope_params *p) {
  if (p->attention_factor > 0) return p->attention_factor;
  if (p->kind == MT_ROPE_YARN) return yarn_mscale(p->factor, 1);
  if (p->kind == MT_ROPE_LONGROPE && p->factor > 1)
    return __builtin_sqrt(1.0 + mt_log64(p->factor) / mt_log64(p->original_context));
  return 1;
}

void mt_model_rope_frequencies(const mt_model_config *cfg, int r, uint32_t planned_tokens,
                               float *inv_freq, float *attention_factor) {
  const mt_rope_params *p = &cfg->rope[r];
  uint32_t dim = cfg->rotary_dim, n = dim / 2;
  double base =
      p->kind == MT_ROPE_DYNAMIC && dim > 2 ? dynamic_base(p, dim, planned_tokens) : p->theta;
  base_frequencies(base, dim, inv_freq);
  const float *divisor = p->divisor_short;
  if (p->kind == MT_ROPE_LONGROPE && planned_tokens > p->original_context)
    divisor = p->divisor_long;
  switch (p->kind) {
    case MT_ROPE_LINEAR:
      for (uint32_t i = 0; i < n; i++) inv_freq[i] = inv_freq[i] / (float)p->factor;
      break;
    case MT_ROPE_LLAMA3: llama3_frequencies(p, n, inv_freq); break;
    case MT_ROPE_YARN: yarn_frequencies(p, dim, inv_freq); break;
    case MT_ROPE_LONGROPE: /* the divisors multiply the power before the division, as transformers
                              rounds it */
      for (uint32_t i = 0; i < n; i++) {
        float exponent = (float)(2 * i) / (float)dim;
        inv_freq[i] = 1.0f / (divisor[i] * (float)mt_pow64(base, (double)exponent));
      }
      break;
    case MT_ROPE_DIVISORS:
      for (uint32_t i = 0; i < n; i++) inv_freq[i] = inv_freq[i] / divisor[i];
      break;
    case MT_ROPE_DEFAULT:
    case MT_ROPE_DYNAMIC: break;
  }
  *attention_factor = (float)attention_factor_of(p);
}

bool mt_model_rope_depends_on_length(const mt_model_config *cfg) {
  for (int r = 0; r < cfg->n_ropes; r++)
    if (cfg->rope[r].kind == MT_ROPE_DYNAMIC || cfg->rope[r].kind == MT_ROPE_LONGROPE) return true;
  return false;
}
