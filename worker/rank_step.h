/* One step on one rank, from plan to tokens: step tables, layers, edits, top k, gathering, the
 * device's draws; and on rank 0 the results and the host's draws.  A step is enqueued and its
 * results are taken later, so that a backend with a queue of its own never waits for the host: the
 * next plan may be run meanwhile (TOKEN_OF_LAST_STEP in it is fed on the device).  Every rank runs
 * the same plans in the same order.  Called by the rank's main thread; all memory is taken by
 * rank_step_create. */
#ifndef WORKER_RANK_STEP_H
#define WORKER_RANK_STEP_H

#include "worker/rank_step_sizes.h"

struct rank_step;

MUST_CHECK enum status rank_step_create(struct rank_step **out, const struct rank_step_config *cfg);
void rank_step_destroy(struct rank_step *r);
/* Recorded batches. */
int rank_step_n_graphs(const struct rank_step *r);

/* Forgets all sequences. */
void rank_step_reset(struct rank_step *r);

/* All ranks: what sequences with grammars need; NULL when the backend cannot mask logits. */
struct masks *rank_step_masks(const struct rank_step *r);

/* All ranks: enqueues the step.  ST_PEER: the plan is impossible, nothing was done; other failures
 * break the group. */
MUST_CHECK enum status rank_step_run(struct rank_step *r, const struct step_plan *plan);

/* Rank 0: steps that were run and not sampled, at most MAX_STEPS_IN_FLIGHT. */
int rank_step_n_running(const struct rank_step *r);

/* Rank 0: may the next plan be run before the last step is sampled?  Not when the host draws a
 * token of it: that may need its whole logits, which the next step overwrites. */
bool rank_step_may_run(const struct rank_step *r);

/* Rank 0: has the device finished the oldest running step?  Waits for it, at most wait_us.
 * ST_TIMEOUT: it has been waited for longer than deadline_ms in all. */
MUST_CHECK enum status rank_step_done(struct rank_step *r, uint64_t wait_us, bool *done);

/* Rank 0: takes the oldest running step (waits for it) and draws what the device has not drawn and
 * the candidates decide.  rows[*n_rows]: the rows that need all logits (room for max_seqs). */
MUST_CHECK enum status rank_step_sample(struct rank_step *r, int32_t *rows, int32_t *n_rows);

/* All ranks: gathers n <= FULL_ROWS whole rows of the last step's logits; rank 0, which has sampled
 * that step, draws them. */
MUST_CHECK enum status rank_step_full(struct rank_step *r, const int32_t *rows, int32_t n);

/* Rank 0: the tokens of the step that was sampled last, then its scored ones, valid until the next is. */
struct result_token *rank_step_tokens(const struct rank_step *r, uint32_t *n);

/* Rank 0: the embeddings of the step that was sampled last, likewise; [*n], of *dim components each. */
struct result_embedding *rank_step_embeddings(const struct rank_step *r, uint32_t *n,
                                              uint32_t *dim);

#endif
