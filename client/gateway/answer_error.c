#include "client/gateway/answer_error.h"

#include <inttypes.h>
#include <stdio.h>

enum { LEAST_RETRY_MS = 500 };

static int status_of(const struct ingot_event *ev, bool ready)
{
    switch (ev->code) {
    case INGOT_FORMAT:
    case INGOT_RANGE:
    case INGOT_UNSUPPORTED:
        return 400;
    case INGOT_NOT_FOUND:
        return 404;
    case INGOT_BUSY:
        return ready ? 429 : 503;
    case INGOT_TIMEOUT:
        return 504;
    case INGOT_PEER:
    case INGOT_CANCELLED:
        return 503;
    default:
        return ev->retryable ? 503 : 500;
    }
}

struct answer_error answer_error_of(const struct ingot_event *ev, bool ready)
{
    struct answer_error e = {
        .status = status_of(ev, ready), .message = ev->detail, .field = ev->field ? ev->field : ""};
    if (e.status == 429 || e.status == 503)
        e.retry_after_ms =
            ev->retry_after_ms > LEAST_RETRY_MS ? ev->retry_after_ms : LEAST_RETRY_MS;
    return e;
}

struct answer_error answer_error_of_reason(enum ingot_reason reason)
{
    switch (reason) {
    case INGOT_REASON_EOS:
    case INGOT_REASON_LENGTH:
    case INGOT_REASON_STOP:
        return (struct answer_error){.field = ""};
    case INGOT_REASON_DEADLINE:
        return (struct answer_error){504, "the deadline has passed", "", 0};
    case INGOT_REASON_CANCELLED:
        return (struct answer_error){503, "the request was cancelled", "", 0};
    default:
        return (struct answer_error){500, "the request failed", "", 0};
    }
}

void answer_error_headers(struct http_reply *r, const struct answer_error *e)
{
    char value[24];
    if (!e->retry_after_ms)
        return;
    snprintf(value, sizeof value, "%" PRIu32, e->retry_after_ms);
    http_reply_header(r, "retry-after-ms", value);
    snprintf(value, sizeof value, "%" PRIu32, (e->retry_after_ms + 999) / 1000);
    http_reply_header(r, "retry-after", value);
}
