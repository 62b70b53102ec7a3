/* wire: what ranks tell each other, as protobuf-c messages: the step plan that rank 0 broadcasts
 * before each step, and the handshake at start. Layer 1; the only module that includes protobuf-c.
 * Nothing here is collective, and nothing moves bytes: comm does. Bytes from outside are hostile:
 * every count and value is checked, and memory stays in proportion to the input's length.
 * Format: src/wire/mutirao.proto (Protocol Buffers, version 3). */
#ifndef MUTIRAO_WIRE_H
#define MUTIRAO_WIRE_H

#include "mutirao/base.h"

enum {
  MT_WIRE_VERSION = 1,              /* others are refused with MT_EUNSUPPORTED */
  MT_WIRE_BYTES_MOST = 64 << 20,    /* of a packed message */
  MT_WIRE_ROWS_MOST = 1 << 20,      /* of a step */
  MT_WIRE_COMMANDS_MOST = 1 << 16,  /* of a step */
  MT_WIRE_NUMBER_MOST = 0x7fffffff, /* token ids, positions, sequence numbers, lengths */
};

/* ---- step plans -------------------------------------------------------------------------- */

typedef enum mt_step_kind {
  MT_STEP_RUN = 1,   /* apply the cache commands in order, then run the rows, if any */
  MT_STEP_STOP,      /* leave the loop; this and all below: no rows, no commands */
  MT_STEP_STATS,     /* send this rank's statistics and begin new ones */
  MT_STEP_PROBE,     /* argument 1: keep attention weights from now on; 0: no more */
  MT_STEP_ATTENTION, /* send the kept weights of the first `argument` keys */
} mt_step_kind;

enum { MT_ROW_LOGITS = 1 }; /* flag of a row: its logits are wanted */

typedef enum mt_cache_op {
  MT_CACHE_FREE = 1, /* forget `sequence` */
  MT_CACHE_FORK, /* `sequence`, so far empty, begins with the first `length` tokens of `source` */
  MT_CACHE_TRUNCATE, /* keep the first `length` tokens of `sequence` */
} mt_cache_op;

typedef struct mt_cache_command {
  mt_cache_op op;
  uint32_t sequence, source, length; /* those that the operation does not use are 0 */
} mt_cache_command;

/* A row is one token at one position of one sequence; rows stand in the order in which they are
 * computed. */
typedef struct mt_step_plan {
  uint64_t step; /* counts up */
  mt_step_kind kind;
  size_t n_rows;
  uint32_t *token, *position, *sequence, *flags; /* [n_rows] each; flags: MT_ROW_* */
  uint32_t
      *planned; /* [n_rows] tokens that the row's request plans in all: some ropes depend on it */
  uint64_t argument; /* of MT_STEP_PROBE and MT_STEP_ATTENTION, else 0 */
  size_t n_commands;
  mt_cache_command *command; /* [n_commands] */
} mt_step_plan;

/* Replaces out's content. MT_EINVAL where the plan breaks a rule above, MT_ERANGE where a count or
 * value is beyond its bound, MT_ENOMEM. */
int mt_wire_pack_step(const mt_step_plan *plan, mt_buf *out, mt_err *e);
/* Fills *out, whose arrays the caller then frees with mt_step_plan_free; on failure *out is empty.
 * MT_EFORMAT for bytes that are no plan or break a rule, MT_EUNSUPPORTED for another version,
 * MT_ERANGE, MT_ENOMEM. */
int mt_wire_unpack_step(const void *data, size_t n, mt_step_plan *out, mt_err *e);
/* Frees the arrays, not the struct, and clears it. */
void mt_step_plan_free(mt_step_plan *plan);

/* ---- handshake --------------------------------------------------------------------------- */

typedef struct mt_hello {
  char program[64];     /* version of the program, UTF-8 */
  char isa[32];         /* kernels in use; for people: all give the same bits */
  uint64_t kernel_hash; /* of the numeric self-test */
  uint64_t model_hash;  /* of the model's description and files */
  uint64_t config_hash; /* of the settings that must be equal everywhere */
  uint32_t threads;     /* for people */
} mt_hello;

/* As for steps. */
int mt_wire_pack_hello(const mt_hello *hello, mt_buf *out, mt_err *e);
int mt_wire_unpack_hello(const void *data, size_t n, mt_hello *out, mt_err *e);
/* MT_OK if the two may work together; else MT_EINVAL and what differs, "program 1.0 here, 1.1 on
 * rank 3". Instruction set and threads may differ. */
int mt_wire_compare_hello(const mt_hello *here, const mt_hello *there, int there_rank, mt_err *e);

#endif
