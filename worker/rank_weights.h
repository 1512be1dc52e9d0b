/* The ranks' weights digests beside each other: at start where all are known (worker/rank.c), else in
 * the loop when they are (worker/rank_loop.c). */
#ifndef WORKER_RANK_WEIGHTS_H
#define WORKER_RANK_WEIGHTS_H

#include "common/digest/weights_digest.h"

/* One rank's, as it is gathered. */
struct rank_weights {
    uint8_t state; /* enum digest_state */
    uint8_t first_on_host;
    uint8_t digest[SHA256_BYTES];
};

struct rank_weights rank_weights_of(const struct weights_digest *w, bool first_on_host);

enum rank_agreement {
    RANKS_AGREE,
    RANKS_WAIT,  /* some are not known yet */
    RANKS_NEVER, /* a host has none: its files could not be read */
};

/* Rank 0: all[world].  ST_RANGE names the first rank with another digest.  A rank without one is
 * passed over where another rank of its host speaks for the files. */
MUST_CHECK enum status rank_weights_compare(const struct rank_weights *all, int world,
                                            enum rank_agreement *out);

#endif
