/* The digests of the model that this server serves, against which worker groups are held: its own,
 * from the files that it has, or the weights digest that it was told.  One thread (the loop); large
 * weight files are hashed by a thread of their own, which begins when the first group has come, so
 * that it does not compete with the group's loading. */
#ifndef COORDINATOR_MODEL_IDENTITY_H
#define COORDINATOR_MODEL_IDENTITY_H

#include "common/digest/weights_digest.h"

struct model_identity {
    enum {
        IDENTITY_PENDING, /* its own, not known yet */
        IDENTITY_OWN,
        IDENTITY_TOLD,
        IDENTITY_NONE, /* it has no weight files, and was told nothing */
    } from;
    struct weights_digest *own;    /* NULL: told, or none */
    uint8_t weights[SHA256_BYTES]; /* IDENTITY_OWN, IDENTITY_TOLD */
    bool has_text;
    uint8_t text[SHA256_BYTES];
    uint32_t vocab, max_ctx; /* of the configuration: what a group can have at most */
};

/* told: 64 hexadecimal digits, or NULL.  ST_RANGE names what is wrong with it. */
MUST_CHECK enum status model_identity_open(struct model_identity *id, const char *model,
                                           const char *told, const struct digest_cache *cache);
void model_identity_close(struct model_identity *id);

/* A group has come: hashing may begin. */
void model_identity_begin(struct model_identity *id);
/* true: it is not pending any more, since this call. */
bool model_identity_update(struct model_identity *id);

bool model_identity_known(const struct model_identity *id);
/* "own", "told", "pending", "none" */
const char *model_identity_from(const struct model_identity *id);

#endif
