/* Penalties, biases and forbidden stop ids: which logits of which rows are changed before sampling.
 * Keeps for each open sequence what its parameters need (its tokens, its stop ids, its biases),
 * driven by the same plans as worker/step on every rank, and applies on each rank the edits of its
 * own vocabulary share.
 *
 * The logit l of an id becomes (m > 0 ? m / mul : m * mul) + add, m = l + its bias, with
 *   mul = repetition_penalty when the id occurs in prompt or output, else 1
 *   add = -(presence_penalty + frequency_penalty * n) when it occurs n > 0 times in the output;
 *         -infinity for a stop id while the output has fewer than min_new tokens.
 *
 * Sources: Keskar et al. 2019 (CTRL) for the repetition penalty, the OpenAI API reference for the
 * others.  Called by the rank's main thread; all memory is taken by edits_create. */
#ifndef WORKER_SAMPLE_EDITS_H
#define WORKER_SAMPLE_EDITS_H

#include "worker/step/step.h"

struct edits;

struct edits_config {
    int32_t max_open, max_ctx, vocab; /* as in step_config, */
    int32_t max_seqs, max_edits;      /* these too */
    struct vocab_part part;           /* this rank's share */
};

MUST_CHECK enum status edits_create(struct edits **out, const struct edits_config *cfg,
                                    struct backend *be);
void edits_destroy(struct edits *e);

/* After step_apply of the same plan: remembers opens and tokens. */
void edits_note(struct edits *e, const struct step *s, const struct step_plan *plan);

/* Then, before step_upload: lists the edits of the step's rows, as many as one upload takes. */
void edits_place(struct edits *e, const struct step *s);
/* Are there any in the step that was placed last, and more than one upload takes? */
bool edits_any(const struct edits *e);
bool edits_many(const struct edits *e);

/* After step_upload: edits the logits [rows with pads, part.n_cols] of that step.  Unless there are
 * too many, one op whose arguments depend on the rows alone: it may be recorded. */
MUST_CHECK enum status edits_apply(struct edits *e, const struct step *s, struct view logits);

#endif
