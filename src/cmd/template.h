/* The chat template of a model and the special tokens that it is rendered with, from the
 * tokenizer's files alone. */
#ifndef MT_CMD_TEMPLATE_H
#define MT_CMD_TEMPLATE_H

#include "mutirao/chat.h"
#include "mutirao/json.h"

typedef struct mt_template_source {
  mt_chat_template *compiled;
  char *bos, *eos;  /* as the configuration spells them, whether or not the vocabulary has them; may
                       be NULL */
  mt_json *special; /* object of the other special tokens by name; may be NULL */
} mt_template_source;

/* `file` (may be NULL) overrides the model's own template. `model` is a directory or a .gguf file.
 * MT_EUNSUPPORTED where the model has no template; MT_EIO, MT_EFORMAT, and what
 * mt_chat_template_compile returns. */
int mt_template_open(mt_template_source *t, const char *model, const char *file, mt_err *e);
void mt_template_close(mt_template_source *t);
/* The other special tokens alone, an object that is the caller's; without any for a GGUF file. */
int mt_template_special(mt_json **out, const char *model, mt_err *e);

#endif
