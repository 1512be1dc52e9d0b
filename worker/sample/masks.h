/* Grammars of sequences: which tokens their answers may go on with.  Keeps the vocabulary, the grammars that the
 * coordinator sent, and for each open sequence with a grammar a matcher, fed with its answer's tokens by the same plans
 * on every rank; masks the logits of the step's rows before the candidates are taken.
 *
 * A row's mask has the tokens of matcher_mask, and the model's end ids exactly when the text is complete.  While the
 * answer has fewer than min_new tokens, end and stop ids are left out, unless nothing else is possible.  Where a budget of
 * thinking is used up (common/grammar/thinking.h) the next id of the closing mark is left alone.  A grammar of any text
 * with a budget masks nothing else.
 *
 * Masks are made while the device, or on the CPU the other threads, compute the layers of the step that they are for.
 *
 * Called by the rank's main thread.  The masks' memory is taken by masks_create; a grammar takes its own when it is
 * added, and its automaton grows within the bounds of common/grammar; all together keep MASKS_MAX_BYTES. */
#ifndef WORKER_SAMPLE_MASKS_H
#define WORKER_SAMPLE_MASKS_H

#include "common/grammar/grammar.h"
#include "worker/step/step.h"

struct masks;

enum {
    MASKS_MAX_GRAMMARS = 256, /* known at once; the coordinator keeps within it */
    MASKS_MAX_BYTES =
        768 << 20, /* of grammars and their automata together, beside one that is in use */
};

struct masks_config {
    int32_t max_open, max_seqs, vocab; /* as in step_config */
    struct vocab_part part;            /* this rank's share */
    bool forced;                       /* masks_forced is asked for */
};

/* Bytes that masks_create takes from the backend, and from the host besides. */
struct mem_bytes masks_bytes(const struct masks_config *cfg);
size_t masks_host_bytes(const struct masks_config *cfg);
MUST_CHECK enum status masks_create(struct masks **out, const struct masks_config *cfg,
                                    struct backend *be);
void masks_destroy(struct masks *m);
void masks_reset(struct masks *m); /* all sequences are closed */

/* All grammars are removed: a coordinator sends the vocabulary first.  bytes: of the n_tokens ids one after the other, n[i] of id i. */
MUST_CHECK enum status masks_set_vocabulary(struct masks *m, const uint8_t *bytes,
                                            const uint32_t *n, uint32_t n_tokens,
                                            const int32_t *end_ids, uint32_t n_end_ids);
/* A thread of its own compiles the grammar, after those that were added before.  ST_PEER: there are too many; without a
 * vocabulary too. */
MUST_CHECK enum status masks_add(struct masks *m, uint64_t id, const struct grammar_source *source);
/* Does a plan that opens a sequence with it not wait?  True too of one that is not known, or does not compile. */
bool masks_compiled(const struct masks *m, uint64_t id);
/* No later plan opens a sequence with it; those that are open keep it. */
void masks_remove(struct masks *m, uint64_t id);

/* Before step_apply: can the plan be carried out?  Waits for the grammars that it opens sequences with.  ST_PEER: one is
 * unknown or does not compile. */
MUST_CHECK enum status masks_check(struct masks *m, const struct step_plan *plan);
/* After step_apply of the same plan: opens matchers, and notes what the step has to do. */
MUST_CHECK enum status masks_open(struct masks *m, const struct step *s,
                                  const struct step_plan *plan);
/* Then: has a sequence of the plan a grammar, and a row of logits one?  Does the plan feed a matcher with a token that only
 * the device has (TOKEN_OF_LAST_STEP)? */
bool masks_involved(const struct masks *m);
bool masks_any(const struct masks *m);
bool masks_need_last(const struct masks *m);

/* If they are involved, once for a step: feeds the matchers with the plan's tokens and makes the masks of the step's rows.
 * last: the tokens of the last step's rows, if masks_need_last.  The memory that it writes is that of the step before the
 * last one with a grammar, which the queue must have passed.
 *   masks_make          on the calling thread
 *   masks_begin, _end   on a thread of its own, between the two calls, in which nothing else is called of m; _end waits,
 *                       and what was begun is always ended.  s, plan and last stay as they are meanwhile */
MUST_CHECK enum status masks_make(struct masks *m, const struct step *s,
                                  const struct step_plan *plan, const int32_t *last);
void masks_begin(struct masks *m, const struct step *s, const struct step_plan *plan,
                 const int32_t *last);
MUST_CHECK enum status masks_end(struct masks *m);
/* Then, if there are any: masks the logits [rows, part.n_cols] of that step. */
MUST_CHECK enum status masks_apply(struct masks *m, struct view logits);

struct masks_stats {
    uint64_t masks, cached; /* taken, of these found ready */
    uint64_t us, wait_us;   /* time of all; that for which steps waited for them, at most */
};
/* The time for which a step waited for its masks. */
void masks_waited(struct masks *m, uint64_t us);
/* Since the last call. */
struct masks_stats masks_take_stats(struct masks *m);
/* After masks_make: TOKEN_GRAMMAR_COMPLETE or _STUCK if row i allows no token, else 0. */
int32_t masks_ending(const struct masks *m, int32_t i_row);
/* After masks_make: for rows with one allowed token, those that follow it and are each the only one; in the order of the
 * rows.  Valid until the next masks_open. */
struct forced_token {
    int32_t i_row, id;
};
const struct forced_token *masks_forced(const struct masks *m, uint32_t *n);
/* With _STUCK: where in the source, and whether no mask could be made within its bound of work (then no token is allowed);
 * valid until the next call. */
const char *masks_place(struct masks *m, int32_t i_row);

#endif
