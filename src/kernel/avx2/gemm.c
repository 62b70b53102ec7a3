/* AVX2 matrix products. A tile is one panel (16 rows of the weight, two vectors) by up to TILE
 * input rows, which share the loaded and unpacked weights. One function per weight type, from
 * one template: the chain kernels differ. */
#include "avx2.h"

enum { TILE = 4, LANES = 8 };

/* What a tile works on. */
typedef struct job {
  const mt_matrix *m;
  size_t panel;
  const uint8_t *data; /* of the panel */
  const mt_act *a;
  size_t row; /* first input row */
  const int *exp;
  int64_t *acc; /* NULL: out */
  float *out;
  size_t ld;
} job;

/* One chain, borders [i0, i1) in K or blocks, of n input rows; n is a constant after inlining. */
typedef void chain_fn(const job *j, size_t i0, size_t i1, size_t n, __m256 acc[TILE][2]);

/* ---- plain types ------------------------------------------------------------------------- */

MT_INLINE __m256 load_plain(mt_dtype type, const uint8_t *data, size_t i) {
  if (type == MT_F32) return _mm256_load_ps((const float *)(const void *)data + i);
  __m128i h = _mm_load_si128((const __m128i *)(const void *)(data + 2 * i));
  if (type == MT_F16) return _mm256_cvtph_ps(h);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

MT_INLINE void chain_plain(mt_dtype type, const job *j, size_t i0, size_t i1, size_t n,
                           __m256 acc[TILE][2]) {
  const float *x = j->a->x + j->row * j->a->ld_x;
  size_t ld = j->a->ld_x;
  for (size_t k = i0; k < i1; k++) {
    __m256 w0 = load_plain(type, j->data, k * MT_PANEL_ROWS);
    __m256 w1 = load_plain(type, j->data, k * MT_PANEL_ROWS + LANES);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      __m256 b = _mm256_broadcast_ss(x + t * ld + k);
      acc[t][0] = _mm256_fmadd_ps(w0, b, acc[t][0]);
      acc[t][1] = _mm256_fmadd_ps(w1, b, acc[t][1]);
    }
  }
}

/* ---- quantized types --------------------------------------------------------------------- */

MT_INLINE __m256 load_f16_half(const uint8_t *p, size_t h) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * h)));
}

/* d_w and m_w of rows 8 h … 8 h + 7. */
MT_INLINE void load_scales(mt_dtype type, const uint8_t *scales, const uint8_t *super, size_t h,
                           __m256 *dw, __m256 *mw) {
  *mw = _mm256_setzero_ps();
  if (type < MT_Q2_K) {
    *dw = load_f16_half(scales, h);
    if (type == MT_Q4_1 || type == MT_Q5_1) *mw = load_f16_half(scales + 32, h);
    return;
  }
  __m128i sc = _mm_loadl_epi64((const __m128i *)(const void *)(scales + 8 * h)), mn = sc;
  __m256 d = load_f16_half(super, h);
  if (type == MT_Q3_K || type == MT_Q6_K) {
    *dw = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(sc)));
    return;
  }
  if (type == MT_Q2_K) {
    const __m128i low = _mm_set1_epi8(15);
    mn = _mm_and_si128(_mm_srli_epi16(sc, 4), low);
    sc = _mm_and_si128(sc, low);
  } else {
    mn = _mm_loadl_epi64((const __m128i *)(const void *)(scales + 16 + 8 * h));
  }
  __m256 dmin = _mm256_xor_ps(load_f16_half(super + 32, h), _mm256_set1_ps(-0.0f));
  *dw = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(sc)));
  *mw = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(mn)));
}

MT_INLINE __m256i load_32(const uint8_t *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* (v >> shift) & mask in each byte. */
MT_INLINE __m256i field(__m256i v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

/* The 32 codes of group g, rows 8 h … 8 h + 7, of types below 8 bits. */
MT_INLINE __m256i load_codes(mt_dtype type, const uint8_t *rec, size_t h, size_t g) {
  const uint8_t *low = rec + 32 * h;
  int s = (int)g;
  switch (type) {
    case MT_Q2_K: return field(load_32(low), 2 * s, 3);
    case MT_Q3_K: {
      __m256i high = field(load_32(rec + 64), s + 4 * (int)h, 1);
      return _mm256_or_si256(field(load_32(low), 2 * s, 3), _mm256_slli_epi16(high, 2));
    }
    case MT_Q6_K: {
      __m256i high = field(load_32(low + 128), 2 * s, 3);
      return _mm256_or_si256(field(load_32(low + 64 * (g % 2)), 4 * (s / 2), 15),
                             _mm256_slli_epi16(high, 4));
    }
    case MT_Q5_0:
    case MT_Q5_1:
    case MT_Q5_K: {
      __m256i high = field(load_32(low + 256), s, 1);
      return _mm256_or_si256(field(load_32(low + 64 * (g % 4)), 4 * (s / 4), 15),
                             _mm256_slli_epi16(high, 4));
    }
    default: return field(load_32(low + 64 * (g % 4)), 4 * (s / 4), 15);
  }
}

/* Four activations of a group, in every lane. */
MT_INLINE __m256i broadcast_4(const int8_t *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}

/* Groups whose products fit 16 bits together: each adds at most 2 × (2^bits − 1) × 128 to a
 * lane, so vpmaddubsw and the sums below never saturate or wrap: 8 × 3840, 4 × 7936, 2 × 16128
 * are below 32768. */
MT_INLINE size_t groups_that_fit(int bits) {
  return bits <= 4 ? 8 : bits == 5 ? 4 : 2;
}

/* Σ code × q over a block for rows 8 h … 8 h + 7, from the planes of q. */
MT_INLINE void dot_codes(mt_dtype type, const uint8_t *rec, size_t h, const mt_act *a, size_t at,
                         size_t n, __m256i dot[TILE]) {
  const size_t groups = type == MT_Q2_K || type == MT_Q3_K || type == MT_Q6_K ? 4 : 8;
  const int bits = type == MT_Q6_K                                         ? 6
                   : type == MT_Q5_0 || type == MT_Q5_1 || type == MT_Q5_K ? 5
                                                                           : 4;
  const size_t step = groups_that_fit(bits) < groups ? groups_that_fit(bits) : groups;
  const __m256i one = _mm256_set1_epi16(1), byte = _mm256_set1_epi16(256);
  MT_UNROLL for (size_t t = 0; t < n; t++) dot[t] = _mm256_setzero_si256();
  MT_UNROLL for (size_t i0 = 0; i0 < groups; i0 += step) {
    __m256i hi[TILE], lo[TILE];
    MT_UNROLL for (size_t t = 0; t < n; t++) hi[t] = lo[t] = _mm256_setzero_si256();
    MT_UNROLL for (size_t i = i0; i < i0 + step; i++) {
      /* Groups that share bytes follow one another. */
      size_t g = i % 2 * (groups / 2) + i / 2;
      __m256i w = load_codes(type, rec, h, g);
      MT_UNROLL for (size_t t = 0; t < n; t++) {
        size_t q = at + t * a->q_stride + 4 * g;
        hi[t] = _mm256_add_epi16(hi[t], _mm256_maddubs_epi16(w, broadcast_4(a->hi + q)));
        lo[t] = _mm256_add_epi16(lo[t], _mm256_maddubs_epi16(w, broadcast_4(a->lo + q)));
      }
    }
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(hi[t], byte));
      dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(lo[t], one));
    }
  }
}

/* Σ w × q for signed bytes, widened: all 8 bits of both do not fit vpmaddubsw. */
MT_INLINE void dot_q8_0(const uint8_t *rec, size_t h, const mt_act *a, size_t at, size_t n,
                        __m256i dot[TILE]) {
  __m256i even[TILE], odd[TILE]; /* rows 0–3 and 4–7, two lanes each */
  MT_UNROLL for (size_t t = 0; t < n; t++) even[t] = odd[t] = _mm256_setzero_si256();
  MT_UNROLL for (size_t g = 0; g < 8; g++) {
    const __m128i *w = (const __m128i *)(const void *)(rec + 64 * g + 32 * h);
    __m256i w0 = _mm256_cvtepi8_epi16(_mm_loadu_si128(w));
    __m256i w1 = _mm256_cvtepi8_epi16(_mm_loadu_si128(w + 1));
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      int64_t v;
      memcpy(&v, a->q + at + t * a->q_stride + 4 * g, 8);
      __m256i q = _mm256_set1_epi64x(v);
      even[t] = _mm256_add_epi32(even[t], _mm256_madd_epi16(w0, q));
      odd[t] = _mm256_add_epi32(odd[t], _mm256_madd_epi16(w1, q));
    }
  }
  MT_UNROLL for (size_t t = 0; t < n; t++) dot[t] =
      _mm256_permute4x64_epi64(_mm256_hadd_epi32(even[t], odd[t]), 0xd8);
}

/* What mt_qinfo says, as constants for the template. */
MT_INLINE int bias_of(mt_dtype type) {
  return type == MT_Q4_0   ? 8
         : type == MT_Q5_0 ? 16
         : type == MT_Q3_K ? 4
         : type == MT_Q6_K ? 32
                           : 0;
}
MT_INLINE bool has_min(mt_dtype type) {
  return type == MT_Q4_1 || type == MT_Q5_1 || type == MT_Q2_K || type == MT_Q4_K ||
         type == MT_Q5_K;
}

MT_INLINE void chain_quantized(mt_dtype type, const job *j, size_t i0, size_t i1, size_t n,
                               __m256 acc[TILE][2]) {
  const mt_act *a = j->a;
  const mt_qinfo *qi = mt_qinfo_get(type);
  const size_t slots = type == MT_Q2_K || type == MT_Q3_K || type == MT_Q6_K ? 16 : 32;
  const uint8_t *records = j->data + mt_panel_supers_bytes(j->m, qi);
  const size_t record = qi->record_bytes, planes = record - qi->scale_bytes;
  const size_t super_bytes = qi->super_bytes;
  MT_UNROLL for (size_t h = 0; h < 2; h++) {
    for (size_t b = i0; b < i1; b++) {
      const uint8_t *rec = records + b * record;
      __m256i dot[TILE];
      __m256 dw, mw;
      size_t at = j->row * a->q_stride + b * slots, s = j->row * a->n_blocks + b;
      load_scales(type, rec + planes, j->data + j->m->block[b].super * super_bytes, h, &dw, &mw);
      if (type == MT_Q8_0)
        dot_q8_0(rec, h, a, at, n, dot);
      else
        dot_codes(type, rec, h, a, at, n, dot);
      MT_UNROLL for (size_t t = 0; t < n; t++) {
        float da = a->scale[s + t * a->n_blocks];
        int32_t sum = a->sum[s + t * a->n_blocks];
        if (bias_of(type))
          dot[t] = _mm256_sub_epi32(dot[t], _mm256_set1_epi32(bias_of(type) * sum));
        __m256 f = _mm256_cvtepi32_ps(dot[t]);
        acc[t][h] = _mm256_fmadd_ps(_mm256_mul_ps(dw, _mm256_set1_ps(da)), f, acc[t][h]);
        if (has_min(type))
          acc[t][h] = _mm256_fmadd_ps(mw, _mm256_set1_ps(da * (float)sum), acc[t][h]);
      }
    }
  }
}

/* ---- template ---------------------------------------------------------------------------- */

MT_INLINE void unit_sums(const job *j, size_t u, size_t n, chain_fn *chain, __m256 sum[TILE][2]) {
  for (size_t t = 0; t < n; t++) sum[t][0] = sum[t][1] = _mm256_setzero_ps();
  for (size_t c = j->m->unit_chain[u]; c < j->m->unit_chain[u + 1]; c++) {
    __m256 acc[TILE][2];
    MT_UNROLL for (size_t t = 0; t < n; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    chain(j, j->m->chain[c], j->m->chain[c + 1], n, acc);
    MT_UNROLL for (size_t t = 0; t < n; t++) {
      sum[t][0] = _mm256_add_ps(sum[t][0], acc[t][0]);
      sum[t][1] = _mm256_add_ps(sum[t][1], acc[t][1]);
    }
  }
}

/* 16 sums rounded and added where all are in range (else mt_add_units sorts them out). */
static int add_units(const float *p, size_t rows, double factor, int64_t *acc) {
  const __m256d f = _mm256_set1_pd(factor), magic = _mm256_set1_pd(MT_RINT_MAGIC);
  const __m256d limit = _mm256_set1_pd(MT_UNIT_LIMIT), sign = _mm256_set1_pd(-0.0);
  const __m256i bits = _mm256_set1_epi64x(MT_RINT_MAGIC_BITS);
  if (rows < MT_PANEL_ROWS) return mt_add_units(p, rows, factor, acc);
  __m256i v[4];
  __m256d fits = _mm256_castsi256_pd(_mm256_set1_epi32(-1));
  for (int i = 0; i < 4; i++) {
    __m256d y = _mm256_mul_pd(_mm256_cvtps_pd(_mm_loadu_ps(p + 4 * i)), f);
    fits = _mm256_and_pd(fits, _mm256_cmp_pd(_mm256_andnot_pd(sign, y), limit, _CMP_LT_OQ));
    v[i] = _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(y, magic)), bits);
  }
  if (_mm256_movemask_pd(fits) != 15) return mt_add_units(p, rows, factor, acc);
  for (int i = 0; i < 4; i++) {
    __m256i *to = (__m256i *)(void *)(acc + 4 * i);
    _mm256_storeu_si256(to, _mm256_add_epi64(_mm256_loadu_si256(to), v[i]));
  }
  return 0;
}

static void store_rows(const job *j, size_t t, __m256 v0, __m256 v1) {
  float *to = j->out + (j->row + t) * j->ld + j->panel * MT_PANEL_ROWS;
  size_t rows = mt_panel_rows(j->m, j->panel);
  if (rows == MT_PANEL_ROWS) {
    _mm256_storeu_ps(to, v0);
    _mm256_storeu_ps(to + LANES, v1);
    return;
  }
  float v[MT_PANEL_ROWS];
  _mm256_storeu_ps(v, v0);
  _mm256_storeu_ps(v + LANES, v1);
  memcpy(to, v, rows * sizeof *to);
}

static int add_rows(const job *j, size_t t, __m256 v0, __m256 v1) {
  float v[MT_PANEL_ROWS];
  _mm256_storeu_ps(v, v0);
  _mm256_storeu_ps(v + LANES, v1);
  return add_units(v, mt_panel_rows(j->m, j->panel), mt_unit_factor(j->exp[j->row + t]),
                   j->acc + (j->row + t) * j->ld + j->panel * MT_PANEL_ROWS);
}

MT_INLINE int run_tile(const job *j, size_t n, chain_fn *chain) {
  __m256 total[TILE][2], sum[TILE][2];
  int failed = 0;
  for (size_t t = 0; t < n; t++) total[t][0] = total[t][1] = _mm256_setzero_ps();
  for (size_t u = 0; u < j->m->n_units; u++) {
    unit_sums(j, u, n, chain, sum);
    for (size_t t = 0; t < n; t++) {
      if (j->acc) failed += add_rows(j, t, sum[t][0], sum[t][1]);
      total[t][0] = _mm256_add_ps(total[t][0], sum[t][0]);
      total[t][1] = _mm256_add_ps(total[t][1], sum[t][1]);
    }
  }
  for (size_t t = 0; !j->acc && t < n; t++) store_rows(j, t, total[t][0], total[t][1]);
  return failed;
}

/* Input rows [j->row, row_end), four, two and one at a time. */
MT_INLINE int run_rows(job j, size_t row_end, chain_fn *chain) {
  int failed = 0;
  for (; j.row + 4 <= row_end; j.row += 4) failed += run_tile(&j, 4, chain);
  if (j.row + 2 <= row_end) {
    failed += run_tile(&j, 2, chain);
    j.row += 2;
  }
  if (j.row < row_end) failed += run_tile(&j, 1, chain);
  return failed;
}

#define DEFINE_GEMM(name, type, chain_of)                                                          \
  MT_INLINE void chain_##name(const job *j, size_t i0, size_t i1, size_t n, __m256 acc[TILE][2]) { \
    chain_of(type, j, i0, i1, n, acc);                                                             \
  }                                                                                                \
  static int mt_gemm_##name##_avx2(const job *j, size_t row_end) {                                 \
    return run_rows(*j, row_end, chain_##name);                                                    \
  }

DEFINE_GEMM(f32, MT_F32, chain_plain)
DEFINE_GEMM(f16, MT_F16, chain_plain)
DEFINE_GEMM(bf16, MT_BF16, chain_plain)
DEFINE_GEMM(q8_0, MT_Q8_0, chain_quantized)
DEFINE_GEMM(q4_0, MT_Q4_0, chain_quantized)
DEFINE_GEMM(q4_1, MT_Q4_1, chain_quantized)
DEFINE_GEMM(q5_0, MT_Q5_0, chain_quantized)
DEFINE_GEMM(q5_1, MT_Q5_1, chain_quantized)
DEFINE_GEMM(q2_k, MT_Q2_K, chain_quantized)
DEFINE_GEMM(q3_k, MT_Q3_K, chain_quantized)
DEFINE_GEMM(q4_k, MT_Q4_K, chain_quantized)
DEFINE_GEMM(q5_k, MT_Q5_K, chain_quantized)
DEFINE_GEMM(q6_k, MT_Q6_K, chain_quantized)

static int (*const GEMM[MT_DTYPE_COUNT])(const job *, size_t) = {
    [MT_F32] = mt_gemm_f32_avx2,   [MT_F16] = mt_gemm_f16_avx2,   [MT_BF16] = mt_gemm_bf16_avx2,
    [MT_Q8_0] = mt_gemm_q8_0_avx2, [MT_Q4_0] = mt_gemm_q4_0_avx2, [MT_Q4_1] = mt_gemm_q4_1_avx2,
    [MT_Q5_0] = mt_gemm_q5_0_avx2, [MT_Q5_1] = mt_gemm_q5_1_avx2, [MT_Q2_K] = mt_gemm_q2_k_avx2,
    [MT_Q3_K] = mt_gemm_q3_k_avx2, [MT_Q4_K] = mt_gemm_q4_k_avx2, [MT_Q5_K] = mt_gemm_q5_k_avx2,
    [MT_Q6_K] = mt_gemm_q6_k_avx2,
};

/* Else ref multiplies. */
static bool has_kernel(const mt_matrix *m, const mt_act *a) {
  return GEMM[m->type] && !(a->int8 && m->n_blocks);
}

static int run_panels(job j, size_t panel_begin, size_t panel_end, size_t row_end) {
  int failed = 0;
  for (size_t p = panel_begin; p < panel_end; p++) {
    j.panel = p;
    j.data = j.m->data + p * j.m->panel_bytes;
    failed += GEMM[j.m->type](&j, row_end);
  }
  return failed;
}

void mt_gemm_avx2(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                  size_t row_begin, size_t row_end, float *out, size_t ld_out) {
  if (!has_kernel(m, a)) {
    mt_gemm_ref(m, panel_begin, panel_end, a, row_begin, row_end, out, ld_out);
    return;
  }
  job j = {.m = m, .a = a, .row = row_begin, .out = out, .ld = ld_out};
  run_panels(j, panel_begin, panel_end, row_end);
}

int mt_gemm_units_avx2(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                       size_t row_begin, size_t row_end, const int *exp, int64_t *acc, size_t ld) {
  if (!has_kernel(m, a))
    return mt_gemm_units_ref(m, panel_begin, panel_end, a, row_begin, row_end, exp, acc, ld);
  job j = {.m = m, .a = a, .row = row_begin, .exp = exp, .acc = acc, .ld = ld};
  return run_panels(j, panel_begin, panel_end, row_end);
}
