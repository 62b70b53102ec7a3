/* mutirao-rank: one rank of a job, or alone. `mutirao` starts it. */
#include <signal.h>
#include <stdio.h>

#include "cmd.h"
#include "mutirao/cpu.h"

typedef int command_fn(const mt_opt *o);

static command_fn *const commands[MT_CMD_COUNT] = {
    [MT_CMD_GENERATE] = mt_cmd_generate, [MT_CMD_CHAT] = mt_cmd_chat,
    [MT_CMD_SCORE] = mt_cmd_score,       [MT_CMD_LOGITS] = mt_cmd_logits,
    [MT_CMD_TOKENIZE] = mt_cmd_tokenize, [MT_CMD_INSPECT] = mt_cmd_inspect,
    [MT_CMD_BENCH] = mt_cmd_bench,       [MT_CMD_TRACE] = mt_cmd_trace,
};

static int print_help(mt_command c) {
  mt_buf text = {0};
  int rc = mt_opt_write_help(c, &text);
  if (!rc && (fputs(text.data, stdout) < 0 || fflush(stdout))) rc = MT_ESYSTEM;
  mt_buf_free(&text);
  return mt_err_exit_status(rc);
}

static int run(const mt_opt *o) {
  switch (mt_opt_get_action(o)) {
    case MT_OPT_HELP: return print_help(mt_opt_get_command(o));
    case MT_OPT_VERSION: printf("mutirao-rank %s\n", MT_VERSION); return 0;
    case MT_OPT_DESCRIBE: return mt_cmd_describe();
    case MT_OPT_RUN: break;
  }
  mt_opt_apply_log(o);
  return commands[mt_opt_get_command(o)](o);
}

int main(int argc, char **argv) {
  mt_err e = {0};
  mt_opt *o = NULL;
  /* A line is one write, or mpirun puts what goes to standard output into the middle of it. */
  setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
  signal(SIGXFSZ, SIG_IGN); /* beyond ulimit -f, writing fails */
  /* Before anything that is compiled for a newer CPU. */
  int rc = mt_cpu_baseline_ok(&e) ? MT_OK : MT_EUNSUPPORTED;
  if (!rc) rc = mt_opt_parse(&o, MT_OPT_RANK, argc, argv, &e);
  if (rc) {
    mt_log(MT_LOG_ERROR, "%s", e.msg);
    return rc == MT_EUNSUPPORTED ? 1 : mt_err_exit_status(rc);
  }
  int status = run(o);
  if (!status && (fflush(stdout) || ferror(stdout))) { /* a full disk is no success */
    mt_log(MT_LOG_ERROR, "standard output: writing failed");
    status = mt_err_exit_status(MT_ESYSTEM);
  }
  mt_opt_free(o);
  return status;
}
