/* --help, written from the table. */
#include <stdio.h>
#include <string.h>

#include "opt_priv.h"

enum { LEFT = 30, WIDTH = 100 };

/* Bytes of a UTF-8 text as columns: continuation bytes take none. */
static size_t columns(const char *s, size_t n) {
  size_t c = 0;
  for (size_t i = 0; i < n; i++) c += ((unsigned char)s[i] & 0xc0) != 0x80;
  return c;
}

/* Appends text, broken at blanks so that it stays within WIDTH, each further line indented by LEFT.
 */
static int put_wrapped(mt_buf *out, size_t at, const char *text) {
  int rc = MT_OK;
  bool first = true;
  while (*text && !rc) {
    size_t len = strcspn(text, " "), wide = columns(text, len);
    if (!first && at + 1 + wide > WIDTH) {
      rc = mt_buf_printf(out, "\n%*s", LEFT, "");
      at = LEFT;
    } else if (!first) {
      rc = mt_buf_putc(out, ' ');
      at++;
    }
    first = false;
    if (!rc) rc = mt_buf_append(out, text, len);
    at += wide;
    text += len + strspn(text + len, " ");
  }
  return rc ? rc : mt_buf_putc(out, '\n');
}

/* Range or choices and default, as the table has them. */
static void spell_facts(const mt_opt_row *row, char *out, size_t size) {
  char range[96] = "";
  bool number = row->kind == MT_OPT_INT || row->kind == MT_OPT_DOUBLE ||
                row->kind == MT_OPT_DOUBLES || row->kind == MT_OPT_BIASES;
  if (row->choices)
    snprintf(range, sizeof range, "%s", row->choices);
  else if (number)
    mt_opt_write_range(row, range, sizeof range);
  const char *def = row->def ? row->def : "";
  if (*range && *def)
    snprintf(out, size, " [%s; default %s]", range, def);
  else if (*range)
    snprintf(out, size, " [%s]", range);
  else if (*def)
    snprintf(out, size, " [default %s]", def);
  else
    out[0] = 0;
}

static int put_row(mt_buf *out, const mt_opt_row *row) {
  char left[80], text[600], facts[160];
  char letter[8] = "    ";
  if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
  snprintf(left, sizeof left, "  %s--%s%s%s", letter, row->name, row->value ? " " : "",
           row->value ? row->value : "");
  spell_facts(row, facts, sizeof facts);
  snprintf(text, sizeof text, "%s%s", row->help, facts);
  size_t len = strlen(left);
  int rc = len + 2 <= LEFT ? mt_buf_printf(out, "%-*s", LEFT, left)
                           : mt_buf_printf(out, "%s\n%*s", left, LEFT, "");
  return rc ? rc : put_wrapped(out, LEFT, text);
}

static int put_options(mt_buf *out, mt_command c) {
  size_t n;
  const mt_opt_row *rows = mt_opt_rows(&n);
  int rc = MT_OK;
  for (int g = 0; g < MT_GROUP_COUNT && !rc; g++) {
    bool titled = false;
    for (size_t i = 0; i < n && !rc; i++) {
      if (rows[i].group != g || !(rows[i].commands >> c & 1)) continue;
      if (!titled) rc = mt_buf_printf(out, "\n%s:\n", mt_opt_group_title[g]);
      titled = true;
      if (!rc) rc = put_row(out, &rows[i]);
    }
  }
  return rc;
}

static int put_program(mt_buf *out) {
  int rc = mt_buf_puts(out,
                       "Usage: mutirao COMMAND [options]\n\n"
                       "Runs a language model split across MPI ranks, on CPUs. The result is the "
                       "same, bit for bit, on\n"
                       "any number of ranks and threads.\n\nCommands:\n");
  for (int c = 0; c < MT_CMD_COUNT && !rc; c++)
    rc = mt_buf_printf(out, "  %-10s %s\n", mt_opt_commands[c].name, mt_opt_commands[c].summary);
  if (rc) return rc;
  return mt_buf_puts(out,
                     "\nmutirao COMMAND --help lists all options of a command; mutirao --version "
                     "prints the version.\n"
                     "Ranks: -n N starts them with mpirun (or --via srun); mpirun -n N mutirao "
                     "COMMAND … works too.\n"
                     "Exit status: 0 done, 1 failed, 2 wrong usage, 3 bad model or input file.\n");
}

int mt_opt_write_help(mt_command c, mt_buf *out) {
  if (c == MT_CMD_COUNT) return put_program(out);
  const mt_opt_command_row *cmd = &mt_opt_commands[c];
  int rc = mt_buf_printf(out, "Usage: mutirao %s [options]\n\n%c%s.\n", cmd->name,
                         cmd->summary[0] & ~0x20, cmd->summary + 1);
  if (!rc && cmd->note) rc = mt_buf_printf(out, "%s\n", cmd->note);
  if (!rc) rc = put_options(out, c);
  if (!rc && cmd->example) rc = mt_buf_printf(out, "\nExamples:\n%s", cmd->example);
  if (!rc)
    rc = mt_buf_puts(
        out, "\nExit status: 0 done, 1 failed, 2 wrong usage, 3 bad model or input file.\n");
  return rc;
}
