/* One rank of one as a worker makes it, on GPU 0: memory plan, block, weights, graphs; and steps of
 * three sequences: greedy, drawn from the top k, greedy with edits. */
#ifndef TESTS_GPU_RANK_RIG_H
#define TESTS_GPU_RANK_RIG_H

#include "worker/rank_plan.h"

enum { RIG_SEQS = 3, RIG_NEW = 7 };

struct rank_rig {
    struct worker_options opt;
    struct backend *be;
    struct loader *ld;
    struct rank_plan plan;
    char path[512];       /* of the model, for packed weights */
    const char *pack_dir; /* where they are kept; NULL: they are not */
    struct decoder *model;
    struct rank_step *step;
};

/* Plans for a model.  ld is given away, also after a failure; close in any case. */
MUST_CHECK enum status rank_rig_plan(struct rank_rig *r, struct loader *ld, const char *graphs,
                                     const char *numerics);
/* Takes the planned memory, loads and runs the first steps (worker/rank_warm.h). */
MUST_CHECK enum status rank_rig_load(struct rank_rig *r);
void rank_rig_close(struct rank_rig *r);

/* Is each part of the plan taken to the byte?  ST_BUG names one that is not. */
MUST_CHECK enum status rank_rig_check_plan(const struct rank_rig *r);

/* Runs step i: the prompts, then a token of each sequence: last[s], NULL: the one that the step
 * before draws.  penalty (the same in all steps): the host draws the third sequence's tokens. */
MUST_CHECK enum status rank_rig_run(struct rank_rig *r, uint32_t i, const int32_t *last,
                                    bool penalty);
/* Takes the tokens of the oldest step that runs. */
MUST_CHECK enum status rank_rig_take(struct rank_rig *r, struct result_token got[RIG_SEQS],
                                     int32_t last[RIG_SEQS]);
/* RIG_NEW steps; ahead: each is run before the results of the one in front of it are taken. */
MUST_CHECK enum status rank_rig_generate(struct rank_rig *r, bool ahead, bool penalty,
                                         struct result_token got[RIG_NEW][RIG_SEQS]);
/* Behind rank_rig_generate without penalty, whose tokens are `expected`: a new sequence takes the last
 * one's prompt over (its block, and of a model with states the snapshot that step 0 kept) and gives
 * the same tokens.  ST_BUG names the first that differs. */
MUST_CHECK enum status rank_rig_reuse(struct rank_rig *r,
                                      struct result_token expected[RIG_NEW][RIG_SEQS]);
/* ST_BUG names the first token that differs. */
MUST_CHECK enum status rank_rig_same(struct result_token got[RIG_NEW][RIG_SEQS],
                                     struct result_token expected[RIG_NEW][RIG_SEQS]);

#endif
