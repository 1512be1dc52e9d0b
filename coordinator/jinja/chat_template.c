#include "coordinator/jinja/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "coordinator/jinja/run.h"
#include "coordinator/jinja/utf8.h"

enum { MAX_TREE = 128 << 20 /* bytes */ };

struct chat_template {
    struct jmem mem; /* of the tree */
    struct jtree tree;
    char *source;
    size_t n_source;
};

const struct chat_limits chat_limits_default = {
    .max_steps = 1000000,
    .max_depth = 400,
    .max_memory = (size_t)64 << 20,
    .max_output = (size_t)16 << 20,
};

static enum status parse(struct chat_template *t, const char *source, size_t len)
{
    size_t bad = utf8_valid_prefix(source, len);
    if (len > CHAT_MAX_SOURCE)
        FAIL(ST_NOMEM, "a chat template of %zu bytes is larger than %zu", len, CHAT_MAX_SOURCE);
    if (bad < len)
        FAIL(ST_FORMAT, "the chat template is not UTF-8 at byte %zu", bad);
    t->source = malloc(len ? len : 1);
    if (!t->source)
        FAIL(ST_NOMEM, "no memory for a chat template of %zu bytes", len);
    if (len)
        memcpy(t->source, source, len);
    t->n_source = len;
    return jinja_parse(&t->mem, t->source, len, &t->tree);
}

enum status chat_template_create(struct chat_template **out, const char *source, size_t len)
{
    struct chat_template *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        FAIL(ST_NOMEM, "no memory for a chat template");
    jmem_init(&t->mem, MAX_TREE);
    enum status st = parse(t, source, len);
    if (st != ST_OK) {
        chat_template_destroy(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

void chat_template_destroy(struct chat_template *t)
{
    if (!t)
        return;
    jmem_fini(&t->mem);
    free(t->source);
    free(t);
}

struct chat_text chat_template_source(const struct chat_template *t)
{
    return (struct chat_text){t->source, t->n_source};
}

/* --- what the template sees --- */

static enum status read_json(struct jrun *r, const char *what, struct chat_text text,
                             enum jtype type, struct jval *out)
{
    *out = jv_none();
    if (!text.data)
        return ST_OK;
    enum status st = j_json_parse(r, text.data, text.len, out);
    if (st != ST_OK)
        FAIL(st, "%s: %s", what, status_text());
    if (out->type != type && out->type != J_NONE)
        FAIL(ST_FORMAT, "%s is a JSON %s, not a %s", what,
             out->type == J_DICT ? "object" : jtype_name(out), type == J_LIST ? "list" : "object");
    return ST_OK;
}

static enum status set_variable(struct jrun *r, const char *name, struct jval v)
{
    struct jval key;
    TRY(jstr_literal(&r->mem, name, &key));
    return jdict_set(r, r->context, &key, &v);
}

/* The strings in v are the model's or the template's: copies of them, which can have marks. */
static enum status trust(struct jrun *r, struct jval *v)
{
    if (!r->mem.marked)
        return ST_OK;
    if (v->type == J_STR && v->u.s->n) {
        TRY(jstr_copy(&r->mem, v->u.s->p, v->u.s->n, v));
        memset(jmem_mark(&r->mem, v->u.s->p), 0, v->u.s->n);
    }
    for (size_t i = 0; v->type == J_DICT && i < v->u.dict->n; i++)
        TRY(trust(r, &v->u.dict->pairs[i].value));
    for (size_t i = 0; v->type == J_LIST && i < v->u.list->n; i++)
        TRY(trust(r, &v->u.list->items[i]));
    return ST_OK;
}

static enum status add_variables(struct jrun *r, const char *what, struct chat_text text,
                                 bool of_model)
{
    struct jval v;
    TRY(read_json(r, what, text, J_DICT, &v));
    if (of_model)
        TRY(trust(r, &v));
    for (size_t i = 0; v.type == J_DICT && i < v.u.dict->n; i++)
        TRY(jdict_set(r, r->context, &v.u.dict->pairs[i].key, &v.u.dict->pairs[i].value));
    return ST_OK;
}

static bool is_name(const struct jstr *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!(s->p[i] >= '0' && s->p[i] <= '9') && !(s->p[i] >= 'a' && s->p[i] <= 'z') &&
            !(s->p[i] >= 'A' && s->p[i] <= 'Z') && s->p[i] != '-' && s->p[i] != '_')
            return false;
    return true;
}

/* Templates make marks of roles: '<|' + message.role + '|>'. */
static enum status trust_role(struct jrun *r, const struct jval *message)
{
    struct jpair *p;
    TRY(jdict_find_str(r, message->u.dict, "role", 4, &p));
    if (p && p->value.type == J_STR && is_name(p->value.u.s))
        return trust(r, &p->value);
    return ST_OK;
}

static enum status read_request(struct jrun *r, const struct chat_request *q, struct jval *messages)
{
    struct jval tools;
    TRY(jdict_new(r, &r->context));
    TRY(set_variable(r, "documents", jv_none()));
    TRY(add_variables(r, "variables", q->variables, true));
    TRY(add_variables(r, "more variables", q->more, false));
    TRY(read_json(r, "messages", q->messages, J_LIST, messages));
    if (messages->type != J_LIST)
        FAIL(ST_FORMAT, "messages is missing");
    for (size_t i = 0; i < messages->u.list->n; i++)
        if (messages->u.list->items[i].type != J_DICT)
            FAIL(ST_FORMAT, "messages[%zu] is no object", i);
    for (size_t i = 0; i < messages->u.list->n; i++)
        TRY(trust_role(r, &messages->u.list->items[i]));
    TRY(read_json(r, "tools", q->tools, J_LIST, &tools));
    TRY(set_variable(r, "messages", *messages));
    TRY(set_variable(r, "tools", tools));
    return set_variable(r, "add_generation_prompt", jv_bool(q->add_generation_prompt));
}

/* --- continue_final_message --- */

/* The text of the last message: its content, or the last text of its parts. */
static enum status final_text(struct jrun *r, const struct jval *messages, const struct jstr **out)
{
    const struct jlist *l = messages->u.list;
    struct jpair *p = NULL;
    if (l->n)
        TRY(jdict_find_str(r, l->items[l->n - 1].u.dict, "content", 7, &p));
    if (p && p->value.type == J_LIST) {
        const struct jlist *parts = p->value.u.list;
        p = NULL;
        for (size_t i = parts->n; i-- > 0 && !p;)
            if (parts->items[i].type == J_DICT)
                TRY(jdict_find_str(r, parts->items[i].u.dict, "text", 4, &p));
    }
    if (!p || p->value.type != J_STR)
        FAIL(ST_UNSUPPORTED, "continue_final_message: the last message has no text to continue");
    *out = p->value.u.s;
    return ST_OK;
}

/* Cuts the rendering after the last place where the text of the last message stands; as a template
 * may strip it, what is looked for is the stripped text. */
static enum status cut_after_final(struct jrun *r, const struct jval *messages)
{
    const struct jstr *s = NULL;
    TRY(final_text(r, messages, &s));
    size_t from = 0, to = s->n, k;
    while (from < to && u8_is_space(u8_decode(s->p + from, &k)))
        from += k;
    while (to > from && u8_is_space(u8_decode(s->p + to - u8_length_before(s->p, to), &k)))
        to -= k;
    size_t n = to - from, at = r->out.len >= n ? r->out.len - n + 1 : 0;
    for (; at > 0 && memcmp(r->out.data + at - 1, s->p + from, n) != 0; at--)
        TRY(j_charge(r, 1 + (n >> 7)));
    if (at == 0) {
        static const char text[] =
            "continue_final_message is set but the final message does not appear in the "
            "chat after applying the chat template";
        struct jval message;
        TRY(jstr_literal(&r->mem, text, &message));
        r->refused = true;
        r->refusal = message.u.s;
        FAIL(ST_RANGE, "%s", text);
    }
    at--;
    bool whole = from == 0 && r->out.len - at >= s->n && memcmp(r->out.data + at, s->p, s->n) == 0;
    r->out.len = at + (whole ? s->n : n);
    return ST_OK;
}

/* --- rendering --- */

static enum status run(struct jrun *r, const struct chat_template *t, const struct chat_request *q,
                       enum chat_outcome *outcome)
{
    struct jval messages;
    enum jflow flow;
    *outcome = CHAT_BAD_INPUT;
    if (q->add_generation_prompt && q->continue_final_message)
        FAIL(ST_FORMAT, "continue_final_message and add_generation_prompt exclude each other");
    TRY(read_request(r, q, &messages));
    *outcome = CHAT_FAILED;
    r->depth = 0;
    r->globals = jmem_array(&r->mem, t->tree.n_syms, sizeof *r->globals);
    if (!r->globals)
        return jmem_full(&r->mem);
    for (size_t i = 0; i < t->tree.n_syms; i++)
        r->globals[i].type = J_MISSING;
    enum status st = text_buf_reserve(&r->out, 4096);
    if (st == ST_OK)
        st = j_exec_body(r, NULL, &t->tree.body, &flow);
    if (st != ST_OK && !r->refused)
        FAIL(st, "chat template line %u: %s", r->line, status_text());
    TRY(st);
    if (q->continue_final_message)
        TRY(cut_after_final(r, &messages));
    *outcome = CHAT_RENDERED;
    return ST_OK;
}

enum status chat_template_render(const struct chat_template *t, const struct chat_request *request,
                                 const struct chat_limits *limits, struct text_buf *out,
                                 enum chat_outcome *outcome, struct text_buf *refusal)
{
    enum chat_outcome unused;
    struct jrun r = {.max_output = limits->max_output,
                     .steps_left = limits->max_steps,
                     .max_steps = limits->max_steps,
                     .max_depth = limits->max_depth,
                     .now = request->now,
                     .own = &t->mem,
                     .source = t->source,
                     .n_source = t->n_source,
                     .allow_mutation = request->allow_mutation};
    if (!outcome)
        outcome = &unused;
    jmem_init(&r.mem, limits->max_memory);
    r.mem.marked = request->content != NULL;
    enum status st = run(&r, t, request, outcome);
    if (st == ST_OK && request->content)
        st = text_buf_append(request->content, r.content.data, r.out.len);
    if (st == ST_OK)
        st = text_buf_append(out, r.out.data, r.out.len);
    if (r.refused) {
        *outcome = CHAT_REFUSED;
        if (refusal && text_buf_append(refusal, r.refusal->p, r.refusal->n) != ST_OK)
            st = ST_NOMEM;
    }
    text_buf_free(&r.out);
    text_buf_free(&r.content);
    jmem_fini(&r.mem);
    return st;
}
