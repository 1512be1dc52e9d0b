#include "common/plan.h"

struct sample_params sample_params_default(void)
{
    return (struct sample_params){.temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f};
}

/* lo <= v <= hi, and not NaN */
static enum status check(const char *field, float v, float lo, float hi)
{
    if (!(v >= lo && v <= hi))
        FAIL(ST_RANGE, "%s is %g: it must be between %g and %g", field, (double)v, (double)lo,
             (double)hi);
    return ST_OK;
}

enum status sample_params_check(const struct sample_params *sp)
{
    TRY(check("temperature", sp->temperature, 0.0f, 100.0f));
    TRY(check("top_p", sp->top_p, 0.0f, 1.0f));
    if (sp->top_p == 0.0f)
        FAIL(ST_RANGE, "top_p is 0: it must be greater than 0 and at most 1");
    TRY(check("min_p", sp->min_p, 0.0f, 1.0f));
    TRY(check("repetition_penalty", sp->repetition_penalty, 0.01f, 100.0f));
    TRY(check("presence_penalty", sp->presence_penalty, -2.0f, 2.0f));
    TRY(check("frequency_penalty", sp->frequency_penalty, -2.0f, 2.0f));
    if (sp->top_logprobs > MAX_TOP_LOGPROBS)
        FAIL(ST_RANGE, "top_logprobs is %u: at most %d are given", sp->top_logprobs,
             MAX_TOP_LOGPROBS);
    return ST_OK;
}
