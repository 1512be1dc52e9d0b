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

/* n entries from index `from` on, whose texts begin at *text. */
static enum status add_tops(struct answer_tokens *t, const struct ingot_event *ev, size_t from,
                            size_t n, const char **text)
{
    for (size_t k = from; k < from + n; k++) {
        size_t n_text = ev->n_top_text ? ev->n_top_text[k] : 0;
        TRY(answer_grow((void **)&t->tops, t->n_tops, sizeof *t->tops));
        t->tops[t->n_tops++] = (struct answer_top){ev->top[k].logprob, t->bytes.len, n_text};
        if (n_text)
            TRY(text_buf_append(&t->bytes, *text, n_text));
        *text = n_text ? *text + n_text : *text;
    }
    return ST_OK;
}

enum status answer_tokens_add(struct answer_tokens *t, const struct ingot_event *ev)
{
    const char *text = ev->token_text, *top_text = ev->top_text;
    size_t at_top = 0;
    for (uint32_t i = 0; i < ev->n_ids; i++) {
        size_t n_text = ev->n_token_text ? ev->n_token_text[i] : 0;
        size_t n_top = ev->n_top ? ev->n_top[i] : 0;
        TRY(answer_grow((void **)&t->token, t->n, sizeof *t->token));
        t->token[t->n++] = (struct answer_token){.id = ev->ids[i],
                                                 .logprob = ev->logprobs ? ev->logprobs[i] : 0,
                                                 .at = t->bytes.len,
                                                 .n = n_text,
                                                 .top = t->n_tops,
                                                 .n_top = n_top,
                                                 .begin = t->end};
        t->end += n_text;
        if (n_text) {
            TRY(text_buf_append(&t->bytes, text, n_text));
            text += n_text;
        }
        TRY(add_tops(t, ev, at_top, n_top, &top_text));
        at_top += n_top;
    }
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
