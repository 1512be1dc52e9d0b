#include "client/gateway/anthropic_form.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/gateway/answer_error.h"
#include "client/gateway/raw_json.h"
#include "common/hex.h"
#include "common/random.h"

enum { ID_BYTES = 12 };

/* Clients send it back with the thinking; it proves nothing and is not read. */
static const char signature[] = "ingot";

enum open_block { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT };

struct anthropic_answer {
    char id[sizeof "msg_" + 2 * ID_BYTES];
    char model[ANSWER_MAX_MODEL];
    bool hide_thinking;
    /* of a stream */
    enum open_block open;
    size_t index; /* of the block that is open, or comes next */
};

void *anthropic_answer_create(const struct anthropic_request *q, const char *model)
{
    struct anthropic_answer *a = calloc(1, sizeof *a);
    uint8_t bytes[ID_BYTES];
    char hex[2 * ID_BYTES + 1];
    if (!a)
        return NULL;
    random_bytes(bytes, sizeof bytes);
    hex_of(bytes, sizeof bytes, hex);
    snprintf(a->id, sizeof a->id, "msg_%s", hex);
    snprintf(a->model, sizeof a->model, "%s", model);
    a->hide_thinking = q->hide_thinking;
    return a;
}

/* ---- what streams and whole answers share ---- */

static void member_bytes(struct json_writer *w, const char *key, const char *text, size_t n)
{
    json_write_key(w, key);
    json_write_bytes(w, text, n);
}

static void begin_message(struct json_writer *w, const struct anthropic_answer *a)
{
    json_write_object(w);
    json_member_string(w, "id", a->id);
    json_member_string(w, "type", "message");
    json_member_string(w, "role", "assistant");
    json_member_string(w, "model", a->model);
    json_write_key(w, "content");
    json_write_array(w);
}

/* end NULL: it goes on. */
static void write_stop(struct json_writer *w, const struct answer_end *end)
{
    static const char *const names[] = {
        [ANSWER_STOP] = "end_turn", [ANSWER_LENGTH] = "max_tokens", [ANSWER_CALLS] = "tool_use"};
    bool sequence = end && end->finish == ANSWER_STOP && end->stop.len;
    if (end)
        json_member_string(w, "stop_reason", sequence ? "stop_sequence" : names[end->finish]);
    else
        json_member_null(w, "stop_reason");
    if (sequence)
        member_bytes(w, "stop_sequence", end->stop.data, end->stop.len);
    else
        json_member_null(w, "stop_sequence");
}

/* input_tokens are those that were not found in the cache. */
static void write_usage(struct json_writer *w, const struct answer_usage *u)
{
    json_write_key(w, "usage");
    json_write_object(w);
    json_member_u64(w, "input_tokens", u->prompt_tokens - u->cached_tokens);
    json_member_u64(w, "cache_creation_input_tokens", 0);
    json_member_u64(w, "cache_read_input_tokens", u->cached_tokens);
    json_member_u64(w, "output_tokens", u->completion_tokens);
    json_write_end_object(w);
}

/* ---- streams ---- */

static enum status begin(void *ctx, const struct answer_start *start, struct text_buf *out)
{
    struct json_writer w = answer_event_begin(out, "message_start");
    json_write_object(&w);
    json_member_string(&w, "type", "message_start");
    json_write_key(&w, "message");
    begin_message(&w, ctx);
    json_write_end_array(&w);
    write_stop(&w, NULL);
    write_usage(&w, &(struct answer_usage){.prompt_tokens = start->prompt_tokens});
    json_write_end_object(&w);
    json_write_end_object(&w);
    return answer_event_end(&w);
}

static struct json_writer begin_event(const struct anthropic_answer *a, const char *type,
                                      struct text_buf *out)
{
    struct json_writer w = answer_event_begin(out, type);
    json_write_object(&w);
    json_member_string(&w, "type", type);
    json_member_u64(&w, "index", a->index);
    return w;
}

static enum status end_event(struct json_writer *w)
{
    json_write_end_object(w);
    return answer_event_end(w);
}

static enum status delta(const struct anthropic_answer *a, const char *type, const char *key,
                         const char *text, size_t n, struct text_buf *out)
{
    struct json_writer w = begin_event(a, "content_block_delta", out);
    json_write_key(&w, "delta");
    json_write_object(&w);
    json_member_string(&w, "type", type);
    member_bytes(&w, key, text, n);
    json_write_end_object(&w);
    return end_event(&w);
}

static enum status stop_block(struct anthropic_answer *a, struct text_buf *out)
{
    struct json_writer w = begin_event(a, "content_block_stop", out);
    a->open = BLOCK_NONE;
    a->index++;
    return end_event(&w);
}

static enum status close_block(struct anthropic_answer *a, struct text_buf *out)
{
    if (a->open == BLOCK_NONE)
        return ST_OK;
    if (a->open == BLOCK_THINKING)
        TRY(delta(a, "signature_delta", "signature", signature, sizeof signature - 1, out));
    return stop_block(a, out);
}

static enum status open_block(struct anthropic_answer *a, enum open_block kind, const char *type,
                              struct text_buf *out)
{
    if (a->open == kind)
        return ST_OK;
    TRY(close_block(a, out));
    a->open = kind;
    struct json_writer w = begin_event(a, "content_block_start", out);
    json_write_key(&w, "content_block");
    json_write_object(&w);
    json_member_string(&w, "type", type);
    json_member_string(&w, type, "");
    if (kind == BLOCK_THINKING)
        json_member_string(&w, "signature", "");
    json_write_end_object(&w);
    return end_event(&w);
}

static enum status reasoning(void *ctx, struct answer_choice *c, const char *text, size_t n,
                             struct text_buf *out)
{
    struct anthropic_answer *a = ctx;
    (void)c;
    TRY(open_block(a, BLOCK_THINKING, "thinking", out));
    return a->hide_thinking ? ST_OK : delta(a, "thinking_delta", "thinking", text, n, out);
}

static enum status content(void *ctx, struct answer_choice *c, const char *text, size_t n,
                           struct text_buf *out)
{
    (void)c;
    TRY(open_block(ctx, BLOCK_TEXT, "text", out));
    return delta(ctx, "text_delta", "text", text, n, out);
}

static enum status call_begin(void *ctx, struct answer_choice *c, const struct answer_call *call,
                              struct text_buf *out)
{
    (void)c;
    TRY(close_block(ctx, out));
    struct json_writer w = begin_event(ctx, "content_block_start", out);
    json_write_key(&w, "content_block");
    json_write_object(&w);
    json_member_string(&w, "type", "tool_use");
    json_member_string(&w, "id", call->id);
    member_bytes(&w, "name", call->name.data, call->name.len);
    json_write_key(&w, "input");
    json_write_object(&w);
    json_write_end_object(&w);
    json_write_end_object(&w);
    return end_event(&w);
}

static enum status call_arguments(void *ctx, struct answer_choice *c,
                                  const struct answer_call *call, const char *text, size_t n,
                                  struct text_buf *out)
{
    (void)c, (void)call;
    return delta(ctx, "input_json_delta", "partial_json", text, n, out);
}

static enum status call_end(void *ctx, struct answer_choice *c, const struct answer_call *call,
                            struct text_buf *out)
{
    (void)c, (void)call;
    return stop_block(ctx, out);
}

static enum status finish(void *ctx, struct answer_choice *c, struct text_buf *out)
{
    (void)c;
    return close_block(ctx, out);
}

static enum status end(void *ctx, const struct answer_whole *whole, struct text_buf *out)
{
    struct json_writer w = answer_event_begin(out, "message_delta");
    (void)ctx;
    json_write_object(&w);
    json_member_string(&w, "type", "message_delta");
    json_write_key(&w, "delta");
    json_write_object(&w);
    write_stop(&w, &whole->choices[0].end);
    json_write_end_object(&w);
    write_usage(&w, &whole->usage);
    TRY(end_event(&w));
    w = answer_event_begin(out, "message_stop");
    json_write_object(&w);
    json_member_string(&w, "type", "message_stop");
    return end_event(&w);
}

/* ---- whole answers ---- */

static void write_block(struct json_writer *w, const char *type, const char *text, size_t n)
{
    json_write_object(w);
    json_member_string(w, "type", type);
    member_bytes(w, type, text, n);
}

static enum status body(void *ctx, const struct answer_whole *whole, struct text_buf *out)
{
    const struct anthropic_answer *a = ctx;
    const struct answer_choice *c = &whole->choices[0];
    struct json_writer w = {.out = out};
    begin_message(&w, a);
    if (c->reasoning.len) {
        write_block(&w, "thinking", c->reasoning.data, a->hide_thinking ? 0 : c->reasoning.len);
        json_member_string(&w, "signature", signature);
        json_write_end_object(&w);
    }
    if (c->content.len) {
        write_block(&w, "text", c->content.data, c->content.len);
        json_write_end_object(&w);
    }
    for (size_t i = 0; i < c->n_calls; i++) {
        const struct answer_call *call = c->calls[i];
        json_write_object(&w);
        json_member_string(&w, "type", "tool_use");
        json_member_string(&w, "id", call->id);
        member_bytes(&w, "name", call->name.data, call->name.len);
        json_write_key(&w, "input");
        raw_json_write_arguments(&w, call->arguments.data, call->arguments.len);
        json_write_end_object(&w);
    }
    json_write_end_array(&w);
    write_stop(&w, &c->end);
    write_usage(&w, &whole->usage);
    json_write_end_object(&w);
    return w.status;
}

/* ---- errors ---- */

static const char *error_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    case 504:
        return "timeout_error";
    default:
        return status < 500 ? "invalid_request_error" : "api_error";
    }
}

void anthropic_write_error(struct json_writer *w, int status, const char *message,
                           const char *param)
{
    (void)param; /* the message names it */
    json_write_object(w);
    json_member_string(w, "type", "error");
    json_write_key(w, "error");
    json_write_object(w);
    json_member_string(w, "type", error_type(status));
    json_member_string(w, "message", message);
    json_write_end_object(w);
    json_write_end_object(w);
}

static enum status error(void *ctx, const struct answer_error *e, struct text_buf *out)
{
    struct json_writer w = answer_event_begin(out, "error");
    (void)ctx;
    anthropic_write_error(&w, e->status, e->message, NULL);
    return answer_event_end(&w);
}

static void refuse(void *ctx, struct http_reply *r, const struct answer_error *e)
{
    (void)ctx;
    answer_error_headers(r, e);
    http_reply_error(r, e->status, e->message);
}

const struct answer_form anthropic_form = {
    .call_prefix = "toolu_",
    .begin = begin,
    .reasoning = reasoning,
    .content = content,
    .call_begin = call_begin,
    .call_arguments = call_arguments,
    .call_end = call_end,
    .finish = finish,
    .end = end,
    .error = error,
    .body = body,
    .refuse = refuse,
    .release = free,
};
