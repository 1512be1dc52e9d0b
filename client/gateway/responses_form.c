#include "client/gateway/responses_form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gateway/openai_json.h"
#include "client/gateway/raw_json.h"
#include "client/gateway/responses_items.h"
#include "common/hex.h"
#include "common/random.h"

enum { ID_BYTES = 12 };

struct responses_answer {
    char hex[2 * ID_BYTES + 1]; /* of all ids */
    char model[ANSWER_MAX_MODEL];
    int64_t created; /* s since 1970 */
    bool one_call;
    struct text_buf echo;       /* the members that repeat the request's */
    struct text_buf output;     /* the items that have ended, with their commas */
    struct responses_item item; /* that is open, or the next one */
    uint64_t sequence;          /* of the next event */
};

/* ---- life ---- */

static void release(void *ctx)
{
    struct responses_answer *a = ctx;
    text_buf_free(&a->item.text);
    text_buf_free(&a->echo);
    text_buf_free(&a->output);
    free(a);
}

static enum status set_echo(struct responses_answer *a, const struct responses_request *q)
{
    static const struct {
        const char *key, *usual; /* usual: as JSON */
    } rows[RESPONSES_N_ECHOES] = {
        [ECHO_INSTRUCTIONS] = {"instructions", "null"},
        [ECHO_MAX_OUTPUT_TOKENS] = {"max_output_tokens", "null"},
        [ECHO_METADATA] = {"metadata", "{}"},
        [ECHO_REASONING] = {"reasoning", "{\"effort\":null,\"summary\":null}"},
        [ECHO_TEMPERATURE] = {"temperature", "1"},
        [ECHO_TOOL_CHOICE] = {"tool_choice", "\"auto\""},
        [ECHO_TOOLS] = {"tools", "[]"},
        [ECHO_TOP_P] = {"top_p", "1"},
    };
    struct json_writer w = {.out = &a->echo};
    for (size_t i = 0; i < RESPONSES_N_ECHOES; i++) {
        bool given = q->echo[i].n > 0;
        json_write_key(&w, rows[i].key);
        raw_json_write(&w, given ? q->echo[i].p : rows[i].usual,
                       given ? q->echo[i].n : strlen(rows[i].usual));
    }
    return w.status;
}

void *responses_answer_create(const struct responses_request *q, const char *model)
{
    struct responses_answer *a = calloc(1, sizeof *a);
    uint8_t bytes[ID_BYTES];
    if (!a)
        return NULL;
    random_bytes(bytes, sizeof bytes);
    hex_of(bytes, sizeof bytes, a->hex);
    snprintf(a->model, sizeof a->model, "%s", model);
    a->created = (int64_t)time(NULL);
    a->one_call = q->of.one_call;
    if (set_echo(a, q) != ST_OK) {
        release(a);
        return NULL;
    }
    return a;
}

/* ---- the response itself ---- */

static void write_usage(struct json_writer *w, const struct answer_usage *u)
{
    json_write_key(w, "usage");
    json_write_object(w);
    json_member_u64(w, "input_tokens", u->prompt_tokens);
    json_write_key(w, "input_tokens_details");
    json_write_object(w);
    json_member_u64(w, "cached_tokens", u->cached_tokens);
    json_member_u64(w, "cache_write_tokens", 0);
    json_write_end_object(w);
    json_member_u64(w, "output_tokens", u->completion_tokens);
    json_write_key(w, "output_tokens_details");
    json_write_object(w);
    json_member_u64(w, "reasoning_tokens", u->reasoning_tokens);
    json_write_end_object(w);
    json_member_u64(w, "total_tokens", u->prompt_tokens + u->completion_tokens);
    json_write_end_object(w);
}

static void write_failure(struct json_writer *w, const struct answer_error *e)
{
    json_write_key(w, "error");
    json_write_object(w);
    json_member_string(w, "code", e->status == 429 ? "rate_limit_exceeded" : "server_error");
    json_member_string(w, "message", e->message);
    json_write_end_object(w);
}

/* whole NULL: it goes on, or has failed with e. */
static void write_response(struct json_writer *w, const struct responses_answer *a,
                           const struct answer_whole *whole, const struct answer_error *e)
{
    bool cut = whole && whole->choices[0].end.finish == ANSWER_LENGTH;
    char id[RESPONSES_ID_SIZE];
    snprintf(id, sizeof id, "resp_%s", a->hex);
    json_write_object(w);
    json_member_string(w, "id", id);
    json_member_string(w, "object", "response");
    json_member_i64(w, "created_at", a->created);
    json_member_string(w, "status",
                       e       ? "failed"
                       : cut   ? "incomplete"
                       : whole ? "completed"
                               : "in_progress");
    json_member_string(w, "model", a->model);
    if (e)
        write_failure(w, e);
    else
        json_member_null(w, "error");
    json_write_key(w, "incomplete_details");
    if (cut) {
        json_write_object(w);
        json_member_string(w, "reason", "max_output_tokens");
        json_write_end_object(w);
    } else {
        json_write_null(w);
    }
    json_write_key(w, "output");
    json_write_array(w);
    json_write_raw(w, a->output.data, a->output.len);
    json_write_end_array(w);
    json_write_raw(w, a->echo.data, a->echo.len);
    json_member_bool(w, "parallel_tool_calls", !a->one_call);
    json_member_bool(w, "store", false);
    json_member_bool(w, "background", false);
    json_member_null(w, "previous_response_id");
    json_member_string(w, "truncation", "disabled");
    json_write_key(w, "text");
    json_write_raw(w, "{\"format\":{\"type\":\"text\"}}", 26);
    if (whole)
        write_usage(w, &whole->usage);
    else
        json_member_null(w, "usage");
    json_write_end_object(w);
}

/* The open item has its text: it joins the output. */
static enum status keep_item(struct responses_answer *a, enum responses_state state)
{
    struct json_writer w = {.out = &a->output, .comma = a->output.len > 0};
    responses_write_item(&w, &a->item, a->hex, state);
    return w.status;
}

static void next_item(struct responses_answer *a)
{
    a->item.kind = ITEM_NONE;
    a->item.index++;
    a->item.text.len = 0;
}

/* ---- events ---- */

static struct json_writer begin_event(struct responses_answer *a, const char *type,
                                      struct text_buf *out)
{
    struct json_writer w = answer_event_begin(out, type);
    json_write_object(&w);
    json_member_string(&w, "type", type);
    json_member_u64(&w, "sequence_number", a->sequence++);
    return w;
}

static enum status end_event(struct json_writer *w)
{
    json_write_end_object(w);
    return answer_event_end(w);
}

static enum status response_event(struct responses_answer *a, const char *type,
                                  const struct answer_whole *whole, const struct answer_error *e,
                                  struct text_buf *out)
{
    struct json_writer w = begin_event(a, type, out);
    json_write_key(&w, "response");
    write_response(&w, a, whole, e);
    return end_event(&w);
}

static enum status item_event(struct responses_answer *a, const char *type,
                              enum responses_state state, struct text_buf *out)
{
    struct json_writer w = begin_event(a, type, out);
    json_member_u64(&w, "output_index", a->item.index);
    json_write_key(&w, "item");
    responses_write_item(&w, &a->item, a->hex, state);
    return end_event(&w);
}

/* An event that is about the open item's content. */
static struct json_writer begin_content(struct responses_answer *a, const char *type,
                                        struct text_buf *out)
{
    struct json_writer w = begin_event(a, type, out);
    char id[RESPONSES_ID_SIZE];
    json_member_string(&w, "item_id", responses_item_id(id, &a->item, a->hex));
    json_member_u64(&w, "output_index", a->item.index);
    if (a->item.kind != ITEM_CALL)
        json_member_u64(&w, "content_index", 0);
    return w;
}

static enum status part_event(struct responses_answer *a, const char *type, bool whole,
                              struct text_buf *out)
{
    struct json_writer w = begin_content(a, type, out);
    json_write_key(&w, "part");
    responses_write_part(&w, &a->item, whole);
    return end_event(&w);
}

/* The names of the events of each kind of item: its pieces, their end, and the member that has it all. */
static const struct {
    const char *delta, *done, *all;
} names[N_ITEM_KINDS] = {
    [ITEM_REASONING] = {"response.reasoning_text.delta", "response.reasoning_text.done", "text"},
    [ITEM_MESSAGE] = {"response.output_text.delta", "response.output_text.done", "text"},
    [ITEM_CALL] = {"response.function_call_arguments.delta",
                   "response.function_call_arguments.done", "arguments"},
};

static void write_logprobs(struct json_writer *w)
{
    json_write_key(w, "logprobs");
    json_write_array(w);
    json_write_end_array(w);
}

static enum status close_item(struct responses_answer *a, enum responses_state state,
                              struct text_buf *out)
{
    const struct responses_item *item = &a->item;
    if (item->kind == ITEM_NONE)
        return ST_OK;
    struct json_writer w = begin_content(a, names[item->kind].done, out);
    json_write_key(&w, names[item->kind].all);
    json_write_bytes(&w, item->text.data, item->text.len);
    if (item->kind == ITEM_MESSAGE)
        write_logprobs(&w);
    if (item->kind == ITEM_CALL) {
        json_write_key(&w, "name");
        json_write_bytes(&w, item->call->name.data, item->call->name.len);
    }
    TRY(end_event(&w));
    if (item->kind != ITEM_CALL)
        TRY(part_event(a, "response.content_part.done", true, out));
    TRY(item_event(a, "response.output_item.done", state, out));
    TRY(keep_item(a, state));
    next_item(a);
    return ST_OK;
}

static enum status open_item(struct responses_answer *a, enum responses_kind kind,
                             const struct answer_call *call, struct text_buf *out)
{
    TRY(close_item(a, ITEM_WHOLE, out));
    a->item.kind = kind;
    a->item.call = call;
    TRY(item_event(a, "response.output_item.added", ITEM_BEGUN, out));
    return kind == ITEM_CALL ? ST_OK : part_event(a, "response.content_part.added", false, out);
}

static enum status delta(struct responses_answer *a, const char *text, size_t n,
                         struct text_buf *out)
{
    TRY(text_buf_append(&a->item.text, text, n));
    struct json_writer w = begin_content(a, names[a->item.kind].delta, out);
    json_write_key(&w, "delta");
    json_write_bytes(&w, text, n);
    if (a->item.kind == ITEM_MESSAGE)
        write_logprobs(&w);
    return end_event(&w);
}

/* ---- the form of streams ---- */

static enum status begin(void *ctx, const struct answer_start *start, struct text_buf *out)
{
    (void)start;
    TRY(response_event(ctx, "response.created", NULL, NULL, out));
    return response_event(ctx, "response.in_progress", NULL, NULL, out);
}

static enum status give(struct responses_answer *a, enum responses_kind kind, const char *text,
                        size_t n, struct text_buf *out)
{
    if (a->item.kind != kind)
        TRY(open_item(a, kind, NULL, out));
    return delta(a, text, n, out);
}

static enum status reasoning(void *ctx, struct answer_choice *c, const char *text, size_t n,
                             struct text_buf *out)
{
    (void)c;
    return give(ctx, ITEM_REASONING, text, n, out);
}

static enum status content(void *ctx, struct answer_choice *c, const char *text, size_t n,
                           struct text_buf *out)
{
    (void)c;
    return give(ctx, ITEM_MESSAGE, text, n, out);
}

static enum status call_begin(void *ctx, struct answer_choice *c, const struct answer_call *call,
                              struct text_buf *out)
{
    (void)c;
    return open_item(ctx, ITEM_CALL, call, out);
}

static enum status call_arguments(void *ctx, struct answer_choice *c,
                                  const struct answer_call *call, const char *text, size_t n,
                                  struct text_buf *out)
{
    (void)c, (void)call;
    return delta(ctx, text, n, out);
}

static enum status call_end(void *ctx, struct answer_choice *c, const struct answer_call *call,
                            struct text_buf *out)
{
    (void)c;
    return close_item(ctx, call->ended ? ITEM_WHOLE : ITEM_CUT, out);
}

static enum status finish(void *ctx, struct answer_choice *c, struct text_buf *out)
{
    return close_item(ctx, c->end.finish == ANSWER_LENGTH ? ITEM_CUT : ITEM_WHOLE, out);
}

static enum status end(void *ctx, const struct answer_whole *whole, struct text_buf *out)
{
    bool cut = whole->choices[0].end.finish == ANSWER_LENGTH;
    return response_event(ctx, cut ? "response.incomplete" : "response.completed", whole, NULL,
                          out);
}

static enum status error(void *ctx, const struct answer_error *e, struct text_buf *out)
{
    return response_event(ctx, "response.failed", NULL, e, out);
}

/* ---- whole answers ---- */

static enum status add_item(struct responses_answer *a, enum responses_kind kind,
                            const struct answer_call *call, const struct text_buf *text, bool cut)
{
    a->item.kind = kind;
    a->item.call = call;
    TRY(text_buf_append(&a->item.text, text->data, text->len));
    TRY(keep_item(a, cut ? ITEM_CUT : ITEM_WHOLE));
    next_item(a);
    return ST_OK;
}

static enum status body(void *ctx, const struct answer_whole *whole, struct text_buf *out)
{
    struct responses_answer *a = ctx;
    const struct answer_choice *c = &whole->choices[0];
    struct json_writer w = {.out = out};
    enum answer_part cut = c->end.finish == ANSWER_LENGTH ? c->last : ANSWER_NO_PART;
    if (c->reasoning.len)
        TRY(add_item(a, ITEM_REASONING, NULL, &c->reasoning, cut == ANSWER_REASONING));
    if (c->content.len)
        TRY(add_item(a, ITEM_MESSAGE, NULL, &c->content, cut == ANSWER_CONTENT));
    for (size_t i = 0; i < c->n_calls; i++)
        TRY(add_item(a, ITEM_CALL, c->calls[i], &c->calls[i]->arguments, !c->calls[i]->ended));
    write_response(&w, a, whole, NULL);
    return w.status;
}

static void refuse(void *ctx, struct http_reply *r, const struct answer_error *e)
{
    struct answer_error own = *e;
    (void)ctx;
    if (strcmp(e->field, "max_tokens") == 0)
        own.field = "max_output_tokens";
    openai_refuse(r, &own, "input");
}

const struct answer_form responses_form = {
    .call_prefix = "call_",
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
    .release = release,
};
