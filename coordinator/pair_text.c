#include "coordinator/pair_text.h"

#include <string.h>

#include "common/json_escape.h"

/* The prompt of Qwen3-Reranker's model card; a system message is its instruction. */
static const char qwen3_template[] =
    "{%- set asked = messages | selectattr('role', 'equalto', 'system') | list -%}"
    "{%- set query = messages | selectattr('role', 'equalto', 'query') | first -%}"
    "{%- set document = messages | selectattr('role', 'equalto', 'document') | first -%}"
    "{{ '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
    "and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: ' }}"
    "{{ asked[0].content if asked else "
    "'Given a web search query, retrieve relevant passages that answer the query' }}"
    "{{ '\n<Query>: ' }}{{ query.content }}{{ '\n<Document>: ' }}{{ document.content }}"
    "{{ '<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n' }}";

/* ---- messages ---- */

static enum status put(struct text_buf *out, const char *s)
{
    return text_buf_append(out, s, strlen(s));
}

static enum status put_message(struct text_buf *out, const char *role, struct tok_text text,
                               bool parts)
{
    TRY(put(out, "{\"role\":\""));
    TRY(put(out, role));
    TRY(put(out, parts ? "\",\"content\":[{\"type\":\"text\",\"text\":\"" : "\",\"content\":\""));
    while (text.len) {
        char esc[JSON_ESCAPE_SIZE];
        size_t plain = json_plain_run(text.data, text.len);
        TRY(text_buf_append(out, text.data, plain));
        text.data += plain;
        text.len -= plain;
        if (text.len) {
            TRY(text_buf_append(out, esc, json_escape(*text.data++, esc)));
            text.len--;
        }
    }
    return put(out, parts ? "\"}]}" : "\"}");
}

static enum status put_messages(const struct pair_text *p, const char *prompt,
                                struct tok_text query, struct tok_text document,
                                struct text_buf *out)
{
    TRY(put(out, "["));
    if (prompt && *prompt) {
        TRY(put_message(out, "system", (struct tok_text){prompt, strlen(prompt)}, p->parts));
        TRY(put(out, ","));
    }
    TRY(put_message(out, "query", query, p->parts));
    TRY(put(out, ","));
    TRY(put_message(out, "document", document, p->parts));
    return put(out, "]");
}

enum status pair_text_render(const struct pair_text *p, const char *prompt, struct tok_text query,
                             struct tok_text document, const struct tm *now, struct text_buf *out,
                             struct text_buf *content)
{
    struct text_buf messages = {0};
    enum status st = put_messages(p, prompt, query, document, &messages);
    if (st == ST_OK) {
        struct chat_request req = {
            .messages = {messages.data, messages.len},
            .variables = p->variables,
            .add_generation_prompt = p->generation_prompt,
            .now = now,
            .content = content,
        };
        st = chat_template_render(p->chat, &req, &chat_limits_default, out, NULL, NULL);
    }
    text_buf_free(&messages);
    return st;
}

/* ---- at start ---- */

/* Does the template's text take messages apart into parts?  The library looks for the same. */
static bool takes_parts(const struct chat_template *t)
{
    static const char *const marks[] = {"content[0]", ".type",     "'type'",
                                        "\"type\"",   "item.type", "message.content["};
    struct chat_text source = chat_template_source(t);
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        for (size_t at = 0, n = strlen(marks[i]); at + n <= source.len; at++)
            if (memcmp(source.data + at, marks[i], n) == 0)
                return true;
    return false;
}

static enum status probe(const struct pair_text *p, const char *query, const char *document,
                         struct text_buf *out)
{
    struct tm now = {.tm_mday = 1, .tm_year = 100};
    return pair_text_render(p, NULL, (struct tok_text){query, strlen(query)},
                            (struct tok_text){document, strlen(document)}, &now, out, NULL);
}

/* A template that knows other roles alone may render a pair without its texts. */
static enum status check_roles(const struct pair_text *p)
{
    struct text_buf text[3] = {{0}, {0}, {0}};
    enum status st = probe(p, "alpha", "bravo", &text[0]);
    if (st == ST_OK)
        st = probe(p, "charlie", "bravo", &text[1]);
    if (st == ST_OK)
        st = probe(p, "alpha", "foxtrot", &text[2]);
    bool shown = st == ST_OK;
    for (int i = 1; i < 3; i++)
        if (text[i].len == text[0].len &&
            (text[0].len == 0 || memcmp(text[i].data, text[0].data, text[0].len) == 0))
            shown = false;
    for (int i = 0; i < 3; i++)
        text_buf_free(&text[i]);
    if (!shown)
        FAIL(ST_UNSUPPORTED,
             "the model's chat template does not render messages of the roles query and "
             "document%s%s: "
             "--rerank qwen3 takes the prompt of Qwen3-Reranker's model card",
             st == ST_OK ? "" : " (", st == ST_OK ? "" : "it fails on them)");
    return ST_OK;
}

enum status pair_text_open(struct pair_text *p, const struct sentence_modules *modules,
                           const struct chat_template *chat, bool bad_chat, const char *why,
                           struct chat_text variables)
{
    enum pair_form form = modules->pair;
    *p =
        (struct pair_text){.generation_prompt = modules->generation_prompt, .variables = variables};
    if (form == PAIR_QWEN3) {
        TRY(chat_template_create(&p->own, qwen3_template, sizeof qwen3_template - 1));
        p->chat = p->own;
        return ST_OK;
    }
    if (form == PAIR_JOINED)
        return ST_OK;
    if (!chat && (form == PAIR_MESSAGES || bad_chat))
        FAIL(ST_UNSUPPORTED, "the reranker's chat template: %s", why);
    if (!chat)
        return ST_OK;
    p->chat = chat;
    p->parts = modules->message == MESSAGE_PARTS ||
               (modules->message == MESSAGE_BY_TEMPLATE && takes_parts(chat));
    return check_roles(p);
}

void pair_text_close(struct pair_text *p)
{
    chat_template_destroy(p->own);
}
