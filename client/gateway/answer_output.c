#include "client/gateway/answer_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gateway/answer_request.h"
#include "common/hex.h"
#include "common/random.h"

enum { LEAST_CALL_ID = 9, CALL_ID_BYTES = 12 };

void answer_output_fini(struct answer_output *t)
{
    struct answer_choice *c = &t->of;
    for (size_t i = 0; i < c->n_calls; i++) {
        text_buf_free(&c->calls[i]->name);
        text_buf_free(&c->calls[i]->arguments);
        free(c->calls[i]);
    }
    free(c->calls);
    answer_tokens_free(&c->tokens);
    free(t->begin);
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
    t->of.last = ANSWER_CONTENT;
    if (t->collect)
        TRY(text_buf_append(&t->of.content, text, n));
    return t->show ? t->form->content(t->ctx, &t->of, text, n, out) : ST_OK;
}

static enum status give_reasoning(struct answer_output *t, const char *text, size_t n,
                                  struct text_buf *out)
{
    t->of.last = ANSWER_REASONING;
    if (t->collect)
        TRY(text_buf_append(&t->of.reasoning, text, n));
    return t->show ? t->form->reasoning(t->ctx, &t->of, text, n, out) : ST_OK;
}

/* The model's id, or one that is made here where clients would not take the model's. */
static void set_call_id(const struct answer_output *t, struct answer_call *call,
                        const struct output_event *ev)
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
    if (t->short_ids)
        snprintf(call->id, sizeof call->id, "%.*s", LEAST_CALL_ID, hex);
    else
        snprintf(call->id, sizeof call->id, "%s%s", t->form->call_prefix, hex);
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
    c->last = ANSWER_CALL;
    call->index = c->n_calls;
    t->call_bytes += sizeof *call + ev->n_name;
    c->calls[c->n_calls++] = call;
    set_call_id(t, call, ev);
    TRY(text_buf_append(&call->name, ev->name, ev->n_name));
    return t->show ? t->form->call_begin(t->ctx, c, call, out) : ST_OK;
}

static enum status give_arguments(struct answer_output *t, const char *text, size_t n,
                                  struct text_buf *out)
{
    struct answer_call *call = t->of.calls[t->of.n_calls - 1];
    size_t had = call->arguments.cap;
    if (t->collect)
        TRY(text_buf_append(&call->arguments, text, n));
    t->call_bytes += call->arguments.cap - had;
    return t->show ? t->form->call_arguments(t->ctx, &t->of, call, text, n, out) : ST_OK;
}

static enum status end_call(struct answer_output *t, struct text_buf *out)
{
    struct answer_call *call = t->of.calls[t->of.n_calls - 1];
    call->ended = !t->finished || t->of.end.finish != ANSWER_LENGTH;
    return t->show ? t->form->call_end(t->ctx, &t->of, call, out) : ST_OK;
}

static enum status give_event(struct answer_output *t, const struct output_event *ev,
                              struct text_buf *out)
{
    if (ev->kind == OUT_CALL_BEGIN)
        t->skip_call = t->one_call && t->of.n_calls;
    switch (ev->kind) {
    case OUT_REASONING:
        return give_reasoning(t, ev->text, ev->n_text, out);
    case OUT_CONTENT:
        return give_content(t, ev->text, ev->n_text, out);
    case OUT_CALL_BEGIN:
        return t->skip_call ? ST_OK : begin_call(t, ev, out);
    case OUT_CALL_ARGUMENTS:
        return t->skip_call ? ST_OK : give_arguments(t, ev->text, ev->n_text, out);
    case OUT_CALL_END:
        return t->skip_call ? ST_OK : end_call(t, out);
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

/* Counts the tokens of which it is known now that they are reasoning. */
static void count_reasoning(struct answer_output *t)
{
    uint64_t limit = output_parser_reasoning_bytes(t->parser);
    size_t n = 0;
    while (n < t->n_begin && t->begin[n] < limit)
        n++;
    t->of.end.reasoning_tokens += n;
    t->n_begin -= n;
    if (n)
        memmove(t->begin, t->begin + n, t->n_begin * sizeof *t->begin);
}

static enum status finish(struct answer_output *t, struct text_buf *out)
{
    t->finished = true;
    answer_tokens_finish(&t->of.tokens, t->n_text, t->cut);
    if (t->parser) {
        TRY(output_parser_finish(t->parser));
        TRY(give_events(t, out));
    }
    if (t->of.end.finish == ANSWER_STOP && t->of.n_calls)
        t->of.end.finish = ANSWER_CALLS;
    return t->show ? t->form->finish(t->ctx, &t->of, out) : ST_OK;
}

enum status answer_output_add(struct answer_output *t, const struct ingot_event *ev)
{
    TRY(text_buf_append(&t->waiting, ev->text, ev->n_text));
    t->n_text += ev->n_text;
    for (uint32_t i = 0; t->count_reasoning && i < ev->n_ids; i++) {
        TRY(answer_grow((void **)&t->begin, t->n_begin, sizeof *t->begin));
        t->begin[t->n_begin++] = t->n_token_text;
        t->n_token_text += ev->n_token_text ? ev->n_token_text[i] : 0;
    }
    if (!t->keep_tokens)
        return ST_OK;
    TRY(answer_tokens_add(&t->of.tokens, ev));
    answer_tokens_make_ready(&t->of.tokens, t->n_text);
    return ST_OK;
}

enum status answer_output_run(struct answer_output *t, struct text_buf *out)
{
    enum status st = parse(t, t->waiting.data, t->waiting.len, out);
    t->waiting.len = 0;
    if (t->parser && t->count_reasoning)
        count_reasoning(t);
    if (st == ST_OK && t->ended && !t->finished)
        st = finish(t, out);
    return st;
}

size_t answer_output_size(const struct answer_output *t)
{
    return t->waiting.cap + t->of.reasoning.cap + t->of.content.cap + t->call_bytes +
           answer_tokens_size(&t->of.tokens) + t->n_begin * sizeof *t->begin;
}
