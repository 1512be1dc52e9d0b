#include "coordinator/prompt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json/json_read.h"
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

/* the messages of a chat as the JSON list that templates take */
static enum status messages_json(const struct msg_chat *chat, struct text_buf *out)
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

enum status prompt_set_clock(struct msg_chat *chat)
{
    struct tm local;
    if (!chat->has_clock)
        chat->clock_s = (int64_t)time(NULL);
    chat->has_clock = true;
    if (chat->has_zone)
        return ST_OK;
    time_t t = (time_t)chat->clock_s;
    if (!localtime_r(&t, &local))
        FAIL(ST_IO, "the local time is not known");
    chat->zone_s = (int32_t)local.tm_gmtoff;
    chat->has_zone = true;
    return ST_OK;
}

static struct chat_text chat_text_of(struct wire_text t)
{
    return t.n ? (struct chat_text){t.data, t.n} : (struct chat_text){NULL, 0};
}

/* One JSON value of that type and nothing else: of two objects in one turn a template would see two
 * messages. */
static enum status check_json(struct wire_text t, enum json_type type, const char *path,
                              const char **field)
{
    struct json_cursor c;
    char why[256];
    if (t.n == 0)
        return ST_OK;
    *field = path;
    if (json_open(&c, t.data, t.n, NULL) != ST_OK) {
        snprintf(why, sizeof why, "%s", status_text());
        FAIL(ST_FORMAT, "%s: %s", path, why);
    }
    if (json_peek(&c) != type)
        FAIL(ST_FORMAT, "%s is not a JSON %s", path, type == JSON_ARRAY ? "array" : "object");
    *field = "chat";
    return ST_OK;
}

static enum status check_chat(const struct msg_chat *chat, const char **field)
{
    *field = "chat";
    TRY(check_json(chat->tools_json, JSON_ARRAY, "chat.tools_json", field));
    TRY(check_json(chat->variables_json, JSON_OBJECT, "chat.variables_json", field));
    for (uint32_t i = 0; i < chat->n_turns; i++)
        TRY(check_json(chat->turns[i].json, JSON_OBJECT, "chat.turn.json", field));
    if (chat->add_generation_prompt && chat->continue_final_message) {
        *field = "chat.continue_final_message";
        FAIL(ST_RANGE, "continue_final_message and add_generation_prompt exclude each other");
    }
    return ST_OK;
}

enum status prompt_render(const struct model_text *mt, const struct msg_chat *chat,
                          struct text_buf *out, struct text_buf *content, const char **field)
{
    struct text_buf messages = {0};
    struct tm now;
    time_t local_s = (time_t)(chat->clock_s + chat->zone_s);
    TRY(check_chat(chat, field));
    if (!mt->chat)
        FAIL(ST_UNSUPPORTED, "this model has no chat template, or none that can be read (the "
                             "server's log says why): send text or tokens");
    if (!gmtime_r(&local_s, &now))
        FAIL(ST_RANGE, "there is no date %" PRId64 " seconds after 1970", (int64_t)local_s);
    enum status st = messages_json(chat, &messages);
    if (st == ST_OK) {
        struct chat_request req = {
            .messages = {messages.data, messages.len},
            .tools = chat_text_of(chat->tools_json),
            .variables = {mt->variables.data, mt->variables.len},
            .more = chat_text_of(chat->variables_json),
            .add_generation_prompt = chat->add_generation_prompt,
            .continue_final_message = chat->continue_final_message,
            .now = &now,
            .content = content,
        };
        const struct chat_template *t =
            chat->tools_json.n && mt->chat_tools ? mt->chat_tools : mt->chat;
        st = chat_template_render(t, &req, &chat_limits_default, out, NULL, NULL);
    }
    text_buf_free(&messages);
    return st;
}

enum status prompt_chat_ids(const struct model_text *mt, const struct msg_chat *chat,
                            unsigned flags, struct token_list *out, struct text_buf *text,
                            const char **field)
{
    struct text_buf content = {0};
    enum status st = prompt_render(mt, chat, text, mt->plain_content ? &content : NULL, field);
    if (st == ST_OK)
        st = tokenizer_encode_marked(mt->tok, text->data ? text->data : "", text->len,
                                     content.len ? content.data : NULL, flags, out);
    text_buf_free(&content);
    return st;
}

static enum status copy_ids(struct token_list *out, const int32_t *ids, uint32_t n)
{
    out->ids = malloc((n ? n : 1) * sizeof *ids);
    if (!out->ids)
        FAIL(ST_NOMEM, "no memory for %u tokens", n);
    if (n)
        memcpy(out->ids, ids, n * sizeof *ids);
    out->n = out->cap = n;
    return ST_OK;
}

enum status prompt_ids(const struct model_text *mt, const struct msg_generate *g,
                       struct token_list *out, struct text_buf *text, const char **field)
{
    unsigned flags = g->add_special ? TOK_ADD_SPECIAL : 0;
    switch (g->kind) {
    case PROMPT_TOKENS:
        *field = "tokens.id";
        if (g->want_prompt_text)
            TRY(tokenizer_decode(mt->tok, g->tokens, g->n_tokens,
                                 g->skip_special ? TOK_SKIP_SPECIAL : 0, text));
        return copy_ids(out, g->tokens, g->n_tokens);
    case PROMPT_TEXT:
        *field = "text";
        if (g->want_prompt_text)
            TRY(text_buf_append(text, g->text.data, g->text.n));
        return tokenizer_encode(mt->tok, g->text.data, g->text.n, flags, out);
    case PROMPT_CHAT:
        *field = "chat";
        return prompt_chat_ids(mt, &g->chat, flags, out, text, field);
    }
    FAIL(ST_BUG, "prompt kind %d", (int)g->kind);
}

/* The pair as a template renders it, without what a post-processor adds. */
static enum status rendered_pair(const struct model_text *mt, const struct msg_generate *g,
                                 const struct tok_text pair[2], struct token_list *out,
                                 struct text_buf *text)
{
    struct text_buf content = {0};
    struct tm now;
    time_t local_s = (time_t)(g->chat.clock_s + g->chat.zone_s);
    if (!gmtime_r(&local_s, &now))
        FAIL(ST_RANGE, "there is no date %" PRId64 " seconds after 1970", (int64_t)local_s);
    enum status st = pair_text_render(&mt->pair, g->pair_prompt, pair[0], pair[1], &now, text,
                                      mt->plain_content ? &content : NULL);
    if (st == ST_OK)
        st = tokenizer_encode_marked(mt->tok, text->data ? text->data : "", text->len,
                                     content.len ? content.data : NULL, 0, out);
    text_buf_free(&content);
    return st;
}

enum status prompt_pair(const struct model_text *mt, struct msg_generate *g, struct token_list *out,
                        uint32_t **types, struct text_buf *text, const char **field)
{
    const struct tok_text pair[2] = {{g->text.data, g->text.n}, {g->document.data, g->document.n}};
    *field = "embed.document";
    if (mt->pair.chat)
        return rendered_pair(mt, g, pair, out, text);
    if (g->want_prompt_text)
        TRY(text_buf_append(text, g->text.data, g->text.n));
    TRY(tokenizer_encode_pair(mt->tok, pair, out, types));
    if (!mt->modules.whole || mt->modules.n_types == 0)
        return ST_OK;
    g->n_token_types = (uint32_t)out->n;
    g->token_types = *types;
    return ST_OK;
}

enum status prompt_score(const struct model_text *mt, struct token_list *ids)
{
    if (!mt->modules.scores || mt->modules.whole)
        return ST_OK;
    while (ids->n && ids->ids[ids->n - 1] == mt->modules.pad_id)
        ids->n--;
    if (ids->n == 0)
        FAIL(ST_RANGE, "there is no token but padding: it has no score");
    return ST_OK;
}

/* A reranker scores pairs, as two texts or as the joined ids; other models embed texts. */
static enum status check_document(const struct sentence_modules *m, const struct msg_generate *g)
{
    if (m->scores && !g->has_document && g->kind != PROMPT_TOKENS)
        FAIL(ST_UNSUPPORTED, "this model is a reranker: it needs a document beside the query");
    if (!m->scores && g->has_document)
        FAIL(ST_UNSUPPORTED, "this model is no reranker: it gives no scores of documents");
    return ST_OK;
}

enum status prompt_embed(const struct model_text *mt, struct msg_generate *g, struct text_buf *text,
                         const char **field)
{
    const char *prompt;
    char name[128];
    if (!g->embed)
        return ST_OK;
    *field = "embed";
    if (!mt->modules.present)
        FAIL(ST_UNSUPPORTED, "%s",
             g->has_document
                 ? "this model is no reranker: it gives no scores of documents"
                 : "this model gives no embeddings: its folder has no modules.json (a server "
                   "with --embed takes the last token's state)");
    *field = "embed.document";
    TRY(check_document(&mt->modules, g));
    *field = "embed.prompt_name";
    if (g->prompt_name.n >= sizeof name || memchr(g->prompt_name.data, 0, g->prompt_name.n))
        FAIL(ST_RANGE, "the model has no prompt of that name");
    memcpy(name, g->prompt_name.data, g->prompt_name.n);
    name[g->prompt_name.n] = 0;
    TRY(sentence_modules_prompt(&mt->modules, name, &prompt));
    if (g->kind != PROMPT_TEXT || !prompt || !*prompt)
        return ST_OK;
    if (mt->pair.chat) {
        g->pair_prompt = prompt;
        return ST_OK;
    }
    TRY(text_buf_append(text, prompt, strlen(prompt)));
    TRY(text_buf_append(text, g->text.data, g->text.n));
    g->text = (struct wire_text){text->data, text->len};
    return ST_OK;
}
