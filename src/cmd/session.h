/* What the commands that run a model share: the ranks, the machine, the model, its texts. */
#ifndef MT_CMD_SESSION_H
#define MT_CMD_SESSION_H

#include "mutirao/chat.h"
#include "mutirao/engine.h"
#include "mutirao/opt.h"

typedef struct mt_session {
  const mt_opt *opt;
  mt_cpu *cpu;
  mt_comm *comm;
  mt_team *team;
  const mt_kernels *kn;
  mt_model *model;
  mt_engine *engine;
  char *path;            /* of the model; rank 0 */
  bool root;             /* this is rank 0 */
  uint64_t memory_limit; /* bytes that this rank may take */
} mt_session;

enum { MT_SESSION_CHUNK = 128 }; /* prompt rows of a step where nobody asks for another number */

/* How large the cache must be. */
typedef struct mt_room {
  size_t tokens; /* of all sequences together; 0: the model's context, or what memory allows */
  size_t seqs;   /* at a time, at least 1 */
  size_t chunk;  /* prompt rows of a step; 0: the default */
} mt_room;

/* Opens ranks, machine, threads and kernels, and checks that the ranks fit together. Collective. */
int mt_session_open(mt_session *s, const mt_opt *o, mt_err *e);
/* How sums over ranks go, by --reduce-inside and --reduce-between. */
mt_reduce_options mt_session_reduce(const mt_session *s);
/* What --kv-type names. */
mt_kv_type mt_session_kv_type(const mt_opt *o);
/* True for --activations int8. */
bool mt_session_int8(const mt_opt *o);
/* Loads the model; rank 0's `room` decides. `rc` is what rank 0 found out on its own before (a bad
 * prompt, say): if it is not MT_OK, nothing is loaded and every rank gets it. Collective. */
int mt_session_load(mt_session *s, int rc, mt_room room, mt_err *e);
/* Other ranks: follow rank 0 until it stops; rank 0: stop them. `own` is what rank 0 came to, with
 * its message in e. Every rank gets the same code, so that none ends well where rank 0 failed.
 * Collective. */
int mt_session_follow(mt_session *s, int own, mt_err *e);
/* Ends the session, prints e's line once where rc is not MT_OK, and returns the exit status.
 * Collective. */
int mt_session_close(mt_session *s, int rc, mt_err *e);

/* ---- the model's texts, rank 0 only (texts.c) -------------------------------------------- */

typedef struct mt_texts {
  mt_tokenizer *tok;       /* NULL where the model has none and --ids asks for none */
  char no_tokenizer[1000]; /* why, then */
  mt_chat_template *tmpl;  /* NULL where there is none */
  const char *bos, *eos;   /* spelling of these tokens, or NULL */
  mt_json *special;        /* the other special tokens that a template may name, or NULL */
  uint32_t *stop_ids;      /* [n_stop_ids] ids that end an answer */
  size_t n_stop_ids;
  mt_sample_params sample; /* from generation_config.json, then the command line */
  mt_logit_bias *bias;     /* what sample.bias points to */
} mt_texts;

/* Tokenizer, template, generation_config.json, options. With --ids a model may be without a
 * tokenizer. */
int mt_texts_open(mt_texts *t, const mt_opt *o, const char *path, mt_err *e);
void mt_texts_free(mt_texts *t);
/* Messages through the template, then ids; special tokens only where the template wrote them. */
int mt_texts_encode_chat(const mt_texts *t, const mt_json *messages, mt_ids *ids, mt_err *e);
/* The prompt of generate and trace: --prompt, --prompt-file, --ids, through the template with
 * --chat. */
int mt_texts_prompt(const mt_texts *t, const mt_opt *o, mt_ids *ids, mt_err *e);
/* Text of one token as it stands (special ones too); without a tokenizer its number. */
int mt_texts_decode(const mt_texts *t, uint32_t id, mt_buf *out, mt_err *e);
/* MT_OK if the tokenizer's ids fit the model's vocabulary. Warns where there is no tokenizer. */
int mt_texts_check_vocab(const mt_texts *t, size_t vocab, mt_err *e);
/* One {"role": …, "content": …} more. */
int mt_texts_add_message(mt_json *messages, const char *role, const char *content, size_t len);
/* A line with the effective sampling values, at -v. */
void mt_texts_log_sampling(const mt_texts *t);

/* Writes to standard output, or to path ("-": standard output). */
int mt_write_all(const char *path, const void *data, size_t n, mt_err *e);
/* Sets a count of j. MT_OK or MT_ENOMEM. */
int mt_set_int(mt_json *j, const char *key, uint64_t v);
/* j as one line on standard output; frees j. */
int mt_print_json(mt_json *j, mt_err *e);

#endif
