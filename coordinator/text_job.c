#include "coordinator/text_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/pb_scan.h"
#include "coordinator/model_answer.h"
#include "coordinator/prompt.h"
#include "coordinator/resume.h"

/* What the text of the prompt tells of the answer; the text is taken over where the client wants it. */
static void set_text(struct resolved *q, const struct msg_generate *g, const struct model_text *mt,
                     struct text_buf *text)
{
    if (g->kind == PROMPT_CHAT && mt->think)
        q->starts_in_reasoning =
            output_think_is_open(mt->think, text->data, text->len, g->chat.continue_final_message);
    if (g->keep_marks) {
        q->keep = mt->mark;
        q->n_keep = mt->n_marks;
    }
    if (!g->want_prompt_text)
        return;
    q->prompt_text = *text;
    *text = (struct text_buf){0};
}

/* Makes the prompt, and the grammar that the whole answer follows.  begun: room for a text behind the model's prompt. */
static enum status prepare(struct text_job *job, struct msg_generate *g,
                           const struct model_text *mt, struct token_list *prompt, uint32_t **types,
                           struct text_buf *begun, struct text_buf *text, struct text_buf *grammar,
                           struct text_buf *budget, const char **field)
{
    TRY(prompt_embed(mt, g, begun, field));
    if (g->has_document)
        TRY(prompt_pair(mt, g, prompt, types, text, field));
    else
        TRY(prompt_ids(mt, g, prompt, text, field));
    if (g->embed)
        TRY(prompt_score(mt, prompt));
    const char *prompt_field = *field;
    TRY(model_answer_grammar(mt, g, text, grammar, field));
    if (grammar->len) {
        g->grammar_kind = GRAMMAR_TAGS;
        g->grammar = (struct wire_text){grammar->data, grammar->len};
    }
    TRY(model_answer_budget(mt, g, text, budget, field));
    if (budget->len) {
        g->grammar_kind = g->grammar_kind ? GRAMMAR_THINKING_TAGS : GRAMMAR_THINKING;
        g->grammar = (struct wire_text){budget->data, budget->len};
    }
    *field = prompt_field;
    TRY(resolve_generate(&job->resolved, g, prompt, &job->limits, field));
    set_text(job->resolved, g, mt, text);
    return ST_OK;
}

static enum status generate(struct text_job *job, struct msg_generate *g,
                            const struct model_text *mt, struct wire_mem *mem, const char **field)
{
    struct token_list prompt = {0};
    uint32_t *types = NULL;
    struct text_buf begun = {0}, text = {0}, grammar = {0}, budget = {0};
    struct msg_resumed_sample samples[MAX_SAMPLES];
    struct msg_resume resume = {.samples = samples, .elapsed_ms = job->elapsed_ms};
    if (job->recovered) {
        TRY(resume_from_journal(&resume, samples, job->recovered, g, mem));
        g->resume = &resume;
    }
    if (g->resume)
        resume_fill(g);
    if (g->kind == PROMPT_CHAT || g->has_document)
        TRY(prompt_set_clock(&g->chat));
    enum status st = prepare(job, g, mt, &prompt, &types, &begun, &text, &grammar, &budget, field);
    if (st == ST_OK && g->resume)
        st = resume_take(job->resolved, g, job->limits.vocab, field);
    if (st == ST_OK && job->recovered)
        resume_add_facts(job->resolved->resumed, job->recovered);
    token_list_free(&prompt);
    free(types);
    text_buf_free(&begun);
    text_buf_free(&text);
    text_buf_free(&grammar);
    text_buf_free(&budget);
    return st;
}

/* The text is bounded before it is made: a small id may stand for a long one. */
static enum status check_text_size(const struct msg_detokenize *m, const struct model_text *mt)
{
    struct text_buf scratch = {0};
    size_t n = 0;
    uint32_t i = 0;
    for (; i < m->n_tokens && n <= MAX_REPLY; i++) {
        scratch.len = 0;
        n += tokenizer_piece(mt->tok, m->tokens[i], &scratch).bytes.len;
    }
    text_buf_free(&scratch);
    if (n > MAX_REPLY)
        FAIL(ST_RANGE, "the text of the first %u ids is larger than %d MiB: ask for less at once",
             i, MAX_REPLY >> 20);
    return ST_OK;
}

static enum status detokenize(struct text_job *job, const struct msg_detokenize *m,
                              const struct model_text *mt, const char **field)
{
    *field = "id";
    for (uint32_t i = 0; i < m->n_tokens; i++)
        if (m->tokens[i] < 0 || m->tokens[i] > tokenizer_max_id(mt->tok))
            FAIL(ST_RANGE, "id[%u] is %d: the tokenizer's ids end at %d", i, m->tokens[i],
                 tokenizer_max_id(mt->tok));
    TRY(check_text_size(m, mt));
    return tokenizer_decode(mt->tok, m->tokens, m->n_tokens, m->skip_special ? TOK_SKIP_SPECIAL : 0,
                            &job->text);
}

/* A copy of the frame without `resume`, which says what an earlier coordinator had done. */
static enum status request_bytes(uint8_t **out, size_t *n_out, struct wire_bytes frame)
{
    enum { FIELD_RESUME = 70 };
    struct pb_scan s = {frame.data + FRAME_HEADER, frame.n - FRAME_HEADER};
    uint8_t *copy = malloc(frame.n);
    if (!copy)
        FAIL(ST_NOMEM, "no memory for a request of %zu bytes", frame.n);
    memcpy(copy, frame.data, FRAME_HEADER);
    *n_out = FRAME_HEADER;
    while (s.n) {
        struct pb_field at;
        enum status st = pb_scan_field(&s, &at);
        if (st != ST_OK) {
            free(copy);
            return st;
        }
        if (at.number == FIELD_RESUME)
            continue;
        memcpy(copy + *n_out, at.whole.data, at.whole.n);
        *n_out += at.whole.n;
    }
    *out = copy;
    return ST_OK;
}

/* What each token stands for and how the vocabulary spells it. */
static enum status token_texts(struct text_job *job, const struct model_text *mt)
{
    struct token_texts *t = &job->texts;
    struct text_buf scratch = {0};
    enum status st = ST_OK;
    t->n_text = calloc(job->tokens.n + 1, sizeof *t->n_text);
    t->n_spelling = calloc(job->tokens.n + 1, sizeof *t->n_spelling);
    if (!t->n_text || !t->n_spelling)
        FAIL(ST_NOMEM, "no memory for the texts of %zu tokens", job->tokens.n);
    for (size_t i = 0; i < job->tokens.n && st == ST_OK; i++) {
        struct token_piece p = tokenizer_piece(mt->tok, job->tokens.ids[i], &scratch);
        t->n_text[i] = (uint32_t)p.bytes.len;
        t->n_spelling[i] = (uint32_t)p.text.len;
        st = text_buf_append(&t->text, p.bytes.data, p.bytes.len);
        if (st == ST_OK)
            st = text_buf_append(&t->spelling, p.text.data, p.text.len);
        scratch.len = 0;
    }
    text_buf_free(&scratch);
    return st;
}

static enum status tokenize(struct text_job *job, struct msg_tokenize *m,
                            const struct model_text *mt, const char **field)
{
    unsigned flags = m->add_special ? TOK_ADD_SPECIAL : 0;
    if (m->has_chat) {
        *field = "chat";
        TRY(prompt_set_clock(&m->chat));
        TRY(prompt_chat_ids(mt, &m->chat, flags, &job->tokens, &job->text, field));
    } else {
        *field = "text";
        TRY(tokenizer_encode(mt->tok, m->text.data, m->text.n, flags, &job->tokens));
    }
    return m->want_token_text ? token_texts(job, mt) : ST_OK;
}

static enum status check_model(const char *name, const struct model_text *mt, const char **field)
{
    if (!*name || strcmp(name, mt->name) == 0)
        return ST_OK;
    *field = "model";
    FAIL(ST_NOT_FOUND, "there is no model of that name here");
}

static struct wire_bytes bytes_of(const struct text_job *job)
{
    if (job->recovered)
        return (struct wire_bytes){job->recovered->a.request, job->recovered->a.n_request};
    return (struct wire_bytes){sock_msg_data(job->msg), sock_msg_size(job->msg)};
}

static enum status do_job(struct text_job *job, const struct model_text *mt, struct wire_mem *mem,
                          const char **field)
{
    struct client_msg m;
    const char *id;
    struct wire_bytes in = bytes_of(job);
    TRY(client_msg_decode_request(&m, in.data, in.n, mem, &id, field));
    if (strcmp(id, job->request_id) != 0)
        FAIL(ST_BUG, "request %s was decoded as %s", job->request_id, id);
    switch (job->type) {
    case MSG_GENERATE:
        TRY(check_model(m.u.generate.model, mt, field));
        TRY(generate(job, &m.u.generate, mt, mem, field));
        return job->keep_request ? request_bytes(&job->kept, &job->n_kept, in) : ST_OK;
    case MSG_TOKENIZE:
        TRY(check_model(m.u.tokenize.model, mt, field));
        return tokenize(job, &m.u.tokenize, mt, field);
    case MSG_DETOKENIZE:
        TRY(check_model(m.u.detokenize.model, mt, field));
        return detokenize(job, &m.u.detokenize, mt, field);
    case MSG_APPLY_TEMPLATE:
        TRY(check_model(m.u.apply_template.model, mt, field));
        *field = "chat";
        TRY(prompt_set_clock(&m.u.apply_template.chat));
        return prompt_render(mt, &m.u.apply_template.chat, &job->text, NULL, field);
    default:
        FAIL(ST_BUG, "a message of type %d is no work for the text thread", (int)job->type);
    }
}

void text_job_fail(struct text_job *job, enum status st, const char *field)
{
    job->status = st;
    snprintf(job->detail, sizeof job->detail, "%s", status_text());
    snprintf(job->field, sizeof job->field, "%s", field);
    resolved_free(job->resolved);
    job->resolved = NULL;
}

void text_job_do(struct text_job *job, const struct model_text *mt, struct wire_mem *mem)
{
    const char *field = "";
    wire_mem_reset(mem);
    enum status st = do_job(job, mt, mem, &field);
    if (st != ST_OK)
        text_job_fail(job, st, field);
}

bool text_job_has_grammar(const struct text_job *job)
{
    return job->resolved && job->resolved->grammar_kind != 0;
}

void text_job_compile(struct text_job *job, struct grammar_check *check)
{
    const struct resolved *q = job->resolved;
    struct grammar_source source = {(enum grammar_kind)q->grammar_kind, q->grammar, q->n_grammar};
    job->has_grammar = true;
    job->grammar_status = grammar_check(check, &source, &job->stop, &job->grammar);
    if (job->grammar_status != ST_OK)
        text_job_fail(job, job->grammar_status, "grammar");
    else
        job->resolved->grammar_bytes = job->grammar.n_bytes;
}

void text_job_free(struct text_job *job)
{
    if (!job)
        return;
    sock_msg_free(job->msg);
    recovered_request_free(job->recovered);
    free(job->kept);
    resolved_free(job->resolved);
    token_list_free(&job->tokens);
    free(job->texts.n_text);
    free(job->texts.n_spelling);
    text_buf_free(&job->texts.text);
    text_buf_free(&job->texts.spelling);
    text_buf_free(&job->text);
    free(job);
}
