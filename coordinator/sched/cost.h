/* What a step costs a worker group: a linear model of its time, learned from measured steps.
 *
 *     t = c0 + c1 decodes + c2 prompt tokens + c3 context read + c4 context of prompt tokens
 *
 * in us.  Context read is the length of each sequence before the step, once for a sequence; context
 * of prompt tokens the number of positions that each of them attends to.  A Kalman filter (Kalman
 * 1960) follows the coefficients: each has a relative random walk of 1 % a step and each
 * measurement a relative error of 10 %, so that in the usual case the last ten or so steps count.
 * Directions in which the steps do not differ keep their first split until they do.  An error of
 * more than three times the usual one counts as three times: one step that another process delayed
 * moves little, a lasting change is followed within some tens of steps.
 *
 * Plain arithmetic in double without calls but sqrt: one build gives the same numbers in a replay.
 * Part of the scheduler's state; one thread. */
#ifndef COORDINATOR_SCHED_COST_H
#define COORDINATOR_SCHED_COST_H

#include <stdbool.h>
#include <stdint.h>

enum { COST_TERMS = 5 };

struct cost_load { /* what a step computes */
    uint32_t n_decodes, n_prompt;
    uint64_t read, prompt_ctx;
};

struct cost_model {
    double c[COST_TERMS], p[COST_TERMS][COST_TERMS]; /* estimate and its covariance */
    double error;                                    /* usual relative error of a prediction */
    uint64_t n;                                      /* steps learned from */
};

void cost_init(struct cost_model *m);

static inline bool cost_known(const struct cost_model *m)
{
    return m->n > 0;
}

void cost_add_decode(struct cost_load *l, uint32_t pos);
void cost_add_prompt(struct cost_load *l, uint32_t pos, uint32_t n);

/* Predicted time of a step in us, >= 0; 0 while nothing is known. */
double cost_of(const struct cost_model *m, const struct cost_load *l);
/* What n prompt tokens from position pos on add to it. */
double cost_of_prompt(const struct cost_model *m, uint32_t pos, uint32_t n);
/* The most prompt tokens from position pos on that add at most us; at most `most`.  Where the context
 * alone would take more than half of us, those that add half of it without the context: a wrong
 * estimate of a part that cannot be avoided must not stop a prompt. */
uint32_t cost_fit(const struct cost_model *m, uint32_t pos, double us, uint32_t most);
/* The fewest prompt tokens of a step for which the share of c0 in a token's time is at most `loss`
 * of c2 more than with `most` tokens; at most `most`. */
uint32_t cost_efficient(const struct cost_model *m, uint32_t most, double loss);

/* A step took that long; 0 is no measurement. */
void cost_learn(struct cost_model *m, const struct cost_load *l, uint64_t us);

#endif
