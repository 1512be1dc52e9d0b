/* Sizes of what a rank takes for its steps: rank_step.c takes it, and the memory plan adds it up by rank_step_bytes and
 * its like, which are defined here.  Pure functions of the configuration. */
#ifndef WORKER_RANK_STEP_SIZES_H
#define WORKER_RANK_STEP_SIZES_H

#include "worker/rank_step.h"
#include "worker/sample/sampler.h"

/* What sampling needs to know of a row after its step's tables were changed by the next plan. */
struct out_row {
    uint64_t seq_id;
    struct sample_params sp;
    int32_t len;    /* tokens of the sequence before the one to be drawn */
    int32_t ending; /* TOKEN_GRAMMAR_...: there is none to be drawn; else 0 */
};

/* Rows of logits of a step, at most. */
int32_t sizes_rows(const struct rank_step_config *cfg);
/* Columns of the widest share of the vocabulary. */
int32_t sizes_widest_part(const struct rank_step_config *cfg);
struct draw_shape sizes_shape(const struct rank_step_config *cfg, int32_t n_rows);
struct masks_config sizes_masks(const struct rank_step_config *cfg);

/* Words that one rank gives for n_rows rows. */
size_t sizes_words(const struct rank_step_config *cfg, int32_t n_rows);
/* Words of the ids before the candidates: whole lines of 64 bytes. */
size_t sizes_ids(const struct rank_step_config *cfg);

/* Bytes of the buffers of these names in struct rank_step. */
size_t sizes_out(const struct rank_step_config *cfg);
size_t sizes_full(const struct rank_step_config *cfg);
size_t sizes_pick_row(const struct rank_step_config *cfg);
size_t sizes_picked(const struct rank_step_config *cfg);

#endif
