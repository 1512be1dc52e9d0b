#include "client/gateway/answer_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gateway/answer_request.h"
#include "common/hex.h"
#include "common/random.h"

enum { LEAST_CALL_ID = 9, CALL_ID_BYTES = 12 };

enum status answer_output_init(struct answer_output *t, const struct output_options *parse)
{
    return parse ? output_parser_create(&t->parser, parse) : ST_OK;
}

void answer_output_fini(struct answer_output *t)
{
    struct answer_choice *c = &t->of;
    for (size_t i = 0; i < c->n_calls; i++) {
        text_buf_free(&c->calls[i]->name);
        text_buf_free(&c->calls[i]->arguments);
        free(c->calls[i]);
    }
    free(c->calls);
    text_buf_free(&c->reasoning);
    text_buf_free(&c->content);
    text_buf_free(&c->end.stop);
    text_buf_free(&t->waiting);
    output_parser_destroy(t->parser);
}

/* ---- pieces ---- */

static enum status give_content(struct answer_output *t, const char *text, size_t n,
                                struct text_buf *out)
{
    if (t->collect)
        TRY(text_buf_append(&t->of.content, text, n));
    return t->show ? t->form->content(t->ctx, &t->of, text, n, out) : ST_OK;
}

static enum status give_reasoning(struct answer_output *t, const char *text, size_t n,
                                  struct text_buf *out)
{
    if (t->collect)
        TRY(text_buf_append(&t->of.reasoning, text, n));
    return t->show ? t->form->reasoning(t->ctx, &t->of, text, n, out) : ST_OK;
}

/* The model's id, or one that is made here where clients would not take the model's. */
static void set_call_id(struct answer_call *call, const char *prefix, const struct output_event *ev)
{
    uint8_t bytes[CALL_ID_BYTES];
    char hex[2 * CALL_ID_BYTES + 1];
    if (ev->id && ev->n_id >= LEAST_CALL_ID && ev->n_id < sizeof call->id &&
        !memchr(ev->id, 0, ev->n_id)) {
        memcpy(call->id, ev->id, ev->n_id);
        return;
    }
    random_bytes(bytes, sizeof bytes);
    hex_of(bytes, sizeof bytes, hex);
    snprintf(call->id, sizeof call->id, "%s%s", prefix, hex);
}

static enum status begin_call(struct answer_output *t, const struct output_event *ev,
                              struct text_buf *out)
{
    struct answer_choice *c = &t->of;
    struct answer_call *call = calloc(1, sizeof *call);
    enum status st = answer_grow((void **)&c->calls, c->n_calls, sizeof(struct answer_call *));
    if (!call || st != ST_OK) {
        free(call);
        FAIL(ST_NOMEM, "no memory for a tool call");
    }
    call->index = c->n_calls;
    c->calls[c->n_calls++] = call;
    set_call_id(call, t->form->call_prefix, ev);
    TRY(text_buf_append(&call->name, ev->name, ev->n_name));
    return t->show ? t->form->call_begin(t->ctx, c, call, out) : ST_OK;
}

static enum status give_arguments(struct answer_output *t, const char *text, size_t n,
                                  struct text_buf *out)
{
    struct answer_call *call = t->of.calls[t->of.n_calls - 1];
    if (t->collect)
        TRY(text_buf_append(&call->arguments, text, n));
    return t->show ? t->form->call_arguments(t->ctx, &t->of, call, text, n, out) : ST_OK;
}

static enum status end_call(struct answer_output *t, struct text_buf *out)
{
    struct answer_call *call = t->of.calls[t->of.n_calls - 1];
    return t->show ? t->form->call_end(t->ctx, &t->of, call, out) : ST_OK;
}

static enum status give_event(struct answer_output *t, const struct output_event *ev,
                              struct text_buf *out)
{
    switch (ev->kind) {
    case OUT_REASONING:
        return give_reasoning(t, ev->text, ev->n_text, out);
    case OUT_CONTENT:
        return give_content(t, ev->text, ev->n_text, out);
    case OUT_CALL_BEGIN:
        return begin_call(t, ev, out);
    case OUT_CALL_ARGUMENTS:
        return give_arguments(t, ev->text, ev->n_text, out);
    case OUT_CALL_END:
        return end_call(t, out);
    }
    return ST_OK;
}

static enum status give_events(struct answer_output *t, struct text_buf *out)
{
    struct output_event ev;
    while (output_parser_next(t->parser, &ev))
        TRY(give_event(t, &ev, out));
    return ST_OK;
}

/* ---- the whole ---- */

static enum status parse(struct answer_output *t, const char *text, size_t n, struct text_buf *out)
{
    if (n == 0)
        return ST_OK;
    if (!t->parser)
        return give_content(t, text, n, out);
    TRY(output_parser_push(t->parser, text, n));
    return give_events(t, out);
}

static enum status finish(struct answer_output *t, struct text_buf *out)
{
    t->finished = true;
    if (t->parser) {
        TRY(output_parser_finish(t->parser));
        TRY(give_events(t, out));
    }
    if (t->of.end.finish == ANSWER_STOP && t->of.n_calls)
        t->of.end.finish = ANSWER_CALLS;
    return t->show ? t->form->finish(t->ctx, &t->of, out) : ST_OK;
}

enum status answer_output_run(struct answer_output *t, struct text_buf *out)
{
    enum status st = parse(t, t->waiting.data, t->waiting.len, out);
    t->waiting.len = 0;
    if (st == ST_OK && t->ended && !t->finished)
        st = finish(t, out);
    return st;
}
