/* Step plans. The same rules hold before packing and after unpacking. */
#include <stdlib.h>
#include <string.h>

#include "mutirao.pb-c.h"
#include "wire_impl.h"

void mt_step_plan_free(mt_step_plan *p) {
  if (!p) return;
  free(p->token);
  free(p->position);
  free(p->sequence);
  free(p->flags);
  free(p->planned);
  free(p->command);
  memset(p, 0, sizeof *p);
}

static int check_command(const mt_cache_command *c, size_t i, int broken, mt_err *e) {
  bool fork = c->op == MT_CACHE_FORK, free_op = c->op == MT_CACHE_FREE;
  if (!fork && !free_op && c->op != MT_CACHE_TRUNCATE)
    return mt_err_set(e, broken, "cache command %zu: unknown operation %d", i, (int)c->op);
  if (c->sequence > MT_WIRE_NUMBER_MOST || c->source > MT_WIRE_NUMBER_MOST ||
      c->length > MT_WIRE_NUMBER_MOST)
    return mt_err_set(e, MT_ERANGE, "cache command %zu: number beyond %d", i, MT_WIRE_NUMBER_MOST);
  if ((!fork && c->source) || (free_op && c->length))
    return mt_err_set(e, broken, "cache command %zu: a field that its operation has not", i);
  if (fork && c->source == c->sequence)
    return mt_err_set(e, broken, "cache command %zu: sequence %u forked from itself", i,
                      c->sequence);
  return MT_OK;
}

static int check_row(const mt_step_plan *p, size_t i, int broken, mt_err *e) {
  if (p->token[i] > MT_WIRE_NUMBER_MOST || p->position[i] > MT_WIRE_NUMBER_MOST ||
      p->sequence[i] > MT_WIRE_NUMBER_MOST || p->planned[i] > MT_WIRE_NUMBER_MOST)
    return mt_err_set(e, MT_ERANGE, "row %zu: number beyond %d", i, MT_WIRE_NUMBER_MOST);
  if (p->flags[i] & ~(uint32_t)MT_ROW_LOGITS)
    return mt_err_set(e, broken, "row %zu: unknown flags %#x", i, p->flags[i]);
  return MT_OK;
}

/* `broken` is the code for a plan that makes no sense. */
static int check_plan(const mt_step_plan *p, int broken, mt_err *e) {
  if (p->kind < MT_STEP_RUN || p->kind > MT_STEP_ATTENTION)
    return mt_err_set(e, broken, "unknown kind of step, %d", (int)p->kind);
  if (p->kind != MT_STEP_RUN && (p->n_rows || p->n_commands))
    return mt_err_set(e, broken, "a step of kind %d with rows or commands", (int)p->kind);
  if (p->argument && p->kind != MT_STEP_PROBE && p->kind != MT_STEP_ATTENTION)
    return mt_err_set(e, broken, "a step of kind %d with an argument", (int)p->kind);
  if (p->n_rows > MT_WIRE_ROWS_MOST)
    return mt_err_set(e, MT_ERANGE, "a step of %zu rows, of at most %d", p->n_rows,
                      MT_WIRE_ROWS_MOST);
  if (p->n_commands > MT_WIRE_COMMANDS_MOST)
    return mt_err_set(e, MT_ERANGE, "a step of %zu cache commands, of at most %d", p->n_commands,
                      MT_WIRE_COMMANDS_MOST);
  int rc = MT_OK;
  for (size_t i = 0; !rc && i < p->n_rows; i++) rc = check_row(p, i, broken, e);
  for (size_t i = 0; !rc && i < p->n_commands; i++)
    rc = check_command(&p->command[i], i, broken, e);
  return rc;
}

int mt_wire_pack_step(const mt_step_plan *p, mt_buf *out, mt_err *e) {
  Mutirao__CacheCommand *command = NULL, **list = NULL;
  Mutirao__StepPlan m = MUTIRAO__STEP_PLAN__INIT;
  int rc = check_plan(p, MT_EINVAL, e);
  if (rc) return rc;
  if (p->n_commands) {
    command = mt_calloc(p->n_commands, sizeof *command);
    list = mt_calloc(p->n_commands, sizeof *list);
    if (!command || !list) {
      rc = mt_err_set(e, MT_ENOMEM, "no memory for %zu cache commands", p->n_commands);
      goto out;
    }
  }
  for (size_t i = 0; i < p->n_commands; i++) {
    mutirao__cache_command__init(&command[i]);
    command[i].op = (Mutirao__CacheCommand__Op)p->command[i].op;
    command[i].sequence = p->command[i].sequence;
    command[i].source = p->command[i].source;
    command[i].length = p->command[i].length;
    list[i] = &command[i];
  }
  m.version = MT_WIRE_VERSION;
  m.step = p->step;
  m.kind = (Mutirao__StepPlan__Kind)p->kind;
  m.n_token = m.n_position = m.n_sequence = m.n_flags = m.n_planned = p->n_rows;
  m.token = p->token;
  m.position = p->position;
  m.sequence = p->sequence;
  m.flags = p->flags;
  m.planned = p->planned;
  m.argument = p->argument;
  m.n_cache = p->n_commands;
  m.cache = list;
  rc = mt_wire_pack(&m.base, out, e);
out:
  free(command);
  free(list);
  return rc;
}

static uint32_t *copy(const uint32_t *from, size_t n) {
  uint32_t *to = mt_malloc(n, sizeof *to);
  if (to && n) memcpy(to, from, n * sizeof *to);
  return to;
}

/* The message's arrays are the plain struct's, once their lengths agree. */
static int take(const Mutirao__StepPlan *m, mt_step_plan *p, mt_err *e) {
  if (m->n_position != m->n_token || m->n_sequence != m->n_token || m->n_flags != m->n_token ||
      m->n_planned != m->n_token)
    return mt_err_set(
        e, MT_EFORMAT,
        "a step plan of %zu tokens, %zu positions, %zu sequences, %zu flags, %zu plans", m->n_token,
        m->n_position, m->n_sequence, m->n_flags, m->n_planned);
  if (m->n_token > MT_WIRE_ROWS_MOST || m->n_cache > MT_WIRE_COMMANDS_MOST)
    return mt_err_set(e, MT_ERANGE, "a step of %zu rows and %zu cache commands, of at most %d, %d",
                      m->n_token, m->n_cache, MT_WIRE_ROWS_MOST, MT_WIRE_COMMANDS_MOST);
  p->step = m->step;
  p->kind = (mt_step_kind)m->kind;
  p->n_rows = m->n_token;
  p->n_commands = m->n_cache;
  p->token = copy(m->token, m->n_token);
  p->position = copy(m->position, m->n_token);
  p->sequence = copy(m->sequence, m->n_token);
  p->flags = copy(m->flags, m->n_token);
  p->planned = copy(m->planned, m->n_token);
  p->argument = m->argument;
  p->command = mt_calloc(m->n_cache, sizeof *p->command);
  if (!p->token || !p->position || !p->sequence || !p->flags || !p->planned || !p->command)
    return mt_err_set(e, MT_ENOMEM, "no memory for a step of %zu rows", m->n_token);
  for (size_t i = 0; i < m->n_cache; i++)
    p->command[i] = (mt_cache_command){(mt_cache_op)m->cache[i]->op, m->cache[i]->sequence,
                                       m->cache[i]->source, m->cache[i]->length};
  return MT_OK;
}

int mt_wire_unpack_step(const void *data, size_t n, mt_step_plan *out, mt_err *e) {
  int rc;
  memset(out, 0, sizeof *out);
  Mutirao__StepPlan *m =
      mt_wire_unpack(&mutirao__step_plan__descriptor, data, n, "step plan", &rc, e);
  if (!m) return rc;
  rc = mt_wire_check_version(m->version, "step plan", e);
  if (!rc) rc = take(m, out, e);
  if (!rc) rc = check_plan(out, MT_EFORMAT, e);
  if (rc) mt_step_plan_free(out);
  mutirao__step_plan__free_unpacked(m, NULL);
  return rc;
}
