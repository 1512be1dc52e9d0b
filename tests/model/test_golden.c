/* Logits of tiny models of every family and option against those of HuggingFace transformers. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>

#include "rig.h"

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
    double worst = rig_distance(logits, g.logits, g.n, g.vocab);
    cr_assert(worst <= g.limit, "%s: relative difference %g", golden_names[*i], worst);
    free(logits);
    rig_close(&r);
    golden_close(&g);
}
