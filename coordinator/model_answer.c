#include "coordinator/model_answer.h"

#include <string.h>

#include "common/grammar/grammar.h"
#include "common/json/json_write.h"
#include "coordinator/answer_grammar.h"

static enum answer_thinking thinking_of(const struct model_text *mt, const struct msg_chat *chat,
                                        const struct text_buf *prompt)
{
    size_t n = prompt->len, n_close;
    if (!mt->think)
        return THINKING_NONE;
    if (output_think_is_open(mt->think, prompt->data, n, chat->continue_final_message))
        return THINKING_INSIDE;
    if (chat->continue_final_message)
        return THINKING_NONE;
    while (n && strchr(" \n\r\t", prompt->data[n - 1]))
        n--;
    n_close = strlen(mt->think->close);
    bool closed =
        n >= n_close && memcmp(prompt->data + n - n_close, mt->think->close, n_close) == 0;
    return closed ? THINKING_NONE : THINKING_MAY;
}

/* Spellings of the special tokens among the marks, one behind the other in text. */
static enum status specials(const struct model_text *mt, struct text_buf *text,
                            struct wire_text special[MODEL_MAX_MARKS])
{
    size_t end[MODEL_MAX_MARKS];
    for (uint32_t i = 0; i < mt->n_marks; i++) {
        struct text_buf scratch = {0};
        struct token_piece p = tokenizer_piece(mt->tok, mt->mark[i], &scratch);
        enum status st = text_buf_append(text, p.text.data, p.text.len);
        text_buf_free(&scratch);
        TRY(st);
        end[i] = text->len;
    }
    for (uint32_t i = 0; i < mt->n_marks; i++) {
        size_t begin = i ? end[i - 1] : 0;
        special[i] = (struct wire_text){text->data + begin, end[i] - begin};
    }
    return ST_OK;
}

enum status model_answer_grammar(const struct model_text *mt, const struct msg_generate *g,
                                 const struct text_buf *prompt, struct text_buf *out,
                                 const char **field)
{
    const struct chat_template *t = mt->chat_tools ? mt->chat_tools : mt->chat;
    struct wire_text special[MODEL_MAX_MARKS];
    struct text_buf text = {0};
    if (g->kind != PROMPT_CHAT || !t)
        return ST_OK;
    struct chat_text source = chat_template_source(t);
    struct answer_form f = {.format = mt->tool_format,
                            .think = mt->think,
                            .thinking = thinking_of(mt, &g->chat, prompt),
                            .special = special,
                            .n_special = mt->n_marks,
                            .template = source.data,
                            .n_template = source.len,
                            .tools_json = g->chat.tools_json,
                            .choice = g->chat.tool_choice,
                            .name = g->chat.tool_name,
                            .one_call = g->chat.one_call,
                            .grammar_kind = g->grammar_kind,
                            .grammar = g->grammar};
    enum status st = specials(mt, &text, special);
    if (st == ST_OK)
        st = answer_grammar(&f, out, field);
    text_buf_free(&text);
    return st;
}

/* ---- budget of thinking ---- */

static bool ends_with(const struct text_buf *text, const char *mark)
{
    size_t n = strlen(mark);
    return text->len >= n && memcmp(text->data + text->len - n, mark, n) == 0;
}

/* The tokens of the closing mark's text. */
static enum status encode_close(const struct model_text *mt, struct token_list *ids)
{
    const char *mark = mt->think->close;
    struct text_buf text = {0};
    TRY(tokenizer_encode(mt->tok, mark, strlen(mark), 0, ids));
    enum status st = tokenizer_decode(mt->tok, ids->ids, ids->n, 0, &text);
    bool is_mark = st == ST_OK && ends_with(&text, mark) && ids->n <= THINKING_MAX_IDS;
    text_buf_free(&text);
    TRY(st);
    if (!is_mark)
        FAIL(ST_UNSUPPORTED, "the model's tokens cannot write its mark %s that closes thinking",
             mark);
    return ST_OK;
}

static enum status write_budget(const struct model_text *mt, const struct msg_generate *g,
                                bool inside, const int32_t *ids, size_t n_ids, struct text_buf *out)
{
    struct json_writer w = {.out = out};
    json_write_object(&w);
    json_member_u64(&w, "budget", g->thinking_budget);
    json_member_string(&w, "open", mt->think->open);
    json_member_string(&w, "close", mt->think->close);
    json_write_key(&w, "close_ids");
    json_write_array(&w);
    for (size_t i = 0; i < n_ids; i++)
        json_write_u64(&w, (uint64_t)ids[i]);
    json_write_end_array(&w);
    json_member_bool(&w, "inside", inside);
    json_member_bool(&w, "anywhere", output_think_is_anywhere(mt->think));
    if (g->grammar_kind) {
        json_write_key(&w, "answer");
        json_write_raw(&w, g->grammar.data, g->grammar.n);
    }
    json_write_end_object(&w);
    return w.status;
}

enum status model_answer_budget(const struct model_text *mt, const struct msg_generate *g,
                                const struct text_buf *prompt, struct text_buf *out,
                                const char **field)
{
    struct token_list ids = {0};
    if (!g->has_thinking_budget)
        return ST_OK;
    *field = "thinking_budget";
    if (!mt->think)
        FAIL(ST_UNSUPPORTED, "the model has no marks of thinking");
    enum answer_thinking thinking = thinking_of(mt, &g->chat, prompt);
    if (thinking == THINKING_NONE)
        return ST_OK;
    bool inside = thinking == THINKING_INSIDE;
    int32_t own = tokenizer_find(mt->tok, mt->think->close, strlen(mt->think->close));
    if (own >= 0)
        return write_budget(mt, g, inside, &own, 1, out);
    enum status st = encode_close(mt, &ids);
    if (st == ST_OK)
        st = write_budget(mt, g, inside, ids.ids, ids.n, out);
    token_list_free(&ids);
    return st;
}

/* ---- tokens ---- */

static bool is_mark(const struct model_text *mt, int32_t id)
{
    for (uint32_t i = 0; i < mt->n_marks; i++)
        if (mt->mark[i] == id)
            return true;
    return false;
}

enum status model_token_bytes(const struct model_text *mt, int32_t id, struct text_buf *out)
{
    static const char first = (char)GRAMMAR_SPECIAL;
    struct text_buf scratch = {0};
    struct token_piece p = tokenizer_piece(mt->tok, id, &scratch);
    enum status st = ST_OK;
    bool has_first = p.bytes.len && memchr(p.bytes.data, GRAMMAR_SPECIAL, p.bytes.len);
    if (p.special && is_mark(mt, id)) {
        st = text_buf_append(out, &first, 1);
        if (st == ST_OK)
            st = text_buf_append(out, p.text.data, p.text.len);
    } else if (p.text.data && !p.special && !has_first) {
        st = text_buf_append(out, p.bytes.data, p.bytes.len);
    }
    text_buf_free(&scratch);
    return st;
}
