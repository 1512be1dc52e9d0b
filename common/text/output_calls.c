#include "common/text/output_calls.h"

#include "common/text/output_formats.h"

void output_scanner_init(struct output_scanner *s, enum output_tools format)
{
    *s = (struct output_scanner){.format = format};
    output_json_init(&s->json);
}

void output_scanner_resume(struct output_scanner *s, size_t skip, bool marked)
{
    s->at = skip;
    s->marked = marked;
    s->phase = 2; /* output_run_json: at the JSON */
}

enum output_scan output_scanner_run(struct output_scanner *s, const char *p, size_t end,
                                    bool finished)
{
    struct scan_input in = {p, end, finished};
    return output_format_of(s->format)->run(s, &in);
}

/* The arguments as a JSON object: as such, or written into a string as OpenAI does. */
static bool take_arguments(struct output_span object, struct output_call *call)
{
    call->arguments = output_json_member(object, "arguments");
    if (!call->arguments.p)
        call->arguments = output_json_member(object, "parameters");
    return call->arguments.p && (*call->arguments.p == '{' || *call->arguments.p == '"');
}

static bool take_call(struct output_span object, bool plain_json, struct output_call *call)
{
    static const char *const names[] = {"name", "arguments", "parameters", "id",
                                        "type", "function",  NULL};
    if (*object.p != '{' || (plain_json && !output_json_only(object, names)))
        return false;
    call->id = output_json_member(object, "id");
    if (call->id.p && *call->id.p != '"')
        call->id = (struct output_span){NULL, 0};
    struct output_span inner = output_json_member(object, "function");
    if (inner.p && *inner.p == '{')
        object = inner;
    call->name = output_json_member(object, "name");
    if (!call->name.p || *call->name.p != '"' || call->name.n < 3)
        return false;
    if (take_arguments(object, call))
        return true;
    call->arguments =
        (struct output_span){"{}", 2}; /* a function without parameters, where that is sure */
    return !plain_json && !output_json_member(object, "arguments").p &&
           !output_json_member(object, "parameters").p;
}

enum output_scan output_scanner_call(const struct output_scanner *s, const char *p, size_t i,
                                     struct output_call *call)
{
    struct output_span value = {p + s->json_from - 1, s->json_to - (s->json_from - 1)};
    bool plain_json = output_format_of(s->format)->plain;
    *call = (struct output_call){0};
    if (output_scanner_named(s)) {
        if (i > 0)
            return SCAN_MORE;
        call->name = (struct output_span){p + s->name_from, s->name_to - s->name_from};
        call->plain_name = true;
        call->arguments = value;
        if (s->id_to > s->id_from)
            call->id = (struct output_span){p + s->id_from, s->id_to - s->id_from};
        call->plain_id = true;
        return *value.p == '{' ? SCAN_OK : SCAN_BAD;
    }
    if (*value.p == '{')
        return i > 0 ? SCAN_MORE : take_call(value, plain_json, call) ? SCAN_OK : SCAN_BAD;
    struct output_span item = output_json_item(value, i);
    if (!item.p)
        return i > 0 ? SCAN_MORE : SCAN_BAD;
    return take_call(item, plain_json, call) ? SCAN_OK : SCAN_BAD;
}

static struct output_span part(const struct output_scanner *s, const char *p, size_t from,
                               size_t to)
{
    return (struct output_span){p + (from - s->base), to - from};
}

bool output_scanner_last(const struct output_scanner *s, const char *p, struct output_call *call)
{
    const struct output_members *m = &s->members;
    bool plain_json = output_format_of(s->format)->plain;
    *call = (struct output_call){0};
    if (s->news == NEWS_CALL_END)
        return take_call(part(s, p, m->call_from, s->at), plain_json, call);
    if (output_scanner_named(s)) {
        call->name = part(s, p, s->name_from, s->name_to);
        call->plain_name = true;
        if (s->id_to > s->id_from)
            call->id = part(s, p, s->id_from, s->id_to);
        call->plain_id = true;
        return true;
    }
    call->name = part(s, p, m->name_from, m->name_to);
    if (m->id_to)
        call->id = part(s, p, m->id_from, m->id_to);
    return true;
}

size_t output_scanner_arguments(const struct output_scanner *s, size_t *to)
{
    if (output_scanner_named(s)) {
        *to = s->json_to;
        return s->json_from - 1;
    }
    *to = s->members.arguments_to ? s->members.arguments_to : s->json_to;
    return s->members.arguments_from;
}
