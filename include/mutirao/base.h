/* base: errors, log, checked sizes, aligned memory, growing bytes, counter-based random numbers,
 * own exp and friends, clock, hash, UTF-8, text spans. Layer 0; includes nothing of ours. No
 * function here is collective. */
#ifndef MUTIRAO_BASE_H
#define MUTIRAO_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_VERSION "0.1.0"

/* ---- errors ------------------------------------------------------------------------------ */

enum {
  MT_OK = 0,
  MT_EINVAL = -1,       /* wrong usage or argument */
  MT_ENOMEM = -2,       /* memory refused, or a prediction says that it will not fit */
  MT_EIO = -3,          /* an input cannot be opened or read; the message names it */
  MT_EFORMAT = -4,      /* a file or text from outside is malformed */
  MT_EUNSUPPORTED = -5, /* well-formed, but not something that we run; the message names it */
  MT_ERANGE = -6,       /* a count or size is outside what is allowed */
  MT_ENUMERIC = -7,     /* overflow, NaN or infinity in the numeric path */
  MT_EPEER = -8,        /* another rank failed; the message names it */
  MT_ELIMIT = -9,       /* a sandbox limit (steps, memory, recursion) was reached */
  MT_ECANCELED = -10,   /* the user stopped it */
  MT_ESYSTEM = -11,     /* the system refused: output cannot be written, a process not be started */
};

/* The detail of a failure. The caller owns it; every function that takes one accepts NULL. */
typedef struct mt_err {
  int code;
  char msg[1000]; /* one line, no newline: file, offset, rank, layer where they apply */
} mt_err;

/* Short English name of a code ("malformed input"); never NULL. */
const char *mt_err_name(int code);
/* Writes code and message into e (NULL allowed) and returns code, so that `return mt_err_set(...)`
 * reads well. */
int mt_err_set(mt_err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts "context: " before the message that e holds; returns e's code (or code where e is NULL). */
int mt_err_prefix(mt_err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The exit status of the command line for a code: 0 done, 1 failed, 2 wrong usage, 3 bad model or
 * input file. */
int mt_err_exit_status(int code);

/* ---- log --------------------------------------------------------------------------------- */

enum { MT_LOG_ERROR, MT_LOG_WARN, MT_LOG_INFO, MT_LOG_DEBUG };
/* Lines above this level are dropped. Default MT_LOG_WARN (-v raises it to MT_LOG_INFO, -vv to
 * MT_LOG_DEBUG). */
void mt_log_set_level(int level);
int mt_log_level(void);
/* Rank shown before each line; -1 (default) shows none. */
void mt_log_set_rank(int rank);
/* One line to stderr, "mutirao: warning: …"; thread-safe. */
void mt_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- sizes and memory -------------------------------------------------------------------- */

/* *out = a * b (or a + b); false when it does not fit, *out is then unchanged. */
bool mt_size_mul(size_t a, size_t b, size_t *out);
bool mt_size_add(size_t a, size_t b, size_t *out);
/* n elements of the given size, not cleared (mt_calloc: cleared). NULL when out of memory or n *
 * size overflows; for n * size == 0 a pointer that may be freed. Free with free(). */
void *mt_malloc(size_t n, size_t size);
void *mt_calloc(size_t n, size_t size);
/* Resizes to n elements; on failure returns NULL and leaves p alone. */
void *mt_realloc(void *p, size_t n, size_t size);
/* Cleared pages from the kernel, at least 64-byte aligned (2 MiB aligned and advised huge from 4
 * MiB on), not yet touched, so that the thread that first writes a page places it. Free with
 * mt_pages_free and the same size. */
void *mt_pages_alloc(size_t bytes);
void mt_pages_free(void *p, size_t bytes);
/* Makes them as they were: cleared and not yet touched. */
void mt_pages_clear(void *p, size_t bytes);

/* ---- growing bytes ----------------------------------------------------------------------- */

/* Zero-initialize ({0}); data[len] is always 0 once anything was appended. Owned by the caller;
 * mt_buf_free. */
typedef struct mt_buf {
  char *data;
  size_t len, cap;
} mt_buf;
/* Each returns MT_OK or MT_ENOMEM; on failure the buffer keeps its former content. */
int mt_buf_reserve(mt_buf *b, size_t extra);
int mt_buf_append(mt_buf *b, const void *p, size_t n);
int mt_buf_puts(mt_buf *b, const char *s);
int mt_buf_putc(mt_buf *b, char c);
int mt_buf_printf(mt_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mt_buf_clear(mt_buf *b);
void mt_buf_free(mt_buf *b);
/* Whole file (or, for "-", standard input) into b. max_bytes bounds it: MT_ERANGE beyond. MT_EIO
 * names the path. */
int mt_buf_read_file(mt_buf *b, const char *path, size_t max_bytes, mt_err *e);

/* ---- text -------------------------------------------------------------------------------- */

/* Who wrote a run of a rendered prompt: special tokens are recognised only in what the template
 * wrote. */
enum { MT_SPAN_TEMPLATE, MT_SPAN_USER };
typedef struct mt_span {
  size_t begin, end; /* bytes, half-open */
  int origin;        /* MT_SPAN_* */
} mt_span;
/* A text with its spans: ascending, gapless, neighbours differ in origin. Zero-initialize;
 * mt_text_free. */
typedef struct mt_text {
  mt_buf bytes;
  mt_span *span;
  size_t n_spans, cap_spans;
} mt_text;
int mt_text_append(mt_text *t, const char *p, size_t n, int origin); /* MT_OK or MT_ENOMEM */
void mt_text_free(mt_text *t);

#define MT_UTF8_MAX 4
/* Decodes the code point at s (n bytes there, n >= 1). Returns its length 1–4, or -k where the
 * first k >= 1 bytes are a maximal malformed part (as Unicode 3.9 and Rust's from_utf8_lossy count
 * it), or 0 where s is a proper start that needs more bytes. Overlong forms and surrogates are
 * malformed. */
int mt_utf8_decode(const char *s, size_t n, uint32_t *cp);
/* Writes cp, returns its length; 0 for a surrogate or above U+10FFFF. */
int mt_utf8_encode(uint32_t cp, char out[MT_UTF8_MAX]);
/* True if all n bytes are well-formed; else *bad (may be NULL) is the offset of the first that is
 * not. */
bool mt_utf8_valid(const char *s, size_t n, size_t *bad);
/* Appends s with each maximal malformed part replaced by U+FFFD. */
int mt_utf8_append_lossy(mt_buf *b, const char *s, size_t n);

/* ---- numbers ----------------------------------------------------------------------------- */

/* Philox4x32-10 (Salmon et al., SC'11): four words from a counter and a key; no state. */
void mt_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* Uniform in [0, 1), 53 bits, a pure function of its arguments (DESIGN: seed, choice, position,
 * draw). */
double mt_uniform(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw);

/* Own elementary functions in double: only +, −, × and ÷ in a fixed order, so the same bits on
 * every machine. Error below 1 ulp of double for exp and log, also where the result is subnormal;
 * below 2e-16 absolute for sin and cos. */
double mt_exp64(double x); /* +inf above 709.78, 0 below −745.13 */
double mt_log64(double x); /* x > 0; −inf at 0; NaN below */
double mt_pow64(double x,
                double y); /* x ≥ 0, else NaN; below 2 ulp. For 0, 1 and infinities as C's pow */
void mt_sincos64(double x, double *s, double *c); /* |x| ≤ 2^30; NaN, NaN for all else */

/* 64-bit hash (FNV-1a) of bytes, chained through `h` (start with MT_HASH_INIT). Not cryptographic.
 */
#define MT_HASH_INIT 0xcbf29ce484222325ull
uint64_t mt_hash64(uint64_t h, const void *p, size_t n);

/* Monotonic nanoseconds. */
uint64_t mt_clock_ns(void);

#endif
