/* The parts of gpu_model. */
#ifndef TESTS_GPU_GPU_MODEL_H
#define TESTS_GPU_GPU_MODEL_H

#include "gpu/tap.h"
#include "worker/engine.h"

struct options {
    const char *models, *stories; /* folders */
    bool few;                     /* fewer models, shorter texts */
};

/* One rank on GPU 0 with everything below it. */
struct rank_engine {
    struct backend *be;
    struct loader *ld;
    struct coll *co;
    struct engine *e;
};

struct host_area;
MUST_CHECK enum status rank_open(struct rank_engine *r, const char *dir, enum dtype kv, int rank,
                                 int world, struct host_area *area);
void rank_close(struct rank_engine *r);
struct decoder_config rank_config(const struct model_config *mc, enum dtype kv, int rank,
                                  int world);

int32_t greatest(const float *x, int32_t n);

void check_golden(struct tap *t, const struct options *o);
void check_stories(struct tap *t, const struct options *o);

#endif
