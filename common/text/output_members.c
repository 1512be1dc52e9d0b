#include "common/text/output_members.h"

#include <string.h>

static bool key_is(const struct output_members *m, const char *name)
{
    return m->n_key == strlen(name) && memcmp(m->key, name, m->n_key) == 0;
}

static void read_key(struct output_members *m, char c, bool begins)
{
    if (begins)
        m->n_key = 0;
    else if (c != '"' && m->n_key < sizeof m->key)
        m->key[m->n_key++] = c;
}

static enum output_news begin_value(struct output_members *m, char c, size_t at)
{
    m->value_from = at;
    if (c != '{')
        return NEWS_NONE;
    if (key_is(m, "function") && m->depth == m->call_depth) {
        m->depth++;
        m->n_key = 0;
        return NEWS_NONE;
    }
    if ((!key_is(m, "arguments") && !key_is(m, "parameters")) || m->arguments_from ||
        m->name_to < m->name_from + 3)
        return NEWS_NONE;
    m->arguments_from = at;
    return NEWS_ARGUMENTS;
}

/* A string or object at m->depth has ended at `at`. */
static enum output_news end_value(struct output_members *m, char c, size_t at)
{
    if (c == '"' && key_is(m, "name")) {
        m->name_from = m->value_from;
        m->name_to = at + 1;
    } else if (c == '"' && key_is(m, "id")) {
        m->id_from = m->value_from;
        m->id_to = at + 1;
    } else if (c == '}' && m->arguments_from && !m->arguments_to) {
        m->arguments_to = at + 1;
        return NEWS_ARGUMENTS_END;
    }
    return NEWS_NONE;
}

static enum output_news begin_call(struct output_members *m, char c, size_t at)
{
    if (c != '{')
        return NEWS_NO_CALL;
    *m = (struct output_members){.n_calls = m->n_calls + 1,
                                 .call_from = at,
                                 .call_depth = m->call_depth,
                                 .depth = m->call_depth};
    return NEWS_NONE;
}

enum output_news output_members_feed(struct output_members *m, const struct output_json *before,
                                     const struct output_json *after, char c, size_t at)
{
    bool in_string = output_json_in_string(after), was_in_string = output_json_in_string(before);
    bool begins = output_json_wants_value(before) && !output_json_wants_value(after);
    bool opened = after->depth > before->depth, closed = after->depth < before->depth;
    if (before->depth == 0) {
        m->call_depth = c == '[' ? 2 : 1;
        return c == '[' ? NEWS_NONE : begin_call(m, c, at);
    }
    if (m->call_depth == 2 && before->depth == 1 && (opened || begins) && c != ']')
        return begin_call(m, c, at);
    if (closed && after->depth == m->call_depth - 1)
        return before->depth == m->call_depth ? NEWS_CALL_END : NEWS_NONE;
    if (before->depth == m->depth && !opened && after->is_key && (in_string || was_in_string))
        read_key(m, c, !was_in_string);
    else if (before->depth == m->depth && (opened || begins))
        return begin_value(m, c, at);
    else if (before->depth == m->depth && was_in_string && !in_string)
        return end_value(m, c, at);
    else if (closed && after->depth == m->depth)
        return end_value(m, c, at);
    else if (closed && after->depth == m->depth - 1) /* the end of "function" */
        m->depth = m->call_depth, m->n_key = 0;
    return NEWS_NONE;
}
