/* What a run took: tokens, time, passes through the layers, bytes read per rank and in total. */
#ifndef MT_CMD_REPORT_H
#define MT_CMD_REPORT_H

#include "session.h"

typedef struct mt_report {
  uint64_t prompt_tokens, output_tokens;
  uint64_t ttft_ns;                  /* from submission to the first token */
  uint64_t decode_ns, decode_tokens; /* tokens after the first, and the time that they took */
  int n_ranks;
  mt_engine_counts counts;
  mt_model_stats *rank; /* [n_ranks] */
} mt_report;

/* Fills counts and rank from the engine. Rank 0, while the others follow. */
int mt_report_gather(mt_report *r, mt_session *s, mt_err *e);
void mt_report_free(mt_report *r);
/* Two lines at the usual level of standard error. */
void mt_report_log(const mt_report *r);
#endif
