/* The loops of a matrix product around an instruction set's tiles: panels, rows, units, chains.
 * Included by each instruction set after
 *   WALK_PANELS   panels that a tile takes together (1 or 2)
 *   DIRECT_ROWS   so few rows take one panel after the other, for the sake of one ascending stream
 * are defined. A chain's weights are read once for up to MT_WALK_ROWS input rows. */

#include "ahead.h"

enum { WALK_LANES = WALK_PANELS * MT_PANEL_ROWS };

/* ---- what the table of types says, as constants ------------------------------------------- */

MT_INLINE bool is_plain(mt_dtype type) {
  return !mt_record_size_of(type).record;
}
MT_INLINE bool slots_16(mt_dtype type) {
  return mt_record_size_of(type).slots == 16;
}
MT_INLINE bool has_min(mt_dtype type) {
  return mt_record_size_of(type).has_min;
}
MT_INLINE bool by_super(mt_dtype type) {
  return mt_record_size_of(type).super > 0;
}

/* What to take off a code: 2^code_bias_bits, or nothing. 8-bit codes are raised to unsigned. */
MT_INLINE unsigned code_bias_bits(mt_dtype type) {
  switch (type) {
    case MT_Q8_0:
    case MT_IQ4_NL:
    case MT_IQ4_XS: return 7;
    case MT_Q6_K: return 5;
    case MT_Q5_0:
    case MT_MXFP4: return 4;
    case MT_Q4_0: return 3;
    case MT_Q3_K: return 2;
    default: return 0;
  }
}

/* Of the integers that are multiplied: a look-up makes MXFP4's 4 bits 5. */
MT_INLINE bool codes_5_bits(mt_dtype type) {
  return type == MT_Q5_0 || type == MT_Q5_1 || type == MT_Q5_K || type == MT_MXFP4;
}

MT_INLINE const int8_t *values_of(mt_dtype type) {
  return type == MT_MXFP4 ? mt_mxfp4_values : mt_iq4_values;
}

/* Groups in the order of their bytes; those that share bytes follow one another. */
MT_INLINE size_t group_at(mt_dtype type, size_t groups, size_t i) {
  return type == MT_Q8_0 ? i : i % 2 * (groups / 2) + i / 2;
}

/* ---- the loops ----------------------------------------------------------------------------- */

/* Sums of units as integers of each row's quantum, kept by a stretch until all units are in. */
typedef struct walk_total {
  _Alignas(64) int64_t sum[MT_WALK_ROWS][WALK_LANES]; /* and MT_RINT_MAGIC_BITS for each unit */
  double factor[MT_WALK_ROWS];                        /* 2^−exp */
  uint32_t limit[MT_WALK_ROWS];                       /* mt_unit_limit_bits */
  bool beyond; /* a sum was out of range: nothing here is right */
} walk_total;

/* One stretch of the walk: up to WALK_PANELS panels, up to MT_WALK_ROWS rows of input. */
typedef struct walk {
  const mt_matrix *m;
  const mt_act *a;
  size_t panel, n_panels;
  const uint8_t *data[WALK_PANELS]; /* of the panels; where there is only one it stands for both */
  size_t row, n;                    /* input rows */
  float (*sum)[WALK_LANES];         /* [MT_WALK_ROWS] of the unit */
  walk_total *total;                /* NULL: a unit's sum is left in `sum` */
  size_t ahead; /* bytes that fns->direct asks for weights before it reads them; 0: it does not */
} walk;

/* Sums the chains [c0, c1), in ascending order: at a unit's first from 0, at its last into `total`
 * or, where there is none, `sum`. */
typedef void chains_fn(const walk *j, size_t c0, size_t c1);
/* All units of one panel for at most DIRECT_ROWS rows, into out or acc as gemm and gemm_units.
 * False, and nothing done, where a sum is out of range: then chains serve. */
typedef bool direct_fn(const walk *j, const int *exp, int64_t *acc, float *out, size_t ld);

/* What a weight type brings. */
typedef struct walk_fns {
  chains_fn *chains;
  direct_fn *direct; /* NULL: chains serve */
} walk_fns;

/* Rows of the weight that a stretch takes. */
static inline size_t stretch_rows(const walk *j) {
  return (j->n_panels - 1) * MT_PANEL_ROWS + mt_panel_rows(j->m, j->panel + j->n_panels - 1);
}

/* Where the records of a panel and the input stand; a block moves all of them on. */
typedef struct place {
  const uint8_t *rec, *supers;
  const int8_t *hi, *lo;
  const int16_t *q;
  const float *scale;
  const int32_t *sum;
} place;

MT_INLINE place start_of_panel(mt_dtype type, const walk *j) {
  const mt_act *a = j->a;
  const size_t at = j->row * a->q_stride, block = j->row * a->n_blocks;
  if (is_plain(type)) return (place){0};
  return (place){.rec = j->data[0] + j->m->n_supers * mt_record_size_of(type).super,
                 .supers = j->data[0],
                 .hi = a->hi + at,
                 .lo = (a->int8 ? a->hi : a->lo) + at, /* not read with int8 */
                 .q = a->q + at,
                 .scale = a->scale + block,
                 .sum = a->sum + block};
}

MT_INLINE void next_block(mt_dtype type, place *p) {
  const mt_record_size size = mt_record_size_of(type);
  p->rec += size.record;
  p->hi += size.slots;
  p->lo += size.slots;
  p->q += size.slots;
  p->scale++;
  p->sum++;
}

static void store_sums(const walk *j, bool first, float *out, size_t ld) {
  for (size_t t = 0; t < j->n; t++)
    for (size_t p = 0; p < j->n_panels; p++) {
      const float *from = j->sum[t] + p * MT_PANEL_ROWS;
      float *to = out + (j->row + t) * ld + (j->panel + p) * MT_PANEL_ROWS;
      size_t rows = mt_panel_rows(j->m, j->panel + p);
      if (first && rows == MT_PANEL_ROWS)
        memcpy(to, from, MT_PANEL_ROWS * sizeof *to);
      else if (first)
        memcpy(to, from, rows * sizeof *to);
      else
        for (size_t r = 0; r < rows; r++) to[r] += from[r];
    }
}

/* A unit's sums, where one of them may be out of range. */
static int add_sums(const walk *j, const int *exp, int64_t *acc, size_t ld) {
  int failed = 0;
  for (size_t t = 0; t < j->n; t++)
    for (size_t p = 0; p < j->n_panels; p++)
      failed += mt_add_units(j->sum[t] + p * MT_PANEL_ROWS, mt_panel_rows(j->m, j->panel + p),
                             mt_unit_factor(exp[j->row + t]),
                             acc + (j->row + t) * ld + (j->panel + p) * MT_PANEL_ROWS);
  return failed;
}

/* The end of the chains from c on that are unpacked and multiplied together: what a tile reads and
 * adds to then stays in the first cache. */
static inline size_t chains_together(const mt_matrix *m, size_t c, size_t c1, size_t most) {
  size_t end = c + 1;
  while (end < c1 && m->chain[end + 1] - m->chain[c] <= most) end++;
  return end;
}

/* All units of a stretch, added up as integers. False, and acc as it was, where a sum is out of
 * range. */
static bool walk_total_units(walk *j, chains_fn *chains, const int *exp, int64_t *acc, size_t ld) {
  walk_total total;
  const mt_matrix *m = j->m;
  const size_t n_chains = m->unit_chain[m->n_units];
  const size_t rows = stretch_rows(j);
  uint64_t magic = 0;
  total.beyond = false;
  memset(total.sum, 0, j->n * sizeof total.sum[0]);
  for (size_t t = 0; t < j->n; t++) {
    total.factor[t] = mt_unit_factor(exp[j->row + t]);
    total.limit[t] = mt_unit_limit_bits(exp[j->row + t]);
  }
  j->total = &total;
  chains(j, 0, n_chains);
  j->total = NULL;
  if (total.beyond) return false;
  for (size_t c = 0; c < n_chains; c++)
    if (m->place[c] & MT_UNIT_LAST) magic += (uint64_t)MT_RINT_MAGIC_BITS;
  for (size_t t = 0; t < j->n; t++) {
    int64_t *to = acc + (j->row + t) * ld + j->panel * MT_PANEL_ROWS;
    for (size_t l = 0; l < rows; l++) to[l] = (int64_t)((uint64_t)total.sum[t][l] - magic);
  }
  return true;
}

/* All units of a stretch; `out` or, with exponents, `acc`. Sums of units are added to 0 in
 * ascending order: the first is stored, which is the same, since none is −0. */
static int walk_units(walk *j, chains_fn *chains, const int *exp, int64_t *acc, float *out,
                      size_t ld) {
  const uint32_t *border = j->m->unit_chain;
  int failed = 0;
  bool first = true;
  if (acc && walk_total_units(j, chains, exp, acc, ld)) return 0;
  for (size_t t = 0; acc && t < j->n; t++)
    memset(acc + (j->row + t) * ld + j->panel * MT_PANEL_ROWS, 0, stretch_rows(j) * sizeof *acc);
  memset(j->sum, 0, j->n * sizeof j->sum[0]); /* what units without elements sum up to */
  if (out && border[j->m->n_units] == 0) store_sums(j, true, out, ld);
  for (size_t u = 0; u < j->m->n_units; u++) {
    if (border[u] == border[u + 1]) continue;
    chains(j, border[u], border[u + 1]);
    if (acc)
      failed += add_sums(j, exp, acc, ld);
    else
      store_sums(j, first, out, ld);
    first = false;
  }
  return failed;
}

static int walk_panels(const mt_matrix *m, size_t panel_begin, size_t panel_end, const mt_act *a,
                       size_t row_begin, size_t row_end, const walk_fns *fns, const int *exp,
                       int64_t *acc, float *out, size_t ld) {
  _Alignas(64) float sum[MT_WALK_ROWS][WALK_LANES];
  const size_t most = mt_walk_rows;
  const bool few = row_end - row_begin <= DIRECT_ROWS && fns->direct;
  const size_t step = row_end - row_begin <= DIRECT_ROWS ? 1 : WALK_PANELS;
  const size_t bytes = (panel_end - panel_begin) * m->panel_bytes;
  size_t ahead = 0;
  mt_ahead_run run;
  int failed = 0;
  if (few) ahead = mt_ahead_begin(&run, m, exp != NULL, bytes);
  for (size_t p = panel_begin; p < panel_end; p += step) {
    walk j = {.m = m, .a = a, .panel = p, .sum = sum, .ahead = ahead};
    j.n_panels = panel_end - p < step ? panel_end - p : step;
    for (size_t i = 0; i < WALK_PANELS; i++)
      j.data[i] = m->data + (p + (i < j.n_panels ? i : 0)) * m->panel_bytes;
    for (j.row = row_begin; j.row < row_end; j.row += j.n) {
      j.n = row_end - j.row < most ? row_end - j.row : most;
      if (!few || !fns->direct(&j, exp, acc, out, ld))
        failed += walk_units(&j, fns->chains, exp, acc, out, ld);
    }
  }
  if (few) mt_ahead_end(&run, bytes);
  return failed;
}
