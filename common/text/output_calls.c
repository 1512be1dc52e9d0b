#include "common/text/output_calls.h"

#include <string.h>

void output_scanner_init(struct output_scanner *s, enum output_tools format)
{
    *s = (struct output_scanner){.format = format};
    output_json_init(&s->json);
}

void output_scanner_resume(struct output_scanner *s, size_t skip, bool marked)
{
    s->at = skip;
    s->marked = marked;
    s->phase = 2; /* run_json: at the JSON */
}

/* --- the steps that formats are made of: each moves s->at, and is repeated until it says OK --- */

struct input {
    const char *p; /* at offset s->base */
    size_t n;      /* offset of the end */
    bool finished;
};

static char byte_at(const struct output_scanner *s, const struct input *in)
{
    return in->p[s->at - s->base];
}

static enum output_scan literal(struct output_scanner *s, const struct input *in, const char *text)
{
    size_t len = strlen(text), there = in->n - s->at, n = there < len ? there : len;
    if (memcmp(in->p + (s->at - s->base), text, n) != 0)
        return SCAN_BAD;
    if (n < len)
        return in->finished ? SCAN_BAD : SCAN_MORE;
    s->at += len;
    return SCAN_OK;
}

/* The same, but another text there is fine: then nothing is taken. */
static enum output_scan maybe(struct output_scanner *s, const struct input *in, const char *text,
                              bool *taken)
{
    enum output_scan r = literal(s, in, text);
    *taken = r == SCAN_OK;
    return r == SCAN_BAD ? SCAN_OK : r;
}

/* Skips blanks up to something else. */
static enum output_scan blanks(struct output_scanner *s, const struct input *in)
{
    while (s->at < in->n && (byte_at(s, in) == ' ' || byte_at(s, in) == '\n' ||
                             byte_at(s, in) == '\r' || byte_at(s, in) == '\t'))
        s->at++;
    return s->at < in->n ? SCAN_OK : in->finished ? SCAN_BAD : SCAN_MORE;
}

static bool has_plain_name(const struct output_scanner *s)
{
    return s->name_to > s->name_from;
}

/* The byte c was taken; ended: the JSON has ended with it. */
static enum output_news json_news(struct output_scanner *s, const struct output_json *before,
                                  char c, bool ended)
{
    bool first = s->at == s->json_from - 1;
    if (!has_plain_name(s))
        return output_members_feed(&s->members, before, &s->json, c, s->at);
    return first && c == '{' ? NEWS_ARGUMENTS : ended ? NEWS_ARGUMENTS_END : NEWS_NONE;
}

static enum output_scan json(struct output_scanner *s, const struct input *in)
{
    if (s->json_broken)
        return SCAN_BAD;
    if (s->json_from == 0)
        s->json_from = s->at + 1;
    while (s->at < in->n && !s->json_ended) {
        struct output_json before = s->json;
        char c = byte_at(s, in);
        enum output_scan r = output_json_feed(&s->json, (unsigned char)c);
        if (r == SCAN_BAD) {
            s->json_broken = true;
            return r;
        }
        s->json_ended = r == SCAN_OK;
        s->news = json_news(s, &before, c, s->json_ended);
        s->json_to = ++s->at;
        if (s->news != NEWS_NONE)
            return SCAN_NEWS;
    }
    return s->json_ended ? SCAN_OK : in->finished ? SCAN_BAD : SCAN_MORE;
}

static bool is_name_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':' || c == '/';
}

/* A name, up to the first byte that cannot be in one. */
static enum output_scan name(struct output_scanner *s, const struct input *in, size_t *from,
                             size_t *to)
{
    if (*from == 0)
        *from = s->at;
    while (s->at < in->n && is_name_byte((unsigned char)byte_at(s, in))) {
        if (s->at - *from == OUTPUT_MAX_NAME)
            return SCAN_BAD;
        s->at++;
    }
    if (s->at == in->n)
        return in->finished ? SCAN_BAD : SCAN_MORE;
    *to = s->at;
    return *to > *from ? SCAN_OK : SCAN_BAD;
}

#define STEP(expr)                                                                                 \
    do {                                                                                           \
        enum output_scan step_ = (expr);                                                           \
        if (step_ != SCAN_OK)                                                                      \
            return step_;                                                                          \
    } while (0)

/* --- formats --- */

static enum output_scan run_hermes(struct output_scanner *s, const struct input *in)
{
    enum output_scan end;
    switch (s->phase) {
    case 0:
        STEP(literal(s, in, "<tool_call>"));
        s->marked = true;
        s->phase = 1; /* fall through */
    case 1:
        STEP(blanks(s, in));
        s->phase = 2; /* fall through */
    case 2:
        end = json(s, in);
        if (s->json_broken && s->begun)
            return literal(s, in, "</tool_call>");
        STEP(end);
        s->phase = 3; /* fall through */
    default:
        end = blanks(s, in); /* the closing mark may be missing where the text ends */
        if (end == SCAN_OK)
            end = literal(s, in, "</tool_call>");
        if (end == SCAN_BAD && in->finished && s->at == in->n)
            return SCAN_OK;
        return end;
    }
}

static enum output_scan run_json(struct output_scanner *s, const struct input *in)
{
    if (s->phase == 0) {
        if (s->format == OUTPUT_TOOLS_LLAMA3)
            STEP(maybe(s, in, "<|python_tag|>", &s->marked));
        s->phase = 1;
    }
    if (s->phase == 1) {
        STEP(blanks(s, in));
        s->phase = 2;
    }
    return json(s, in);
}

static enum output_scan run_mistral(struct output_scanner *s, const struct input *in)
{
    bool taken;
    switch (s->phase) {
    case 0:
        STEP(literal(s, in, "[TOOL_CALLS]"));
        s->marked = true;
        s->phase = 1; /* fall through */
    case 1:
        STEP(blanks(s, in));
        s->phase = byte_at(s, in) == '[' || byte_at(s, in) == '{' ? 6 : 2;
        if (s->phase == 6)
            return json(s, in); /* fall through */
    case 2:
        STEP(name(s, in, &s->name_from, &s->name_to));
        s->phase = 3; /* fall through */
    case 3:
        STEP(maybe(s, in, "[CALL_ID]", &taken));
        s->phase = taken ? 4 : 5;
        if (!taken)
            return run_mistral(s, in); /* fall through */
    case 4:
        STEP(name(s, in, &s->id_from, &s->id_to));
        s->phase = 5; /* fall through */
    case 5:
        STEP(maybe(s, in, "[ARGS]", &taken));
        s->phase = 6; /* fall through */
    default:
        return json(s, in);
    }
}

/* V3 and R1: function<sep>NAME, a newline, and the JSON in a fence; V3.1: NAME<sep>JSON. */
static enum output_scan run_deepseek(struct output_scanner *s, const struct input *in)
{
    enum output_scan end;
    bool taken;
    switch (s->phase) {
    case 0:
        STEP(maybe(s, in, DS_CALLS_BEGIN, &taken));
        s->phase = 1; /* fall through */
    case 1:
        STEP(blanks(s, in));
        s->phase = 2; /* fall through */
    case 2:
        STEP(literal(s, in, DS_CALL_BEGIN));
        s->marked = true;
        s->phase = 3; /* fall through */
    case 3:
        STEP(name(s, in, &s->name_from, &s->name_to));
        s->phase = 4; /* fall through */
    case 4:
        STEP(literal(s, in, DS_SEP));
        s->phase = 5; /* fall through */
    case 5:
        STEP(blanks(s, in));
        s->phase = byte_at(s, in) == '{' ? 8 : 6;
        if (s->phase == 8)
            return run_deepseek(s, in);
        s->name_from = 0; /* fall through */
    case 6:
        STEP(name(s, in, &s->name_from, &s->name_to));
        s->phase = 7; /* fall through */
    case 7:
        STEP(literal(s, in, "\n```json\n"));
        s->phase = 8; /* fall through */
    case 8:
        end = json(s, in);
        if (s->json_broken && s->begun)
            return literal(s, in, DS_CALL_END);
        STEP(end);
        s->phase = 9; /* fall through */
    case 9:
        STEP(blanks(s, in));
        s->phase = 10; /* fall through */
    case 10:
        STEP(maybe(s, in, "```", &taken));
        s->phase = 11; /* fall through */
    case 11:
        STEP(blanks(s, in));
        s->phase = 12; /* fall through */
    default:
        return literal(s, in, DS_CALL_END);
    }
}

enum output_scan output_scanner_run(struct output_scanner *s, const char *p, size_t end,
                                    bool finished)
{
    struct input in = {p, end, finished};
    switch (s->format) {
    case OUTPUT_TOOLS_HERMES:
        return run_hermes(s, &in);
    case OUTPUT_TOOLS_MISTRAL:
        return run_mistral(s, &in);
    case OUTPUT_TOOLS_DEEPSEEK:
        return run_deepseek(s, &in);
    default:
        return run_json(s, &in);
    }
}

/* --- what the accepted text says --- */

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
    bool plain_json = s->format == OUTPUT_TOOLS_LLAMA3 || s->format == OUTPUT_TOOLS_JSON;
    *call = (struct output_call){0};
    if (has_plain_name(s)) {
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
    bool plain_json = s->format == OUTPUT_TOOLS_LLAMA3 || s->format == OUTPUT_TOOLS_JSON;
    *call = (struct output_call){0};
    if (s->news == NEWS_CALL_END)
        return take_call(part(s, p, m->call_from, s->at), plain_json, call);
    if (has_plain_name(s)) {
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
    if (has_plain_name(s)) {
        *to = s->json_to;
        return s->json_from - 1;
    }
    *to = s->members.arguments_to ? s->members.arguments_to : s->json_to;
    return s->members.arguments_from;
}
