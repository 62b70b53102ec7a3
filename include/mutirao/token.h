/* token: text to ids and back, safe for streaming. Layer 3; the only module that includes pcre2.h
 * and utf8proc.h. Reads byte-level and SentencePiece-type BPE from tokenizer.json (Hugging Face)
 * and from GGUF vocabularies; what the file asks for and we do not do is refused by name
 * (MT_EUNSUPPORTED), never done differently. Ids and decoded text equal those of the Hugging Face
 * tokenizers library. A tokenizer is read-only after opening: any number of threads may share one.
 * Nothing here is collective. */
#ifndef MUTIRAO_TOKEN_H
#define MUTIRAO_TOKEN_H

#include "mutirao/base.h"
#include "mutirao/format.h"

typedef struct mt_tokenizer mt_tokenizer;

/* ---- opening --------------------------------------------------------------------------------- */

/* From one tokenizer.json. MT_EIO, MT_EFORMAT (malformed, names the place), MT_EUNSUPPORTED (names
 * the kind). */
int mt_tokenizer_open_json(mt_tokenizer **out, const char *tokenizer_json_path, mt_err *e);
/* From the vocabulary inside an open GGUF; w is not needed afterwards. `tokenizer.ggml.model` must
 * be gpt2 (byte-level BPE, cut as `tokenizer.ggml.pre` says) or llama (SentencePiece type, merges
 * by score). */
int mt_tokenizer_open_gguf(mt_tokenizer **out, const mt_weights *w, mt_err *e);
/* From a model: a directory with tokenizer.json and, where present, tokenizer_config.json and
 * chat_template.jinja (no other file of it is touched), or a .gguf file. */
int mt_tokenizer_open(mt_tokenizer **out, const char *model_path, mt_err *e);
void mt_tokenizer_free(mt_tokenizer *t); /* NULL allowed */

/* ---- the vocabulary -------------------------------------------------------------------------- */

/* 1 + the highest id, added tokens included. Ids below it may be unused. */
size_t mt_tokenizer_vocab(const mt_tokenizer *t);
/* The token as the file spells it (byte-level kinds in their byte alphabet); NULL for an unused id.
 * Owned by t. */
const char *mt_tokenizer_token(const mt_tokenizer *t, uint32_t id, size_t *len);
/* Id of the token spelled exactly so (added tokens first), or -1. */
int64_t mt_tokenizer_find(const mt_tokenizer *t, const char *token, size_t len);
bool mt_tokenizer_is_special(const mt_tokenizer *t, uint32_t id);
/* Special, or added beside the vocabulary without being special (such as <think>). */
bool mt_tokenizer_is_added(const mt_tokenizer *t, uint32_t id);
/* Appends the very bytes that the token stands for inside a text (a byte token one byte, which may
 * be a part of a character; "▁" a space; a special token its spelling). Nothing for an unused id.
 */
int mt_tokenizer_token_bytes(const mt_tokenizer *t, uint32_t id, mt_buf *out);

/* What the files say; -1 where they do not. */
int64_t mt_tokenizer_bos(const mt_tokenizer *t);
int64_t mt_tokenizer_eos(const mt_tokenizer *t);
int64_t mt_tokenizer_unk(const mt_tokenizer *t);
int64_t mt_tokenizer_pad(const mt_tokenizer *t);
/* Ids that end a turn or a text: eos, and for GGUF its eot and eom keys; then the special tokens
 * known by name to end one (<|eot_id|>, <|im_end|>, <end_of_turn> and so on). A directory's
 * generation_config.json is not read here. Returns the count; *ids is owned by t. */
size_t mt_tokenizer_stops(const mt_tokenizer *t, const uint32_t **ids);
/* What MT_ENCODE_ADD_SPECIAL does: puts the bos token first, or anything at all after the text. */
bool mt_tokenizer_adds_bos(const mt_tokenizer *t);
bool mt_tokenizer_adds_eos(const mt_tokenizer *t);
/* True for byte-level BPE, false for the SentencePiece type. */
bool mt_tokenizer_is_byte_level(const mt_tokenizer *t);

/* Chat templates: that of the given name ("default" or NULL: the main one), else NULL. From
 * chat_template.jinja beside the tokenizer, else tokenizer_config.json (one, or a list by name),
 * else the GGUF keys. Owned by t. */
const char *mt_tokenizer_template(const mt_tokenizer *t, const char *name, size_t *len);
/* Names in file order, NULL beyond the end. */
const char *mt_tokenizer_template_at(const mt_tokenizer *t, size_t i);

/* ---- encoding -------------------------------------------------------------------------------- */

/* A growing list of ids. Zero-initialize; the caller frees with mt_ids_free. */
typedef struct mt_ids {
  uint32_t *id;
  size_t n, cap;
} mt_ids;
int mt_ids_push(mt_ids *ids, uint32_t id); /* MT_OK or MT_ENOMEM */
void mt_ids_free(mt_ids *ids);

enum {
  MT_ENCODE_ADD_SPECIAL =
      1, /* what the file's post-processor puts round a text (bos and the like) */
  MT_ENCODE_PARSE_SPECIAL = 2, /* the spelling of a special token in the text becomes that token */
  MT_ENCODE_ONE_BOS =
      4, /* ADD_SPECIAL leaves out its first token where the text itself begins with it */
};
/* Appends the ids of the text to *ids. Without MT_ENCODE_ONE_BOS exactly what Hugging Face gives, a
 * second bos too. Added tokens that are not marked special are recognised always, as there. Time is
 * linear in len (times the logarithm of the longest stretch that has no cut). MT_EFORMAT with the
 * byte offset where the text is not UTF-8, MT_ENOMEM, MT_ERANGE above 2^31 bytes, MT_ELIMIT where a
 * file's pattern backtracks without end. On failure *ids is as before. */
int mt_tokenizer_encode(const mt_tokenizer *t, const char *text, size_t len, int flags, mt_ids *ids,
                        mt_err *e);
/* The same for a rendered prompt: special tokens are recognised in MT_SPAN_TEMPLATE spans only;
 * what a user wrote stays plain text. Apart from that the spans change nothing: tokens may cross
 * their borders. MT_ENCODE_PARSE_SPECIAL is taken as given, and MT_ENCODE_ADD_SPECIAL as with
 * MT_ENCODE_ONE_BOS: a prompt never begins with two. */
int mt_tokenizer_encode_text(const mt_tokenizer *t, const mt_text *text, int flags, mt_ids *ids,
                             mt_err *e);

/* How a text is encoded, in order. */
typedef enum mt_explain_kind {
  MT_EXPLAIN_PIECE, /* `text`: a stretch that is encoded on its own (after normalization) */
  MT_EXPLAIN_START, /* `id`: a symbol of that stretch before any merge */
  MT_EXPLAIN_MERGE, /* `left` and `right` become `id`; `rank` is the merge's place in the list (0
                       first); `at` is the place of `left` among the symbols present before this
                       merge */
  MT_EXPLAIN_TOKEN, /* `id`: a final token */
} mt_explain_kind;
typedef struct mt_explain_event {
  mt_explain_kind kind;
  const char *text;
  size_t len;
  uint32_t left, right, id, rank;
  size_t at;
} mt_explain_event;
typedef void mt_explain_fn(void *arg, const mt_explain_event *ev);
/* Encodes and reports. Quadratic in the length of a piece; meant for people. */
int mt_tokenizer_explain(const mt_tokenizer *t, const char *text, size_t len, int flags,
                         mt_explain_fn *fn, void *arg, mt_err *e);

/* Code points, and words (runs without Unicode white space), of a text. */
void mt_text_count(const char *text, size_t len, size_t *chars, size_t *words);

/* ---- decoding -------------------------------------------------------------------------------- */

/* Appends the text of the ids: always valid UTF-8, U+FFFD for bytes that are not (byte-level kinds:
 * one for each maximal malformed part; byte-fallback kinds: one for each byte token of a run that
 * is malformed as a whole). Unused ids are passed over; with skip_special special tokens too.
 * MT_ENOMEM. */
int mt_tokenizer_decode(const mt_tokenizer *t, const uint32_t *ids, size_t n, bool skip_special,
                        mt_buf *out, mt_err *e);

/* The same token by token: the pieces together equal the whole, and no piece ends inside a
 * character. */
typedef struct mt_stream mt_stream;
int mt_stream_new(mt_stream **out, const mt_tokenizer *t, bool skip_special,
                  mt_err *e);      /* t must outlive it */
void mt_stream_free(mt_stream *s); /* NULL allowed */
/* Appends what id makes certain (maybe nothing: a run of byte-fallback tokens is held until its
 * end). MT_ENOMEM. */
int mt_stream_push(mt_stream *s, uint32_t id, mt_buf *out, mt_err *e);
/* Appends what was held back (an unfinished character as U+FFFD) and starts afresh. */
int mt_stream_finish(mt_stream *s, mt_buf *out, mt_err *e);

#endif
