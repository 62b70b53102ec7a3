/* The commands of mutirao-rank. Each runs to its end and returns the exit status; messages have
 * been printed. */
#ifndef MT_CMD_H
#define MT_CMD_H

#include "mutirao/opt.h"

/* These run the model: every rank calls them. */
int mt_cmd_generate(const mt_opt *o);
int mt_cmd_chat(const mt_opt *o);
int mt_cmd_score(const mt_opt *o);
int mt_cmd_logits(const mt_opt *o);
int mt_cmd_bench(const mt_opt *o);
int mt_cmd_trace(const mt_opt *o);
/* One process, no MPI. */
int mt_cmd_tokenize(const mt_opt *o);
int mt_cmd_inspect(const mt_opt *o);
/* --describe: this machine as one JSON object on standard output. */
int mt_cmd_describe(void);

#endif
