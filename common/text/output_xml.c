#include "common/text/output_xml.h"

#include <stdio.h>
#include <string.h>

#include "common/text/output_formats.h"
#include "common/text/output_schema.h"

enum phase { AT_HEADER, AT_PARAM, AT_VALUE, IN_VALUE, IN_STRING, AT_CLOSE };

void output_xml_begin(struct output_xml *x, enum output_tools format, struct output_span tools)
{
    struct text_buf json = x->json;
    *x = (struct output_xml){.format = format, .tools = tools, .json = json};
}

void output_xml_free(struct output_xml *x)
{
    text_buf_free(&x->json);
}

static bool is_glm(const struct output_xml *x)
{
    return x->format == OUTPUT_TOOLS_GLM45;
}

static bool is_minimax(const struct output_xml *x)
{
    return x->format == OUTPUT_TOOLS_MINIMAX;
}

static const char *value_end(const struct output_xml *x)
{
    return is_glm(x) ? "</arg_value>" : "</parameter>";
}

/* ---- elements: s->at moves over them ---- */

/* A name up to the text that ends it, which is taken too. */
static enum output_scan name_until(struct output_scanner *s, const struct scan_input *in,
                                   const char *end, char out[OUTPUT_MAX_NAME + 1])
{
    size_t n = 0;
    for (; s->at < in->n && scan_byte_at(s, in) != *end; s->at++) {
        unsigned char c = (unsigned char)scan_byte_at(s, in);
        if (n == OUTPUT_MAX_NAME || c < ' ' || c == '<' || c == '>')
            return SCAN_BAD;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    enum output_scan r = scan_literal(s, in, end);
    return r == SCAN_OK && n == 0 ? SCAN_BAD : r;
}

/* Is the text there?  Nothing is taken. */
static enum output_scan ahead(struct output_scanner *s, const struct scan_input *in,
                              const char *text)
{
    size_t at = s->at;
    enum output_scan r = scan_literal(s, in, text);
    s->at = at;
    return r;
}

/* One of the two. */
static enum output_scan ahead_either(struct output_scanner *s, const struct scan_input *in,
                                     const char *a, const char *b)
{
    enum output_scan ra = ahead(s, in, a), rb = ahead(s, in, b);
    if (ra == SCAN_OK || rb == SCAN_OK)
        return SCAN_OK;
    return ra == SCAN_MORE || rb == SCAN_MORE ? SCAN_MORE : SCAN_BAD;
}

static enum output_scan header_of_glm(struct output_xml *x, struct output_scanner *s,
                                      const struct scan_input *in)
{
    size_t from = 0, to = 0;
    x->close = "</tool_call>";
    SCAN_STEP(scan_literal(s, in, "<tool_call>"));
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_name(s, in, &from, &to));
    snprintf(x->name, sizeof x->name, "%.*s", (int)(to - from), in->p + from);
    SCAN_STEP(scan_blanks(s, in));
    return ahead_either(s, in, "<arg_key>", x->close);
}

static enum output_scan header_of_qwen(struct output_xml *x, struct output_scanner *s,
                                       const struct scan_input *in)
{
    bool taken;
    SCAN_STEP(scan_maybe(s, in, "<tool_call>", &taken));
    x->close = taken ? "</tool_call>" : NULL;
    if (!taken) {
        SCAN_STEP(scan_maybe(s, in, "<seed:tool_call>", &taken));
        x->close = taken ? "</seed:tool_call>" : NULL;
    }
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_literal(s, in, "<function="));
    SCAN_STEP(name_until(s, in, ">", x->name));
    SCAN_STEP(scan_blanks(s, in));
    return ahead_either(s, in, "<parameter=", "</function>");
}

/* The mark around all calls ends behind the last one: output_formats.c. */
static enum output_scan header_of_minimax(struct output_xml *x, struct output_scanner *s,
                                          const struct scan_input *in)
{
    bool taken;
    x->close = NULL;
    SCAN_STEP(scan_maybe(s, in, MINIMAX_CALLS_BEGIN, &taken));
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_literal(s, in, "<invoke name=\""));
    SCAN_STEP(name_until(s, in, "\">", x->name));
    SCAN_STEP(scan_blanks(s, in));
    return ahead_either(s, in, "<parameter name=\"", "</invoke>");
}

static enum output_scan header(struct output_xml *x, struct output_scanner *s,
                               const struct scan_input *in)
{
    return is_glm(x)       ? header_of_glm(x, s, in)
           : is_minimax(x) ? header_of_minimax(x, s, in)
                           : header_of_qwen(x, s, in);
}

/* Up to a value.  *ended: it was the end of the arguments instead. */
static enum output_scan param(struct output_xml *x, struct output_scanner *s,
                              const struct scan_input *in, bool *ended)
{
    const char *end = is_glm(x) ? x->close : is_minimax(x) ? "</invoke>" : "</function>";
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_maybe(s, in, end, ended));
    if (*ended)
        return SCAN_OK;
    if (!is_glm(x) && x->close && ahead(s, in, x->close) != SCAN_BAD) { /* </function> is missing */
        *ended = true;
        return ahead(s, in, x->close);
    }
    if (is_minimax(x)) {
        SCAN_STEP(scan_literal(s, in, "<parameter name=\""));
        return name_until(s, in, "\">", x->key);
    }
    if (!is_glm(x)) {
        SCAN_STEP(scan_literal(s, in, "<parameter="));
        return name_until(s, in, ">", x->key);
    }
    SCAN_STEP(scan_literal(s, in, "<arg_key>"));
    SCAN_STEP(name_until(s, in, "</arg_key>", x->key));
    SCAN_STEP(scan_blanks(s, in));
    return scan_literal(s, in, "<arg_value>");
}

/* ---- JSON ---- */

static enum status put(struct output_xml *x, const char *text)
{
    return text_buf_append(&x->json, text, strlen(text));
}

static enum status put_escaped(struct output_xml *x, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        char code[8] = {(char)c};
        if (c == '"' || c == '\\')
            snprintf(code, sizeof code, "\\%c", c);
        else if (c == '\n')
            snprintf(code, sizeof code, "\\n");
        else if (c < ' ')
            snprintf(code, sizeof code, "\\u%04x", c);
        TRY(text_buf_append(&x->json, code, strlen(code)));
    }
    return ST_OK;
}

/* Gives what was put as a piece of the arguments. */
static enum status give(struct output_xml *x, struct output_events *events)
{
    enum status st = output_events_text(events, OUT_CALL_ARGUMENTS, x->json.data, x->json.len);
    x->json.len = 0;
    return st;
}

static enum status give_key(struct output_xml *x, struct output_events *events)
{
    TRY(put(x, x->n_params++ ? ", \"" : "\""));
    TRY(put_escaped(x, x->key, strlen(x->key)));
    TRY(put(x, x->phase == IN_STRING ? "\": \"" : "\": "));
    return give(x, events);
}

/* The kind of JSON value that the text is, blanks around it aside; 0: it is none. */
static enum status json_kind(struct output_xml *x, const char *p, size_t n, unsigned *kind)
{
    struct output_json j;
    enum output_scan r = SCAN_MORE;
    size_t i = 0;
    *kind = 0;
    TRY(put(x, "["));
    TRY(text_buf_append(&x->json, p, n));
    TRY(put(x, "]"));
    output_json_init(&j);
    while (i < x->json.len && r == SCAN_MORE)
        r = output_json_feed(&j, (unsigned char)x->json.data[i++]);
    struct output_span list = {x->json.data, x->json.len}, item;
    if (r == SCAN_OK && i == x->json.len && (item = output_json_item(list, 0)).p &&
        !output_json_item(list, 1).p)
        *kind = output_schema_kind_of(*item.p);
    x->json.len = 0;
    return ST_OK;
}

static enum status give_value(struct output_xml *x, const char *p, size_t n,
                              struct output_events *events)
{
    static const char *const python[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    unsigned kind;
    for (size_t i = 0; i < ARRAY_LEN(python); i++) {
        if (n == strlen(python[i][0]) && memcmp(p, python[i][0], n) == 0 &&
            x->kinds & output_schema_kind_of(*python[i][1])) {
            p = python[i][1];
            n = strlen(p);
        }
    }
    TRY(json_kind(x, p, n, &kind));
    if (kind != KIND_STRING && x->kinds & kind) {
        TRY(text_buf_append(&x->json, p, n));
        return give(x, events);
    }
    TRY(put(x, "\""));
    TRY(put_escaped(x, p, n));
    TRY(put(x, "\""));
    return give(x, events);
}

/* ---- values ---- */

/* The length of the value at the beginning of the text without the newline before its end, and with the end in *whole;
 * false: the end is not there. */
static bool find_end(const struct output_xml *x, struct output_span text, size_t *n, size_t *whole)
{
    const char *end = value_end(x);
    size_t len = strlen(end);
    for (size_t i = 0; i + len <= text.n; i++) {
        if (text.p[i] != '<' || memcmp(text.p + i, end, len) != 0)
            continue;
        *whole = i + len;
        *n = x->cut_newline && i && text.p[i - 1] == '\n' ? i - 1 : i;
        return true;
    }
    return false;
}

/* How much of the text certainly belongs to the value, whose end is not there. */
static size_t certain(const struct output_xml *x, struct output_span text)
{
    const char *end = value_end(x);
    size_t len = strlen(end), i = text.n > len ? text.n - len : 0;
    for (; i < text.n; i++) {
        size_t skip = text.p[i] == '\n' && x->cut_newline;
        size_t rest = text.n - i - skip;
        if ((skip || text.p[i] == '<') && rest < len && memcmp(text.p + i + skip, end, rest) == 0)
            break;
    }
    return i;
}

static enum status run_string(struct output_xml *x, struct output_span text, bool finished,
                              struct output_events *events, size_t *taken,
                              enum output_xml_state *state)
{
    size_t n, whole;
    bool ended = find_end(x, text, &n, &whole);
    if (!ended)
        n = whole = finished ? text.n : certain(x, text);
    TRY(put_escaped(x, text.p, n));
    if (ended)
        TRY(put(x, "\""));
    TRY(give(x, events));
    *taken = whole;
    x->phase = ended ? AT_PARAM : IN_STRING;
    *state = ended ? XML_GOES_ON : finished ? XML_BROKEN : XML_MORE;
    return ST_OK;
}

static enum status run_value(struct output_xml *x, struct output_span text, bool finished,
                             size_t max_value, struct output_events *events, size_t *taken,
                             enum output_xml_state *state)
{
    size_t n, whole;
    bool ended = find_end(x, (struct output_span){text.p, text.n < max_value ? text.n : max_value},
                          &n, &whole);
    if (ended) {
        TRY(give_value(x, text.p, n, events));
        *taken = whole;
        x->phase = AT_PARAM;
        *state = XML_GOES_ON;
    } else if (text.n >= max_value) {
        TRY(put(x, "\""));
        TRY(give(x, events));
        x->phase = IN_STRING;
        *state = XML_GOES_ON;
    } else if (finished) {
        *taken = text.n;
        *state = XML_BROKEN;
        return output_events_text(events, OUT_CALL_ARGUMENTS, text.p, text.n);
    } else {
        *state = XML_MORE;
    }
    return ST_OK;
}

/* Behind <parameter=KEY>, <parameter name="KEY"> or <arg_value>. */
static enum status begin_value(struct output_xml *x, struct output_span text, bool finished,
                               struct output_events *events, size_t *taken,
                               enum output_xml_state *state)
{
    if (text.n == 0 && !finished) {
        *state = XML_MORE;
        return ST_OK;
    }
    x->cut_newline = !is_glm(x) && text.n && *text.p == '\n';
    *taken = x->cut_newline;
    x->kinds = output_schema_kinds(x->tools, x->name, x->key);
    x->phase = x->kinds == KIND_STRING ? IN_STRING : IN_VALUE;
    *state = XML_GOES_ON;
    return give_key(x, events);
}

/* ---- the whole ---- */

static enum status begin_call(struct output_xml *x, struct output_events *events)
{
    const struct output_call call = {.name = {x->name, strlen(x->name)}, .plain_name = true};
    TRY(output_events_begin(events, &call));
    TRY(put(x, "{"));
    x->phase = AT_PARAM;
    return give(x, events);
}

static enum status end_arguments(struct output_xml *x, struct output_events *events)
{
    TRY(put(x, "}"));
    TRY(give(x, events));
    x->phase = AT_CLOSE;
    return output_events_end(events);
}

/* The closing mark may be missing. */
static enum output_xml_state run_close(const struct output_xml *x, struct output_scanner *s,
                                       const struct scan_input *in)
{
    bool taken;
    if (is_glm(x) || !x->close)
        return XML_ENDED;
    enum output_scan r = scan_blanks(s, in);
    if (r == SCAN_OK)
        r = scan_maybe(s, in, x->close, &taken);
    if (r == SCAN_MORE || (r == SCAN_OK && !taken))
        s->at = 0;
    return r == SCAN_MORE ? XML_MORE : XML_ENDED;
}

/* The marks and names around values. */
static enum status run_element(struct output_xml *x, struct output_span text, bool finished,
                               struct output_events *events, size_t *taken,
                               enum output_xml_state *state)
{
    struct output_scanner s = {.format = x->format};
    struct scan_input in = {text.p, text.n, finished};
    bool first = x->phase == AT_HEADER, ended = false;
    enum output_scan r = first ? header(x, &s, &in) : param(x, &s, &in, &ended);
    *state = XML_GOES_ON;
    if (r == SCAN_MORE) {
        *state = XML_MORE;
        return ST_OK;
    }
    if (r == SCAN_BAD) {
        *taken = first ? s.at ? s.at : 1 : 0;
        *state = first ? XML_NO_CALL : XML_BROKEN;
        return ST_OK;
    }
    *taken = s.at;
    if (first)
        return begin_call(x, events);
    x->phase = AT_VALUE;
    return ended ? end_arguments(x, events) : ST_OK;
}

enum status output_xml_run(struct output_xml *x, struct output_span text, bool finished,
                           size_t max_value, struct output_events *events, size_t *n,
                           enum output_xml_state *state)
{
    *n = 0;
    switch (x->phase) {
    case AT_VALUE:
        return begin_value(x, text, finished, events, n, state);
    case IN_VALUE:
        return run_value(x, text, finished, max_value, events, n, state);
    case IN_STRING:
        return run_string(x, text, finished, events, n, state);
    case AT_CLOSE: {
        struct output_scanner s = {.format = x->format};
        struct scan_input in = {text.p, text.n, finished};
        *state = run_close(x, &s, &in);
        *n = s.at;
        return ST_OK;
    }
    default:
        return run_element(x, text, finished, events, n, state);
    }
}
