#include "common/text/output_parser.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/output_formats.h"
#include "common/text/output_harmony.h"
#include "common/text/output_parser_calls.h"

enum { DEFAULT_MAX_CALL = 1 << 20 /* bytes */ };

/* --- making --- */

static void add_mark(struct output_parser *p, const char *text, enum output_tools format)
{
    p->marks[p->n_marks++] = (struct parser_mark){text, strlen(text), format};
    p->begins_mark[(unsigned char)*text] = true;
}

static void add_marks(struct output_parser *p)
{
    for (int t = 0; t < OUTPUT_TOOLS_AUTO; t++) {
        const struct output_format *f = output_format_of((enum output_tools)t);
        if (p->tools != OUTPUT_TOOLS_AUTO && p->tools != (enum output_tools)t)
            continue;
        for (size_t i = 0; i < OUTPUT_FORMAT_MARKS && f->marks[i]; i++) {
            /* where the format is unknown, no letter that ends a word is held back for a mark */
            bool word = isalpha((unsigned char)f->marks[i][0]) != 0;
            if (p->tools != OUTPUT_TOOLS_AUTO || !word)
                add_mark(p, f->marks[i], (enum output_tools)t);
        }
    }
    p->plain = output_format_of(p->tools)->plain;
}

static enum status copy_mark(const char *given, const char *usual, char **out, size_t *n)
{
    const char *text = given ? given : usual;
    *n = strlen(text);
    if (*n == 0)
        FAIL(ST_RANGE, "an empty think mark");
    *out = malloc(*n + 1);
    if (!*out)
        FAIL(ST_NOMEM, "no memory for a think mark of %zu bytes", *n);
    memcpy(*out, text, *n + 1);
    return ST_OK;
}

/* Messages with channels, whether calls are looked for or not. */
static void set_harmony(struct output_parser *p)
{
    p->harmony = p->tools == OUTPUT_TOOLS_HARMONY || strcmp(p->think_open, HARMONY_ANALYSIS) == 0;
    p->only_reasoning = true;
    p->channel = OUT_REASONING;
    if (p->harmony)
        p->state = p->starts_in_reasoning ? IN_CHANNEL : IN_HEADER;
}

static enum status set_options(struct output_parser *p, const struct output_options *o)
{
    if ((int)o->tools < 0 || o->tools > OUTPUT_TOOLS_AUTO)
        FAIL(ST_RANGE, "tools = %d is no format of tool calls", (int)o->tools);
    p->tools = o->tools;
    p->reasoning = o->reasoning;
    p->starts_in_reasoning = o->reasoning && o->starts_in_reasoning;
    p->names = o->names;
    p->n_names = o->n_names;
    if (o->tools_json)
        p->tools_json = (struct output_span){o->tools_json, strlen(o->tools_json)};
    p->max_call = o->max_call ? o->max_call : DEFAULT_MAX_CALL;
    p->state = o->reasoning ? AT_START : CONTENT_START;
    add_marks(p);
    TRY(copy_mark(o->think_open, "<think>", &p->think_open, &p->n_open));
    TRY(copy_mark(o->think_close, "</think>", &p->think_close, &p->n_close));
    set_harmony(p);
    return ST_OK;
}

enum status output_parser_create(struct output_parser **out, const struct output_options *options)
{
    struct output_parser *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        FAIL(ST_NOMEM, "no memory for an output parser");
    enum status st = set_options(p, options);
    if (st != ST_OK) {
        output_parser_destroy(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

void output_parser_destroy(struct output_parser *p)
{
    if (!p)
        return;
    free(p->think_open);
    free(p->think_close);
    text_buf_free(&p->text);
    output_xml_free(&p->xml);
    output_gemma_free(&p->gemma);
    output_python_free(&p->python);
    output_events_free(&p->events);
    free(p);
}

/* --- parsing: each step says whether it got on (go) or needs more text --- */

static size_t count_blanks(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t'))
        i++;
    return i;
}

/* Does the text begin with the mark (SCAN_OK), or could it yet (SCAN_MORE)? */
static enum output_scan begins(const char *s, size_t n, const char *mark, size_t n_mark,
                               bool finished)
{
    size_t k = n < n_mark ? n : n_mark;
    if (memcmp(s, mark, k) != 0)
        return SCAN_BAD;
    return k == n_mark ? SCAN_OK : finished ? SCAN_BAD : SCAN_MORE;
}

static enum status step_start(struct output_parser *p, bool *go)
{
    size_t n, blanks;
    const char *s = parser_rest(p, &n);
    blanks = count_blanks(s, n);
    enum output_scan r = begins(s + blanks, n - blanks, p->think_open, p->n_open, p->finished);
    if (r == SCAN_MORE) {
        *go = false;
        return ST_OK;
    }
    if (r == SCAN_OK)
        p->at += blanks + p->n_open;
    p->state = r == SCAN_OK || p->starts_in_reasoning ? IN_REASONING : CONTENT_START;
    return ST_OK;
}

static enum status step_reasoning(struct output_parser *p, bool *go)
{
    size_t n, i = 0;
    const char *s = parser_rest(p, &n);
    enum output_scan r = SCAN_BAD;
    for (; i < n; i++) {
        const char *q = memchr(s + i, p->think_close[0], n - i);
        i = q ? (size_t)(q - s) : n;
        if (i == n ||
            (r = begins(s + i, n - i, p->think_close, p->n_close, p->finished)) != SCAN_BAD)
            break;
    }
    TRY(parser_emit(p, OUT_REASONING, i));
    if (i == n || r != SCAN_OK) {
        *go = false;
        return ST_OK;
    }
    p->at += p->n_close;
    p->reasoning_bytes = p->dropped + p->at;
    p->state = CONTENT_START;
    return ST_OK;
}

/* The mark that the text begins with; SCAN_MORE: it could be one. */
static enum output_scan at_mark(const struct output_parser *p, const char *s, size_t n,
                                const struct parser_mark **mark)
{
    enum output_scan best = SCAN_BAD;
    for (size_t i = 0; i < p->n_marks; i++) {
        enum output_scan r = begins(s, n, p->marks[i].text, p->marks[i].n, p->finished);
        if (r == SCAN_OK) {
            *mark = &p->marks[i];
            return r;
        }
        if (r == SCAN_MORE)
            best = r;
    }
    return best;
}

/* The format of a call without a mark that the text begins with; OUTPUT_TOOLS_NONE: it is none. */
static enum output_tools plain_format(const struct output_parser *p, char first)
{
    if (p->tools == OUTPUT_TOOLS_GLM4)
        return OUTPUT_TOOLS_GLM4;
    if (p->tools == OUTPUT_TOOLS_LLAMA3)
        return first == '{' ? OUTPUT_TOOLS_LLAMA3 : OUTPUT_TOOLS_NONE;
    if (p->tools == OUTPUT_TOOLS_LLAMA4)
        return first == '{' || first == '[' ? OUTPUT_TOOLS_LLAMA4 : OUTPUT_TOOLS_NONE;
    return first == '{' || first == '[' || first == '`' ? OUTPUT_TOOLS_JSON : OUTPUT_TOOLS_NONE;
}

/* Blanks, then a mark, a call without one, or other text. */
static enum status step_content_start(struct output_parser *p, bool *go)
{
    size_t n, blanks;
    const char *s = parser_rest(p, &n);
    const struct parser_mark *mark;
    blanks = count_blanks(s, n);
    if (!p->plain) {
        p->state = IN_CONTENT;
        return ST_OK;
    }
    enum output_scan r =
        blanks == n && !p->finished ? SCAN_MORE : at_mark(p, s + blanks, n - blanks, &mark);
    if (r == SCAN_MORE) {
        *go = false;
        return ST_OK;
    }
    enum output_tools format = plain_format(p, blanks < n ? s[blanks] : 0);
    if (r == SCAN_BAD && format != OUTPUT_TOOLS_NONE)
        parser_begin_call(p, format, NULL);
    else
        p->state = IN_CONTENT;
    return ST_OK;
}

static enum status step_content(struct output_parser *p, bool *go)
{
    size_t n, i = 0;
    const char *s = parser_rest(p, &n);
    const struct parser_mark *mark = NULL;
    enum output_scan r = SCAN_BAD;
    while (i < n && r == SCAN_BAD) {
        r = p->begins_mark[(unsigned char)s[i]] ? at_mark(p, s + i, n - i, &mark) : SCAN_BAD;
        i += r == SCAN_BAD;
    }
    TRY(parser_emit(p, OUT_CONTENT, i));
    if (r == SCAN_OK)
        parser_begin_call(p, mark->format, mark);
    else
        *go = false;
    return ST_OK;
}

/* Blanks (and Llama's ';', and the mark behind the last call of DeepSeek and Kimi) between calls and after the last one
 * are dropped. */
static enum status step_after_call(struct output_parser *p, bool *go)
{
    size_t n, skip;
    const char *s = parser_rest(p, &n);
    const struct parser_mark *mark;
    enum output_tools format = p->scanner.format;
    const char *close = output_format_of(format)->close;
    bool marked = p->scanner.marked;
    if (p->harmony) {
        p->state = IN_HEADER;
        return ST_OK;
    }
    skip = count_blanks(s, n);
    bool llama = format == OUTPUT_TOOLS_LLAMA3 || format == OUTPUT_TOOLS_LLAMA4;
    if (llama && skip < n && s[skip] == ';')
        skip += 1 + count_blanks(s + skip + 1, n - skip - 1);
    if (skip == n) {
        *go = false;
        p->at += p->finished ? n : 0;
        return ST_OK;
    }
    enum output_scan end = SCAN_BAD, r = at_mark(p, s + skip, n - skip, &mark);
    if (close)
        end = begins(s + skip, n - skip, close, strlen(close), p->finished);
    if (r == SCAN_MORE || end == SCAN_MORE) {
        *go = false;
    } else if (end == SCAN_OK) {
        p->at += skip + strlen(close);
        p->scanner.format = OUTPUT_TOOLS_NONE; /* once */
    } else if (r == SCAN_OK) {
        p->at += skip;
        parser_begin_call(p, mark->format, mark);
    } else if (llama && s[skip] == '{') {
        parser_begin_call(p, format, NULL);
        p->state = IN_CALL; /* JSON, also where Python could be */
        output_scanner_resume(&p->scanner, skip, marked);
    } else {
        p->state = IN_CONTENT;
    }
    return ST_OK;
}

static enum status parse(struct output_parser *p)
{
    static enum status (*const steps[])(struct output_parser * p, bool *go) = {
        [AT_START] = step_start,
        [IN_REASONING] = step_reasoning,
        [CONTENT_START] = step_content_start,
        [IN_CONTENT] = step_content,
        [IN_CALL] = parser_step_call,
        [IN_XML] = parser_step_xml,
        [AFTER_CALL] = step_after_call,
        [IN_HEADER] = harmony_step_header,
        [IN_CHANNEL] = harmony_step_channel,
    };
    bool go = true;
    while (go && (p->at < p->text.len || p->finished)) {
        bool at_end = p->at == p->text.len;
        TRY(steps[p->state](p, &go));
        if (at_end)
            break;
    }
    return ST_OK;
}

/* Drops what has become events, and the events that were taken. */
static void make_room(struct output_parser *p)
{
    if (p->at) {
        memmove(p->text.data, p->text.data + p->at, p->text.len - p->at);
        p->text.len -= p->at;
        p->dropped += p->at;
        p->at = 0;
    }
    output_events_make_room(&p->events);
}

size_t output_parser_reasoning_bytes(const struct output_parser *p)
{
    bool goes_on = p->state == IN_REASONING ||
                   (p->state == IN_CHANNEL && p->only_reasoning && p->channel == OUT_REASONING);
    return goes_on ? p->dropped + p->text.len : p->reasoning_bytes;
}

enum status output_parser_push(struct output_parser *p, const char *text, size_t n)
{
    if (p->finished)
        FAIL(ST_RANGE, "text after the end of the output");
    make_room(p);
    TRY(text_buf_append(&p->text, text, n));
    return parse(p);
}

enum status output_parser_finish(struct output_parser *p)
{
    make_room(p);
    p->finished = true;
    return parse(p);
}

bool output_parser_next(struct output_parser *p, struct output_event *event)
{
    return output_events_next(&p->events, event);
}
