#include "client/gateway/openai_error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_RETRY_MS = 500 };

static int status_of(const struct ingot_event *ev, bool ready)
{
    if (strcmp(ev->field ? ev->field : "", "request_id") == 0) /* of an Idempotency-Key */
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

/* The protocol's name of a field -> the request's. */
static void param_of(const char *field, enum openai_form form, char *out, size_t size)
{
    static const struct {
        const char *field, *chat, *completion;
    } rows[] = {
        {"chat", "messages", "messages"},
        {"text", "messages", "prompt"},
        {"tokens", "messages", "prompt"},
        {"tokens.id", "messages", "prompt"},
        {"logit_bias.id", "logit_bias", "logit_bias"},
        {"logit_bias.bias", "logit_bias", "logit_bias"},
        {"stop_token_id", "stop_token_ids", "stop_token_ids"},
        {"sampling", "", ""},
        {"request_id", "", ""},
        {"tenant_limits.max_samples", "", ""},
        {"tenant_limits.tokens_per_minute", "", ""},
    };
    static const char sampling[] = "sampling.", chat[] = "chat.";
    if (strncmp(field, sampling, sizeof sampling - 1) == 0)
        field += sizeof sampling - 1;
    if (strncmp(field, chat, sizeof chat - 1) == 0)
        field = "chat";
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(field, rows[i].field) == 0)
            field = form == OPENAI_CHAT ? rows[i].chat : rows[i].completion;
    snprintf(out, size, "%s", field);
}

struct openai_error openai_error_of(const struct ingot_event *ev, enum openai_form form, bool ready)
{
    struct openai_error e = {.status = status_of(ev, ready), .message = ev->detail};
    if (e.status == 429 || e.status == 503)
        e.retry_after_ms =
            ev->retry_after_ms > LEAST_RETRY_MS ? ev->retry_after_ms : LEAST_RETRY_MS;
    if (ev->field)
        param_of(ev->field, form, e.param, sizeof e.param);
    return e;
}

void openai_error_send(struct http_reply *r, const struct openai_error *e)
{
    char value[24];
    if (e->retry_after_ms) {
        snprintf(value, sizeof value, "%" PRIu32, e->retry_after_ms);
        http_reply_header(r, "retry-after-ms", value);
        snprintf(value, sizeof value, "%" PRIu32, (e->retry_after_ms + 999) / 1000);
        http_reply_header(r, "retry-after", value);
    }
    if (e->status == 409)
        http_reply_header(r, "x-should-retry", "false"); /* clients retry conflicts by themselves */
    http_reply_error_at(r, e->status, e->message, e->param);
}
