/* bench --collectives: the exchange between ranks alone. */
#ifndef MT_CMD_BENCH_COLLECTIVES_H
#define MT_CMD_BENCH_COLLECTIVES_H

#include "session.h"

/* Times the exact all-reduce by each algorithm, MPI's own, and the floor, by size; rank 0 prints.
 * Collective. */
int mt_bench_collectives(mt_session *s, mt_err *e);

#endif
