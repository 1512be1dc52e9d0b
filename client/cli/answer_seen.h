/* What was received of an answer, so that after a broken connection the deltas, which come again from
 * the beginning and cut anew, give only what is new. */
#ifndef CLIENT_CLI_ANSWER_SEEN_H
#define CLIENT_CLI_ANSWER_SEEN_H

#include "client/lib/ingot.h"

enum { MAX_SEEN = 16 /* samples: the protocol's limit */ };

struct answer_seen { /* begin with {0} */
    struct {
        size_t ids, text;           /* received: tokens, bytes */
        size_t skip_ids, skip_text; /* of what comes: received before */
    } sample[MAX_SEEN];
};

/* Was anything received? */
bool answer_seen_any(const struct answer_seen *s);
/* From now on everything comes again. */
void answer_seen_again(struct answer_seen *s);
/* Takes away from a delta what was received before; false: nothing is left. */
bool answer_seen_trim(struct answer_seen *s, struct ingot_event *ev);

#endif
