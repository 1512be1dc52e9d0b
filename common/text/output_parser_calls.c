#include "common/text/output_parser_calls.h"

#include <string.h>

#include "common/text/output_formats.h"

void parser_begin_call(struct output_parser *p, enum output_tools format,
                       const struct parser_mark *mark)
{
    bool python = output_format_is_python(format);
    bool scans = output_format_of(format)->run != NULL && !python;
    p->mark = mark;
    p->state = scans ? IN_CALL : IN_XML;
    output_scanner_init(&p->scanner, format);
    if (python)
        output_python_begin(&p->python, p->names, p->n_names);
    else if (format == OUTPUT_TOOLS_GEMMA4)
        output_gemma_begin(&p->gemma);
    else if (!scans)
        output_xml_begin(&p->xml, format, p->tools_json);
}

/* No call is read any more, and n bytes are content. */
static enum status be_content(struct output_parser *p, size_t n)
{
    TRY(parser_emit(p, OUT_CONTENT, n));
    p->state = p->harmony ? IN_CHANNEL : IN_CONTENT;
    p->channel = OUT_CONTENT;
    return ST_OK;
}

/* It was no call of its format: n bytes are content, unless another format begins with the same mark, or it may be JSON
 * where it is no Python. */
static enum status no_call(struct output_parser *p, size_t n)
{
    if (p->state == IN_XML && output_format_is_python(p->scanner.format)) {
        p->state = IN_CALL;
        return ST_OK;
    }
    const struct parser_mark *end = p->marks + p->n_marks;
    for (const struct parser_mark *m = p->mark ? p->mark + 1 : end; m < end; m++) {
        if (strcmp(m->text, p->mark->text) == 0) {
            parser_begin_call(p, m->format, m);
            return ST_OK;
        }
    }
    return be_content(p, n);
}

/* Are arguments that are written into a string a JSON object? */
static enum status check_arguments(struct output_parser *p, const struct output_call *call,
                                   bool *good)
{
    struct output_json j;
    enum output_scan r = SCAN_MORE;
    size_t from = p->events.texts.len, i;
    *good = true;
    if (*call->arguments.p != '"')
        return ST_OK;
    TRY(output_json_text(call->arguments, &p->events.texts));
    output_json_init(&j);
    for (i = from; r == SCAN_MORE && i < p->events.texts.len; i++)
        r = output_json_feed(&j, (unsigned char)p->events.texts.data[i]);
    *good = r == SCAN_OK && i == p->events.texts.len && p->events.texts.data[from] == '{';
    p->events.texts.len = from;
    return ST_OK;
}

static bool is_name(const struct output_parser *p, const char *name, size_t n)
{
    for (size_t i = 0; i < p->n_names; i++)
        if (strlen(p->names[i]) == n && memcmp(p->names[i], name, n) == 0)
            return true;
    return false;
}

static enum status is_known(struct output_parser *p, const struct output_call *call, bool *known)
{
    size_t from = p->events.texts.len;
    if (call->plain_name) {
        *known = is_name(p, call->name.p, call->name.n);
        return ST_OK;
    }
    TRY(output_json_text(call->name, &p->events.texts));
    *known = is_name(p, p->events.texts.data + from, p->events.texts.len - from);
    p->events.texts.len = from;
    return ST_OK;
}

/* All calls of the accepted text, or none of them when one is wrong. */
static enum status take_calls(struct output_parser *p, const char *s, bool *good)
{
    struct output_call call;
    enum output_scan r;
    size_t n = 0;
    *good = true;
    for (; (r = output_scanner_call(&p->scanner, s, n, &call)) == SCAN_OK && *good; n++) {
        TRY(check_arguments(p, &call, good));
        if (*good && p->scanner.only_known && p->names)
            TRY(is_known(p, &call, good));
    }
    *good = *good && r == SCAN_MORE;
    for (size_t i = 0; *good && i < n; i++) {
        if (output_scanner_call(&p->scanner, s, i, &call) == SCAN_OK)
            TRY(output_events_call(&p->events, &call));
    }
    return ST_OK;
}

/* It was no call, or what follows the last one is none: what the scanner went over is content, and the rest is
 * looked at anew. */
static enum status give_up_call(struct output_parser *p)
{
    const struct output_scanner *c = &p->scanner;
    if (!c->begun)
        return no_call(p, c->at ? c->at - c->base : 1);
    return be_content(p, c->at - c->base);
}

/* The scanner's text up to that offset is done with. */
static void drop_call(struct output_parser *p, size_t to)
{
    p->at += to - p->scanner.base;
    p->scanner.base = to;
}

/* The arguments of a call begin: is it certain to be one? */
static enum status begin_arguments(struct output_parser *p, const char *s)
{
    struct output_scanner *c = &p->scanner;
    struct output_call call;
    bool good = c->marked, first = c->members.n_calls <= 1;
    size_t to;
    if (!output_scanner_last(c, s, &call) || (!first && !c->begun))
        return ST_OK; /* a list whose first call is taken at its end is taken as a whole */
    if (!good)
        TRY(is_known(p, &call, &good));
    if (!good)
        return ST_OK;
    TRY(output_events_begin(&p->events, &call));
    c->begun = p->in_arguments = true;
    p->n_begun = c->members.n_calls;
    drop_call(p, output_scanner_arguments(c, &to));
    return ST_OK;
}

static enum status give_arguments(struct output_parser *p, enum output_scan r)
{
    struct output_scanner *c = &p->scanner;
    size_t to, from = c->base;
    (void)output_scanner_arguments(c, &to);
    TRY(parser_emit(p, OUT_CALL_ARGUMENTS, to - from));
    c->base = to;
    p->in_arguments = !c->json_broken && r == SCAN_MORE;
    return p->in_arguments ? ST_OK : output_events_end(&p->events);
}

/* A call of a text that holds calls for certain has ended. */
static enum status end_one_call(struct output_parser *p, const char *s, bool *good)
{
    struct output_scanner *c = &p->scanner;
    struct output_call call;
    *good = true;
    if (p->n_begun != c->members.n_calls) { /* it is taken as a whole */
        *good = output_scanner_last(c, s, &call);
        if (*good)
            TRY(check_arguments(p, &call, good));
        if (*good)
            TRY(output_events_call(&p->events, &call));
    }
    if (*good)
        drop_call(p, c->at);
    return ST_OK;
}

static enum status take_news(struct output_parser *p)
{
    struct output_scanner *c = &p->scanner;
    bool good = true;
    size_t n;
    const char *s = parser_rest(p, &n);
    if (c->news == NEWS_ARGUMENTS)
        return begin_arguments(p, s);
    if (!c->begun)
        return ST_OK;
    if (c->news == NEWS_CALL_END)
        TRY(end_one_call(p, s, &good));
    return good && c->news != NEWS_NO_CALL ? ST_OK : give_up_call(p);
}

/* The calls have ended as they should. */
static enum status end_calls(struct output_parser *p, const char *s)
{
    bool good = true;
    if (!p->scanner.begun)
        TRY(take_calls(p, s, &good));
    if (!good)
        return give_up_call(p);
    drop_call(p, p->scanner.at);
    p->state = AFTER_CALL;
    return ST_OK;
}

enum status parser_step_call(struct output_parser *p, bool *go)
{
    struct output_scanner *c = &p->scanner;
    size_t n;
    const char *s = parser_rest(p, &n);
    bool too_long = n >= p->max_call && !p->in_arguments;
    enum output_scan r =
        output_scanner_run(c, s, c->base + (too_long ? p->max_call : n), p->finished && !too_long);
    if (p->in_arguments) {
        TRY(give_arguments(p, r));
        s = parser_rest(p, &n);
    }
    switch (r) {
    case SCAN_NEWS:
        return take_news(p);
    case SCAN_OK:
        return end_calls(p, s);
    case SCAN_BAD:
        return give_up_call(p);
    case SCAN_MORE:
        break;
    }
    if (too_long)
        return give_up_call(p);
    *go = false;
    return ST_OK;
}

static enum status run_elements(struct output_parser *p, struct output_span text, size_t *taken,
                                enum output_xml_state *state)
{
    if (output_format_is_python(p->scanner.format))
        return output_python_run(&p->python, text, p->finished, &p->events, taken, state);
    if (p->scanner.format == OUTPUT_TOOLS_GEMMA4)
        return output_gemma_run(&p->gemma, text, p->finished, &p->events, taken, state);
    return output_xml_run(&p->xml, text, p->finished, p->max_call, &p->events, taken, state);
}

enum status parser_step_xml(struct output_parser *p, bool *go)
{
    enum output_xml_state state = XML_GOES_ON;
    size_t n, taken;
    while (state == XML_GOES_ON) {
        const char *s = parser_rest(p, &n);
        TRY(run_elements(p, (struct output_span){s, n}, &taken, &state));
        if (state == XML_NO_CALL)
            return no_call(p, taken);
        p->at += taken;
    }
    if (state == XML_MORE) {
        *go = false;
        return ST_OK;
    }
    p->state = state == XML_ENDED ? AFTER_CALL : IN_CONTENT;
    return state == XML_BROKEN ? output_events_end(&p->events) : ST_OK;
}
