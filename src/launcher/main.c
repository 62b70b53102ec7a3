/* mutirao: what people type. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

/* Puts the configuration file's options between the command and the command line's own. */
static int merge_config(const mt_opt *scanned, int argc, char *const *argv, mt_args *out,
                        mt_err *e) {
  int rc = mt_args_add(out, argv[0], e);
  if (!rc) rc = mt_args_add(out, argv[1], e);
  if (!rc) rc = mt_launcher_read_config(mt_opt_string(scanned, "config"), scanned, out, e);
  for (int i = 2; i < argc && !rc; i++) rc = mt_args_add(out, argv[i], e);
  return rc;
}

static int print_help(const mt_opt *o, mt_err *e) {
  mt_buf text = {0};
  int rc = mt_opt_write_help(mt_opt_get_command(o), &text);
  if (rc)
    mt_err_set(e, rc, "no memory for the help text");
  else if (fputs(text.data, stdout) < 0 || fflush(stdout))
    rc = mt_err_set(e, MT_ESYSTEM, "cannot write the help text");
  mt_buf_free(&text);
  return rc;
}

static int run(int argc, char *const *argv, mt_args *args, mt_err *e) {
  mt_opt *scanned = NULL, *o = NULL;
  int rc = mt_opt_scan(&scanned, MT_OPT_LAUNCHER, argc, argv, e);
  if (rc) return rc;
  mt_opt_action action = mt_opt_get_action(scanned);
  if (action == MT_OPT_HELP) {
    rc = print_help(scanned, e);
  } else if (action == MT_OPT_VERSION) {
    if (printf("mutirao %s\n", MT_VERSION) < 0 || fflush(stdout))
      rc = mt_err_set(e, MT_ESYSTEM, "cannot write the version");
  } else {
    if (mt_opt_is_set(scanned, "config"))
      rc = merge_config(scanned, argc, argv, args, e);
    else
      for (int i = 0; i < argc && !rc; i++) rc = mt_args_add(args, argv[i], e);
    if (!rc) rc = mt_opt_parse(&o, MT_OPT_LAUNCHER, (int)args->n, args->v, e);
    if (!rc) {
      mt_opt_apply_log(o);
      rc = mt_launcher_start(o, e);
    }
  }
  mt_opt_free(o);
  mt_opt_free(scanned);
  return rc;
}

int main(int argc, char **argv) {
  mt_err e = {0};
  mt_args args = {0};
  int rank, rc = run(argc, argv, &args, &e);
  /* Of several ranks that all read the same wrong command line, one says so. */
  if (rc && (!mt_launcher_is_rank(&rank) || rank == 0)) mt_log(MT_LOG_ERROR, "%s", e.msg);
  mt_args_free(&args);
  return mt_err_exit_status(rc);
}
