/* Compiles grammars on a thread of its own, in the order in which they came, so that a rank's steps go on meanwhile.
 * Called by the rank's main thread. */
#ifndef WORKER_SAMPLE_COMPILER_H
#define WORKER_SAMPLE_COMPILER_H

#include "common/grammar/grammar.h"

struct compiler;
struct compile_job; /* one grammar, until it was taken or dropped */

MUST_CHECK enum status compiler_create(struct compiler **out);
/* When all jobs were taken or dropped.  NULL is fine. */
void compiler_destroy(struct compiler *c);

/* Begins a job; the source is copied. */
MUST_CHECK enum status compiler_add(struct compiler *c, const struct grammar_source *source,
                                    struct compile_job **out);
/* Is the job done, whether or not the source compiles? */
bool compiler_done(struct compiler *c, const struct compile_job *job);
/* Waits until the job is done and ends it; errors as of grammar_compile. */
MUST_CHECK enum status compiler_take(struct compiler *c, struct compile_job *job,
                                     struct grammar **out);
/* Ends a job whose grammar is not wanted any more. */
void compiler_drop(struct compiler *c, struct compile_job *job);

#endif
