/* A worker group without a model, for tests of the scheduler.  The KV entry of a position is a hash
 * over the entries before it, read through the sequence's block table, and its token; a sampled
 * token is a hash over all entries, the parameters and, when a penalty or a grammar is set, the tokens
 * themselves; a grammar forces two of three tokens by the one before.  So a wrong block, a stale cache hit, a wrong position, a lost or a doubled token
 * changes the stream, as in a real model.  It knows only what plans told it, and aborts with a line
 * on standard error when a plan breaks the contract. */
#ifndef TESTS_SCHED_FAKE_WORKER_H
#define TESTS_SCHED_FAKE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/plan.h"
#include "coordinator/sched/sched.h"

#define REQUIRE(cond, ...)                                                                         \
    do {                                                                                           \
        if (!(cond))                                                                               \
            require_failed(__FILE__, __LINE__, #cond, __VA_ARGS__);                                \
    } while (0)
_Noreturn void require_failed(const char *file, int line, const char *cond, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

enum { FAKE_VOCAB = 61 };

struct fake_worker;

struct fake_worker *fake_worker_create(const struct sched_config *cfg);
void fake_worker_destroy(struct fake_worker *w);

/* All state is lost; the next plan must be of that epoch. */
void fake_worker_reset(struct fake_worker *w, uint64_t epoch, uint32_t n_blocks);

/* Checks and executes a plan.
 * The result borrows w's memory until max_inflight further calls were made. */
struct step_result fake_worker_step(struct fake_worker *w, const struct step_plan *p);

/* Open sequences; their ids in ids[max_seqs]. */
uint32_t fake_worker_open(const struct fake_worker *w, uint64_t *ids);

/* The oracle: the request run alone over a plain array.  Writes the new tokens, at most max_new,
 * and returns how many there are; reason: FINISH_STOP_ID or FINISH_LENGTH. */
uint32_t fake_alone(const struct sched_req *r, uint32_t max_ctx, int32_t *out,
                    enum finish_reason *reason);
/* The digest of the embedding of n tokens. */
uint64_t fake_embedding(const int32_t *tokens, uint32_t n);
/* What a scored row gives as the rank of the token behind n tokens. */
uint32_t fake_score(const int32_t *tokens, uint32_t n);

#endif
