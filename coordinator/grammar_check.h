/* Compiles the grammars of requests, to refuse bad ones before anything runs, and keeps the verdicts on the last ones by
 * the digest of their source: the same source, good or bad, is compiled once.  One thread (the text service's second). */
#ifndef COORDINATOR_GRAMMAR_CHECK_H
#define COORDINATOR_GRAMMAR_CHECK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/grammar/grammar_source.h"
#include "common/status.h"

struct grammar_check;

enum { GRAMMAR_VERDICTS = 256 }; /* kept; the one that was used least recently goes first */

struct grammar_verdict {
    size_t n_bytes;      /* of memory that it holds compiled */
    bool known;          /* it was compiled before */
    uint64_t compile_us; /* if it was not: the time that it took, also to be refused */
};

MUST_CHECK enum status grammar_check_create(struct grammar_check **out);
void grammar_check_destroy(struct grammar_check *c);

/* As grammar_compile, with the text of the first time.  *out is set also after a failure. */
MUST_CHECK enum status grammar_check(struct grammar_check *c, const struct grammar_source *source,
                                     const atomic_bool *stop, struct grammar_verdict *out);

#endif
