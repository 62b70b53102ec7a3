/* --describe: this machine as JSON, for the launcher and for people. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "mutirao/cpu.h"
#include "mutirao/json.h"
#include "mutirao/kernel.h"

static mt_json *string(const char *s) {
  return mt_json_new_string(s, strlen(s));
}

static int describe(const mt_cpu *cpu, mt_json *j) {
  mt_json *isa = mt_json_new_array();
  int rc = isa ? MT_OK : MT_ENOMEM;
  for (const char *const *name = mt_kernels_names(); *name && !rc; name++)
    rc = mt_json_append(isa, string(*name));
  if (rc) {
    mt_json_free(isa);
    return rc;
  }
  const struct {
    const char *key;
    mt_json *value;
  } members[] = {
      {"version", string(MT_VERSION)},
      {"cpu", string(mt_cpu_name(cpu))},
      {"cores", mt_json_new_int(mt_cpu_cores(cpu))},
      {"quota_cores", mt_json_new_int(mt_cpu_quota_cores(cpu))},
      {"numa_domains", mt_json_new_int(mt_cpu_numa_domains(cpu))},
      {"memory_bytes", mt_json_new_int((int64_t)mt_cpu_memory_bytes(cpu))},
      {"memory_available_bytes", mt_json_new_int((int64_t)mt_cpu_memory_available_bytes(cpu))},
      {"isa", isa},
  };
  for (size_t i = 0; i < sizeof members / sizeof *members;
       i++) /* to the end: set takes the value also on failure */
    if (mt_json_set(j, members[i].key, members[i].value)) rc = MT_ENOMEM;
  return rc;
}

int mt_cmd_describe(void) {
  mt_err e = {0};
  mt_cpu *cpu = NULL;
  mt_buf text = {0};
  mt_json *j = mt_json_new_object();
  int rc = j ? mt_cpu_open(&cpu, NULL, &e) : mt_err_set(&e, MT_ENOMEM, "no memory for JSON");
  if (!rc && (describe(cpu, j) || mt_json_write(j, 0, &text)))
    rc = mt_err_set(&e, MT_ENOMEM, "no memory for JSON");
  if (!rc && (puts(text.data) < 0 || fflush(stdout)))
    rc = mt_err_set(&e, MT_ESYSTEM, "cannot write the description");
  if (rc) mt_log(MT_LOG_ERROR, "%s", e.msg);
  mt_buf_free(&text);
  mt_json_free(j);
  mt_cpu_close(cpu);
  return mt_err_exit_status(rc);
}
