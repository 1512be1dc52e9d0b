#include "worker/rank_weights.h"

#include <string.h>

#include "common/hex.h"

struct rank_weights rank_weights_of(const struct weights_digest *w, bool first_on_host)
{
    struct rank_weights mine = {.first_on_host = first_on_host};
    mine.state = (uint8_t)weights_digest_get(w, mine.digest);
    return mine;
}

static enum rank_agreement agreement_of(const struct rank_weights *w)
{
    if (w->state == DIGEST_PENDING)
        return RANKS_WAIT;
    return w->state == DIGEST_NONE && w->first_on_host ? RANKS_NEVER : RANKS_AGREE;
}

enum status rank_weights_compare(const struct rank_weights *all, int world,
                                 enum rank_agreement *out)
{
    *out = RANKS_AGREE;
    for (int r = 0; r < world; r++) {
        enum rank_agreement one = agreement_of(&all[r]);
        if (one > *out)
            *out = one;
        if (all[0].state != DIGEST_KNOWN || all[r].state != DIGEST_KNOWN ||
            memcmp(all[r].digest, all[0].digest, SHA256_BYTES) == 0)
            continue;
        char mine[2 * SHA256_BYTES + 1], other[2 * SHA256_BYTES + 1];
        hex_of(all[0].digest, SHA256_BYTES, mine);
        hex_of(all[r].digest, SHA256_BYTES, other);
        FAIL(ST_RANGE, "rank %d has other weights than rank 0: weights digests %s and %s", r, other,
             mine);
    }
    return ST_OK;
}
