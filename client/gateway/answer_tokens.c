#include "client/gateway/answer_tokens.h"

#include <stdlib.h>

#include "client/gateway/answer_request.h"

void answer_tokens_free(struct answer_tokens *t)
{
    free(t->token);
    free(t->tops);
    text_buf_free(&t->bytes);
    *t = (struct answer_tokens){0};
}

/* What events say of tokens, from their next entry on. */
struct entries {
    const char *text;       /* of the tokens */
    const uint32_t *n_text; /* NULL: none */
    const struct ingot_logprob *top;
    const uint32_t *n_top; /* NULL: none */
    const char *top_text;
    const uint32_t *n_top_text; /* NULL: none */
};

static enum status add_tops(struct answer_tokens *t, struct entries *e, size_t n)
{
    for (size_t k = 0; k < n; k++, e->top++) {
        size_t n_text = e->n_top_text ? *e->n_top_text++ : 0;
        TRY(answer_grow((void **)&t->tops, t->n_tops, sizeof *t->tops));
        t->tops[t->n_tops++] =
            (struct answer_top){e->top->id, e->top->logprob, t->bytes.len, n_text};
        if (n_text)
            TRY(text_buf_append(&t->bytes, e->top_text, n_text));
        e->top_text = n_text ? e->top_text + n_text : e->top_text;
    }
    return ST_OK;
}

/* Token i of the event. */
static enum status add(struct answer_tokens *t, struct entries *e, uint32_t i,
                       struct answer_token token)
{
    token.n = e->n_text ? e->n_text[i] : 0;
    token.n_top = e->n_top ? e->n_top[i] : 0;
    token.at = t->bytes.len;
    token.top = t->n_tops;
    token.begin = t->end;
    t->end += token.n;
    TRY(answer_grow((void **)&t->token, t->n, sizeof *t->token));
    t->token[t->n++] = token;
    if (token.n) {
        TRY(text_buf_append(&t->bytes, e->text, token.n));
        e->text += token.n;
    }
    return add_tops(t, e, token.n_top);
}

enum status answer_tokens_add(struct answer_tokens *t, const struct ingot_event *ev)
{
    struct entries e = {ev->token_text, ev->n_token_text, ev->top,
                        ev->n_top,      ev->top_text,     ev->n_top_text};
    for (uint32_t i = 0; i < ev->n_ids; i++)
        TRY(add(t, &e, i,
                (struct answer_token){.id = ev->ids[i],
                                      .logprob = ev->logprobs ? ev->logprobs[i] : 0}));
    return ST_OK;
}

enum status answer_tokens_add_prompt(struct answer_tokens *t, const int32_t *ids,
                                     const struct ingot_prompt_logprobs *p)
{
    struct entries e = {p->token_text, p->n_token_text, p->top,
                        p->n_top,      p->top_text,     p->n_top_text};
    for (uint32_t i = 0; i < p->n; i++)
        TRY(add(t, &e, i,
                (struct answer_token){
                    .id = ids[t->n], .logprob = p->logprobs[i], .rank = p->ranks[i]}));
    t->ready = t->n;
    return ST_OK;
}

void answer_tokens_make_ready(struct answer_tokens *t, uint64_t n_text)
{
    /* one at the end that makes no text could be the stop token: it waits for what follows */
    while (t->ready < t->n && t->token[t->ready].begin + t->token[t->ready].n <= n_text &&
           (t->token[t->ready].n || t->ready + 1 < t->n))
        t->ready++;
}

void answer_tokens_finish(struct answer_tokens *t, uint64_t n_text, bool cut)
{
    for (; t->ready < t->n; t->ready++) {
        struct answer_token *k = &t->token[t->ready];
        k->cut = cut && k->begin >= n_text;
        if (k->cut)
            k->n = 0;
        else if (cut && k->begin + k->n > n_text)
            k->n = (size_t)(n_text - k->begin);
    }
}

void answer_tokens_taken(struct answer_tokens *t)
{
    for (; t->first < t->ready; t->first++)
        t->n_chars +=
            answer_count_chars(t->bytes.data + t->token[t->first].at, t->token[t->first].n);
    if (t->first == t->n)
        t->first = t->ready = t->n = t->n_tops = t->bytes.len = 0;
}

size_t answer_tokens_size(const struct answer_tokens *t)
{
    return t->n * sizeof *t->token + t->n_tops * sizeof *t->tops + t->bytes.len;
}

uint64_t answer_count_chars(const char *text, size_t n)
{
    uint64_t chars = 0;
    for (size_t i = 0; i < n; i++)
        chars += ((unsigned char)text[i] & 0xc0) != 0x80;
    return chars;
}
