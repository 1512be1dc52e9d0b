/* The scheduler: continuous batching with chunked prefill over paged KV blocks, as a pure module.
 * It has no clock, socket, log or globals and allocates only at create: the same calls give the
 * same plans.  The coordinator's loop calls submit and cancel for client messages, plan when the
 * ranks can take a step, and commit for each result; it carries out the effects.  One thread.
 *
 * There are two policies.  With config.target_itl_us a step is planned by time, as the next
 * sections say.  With 0 it is planned by its number of tokens: see Tokens below.
 *
 * Cost.  commit learns a step's time from the results (cost.h): t = c0 + c1 decodes + c2 prompt
 * tokens + c3 context read + c4 context of prompt tokens.  The measured time enters through commit
 * alone, so a journal that has it reproduces the plans.
 *
 * Size of a step.  Sequences in decode come first and take one token each; D is their predicted
 * time.  Prompts get what is left of the step's limit:
 *
 *     with decodes:   max(target_itl_us, D x 4/3); AUTO: D x 2.5
 *     without:        max_step_us; AUTO: as many tokens as make the share of c0 in a token's time at
 *                     most 2 % of c2 more than in a step of max_step_tokens, >= EFFICIENT_TOKENS
 *
 * so prompts have at least a quarter of the time of every step with decodes, and the first in order
 * at least one token.  Before anything is measured max_step_tokens is the only bound; it always is
 * one, and a quarter of it is kept for prompts when there are more decodes than fit.  No second step
 * is planned behind one of parts of prompts alone of at least LONG_STEP x c0, so that a newcomer
 * waits for the rest of one such step.
 *
 * Prompts.  The sequences that compute their prompts share that part.  The first in order has a
 * quarter of it for certain; the rest goes to the shortest remaining prompt, when that ends to the
 * next.  So a long prompt always progresses, and short ones pass it.  When nothing decodes, a step
 * that ends prompts has of others no more than that quarter, so that the first tokens come soon.
 * Bounds, with b the fewest prompt tokens that any of the steps has room for, when no blocks are
 * short and all of these prompts run:
 *
 *     a prompt of r tokens before which prompts of a tokens are in order is computed after at most
 *         ceil((a + r) / max(1, floor(b / 4))) + (number of those prompts) + 1   steps;
 *     one than which all shorter or equal prompts together have s tokens, itself included, after
 *         ceil(s / max(1, floor(b / 4))) + (number of those prompts) + 1         steps.
 *
 * Later arrivals do not change the first bound: that is the ageing.
 *
 * Order.  Deficit round robin over tenants, within a priority.  Each pair (tenant, priority) with
 * live sequences has at most one turn in a round; one of more than QUANTUM_TOKENS tokens uses up
 * the turns of several rounds.  A sequence's round is fixed when it arrives: the round after the
 * present one, or the first in which its pair has a turn left.  The queue is ordered by
 * round - overtake x priority, then by round, then by arrival or last pause; with overtake 0 by
 * priority, then round.  The present round is the highest one of which a sequence has started.  So with T pairs
 * live, a sequence with k turns of its own pair before it starts after at most
 *
 *     L + (k + 1 + overtake x (P - p)) x T
 *
 * others, where L sequences run when it arrives and P is the greatest priority in use.  When the
 * first in order does not fit, none after it is admitted; one that waits for its sibling's prompt,
 * or for its own token in flight, does not block others (at most LOOK_PAST of them).
 *
 * Turns.  A running sequence may be paused, back into the queue with a new round, when one that
 * waits lacks a place or blocks and does not come after it then; the last one in the new order goes
 * first.
 * It must have decoded turn_tokens since it began or went on; where blocks are short, or nothing of
 * it could be cached, also as many as would be computed again.  One of lower priority than the
 * waiting one must have computed turn_tokens, prompt included.  So a newcomer does not wait for the
 * longest answer, an urgent one displaces others, and nothing is paused twice in a row.  A paused
 * sequence leaves its full blocks in the prefix cache, where it finds them again unless they were
 * needed: then at most a block is computed again.  turn_tokens 0: no sequence is paused.
 *
 * Work.  submit, cancel, a deadline and the choice of the next waiting sequence take O(log n) for n
 * waiting ones; a plan takes O(running) besides.
 *
 * Tokens (target_itl_us 0).  The queue is ordered by arrival - overtake x priority, smallest first,
 * then by arrival: one level of priority is worth config.overtake arrivals.  With overtake 0 the
 * greatest priority is first, then the earliest arrival.  A sequence of priority p that finds L
 * live sequences starts after at most L + overtake x (P - p) others have started.  Two kinds of
 * starts are not counted: those while the sequence waits for a prompt that a sibling computes, and
 * those of sequences that ran before a reset.  A step computes at most max_step_tokens; when prompts
 * wait, a quarter is kept for them (on average, when it is under 4).  The rest goes to prompts in
 * order.  Tenants have no turns, and no sequence is paused.
 *
 * Both policies.  When not all decodes fit, those that were left out longest come first.  A
 * preempted sequence keeps its place in the order.  A waiting sequence is admitted when there are
 * blocks for its known tokens and one more, besides those that the running sequences need.  The
 * first in order is never preempted, so it goes on; with overtake 0 a permanent load of greater
 * priority starves the others.
 *
 * Blocks.  A sequence holds ceil(length / block_len) blocks.  Full blocks are shared by reference
 * count and found by a hash chained over their tokens; the tokens are compared too (block_pool.h).
 * At least the last known token is always computed.  When blocks run out, one sequence is
 * preempted: it loses its blocks and is computed again later; its full blocks stay cached until
 * they are needed.  The victim has the lowest priority, then the fewest computed tokens, then the
 * latest arrival.  It is never one already in the step and never the first in order, so a plan with
 * live sequences and no step in flight is never empty.
 *
 * Overlap.  With max_inflight 2 a second step is planned before the first one's tokens are known:
 * its decodes carry TOKEN_OF_LAST_STEP, and the device takes the token that it sampled.  No second
 * step is planned while a sequence in flight needs host sampling (common/plan.h: sample_on_device),
 * so that it stays in the batch.  Ranks execute steps in order, so freed blocks are reused at once.
 * A result for a sequence that has ended meanwhile is ignored. */
#ifndef COORDINATOR_SCHED_SCHED_H
#define COORDINATOR_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/plan.h"

struct sched;

enum {
    QUANTUM_TOKENS = 256, /* of a turn: see Order */
    LOOK_PAST = 64,
    EFFICIENT_TOKENS = 64, /* fewer rows are multiplied more slowly each, on every device */
    LONG_STEP = 32,
};

/* For target_itl_us and max_step_us: the scheduler chooses from measured times. */
#define SCHED_AUTO UINT32_MAX

struct sched_config {
    uint32_t max_seqs;           /* sequences in one step */
    uint32_t max_step_tokens;    /* token budget of one step, >= 1; also the limit for decodes */
    uint32_t max_waiting;        /* queued sequences */
    uint64_t max_waiting_tokens; /* their prompt tokens together */
    uint32_t max_ctx;            /* prompt + new tokens of one sequence; it ends there by length */
    uint32_t n_blocks, block_len;
    bool prefix_cache;     /* share full blocks between requests; samples of one always share */
    uint32_t max_inflight; /* steps planned and not committed: 1 (0 means 1) or 2 */
    uint32_t overtake;     /* rounds (arrivals) that a level of priority is worth; 0 = strict */

    /* See Size of a step, and Turns. */
    uint32_t target_itl_us; /* 0 = plan by tokens, the rest is not used then */
    uint32_t max_step_us;   /* of a step without decodes; 0 = max_step_tokens is the only bound */
    uint32_t turn_tokens;
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

    /* Borrowed while the sequence lives. */
    const int32_t *stop_ids; /* end-of-sequence ids and the request's stop ids */
    uint32_t n_stop_ids;
    const struct logit_bias *bias;
    uint32_t n_bias;
    const char *label; /* the client's name for it, for the journal; may be NULL */
};

enum sched_fx {
    FX_TOKEN,     /* one new token was appended */
    FX_FINISHED,  /* the sequence has ended; see reason */
    FX_PREEMPTED, /* information: the sequence returned to the queue, for blocks or by its turn */
    FX_ADMITTED,  /* information: first planned; n = prompt tokens found in the prefix cache */
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
    FINISH_NOT_FINITE, /* TOKEN_NOT_FINITE came in place of a token */
};

struct sched_effect {
    enum sched_fx kind;
    uint64_t seq_id;
    int32_t token;             /* FX_TOKEN */
    uint32_t i_result;         /* FX_TOKEN: index into the step_result's tokens */
    enum finish_reason reason; /* FX_FINISHED */
    uint32_t n;                /* FX_ADMITTED: cached prompt tokens */
};

struct sched_stats {
    uint32_t running, waiting;
    uint64_t waiting_tokens;
    uint32_t blocks_total; /* = free + held + cached */
    uint32_t blocks_free, blocks_held, blocks_cached;
    uint64_t preemptions; /* for want of blocks */
    uint64_t pauses;      /* at the end of a turn, or for one of higher priority */
    uint64_t steps, tokens_computed, tokens_cached;
};

/* Bytes that sched_create takes for this configuration; 0 when it refuses the configuration. */
size_t sched_bytes(const struct sched_config *cfg);
/* The most effects of one call: the least fx_cap that the functions below accept. */
size_t sched_max_fx(const struct sched_config *cfg);
MUST_CHECK enum status sched_create(struct sched **out, const struct sched_config *cfg);
void sched_destroy(struct sched *s);

/* Appends a request to the queue.
 *   ST_RANGE  it can never run: prompt too long for max_ctx or for all blocks, or bad numbers; the
 *             status text says which
 *   ST_BUSY   the queue is full
 * After an error the queue is unchanged. */
MUST_CHECK enum status sched_submit(struct sched *s, const struct sched_req *r);

/* Removes a sequence in any state and frees its blocks.  Its token of a step in flight is dropped.
 * Produces no effect.  Unknown ids are ignored. */
void sched_cancel(struct sched *s, uint64_t seq_id);

/* Makes the next step.  out borrows the scheduler's arrays until the next call.  First ends the
 * sequences whose deadline has passed (FX_FINISHED).
 *
 * Returns false and sets out->n_seqs to 0 in two cases: max_inflight steps are in flight (then the
 * state does not change at all), or no further step can be planned before a commit.  In the second
 * case closes may be pending; they go with the next plan. */
bool sched_plan(struct sched *s, uint64_t now_us, struct step_plan *out, struct sched_effect *fx,
                size_t fx_cap, size_t *n_fx);

/* Applies the result of the oldest step in flight, and learns from its compute_us + comm_us (0: not
 * measured).  ST_PEER when r is not its result; then the
 * state is unchanged. */
MUST_CHECK enum status sched_commit(struct sched *s, const struct step_result *r,
                                    struct sched_effect *fx, size_t fx_cap, size_t *n_fx);

/* Starts again with an empty KV cache, after the ranks were lost.  Steps in flight are void, the
 * epoch grows by one, and running sequences return to the front of the queue in their order.
 * new_n_blocks: the new group's number of blocks, of which at most those of create are used; 0
 * keeps the number.  Sequences that no longer fit end with FINISH_FAILED through fx. */
void sched_reset(struct sched *s, uint32_t new_n_blocks, struct sched_effect *fx, size_t fx_cap,
                 size_t *n_fx);

/* The epoch of the plans: 1 after create. */
uint64_t sched_epoch(const struct sched *s);

void sched_stats(const struct sched *s, struct sched_stats *out);

/* The state as bytes, for a journal.  Returns their number, and writes them when they fit into cap.
 * Requests are not included: sched_live iterates over the live ones, waiting ones first, and gives
 * the number of known tokens; *at begins as 0, NULL after the last. */
size_t sched_save(const struct sched *s, void *buf, size_t cap);
const struct sched_req *sched_live(const struct sched *s, uint32_t *at, uint32_t *n_known);

/* Puts a newly created scheduler of the same configuration into a saved state, from which it makes
 * the same plans.  reqs: those of sched_live, with arrays of n_tokens + max_new (at most max_ctx).
 * data need not be trusted.
 * ST_FORMAT, ST_RANGE: the state is impossible; then only sched_destroy is allowed. */
MUST_CHECK enum status sched_restore(struct sched *s, const struct sched_req *reqs, uint32_t n_reqs,
                                     const void *data, size_t n);

/* Checks every invariant, and right after sched_plan also that the step keeps the bounds above;
 * aborts with the text of one that does not hold.  For tests (slow). */
void sched_check(const struct sched *s);

#endif
