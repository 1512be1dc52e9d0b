#include "coordinator/token_facts.h"

#include <stdlib.h>
#include <string.h>

enum status token_facts_init(struct token_facts *f, uint32_t max, unsigned wanted)
{
    *f = (struct token_facts){0};
    if (wanted & FACT_LOGPROBS)
        f->logprobs = calloc(max, sizeof *f->logprobs);
    if (wanted & FACT_RANKS)
        f->ranks = calloc(max, sizeof *f->ranks);
    if (wanted & FACT_TOP)
        f->n_top = calloc(max, sizeof *f->n_top);
    if (wanted & FACT_TEXTS)
        f->n_token_text = calloc(max, sizeof *f->n_token_text);
    if ((wanted & FACT_LOGPROBS && !f->logprobs) || (wanted & FACT_RANKS && !f->ranks) ||
        (wanted & FACT_TOP && !f->n_top) || (wanted & FACT_TEXTS && !f->n_token_text))
        FAIL(ST_NOMEM, "no memory for %u tokens", max);
    return ST_OK;
}

void token_facts_fini(struct token_facts *f)
{
    free(f->logprobs);
    free(f->ranks);
    free(f->n_top);
    free(f->top);
    free(f->n_token_text);
    free(f->n_top_text);
    text_buf_free(&f->token_text);
    text_buf_free(&f->top_text);
}

/* The texts of the token and of its most probable others. */
static enum status keep_texts(struct token_facts *f, uint32_t i, const struct result_token *t,
                              struct detok *d)
{
    struct text_buf scratch = {0};
    size_t had = f->token_text.len;
    TRY(detok_bytes(d, t->token, &f->token_text));
    f->n_token_text[i] = (uint32_t)(f->token_text.len - had);
    enum status st = ST_OK;
    for (uint32_t k = 0; f->n_top && k < t->n_top && st == ST_OK; k++) {
        had = f->top_text.len;
        if (tokenizer_is_special(d->tok, t->top[k].id)) {
            struct tok_text spelled = tokenizer_piece(d->tok, t->top[k].id, &scratch).text;
            st = text_buf_append(&f->top_text, spelled.data, spelled.len);
        } else {
            st = detok_bytes(d, t->top[k].id, &f->top_text);
        }
        f->n_top_text[f->n_top_all + k] = (uint32_t)(f->top_text.len - had);
    }
    text_buf_free(&scratch);
    return st;
}

static enum status grow_top(struct token_facts *f, uint32_t n)
{
    uint32_t cap = (f->cap_top + n) * 2;
    if (f->n_top_all + n <= f->cap_top)
        return ST_OK;
    struct token_logprob *p = realloc(f->top, cap * sizeof *p);
    if (!p)
        FAIL(ST_NOMEM, "no memory for %u logprobs", cap);
    f->top = p;
    if (f->n_token_text) {
        uint32_t *n_text = realloc(f->n_top_text, cap * sizeof *n_text);
        if (!n_text)
            FAIL(ST_NOMEM, "no memory for %u logprobs", cap);
        f->n_top_text = n_text;
    }
    f->cap_top = cap;
    return ST_OK;
}

enum status token_facts_add(struct token_facts *f, uint32_t i, const struct result_token *t,
                            struct detok *d)
{
    if (f->logprobs)
        f->logprobs[i] = t->logprob;
    if (f->ranks)
        f->ranks[i] = t->rank;
    if (f->n_top) {
        TRY(grow_top(f, t->n_top));
        if (t->n_top)
            memcpy(f->top + f->n_top_all, t->top, t->n_top * sizeof *t->top);
        f->n_top[i] = t->n_top;
    }
    if (f->n_token_text)
        TRY(keep_texts(f, i, t, d));
    f->n_top_all += f->n_top ? t->n_top : 0;
    return ST_OK;
}

void token_facts_sent(struct token_facts *f, uint32_t n)
{
    f->sent_top = 0;
    f->sent_token_text = f->sent_top_text = 0;
    for (uint32_t i = 0; i < n; i++) {
        f->sent_top += f->n_top ? f->n_top[i] : 0;
        f->sent_token_text += f->n_token_text ? f->n_token_text[i] : 0;
    }
    for (uint32_t i = 0; f->n_top_text && i < f->sent_top; i++)
        f->sent_top_text += f->n_top_text[i];
}
