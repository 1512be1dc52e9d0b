#include "coordinator/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_escape.h"

static enum status put(struct text_buf *out, const char *s)
{
    return text_buf_append(out, s, strlen(s));
}

/* a JSON string (RFC 8259); s is UTF-8 and may hold NUL */
static enum status put_json_string(struct text_buf *out, const char *s, size_t n)
{
    TRY(put(out, "\""));
    while (n) {
        char esc[JSON_ESCAPE_SIZE];
        size_t plain = json_plain_run(s, n);
        TRY(text_buf_append(out, s, plain));
        s += plain;
        n -= plain;
        if (n) {
            TRY(text_buf_append(out, esc, json_escape(*s++, esc)));
            n--;
        }
    }
    return put(out, "\"");
}

enum status prompt_messages_json(const struct msg_chat *chat, struct text_buf *out)
{
    TRY(put(out, "["));
    for (uint32_t i = 0; i < chat->n_turns; i++) {
        const struct msg_turn *t = &chat->turns[i];
        TRY(put(out, i ? "," : ""));
        if (t->json.n) {
            TRY(text_buf_append(out, t->json.data, t->json.n));
            continue;
        }
        TRY(put(out, "{\"role\":"));
        TRY(put_json_string(out, t->role, strlen(t->role)));
        TRY(put(out, ",\"content\":"));
        TRY(put_json_string(out, t->content.data, t->content.n));
        TRY(put(out, "}"));
    }
    return put(out, "]");
}

static struct chat_text chat_text_of(struct wire_text t)
{
    return t.n ? (struct chat_text){t.data, t.n} : (struct chat_text){NULL, 0};
}

static enum status render(const struct msg_chat *chat, const struct model_text *mt,
                          struct text_buf *out)
{
    struct text_buf messages = {0};
    if (!mt->chat)
        FAIL(ST_UNSUPPORTED, "this model has no chat template (%s): send text or tokens",
             mt->no_chat);
    enum status st = prompt_messages_json(chat, &messages);
    if (st == ST_OK) {
        struct chat_request req = {
            .messages = {messages.data, messages.len},
            .tools = chat_text_of(chat->tools_json),
            .variables = {mt->variables.data, mt->variables.len},
            .more = chat_text_of(chat->variables_json),
            .add_generation_prompt = chat->add_generation_prompt,
            .continue_final_message = chat->continue_final_message,
        };
        const struct chat_template *t =
            chat->tools_json.n && mt->chat_tools ? mt->chat_tools : mt->chat;
        st = chat_template_render(t, &req, &chat_limits_default, out, NULL, NULL);
    }
    text_buf_free(&messages);
    return st;
}

static enum status take_ids(struct token_list *out, const int32_t *ids, uint32_t n)
{
    out->ids = malloc((n ? n : 1) * sizeof *ids);
    if (!out->ids)
        FAIL(ST_NOMEM, "no memory for %u tokens", n);
    if (n)
        memcpy(out->ids, ids, n * sizeof *ids);
    out->n = out->cap = n;
    return ST_OK;
}

static enum status do_generate(struct text_job *job, const struct msg_generate *g,
                               const struct model_text *mt)
{
    unsigned flags = g->add_special ? TOK_ADD_SPECIAL : 0;
    snprintf(job->field, sizeof job->field, "%s", g->kind == PROMPT_CHAT ? "chat" : "text");
    switch (g->kind) {
    case PROMPT_TOKENS:
        return take_ids(&job->tokens, g->tokens, g->n_tokens);
    case PROMPT_TEXT:
        return tokenizer_encode(mt->tok, g->text.data, g->text.n, flags, &job->tokens);
    case PROMPT_CHAT:
        TRY(render(&g->chat, mt, &job->text));
        return tokenizer_encode(mt->tok, job->text.data ? job->text.data : "", job->text.len, flags,
                                &job->tokens);
    }
    FAIL(ST_BUG, "prompt kind %d", (int)g->kind);
}

static enum status detokenize(struct text_job *job, const struct msg_detokenize *m,
                              const struct model_text *mt)
{
    snprintf(job->field, sizeof job->field, "id");
    for (uint32_t i = 0; i < m->n_tokens; i++)
        if (m->tokens[i] < 0 || m->tokens[i] > tokenizer_max_id(mt->tok))
            FAIL(ST_RANGE, "id[%u] is %d: the tokenizer's ids end at %d", i, m->tokens[i],
                 tokenizer_max_id(mt->tok));
    return tokenizer_decode(mt->tok, m->tokens, m->n_tokens, m->skip_special ? TOK_SKIP_SPECIAL : 0,
                            &job->text);
}

static enum status do_job(struct text_job *job, const struct model_text *mt, struct wire_mem *mem)
{
    struct client_msg m;
    wire_mem_reset(mem);
    /* decoded once before, by the loop; here the bytes are this thread's own */
    TRY(client_msg_decode_request(&m, job->frame, job->n_frame, mem, NULL, NULL));
    switch (job->kind) {
    case JOB_GENERATE:
        return do_generate(job, &m.u.generate, mt);
    case JOB_TOKENIZE:
        return tokenizer_encode(mt->tok, m.u.tokenize.text.data, m.u.tokenize.text.n,
                                m.u.tokenize.add_special ? TOK_ADD_SPECIAL : 0, &job->tokens);
    case JOB_DETOKENIZE:
        return detokenize(job, &m.u.detokenize, mt);
    case JOB_TEMPLATE:
        snprintf(job->field, sizeof job->field, "chat");
        return render(&m.u.apply_template.chat, mt, &job->text);
    }
    FAIL(ST_BUG, "job kind %d", (int)job->kind);
}

void prompt_do_job(struct text_job *job, const struct model_text *mt, struct wire_mem *mem)
{
    job->status = do_job(job, mt, mem);
    if (job->status != ST_OK)
        snprintf(job->detail, sizeof job->detail, "%s", status_text());
    else
        job->field[0] = '\0';
}
