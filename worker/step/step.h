/* The ranks' view of the sequences: block tables and lengths, driven only by step plans.
 * Policy-free: a rank does what the plan says, after checking that it is possible.  step_apply
 * validates the whole plan, updates the tables and uploads the arrays of struct step_dev once.
 * Called by the rank's main thread; all memory is taken by step_create. */
#ifndef WORKER_STEP_STEP_H
#define WORKER_STEP_STEP_H

#include "backends/backend.h"
#include "common/plan.h"

struct step;

struct step_config {
    int32_t max_tokens, max_seqs; /* of one step */
    int32_t max_open;             /* sequences known at once (running in any step) */
    int32_t max_ctx, n_blocks, block_len, vocab;
    int32_t n_types; /* of an encoder's tokens: a plan's token is id + type * vocab; 0: a decoder */
    bool
        states; /* sequences have states beside the KV cache: each begins with its first token, or a snapshot */
    int32_t n_snapshots; /* of states; 0 without them */
    int32_t max_edits;   /* logit_edits of one upload */
    int32_t max_scored;  /* scored rows of one step, beside those of max_seqs; 0 = none */
    bool pad;  /* decode-only steps are padded to step_batch; KV block n_blocks is for the pads */
    bool land; /* the backend has upload: it fills a buffer beside the one that steps read */
};

/* The least batch >= n of those that graphs are recorded for: 1, 2, 4, 8, 16, 24, 32, 48, 64, 96,
 * ..., most.  1 <= n <= most. */
int32_t step_batch(int32_t n, int32_t most);

/* Bytes that step_create takes from the backend; none when the configuration is impossible. */
struct mem_bytes step_bytes(const struct step_config *cfg);
/* Bytes that it takes from the host besides; the map of ids is not counted. */
size_t step_host_bytes(const struct step_config *cfg);
MUST_CHECK enum status step_create(struct step **out, const struct step_config *cfg,
                                   struct backend *be);
void step_destroy(struct step *s);

/* Forgets all sequences (new epoch). */
void step_reset(struct step *s);

/* Writes what step_upload uploads.  ST_PEER names what is wrong with the plan (unknown sequence,
 * pos that is not its length, block out of range, token id outside the vocabulary, a token of the
 * last step that the device does not have, too many of anything); nothing is applied then.  The
 * call after the next one writes the same memory again, so by then the queue must have passed what
 * was enqueued for this one. */
MUST_CHECK enum status step_apply(struct step *s, const struct step_plan *plan,
                                  struct step_dev *dev);

/* Where the edits of that step's rows go before step_upload, none so far: those of row r are
 * words [start[r] - start[0], start[r + 1] - start[0]) here, start[0] staying as it is.  Room for
 * max_edits. */
struct step_edits {
    int32_t n_rows; /* with pads */
    int32_t *start; /* [n_rows + 1] */
    int32_t *words;
};
struct step_edits step_edits(const struct step *s);

/* Enqueues the upload of all arrays, once for a step that was applied.  Where the backend has
 * upload it runs beside the step before. */
MUST_CHECK enum status step_upload(struct step *s);

/* What is known of an open sequence.
 * slot: its number in [0, max_open), the same until it closes. */
struct step_seq {
    uint64_t seq_id;
    struct sample_params sp;
    int32_t len;      /* tokens in the KV cache, after the last step applied */
    int32_t n_prompt; /* of all its tokens, how many are prompt */
    int32_t n_blocks;
    uint64_t serial; /* of the last plan that had it */
};

/* What the ops after the layers take for the rows of the last step: inv_temp [n_rows, 1] f32, row
 * [n_rows, DRAW_ROW_WORDS], edit_start [n_rows + 1, 1] and edit_words; n_rows as in
 * step_dev.out_row. */
struct step_draws {
    struct view inv_temp, row, edit_start, edit_words;
};
struct step_draws step_draws(const struct step *s, int32_t n_rows);

/* Was the last step padded?  Its views have a batch's rows then, step_n_out of them real, and the
 * shape that a graph of that batch was recorded with. */
bool step_padded(const struct step *s);

/* Uploads a step of that many pads and nothing else, for recording. */
MUST_CHECK enum status step_pads(struct step *s, int32_t batch, struct step_dev *dev);

/* Does a token of the last step stand for one that the step before it sampled? */
bool step_feeds(const struct step *s);

/* Slot of an open sequence, -1 when it is not known. */
int32_t step_find(const struct step *s, uint64_t seq_id);
const struct step_seq *step_seq(const struct step *s, int32_t slot);

/* Copies of states between rows of struct delta_state: before the step's ops the snapshots that its new sequences
 * begin with, behind them the snapshots that are taken. */
struct step_copy {
    int32_t from, to;
};
const struct step_copy *step_restores(const struct step *s, int32_t *n);
const struct step_copy *step_keeps(const struct step *s, int32_t *n);

/* Rows of logits of the last step: row i belongs to the sequence in that slot. */
int32_t step_n_out(const struct step *s);
int32_t step_out_slot(const struct step *s, int32_t i);

/* Scored rows of the last step: behind the step_n_out rows of logits, in the order of the plan. */
struct step_scored {
    uint64_t seq_id;
    int32_t token;  /* whose log probability is wanted */
    uint32_t n_top; /* alternatives */
};
int32_t step_n_scored(const struct step *s);
const struct step_scored *step_scored(const struct step *s);

/* Sequences of the last step whose tokens' final states make an embedding, in the order of the plan. */
struct step_embed {
    uint64_t seq_id;
    int32_t slot;
    int32_t row, n; /* the step's rows [row, row + n) are its tokens [pos, pos + n) */
    int32_t pos;
    bool ends; /* with these its prompt is complete */
};
int32_t step_n_embeds(const struct step *s);
const struct step_embed *step_embeds(const struct step *s);

#endif
