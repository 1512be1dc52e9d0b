#include "coordinator/embeddings.h"

#include <stdlib.h>
#include <string.h>

bool embeddings_given(const struct coordinator *co)
{
    return co->mt.modules.present && co->shape.embedding == (uint32_t)co->mt.modules.dim;
}

bool embeddings_alone(const struct coordinator *co)
{
    return co->mt.modules.whole || co->shape.headless;
}

enum status embeddings_take(const struct coordinator *co, struct request *r,
                            const struct step_result *result, uint32_t i)
{
    uint32_t n = r->ask->dimensions ? r->ask->dimensions : result->dim;
    float *v = malloc(n * sizeof *v);
    if (!v)
        FAIL(ST_NOMEM, "no memory for an embedding of %u components", n);
    memcpy(v, result->embeddings[i].vector, n * sizeof *v);
    if (n < result->dim)
        sentence_modules_cut_vector(&co->mt.modules, v, n);
    free(r->embedding);
    r->embedding = v;
    r->n_embedding = n;
    return ST_OK;
}
