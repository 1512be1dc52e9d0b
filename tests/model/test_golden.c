/* Logits of tiny models of every family and option against those of HuggingFace transformers. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>

#include "rig.h"

/* The greatest |difference| of a row, relative to the greatest |logit| of that row. */
static double worst_row(const struct golden *g, const float *logits)
{
    double worst = 0;
    for (int32_t t = 0; t < g->n; t++) {
        double diff = 0, top = 0;
        for (int32_t v = 0; v < g->vocab; v++) {
            size_t i = (size_t)t * (size_t)g->vocab + (size_t)v;
            diff = fmax(diff, fabs((double)logits[i] - (double)g->logits[i]));
            top = fmax(top, fabs((double)g->logits[i]));
            if (isnan(logits[i]))
                return INFINITY;
        }
        worst = fmax(worst, diff / top);
    }
    return worst;
}

ParameterizedTestParameters(golden, agrees_with_transformers)
{
    return cr_make_param_array(size_t, golden_indices(), n_golden);
}

ParameterizedTest(size_t *i, golden, agrees_with_transformers)
{
    const char *dir = golden_dir(golden_names[*i]);
    struct golden g;
    struct rig r;
    golden_open(&g, dir);
    rig_open(&r, dir, (struct rig_config){0});
    cr_assert_eq(r.mc->vocab, g.vocab);
    float *logits = malloc((size_t)g.n * (size_t)g.vocab * sizeof *logits);
    must(engine_prepare(r.e, 1, g.n), "prepare");
    must(engine_forward_verify(r.e, 1, g.ids, g.n, logits), "forward");
    double worst = worst_row(&g, logits);
    cr_assert(worst <= g.limit, "%s: relative difference %g", golden_names[*i], worst);
    free(logits);
    rig_close(&r);
    golden_close(&g);
}
