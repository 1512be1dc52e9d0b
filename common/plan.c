#include "common/plan.h"

#include <math.h>

#include "common/hash.h"

struct sample_params sample_params_default(void)
{
    return (struct sample_params){.temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f};
}

uint64_t embedding_digest(const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return 0;
    uint64_t h = hash_bytes(n, v, n * sizeof *v);
    return h ? h : 1;
}

enum status sample_params_check(const struct sample_params *sp, const char **name)
{
    const struct {
        const char *name;
        float v, lo, hi; /* lo <= v <= hi, and not NaN */
    } rows[] = {
        {"temperature", sp->temperature, 0.0f, 100.0f},
        {"top_p", sp->top_p, 0.0f, 1.0f},
        {"min_p", sp->min_p, 0.0f, 1.0f},
        {"repetition_penalty", sp->repetition_penalty, 0.01f, 100.0f},
        {"presence_penalty", sp->presence_penalty, -2.0f, 2.0f},
        {"frequency_penalty", sp->frequency_penalty, -2.0f, 2.0f},
    };
    const char *unused;
    if (!name)
        name = &unused;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        *name = rows[i].name;
        if (!(rows[i].v >= rows[i].lo && rows[i].v <= rows[i].hi))
            FAIL(ST_RANGE, "%s is %g: it must be between %g and %g", rows[i].name,
                 (double)rows[i].v, (double)rows[i].lo, (double)rows[i].hi);
    }
    *name = "top_p";
    if (sp->top_p == 0.0f)
        FAIL(ST_RANGE, "top_p is 0: it must be greater than 0 and at most 1");
    *name = "top_logprobs";
    if (sp->top_logprobs > MAX_TOP_LOGPROBS)
        FAIL(ST_RANGE, "top_logprobs is %u: at most %d are given", sp->top_logprobs,
             MAX_TOP_LOGPROBS);
    *name = "embed";
    if (sp->embed < EMBED_NONE || sp->embed >= EMBED_N)
        FAIL(ST_RANGE, "embed is %d: there is no such kind", (int)sp->embed);
    *name = "prompt_top";
    if (sp->prompt_top > MAX_TOP_LOGPROBS)
        FAIL(ST_RANGE, "prompt_top is %u: at most %d are given", sp->prompt_top, MAX_TOP_LOGPROBS);
    return ST_OK;
}
