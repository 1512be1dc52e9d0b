/* The ranks' view of the sequences: block tables and lengths, driven only by step plans.  Policy-free: a
 * rank does what the plan says, after checking that it is possible.  step_apply validates the whole plan,
 * updates the tables and uploads the arrays of struct step_dev once. */
#ifndef WORKER_STEP_STEP_H
#define WORKER_STEP_STEP_H

#include "backends/backend.h"
#include "common/plan.h"

struct step;

struct step_config {
    int32_t max_tokens, max_seqs; /* of one step */
    int32_t max_open;             /* sequences known at once (running in any step) */
    int32_t max_ctx, n_blocks, block_len, vocab;
};

size_t step_bytes(const struct step_config *cfg);
MUST_CHECK enum status step_create(struct step **out, const struct step_config *cfg,
                                   struct backend *be);
void step_destroy(struct step *s);

/* Forgets all sequences (new epoch). */
void step_reset(struct step *s);

/* ST_PEER names what is wrong with the plan (unknown sequence, pos that is not its length, block out of
 * range, token id outside the vocabulary, too many of anything); nothing is applied then. */
MUST_CHECK enum status step_apply(struct step *s, const struct step_plan *plan,
                                  struct step_dev *dev);

#endif
