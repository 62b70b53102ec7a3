/* chat: sandboxed chat-template interpreter. Layer 3; includes base and json. Nothing here is
 * collective.
 *
 * The language is the part of Jinja (https://jinja.palletsprojects.com, 3.1) that chat templates
 * use, rendered as the transformers library does: trim_blocks, lstrip_blocks, one trailing newline
 * of the template dropped, loop controls, generation blocks, `tojson` as Python's json.dumps with
 * ensure_ascii=False. docs/chat-templates.md lists all of it. A construct outside it is refused
 * when the template is compiled, by name and line, never at the first request.
 *
 * What comes out carries spans: MT_SPAN_TEMPLATE for what the template's author wrote (its text,
 * its constants, the special tokens passed in), MT_SPAN_USER for what derives from messages, tools,
 * documents and kwargs. Origin follows each byte through concatenation, slices, filters and
 * methods; what cannot be proven to be template text is user text. So special-token text in a
 * message is never taken for a special token. */
#ifndef MUTIRAO_CHAT_H
#define MUTIRAO_CHAT_H

#include <time.h>

#include "mutirao/base.h"
#include "mutirao/json.h"

typedef struct mt_chat_template mt_chat_template;

/* Compiles `len` bytes of UTF-8; `name` is for messages ("tokenizer_config.json"). Errors read
 * "name:line: ...": MT_EFORMAT (syntax, or a built-in without an argument that it needs),
 * MT_EUNSUPPORTED (a statement, filter, test, function, method or argument that we do not have),
 * MT_ELIMIT (larger than 1 MiB or nested too deeply), MT_ENOMEM. The result is read-only: threads
 * may share it. */
int mt_chat_template_compile(mt_chat_template **out, const char *source, size_t len,
                             const char *name, mt_err *e);
void mt_chat_template_free(mt_chat_template *t); /* NULL allowed */

/* What one rendering gets. Zero-initialize; everything may be absent. Borrowed for the call. */
typedef struct mt_chat_input {
  const mt_json *messages;  /* array; absent: no messages */
  const mt_json *tools;     /* array; absent: none */
  const mt_json *documents; /* array; absent: none */
  const mt_json *kwargs;    /* object: further variables (chat_template_kwargs); user text */
  bool add_generation_prompt;
  const char *bos_token, *eos_token; /* template text; NULL: undefined in the template */
  const mt_json *special_tokens;     /* object of strings (unk_token, ...): template text too */
  int64_t now;                 /* Unix seconds for strftime_now, local time; <= 0: the clock */
  const struct tm *local_time; /* if not NULL, shown instead (tm_wday, tm_yday are derived) */
  size_t max_steps, max_bytes; /* sandbox; 0: defaults that grow with the size of the input */
} mt_chat_input;

/* Renders into *out, which the caller zero-initialized and frees with mt_text_free (on failure too;
 * it is then empty). MT_EINVAL: raise_exception, with exactly the template's message; or a runtime
 * error ("name:line: ...": an undefined value used, types that do not fit; or kwargs that name
 * messages, tools, documents or add_generation_prompt). MT_ELIMIT: steps, memory or recursion
 * beyond the sandbox. MT_ENOMEM. Uses up to 1 MiB of stack. */
int mt_chat_render(const mt_chat_template *t, const mt_chat_input *in, mt_text *out, mt_err *e);

/* Texts that the template may emit: its literal text, then its string constants, in the order of
 * the source. Not 0-terminated; owned by t. NULL for i beyond the last. */
size_t mt_chat_template_n_literals(const mt_chat_template *t);
const char *mt_chat_template_literal(const mt_chat_template *t, size_t i, size_t *len);

/* The role markers that the template really emits: renders short probe conversations and collects,
 * in order of appearance, each distinct piece of template text shaped like a special token:
 * <|name|>, its full-width twin of DeepSeek, <start_of_turn>. If no probe renders, the literals are
 * searched instead. *out is a JSON array of strings; the caller frees it. A caller checks that each
 * is one special token of the tokenizer, or warns that template and model do not fit. bos_token and
 * eos_token as above. MT_ENOMEM or MT_OK. */
int mt_chat_template_markers(const mt_chat_template *t, const char *bos_token,
                             const char *eos_token, mt_json **out, mt_err *e);

#endif
