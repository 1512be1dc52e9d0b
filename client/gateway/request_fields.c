#include "client/gateway/request_fields.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STOP_STRINGS = 16, MAX_BIASES = 4096, MAX_MESSAGES = 1 << 16 };

/* ---- what readers share ---- */

enum status request_read_u32(struct json_cursor *c, uint32_t lo, uint32_t hi, uint32_t *out)
{
    int64_t v;
    TRY(json_read_i64(c, lo, hi, &v));
    *out = (uint32_t)v;
    return ST_OK;
}

enum status request_only_bool(struct json_cursor *c, bool wanted)
{
    bool v;
    TRY(json_read_bool(c, &v));
    if (v != wanted)
        return json_fail(c, ST_UNSUPPORTED, "%s is not supported", v ? "true" : "false");
    return ST_OK;
}

enum status request_read_members(void *request, struct json_cursor *c, request_member_reader *read)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key))
        if (!json_take_null(c))
            TRY(read(request, key, c));
    return ST_OK;
}

enum status request_unknown(struct json_cursor *c)
{
    return json_fail(c, ST_UNSUPPORTED, "this field is not supported");
}

enum status request_fail_at(struct json_cursor *c, const struct json_cursor *whole,
                            const char *text)
{
    *c = *whole;
    return json_fail(c, ST_FORMAT, "%s", text);
}

enum status request_pass_member(struct json_writer *w, struct json_span key, struct json_cursor *c)
{
    struct text_buf name = {0};
    struct json_span v = json_read_raw(c);
    enum status st = json_span_text(key, &name);
    if (st == ST_OK) {
        json_write_key_bytes(w, name.data, name.len);
        json_write_raw(w, v.p, v.n);
    }
    text_buf_free(&name);
    return st;
}

/* ---- fields that are not plain numbers ---- */

static enum status read_seed(struct answer_request *q, struct json_cursor *c)
{
    int64_t seed;
    TRY(json_read_i64(c, INT64_MIN, INT64_MAX, &seed));
    q->ask.has_seed = true;
    q->ask.seed = (uint64_t)seed;
    return ST_OK;
}

static enum status read_stop_string(struct answer_request *q, struct json_cursor *c,
                                    const char **stops)
{
    struct text_buf text = {0};
    enum status st;
    if (q->ask.n_stops == MAX_STOP_STRINGS)
        return json_fail(c, ST_RANGE, "at most %d stop strings are taken", MAX_STOP_STRINGS);
    st = json_read_string(c, &text);
    if (st == ST_OK && (text.len == 0 || memchr(text.data, 0, text.len)))
        st = json_fail(c, ST_RANGE, "a stop string must have a byte, and none may be NUL");
    if (st == ST_OK)
        st = answer_keep_text(q, &text, &stops[q->ask.n_stops]);
    text_buf_free(&text);
    q->ask.n_stops += st == ST_OK;
    return st;
}

static enum status read_stop(struct answer_request *q, struct json_cursor *c)
{
    const char *none[MAX_STOP_STRINGS] = {0};
    const char **stops = answer_keep(q, none, sizeof none);
    if (!stops)
        FAIL(ST_NOMEM, "no memory for stop strings");
    q->ask.stops = stops;
    if (json_peek(c) != JSON_ARRAY)
        return read_stop_string(q, c, stops);
    TRY(json_enter_array(c));
    while (json_next_item(c))
        TRY(read_stop_string(q, c, stops));
    return ST_OK;
}

static enum status read_stop_ids(struct answer_request *q, struct json_cursor *c)
{
    int32_t ids[REQUEST_MAX_STOP_IDS];
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        int64_t id;
        TRY(json_read_i64(c, 0, INT32_MAX, &id));
        if (q->ask.n_stop_ids == REQUEST_MAX_STOP_IDS)
            return json_fail(c, ST_RANGE, "at most %d stop tokens are taken", REQUEST_MAX_STOP_IDS);
        ids[q->ask.n_stop_ids++] = (int32_t)id;
    }
    q->ask.stop_ids = answer_keep(q, ids, q->ask.n_stop_ids * sizeof *ids);
    if (!q->ask.stop_ids)
        FAIL(ST_NOMEM, "no memory for stop tokens");
    return ST_OK;
}

/* Keys are ids in decimal. */
static enum status read_token_key(struct json_cursor *c, struct json_span key, int32_t *id)
{
    int64_t v = 0;
    for (size_t i = 0; i < key.n && v <= INT32_MAX; i++) {
        if (key.p[i] < '0' || key.p[i] > '9')
            return json_fail(c, ST_FORMAT, "the key is not a token id");
        v = 10 * v + (key.p[i] - '0');
    }
    if (key.n == 0 || v > INT32_MAX)
        return json_fail(c, ST_RANGE, "the key is not a token id");
    *id = (int32_t)v;
    return ST_OK;
}

static enum status read_logit_bias(struct answer_request *q, struct json_cursor *c)
{
    struct ingot_bias *bias = NULL;
    struct json_span key;
    size_t n = 0;
    enum status st = json_enter_object(c);
    while (st == ST_OK && json_next_key(c, &key)) {
        struct ingot_bias b = {0};
        double v;
        st = read_token_key(c, key, &b.id);
        if (st == ST_OK)
            st = json_read_double(c, -100, 100, &v);
        if (st == ST_OK && n == MAX_BIASES)
            st = json_fail(c, ST_RANGE, "at most %d biases are taken", MAX_BIASES);
        if (st == ST_OK)
            st = answer_grow((void **)&bias, n, sizeof *bias);
        if (st == ST_OK) {
            b.bias = (float)v;
            bias[n++] = b;
        }
    }
    if (st == ST_OK && n && !(q->ask.bias = answer_keep(q, bias, n * sizeof *bias)))
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for biases");
    q->ask.n_bias = n;
    free(bias);
    return st;
}

/* -1, as vLLM and llama.cpp have it, is 0: all tokens. */
static enum status read_top_k(struct answer_request *q, struct json_cursor *c)
{
    int64_t k;
    TRY(json_read_i64(c, -1, INT32_MAX, &k));
    q->ask.top_k = k < 0 ? 0 : (uint32_t)k;
    return ST_OK;
}

static enum status read_top_p(struct answer_request *q, struct json_cursor *c)
{
    struct json_cursor here = *c;
    double p;
    TRY(json_read_double(c, -DBL_MAX, DBL_MAX, &p));
    if (!(p >= (double)FLT_MIN && p <= 1))
        return json_fail(&here, ST_RANGE, "it must be above 0 and at most 1");
    q->ask.top_p = (float)p;
    return ST_OK;
}

/* ---- the table ---- */

enum field_kind { FIELD_READER, FIELD_BOOL, FIELD_U32, FIELD_I32, FIELD_F32 };

struct field {
    const char *name;
    enum field_kind kind;
    enum status (*read)(struct answer_request *q, struct json_cursor *c);
    size_t at; /* in struct ingot_request */
    double lo, hi;
};

#define ASK(member) offsetof(struct ingot_request, member)

static const struct field fields[] = {
    {"seed", FIELD_READER, read_seed, 0, 0, 0},
    {"stop", FIELD_READER, read_stop, 0, 0, 0},
    {"stop_token_ids", FIELD_READER, read_stop_ids, 0, 0, 0},
    {"logit_bias", FIELD_READER, read_logit_bias, 0, 0, 0},
    {"max_tokens", FIELD_U32, NULL, ASK(max_tokens), 1, INT32_MAX},
    {"min_tokens", FIELD_U32, NULL, ASK(min_tokens), 0, INT32_MAX},
    {"top_k", FIELD_READER, read_top_k, 0, 0, 0},
    {"deadline_ms", FIELD_U32, NULL, ASK(deadline_ms), 0, UINT32_MAX},
    {"priority", FIELD_I32, NULL, ASK(priority), -100, 100},
    {"temperature", FIELD_F32, NULL, ASK(temperature), 0, 100},
    {"top_p", FIELD_READER, read_top_p, 0, 0, 0},
    {"min_p", FIELD_F32, NULL, ASK(min_p), 0, 1},
    {"presence_penalty", FIELD_F32, NULL, ASK(presence_penalty), -2, 2},
    {"frequency_penalty", FIELD_F32, NULL, ASK(frequency_penalty), -2, 2},
    {"repetition_penalty", FIELD_F32, NULL, ASK(repetition_penalty), 0.01, 100},
    {"ignore_eos", FIELD_BOOL, NULL, ASK(ignore_eos), 0, 0},
    {"include_stop_str_in_output", FIELD_BOOL, NULL, ASK(include_stop), 0, 0},
    {"skip_special_tokens", FIELD_BOOL, NULL, ASK(skip_special), 0, 0},
};

static enum status read_field(struct answer_request *q, const struct field *f,
                              struct json_cursor *c)
{
    char *at = (char *)&q->ask + f->at;
    int64_t whole;
    double real;
    switch (f->kind) {
    case FIELD_READER:
        return f->read(q, c);
    case FIELD_BOOL:
        return json_read_bool(c, (bool *)at);
    case FIELD_U32:
        TRY(json_read_i64(c, (int64_t)f->lo, (int64_t)f->hi, &whole));
        *(uint32_t *)at = (uint32_t)whole;
        return ST_OK;
    case FIELD_I32:
        TRY(json_read_i64(c, (int64_t)f->lo, (int64_t)f->hi, &whole));
        *(int32_t *)at = (int32_t)whole;
        return ST_OK;
    case FIELD_F32:
        TRY(json_read_double(c, f->lo, f->hi, &real));
        *(float *)at = (float)real;
        return ST_OK;
    }
    return ST_OK;
}

enum status request_field_read(struct answer_request *q, struct json_span key,
                               struct json_cursor *c, bool *known)
{
    *known = true;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (json_span_is(key, fields[i].name))
            return read_field(q, &fields[i], c);
    *known = false;
    return ST_OK;
}

enum status request_field_or_refusal(struct answer_request *q, struct json_span key,
                                     const char *otherwise, struct json_cursor *c)
{
    bool known = !otherwise || !json_span_is(key, otherwise);
    if (known)
        TRY(request_field_read(q, key, c, &known));
    return known ? ST_OK : request_unknown(c);
}

enum status request_field_read_as(struct answer_request *q, const char *name, struct json_cursor *c)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (strcmp(fields[i].name, name) == 0)
            return read_field(q, &fields[i], c);
    FAIL(ST_BUG, "%s is no field of all APIs", name);
}

/* ---- tools ---- */

enum status request_read_tool_name(struct answer_request *q, struct json_cursor *c)
{
    struct text_buf name = {0};
    enum status st = json_read_string(c, &name);
    if (st == ST_OK && (name.len == 0 || memchr(name.data, 0, name.len)))
        st = json_fail(c, ST_RANGE, "a name must have a byte, and none may be NUL");
    if (st == ST_OK)
        st = answer_grow((void **)&q->tools, q->n_tools, sizeof *q->tools);
    if (st == ST_OK)
        st = answer_keep_text(q, &name, &q->tools[q->n_tools]);
    q->n_tools += st == ST_OK;
    text_buf_free(&name);
    return st;
}

enum status request_read_function(struct answer_request *q, struct json_cursor *c)
{
    struct json_cursor whole = *c;
    struct json_span key;
    bool found = false;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key))
        if (json_span_is(key, "name")) {
            TRY(request_read_tool_name(q, c));
            found = true;
        }
    return found ? ST_OK : request_fail_at(c, &whole, "the function has no name");
}

/* ---- messages ---- */

enum status request_turns_add(struct request_turns *t, struct answer_request *q,
                              struct json_cursor *c, struct text_buf *json)
{
    if (t->n == MAX_MESSAGES)
        return json_fail(c, ST_RANGE, "at most %d messages are taken", MAX_MESSAGES);
    TRY(answer_grow((void **)&t->turn, t->n, sizeof *t->turn));
    t->turn[t->n] = (struct ingot_turn){.n_json = json->len};
    TRY(answer_keep_text(q, json, &t->turn[t->n].json));
    t->n++;
    return ST_OK;
}

enum status request_turns_add_message(struct request_turns *t, struct answer_request *q,
                                      struct json_cursor *c, const struct request_message *m)
{
    struct text_buf json = {0};
    struct json_writer w = {.out = &json};
    json_write_object(&w);
    json_member_string(&w, "role", m->role);
    json_write_key(&w, "content");
    json_write_bytes(&w, m->text->data, m->text->len);
    if (m->thinking->len) {
        json_write_key(&w, "reasoning_content");
        json_write_bytes(&w, m->thinking->data, m->thinking->len);
    }
    if (m->n_calls) {
        json_write_key(&w, "tool_calls");
        json_write_array(&w);
        json_write_raw(&w, m->calls->data, m->calls->len);
        json_write_end_array(&w);
    }
    json_write_end_object(&w);
    enum status st = w.status == ST_OK ? request_turns_add(t, q, c, &json) : w.status;
    text_buf_free(&json);
    return st;
}

enum status request_read_tools(struct answer_request *q, struct json_cursor *c,
                               request_tool_writer *write)
{
    struct text_buf json = {0};
    struct json_writer w = {.out = &json};
    size_t n = 0;
    enum status st = json_enter_array(c);
    json_write_array(&w);
    while (st == ST_OK && json_next_item(c)) {
        st = write(q, &w, c);
        n++;
    }
    json_write_end_array(&w);
    if (st == ST_OK)
        st = w.status;
    if (st == ST_OK && n)
        st = answer_keep_text(q, &json, &q->ask.tools_json);
    text_buf_free(&json);
    return st;
}

enum status request_turns_end(struct request_turns *t, struct answer_request *q)
{
    if (t->n && !(q->ask.turns = answer_keep(q, t->turn, t->n * sizeof *t->turn)))
        FAIL(ST_NOMEM, "no memory for %zu messages", t->n);
    q->ask.n_turns = t->n;
    return ST_OK;
}

void request_turns_free(struct request_turns *t)
{
    free(t->turn);
    *t = (struct request_turns){0};
}

/* ---- variables of the chat template ---- */

enum status request_read_given(struct request_variables *v, struct json_cursor *c)
{
    if (json_peek(c) != JSON_OBJECT)
        return json_fail(c, ST_FORMAT, "must be an object");
    v->given = json_read_raw(c);
    return ST_OK;
}

enum status request_read_effort(struct request_variables *v, struct json_cursor *c)
{
    if (json_peek(c) != JSON_STRING)
        return json_fail(c, ST_FORMAT, "must be a string");
    v->effort = json_read_raw(c);
    return ST_OK;
}

/* Writes the given members; those that they name are left out of *rest. */
static enum status write_given(struct json_writer *w, struct request_variables *rest)
{
    struct json_cursor c;
    struct json_span key;
    TRY(json_open(&c, rest->given.p, rest->given.n, NULL));
    TRY(json_enter_object(&c));
    while (json_next_key(&c, &key)) {
        if (json_span_is(key, "reasoning_effort"))
            rest->effort.n = 0;
        else if (json_span_is(key, "enable_thinking"))
            rest->thinking = THINKING_UNSET;
        TRY(request_pass_member(w, key, &c));
    }
    return ST_OK;
}

enum status request_set_variables(struct answer_request *q, const struct request_variables *v)
{
    struct request_variables rest = *v;
    struct text_buf text = {0};
    struct json_writer w = {.out = &text};
    enum status st = ST_OK;
    if (!v->given.n && !v->effort.n && v->thinking == THINKING_UNSET)
        return ST_OK;
    json_write_object(&w);
    if (v->given.n)
        st = write_given(&w, &rest);
    if (rest.effort.n) {
        json_write_key(&w, "reasoning_effort");
        json_write_raw(&w, rest.effort.p, rest.effort.n);
    }
    if (rest.thinking != THINKING_UNSET)
        json_member_bool(&w, "enable_thinking", rest.thinking == THINKING_ON);
    json_write_end_object(&w);
    if (st == ST_OK)
        st = w.status;
    if (st == ST_OK)
        st = answer_keep_text(q, &text, &q->ask.variables_json);
    text_buf_free(&text);
    return st;
}
