/* One scheduler and the steps it makes, for tests that look at single rules. */
#ifndef TESTS_SCHED_STEPS_H
#define TESTS_SCHED_STEPS_H

#include "coordinator/sched/sched.h"

enum { CTX = 400, MAX_FX = 264 };

extern struct sched *s;
extern struct step_plan plan; /* the last one made */
extern struct sched_effect fx[MAX_FX];
extern size_t n_fx;             /* of the last call */
extern int32_t tokens[40][CTX]; /* of the sequence with that id */
extern uint64_t now;
extern uint64_t step_us; /* the time of the last step, and what it gave to commit: see cost_us */

/* What a step of that plan takes: 200 us, 40 a decode, 20 a prompt token.  0 where the configuration
 * plans by tokens. */
uint64_t cost_us(void);

struct sched_config config(void);
void start(struct sched_config cfg); /* a new scheduler */

/* A request of n tokens first, first + 1, ... */
struct sched_req request(uint64_t id, int32_t first, uint32_t n, uint32_t max_new);
void submit(struct sched_req r);
void submit_plain(uint64_t id, int32_t first, uint32_t n, uint32_t max_new);

bool make_plan(void);
void commit(void); /* answers the plan: each wanted token is 1000 + its position */
void step(void);   /* both */
void finish_all(void);

const struct plan_seq *share_of(uint64_t id); /* in the plan, or NULL */
const struct sched_effect *effect(enum sched_fx kind, uint64_t id);

#endif
