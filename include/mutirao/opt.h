/* opt: the command line. One table says what every command and option is called, takes and means;
 * parsing, checking and
 * --help all come from it, in `mutirao` and in `mutirao-rank` alike. Layer 1. Nothing here is
 * collective. */
#ifndef MUTIRAO_OPT_H
#define MUTIRAO_OPT_H

#include "mutirao/base.h"

typedef enum mt_command {
  MT_CMD_GENERATE,
  MT_CMD_CHAT,
  MT_CMD_SCORE,
  MT_CMD_LOGITS,
  MT_CMD_TOKENIZE,
  MT_CMD_INSPECT,
  MT_CMD_BENCH,
  MT_CMD_TRACE,
  MT_CMD_COUNT
} mt_command;

typedef enum mt_opt_kind {
  MT_OPT_FLAG,    /* no value */
  MT_OPT_COUNT,   /* no value; counts how often it is given (-vv) */
  MT_OPT_INT,     /* int within the row's range */
  MT_OPT_U64,     /* 64-bit number, decimal or 0x… */
  MT_OPT_DOUBLE,  /* finite, within the row's range */
  MT_OPT_SIZE,    /* bytes, with an optional K, M, G or T (powers of 1024) */
  MT_OPT_STRING,  /* any text */
  MT_OPT_PATH,    /* a file or directory; "-" where the help says so */
  MT_OPT_CHOICE,  /* one of the row's words */
  MT_OPT_STRINGS, /* any text, may be repeated */
  MT_OPT_IDS,     /* token ids, comma-separated; @FILE reads them from a file */
  MT_OPT_DOUBLES, /* numbers within the range, comma-separated */
  MT_OPT_BIASES   /* ID=VALUE, may be repeated */
} mt_opt_kind;

/* What the command line asks for. */
typedef enum mt_opt_action {
  MT_OPT_RUN,     /* the command */
  MT_OPT_HELP,    /* --help: mt_opt_write_help, exit status 0 */
  MT_OPT_VERSION, /* --version */
  MT_OPT_DESCRIBE /* --describe, mutirao-rank only: this machine as JSON */
} mt_opt_action;

/* Which program parses: some options only the launcher takes (they say how ranks are started), one
 * only a rank. */
typedef enum mt_opt_program { MT_OPT_LAUNCHER, MT_OPT_RANK } mt_opt_program;

/* A row of the table, for those who walk it (the configuration file's schema, tests). */
typedef struct mt_opt_row {
  const char *name; /* long name without dashes; unique among the options of one command */
  char letter;      /* short form, or 0 */
  mt_opt_kind kind;
  int group;         /* heading of --help */
  uint32_t commands; /* bit 1 << mt_command for every command that takes it */
  const char *value; /* what --help calls the value; NULL for flags */
  const char *def;   /* value where it is not given, in the form that one would type; NULL: none */
  double min, max;   /* legal range of numbers and lists of numbers */
  bool above;        /* min itself is not legal */
  const char *choices; /* MT_OPT_CHOICE: legal words, separated by '|' */
  const char *help;
} mt_opt_row;

const mt_opt_row *mt_opt_rows(size_t *n);
const char *mt_opt_command_name(mt_command c);
/* True if the command runs the model over ranks; the others are one process and never touch MPI. */
bool mt_opt_command_needs_ranks(mt_command c);
/* The command of that name; MT_CMD_COUNT if there is none. */
mt_command mt_opt_command_by_name(const char *name);

typedef struct mt_opt mt_opt;

/* Reads `argv` (argv[0] is the program; the command comes first, then its options). *out is the
 * caller's, to be given to mt_opt_free; it keeps pointers into argv. MT_EINVAL with one line that
 * names the nearest option, the legal range or what is missing; MT_EIO, MT_EFORMAT for a list read
 * from a file; MT_ENOMEM. */
int mt_opt_parse(mt_opt **out, mt_opt_program program, int argc, char *const *argv, mt_err *e);
/* The same without defaults and without asking whether the options go together: what the launcher
 * needs before it has read the configuration file. */
int mt_opt_scan(mt_opt **out, mt_opt_program program, int argc, char *const *argv, mt_err *e);
void mt_opt_free(mt_opt *o); /* NULL allowed */

mt_opt_action mt_opt_get_action(const mt_opt *o);
/* MT_CMD_COUNT where none was given (mutirao --help, --version, --describe). */
mt_command mt_opt_get_command(const mt_opt *o);

/* Reading options. `name` must be in the table. An option that this command does not take answers
 * as its row's default, so that shared code may ask for it. */
bool mt_opt_is_set(const mt_opt *o, const char *name); /* given, not merely defaulted */
bool mt_opt_flag(const mt_opt *o, const char *name);
int mt_opt_int(const mt_opt *o, const char *name);       /* INT, COUNT; 0 without value */
uint64_t mt_opt_u64(const mt_opt *o, const char *name);  /* U64, SIZE; 0 without value */
double mt_opt_double(const mt_opt *o, const char *name); /* DOUBLE; 0 without value */
const char *mt_opt_string(const mt_opt *o,
                          const char *name); /* STRING, PATH, CHOICE; NULL without value */
/* Lists: the number of entries; *out (owned by o) is their array. */
size_t mt_opt_strings(const mt_opt *o, const char *name, const char *const **out);
size_t mt_opt_ids(const mt_opt *o, const char *name, const uint32_t **out);
size_t mt_opt_doubles(const mt_opt *o, const char *name, const double **out);
typedef struct mt_opt_bias {
  uint32_t id;
  float value;
} mt_opt_bias;
size_t mt_opt_biases(const mt_opt *o, const char *name, const mt_opt_bias **out);

/* What was given, in order: row and text (NULL for flags) of the i-th option. False beyond the
 * last. */
bool mt_opt_get_given(const mt_opt *o, size_t i, const mt_opt_row **row, const char **text);
/* True for rows that only the launcher takes (--hostfile, --via, --config). */
bool mt_opt_row_is_launcher(const mt_opt_row *row);

/* Checks one value as the command line would ("--name value"); for the configuration file. */
int mt_opt_check_value(const mt_opt_row *row, const char *value, mt_err *e);

/* A list of token ids as text: numbers up to `max`, separated by commas and blanks; empty text is
 * an empty list. *ids is malloc'ed, the caller's. MT_EINVAL names the entry; `name` is for
 * messages. */
int mt_opt_parse_ids(const char *name, const char *text, uint32_t max, uint32_t **ids, size_t *n,
                     mt_err *e);

/* The model: -m, or the one that comes with the program (../../models/mirim or
 * ../share/mutirao/models/mirim from the executable's directory). *path is malloc'ed, the caller's.
 * MT_EIO where there is none. */
int mt_opt_find_model(const mt_opt *o, char **path, mt_err *e);

/* Complete help: of a command, or (MT_CMD_COUNT) of the program. MT_OK or MT_ENOMEM. */
int mt_opt_write_help(mt_command c, mt_buf *out);

/* Levels of -v and -q to mt_log_set_level. */
void mt_opt_apply_log(const mt_opt *o);

#endif
