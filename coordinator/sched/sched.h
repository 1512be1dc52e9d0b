/* The scheduler: continuous batching with chunked prefill over paged KV blocks, as a pure module.
 * No clock, socket, log, global or allocation after create: the same calls give the same plans.
 * The coordinator's loop calls submit/cancel when clients speak, plan when the ranks are free,
 * commit when they answer, and acts on the effects.  One thread.
 *
 * Order.  One level of priority is worth config.overtake arrivals: the least arrival - overtake x
 * priority first, then arrival; with overtake 0 the greatest priority first, then arrival.  A
 * preempted sequence keeps its arrival.  No sequence passes a waiting one for which there is no
 * room.
 *
 * Bound.  A sequence of priority p that finds L others live starts after at most
 *
 *     L + overtake x (P - p)
 *
 * others have started, P being the greatest priority in use, whatever arrives later.  (Not counted:
 * those that start while it waits for the prompt that a sibling computes, and after a reset those
 * that ran before.)  When all that are before it in order have ended it is the first, and the first
 * is never preempted: it ends.  With overtake 0 there is no bound: a permanent load of greater
 * priority lets it wait for ever.
 *
 * Budget.  A step computes at most max_step_tokens.  Sequences in decode take one each and go
 * first; when prompts wait, a quarter of the budget is kept for them (on average, when it is under
 * 4), so that neither long prompts nor many decodes stop the other.  When decodes do not all fit,
 * those left out longest go first.  The rest goes to prompts in order, cut into chunks.  A sequence
 * is let in when there are blocks for its known tokens and one more beside what the running ones
 * need.
 *
 * Blocks.  A sequence holds ceil(length / block_len) of them; full ones are shared by reference
 * count and found again by a hash chained over their tokens, which are compared as well
 * (block_pool.h).  At least the last known token is always computed.  When blocks run out somebody
 * is preempted: it loses its blocks and is computed again later (full blocks stay cached while
 * nobody needs them).  That is, among the lowest priority, the one with the least computed, then
 * the youngest; never one already in the step, never the first in order: so somebody always
 * progresses, and a plan with live sequences and no step in flight is never empty.
 *
 * Overlap.  With max_inflight 2 a second step is planned before the first one's tokens are known:
 * its decodes carry TOKEN_OF_LAST_STEP, which the device feeds itself.  While a sequence in flight
 * needs a token that the host draws (common/plan.h: sample_on_device) no second step is planned, so
 * that it stays in the batch.  Ranks execute steps in order, so blocks that come free are used
 * again at once; a result for a sequence that has ended meanwhile is ignored. */
#ifndef COORDINATOR_SCHED_SCHED_H
#define COORDINATOR_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/plan.h"

struct sched;

struct sched_config {
    uint32_t max_seqs;        /* sequences in one step */
    uint32_t max_step_tokens; /* token budget of one step, >= 1 (decodes alone may not exceed it) */
    uint32_t max_waiting;     /* queued sequences */
    uint64_t max_waiting_tokens; /* their prompt tokens together */
    uint32_t max_ctx;            /* prompt + new tokens of one sequence; it ends there by length */
    uint32_t n_blocks, block_len;
    bool prefix_cache; /* share full blocks between requests (samples of one request always do) */
    uint32_t max_inflight; /* steps planned and not committed: 1 (or 0) or 2 */
    uint32_t overtake; /* arrivals that a level of priority is worth: see Bound; 0 = strict */
};

struct sched_req {
    uint64_t seq_id;   /* unique among live sequences, not 0 */
    uint64_t group_id; /* samples of one request share it; siblings wait until one has computed the
                          prompt, then share its full blocks */
    uint64_t salt;     /* hash chains of different salts never meet (model, tenant); 0 = common */
    int32_t *tokens;   /* caller's array of n_tokens + max_new; must outlive the sequence.  The
                          scheduler   appends each new token */
    uint32_t n_tokens; /* tokens known now */
    uint32_t n_prompt; /* of them, how many are the prompt (the rest were generated before) */
    uint32_t max_new;  /* further tokens to generate, >= 1 */
    uint64_t deadline_us; /* absolute, on the clock of sched_plan's now_us; 0 = none */
    int32_t priority;     /* greater is more urgent */
    struct sample_params sp;
    const int32_t *stop_ids; /* borrowed while the sequence lives; end-of-sequence and stop ids */
    uint32_t n_stop_ids;
    const struct logit_bias *bias; /* likewise */
    uint32_t n_bias;
    const char *label; /* likewise: what the client calls it, for the journal; may be NULL */
};

enum sched_fx {
    FX_TOKEN,     /* one new token was appended */
    FX_FINISHED,  /* the sequence is gone; reason says why */
    FX_PREEMPTED, /* information: it went back to the queue */
    FX_ADMITTED,  /* information: first planned; n = prompt tokens found in the prefix cache */
};

enum finish_reason { /* on the wire: append only */
                     FINISH_NONE = 0,
                     FINISH_STOP_ID, /* an end-of-sequence or stop id was sampled (it is the last
                                        FX_TOKEN) */
                     FINISH_LENGTH,  /* max_new or max_ctx reached */
                     FINISH_STOP_STRING,
                     FINISH_CANCELLED,
                     FINISH_DEADLINE,
                     FINISH_FAILED,
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
    uint32_t blocks_total, blocks_free, blocks_held,
        blocks_cached; /* free + held + cached = total */
    uint64_t preemptions, steps, tokens_computed, tokens_cached;
};

/* Bytes that sched_create will take for this configuration; 0 when it will be refused. */
size_t sched_bytes(const struct sched_config *cfg);
/* Effects that one call can give: the fx_cap that every call below needs. */
size_t sched_max_fx(const struct sched_config *cfg);
MUST_CHECK enum status sched_create(struct sched **out, const struct sched_config *cfg);
void sched_destroy(struct sched *s);

/* ST_RANGE: can never run (prompt too long for max_ctx, all of it for all blocks, bad numbers):
 * text says. ST_BUSY: a queue is full: nothing was taken. */
MUST_CHECK enum status sched_submit(struct sched *s, const struct sched_req *r);

/* Forgets a sequence in any state and frees its blocks.  Its token of a step in flight is dropped.
 * No effect is produced.  Unknown ids are ignored. */
void sched_cancel(struct sched *s, uint64_t seq_id);

/* Makes the next step; out borrows the scheduler's arrays until the next call.  Returns false, and
 * out->n_seqs = 0, when max_inflight steps are in flight (then nothing else happens) or when there
 * is nothing to do before a commit (closes may still be pending and go with the next plan). Expired
 * sequences end first: FX_FINISHED. */
bool sched_plan(struct sched *s, uint64_t now_us, struct step_plan *out, struct sched_effect *fx,
                size_t fx_cap, size_t *n_fx);

/* Applies the answer to the step in flight.  ST_PEER when it does not belong to it (nothing
 * changes). */
MUST_CHECK enum status sched_commit(struct sched *s, const struct step_result *r,
                                    struct sched_effect *fx, size_t fx_cap, size_t *n_fx);

/* The ranks lost everything: steps in flight are void, the epoch is one higher, the cache is empty,
 * running sequences return to the queue before all others, in their order.  new_n_blocks: what the
 * new group has, at most as many as at create are used; 0 keeps the number.  Sequences that can
 * never fit any more are finished as FINISH_FAILED through fx. */
void sched_reset(struct sched *s, uint32_t new_n_blocks, struct sched_effect *fx, size_t fx_cap,
                 size_t *n_fx);

/* The epoch of the plans: 1 after create. */
uint64_t sched_epoch(const struct sched *s);

void sched_stats(const struct sched *s, struct sched_stats *out);

/* The state as bytes, for a journal: returns how many there are, and writes them when they fit into
 * cap. Requests are not part of it: sched_live gives the i-th of them (waiting ones first) and how
 * many of its tokens are known; NULL after the last. */
size_t sched_save(const struct sched *s, void *buf, size_t cap);
const struct sched_req *sched_live(const struct sched *s, uint32_t i, uint32_t *n_known);

/* Puts a just created scheduler of the same configuration into a saved state: it will make the same
 * plans. reqs: as sched_live gave them, with arrays of n_tokens + max_new (at most max_ctx).
 * ST_FORMAT, ST_RANGE: no such state can be; the scheduler may only be destroyed then.  Safe with
 * bytes from anywhere. */
MUST_CHECK enum status sched_restore(struct sched *s, const struct sched_req *reqs, uint32_t n_reqs,
                                     const void *data, size_t n);

/* Aborts, naming it, when an invariant does not hold; for tests (slow). */
void sched_check(const struct sched *s);

#endif
