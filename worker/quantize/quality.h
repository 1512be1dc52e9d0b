/* How far a quantised model is from its source: both run over a text, and their distributions of
 * the next token are compared at every position. */
#ifndef WORKER_QUANTIZE_QUALITY_H
#define WORKER_QUANTIZE_QUALITY_H

#include <signal.h>
#include <stdint.h>

#include "common/status.h"

struct quality_config {
    const char *source, *quantised; /* models */
    const char *text;               /* a file; the source's tokenizer reads it */
    int32_t window, max_tokens;     /* of a sequence, and of the text */
    int n_threads;
    const volatile sig_atomic_t *stop;                      /* set: ST_CANCELED */
    void (*report)(void *ctx, int32_t done, int32_t total); /* tokens */
    void *ctx;
};

struct quality {
    int32_t n_positions;
    double mean_kl,
        kl_99;       /* of the source from the quantised one, nats; the mean and the 99 % point */
    double same_top; /* share of positions where both prefer the same token */
    double perplexity_source, perplexity;
};

/* Runs ingot-text, which stands beside this program, for the tokens. */
MUST_CHECK enum status quality_measure(struct quality *out, const struct quality_config *c);

#endif
