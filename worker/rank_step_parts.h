/* What a rank's step consists of: for rank_step.c, which runs it, and rank_results.c, where rank 0 takes what it gave. */
#ifndef WORKER_RANK_STEP_PARTS_H
#define WORKER_RANK_STEP_PARTS_H

#include "worker/graphs.h"
#include "worker/rank_step.h"
#include "worker/rank_step_sizes.h"
#include "worker/sample/edits.h"
#include "worker/sample/masks.h"
#include "worker/sample/sampler.h"

/* A step that was run.  Event i_flight of the backend is marked behind it. */
struct flight {
    int32_t n_rows;       /* of logits from which a token is drawn */
    int32_t n_scored;     /* rows behind them, for step_scored; a step with these runs alone */
    int32_t batch;        /* rows of logits: n_rows, n_scored and pads */
    bool host_draws;      /* some of them */
    struct out_row *rows; /* [max_seqs] */
    struct forced_token forced[MAX_FORCED_TOKENS]; /* rank 0 */
    uint32_t n_forced;
    struct buf *back;        /* pinned: what `out` was after the step; other ranks than 0: the ids,
                                after steps with grammars */
    const int32_t *back_ptr; /* its address */
    int32_t n_embeddings;
    struct result_embedding *embeddings; /* rank 0: [max_seqs] */
    float *vectors;                      /* rank 0: [max_seqs, dim] */
};

struct rank_step {
    struct rank_step_config cfg;
    struct vocab_part *parts;
    struct step *step;
    struct edits *edits;
    struct masks *masks;   /* NULL: the backend cannot mask logits */
    struct pooler *pooler; /* rank 0; NULL: the model gives no embeddings */
    float *states;         /* rank 0: [STATE_ROWS, hidden] */
    struct graphs *graphs; /* NULL: every step is enqueued op by op */
    struct graphs *fronts; /* of steps with grammars: all up to their masks; NULL: as above */
    int32_t max_cols;      /* of the widest share of the vocabulary */
    struct view logits;    /* [R, n_cols] of the last step */
    struct flight flights[MAX_STEPS_IN_FLIGHT];
    uint64_t n_run, n_sampled; /* steps so far; step i is flights[i % MAX_STEPS_IN_FLIGHT] */
    uint64_t waiting_us;       /* when the wait for the oldest running step began, 0: not yet */

    /* device */
    struct buf *out;      /* ids [ids_words] i32, drawn on the device, then as struct draw_shape */
    struct buf *full_row; /* [FULL_ROWS] i32 */
    struct buf *full;     /* [world, FULL_ROWS, max_cols] f32 */
    struct buf
        *pick_row;      /* [max_scored] i32: of the scored tokens' logits, as rows of one column */
    struct buf *picked; /* [world, max_scored] f32: what each rank has there */

    /* rank 0, host */
    float *full_host;            /* as full */
    float *row;                  /* [vocab] one whole row, by id */
    float *sorted;               /* [vocab] */
    int32_t *sorted_id;          /* [vocab] */
    uint64_t *sort_scratch;      /* [2 vocab] */
    struct draw_sums *sums;      /* [max_seqs] */
    float *picked_host;          /* as picked */
    struct result_token *tokens; /* [max_seqs + max_scored + MAX_FORCED_TOKENS] */
    uint32_t n_forced;           /* of the tokens of the last rank_step_sample, the last ones */
};

static inline struct view packed(struct buf *b, size_t at_word, int32_t rows, int32_t cols,
                                 enum dtype type)
{
    return (struct view){.buf = b,
                         .off = at_word * sizeof(int32_t),
                         .rows = rows,
                         .cols = cols,
                         .stride = cols,
                         .dtype = type};
}

static inline int flight_of(uint64_t i_step)
{
    return (int)(i_step % MAX_STEPS_IN_FLIGHT);
}

/* ST_TIMEOUT when a step that was waited for since since_us is overdue. */
MUST_CHECK enum status rank_step_check_deadline(const struct rank_step_config *cfg,
                                                uint64_t since_us);
/* Waits until the device has passed that step. */
MUST_CHECK enum status rank_step_pass(struct rank_step *r, uint64_t i_step);

#endif
