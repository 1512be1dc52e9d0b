/* One step on one rank, from plan to candidates: step tables, layers, edits, top k, gathering; and
 * on rank 0 the sampling.  Every rank calls the same functions in the same order with the same
 * plan. Called by the rank's main thread; all memory is taken by rank_step_create. */
#ifndef WORKER_RANK_STEP_H
#define WORKER_RANK_STEP_H

#include "collectives/coll.h"
#include "worker/model/decoder.h"
#include "worker/step/step.h"

struct rank_step;

enum { FULL_ROWS = 8 }; /* whole rows of logits gathered at once */

struct rank_step_config {
    int rank, world;
    struct backend *be;
    struct coll *co; /* NULL when world is 1 */
    struct decoder *model;
    struct step_config step;
    const struct vocab_part *parts; /* [world] every rank's share (copied) */
};

/* Device bytes that rank_step_create takes, for the memory plan; be, co and model are not looked
 * at. */
size_t rank_step_bytes(const struct rank_step_config *cfg);
/* Bytes of the largest collective after the layers. */
size_t rank_step_coll_bytes(const struct rank_step_config *cfg);

MUST_CHECK enum status rank_step_create(struct rank_step **out, const struct rank_step_config *cfg);
void rank_step_destroy(struct rank_step *r);

/* Forgets all sequences. */
void rank_step_reset(struct rank_step *r);

/* All ranks.  ST_PEER: the plan is impossible, nothing was done; other failures break the group. */
MUST_CHECK enum status rank_step_run(struct rank_step *r, const struct step_plan *plan);

/* Rank 0, after run: draws what the candidates decide.  rows[*n_rows]: the rows that need all
 * logits (room for max_seqs). */
MUST_CHECK enum status rank_step_sample(struct rank_step *r, int32_t *rows, int32_t *n_rows);

/* All ranks: gathers n <= FULL_ROWS whole rows of the last step's logits; rank 0 draws them. */
MUST_CHECK enum status rank_step_full(struct rank_step *r, const int32_t *rows, int32_t n);

/* Rank 0: the tokens of the last step, valid until the next run. */
struct result_token *rank_step_tokens(const struct rank_step *r, uint32_t *n);

#endif
