#include "coordinator/answer_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "common/grammar/grammar.h"
#include "common/json/json_read.h"
#include "common/text/output_formats.h"
#include "common/text/output_harmony_marks.h"
#include "coordinator/answer_elements.h"
#include "coordinator/answer_parts.h"

enum { MAX_TOOLS = 1024, MAX_NAME = 128 }; /* bytes; Anthropic allows 128, OpenAI 64 */

struct tool {
    char name[MAX_NAME + 1];
    struct json_span schema; /* p NULL: without parameters */
};

struct builder {
    const struct answer_form *f;
    const struct output_format *format;
    const struct output_call_form *form;
    struct json_writer w;
    struct tool *tools; /* [n_tools] that may be called */
    uint32_t n_tools;
    bool strict;          /* one of them is */
    enum status elements; /* of a tool whose parameters cannot be elements: the first failure */
};

/* ---- tools ---- */

static bool is_name(const char *s)
{
    static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return *s && s[strspn(s, chars)] == 0;
}

/* {"type": "function", "function": {"name", "parameters", "strict"}}, or the inner object alone. */
static enum status read_tool(struct json_cursor *c, struct tool *t, bool *strict, bool inner)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (!inner && json_span_is(key, "function"))
            TRY(read_tool(c, t, strict, true));
        else if (json_span_is(key, "name"))
            TRY(json_read_chars(c, t->name, sizeof t->name));
        else if (json_span_is(key, "parameters"))
            t->schema = json_read_raw(c);
        else if (json_span_is(key, "strict"))
            TRY(json_read_bool(c, strict));
    }
    return ST_OK;
}

static enum status read_tools(struct builder *b)
{
    const struct wire_text *json = &b->f->tools_json;
    struct json_cursor c;
    TRY(json_open(&c, json->data, json->n, NULL));
    TRY(json_enter_array(&c));
    b->tools = calloc(MAX_TOOLS, sizeof *b->tools);
    if (!b->tools)
        FAIL(ST_NOMEM, "no memory for tools");
    while (json_next_item(&c)) {
        struct tool *t = &b->tools[b->n_tools];
        bool strict = false;
        if (b->n_tools == MAX_TOOLS)
            FAIL(ST_RANGE, "more than %d tools", MAX_TOOLS);
        *t = (struct tool){.name = ""};
        TRY(read_tool(&c, t, &strict, false));
        b->strict = b->strict || strict;
        if (b->f->choice != TOOL_CHOICE_NAMED || strcmp(t->name, b->f->name) == 0)
            b->n_tools++;
    }
    return ST_OK;
}

static enum status check_names(const struct builder *b)
{
    for (uint32_t i = 0; i < b->n_tools; i++)
        if (!is_name(b->tools[i].name))
            FAIL(ST_FORMAT,
                 "tool %u: a call that must be made needs a name of letters, digits, '_', '-' "
                 "and '.'",
                 i);
    return ST_OK;
}

static void put_marks(struct builder *b, const struct output_format *format)
{
    for (size_t i = 0; i < OUTPUT_FORMAT_MARKS && format->marks[i]; i++)
        json_write_string(&b->w, format->marks[i]);
}

/* ---- thinking ---- */

/* An item: any text without these. */
static void put_free(struct builder *b, const char *const *without, size_t n)
{
    part_begin(&b->w, "free");
    json_write_object(&b->w);
    json_write_key(&b->w, "without");
    json_write_array(&b->w);
    for (size_t i = 0; i < n; i++)
        json_write_string(&b->w, without[i]);
    json_write_end_array(&b->w);
    json_write_end_object(&b->w);
    json_write_end_object(&b->w);
}

static bool is_harmony(const struct answer_form *f)
{
    return f->format == OUTPUT_TOOLS_HARMONY ||
           (f->think && strcmp(f->think->open, HARMONY_ANALYSIS) == 0);
}

static const char *const harmony_marks[] = {HARMONY_START, HARMONY_CHANNEL, HARMONY_MESSAGE,
                                            HARMONY_END,   HARMONY_CALL,    HARMONY_RETURN};

/* The rest of a thinking that is open, as items; between it and what follows models write up to two newlines. */
static void put_open_thinking(struct builder *b)
{
    static const char newlines[] = "{\"choice\":[\"\",\"\\n\",\"\\n\\n\"]}";
    if (is_harmony(b->f)) {
        put_free(b, harmony_marks, ARRAY_LEN(harmony_marks));
        part_text(&b->w, b->f, HARMONY_END HARMONY_START "assistant");
        return;
    }
    put_free(b, &b->f->think->close, 1);
    part_text(&b->w, b->f, b->f->think->close);
    json_write_raw(&b->w, newlines, sizeof newlines - 1);
}

/* Items. */
static void put_thinking(struct builder *b)
{
    if (b->f->thinking == THINKING_INSIDE)
        put_open_thinking(b);
    if (b->f->thinking != THINKING_MAY)
        return;
    part_list(&b->w, "any_of");
    part_list(&b->w, "seq");
    part_end_list(&b->w);
    part_list(&b->w, "seq");
    part_text(&b->w, b->f, b->f->think->open);
    put_open_thinking(b);
    part_end_list(&b->w);
    part_end_list(&b->w);
}

/* ---- calls ---- */

static enum status put_call(struct builder *b, const struct tool *t)
{
    static const char none[] = "{\"type\":\"object\",\"additionalProperties\":false}";
    part_list(&b->w, "seq");
    part_text(&b->w, b->f, b->form->before);
    part_put(&b->w, "text", t->name, strlen(t->name));
    part_text(&b->w, b->f, b->form->middle);
    if (b->form->key) {
        TRY(answer_elements(&b->w, b->f, b->form, t->name, t->schema));
    } else {
        part_begin(&b->w, "schema");
        json_write_raw(&b->w, t->schema.p ? t->schema.p : none,
                       t->schema.p ? t->schema.n : sizeof none - 1);
        json_member_string(&b->w, "of", t->name);
        if (b->form->quote)
            json_member_string(&b->w,
                               part_is_special(b->f, b->form->quote) ? "special_quote" : "quote",
                               b->form->quote);
        json_write_end_object(&b->w);
    }
    part_text(&b->w, b->f, b->form->after);
    part_end_list(&b->w);
    return ST_OK;
}

/* An item. */
static void put_calls(struct builder *b)
{
    part_list(&b->w, "seq");
    part_text(&b->w, b->f, b->form->begin);
    part_begin(&b->w, "repeat");
    part_list(&b->w, "any_of");
    for (uint32_t i = 0; i < b->n_tools; i++)
        if (b->elements == ST_OK)
            b->elements = put_call(b, &b->tools[i]);
    part_end_list(&b->w);
    json_member_u64(&b->w, "min", 1);
    if (b->f->one_call || !b->form->between)
        json_member_u64(&b->w, "max", 1);
    if (b->form->between && *b->form->between) {
        json_write_key(&b->w, "between");
        part_list(&b->w, "seq");
        part_text(&b->w, b->f, b->form->between);
        part_end_list(&b->w);
    }
    json_write_end_object(&b->w);
    part_text(&b->w, b->f, b->form->end);
    part_end_list(&b->w);
}

/* ---- other texts ---- */

/* What begins a call without a mark: no other text begins so. */
static void put_plain_beginnings(struct builder *b)
{
    struct text_buf begins = {0};
    if (b->f->format != OUTPUT_TOOLS_GLM4) {
        json_write_string(&b->w, "{");
        json_write_string(&b->w, "[");
        json_write_string(&b->w, "`");
        return;
    }
    for (uint32_t i = 0; i < b->n_tools; i++) {
        begins.len = 0;
        if (text_buf_append(&begins, b->tools[i].name, strlen(b->tools[i].name)) != ST_OK ||
            text_buf_append(&begins, "\n{", 2) != ST_OK)
            b->w.status = ST_NOMEM;
        else
            json_write_bytes(&b->w, begins.data, begins.len);
    }
    text_buf_free(&begins);
}

/* An item: any text in which no call begins. */
static void put_free_text(struct builder *b)
{
    part_begin(&b->w, "free");
    json_write_object(&b->w);
    json_write_key(&b->w, "without");
    json_write_array(&b->w);
    for (int t = 0; t < OUTPUT_TOOLS_AUTO; t++)
        if (b->f->format == OUTPUT_TOOLS_AUTO || b->f->format == (enum output_tools)t)
            put_marks(b, output_format_of((enum output_tools)t));
    for (size_t i = 0; is_harmony(b->f) && i < ARRAY_LEN(harmony_marks); i++)
        json_write_string(&b->w, harmony_marks[i]);
    json_write_end_array(&b->w);
    if (b->format->plain) {
        json_write_key(&b->w, "not_begin");
        json_write_array(&b->w);
        put_plain_beginnings(b);
        json_write_end_array(&b->w);
    }
    json_write_end_object(&b->w);
    json_write_end_object(&b->w);
}

/* An item: a text of the request's own form. */
static void put_own_form(struct builder *b)
{
    static const char *const kinds[] = {[GRAMMAR_JSON_SCHEMA] = "schema",
                                        [GRAMMAR_REGEX] = "regex",
                                        [GRAMMAR_CHOICE] = "choice",
                                        [GRAMMAR_GBNF] = "grammar"};
    static const char object[] = "{\"json_object\":true}";
    const struct wire_text *s = &b->f->grammar;
    if (b->f->grammar_kind == GRAMMAR_TAGS) {
        json_write_raw(&b->w, s->data, s->n);
    } else if (b->f->grammar_kind == GRAMMAR_JSON_OBJECT) {
        json_write_raw(&b->w, object, sizeof object - 1);
    } else {
        part_begin(&b->w, kinds[b->f->grammar_kind]);
        if (b->f->grammar_kind == GRAMMAR_REGEX || b->f->grammar_kind == GRAMMAR_GBNF)
            json_write_bytes(&b->w, s->data, s->n);
        else
            json_write_raw(&b->w, s->data, s->n);
        json_write_end_object(&b->w);
    }
}

/* An item: an answer that is no call. */
static void put_content(struct builder *b)
{
    part_list(&b->w, "seq");
    if (is_harmony(b->f))
        part_text(&b->w, b->f, HARMONY_CHANNEL "final" HARMONY_MESSAGE);
    if (b->f->grammar_kind)
        put_own_form(b);
    else
        put_free_text(b);
    part_end_list(&b->w);
}

/* An item: any text with calls in it; in formats without marks a call is the whole answer. */
static void put_text_and_calls(struct builder *b)
{
    bool among = !b->format->plain && !is_harmony(b->f) && !b->f->grammar_kind;
    if (!among || b->f->one_call) {
        part_list(&b->w, "any_of");
        put_content(b);
        part_list(&b->w, "seq");
        if (among)
            put_free_text(b);
        put_calls(b);
        part_end_list(&b->w);
        part_end_list(&b->w);
        return;
    }
    part_list(&b->w, "seq");
    part_begin(&b->w, "repeat");
    part_list(&b->w, "seq");
    put_free_text(b);
    put_calls(b);
    part_end_list(&b->w);
    json_write_end_object(&b->w);
    put_free_text(b);
    part_end_list(&b->w);
}

/* ---- the whole ---- */

static bool has_text(const struct answer_form *f, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= f->n_template; i++)
        if (memcmp(f->template + i, text, n) == 0)
            return true;
    return false;
}

static enum status find_form(struct builder *b)
{
    b->format = output_format_of(b->f->format);
    for (size_t i = 0; i < OUTPUT_FORMAT_FORMS && !b->form; i++) {
        const struct output_call_form *form = &b->format->forms[i];
        if (form->before && (!form->sign || has_text(b->f, form->sign)))
            b->form = form;
    }
    if (!b->form)
        FAIL(ST_UNSUPPORTED,
             "calls cannot be required, nor tools be strict, in this model's format of calls, %s",
             output_tools_name(b->f->format));
    return ST_OK;
}

/* The request's own grammar is read where its source is put into another. */
static enum status check_own(const struct answer_form *f)
{
    struct json_cursor c;
    if (f->grammar_kind >= GRAMMAR_THINKING) /* it is about the whole of an answer */
        FAIL(ST_UNSUPPORTED, "grammars of kind %u are not supported", f->grammar_kind);
    bool json = f->grammar_kind == GRAMMAR_JSON_SCHEMA || f->grammar_kind == GRAMMAR_CHOICE ||
                f->grammar_kind == GRAMMAR_TAGS;
    if (json)
        return json_open(&c, f->grammar.data, f->grammar.n, NULL);
    return ST_OK;
}

static enum status build(struct builder *b, const char **field)
{
    bool must = b->f->choice != TOOL_CHOICE_AUTO;
    *field = "chat.tools_json";
    if (b->f->tools_json.n)
        TRY(read_tools(b));
    *field = "chat.tool_choice";
    if (must && !b->n_tools)
        FAIL(b->f->choice == TOOL_CHOICE_NAMED ? ST_NOT_FOUND : ST_RANGE,
             b->f->choice == TOOL_CHOICE_NAMED ? "there is no tool of that name"
                                               : "a call is required, and there are no tools");
    bool calls = must || b->strict || (b->n_tools && b->f->grammar_kind);
    bool thinks = b->f->grammar_kind && (b->f->thinking != THINKING_NONE || is_harmony(b->f));
    if (!calls && !thinks)
        return ST_OK;
    if (calls)
        TRY(find_form(b));
    *field = "chat.tools_json";
    if (calls)
        TRY(check_names(b));
    *field = "grammar";
    TRY(check_own(b->f));
    part_list(&b->w, "seq");
    put_thinking(b);
    if (must)
        put_calls(b);
    else if (calls)
        put_text_and_calls(b);
    else
        put_content(b);
    part_end_list(&b->w);
    if (b->elements != ST_OK)
        *field = "chat.tools_json";
    return b->elements != ST_OK ? b->elements : b->w.status;
}

enum status answer_grammar(const struct answer_form *f, struct text_buf *out, const char **field)
{
    struct builder b = {.f = f, .w = {.out = out}};
    enum status st = build(&b, field);
    free(b.tools);
    return st;
}
