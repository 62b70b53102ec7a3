/* Inside of the token module: the tokenizer's data and the steps between its files. */
#ifndef MUTIRAO_TOKEN_INTERNAL_H
#define MUTIRAO_TOKEN_INTERNAL_H

#include <pthread.h>

#include "mutirao/json.h"
#include "mutirao/token.h"

#define MT_TOKEN_NONE UINT32_MAX
enum { MT_TOKEN_MAX_ID = 1 << 24, MT_TOKEN_MAX_STAGES = 16 };

/* ---- vocabulary (vocab.c) -------------------------------------------------------------------- */

enum {
  MT_TOKEN_USED = 1,
  MT_TOKEN_MODEL = 2,     /* BPE may make it */
  MT_TOKEN_ADDED = 4,     /* recognised as a whole in the text */
  MT_TOKEN_SPECIAL = 8,   /* added, and special */
  MT_TOKEN_BYTE = 16,     /* a byte-fallback token <0xXX> when encoding */
  MT_TOKEN_BYTE_OUT = 32, /* the same when decoding: it stands for a part of a run of bytes */
};
typedef struct mt_token_entry {
  uint32_t offset, len; /* spelling, in `spellings` */
  uint32_t flags;
  uint32_t raw_offset, raw_len; /* what it decodes to, in `decoded` */
} mt_token_entry;

typedef struct mt_token_pair {
  uint32_t left, right; /* left == MT_TOKEN_NONE: empty slot */
  uint32_t rank, id;
} mt_token_pair;

/* ---- added tokens (added.c) ------------------------------------------------------------------ */

typedef struct mt_added {
  uint32_t id;
  bool single_word, lstrip, rstrip, normalized, special;
} mt_added;
typedef struct mt_trie_node {
  uint32_t child, sibling; /* 0: none; the root, node 0, is nobody's child */
  uint32_t added;          /* index into the added tokens, or MT_TOKEN_NONE */
  unsigned char byte;
} mt_trie_node;
typedef struct mt_trie {
  mt_trie_node *node;
  size_t n, cap;
  uint32_t first[256]; /* child of the root by byte, 0: none */
} mt_trie;
/* A stretch of a text: an added token, or (id == MT_TOKEN_NONE) what lies between two. */
typedef struct mt_added_match {
  size_t begin, end;
  uint32_t id;
} mt_added_match;
/* Whether the special token at [begin, end) of the text may be recognised. */
typedef struct mt_added_scope {
  bool parse_special;
  const mt_text *text; /* NULL: parse_special alone decides; else the spans do */
  size_t offset;       /* of the scanned text within `text` */
} mt_added_scope;

int mt_trie_insert(mt_trie *t, const char *s, size_t len, uint32_t added); /* MT_OK or MT_ENOMEM */
void mt_trie_free(mt_trie *t);
/* The next stretch at or after *at (0 first); false at the end of the text. An empty text has none.
 */
typedef struct mt_added_scan {
  const mt_tokenizer *t;
  const mt_trie *trie;
  mt_added_scope scope;
  const char *s;
  size_t n, at;        /* everything before `at` was given out */
  mt_added_match held; /* a token found behind a gap that was given out first */
  bool has_held;
} mt_added_scan;
bool mt_added_next(mt_added_scan *scan, mt_added_match *m);

/* ---- Unicode (unicode.c) --------------------------------------------------------------------- */

enum { /* classes of a code point, as bits */
       MT_UC_LETTER = 1,
       MT_UC_NUMBER = 2,
       MT_UC_SPACE = 4,
       MT_UC_MARK = 16,
       MT_UC_WORD = 32,   /* \w of the added tokens' single_word */
       MT_UC_UPPER = 64,  /* Lu Lt Lm Lo M: the "upper" class of o200k */
       MT_UC_LOWER = 128, /* Ll Lm Lo M */
};
/* Filled by mt_unicode_init, which every tokenizer calls first; any number of times, from any
 * thread. */
extern unsigned char mt_unicode_classes[0x110000];
void mt_unicode_init(void);
static inline unsigned mt_unicode_class(uint32_t cp) {
  return cp < 0x110000 ? mt_unicode_classes[cp] : 0;
}
/* Decodes the character at s + i, valid UTF-8 with i inside it, and moves i behind it. */
static inline uint32_t mt_unicode_step(const char *s, size_t *i) {
  const unsigned char *p = (const unsigned char *)s + *i;
  if (p[0] < 0x80) {
    *i += 1;
    return p[0];
  }
  if (p[0] < 0xE0) {
    *i += 2;
    return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
  }
  if (p[0] < 0xF0) {
    *i += 3;
    return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
  }
  *i += 4;
  return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}
/* Whether the text has code points that the regex library may class otherwise than the reference
 * does. */
bool mt_unicode_has_newer(const char *s, size_t n);
enum { MT_FORM_NFC, MT_FORM_NFD, MT_FORM_NFKC, MT_FORM_NFKD };
int mt_unicode_normalize(int form, const char *s, size_t n, mt_buf *out, mt_err *e);
int mt_unicode_lowercase(const char *s, size_t n, mt_buf *out);     /* MT_OK or MT_ENOMEM */
int mt_unicode_strip_accents(const char *s, size_t n, mt_buf *out); /* MT_OK or MT_ENOMEM */

/* ---- patterns (regex.c) ---------------------------------------------------------------------- */

typedef struct mt_regex mt_regex;
typedef struct mt_regex_scratch mt_regex_scratch; /* for one thread */
/* A pattern in Oniguruma's Ruby syntax; what has another meaning in PCRE2 is rewritten or refused.
 */
int mt_regex_new(mt_regex **out, const char *pattern, size_t len, mt_err *e);
void mt_regex_free(mt_regex *r);
mt_regex_scratch *mt_regex_scratch_new(void); /* NULL: no memory */
void mt_regex_scratch_free(mt_regex_scratch *s);
/* Where the search for the next match stands. */
typedef struct mt_matches {
  size_t from, last_end;
} mt_matches;
#define MT_MATCHES_INIT \
  { 0, SIZE_MAX }
/* 1 and the next match [*b, *end) in valid UTF-8 (an empty one right behind another does not
 * count), 0 for none, or an error. */
int mt_regex_next(const mt_regex *r, mt_regex_scratch *scratch, const char *s, size_t n,
                  mt_matches *it, size_t *b, size_t *end, mt_err *e);

/* ---- normalizers (normalize.c) --------------------------------------------------------------- */

typedef enum mt_norm_kind {
  MT_NORM_FORM,
  MT_NORM_PREPEND,
  MT_NORM_REPLACE,
  MT_NORM_LOWERCASE,
  MT_NORM_STRIP,
  MT_NORM_STRIP_ACCENTS,
} mt_norm_kind;
typedef struct mt_norm {
  mt_norm_kind kind;
  int form;
  bool left, right;     /* STRIP */
  mt_buf pattern, with; /* PREPEND uses `with`; REPLACE both, pattern literal unless regex is set */
  mt_regex *regex;
} mt_norm;

/* ---- pre-tokenizers (pretok.c) --------------------------------------------------------------- */

typedef enum mt_behavior {
  MT_SPLIT_REMOVED,
  MT_SPLIT_ISOLATED,
  MT_SPLIT_WITH_PREVIOUS,
  MT_SPLIT_WITH_NEXT,
  MT_SPLIT_CONTIGUOUS,
} mt_behavior;
typedef enum mt_stage_kind {
  MT_STAGE_REGEX,
  MT_STAGE_SCAN,    /* a pattern known by heart: all of the text, piece by piece, isolated */
  MT_STAGE_LITERAL, /* matches are occurrences of `pattern` */
  MT_STAGE_CLASS,   /* matches are single code points of a class */
  MT_STAGE_PREFIX_SPACE,
  MT_STAGE_METASPACE,
} mt_stage_kind;
typedef enum mt_prepend { MT_PREPEND_ALWAYS, MT_PREPEND_FIRST, MT_PREPEND_NEVER } mt_prepend;
/* Length of the piece that begins at s (n >= 1 bytes of valid UTF-8 up to the text's end). */
typedef size_t mt_scan_fn(const char *s, size_t n);
typedef struct mt_stage {
  mt_stage_kind kind;
  mt_behavior behavior;
  bool invert;
  mt_regex *regex;
  mt_scan_fn *scan;
  unsigned classes; /* CLASS: MT_UC_* */
  mt_buf pattern;   /* LITERAL: what to find; METASPACE: the replacement */
  mt_prepend prepend;
  bool split; /* METASPACE */
} mt_stage;
/* The hand-written scanner that equals this pattern, or NULL. */
mt_scan_fn *mt_scan_find(const char *pattern, size_t len);

/* ---- decoders (decode.c) --------------------------------------------------------------------- */

typedef enum mt_decode_kind { MT_DECODE_REPLACE, MT_DECODE_STRIP } mt_decode_kind;
typedef struct mt_decode_step {
  mt_decode_kind kind;
  mt_buf pattern, with; /* STRIP: pattern is its character */
  size_t start, stop;
} mt_decode_step;
typedef struct mt_decoder {
  bool joined_by_space; /* no decoder at all */
  bool byte_level, byte_fallback, fuse, metaspace_first;
  mt_decode_step step[MT_TOKEN_MAX_STAGES]; /* for each token by itself */
  size_t n_steps;
  mt_decode_step after[MT_TOKEN_MAX_STAGES]; /* for the fused text: one-character replacements,
                                                strips at the start */
  size_t n_after;
} mt_decoder;

/* ---- the tokenizer --------------------------------------------------------------------------- */

typedef struct mt_word_cache mt_word_cache;
typedef struct mt_named_template {
  mt_buf name, text;
} mt_named_template;

struct mt_tokenizer {
  mt_buf name; /* the file, for messages */
  mt_token_entry *token;
  size_t n_tokens, cap_tokens;
  mt_buf spellings, decoded;
  uint32_t *by_text; /* open addressing: id + 1, 0 empty */
  size_t n_text, cap_text;
  mt_token_pair *pair;
  size_t n_pairs, cap_pairs;
  uint32_t
      byte_id[256]; /* byte level: the byte's symbol; else its fallback token; or MT_TOKEN_NONE */
  uint32_t ascii_id[128]; /* characters: the symbol of an ASCII character, or MT_TOKEN_NONE */
  bool byte_level, byte_fallback, fuse_unk, ignore_merges;
  uint32_t model_unk;
  uint64_t *joins; /* characters, only if cutting is exact: which neighbours some merge may join
                      (bloom filter) */

  mt_added *added;
  size_t n_added;
  mt_trie raw, normalized;

  mt_norm norm[MT_TOKEN_MAX_STAGES];
  size_t n_norms;
  mt_stage stage[MT_TOKEN_MAX_STAGES];
  size_t n_stages;
  mt_decoder decoder;
  mt_ids prefix, suffix; /* of the post-processor */

  int64_t bos, eos, unk, pad;
  mt_ids stops;
  mt_named_template *templates;
  size_t n_templates;

  mt_word_cache *cache; /* shared by whoever gets its lock first; others work without */
  pthread_mutex_t *lock;
};

/* Everything that one call of encode needs; never shared. */
typedef struct mt_encoder {
  const mt_tokenizer *t;
  mt_ids *out;
  mt_err *err;
  mt_word_cache *cache;      /* NULL: without */
  mt_regex_scratch *scratch; /* NULL until mt_encoder_need_scratch */
  bool has_newer;            /* mt_unicode_has_newer of the text, or true to be safe */
  mt_buf norm[2];
  uint32_t *sym, *prev, *next, *rank; /* [cap_sym], for long words */
  size_t cap_sym;
  uint64_t *best; /* winner tree over segments of rank, for long words */
  size_t cap_best;
  mt_explain_fn *explain;
  void *explain_arg;
} mt_encoder;

/* The text as a pattern should see it: s, or a copy (to be freed) in which each of the newer code
 * points is replaced by one of the same length and category. NULL: no memory. */
const char *mt_unicode_for_regex(const mt_encoder *x, const char *s, size_t n, char **copy);
mt_tokenizer *mt_tokenizer_new_empty(const char *name);
/* Adds or confirms a token; MT_EFORMAT where the id or the spelling is taken by another. */
int mt_token_put(mt_tokenizer *t, uint64_t id, const char *s, size_t len, unsigned flags,
                 mt_err *e);
/* Adds a merge; a later one for the same pair replaces an earlier one, as in the reference. */
int mt_token_put_pair(mt_tokenizer *t, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
uint32_t mt_token_lookup(const mt_tokenizer *t, const char *s, size_t len,
                         unsigned flags); /* or MT_TOKEN_NONE */
/* Where the search for a pair begins in its table (a power of two long, filled by linear probing).
 */
static inline size_t mt_token_pair_slot(const mt_tokenizer *t, uint32_t left, uint32_t right) {
  uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15ull;
  return (size_t)(h ^ h >> 32) & (t->cap_pairs - 1);
}
static inline const char *mt_token_spelling(const mt_tokenizer *t, uint32_t id) {
  return t->spellings.data + t->token[id].offset;
}
/* Byte of a code point of the byte-level alphabet, or -1; and the code point of a byte. */
int mt_byte_of_symbol(uint32_t cp);
uint32_t mt_symbol_of_byte(unsigned char b);
/* The byte that a spelling <0xXX> stands for, or -1. */
int mt_byte_of_fallback(const char *s, size_t len);
/* Adds an added token (takes the flags from a). */
int mt_token_put_added(mt_tokenizer *t, const mt_added *a, const char *s, size_t len, mt_err *e);
/* After everything was put: symbol tables, tries, decoded bytes, cuts, cache. */
int mt_tokenizer_seal(mt_tokenizer *t, mt_err *e);
int mt_token_put_template(mt_tokenizer *t, const char *name, size_t name_len, const char *s,
                          size_t len);
/* The stops: eos and the special tokens known by name. */
int mt_token_find_stops(mt_tokenizer *t);
int mt_token_push_stop(mt_tokenizer *t, int64_t id);

/* encode.c: most texts meet no regular expression, so what one needs is made when it does. */
int mt_encoder_need_scratch(mt_encoder *x);
/* bpe.c */
int mt_bpe_word(mt_encoder *x, const char *s, size_t n);
int mt_bpe_make_joins(mt_tokenizer *t);
mt_word_cache *mt_word_cache_new(void);
/* pretok.c: runs the stages over a normalized stretch; `first`: it begins the whole text. */
int mt_pretok_run(mt_encoder *x, const char *s, size_t n, bool first);
int mt_stage_add_regex(mt_tokenizer *t, const char *pattern, size_t len, mt_behavior b, bool invert,
                       mt_err *e);
int mt_stage_add_class(mt_tokenizer *t, unsigned classes, mt_behavior b, mt_err *e);
mt_stage *mt_stage_add(mt_tokenizer *t, mt_stage_kind kind, mt_err *e);
extern const char mt_pattern_gpt2[];
/* normalize.c: *out points into x->norm or is s itself. */
int mt_norm_run(mt_encoder *x, const char *s, size_t n, const char **out, size_t *out_n);
mt_norm *mt_norm_add(mt_tokenizer *t, mt_norm_kind kind, mt_err *e);
/* load_json.c, load_parts.c */
int mt_load_normalizer(mt_tokenizer *t, const mt_json *j, mt_err *e);
int mt_load_pre_tokenizer(mt_tokenizer *t, const mt_json *j, mt_err *e);
int mt_load_post_processor(mt_tokenizer *t, const mt_json *j, mt_err *e);
int mt_load_decoder(mt_tokenizer *t, const mt_json *j, mt_err *e);
/* load_config.c */
int mt_load_config(mt_tokenizer *t, const char *dir, mt_err *e);
/* decode.c */
int mt_decode_prepare(mt_tokenizer *t);

#endif
