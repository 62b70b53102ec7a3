/* Tokens and syntax tree of a template. Everything lives in the template's arena and is read-only
 * once compiled. */
#ifndef CHAT_AST_H
#define CHAT_AST_H

#include "arena.h"
#include "mutirao/chat.h"

/* ---- tokens: single-character operators are their own kind --------------------------------- */

enum {
  TOK_EOF = 0,
  TOK_DATA = 128,
  TOK_VAR_BEGIN,
  TOK_VAR_END,
  TOK_BLOCK_BEGIN,
  TOK_BLOCK_END,
  TOK_NAME,
  TOK_STRING, /* p, len: the value, escapes resolved */
  TOK_INT,
  TOK_FLOAT,
  TOK_EQ,
  TOK_NE,
  TOK_LE,
  TOK_GE,
  TOK_FLOORDIV,
  TOK_POW
};

typedef struct token {
  int kind;
  unsigned line;
  const char *p;
  size_t len;
  union {
    int64_t i;
    double f;
  } num;
} token;

/* ---- names --------------------------------------------------------------------------------- */

/* One per distinct name of a template, so that names compare by pointer. */
typedef struct sym {
  const char *p; /* 0-terminated */
  size_t len;
  struct sym *next;
  bool bound;    /* set, looped over, a parameter or a macro somewhere */
  bool probed;   /* tested with `is defined` somewhere: calling it may be guarded */
  bool attr_set; /* assigned as an attribute of a namespace */
} sym;

/* ---- tree ---------------------------------------------------------------------------------- */

typedef enum node_kind {
  /* expressions */
  N_CONST_NONE,
  N_CONST_BOOL,  /* op */
  N_CONST_INT,   /* num.i */
  N_CONST_FLOAT, /* num.f */
  N_CONST_STR,   /* text, len */
  N_NAME,        /* name */
  N_LIST,        /* kids */
  N_TUPLE,       /* kids */
  N_DICT,        /* kids: key, value, key, value … */
  N_NOT,         /* a */
  N_NEG,         /* a */
  N_POS,         /* a */
  N_AND,         /* a, b */
  N_OR,          /* a, b */
  N_ARITH,       /* a op b */
  N_CONCAT,      /* kids joined by ~ */
  N_COMPARE,     /* a, then kids of kind N_OPERAND */
  N_OPERAND,     /* op, a */
  N_IF_EXPR,     /* a if b else c (c may be NULL) */
  N_ATTR,        /* a . name */
  N_ITEM,        /* a [ b ] */
  N_SLICE,       /* a : b : c, each may be NULL */
  N_CALL,        /* a ( kids ) */
  N_FILTER,      /* a | name ( kids ); a NULL: applies to the body of its statement */
  N_TEST,        /* a is name ( kids ); op: negated */
  N_KWARG,       /* name = a, among the kids of a call */
  N_STAR,        /* *a */
  N_STAR_STAR,   /* **a */
  N_NS_ATTR,     /* target name . attr: a (N_NAME), name */
  /* statements */
  N_DATA,      /* text, len */
  N_OUTPUT,    /* a */
  N_IF,        /* kids: N_BRANCH … */
  N_BRANCH,    /* a: condition (NULL for else), kids */
  N_FOR,       /* a: target, b: iterable, c: filter or NULL, kids: body, alt: else; op: recursive */
  N_SET,       /* a: target, b: value */
  N_SET_BLOCK, /* a: target, b: filter chain or NULL, kids */
  N_MACRO,     /* name, params, kids */
  N_CALL_BLOCK,   /* a: N_CALL, params, kids */
  N_FILTER_BLOCK, /* b: filter chain, kids */
  N_WITH,         /* params: targets with values, kids */
  N_SCOPE,        /* kids in a scope of their own (generation) */
  N_BREAK,
  N_CONTINUE,
  N_N_KINDS
} node_kind;

typedef struct node node;
typedef struct node_list {
  node **v;
  size_t n, cap;
} node_list;

struct node {
  node_kind kind;
  int op; /* token kind of an operator, OP_IN, OP_NOT_IN, or a flag */
  unsigned line, depth;
  node *a, *b, *c;
  const sym *name;
  const void *def; /* N_FILTER, N_TEST: their table entry */
  const char *text;
  size_t len;
  union {
    int64_t i;
    double f;
  } num;
  node_list kids, params, alt; /* params: N_KWARG with name; a: default or NULL */
};

enum { OP_IN = 256, OP_NOT_IN };

enum { MAX_SOURCE_BYTES = 1 << 20, MAX_TREE_DEPTH = 400, MAX_NESTING = 200, N_SYM_BUCKETS = 256 };

struct mt_chat_template {
  arena mem;
  trap trap; /* only while compiling */
  char *name;
  const char *source; /* newlines normalised */
  size_t source_len;
  sym *syms[N_SYM_BUCKETS];
  node_list body;
  node_list texts, constants; /* N_DATA, N_CONST_STR: what literals enumerate */
  token *tok;
  size_t n_tok, cap_tok;
};

sym *mt_sym_intern(mt_chat_template *t, const char *p, size_t len);
const sym *mt_sym_find(const mt_chat_template *t, const char *p,
                       size_t len); /* NULL: the template never names it */

/* Fills t->tok from t->source; the last token is TOK_EOF. */
void mt_chat_lex(mt_chat_template *t);

/* The parser's state, shared by parse_stmt.c and parse_expr.c. */
typedef struct parser {
  mt_chat_template *t;
  const token *at;
  unsigned nesting; /* of calls of the parser, bounded by MAX_NESTING */
  unsigned loops;   /* loops around, within the innermost macro */
} parser;

void mt_chat_parse(mt_chat_template *t);

/* parse_expr.c */
enum { PARSE_NO_IF = 1, PARSE_STOP_IN = 2, PARSE_STOP_RECURSIVE = 4, PARSE_PARENS = 8 };
node *mt_chat_parse_expression(parser *p, int flags);
node *mt_chat_parse_tuple(parser *p,
                          int flags); /* an expression, or several with commas: a tuple */
node *mt_chat_parse_filters(parser *p, node *a, bool first_has_no_pipe);
node *mt_chat_parse_unary_expression(parser *p);
node *mt_chat_parse_target(parser *p, int flags); /* what is assigned to; marks names as bound */

/* shared small change of the two */
node *mt_node_new(parser *p, node_kind kind);
void mt_node_push(parser *p, node_list *l, node *n);
node *mt_node_close(parser *p,
                    node *n); /* computes depth from the children, refuses what is too deep */
bool mt_chat_parse_accept(parser *p, int kind);
bool mt_chat_parse_accept_name(parser *p, const char *name);
bool mt_chat_parse_is_name(const parser *p, const char *name);
const token *mt_chat_parse_expect(parser *p, int kind, const char *what);
void mt_chat_parse_enter(parser *p);
void mt_chat_parse_leave(parser *p);
noreturn void mt_chat_parse_fail(parser *p, const char *what);

/* check.c: refuses what could never run. */
void mt_chat_check(mt_chat_template *t);

#endif
