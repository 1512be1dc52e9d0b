/* What a worker group must be to serve here: sizes that are possible, this server's digests and numerics.
 * Called by worker_port; no state. */
#ifndef COORDINATOR_GROUP_FIT_H
#define COORDINATOR_GROUP_FIT_H

#include "common/wire/worker_msg.h"

/* The facts that a group must have. */
struct worker_port_need {
    uint32_t model_vocab, model_max_ctx; /* the model's: upper bounds */
    bool has_shape;                      /* the next five must be equal: the scheduler has them */
    uint32_t block_len, max_ctx, max_step_tokens, max_seqs, n_snapshots;
    uint32_t embedding; /* components */
    bool has_weights, has_text;
    uint8_t weights[SHA256_BYTES], text[SHA256_BYTES];
    const char *weights_from;        /* the source of `weights`, for messages */
    char numerics[NUMERICS_ID_SIZE]; /* "": any */
};

/* Why a group that says so in its Hello cannot serve, or NULL; the text is in buf. */
const char *group_unfit(const struct worker_port_need *w, const struct worker_hello *h, char *buf,
                        size_t n);
/* The same by its digests and numerics id alone. */
const char *group_other_identity(const struct worker_port_need *w, const struct worker_hello *h,
                                 char *buf, size_t n);

#endif
