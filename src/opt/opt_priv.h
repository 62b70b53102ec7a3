/* Private to opt: the table's neighbours and the shape of a parsed value. */
#ifndef MT_OPT_PRIV_H
#define MT_OPT_PRIV_H

#include "mutirao/opt.h"

enum { MT_OPT_MAX_ROWS = 96 };

/* Headings of --help, in the order in which they are shown. */
enum {
  MT_GROUP_INPUT,
  MT_GROUP_OUTPUT,
  MT_GROUP_SAMPLING,
  MT_GROUP_MEASURE,
  MT_GROUP_MODEL,
  MT_GROUP_RANKS,
  MT_GROUP_GENERAL,
  MT_GROUP_COUNT
};
extern const char *const mt_opt_group_title[MT_GROUP_COUNT];

typedef struct mt_opt_command_row {
  const char *name;
  bool needs_ranks;
  const char *summary;
  const char *note;    /* lines before the options, or NULL */
  const char *example; /* lines after them */
} mt_opt_command_row;
extern const mt_opt_command_row mt_opt_commands[MT_CMD_COUNT];

/* Which options go together. `names` is a list separated by spaces. */
typedef enum mt_opt_rule_kind {
  MT_RULE_ONE_OF,  /* exactly one of them */
  MT_RULE_AT_MOST, /* no two of them */
  MT_RULE_NEEDS    /* the first only with one of the others */
} mt_opt_rule_kind;
typedef struct mt_opt_rule {
  uint32_t commands;
  mt_opt_rule_kind kind;
  const char *names;
} mt_opt_rule;
extern const mt_opt_rule mt_opt_rules[];
extern const size_t mt_opt_n_rules;

typedef struct mt_opt_value {
  int given;        /* times it was given */
  double number;    /* INT, DOUBLE */
  uint64_t bits;    /* U64, SIZE */
  const char *text; /* STRING, PATH, CHOICE */
  void *list;       /* lists: entries of the kind's type, owned */
  size_t n, cap;
} mt_opt_value;

typedef struct mt_opt_given {
  int index; /* of the row */
  const char *text;
} mt_opt_given;

struct mt_opt {
  mt_opt_program program;
  mt_opt_action action;
  mt_command command;
  mt_opt_value value[MT_OPT_MAX_ROWS]; /* indexed like the rows */
  mt_opt_given *given;                 /* in the order of the command line; at most argc of them */
  size_t n_given;
};

/* Reads `text` into v as the row says. The message names the option and the legal range. */
int mt_opt_read_value(const mt_opt_row *row, const char *text, mt_opt_value *v, mt_err *e);
void mt_opt_value_fini(mt_opt_value *v);
/* "0 to 1", "above 0, to 1". */
void mt_opt_write_range(const mt_opt_row *row, char *out, size_t size);

/* Nearest of n words to `word` by edit distance, or NULL where none is near enough to be meant. */
const char *mt_opt_nearest(const char *word, const char *const *words, size_t n);

#endif
