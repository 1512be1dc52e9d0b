#include "client/gateway/tokenize_routes.h"

#include <stdlib.h>

#include "client/gateway/admission.h"
#include "client/gateway/openai_request.h"
#include "client/gateway/token_query.h"
#include "common/utf8.h"

enum form { TOKENIZE = 1, DETOKENIZE = 2, APPLY_TEMPLATE = 4 };
enum input { INPUT_NONE, INPUT_PROMPT, INPUT_CONTENT, INPUT_MESSAGES, INPUT_TOKENS };

struct tokenize_request {
    enum form form;
    struct openai_request chat; /* messages, tools; its `of` holds all */
    enum input input;
    struct answer_prompt prompt; /* prompt, content, tokens */
    bool has_add_special, add_special, token_strs, with_pieces;
};

/* ---- fields ---- */

static enum status set_input(struct tokenize_request *t, struct json_cursor *c, enum input input)
{
    if (t->input)
        return json_fail(c, ST_RANGE, "one of prompt, content and messages is taken");
    t->input = input;
    return ST_OK;
}

static enum status read_text(struct tokenize_request *t, struct json_cursor *c, enum input input)
{
    struct text_buf text = {0};
    enum status st = json_read_string(c, &text);
    t->prompt.n_text = text.len;
    if (st == ST_OK)
        st = answer_keep_text(&t->chat.of, &text, &t->prompt.text);
    text_buf_free(&text);
    return st == ST_OK ? set_input(t, c, input) : st;
}

static enum status read_prompt(struct tokenize_request *t, struct json_cursor *c)
{
    return read_text(t, c, INPUT_PROMPT);
}

static enum status read_content(struct tokenize_request *t, struct json_cursor *c)
{
    return read_text(t, c, INPUT_CONTENT);
}

static enum status read_messages(struct tokenize_request *t, struct json_cursor *c)
{
    struct json_cursor whole = *c;
    TRY(openai_read_messages(&t->chat, c));
    if (!t->chat.of.ask.n_turns)
        return request_fail_at(c, &whole, "there is none");
    return set_input(t, c, INPUT_MESSAGES);
}

static enum status read_tokens(struct tokenize_request *t, struct json_cursor *c)
{
    int32_t *ids = NULL;
    size_t n = 0;
    enum status st = json_enter_array(c);
    while (st == ST_OK && json_next_item(c)) {
        int64_t id;
        st = json_read_i64(c, 0, INT32_MAX, &id);
        if (st == ST_OK)
            st = answer_grow((void **)&ids, n, sizeof *ids);
        if (st == ST_OK)
            ids[n++] = (int32_t)id;
    }
    t->prompt.n_ids = n;
    if (st == ST_OK && !(t->prompt.ids = answer_keep(&t->chat.of, ids, n * sizeof *ids)))
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for %zu tokens", n);
    free(ids);
    return st == ST_OK ? set_input(t, c, INPUT_TOKENS) : st;
}

static enum status read_model(struct tokenize_request *t, struct json_cursor *c)
{
    return json_read_chars(c, t->chat.of.model, sizeof t->chat.of.model);
}

static enum status read_tools(struct tokenize_request *t, struct json_cursor *c)
{
    return openai_read_tools(&t->chat, c);
}

static enum status read_variables(struct tokenize_request *t, struct json_cursor *c)
{
    return request_read_given(&t->chat.variables, c);
}

static enum status read_add_special(struct tokenize_request *t, struct json_cursor *c)
{
    t->has_add_special = true;
    return json_read_bool(c, &t->add_special);
}

static enum status read_generation_prompt(struct tokenize_request *t, struct json_cursor *c)
{
    return json_read_bool(c, &t->chat.of.ask.add_generation_prompt);
}

static enum status read_continue(struct tokenize_request *t, struct json_cursor *c)
{
    return json_read_bool(c, &t->chat.of.ask.continue_final_message);
}

static enum status only_true(struct tokenize_request *t, struct json_cursor *c)
{
    (void)t;
    return request_only_bool(c, true);
}

static enum status read_token_strs(struct tokenize_request *t, struct json_cursor *c)
{
    return json_read_bool(c, &t->token_strs);
}

static enum status read_with_pieces(struct tokenize_request *t, struct json_cursor *c)
{
    return json_read_bool(c, &t->with_pieces);
}

static const struct field {
    const char *name;
    unsigned forms;
    enum status (*read)(struct tokenize_request *t, struct json_cursor *c);
} fields[] = {
    {"model", TOKENIZE | DETOKENIZE | APPLY_TEMPLATE, read_model},
    {"prompt", TOKENIZE, read_prompt},
    {"content", TOKENIZE, read_content},
    {"messages", TOKENIZE | APPLY_TEMPLATE, read_messages},
    {"tokens", DETOKENIZE, read_tokens},
    {"tools", TOKENIZE | APPLY_TEMPLATE, read_tools},
    {"chat_template_kwargs", TOKENIZE | APPLY_TEMPLATE, read_variables},
    {"add_generation_prompt", TOKENIZE | APPLY_TEMPLATE, read_generation_prompt},
    {"continue_final_message", TOKENIZE | APPLY_TEMPLATE, read_continue},
    {"add_special_tokens", TOKENIZE, read_add_special},
    {"add_special", TOKENIZE, read_add_special},
    {"return_token_strs", TOKENIZE, read_token_strs},
    {"with_pieces", TOKENIZE, read_with_pieces},
    /* served in their default values only */
    {"parse_special", TOKENIZE, only_true},
};

static enum status read_field(void *request, struct json_span key, struct json_cursor *c)
{
    struct tokenize_request *t = request;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if ((fields[i].forms & t->form) && json_span_is(key, fields[i].name))
            return fields[i].read(t, c);
    return request_unknown(c);
}

static enum status read_request(struct tokenize_request *t, const struct http_request *q,
                                char param[JSON_PATH_SIZE])
{
    struct json_cursor c;
    *param = '\0';
    TRY(json_open(&c, q->body, q->n_body, NULL));
    enum status st = request_read_members(t, &c, read_field);
    if (st != ST_OK)
        json_path(&c, param);
    else if (t->input == INPUT_NONE)
        FAIL(ST_RANGE, "%s is missing",
             t->form == TOKENIZE     ? "prompt"
             : t->form == DETOKENIZE ? "tokens"
                                     : "messages");
    return st == ST_OK ? request_set_variables(&t->chat.of, &t->chat.variables) : st;
}

/* ---- answers ---- */

static void write_tokens(struct json_writer *w, const struct ingot_event *ev)
{
    json_write_key(w, "tokens");
    json_write_array(w);
    for (uint32_t i = 0; i < ev->n_ids; i++)
        json_write_i64(w, ev->ids[i]);
    json_write_end_array(w);
}

static void write_spellings(struct json_writer *w, const struct ingot_event *ev)
{
    const char *p = ev->spelling;
    json_write_key(w, "token_strs");
    json_write_array(w);
    for (uint32_t i = 0; i < ev->n_ids; p += ev->n_spelling[i++])
        json_write_bytes(w, p, ev->n_spelling[i]);
    json_write_end_array(w);
}

static void tokens_body(struct json_writer *w, const struct ingot_event *ev, uint32_t max_ctx)
{
    json_write_object(w);
    json_member_u64(w, "count", ev->n_ids);
    json_member_u64(w, "max_model_len", max_ctx);
    write_tokens(w, ev);
    if (ev->n_spelling)
        write_spellings(w, ev);
    else
        json_member_null(w, "token_strs");
    json_write_end_object(w);
}

/* The bytes of a token: text, or a list of numbers where they are a part of a character. */
static void write_piece(struct json_writer *w, const char *p, size_t n)
{
    if (utf8_valid(p, n)) {
        json_write_bytes(w, p, n);
        return;
    }
    json_write_array(w);
    for (size_t i = 0; i < n; i++)
        json_write_i64(w, (unsigned char)p[i]);
    json_write_end_array(w);
}

static void pieces_body(struct json_writer *w, const struct ingot_event *ev, uint32_t max_ctx)
{
    const char *piece = ev->token_text;
    (void)max_ctx;
    json_write_object(w);
    json_write_key(w, "tokens");
    json_write_array(w);
    for (uint32_t i = 0; ev->n_token_text && i < ev->n_ids; piece += ev->n_token_text[i++]) {
        json_write_object(w);
        json_member_i64(w, "id", ev->ids[i]);
        json_write_key(w, "piece");
        write_piece(w, piece, ev->n_token_text[i]);
        json_write_end_object(w);
    }
    json_write_end_array(w);
    json_write_end_object(w);
}

static void only_tokens_body(struct json_writer *w, const struct ingot_event *ev, uint32_t max_ctx)
{
    (void)max_ctx;
    json_write_object(w);
    write_tokens(w, ev);
    json_write_end_object(w);
}

static void write_text(struct json_writer *w, const char *key, const struct ingot_event *ev)
{
    json_write_key(w, key);
    json_write_bytes(w, ev->text, ev->n_text);
}

static void prompt_body(struct json_writer *w, const struct ingot_event *ev, uint32_t max_ctx)
{
    (void)max_ctx;
    json_write_object(w);
    write_text(w, "prompt", ev);
    json_write_end_object(w);
}

static void text_body(struct json_writer *w, const struct ingot_event *ev, uint32_t max_ctx)
{
    (void)max_ctx;
    json_write_object(w);
    write_text(w, "prompt", ev);
    write_text(w, "content", ev);
    json_write_end_object(w);
}

static void start(struct upstream *u, struct tokenize_request *t, struct http_reply *r)
{
    const struct answer_prompt *p = &t->prompt;
    struct ingot_request *ask = &t->chat.of.ask;
    bool special = t->has_add_special ? t->add_special : t->input == INPUT_PROMPT;
    if (t->form == APPLY_TEMPLATE)
        token_query_template(u, r, ask, prompt_body);
    else if (t->input == INPUT_MESSAGES)
        token_query_tokenize_chat(u, r, ask, special, t->token_strs, tokens_body);
    else if (t->input == INPUT_TOKENS)
        token_query_detokenize(u, r, p->ids, p->n_ids, text_body);
    else if (t->input == INPUT_PROMPT)
        token_query_tokenize(u, r, p->text, p->n_text, special, t->token_strs, tokens_body,
                             "prompt");
    else
        token_query_tokenize(u, r, p->text, p->n_text, special, t->with_pieces,
                             t->with_pieces ? pieces_body : only_tokens_body, "content");
}

static void serve(struct gateway *g, enum form form, const struct http_request *q,
                  struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
    struct tokenize_request t = {.form = form, .chat = {.form = OPENAI_CHAT}};
    char param[JSON_PATH_SIZE];
    if (!s)
        return;
    answer_request_init(&t.chat.of);
    enum status st = read_request(&t, q, param);
    if (admission_check(g, s, &t.chat.of, st, param, q, r))
        start(g->upstream, &t, r);
    answer_request_free(&t.chat.of);
}

void tokenize_serve(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, TOKENIZE, q, r);
}

void detokenize_serve(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, DETOKENIZE, q, r);
}

void apply_template_serve(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, APPLY_TEMPLATE, q, r);
}
