#include "client/gateway/tool_choice.h"

#include <string.h>

#include "client/gateway/request_fields.h"

enum { AUTO, NONE, REQUIRED, NAMED, N_CHOICES };

static const char *const openai_words[] = {"auto", "none", "required"};
static const char *const openai_types[] = {[NAMED] = "function"};
static const char *const anthropic_types[] = {"auto", "none", "any", "tool"};

struct choice {
    struct answer_request *q;
    enum tool_choice_form form;
    int type; /* N_CHOICES: not read */
    struct text_buf name;
};

static enum status read_type(struct choice *t, struct json_cursor *c)
{
    bool anthropic = t->form == TOOL_CHOICE_ANTHROPIC;
    char type[32];
    TRY(json_read_chars(c, type, sizeof type));
    for (int i = anthropic ? 0 : NAMED; i < N_CHOICES; i++)
        if (strcmp(type, anthropic ? anthropic_types[i] : openai_types[i]) == 0)
            t->type = i;
    if (t->type == N_CHOICES)
        return json_fail(c, ST_UNSUPPORTED, "\"%s\" is not supported: %s", type,
                         anthropic ? "auto, any, tool and none are" : "function is");
    return ST_OK;
}

static enum status read_object(struct choice *t, struct json_cursor *c, bool inner)
{
    bool names = inner || t->form != TOOL_CHOICE_CHAT;
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (!inner && json_span_is(key, "type"))
            TRY(read_type(t, c));
        else if (names && !t->name.len && json_span_is(key, "name"))
            TRY(json_read_string(c, &t->name));
        else if (!names && json_span_is(key, "function"))
            TRY(read_object(t, c, true));
        else if (t->form == TOOL_CHOICE_ANTHROPIC && json_span_is(key, "disable_parallel_tool_use"))
            TRY(json_read_bool(c, &t->q->one_call));
        else
            return request_unknown(c);
    }
    return ST_OK;
}

static enum status read_word(struct choice *t, struct json_cursor *c)
{
    char word[32];
    TRY(json_read_chars(c, word, sizeof word));
    for (int i = 0; i < NAMED; i++)
        if (strcmp(word, openai_words[i]) == 0)
            t->type = i;
    if (t->type == N_CHOICES)
        return json_fail(c, ST_UNSUPPORTED,
                         "\"%s\" is not supported: auto, none, required and a named tool are",
                         word);
    return ST_OK;
}

static enum status apply(struct choice *t, struct json_cursor *c, bool *none)
{
    static const enum ingot_tool_choice to[] = {INGOT_TOOL_AUTO, INGOT_TOOL_AUTO,
                                                INGOT_TOOL_REQUIRED, INGOT_TOOL_NAMED};
    if (t->type == N_CHOICES)
        return json_fail(c, ST_FORMAT, "it has no type");
    if ((t->type == NAMED) != (t->name.len > 0) ||
        (t->name.len && memchr(t->name.data, 0, t->name.len)))
        return json_fail(c, ST_FORMAT, "a named tool, and no other choice, has a name");
    *none = t->type == NONE;
    t->q->ask.tool_choice = to[t->type];
    return t->type == NAMED ? answer_keep_text(t->q, &t->name, &t->q->ask.tool_name) : ST_OK;
}

enum status tool_choice_read(struct answer_request *q, struct json_cursor *c,
                             enum tool_choice_form form, bool *none)
{
    struct choice t = {.q = q, .form = form, .type = N_CHOICES};
    struct json_cursor whole = *c;
    bool word = form != TOOL_CHOICE_ANTHROPIC && json_peek(c) == JSON_STRING;
    enum status st = word ? read_word(&t, c) : read_object(&t, c, false);
    if (st == ST_OK) {
        st = apply(&t, &whole, none);
        if (st != ST_OK)
            c->last = whole.last;
    }
    text_buf_free(&t.name);
    return st;
}

enum status tool_choice_check(const struct answer_request *q)
{
    const char *name = q->ask.tool_name;
    bool found = q->ask.tool_choice != INGOT_TOOL_NAMED;
    if (q->ask.tool_choice == INGOT_TOOL_AUTO)
        return ST_OK;
    if (!q->ask.tools_json)
        FAIL(ST_RANGE, "tool_choice: there are no tools");
    for (size_t i = 0; !found && i < q->n_tools; i++)
        found = strcmp(q->tools[i], name) == 0;
    if (!found)
        FAIL(ST_RANGE, "tool_choice: there is no tool of that name");
    return ST_OK;
}
