#include "client/gateway/openai_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gateway/http_error.h"
#include "client/gateway/openai_error.h"
#include "client/gateway/openai_json.h"
#include "common/hex.h"
#include "common/random.h"

enum { MAX_PENDING = 1 << 20, ID_BYTES = 12 };

struct answer;

struct prompt_call { /* one prompt of the request */
    struct upstream_call call;
    struct answer *answer;
    bool accepted;
};

struct choice {
    struct openai_choice of;
    struct output_parser *parser; /* NULL: the text is passed on as it is */
};

struct answer {
    struct upstream *upstream;
    struct http_reply *reply;
    struct openai_head head;
    struct openai_usage usage;
    struct prompt_call *call;
    struct choice *choice; /* of prompt p, sample s: p * n + s */
    size_t n_calls, n_choices, n_samples;
    size_t n_accepted, n_finished; /* of the calls */
    bool include_usage;
    bool begun;              /* the stream's head is out */
    bool paused;             /* the client reads slowly */
    struct text_buf pending; /* events that the reply has not got */
};

/* ---- life ---- */

static void destroy(struct answer *a)
{
    for (size_t i = 0; a->choice && i < a->n_choices; i++) {
        output_parser_destroy(a->choice[i].parser);
        text_buf_free(&a->choice[i].of.text);
        text_buf_free(&a->choice[i].of.calls);
    }
    text_buf_free(&a->pending);
    free(a->choice);
    free(a->call);
    free(a);
}

static void cancel_calls(struct answer *a)
{
    for (size_t i = 0; a->call && i < a->n_calls; i++)
        upstream_cancel(a->upstream, &a->call[i].call);
}

static void flush(struct answer *a)
{
    if (!a->begun || a->paused || !a->pending.len)
        return;
    a->paused = !http_reply_chunk(a->reply, a->pending.data, a->pending.len);
    a->pending.len = 0;
}

/* The stream's end; what is pending goes with it. */
static void end_stream(struct answer *a)
{
    static const char done[] = "data: [DONE]\n\n";
    if (text_buf_append(&a->pending, done, sizeof done - 1) != ST_OK) {
        http_reply_abort(a->reply);
        destroy(a);
        return;
    }
    (void)http_reply_chunk(a->reply, a->pending.data, a->pending.len);
    http_reply_end(a->reply);
    destroy(a);
}

/* Ends the answer with the error: as its status, or as an event of a stream that has begun. */
static void fail(struct answer *a, const struct openai_error *e)
{
    cancel_calls(a);
    if (!a->begun) {
        openai_error_send(a->reply, e);
        destroy(a);
        return;
    }
    struct json_writer w = {.out = &a->pending};
    w.status = text_buf_append(&a->pending, "data: ", 6);
    http_error_write(&w, e->status, e->message, e->param);
    if (w.status == ST_OK)
        w.status = text_buf_append(&a->pending, "\n\n", 2);
    if (w.status == ST_OK) {
        end_stream(a);
        return;
    }
    http_reply_abort(a->reply);
    destroy(a);
}

static void fail_with(struct answer *a, int status, const char *message)
{
    fail(a, &(struct openai_error){.status = status, .message = message});
}

static void on_gone(void *ctx)
{
    struct answer *a = ctx;
    for (size_t i = 0; i < a->n_calls; i++)
        upstream_abandon(a->upstream, &a->call[i].call);
    http_reply_end(a->reply);
    destroy(a);
}

static void on_writable(void *ctx)
{
    struct answer *a = ctx;
    a->paused = false;
    flush(a);
}

/* ---- chunks ---- */

static struct json_writer begin_chunk(struct answer *a)
{
    struct json_writer w = {.out = &a->pending};
    w.status = text_buf_append(&a->pending, "data: ", 6);
    openai_write_head(&w, &a->head);
    return w;
}

static enum status end_chunk(struct answer *a, struct json_writer *w,
                             const struct openai_usage *usage)
{
    openai_write_tail(w, &a->head, usage);
    TRY(w->status);
    return text_buf_append(&a->pending, "\n\n", 2);
}

static enum status give_text(struct answer *a, size_t i, const char *text, size_t n)
{
    if (!a->head.stream)
        return text_buf_append(&a->choice[i].of.text, text, n);
    struct json_writer w = begin_chunk(a);
    openai_write_text(&w, a->head.form, i, text, n);
    return end_chunk(a, &w, NULL);
}

static enum status give_call(struct answer *a, size_t i, const struct output_event *call)
{
    struct openai_choice *c = &a->choice[i].of;
    c->n_calls++;
    if (a->head.stream) {
        struct json_writer w = begin_chunk(a);
        openai_write_call_chunk(&w, i, call);
        return end_chunk(a, &w, NULL);
    }
    struct json_writer w = {.out = &c->calls, .comma = c->n_calls > 1};
    openai_write_call(&w, call, false);
    return w.status;
}

static enum status give_parsed(struct answer *a, size_t i)
{
    struct output_event ev;
    while (output_parser_next(a->choice[i].parser, &ev))
        TRY(ev.kind == OUT_TOOL_CALL ? give_call(a, i, &ev) : give_text(a, i, ev.text, ev.n_text));
    return ST_OK;
}

static enum status give_delta(struct answer *a, size_t i, const char *text, size_t n)
{
    struct choice *c = &a->choice[i];
    if (!c->parser)
        return give_text(a, i, text, n);
    TRY(output_parser_push(c->parser, text, n));
    return give_parsed(a, i);
}

static enum status give_finish(struct answer *a, size_t i, enum ingot_reason reason)
{
    struct choice *c = &a->choice[i];
    if (c->parser) {
        TRY(output_parser_finish(c->parser));
        TRY(give_parsed(a, i));
    }
    c->of.finish = reason == INGOT_REASON_LENGTH ? "length" : c->of.n_calls ? "tool_calls" : "stop";
    if (!a->head.stream)
        return ST_OK;
    struct json_writer w = begin_chunk(a);
    openai_write_finish(&w, a->head.form, i, c->of.finish);
    return end_chunk(a, &w, NULL);
}

/* ---- the end ---- */

static void send_whole(struct answer *a)
{
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    openai_write_head(&w, &a->head);
    for (size_t i = 0; i < a->n_choices; i++)
        openai_write_choice(&w, a->head.form, i, &a->choice[i].of);
    openai_write_tail(&w, &a->head, &a->usage);
    if (w.status == ST_OK)
        http_reply_send(a->reply, 200, "application/json", body.data, body.len);
    else
        http_reply_error(a->reply, 500, status_text());
    text_buf_free(&body);
    destroy(a);
}

static enum status usage_chunk(struct answer *a)
{
    struct json_writer w = begin_chunk(a);
    return end_chunk(a, &w, &a->usage);
}

static void finish(struct answer *a)
{
    if (!a->head.stream)
        send_whole(a);
    else if (a->include_usage && usage_chunk(a) != ST_OK)
        fail_with(a, 500, status_text());
    else
        end_stream(a);
}

/* ---- events ---- */

static enum status on_accepted(struct answer *a, struct prompt_call *p)
{
    if (p->accepted)
        return ST_OK;
    p->accepted = true;
    if (++a->n_accepted < a->n_calls || !a->head.stream)
        return ST_OK;
    http_reply_begin_events(a->reply);
    a->begun = true;
    return ST_OK;
}

/* Did all samples end as they should? */
static bool is_good(const struct ingot_event *ev, struct openai_error *e)
{
    for (uint32_t i = 0; i < ev->n_samples; i++)
        switch (ev->samples[i].reason) {
        case INGOT_REASON_EOS:
        case INGOT_REASON_LENGTH:
        case INGOT_REASON_STOP:
            break;
        case INGOT_REASON_DEADLINE:
            *e = (struct openai_error){.status = 504, .message = "the deadline has passed"};
            return false;
        case INGOT_REASON_CANCELLED:
            *e = (struct openai_error){.status = 503, .message = "the request was cancelled"};
            return false;
        default:
            *e = (struct openai_error){.status = 500, .message = "the request failed"};
            return false;
        }
    return true;
}

static enum status on_finish(struct answer *a, size_t first, const struct ingot_event *ev)
{
    a->usage.prompt_tokens += ev->prompt_tokens;
    a->usage.cached_tokens += ev->cached_tokens;
    a->usage.completion_tokens += ev->completion_tokens;
    a->n_finished++;
    for (uint32_t i = 0; i < ev->n_samples; i++)
        if (ev->samples[i].sample < a->n_samples)
            TRY(give_finish(a, first + ev->samples[i].sample, ev->samples[i].reason));
    return ST_OK;
}

static void on_event(struct upstream_call *call, const struct ingot_event *ev)
{
    struct prompt_call *p = (struct prompt_call *)call; /* its first member */
    struct answer *a = p->answer;
    size_t first = (size_t)(p - a->call) * a->n_samples;
    struct openai_error e;
    enum status st = ST_OK;
    if (ev->kind == INGOT_EVENT_ERROR) {
        e = openai_error_of(ev, a->head.form, upstream_is_ready(a->upstream));
        fail(a, &e);
        return;
    }
    if (ev->kind == INGOT_EVENT_FINISH && !is_good(ev, &e)) {
        fail(a, &e);
        return;
    }
    if (ev->kind == INGOT_EVENT_ACCEPTED)
        st = on_accepted(a, p);
    else if (ev->kind == INGOT_EVENT_FINISH)
        st = on_finish(a, first, ev);
    else if (ev->n_text && ev->sample < a->n_samples)
        st = give_delta(a, first + ev->sample, ev->text, ev->n_text);
    if (st != ST_OK) {
        fail_with(a, 500, status_text());
        return;
    }
    if (a->n_finished == a->n_calls) {
        finish(a);
        return;
    }
    flush(a);
    if (a->pending.len > MAX_PENDING)
        fail_with(a, 500, "the client reads too slowly");
}

/* ---- start ---- */

static enum status init(struct answer *a, const struct openai_request *q, const char *model)
{
    uint8_t bytes[ID_BYTES];
    char hex[2 * ID_BYTES + 1];
    const struct output_options parse = {.tools = OUTPUT_TOOLS_AUTO};
    random_bytes(bytes, sizeof bytes);
    hex_of(bytes, sizeof bytes, hex);
    snprintf(a->head.id, sizeof a->head.id, "%s-%s", q->form == OPENAI_CHAT ? "chatcmpl" : "cmpl",
             hex);
    snprintf(a->head.model, sizeof a->head.model, "%s", model);
    a->head.created = (int64_t)time(NULL);
    a->head.form = q->form;
    a->head.stream = q->stream;
    a->head.with_usage = q->stream && q->include_usage;
    a->include_usage = q->include_usage;
    a->n_calls = q->n_prompts;
    a->n_samples = q->ask.n;
    a->n_choices = a->n_calls * a->n_samples;
    a->call = calloc(a->n_calls, sizeof *a->call);
    a->choice = calloc(a->n_choices, sizeof *a->choice);
    if (!a->call || !a->choice)
        FAIL(ST_NOMEM, "no memory for %zu choices", a->n_choices);
    for (size_t i = 0; i < a->n_choices && q->calls; i++)
        TRY(output_parser_create(&a->choice[i].parser, &parse));
    for (size_t i = 0; i < a->n_choices && a->head.stream && q->form == OPENAI_CHAT; i++) {
        struct json_writer w = begin_chunk(a);
        openai_write_role(&w, i);
        TRY(end_chunk(a, &w, NULL));
    }
    return ST_OK;
}

static enum ingot_code send_calls(struct answer *a, struct openai_request *q)
{
    for (size_t i = 0; i < a->n_calls; i++) {
        if (q->form == OPENAI_COMPLETION) {
            q->ask.text = q->prompts[i].text;
            q->ask.n_text = q->prompts[i].n_text;
            q->ask.ids = q->prompts[i].ids;
            q->ask.n_ids = q->prompts[i].n_ids;
        }
        a->call[i] = (struct prompt_call){
            .call = {.event = on_event, .log = http_reply_user(a->reply), .part = i}, .answer = a};
        enum ingot_code code = upstream_generate(a->upstream, &a->call[i].call, &q->ask);
        if (code != INGOT_OK)
            return code;
    }
    return INGOT_OK;
}

void openai_answer_start(struct upstream *u, struct http_reply *r, struct openai_request *q,
                         const char *model)
{
    struct answer *a = calloc(1, sizeof *a);
    if (!a) {
        http_reply_error(r, 503, "no memory for an answer");
        return;
    }
    a->upstream = u;
    a->reply = r;
    if (init(a, q, model) != ST_OK) {
        fail_with(a, 503, status_text());
        return;
    }
    enum ingot_code code = send_calls(a, q);
    if (code != INGOT_OK) {
        const struct ingot_event ev = {.code = code, .detail = ingot_last_error()};
        struct openai_error e = openai_error_of(&ev, q->form, upstream_is_ready(u));
        fail(a, &e);
        return;
    }
    http_reply_watch(r, &(struct http_watch){a, on_gone, on_writable});
}
