/* The scheduler: continuous batching with chunked prefill over paged KV blocks, as a pure module.
 * It has no clock, socket, log or globals and allocates only at create: the same calls give the
 * same plans.  The coordinator's loop calls submit and cancel for client messages, plan when the
 * ranks can take a step, and commit for each result; it carries out the effects.  All calls come
 * from one thread.
 *
 * There are two policies.  If config.target_itl_us is not 0, a step is planned by time, as the next
 * sections describe.  If it is 0, a step is planned by its number of tokens: see Tokens below.
 *
 * Cost.  commit learns a step's time from the results (cost.h): t = c0 + c1 decodes + c2 prompt
 * tokens + c3 context read + c4 context of prompt tokens.  Measured times enter only through commit,
 * so a journal that contains them reproduces the plans.
 *
 * Size of a step.  Sequences in decode come first and take one token each; D is their predicted
 * time.  Prompts get the rest of the step's time limit, which is
 *
 *     with decodes:   max(target_itl_us, D x 4/3); AUTO: 2.5 times the predicted time of the decodes
 *                     when all live sequences, up to max_seqs, are in decode (target_of_all).  With
 *                     D x 2.5 alone, few decodes would leave little time to many prompts, which
 *                     would come to decode one by one and find few decodes again
 *     without:        max_step_us; AUTO: the time of the fewest tokens, but >= EFFICIENT_TOKENS, for
 *                     which the share of c0 per token exceeds that of a step of max_step_tokens by
 *                     at most prefill_loss_pct % of c2
 *
 * so prompts have at least a quarter of the time of every step with decodes, and the first in order
 * at least one token.  The bound max_step_tokens always holds; before anything is measured it is the
 * only one.  A quarter of it is reserved for prompts when there are more decodes than fit.  If a
 * step consists of prompt chunks alone and takes at least LONG_STEP x c0, no second step is planned
 * behind it, so that a newly arrived request waits for the rest of at most one such step.
 *
 * Prompts.  The sequences in prefill share the prompt part of the step.  A quarter of it is reserved
 * for the first in order; the rest goes to the shortest remaining prompt, and when that one is
 * complete, to the next shortest.  So a long prompt always progresses, and short ones pass it.  When
 * no sequence decodes, a step that completes prompts computes at most that quarter of other prompts,
 * so that the first tokens come soon.  The bounds below hold when blocks suffice and all of these
 * prompts run; b is the least number of prompt tokens for which any of the steps has room:
 *
 *     A prompt of r tokens, preceded in order by prompts of a tokens in total, is computed after at
 *     most ceil((a + r) / max(1, floor(b / 4))) + (number of those prompts) + 1 steps.
 *
 *     A prompt such that all prompts not longer than it, itself included, have s tokens in total is
 *     computed after at most ceil(s / max(1, floor(b / 4))) + (number of those prompts) + 1 steps.
 *
 * Later arrivals do not change the first bound, so every prompt in prefill completes.
 *
 * Order.  Deficit round robin over tenants, within a priority.  Each pair (tenant, priority) with
 * live sequences has at most one turn in a round; a sequence of more than QUANTUM_TOKENS tokens uses
 * up the turns of several rounds.  A sequence's round is fixed when it arrives: the round after the
 * present one, or the first in which its pair has a turn left.  The queue is ordered by
 * round - overtake x priority, then by round, then by the time of arrival or of the last pause; with
 * overtake 0 by priority, then by round.  The present round is the highest one of which a sequence
 * has started.  So with T live pairs, a sequence with k turns of its own pair before it starts after
 * at most
 *
 *     L + (k + 1 + overtake x (P - p)) x T
 *
 * others, where L sequences run when it arrives and P is the greatest priority in use.  When the
 * first in order does not fit, no later one is admitted.  A sequence that waits for its sibling's
 * prompt, or for its own token in flight, does not block others (at most LOOK_PAST of them).
 *
 * Turns.  When a waiting sequence lacks a place (max_seqs) or blocks, a running one may be paused:
 * it returns to the queue with a new round.  This happens only if the running one, with its new
 * round, does not come before the waiting one; of several, the last in the new order is paused first.
 * A running sequence can be paused once it has decoded turn_tokens since it started or resumed; if
 * blocks are short, or nothing of it could be cached, it must also have decoded as many tokens as
 * would be computed again.  If its priority is lower than the waiting one's, it only needs to have
 * computed turn_tokens, prompt included.  So a new request does not wait for the longest answer, an
 * urgent one displaces others, and no sequence is paused twice in a row.  The full blocks of a paused
 * sequence stay in the prefix cache.  If they are still there when it resumes, at most one block is
 * computed again.  turn_tokens 0: no sequence is paused.
 *
 * Work.  submit, cancel, a deadline and the choice of the next waiting sequence take O(log n) for n
 * waiting sequences; a plan takes O(running) in addition.
 *
 * Tokens (target_itl_us 0).  The queue is ordered by arrival - overtake x priority, smallest first,
 * then by arrival: one level of priority is worth config.overtake arrivals.  With overtake 0 the
 * greatest priority is first, then the earliest arrival.  A sequence of priority p that finds L
 * live sequences starts after at most L + overtake x (P - p) others have started.  Two kinds of
 * starts are not counted: those while the sequence waits for a prompt that a sibling computes, and
 * those of sequences that ran before a reset or are resumed.  These start before running prompts go
 * on, and each uses the prompts' share of one step.  A step computes at most max_step_tokens; when prompts
 * wait, a quarter is reserved for them (on average over steps, if max_step_tokens is under 4).
 * Tokens that decodes do not use also go to prompts, in order.  Tenants have no turns, and no sequence is paused.
 *
 * Both policies.  When not all decodes fit, those that have waited longest for a step come first.  A
 * preempted sequence keeps its place in the order.  A waiting sequence is admitted when there are
 * blocks for its known tokens and one more, in addition to those that the running sequences need.  The
 * first in order is never preempted, and when no block is left for its prompt it comes before the
 * decodes, so it progresses; with overtake 0 a permanent load of greater priority starves the others.
 *
 * Blocks.  A sequence holds ceil(length / block_len) blocks.  Full blocks are shared by reference
 * count and found by a hash chained over their tokens; the tokens are compared too (block_pool.h).
 * At least the last known token is always computed.  When blocks run out, one sequence is
 * preempted: it loses its blocks and is computed again later; its full blocks stay cached until
 * they are needed.  The victim has the lowest priority, then the fewest computed tokens, then the
 * latest arrival.  It is never one already in the step and never the first in order, so a plan with
 * live sequences and no step in flight is never empty.
 *
 * States.  With has_states the ranks have a state of each sequence beside its blocks: that of its last token.  So a
 * sequence begins with known blocks only up to one behind which a snapshot of the state was taken.  n_snapshots 0:
 * nothing is found or shared, whatever prefix_cache says, and each sequence computes all of its tokens, also after a
 * pause or a preemption.  Else the state is kept behind a step that ends
 *
 *     at the last full block of a prompt, if it computes at least KEEP_PROMPT blocks up to there or has siblings,
 *     where its known blocks end, if those behind the snapshot that it began with are at least KEEP_BRANCH: there a
 *     second sequence has left the first one's path, and a third may (Marconi, Pan et al. 2024, arXiv 2411.19379),
 *     at a multiple of KEEP_ROLLING blocks: a running sequence has one such snapshot, which its next one replaces.
 *
 * At the first two a prompt's share of a step ends, so it needs up to two steps more.  A snapshot is given up with its
 * block, or when all rows are in use and it was used least recently; a sequence's own rolling one goes first.
 *
 * Scores.  A sequence with sp.prompt_logprobs gets the log probability of each prompt token but the
 * first.  Row i of the prompt gives token i + 1, and such rows must be computed: cached blocks are
 * used only up to the first row without a score.  A step scores at most MAX_SCORED_ROWS rows, and the
 * bounds above hold for such a prompt with b at most that number; other prompts do not wait for it.
 * A row counts as scored when its result came, so after a preemption or a reset no row is missing and
 * none is given twice.  No step is planned behind one that scores.
 *
 * Embeddings.  A sequence with sp.embed draws no token: it ends with the result of the step that has
 * the last token of its prompt (WANT_EMBEDDING).  With EMBED_ALL every token is computed, also after
 * a preemption: nothing is taken from the prefix cache.
 *
 * Whole prompts.  With EMBED_WHOLE all tokens of a prompt are in one step: the steps take them in
 * order, as long as the next one fits into max_step_tokens and into the time of a step without
 * decodes (of which the first in order has as much as it needs).  So the sequence with k others
 * before it in order is computed within k + 1 steps.  The blocks of such a sequence are room for one
 * step and never shared.  A scheduler has only such sequences or none.
 *
 * Overlap.  With max_inflight 2 a second step is planned before the first one's tokens are known:
 * its decodes carry TOKEN_OF_LAST_STEP, and the device takes the token that it sampled.  No second
 * step is planned while a sequence in flight needs host sampling (common/plan.h: sample_on_device),
 * so that it stays in the batch.  Ranks execute steps in order, so freed blocks are reused at once.
 * A result for a sequence that has ended meanwhile is ignored.
 *
 * Forced tokens.  A result may have tokens behind the one that was drawn (common/plan.h: step_result).  They are
 * appended like it, and the next steps compute them as they compute a prompt.  A step in flight that draws the first of
 * them gives nothing more: its KV counts. */
#ifndef COORDINATOR_SCHED_SCHED_H
#define COORDINATOR_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/plan.h"
#include "common/sha256.h"

struct sched;

enum {
    QUANTUM_TOKENS = 256, /* of a turn: see Order */
    LOOK_PAST = 64,
    EFFICIENT_TOKENS = 64, /* with fewer rows, products take longer per row on every device */
    LONG_STEP = 32,
    KEEP_PROMPT = 8, /* blocks: see States */
    KEEP_BRANCH = 4,
    KEEP_ROLLING = 8,
};

/* Value of target_itl_us and max_step_us with which the scheduler derives them from measured times. */
#define SCHED_AUTO UINT32_MAX

struct sched_config {
    uint32_t max_seqs;           /* sequences in one step */
    uint32_t max_step_tokens;    /* token budget of one step, >= 1; also the limit for decodes */
    uint32_t max_waiting;        /* queued sequences */
    uint64_t max_waiting_tokens; /* their prompt tokens together */
    uint32_t max_ctx; /* prompt + new tokens of one sequence; then it ends with FINISH_LENGTH */
    uint32_t n_blocks, block_len;
    bool prefix_cache; /* share full blocks between requests; the samples of a request always do */
    bool has_states;   /* the model has states beside the blocks: see States */
    uint32_t n_snapshots;  /* of states, that the ranks keep; 0 unless has_states */
    uint32_t max_inflight; /* most steps planned and not committed: 1 (0 means 1) or 2 */
    uint32_t overtake;     /* rounds (arrivals) that a level of priority is worth; 0 = strict */

    /* See Size of a step, and Turns. */
    uint32_t target_itl_us; /* 0 = plan by tokens; the next ones are not used then */
    bool target_of_all;   /* target_itl_us AUTO: false: D x 2.5, as in journals before version 8 */
    uint32_t max_step_us; /* of a step without decodes; 0 = max_step_tokens is the only bound */
    uint32_t prefill_loss_pct; /* of max_step_us AUTO: prefill speed that shorter steps may cost */
    uint32_t turn_tokens;

    /* Not 0: this scheduler is the queue of others, in which that many sequences can run.  It plans no
     * step; sched_move takes its sequences. */
    uint32_t queue_for;
};

struct sched_req {
    uint64_t seq_id; /* unique among live sequences, not 0 */

    /* The same for all samples of one request, which are siblings.  One sibling computes the
     * prompt; the others wait for it and then share its full blocks. */
    uint64_t group_id;

    uint64_t tenant; /* whose request it is: see Order */
    uint64_t salt;   /* blocks are shared only between equal salts (model, tenant); 0 = common */

    /* The caller's array of n_tokens + max_new, which must outlive the sequence.  The scheduler
     * appends each new token. */
    int32_t *tokens;
    uint32_t n_tokens; /* tokens known now */
    uint32_t n_prompt; /* how many of these are the prompt; the rest were generated before */

    uint32_t max_new;     /* further tokens to generate, >= 1 */
    uint64_t deadline_us; /* absolute, on the clock of sched_plan's now_us; 0 = none */
    int32_t priority;     /* greater is more urgent */
    struct sample_params sp;
    uint32_t
        n_scored; /* sp.prompt_logprobs: leading rows of the prompt that are not scored again */

    /* Borrowed while the sequence lives. */
    const int32_t *stop_ids; /* end-of-sequence ids and the request's stop ids */
    uint32_t n_stop_ids;
    const struct logit_bias *bias;
    uint32_t n_bias;
    uint64_t grammar; /* id of what its text must follow, 0 = nothing; the ranks know it */
    uint32_t grammar_kind,
        n_grammar; /* enum grammar_kind and bytes of the source, for the journal */
    const char *grammar_source;
    const char *label; /* the client's name for it, for the journal; may be NULL */

    /* It ran elsewhere before: it goes before all sequences that have not run, and max_waiting and
     * max_waiting_tokens do not count it. */
    bool resumed;
    const uint8_t *owner; /* [SHA256_BYTES] its owner's hash, for the journal; NULL: zeros */
};

enum sched_fx {
    FX_TOKEN,     /* one new token was appended */
    FX_FINISHED,  /* the sequence has ended; see reason */
    FX_PREEMPTED, /* information: the sequence returned to the queue, for blocks or by its turn */
    FX_ADMITTED,  /* information: first planned; n = prompt tokens found in the prefix cache */
    FX_SCORED,    /* a token of the prompt was scored; n = its index */
    FX_EMBEDDED,  /* the embedding came; FX_FINISHED follows */
};

/* Values are on the wire: append only. */
enum finish_reason {
    FINISH_NONE = 0,
    FINISH_STOP_ID, /* an end-of-sequence or stop id was sampled; it is the last FX_TOKEN */
    FINISH_LENGTH,  /* max_new or max_ctx reached */
    FINISH_STOP_STRING,
    FINISH_CANCELLED,
    FINISH_DEADLINE,
    FINISH_FAILED,
    FINISH_NOT_FINITE,       /* TOKEN_NOT_FINITE came in place of a token */
    FINISH_GRAMMAR_COMPLETE, /* TOKEN_GRAMMAR_COMPLETE did */
    FINISH_GRAMMAR_STUCK,    /* TOKEN_GRAMMAR_STUCK did */
    FINISH_EMBEDDED,         /* the prompt's embedding came */
};

struct sched_effect {
    enum sched_fx kind;
    uint64_t seq_id;
    int32_t token;             /* FX_TOKEN, FX_SCORED */
    uint32_t i_result;         /* index into the step_result's tokens; FX_EMBEDDED: embeddings */
    enum finish_reason reason; /* FX_FINISHED */
    uint32_t n;                /* FX_ADMITTED, FX_SCORED */
};

struct sched_stats {
    uint32_t running, waiting;
    uint64_t waiting_tokens;
    uint32_t blocks_total; /* = free + held + cached */
    uint32_t blocks_free, blocks_held, blocks_cached;
    uint32_t snapshots_total, snapshots_known;
    uint64_t preemptions; /* because blocks ran out */
    uint64_t pauses;      /* at the end of a turn, or for a sequence of higher priority */
    uint64_t steps, tokens_computed, tokens_cached;
};

/* Bytes that sched_create takes for this configuration; 0 when it refuses the configuration. */
size_t sched_bytes(const struct sched_config *cfg);
/* The most effects of one call: the least fx_cap that the functions below accept. */
size_t sched_max_fx(const struct sched_config *cfg);
MUST_CHECK enum status sched_create(struct sched **out, const struct sched_config *cfg);
void sched_destroy(struct sched *s);

/* Appends a request to the queue.  As many resumed ones fit, in addition to the others, as a scheduler of
 * this configuration can hold.
 *   ST_RANGE  it can never run: prompt too long for max_ctx or for all blocks, or bad numbers; the
 *             status text says which
 *   ST_BUSY   the queue is full
 * After an error the queue is unchanged. */
MUST_CHECK enum status sched_submit(struct sched *s, const struct sched_req *r);

/* Removes a sequence in any state and frees its blocks.  Its token of a step in flight is dropped.
 * Gives no sched_effect.  Unknown ids are ignored. */
void sched_cancel(struct sched *s, uint64_t seq_id);

/* Moves a live sequence, with the tokens that it has, from one scheduler to another of the same max_ctx
 * and policy.  From a queue (queue_for) its turn begins.  One that has run goes before all that have not; its
 * tokens of steps in flight are dropped, and it is computed again.  The limits of the queue do not count it.
 * ST_RANGE: `from` has no such sequence, `to` has one already or has too few blocks; ST_BUSY: `to` is full.
 * After an error nothing has changed. */
MUST_CHECK enum status sched_move(struct sched *from, struct sched *to, uint64_t seq_id);

/* Is that sequence live here? */
bool sched_has(const struct sched *s, uint64_t seq_id);
/* The first waiting sequence in order; NULL: none waits. */
const struct sched_req *sched_first(const struct sched *s);
/* The first tokens of r's prompt that would not be computed again here, because their blocks are known or
 * a live sibling computes them. */
uint32_t sched_known_tokens(const struct sched *s, const struct sched_req *r);
/* Does a sequence of r's length fit into all blocks? */
bool sched_fits(const struct sched *s, const struct sched_req *r);

struct sched_load {
    uint32_t live;  /* sequences, running and waiting */
    uint32_t fresh; /* of these, those that have not run here, of at least the priority asked for */
    uint64_t todo;  /* tokens of prompts and histories that are not computed yet */
};
/* In time that grows with the live sequences. */
void sched_load(const struct sched *s, int32_t priority, struct sched_load *out);
/* The live sequence whose move costs least: it has the fewest tokens, and no scores of its prompt are missing.
 * 0: none. */
uint64_t sched_cheapest(const struct sched *s);

/* Plans the next step, after it has ended the sequences whose deadline has passed (FX_FINISHED).  out
 * borrows the scheduler's arrays until the next call.
 *
 * Returns false and sets out->n_seqs to 0 in two cases: max_inflight steps are in flight, or no
 * further step can be planned before a commit.  The next plan contains the closes that are pending. */
bool sched_plan(struct sched *s, uint64_t now_us, struct step_plan *out, struct sched_effect *fx,
                size_t fx_cap, size_t *n_fx);

/* Applies the result of the oldest step in flight, and learns from its compute_us + comm_us (0: not
 * measured).  ST_PEER: r is the result of another step; the state is unchanged. */
MUST_CHECK enum status sched_commit(struct sched *s, const struct step_result *r,
                                    struct sched_effect *fx, size_t fx_cap, size_t *n_fx);

/* Starts again with an empty KV cache, after the ranks were lost.  Steps in flight are void, the
 * epoch grows by one, and running sequences return to the front of the queue in their order.
 * new_n_blocks: the new group's number of blocks, of which at most cfg->n_blocks of sched_create are used; 0
 * keeps the number.  Sequences that no longer fit end with FINISH_FAILED through fx. */
void sched_reset(struct sched *s, uint32_t new_n_blocks, struct sched_effect *fx, size_t fx_cap,
                 size_t *n_fx);

/* The epoch of the plans: 1 after create. */
uint64_t sched_epoch(const struct sched *s);

void sched_stats(const struct sched *s, struct sched_stats *out);

/* The state as bytes, for a journal.  Returns their number, and writes them when they fit into cap.
 * Requests are not included.  sched_live iterates over the live ones, waiting ones first: *at starts as 0,
 * *n_known gets the number of known tokens, and NULL is returned after the last one. */
size_t sched_save(const struct sched *s, void *buf, size_t cap);
const struct sched_req *sched_live(const struct sched *s, uint32_t *at, uint32_t *n_known);

/* Puts a newly created scheduler of the same configuration into a saved state, from which it makes
 * the same plans.  reqs: those of sched_live, with arrays of n_tokens + max_new (at most max_ctx).
 * data may come from an untrusted source.
 * ST_FORMAT, ST_RANGE: the state is impossible; ST_NOMEM; then only sched_destroy is allowed. */
MUST_CHECK enum status sched_restore(struct sched *s, const struct sched_req *reqs, uint32_t n_reqs,
                                     const void *data, size_t n);

/* Checks every invariant, and right after sched_plan also that the step keeps the bounds above.  On a
 * violation it aborts with the text of the invariant.  For tests (slow). */
void sched_check(const struct sched *s);

#endif
