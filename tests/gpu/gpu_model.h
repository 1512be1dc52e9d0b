/* The parts of gpu_model. */
#ifndef TESTS_GPU_GPU_MODEL_H
#define TESTS_GPU_GPU_MODEL_H

#include "gpu/tap.h"
#include "worker/engine/engine.h"

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

/* A rank of several: join makes r->co, with r->be and r->ld open. */
struct rank_place {
    int rank, world;
    enum status (*join)(const struct rank_place *p, struct rank_engine *r);
    void *ctx;
};

/* p NULL: the only rank.  On failure too, r is closed by rank_close. */
MUST_CHECK enum status rank_open(struct rank_engine *r, const char *dir, enum dtype kv,
                                 const struct rank_place *p);
/* The only rank, with --activations f32. */
MUST_CHECK enum status rank_open_f32(struct rank_engine *r, const char *dir, enum dtype kv);
/* The only rank, with the inputs of quantised matrices rounded as the checkpoint says. */
MUST_CHECK enum status rank_open_rounded(struct rank_engine *r, const char *dir, enum dtype kv);
void rank_close(struct rank_engine *r);
struct decoder_config rank_config(const struct model_config *mc, enum dtype kv, int rank,
                                  int world);

/* One sequence decoded alone by one rank: what everything else must have the bits of. */
enum { TRUTH_LEN = 24 };
struct truth {
    char dir[1024];
    enum dtype kv;
    struct rank_engine r;
    int32_t vocab, ids[TRUTH_LEN];
    float *row; /* [TRUTH_LEN, vocab]: logits after each token, decoded one by one */
    float *got; /* [TRUTH_LEN, vocab] */
};
MUST_CHECK enum status truth_open(struct truth *t); /* dir and kv are set */
void truth_close(struct truth *t);
MUST_CHECK enum status truth_same(const struct truth *t, const float *got, int32_t i,
                                  const char *what);

int32_t greatest(const float *x, int32_t n);

void check_golden(struct tap *t, const struct options *o);
void check_stories(struct tap *t, const struct options *o);

#endif
