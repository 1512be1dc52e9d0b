/* Requests over time, for simulations of several worker groups (simulate.h).  Two kinds:
 *   conversations  drawn from a seed: they begin at random (Poisson); each has the instructions of its family as a prefix (few
 *                  families are frequent: the probability falls with 1 / rank), and further turns, each some time
 *                  after the answer before, whose prompt is everything said so far and a new part
 *   trace          lines of JSON as in Mooncake's published traces (Qin et al., FAST 2025): timestamp in ms, input_length,
 *                  output_length, hash_ids of the prompt's blocks of 512 tokens; several copies of the file, each
 *                  of other users and shifted in time
 * Tokens are hashes of their place, so equal prefixes have equal tokens and no text is kept.  One thread. */
#ifndef TESTS_SCHED_LOAD_SOURCE_H
#define TESTS_SCHED_LOAD_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACE_BLOCK = 512 };

struct load_request {
    uint64_t arrival_us;
    uint64_t tenant;          /* also the salt of the prefix cache */
    uint32_t n_prompt, n_new; /* tokens */
    uint32_t n_shared;        /* leading tokens of the prompt that belong to the family */
    uint64_t family_key, key; /* of the shared tokens, of the others */
    const uint64_t
        *block_ids; /* of a trace: [ceil(n_prompt / TRACE_BLOCK)], instead of n_shared; else NULL */
    uint32_t turns_left; /* of its conversation */
};

struct load_config {
    uint64_t seed;
    uint64_t n_requests; /* in all */
    double conversations_per_s;
    uint32_t n_families;   /* each of 64 to 1,024 tokens */
    double turns, think_s; /* means */
    uint32_t new_tokens;   /* mean of an answer, at most four times as many */
    uint32_t
        max_tokens; /* of a prompt and its answer: longer ones are left out, at least 2000 + 4 x new_tokens */
    const char *trace; /* a file, instead of the conversations; else NULL */
    uint32_t copies;   /* of the trace, whose beginnings are `apart_s` apart */
    double apart_s;
};

struct load_source;

/* NULL, with a line on standard error: no memory, or the trace cannot be read. */
struct load_source *load_source_create(const struct load_config *cfg);
void load_source_destroy(struct load_source *s);
/* When the next request comes; false: none comes unless an answer ends. */
bool load_source_when(struct load_source *s, uint64_t *us);
/* The next request. */
void load_source_take(struct load_source *s, struct load_request *out);
/* Its answer has ended: the next turn comes later. */
void load_source_ended(struct load_source *s, const struct load_request *r, uint64_t now_us);
/* Token `at` of the prompt and the answer, in [0, vocab). */
int32_t load_token(const struct load_request *r, uint32_t at, uint32_t vocab);

#endif
