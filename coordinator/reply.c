#include "coordinator/reply.h"

void reply_error(struct coordinator *co, struct client *c, enum msg_type type,
                 const struct msg_error *error, uint64_t now_us)
{
    struct client_msg m = {.type = type, .u.error = *error};
    if (type == MSG_REJECTED)
        metrics_rejected(&co->metrics, error->code);
    m.u.error.retry_after_ms = error->retryable ? RETRY_MS : 0;
    client_port_reply(co->client_port, c, &m, now_us);
}
