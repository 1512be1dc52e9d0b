#include "coordinator/prompt_scores.h"

#include <stdlib.h>

enum { MAX_ENTRIES = 1024 }; /* of a Delta: below 1 MiB with 20 alternatives each */

uint64_t prompt_scores_bytes(const struct resolved *q)
{
    const struct token_facts *f = NULL; /* for its sizes */
    uint64_t text = q->want_token_text ? sizeof *f->n_token_text + TOKEN_TEXT_BYTES : 0;
    uint64_t top = q->sp.prompt_top ? sizeof *f->n_top : 0;
    if (!q->sp.prompt_logprobs)
        return 0;
    top += 2 * (uint64_t)q->sp.prompt_top * (sizeof *f->top + text); /* these arrays double */
    return q->n_prompt * (sizeof *f->logprobs + sizeof *f->ranks + text + top);
}

/* The detokenizer goes on behind the token. */
static enum status pass(struct prompt_scores *p, int32_t token)
{
    struct text_buf piece = {0};
    enum status st = detok_push(&p->detok, token, &piece);
    text_buf_free(&piece);
    return st;
}

static enum status begin(struct prompt_scores *p, const struct resolved *q, uint32_t n_received)
{
    const struct result_token first = {.token = q->prompt[0]};
    unsigned wanted = FACT_LOGPROBS | FACT_RANKS | (q->sp.prompt_top ? FACT_TOP : 0) |
                      (q->want_token_text ? FACT_TEXTS : 0);
    TRY(token_facts_init(&p->facts, q->n_prompt, wanted));
    if (n_received == 0)
        return prompt_scores_add(p, &first);
    for (; p->n < n_received; p->n++)
        TRY(pass(p, q->prompt[p->n]));
    p->n_here = n_received;
    p->sent = n_received;
    return ST_OK;
}

enum status prompt_scores_create(struct prompt_scores **out, const struct resolved *q,
                                 const struct tokenizer *tok, uint32_t n_received)
{
    struct prompt_scores *p = calloc(1, sizeof *p);
    *out = p;
    if (!p)
        FAIL(ST_NOMEM, "no memory for the log probabilities of a prompt");
    detok_init(&p->detok, tok, q->skip_special ? TOK_SKIP_SPECIAL : 0);
    p->detok.keep = q->keep;
    p->detok.n_keep = q->n_keep;
    enum status st = begin(p, q, n_received);
    if (st != ST_OK) {
        prompt_scores_destroy(p);
        *out = NULL;
    }
    return st;
}

void prompt_scores_destroy(struct prompt_scores *p)
{
    if (!p)
        return;
    token_facts_fini(&p->facts);
    free(p);
}

enum status prompt_scores_add(struct prompt_scores *p, const struct result_token *t)
{
    TRY(token_facts_add(&p->facts, p->n, t, &p->detok));
    p->n++;
    return pass(p, t->token);
}

void prompt_scores_seek(struct prompt_scores *p, uint32_t n)
{
    p->sent = n;
    token_facts_sent(&p->facts, n);
}

void prompt_scores_next(const struct prompt_scores *p, struct msg_prompt_scores *d)
{
    const struct token_facts *f = &p->facts;
    uint32_t n = p->n - p->sent;
    *d = (struct msg_prompt_scores){.n = n < MAX_ENTRIES ? n : MAX_ENTRIES,
                                    .logprobs = f->logprobs + p->sent,
                                    .ranks = f->ranks + p->sent};
    if (f->n_top) {
        d->n_top = f->n_top + p->sent;
        d->top = f->top + f->sent_top;
    }
    if (f->n_token_text) {
        d->n_token_text = f->n_token_text + p->sent;
        d->token_text = f->token_text.data + f->sent_token_text;
    }
    if (f->n_top_text) {
        d->n_top_text = f->n_top_text + f->sent_top;
        d->top_text = f->top_text.data + f->sent_top_text;
    }
}

void prompt_scores_took(struct prompt_scores *p, const struct msg_prompt_scores *d)
{
    struct token_facts *f = &p->facts;
    for (uint32_t i = p->sent; i < p->sent + d->n; i++) {
        uint32_t n_top = f->n_top ? f->n_top[i] : 0;
        f->sent_token_text += f->n_token_text ? f->n_token_text[i] : 0;
        for (uint32_t k = 0; f->n_top_text && k < n_top; k++)
            f->sent_top_text += f->n_top_text[f->sent_top + k];
        f->sent_top += n_top;
    }
    p->sent += d->n;
}
