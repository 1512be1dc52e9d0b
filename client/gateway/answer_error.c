#include "client/gateway/answer_error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_RETRY_MS = 500 };

static int status_of(const struct ingot_event *ev, bool ready)
{
    if (ev->field && strcmp(ev->field, "request_id") == 0) /* of an Idempotency-Key */
        return ev->code == INGOT_PEER ? 409 : 422;
    if (ev->draining)
        return 503;
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

/* "": the field is none of the client's request, but the gateway's own. */
static const char *field_of(const struct ingot_event *ev)
{
    static const char limits[] = "tenant_limits";
    if (!ev->field || strcmp(ev->field, "request_id") == 0 ||
        strncmp(ev->field, limits, sizeof limits - 1) == 0)
        return "";
    return ev->field;
}

struct answer_error answer_error_of(const struct ingot_event *ev, bool ready)
{
    struct answer_error e = {
        .status = status_of(ev, ready), .message = ev->detail, .field = field_of(ev)};
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
    if (e->status == 409)
        http_reply_header(r, "x-should-retry", "false"); /* clients retry conflicts by themselves */
    if (!e->retry_after_ms)
        return;
    snprintf(value, sizeof value, "%" PRIu32, e->retry_after_ms);
    http_reply_header(r, "retry-after-ms", value);
    snprintf(value, sizeof value, "%" PRIu32, (e->retry_after_ms + 999) / 1000);
    http_reply_header(r, "retry-after", value);
}
