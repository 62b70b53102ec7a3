/* How far loading is, told on standard error by rank 0: on a terminal one line that changes, else
 * (with -v) a line for each quarter. */
#ifndef MT_CMD_PROGRESS_H
#define MT_CMD_PROGRESS_H

#include "mutirao/base.h"

typedef struct mt_progress {
  int n_ranks;
  bool terminal;      /* the line can be overwritten */
  bool shown;         /* there is one to remove */
  uint64_t start_ns;  /* of the first call, or of the first after less was done than before */
  uint64_t done;      /* bytes at the last call */
  uint64_t next_ns;   /* when the line changes next */
  unsigned next_part; /* quarter that is told next */
} mt_progress;

void mt_progress_begin(mt_progress *p, int n_ranks);
/* mt_model_options.progress, with an mt_progress as its argument. */
void mt_progress_tell(void *progress, uint64_t done_bytes, uint64_t total_bytes);
/* Removes the line. */
void mt_progress_end(mt_progress *p);

#endif
