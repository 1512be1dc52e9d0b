#include "client/gateway/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gateway/answer_error.h"
#include "client/gateway/answer_output.h"

enum { MAX_WAITING = 8 << 20 /* bytes of text and of its tokens that a slow client has not got */ };

struct answer;

struct prompt_call { /* one prompt of the request */
    struct upstream_call call;
    struct answer *answer;
    bool accepted;
};

struct answer {
    struct upstream *upstream;
    struct http_reply *reply;
    const struct answer_form *form;
    void *ctx;
    struct answer_usage usage;         /* of the calls that have ended */
    struct answer_usage so_far;        /* tokens of all that has come */
    struct answer_prompt_info *prompt; /* [n_calls] */
    struct output_options parse;
    bool parses;
    char **names; /* [parse.n_names] */
    char *tools;  /* parse.tools_json */
    struct prompt_call *call;
    struct answer_output *text; /* of prompt p, sample s: p * n + s */
    size_t n_calls, n_choices, n_samples;
    size_t n_accepted, n_ended;           /* of the calls */
    char grammar_field[ANSWER_MAX_FIELD]; /* of the client's request */
    bool stream;
    bool begun;  /* the stream's head is out */
    bool paused; /* the client reads slowly */
    bool scores; /* log probabilities of the prompts are wanted */
    bool no_answer;
    struct text_buf out;
    struct answer_share share;
};

/* ---- life ---- */

static void destroy(struct answer *a)
{
    for (size_t i = 0; a->text && i < a->n_choices; i++)
        answer_output_fini(&a->text[i]);
    for (size_t i = 0; a->prompt && i < a->n_calls; i++) {
        free(a->prompt[i].ids);
        text_buf_free(&a->prompt[i].text);
        answer_tokens_free(&a->prompt[i].tokens);
    }
    for (size_t i = 0; a->names && i < a->parse.n_names; i++)
        free(a->names[i]);
    free(a->names);
    free(a->tools);
    free(a->prompt);
    if (a->form->release)
        a->form->release(a->ctx);
    text_buf_free(&a->out);
    answer_share_fini(&a->share);
    free(a->text);
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
    if (a->out.len)
        a->paused = !http_reply_chunk(a->reply, a->out.data, a->out.len);
    a->out.len = 0;
}

/* Ends the answer with the error: as its status, or as an event of a stream that has begun. */
static void fail(struct answer *a, const struct answer_error *e)
{
    cancel_calls(a);
    if (!a->begun) {
        a->form->refuse(a->ctx, a->reply, e);
    } else if (a->form->error(a->ctx, e, &a->out) == ST_OK) {
        flush(a);
        http_reply_end(a->reply);
    } else {
        http_reply_abort(a->reply);
    }
    destroy(a);
}

static void fail_with(struct answer *a, int status, const char *message)
{
    fail(a, &(struct answer_error){status, message, "", 0});
}

static void fail_for_room(struct answer *a, enum answer_room room)
{
    const struct answer_error e = answer_room_error(a->share.of, room);
    fail(a, &e);
}

static void on_gone(void *ctx)
{
    struct answer *a = ctx;
    for (size_t i = 0; i < a->n_calls; i++)
        upstream_abandon(a->upstream, &a->call[i].call);
    http_reply_end(a->reply);
    destroy(a);
}

/* ---- the end ---- */

/* Its text and its JSON are both held for a moment. */
static enum status finish_whole(struct answer *a, const struct answer_whole *whole,
                                enum answer_room *room)
{
    a->out.max = answer_share_left(&a->share);
    enum status st = a->form->body(a->ctx, whole, &a->out);
    *room =
        st == ST_RANGE ? ANSWER_TOO_LARGE : answer_share_set(&a->share, a->share.held + a->out.cap);
    if (st == ST_OK && *room == ANSWER_FITS)
        http_reply_give(a->reply, 200, "application/json", &a->out);
    return st;
}

static enum status finish_stream(struct answer *a, const struct answer_whole *whole)
{
    TRY(a->form->end(a->ctx, whole, &a->out));
    flush(a);
    http_reply_end(a->reply);
    return ST_OK;
}

static void finish(struct answer *a)
{
    struct answer_choice *choices = calloc(a->n_choices, sizeof *choices);
    if (!choices) {
        fail_with(a, 503, "no memory for the choices");
        return;
    }
    for (size_t i = 0; i < a->n_choices; i++) {
        choices[i] = a->text[i].of;
        a->usage.reasoning_tokens += choices[i].end.reasoning_tokens;
    }
    const struct answer_whole whole = {choices, a->n_choices, a->usage};
    enum answer_room room = ANSWER_FITS;
    enum status st = a->stream ? finish_stream(a, &whole) : finish_whole(a, &whole, &room);
    free(choices);
    if (room != ANSWER_FITS)
        fail_for_room(a, room);
    else if (st == ST_OK)
        destroy(a);
    else
        fail_with(a, 500, status_text());
}

/* Shows what has come of choice i; nothing before the log probabilities of its prompt, if these are wanted. */
static enum status run_choice(struct answer *a, size_t i)
{
    struct answer_output *t = &a->text[i];
    const struct answer_prompt_info *p = t->of.prompt;
    if (a->scores && p->tokens.n < p->n_tokens)
        return ST_OK;
    if (a->scores && a->stream && a->form->scored && !t->scores_shown)
        TRY(a->form->scored(a->ctx, &t->of, &a->out));
    t->scores_shown = true;
    return answer_output_run(t, &a->out);
}

static size_t prompts_size(const struct answer *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n_calls; i++) {
        const struct answer_prompt_info *p = &a->prompt[i];
        n += p->text.cap + (p->ids ? p->n_tokens * sizeof *p->ids : 0) +
             answer_tokens_size(&p->tokens);
    }
    return n;
}

/* Shows what has come of all choices that have something new. */
static void go_on(struct answer *a)
{
    size_t waiting = 0, held = prompts_size(a);
    enum status st = ST_OK;
    for (size_t i = 0; i < a->n_choices && st == ST_OK; i++) {
        if (!a->paused && (a->begun || !a->stream))
            st = run_choice(a, i);
        waiting += a->text[i].waiting.len;
        if (a->stream)
            waiting += answer_tokens_size(&a->text[i].of.tokens);
        held += answer_output_size(&a->text[i]);
    }
    enum answer_room room = answer_share_set(&a->share, held + a->out.cap);
    if (st != ST_OK) {
        a->out.len = 0; /* its last event is not whole */
        fail_with(a, 500, status_text());
    } else if (room != ANSWER_FITS) {
        fail_for_room(a, room);
    } else if (!a->paused && a->n_ended == a->n_calls) {
        finish(a);
    } else if (waiting > MAX_WAITING) {
        fail_with(a, 500, "the client reads too slowly");
    } else if (a->begun) {
        flush(a);
    }
}

static void on_writable(void *ctx)
{
    struct answer *a = ctx;
    a->paused = false;
    go_on(a);
}

/* ---- events ---- */

/* What is known of the prompt before the first token. */
static enum status keep_prompt(struct answer *a, size_t i, const struct ingot_event *ev)
{
    struct answer_prompt_info *p = &a->prompt[i];
    struct output_options parse = a->parse;
    p->n_tokens = ev->prompt_tokens;
    a->so_far.prompt_tokens += ev->prompt_tokens;
    if (ev->prompt_ids && ev->prompt_tokens) {
        p->ids = malloc(ev->prompt_tokens * sizeof *p->ids);
        if (!p->ids)
            FAIL(ST_NOMEM, "no memory for the ids of a prompt");
        memcpy(p->ids, ev->prompt_ids, ev->prompt_tokens * sizeof *p->ids);
    }
    if (ev->n_prompt_text)
        TRY(text_buf_append(&p->text, ev->prompt_text, ev->n_prompt_text));
    parse.starts_in_reasoning = ev->starts_in_reasoning;
    for (size_t k = i * a->n_samples; a->parses && k < (i + 1) * a->n_samples; k++)
        TRY(output_parser_create(&a->text[k].parser, &parse));
    return ST_OK;
}

static enum status on_accepted(struct answer *a, struct prompt_call *p,
                               const struct ingot_event *ev)
{
    if (p->accepted)
        return ST_OK;
    p->accepted = true;
    TRY(keep_prompt(a, (size_t)(p - a->call), ev));
    if (++a->n_accepted < a->n_calls || !a->stream)
        return ST_OK;
    const struct answer_start start = {a->n_choices, a->so_far.prompt_tokens, a->prompt,
                                       a->n_samples};
    TRY(a->form->begin(a->ctx, &start, &a->out));
    if (a->form->stream_type)
        http_reply_begin(a->reply, 200, a->form->stream_type);
    else
        http_reply_begin_events(a->reply);
    a->begun = true;
    return ST_OK;
}

static enum status on_delta(struct answer *a, size_t first, const struct ingot_event *ev)
{
    struct answer_prompt_info *p = &a->prompt[first / a->n_samples];
    if (ev->sample >= a->n_samples)
        return ST_OK;
    if (a->scores && ev->prompt.n) {
        if (!p->ids || ev->prompt.n > p->n_tokens - p->tokens.n)
            FAIL(ST_PEER, "the server sent log probabilities beyond the prompt");
        TRY(answer_tokens_add_prompt(&p->tokens, p->ids, &ev->prompt));
    }
    if (a->no_answer)
        return ST_OK;
    a->so_far.completion_tokens += ev->n_ids;
    return answer_output_add(&a->text[first + ev->sample], ev);
}

static enum status end_choice(const struct answer *a, struct answer_output *t,
                              const struct ingot_sample_end *s)
{
    struct answer_end *end = &t->of.end;
    t->ended = true;
    if (a->no_answer) {
        end->finish = ANSWER_LENGTH;
        return ST_OK;
    }
    end->finish = s->reason == INGOT_REASON_LENGTH ? ANSWER_LENGTH : ANSWER_STOP;
    end->stop_id = s->stop_id;
    end->completion_tokens = s->completion_tokens;
    t->cut = s->reason != INGOT_REASON_LENGTH;
    return text_buf_append(&end->stop, s->matched_stop, s->n_matched_stop);
}

static enum status on_finish(struct answer *a, size_t first, const struct ingot_event *ev)
{
    a->usage.prompt_tokens += ev->prompt_tokens;
    a->usage.cached_tokens += ev->cached_tokens;
    a->usage.completion_tokens += a->no_answer ? 0 : ev->completion_tokens;
    if (ev->total_us > a->usage.total_us)
        a->usage.total_us = ev->total_us;
    if (ev->first_token_us > a->usage.first_token_us)
        a->usage.first_token_us = ev->first_token_us;
    a->n_ended++;
    for (uint32_t i = 0; i < ev->n_samples; i++)
        if (ev->samples[i].sample < a->n_samples)
            TRY(end_choice(a, &a->text[first + ev->samples[i].sample], &ev->samples[i]));
    return ST_OK;
}

/* The failure that the event is; status 0: none. */
static struct answer_error failure_of(const struct answer *a, const struct ingot_event *ev)
{
    struct answer_error e = {0};
    if (ev->kind == INGOT_EVENT_ERROR) {
        e = answer_error_of(ev, upstream_is_ready(a->upstream));
        if (strcmp(e.field, "grammar") ==
            0) /* the coordinator's name of what the client asked for */
            e.field = a->grammar_field;
        return e;
    }
    for (uint32_t i = 0; ev->kind == INGOT_EVENT_FINISH && i < ev->n_samples && !e.status; i++)
        e = answer_error_of_reason(ev->samples[i].reason);
    return e;
}

static void on_event(struct upstream_call *call, const struct ingot_event *ev)
{
    struct prompt_call *p = (struct prompt_call *)call; /* its first member */
    struct answer *a = p->answer;
    size_t first = (size_t)(p - a->call) * a->n_samples;
    const struct answer_error e = failure_of(a, ev);
    enum status st = ST_OK;
    if (e.status) {
        fail(a, &e);
        return;
    }
    if (ev->kind == INGOT_EVENT_ACCEPTED)
        st = on_accepted(a, p, ev);
    else if (ev->kind == INGOT_EVENT_FINISH)
        st = on_finish(a, first, ev);
    else
        st = on_delta(a, first, ev);
    if (st == ST_OK)
        go_on(a);
    else
        fail_with(a, 500, status_text());
}

/* ---- start ---- */

/* The tools and their names outlive the request. */
static enum status keep_tools(struct answer *a, const struct answer_request *q)
{
    a->names = calloc(q->n_tools + 1, sizeof *a->names);
    if (!a->names)
        FAIL(ST_NOMEM, "no memory for the names of %zu tools", q->n_tools);
    for (; a->parse.n_names < q->n_tools; a->parse.n_names++)
        if (!(a->names[a->parse.n_names] = strdup(q->tools[a->parse.n_names])))
            FAIL(ST_NOMEM, "no memory for the names of %zu tools", q->n_tools);
    a->parse.names = (const char *const *)a->names;
    if (!(a->tools = strdup(q->ask.tools_json)))
        FAIL(ST_NOMEM, "no memory for the tools");
    a->parse.tools_json = a->tools;
    return ST_OK;
}

/* How the answer is parsed, and what the coordinator has to send for it. */
static enum status set_parsing(struct answer *a, struct answer_request *q,
                               const struct ingot_model *m)
{
    if (q->calls && output_tools_from_name(m->tool_format, &a->parse.tools) != ST_OK)
        a->parse.tools = OUTPUT_TOOLS_AUTO; /* an older coordinator, or a newer one's format */
    a->parse.reasoning = q->reasoning && *m->think_open;
    if (a->parse.reasoning) {
        a->parse.think_open = m->think_open; /* of the server's description, copied by the parser */
        a->parse.think_close = m->think_close;
    }
    a->parses = a->parse.tools != OUTPUT_TOOLS_NONE || a->parse.reasoning;
    q->ask.keep_marks = a->parses;
    if (q->drop_budget && !*m->think_open)
        q->ask.has_thinking_budget = false;
    q->ask.one_call = q->one_call && q->ask.tools_json;
    a->scores = q->ask.prompt_logprobs;
    q->ask.want_token_text = q->tokens || a->scores || a->parse.reasoning;
    return q->calls ? keep_tools(a, q) : ST_OK;
}

static enum status init(struct answer *a, struct answer_request *q, const struct ingot_model *m)
{
    a->stream = q->stream;
    snprintf(a->grammar_field, sizeof a->grammar_field, "%s",
             *q->grammar_field ? q->grammar_field : "tools");
    a->n_calls = q->n_prompts;
    a->n_samples = q->ask.n;
    a->no_answer = q->no_answer;
    a->n_choices = a->n_calls * a->n_samples;
    a->call = calloc(a->n_calls, sizeof *a->call);
    a->prompt = calloc(a->n_calls, sizeof *a->prompt);
    a->text = calloc(a->n_choices, sizeof *a->text);
    if (!a->call || !a->prompt || !a->text)
        FAIL(ST_NOMEM, "no memory for %zu choices", a->n_choices);
    TRY(set_parsing(a, q, m));
    for (size_t i = 0; i < a->n_choices; i++)
        a->text[i] = (struct answer_output){.of = {.index = i,
                                                   .prompt = &a->prompt[i / a->n_samples],
                                                   .so_far = &a->so_far,
                                                   .end = {.stop_id = -1}},
                                            .form = a->form,
                                            .ctx = a->ctx,
                                            .show = a->stream,
                                            .collect = !a->stream || a->form->collect,
                                            .one_call = q->one_call,
                                            .short_ids = a->parse.tools == OUTPUT_TOOLS_MISTRAL,
                                            .keep_tokens = q->tokens,
                                            .count_reasoning = a->parse.reasoning};
    return ST_OK;
}

static enum ingot_code send_calls(struct answer *a, struct answer_request *q)
{
    for (size_t i = 0; i < a->n_calls; i++) {
        if (q->prompts) {
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

void answer_start(struct upstream *u, struct answer_memory *memory, struct http_reply *r,
                  struct answer_request *q, const struct answer_form *form, void *ctx)
{
    struct answer *a = calloc(1, sizeof *a);
    if (!a) {
        form->refuse(ctx, r, &(struct answer_error){503, "no memory for an answer", "", 0});
        if (form->release)
            form->release(ctx);
        return;
    }
    a->upstream = u;
    a->reply = r;
    a->form = form;
    a->ctx = ctx;
    answer_share_init(&a->share, memory);
    if (init(a, q, &upstream_server(u)->model) != ST_OK) {
        fail_with(a, 503, status_text());
        return;
    }
    enum ingot_code code = send_calls(a, q);
    if (code != INGOT_OK) {
        const struct ingot_event ev = {.code = code, .detail = ingot_last_error()};
        const struct answer_error e = answer_error_of(&ev, upstream_is_ready(u));
        fail(a, &e);
        return;
    }
    http_reply_watch(r, &(struct http_watch){a, on_gone, on_writable});
}
