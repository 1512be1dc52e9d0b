/* The scheduler of a journal without content (--journal-content none).  It is told everything that the real one is told,
 * but for tokens, logit biases, grammars and log probabilities: each token is replaced by a hash of itself and all
 * tokens before it, under a key that only this process has and that ends with it.  Equal beginnings of prompts with
 * one salt have equal hashes, so it makes the same plans; what the journal writes comes from it.
 *
 * Hashes are 30 bits, from 2^30 on: above every id.  The token that ends an answer, one of the request's stop ids,
 * stays as it is.  One thread (journal.c). */
#ifndef COORDINATOR_JOURNAL_BLIND_H
#define COORDINATOR_JOURNAL_BLIND_H

#include "coordinator/sched/fleet.h"

struct blind;

struct blind_effects {
    const struct sched_effect *fx; /* [n], valid until the next call */
    size_t n;
};

/* As the one that it follows: a new fleet, or a new scheduler.  ST_NOMEM, or of fleet_create. */
MUST_CHECK enum status blind_create(struct blind **out, const struct sched_config *cfg, bool fleet);
void blind_destroy(struct blind *b);
const struct fleet *blind_fleet(const struct blind *b);
const struct sched *blind_sched(const struct blind *b);

/* Each after the same call of the real scheduler.  ST_NOMEM; ST_BUG: it did something else than the real one did.  After
 * a failure the blind one is of no use. */
MUST_CHECK enum status blind_submit(struct blind *b, const struct sched_req *r,
                                    const struct sched_req **out);
void blind_cancel(struct blind *b, uint64_t seq_id);
/* made and n_fx: of the real plan.  *out: of this one. */
MUST_CHECK enum status blind_plan(struct blind *b, uint32_t g, uint64_t now_us, bool made,
                                  const struct step_plan *real, size_t n_fx, struct step_plan *out,
                                  struct blind_effects *fx);
/* real_fx: of the real commit.  *out: the result with hashes, valid until the next call. */
MUST_CHECK enum status blind_commit(struct blind *b, uint32_t g, const struct step_result *real,
                                    const struct sched_effect *real_fx, size_t n_real_fx,
                                    const struct step_result **out, struct blind_effects *fx);
MUST_CHECK enum status blind_reset(struct blind *b, uint32_t new_n_blocks, size_t n_fx,
                                   struct blind_effects *fx);
MUST_CHECK enum status blind_open(struct blind *b, uint32_t g, uint32_t n_blocks, size_t n_fx,
                                  struct blind_effects *fx);
MUST_CHECK enum status blind_close(struct blind *b, uint32_t g, size_t n_fx,
                                   struct blind_effects *fx);
MUST_CHECK enum status blind_moves(struct blind *b, const struct fleet_move *moves, size_t n);

#endif
