/* What the handlers of all routes share; made by main, used on the loop's thread alone. */
#ifndef CLIENT_GATEWAY_GATEWAY_STATE_H
#define CLIENT_GATEWAY_GATEWAY_STATE_H

#include "client/gateway/access_log.h"
#include "client/gateway/answer_memory.h"
#include "client/gateway/api_keys.h"
#include "client/gateway/metrics.h"
#include "client/gateway/model_names.h"
#include "client/gateway/upstream.h"

struct gateway {
    struct api_keys *keys;
    struct model_names names;
    struct upstream *upstream;
    struct metrics metrics;
    struct answer_memory answers;
    struct event_base *base;
    struct access_log *access_log; /* NULL: none */
    bool log_prompts;
    uint32_t resume_grace_ms; /* how long a request waits for its client, or for the coordinator */
    int64_t started;          /* s since 1970 */
};

#endif
