/* Options: their neutral values and their legal ranges. */
#include "internal.h"

void mt_sample_params_init(mt_sample_params *p) {
  *p = (mt_sample_params){.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};
}

int mt_sample_params_check(const mt_sample_params *p, mt_err *e) {
  const struct {
    const char *name;
    double value, lo, hi;
  } option[] = {
      {"temperature", p->temperature, 0, 100},
      {"top_p", p->top_p, 0, 1},
      {"min_p", p->min_p, 0, 1},
      {"typical_p", p->typical_p, 0, 1},
      {"repetition_penalty", p->repetition_penalty, 0.01, 100},
      {"presence_penalty", p->presence_penalty, -100, 100},
      {"frequency_penalty", p->frequency_penalty, -100, 100},
  };
  for (size_t i = 0; i < sizeof option / sizeof option[0]; i++)
    if (!(option[i].value >= option[i].lo && option[i].value <= option[i].hi)) /* NaN too */
      return mt_err_set(e, MT_ERANGE, "%s is %g, must be from %g to %g", option[i].name,
                        option[i].value, option[i].lo, option[i].hi);
  for (size_t i = 0; i < p->n_bias; i++)
    if (!(p->bias[i].bias < INFINITY))
      return mt_err_set(e, MT_ERANGE,
                        "logit_bias of id %u is %g, must be finite, or -infinity to ban the token",
                        p->bias[i].id, (double)p->bias[i].bias);
  return MT_OK;
}
