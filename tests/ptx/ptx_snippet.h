/* Small kernels for the tests of the PTX machine. */
#ifndef TESTS_PTX_PTX_SNIPPET_H
#define TESTS_PTX_PTX_SNIPPET_H

#include "ptx/ptx_machine.h"

enum { SNIPPET_IN = 4096, SNIPPET_OUT = 4096 };

struct snippet {
    const char *body;         /* of an entry that declares what ptx_snippet.c says */
    uint32_t blocks, threads; /* 0: 1, 32 */
    size_t dynamic_bytes;
    bool
        dependent_pair; /* the same kernel twice in a stream, the second one dependent; %r0: which */
    uint64_t seed, max_instrs;
    enum ptx_mma_order mma;
};

/* Runs the body with %rd0 = in [SNIPPET_IN] (defined) and %rd1 = out [SNIPPET_OUT] (not defined
 * before).  %r1: the thread.  ST_OK: out is defined as far as the kernel wrote it. */
MUST_CHECK enum status snippet_run(const struct snippet *s, const void *in, size_t n_in, void *out);
/* The same, with all bytes of out that are read below n_out defined, too. */
MUST_CHECK enum status snippet_out(const struct snippet *s, const void *in, size_t n_in, void *out,
                                   size_t n_out);

#endif
