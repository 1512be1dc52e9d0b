/* What the coordinator counts for StatsReply beyond sums: histograms of times, tokens and steps, ends by reason,
 * refusals by code.  One struct, sized once; no event allocates, each costs a walk over the bounds of a histogram.
 * One thread (the loop). */
#ifndef COORDINATOR_METRICS_H
#define COORDINATOR_METRICS_H

#include "common/histogram.h"
#include "common/plan.h"
#include "common/wire/client_msg.h"
#include "coordinator/grammar_check.h"

struct request;
struct sample;

struct metrics {
    struct histogram histogram[N_STATS_HISTOGRAMS]; /* by enum stats_histogram */
    uint64_t samples_ended[N_REASONS];              /* by enum msg_reason */
    uint64_t rejected[ST_N];                        /* requests, by enum status */
    uint64_t prefix_queries, prefix_hits;           /* tokens of samples that were admitted */
    uint64_t grammars_compiled, grammars_known, grammars_refused, grammars_dropped;
    uint64_t masks, masks_cached, mask_us, mask_wait_us; /* of the groups' rank 0 */
};

void metrics_init(struct metrics *m);
/* Tokens of a request are at most max_ctx: the histograms of tokens need no greater bounds.  Before the first
 * request. */
void metrics_set_max_ctx(struct metrics *m, uint32_t max_ctx);

/* A request's grammar was checked. */
void metrics_grammar(struct metrics *m, enum status verdict, const struct grammar_verdict *v);
/* The result of a step has come. */
void metrics_result(struct metrics *m, const struct step_result *r);
/* A step of n_tokens is sent. */
void metrics_step(struct metrics *m, uint32_t n_tokens);
/* A sample is planned for the first time; n_cached tokens of its prompt were in the cache. */
void metrics_admitted(struct metrics *m, const struct request *r, uint32_t n_cached);
/* The sample got a token; keeps the times of its first and last one. */
void metrics_token(struct metrics *m, const struct request *r, struct sample *s, uint64_t now_us);
/* The request has ended, in whatever way. */
void metrics_ended(struct metrics *m, const struct request *r);
/* A Generate was refused. */
void metrics_rejected(struct metrics *m, enum status code);

/* Fills the fields of out that are counted here; they borrow from m. */
void metrics_report(const struct metrics *m, struct msg_stats *out);

/* A histogram as a message; it borrows from h. */
struct msg_histogram metrics_message(const struct histogram *h);

#endif
