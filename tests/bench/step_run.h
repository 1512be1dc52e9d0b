/* One rank of a step benchmark: an engine over a model, and its timed rows. */
#ifndef TESTS_BENCH_STEP_RUN_H
#define TESTS_BENCH_STEP_RUN_H

#include "bench/step_cost.h"
#include "worker/engine/engine.h"

enum { MAX_REPS = 100, MAX_ROWS = 64, MAX_BATCH = 256 };

enum row_kind { ROW_PREFILL, ROW_DECODE };

struct step_row {
    enum row_kind kind;
    int32_t n;                /* prefill: tokens; decode: steps */
    int32_t seqs;             /* sequences of a step, prefill: 1 */
    int32_t context;          /* tokens that each sequence has before */
    double seconds[MAX_REPS]; /* of each repetition */
};

struct step_rig_config {
    int rank, world;
    uint64_t session; /* of the shared segment */
    int threads;      /* of this rank */
    const char *isa;
    enum activations activations;
    enum dtype kv_dtype;
    int32_t max_chunk;              /* tokens of a prefill step */
    const char *model, *pack_cache; /* pack_cache: a folder, NULL: packed weights are not kept */
    int32_t first_prompt;           /* of step_rig_first_token; 0: it is not called */
    int reps;
    struct step_row *row; /* [n_rows] */
    int n_rows;
};

struct step_rig {
    struct step_rig_config cfg;
    struct decoder_config dc;
    struct backend *be;
    struct coll *co;
    struct engine *engine;
    int32_t *tokens; /* as many as the longest prefill */
    float *logits;   /* [max_out, V] */
};

/* Opens the backend and the collective and loads the model.  Leaves something that close can take,
 * whether it fails or not. */
MUST_CHECK enum status step_rig_open(struct step_rig *r, struct loader *ld,
                                     const struct step_rig_config *cfg);
void step_rig_close(struct step_rig *r);

/* Logits of the first prompt, which is forgotten then. */
MUST_CHECK enum status step_rig_first_token(struct step_rig *r);

/* Runs a row reps times after one time that does not count, and sets its seconds. */
MUST_CHECK enum status step_rig_run(struct step_rig *r, struct step_row *row);

#endif
