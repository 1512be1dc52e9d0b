/* One turn of a conversation, and what happens when the context is full: without shift the error
 * names the ways out; with it the oldest turns leave before a message is sent. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/answer.h"
#include "client/cli/chat.h"
#include "client/cli/commands.h"

/* ---- requests ---- */

/* The request of the conversation without its `skip` oldest turns behind the system turn; free with
 * request_free. */
static enum status make_request(const struct chat *ch, size_t skip, struct built_request *b)
{
    const struct conversation *t = &ch->talk;
    size_t first = conversation_first(t);
    *b = (struct built_request){.r = ingot_request_default()};
    b->turns = calloc(t->n, sizeof *b->turns);
    if (!b->turns)
        FAIL(ST_NOMEM, "no memory for a conversation of %zu turns", t->n);
    memcpy(b->turns, t->turns, first * sizeof *t->turns);
    memcpy(b->turns + first, t->turns + first + skip, (t->n - first - skip) * sizeof *t->turns);
    b->r.turns = b->turns;
    b->r.n_turns = t->n - skip;
    return request_sampling(b, &ch->args.sampling);
}

static int send_and_show(struct chat *ch, struct answer_text *text)
{
    struct built_request b;
    struct answer_config cfg = {.split = true,
                                .command = "chat",
                                .wait_ms = (uint32_t)ch->args.sampling.wait_ms,
                                .own = ch->server.sup};
    int rc = make_request(ch, 0, &b) == ST_OK ? answer_stream(ch->client, &b.r, &cfg, text)
                                              : cli_fail("chat", EXIT_FAILED);
    request_free(&b);
    return rc;
}

/* ---- the context ---- */

/* Tokens that a sequence may have; 0: not known. */
static size_t context_size(const struct chat *ch)
{
    const struct ingot_model *m = &ingot_server(ch->client)->model;
    size_t n = 1;
    if (m->max_ctx == 0 && ingot_models(ch->client, &m, &n) != INGOT_OK)
        return 0; /* at Hello no worker group was there */
    return n ? m->max_ctx : 0;
}

static enum status count_request(struct chat *ch, const struct ingot_request *r, size_t *n)
{
    const char *text;
    const int32_t *ids;
    size_t n_text;
    TRY((enum status)ingot_apply_template(ch->client, r, &text, &n_text));
    char *copy = malloc(n_text + 1); /* the next call ends the life of text */
    if (!copy)
        FAIL(ST_NOMEM, "no memory for a prompt of %zu bytes", n_text);
    memcpy(copy, text, n_text);
    enum status st = (enum status)ingot_tokenize(ch->client, copy, n_text, false, &ids, n);
    free(copy);
    return st;
}

/* Tokens of the prompt without the `skip` oldest turns. */
static enum status count_tokens(struct chat *ch, size_t skip, size_t *n)
{
    struct built_request b;
    enum status st = make_request(ch, skip, &b);
    if (st == ST_OK)
        st = count_request(ch, &b.r, n);
    request_free(&b);
    return st;
}

/* Whether a prompt of n tokens leaves `room` tokens of the context. */
static bool leaves(size_t context, size_t n, size_t room)
{
    return n < context && context - n >= room;
}

/* The least even number of oldest turns without which the prompt leaves room, or all but the last
 * message. */
static enum status turns_to_drop(struct chat *ch, size_t context, size_t room, size_t *skip)
{
    size_t pairs = (ch->talk.n - conversation_first(&ch->talk) - 1) / 2;
    size_t lo = 0, hi = pairs, n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        TRY(count_tokens(ch, 2 * mid, &n));
        if (leaves(context, n, room))
            hi = mid;
        else
            lo = mid + 1;
    }
    *skip = 2 * lo;
    return ST_OK;
}

/* Lets the oldest turns leave when less than a quarter of the context (with max-tokens: less than
 * that) is left for the answer: then so many that half of the context is free, so that the prompt's
 * beginning, which the server has cached, stays the same for a while. */
static enum status shift(struct chat *ch)
{
    size_t context = context_size(ch), most = (size_t)ch->args.sampling.max_tokens, n, skip;
    size_t need = most ? most : context / 4;
    TRY(count_tokens(ch, 0, &n));
    if (!context || leaves(context, n, need))
        return ST_OK;
    TRY(turns_to_drop(ch, context, need > context / 2 ? need : context / 2, &skip));
    TRY(count_tokens(ch, skip, &n));
    if (!skip || !leaves(context, n, most ? most : 1))
        return ST_OK; /* the message does not fit by itself: the server refuses it */
    conversation_drop_oldest(&ch->talk, skip);
    fprintf(stderr, "%sThe context is full: the %zu oldest turns have left the conversation.%s\n",
            cli_sgr(stderr, 2), skip, cli_sgr(stderr, 0));
    return ST_OK;
}

/* ---- notes ---- */

static void say_ways_out(const struct chat *ch, size_t context)
{
    fprintf(stderr, "%sThe context of %zu tokens is full. ", cli_sgr(stderr, 2), context);
    fputs(ch->args.shift ? "The oldest turns leave before the next message."
          : ch->person   ? "/reset forgets the conversation, /shift on lets its oldest turns leave."
                         : "With --shift the oldest turns leave.",
          stderr);
    fprintf(stderr, "%s\n", cli_sgr(stderr, 0));
}

/* Behind an answer that ended where the context ends. */
static void note_cut(const struct chat *ch, const struct answer_text *text)
{
    size_t context = text->cut ? context_size(ch) : 0;
    if (context && (size_t)text->prompt_tokens + text->completion_tokens >= context)
        say_ways_out(ch, context);
}

/* Behind a refusal: does the conversation not fit? */
static void note_refusal(struct chat *ch)
{
    size_t context = context_size(ch), n, most = (size_t)ch->args.sampling.max_tokens;
    bool alone = ch->talk.n - conversation_first(&ch->talk) == 1;
    if (alone || !context || count_tokens(ch, 0, &n) != ST_OK ||
        leaves(context, n, most ? most : 1))
        return;
    if (ch->args.shift)
        fprintf(stderr, "%sEven without the other turns this message does not fit.%s\n",
                cli_sgr(stderr, 2), cli_sgr(stderr, 0));
    else
        say_ways_out(ch, context);
}

/* ---- a turn ---- */

/* What is kept of a turn: both sides when there is an answer, even a part of one; else nothing, and
 * the message can be written again. */
static void keep_answer(struct chat *ch, size_t before, const struct answer_text *text)
{
    if (conversation_add(&ch->talk, "assistant", text->data ? text->data : "", text->n) != ST_OK) {
        cli_fail("chat", EXIT_FAILED);
        conversation_cut(&ch->talk, before);
    }
}

int chat_turn(struct chat *ch, const char *message)
{
    struct answer_text text = {0};
    if (conversation_add(&ch->talk, "user", message, strlen(message)) != ST_OK)
        return cli_fail("chat", EXIT_FAILED);
    if (ch->args.shift && shift(ch) == ST_CANCELED) { /* other failures are the request's too */
        conversation_cut(&ch->talk, ch->talk.n - 1);
        return ch->person && !terminated() ? -1 : EXIT_INTERRUPTED;
    }
    size_t before = ch->talk.n - 1;
    int rc = send_and_show(ch, &text);
    bool stopped = rc == EXIT_INTERRUPTED;
    if (rc == EXIT_OK || stopped)
        keep_answer(ch, before, &text);
    if (rc == EXIT_OK)
        note_cut(ch, &text);
    if (rc == EXIT_REFUSED)
        note_refusal(ch);
    if (rc != EXIT_OK && !stopped)
        conversation_cut(&ch->talk, before);
    free(text.data);
    if (rc == EXIT_NO_SERVER || rc == EXIT_FAILED || (stopped && terminated()))
        return rc;
    if (ch->person || (stopped && text.cancelled))
        return -1;
    return rc == EXIT_OK ? -1 : rc;
}
