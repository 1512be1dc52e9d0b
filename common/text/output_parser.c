#include "common/text/output_parser.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/output_calls.h"

enum { DEFAULT_MAX_CALL = 1 << 20 /* bytes */, MAX_MARKS = 8 };

enum state {
    AT_START, /* blanks, perhaps a think mark */
    IN_REASONING,
    CONTENT_START, /* blanks, perhaps a call in plain JSON */
    IN_CONTENT,
    IN_CALL,    /* the scanner is at work at the beginning of the text */
    AFTER_CALL, /* blanks that are dropped when another call or the end follows */
};

struct mark { /* what begins something in the content */
    const char *text;
    size_t n;
    enum output_tools format; /* OUTPUT_TOOLS_NONE: it is dropped (the end of a DeepSeek block) */
};

struct event {
    enum output_kind kind;
    size_t at[2], n[2]; /* in texts: text or name, id */
    bool has_id;
    int i_call;
};

struct output_parser {
    enum state state;
    bool reasoning, starts_in_reasoning;
    bool plain_json; /* calls without a mark are looked for */
    enum output_tools tools;
    char *think_open, *think_close;
    size_t n_open, n_close, max_call;
    struct mark marks[MAX_MARKS];
    size_t n_marks;
    struct text_buf text;   /* what is not yet an event */
    size_t at;              /* where it begins in text */
    size_t dropped;         /* bytes before text */
    size_t reasoning_bytes; /* once it is over */
    bool finished;
    struct output_scanner scanner;
    bool in_arguments;        /* of the call that began last */
    size_t n_begun;           /* the scanner's call that began last, counted from 1 */
    const char *const *names; /* [n_names] */
    size_t n_names;
    struct text_buf texts; /* of the events */
    struct event *events;
    size_t n_events, cap_events, i_event;
    int n_calls;
};

/* --- making --- */

static void add_mark(struct output_parser *p, const char *text, enum output_tools format)
{
    p->marks[p->n_marks++] = (struct mark){text, strlen(text), format};
}

static void add_marks(struct output_parser *p)
{
    bool all = p->tools == OUTPUT_TOOLS_AUTO;
    if (all || p->tools == OUTPUT_TOOLS_HERMES)
        add_mark(p, "<tool_call>", OUTPUT_TOOLS_HERMES);
    if (all || p->tools == OUTPUT_TOOLS_LLAMA3)
        add_mark(p, "<|python_tag|>", OUTPUT_TOOLS_LLAMA3);
    if (all || p->tools == OUTPUT_TOOLS_MISTRAL)
        add_mark(p, "[TOOL_CALLS]", OUTPUT_TOOLS_MISTRAL);
    if (all || p->tools == OUTPUT_TOOLS_DEEPSEEK) {
        add_mark(p, DS_CALLS_BEGIN, OUTPUT_TOOLS_DEEPSEEK);
        add_mark(p, DS_CALL_BEGIN, OUTPUT_TOOLS_DEEPSEEK);
    }
    p->plain_json = all || p->tools == OUTPUT_TOOLS_LLAMA3 || p->tools == OUTPUT_TOOLS_JSON;
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

static enum status set_options(struct output_parser *p, const struct output_options *o)
{
    if ((int)o->tools < 0 || o->tools > OUTPUT_TOOLS_AUTO)
        FAIL(ST_RANGE, "tools = %d is no format of tool calls", (int)o->tools);
    p->tools = o->tools;
    p->reasoning = o->reasoning;
    p->starts_in_reasoning = o->reasoning && o->starts_in_reasoning;
    p->names = o->names;
    p->n_names = o->n_names;
    p->max_call = o->max_call ? o->max_call : DEFAULT_MAX_CALL;
    p->state = o->reasoning ? AT_START : CONTENT_START;
    add_marks(p);
    TRY(copy_mark(o->think_open, "<think>", &p->think_open, &p->n_open));
    return copy_mark(o->think_close, "</think>", &p->think_close, &p->n_close);
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
    free(p->events);
    text_buf_free(&p->text);
    text_buf_free(&p->texts);
    free(p);
}

/* --- events --- */

static enum status new_event(struct output_parser *p, enum output_kind kind, struct event **out)
{
    if (p->n_events == p->cap_events) {
        size_t cap = p->cap_events ? p->cap_events * 2 : 8;
        struct event *events = realloc(p->events, cap * sizeof *events);
        if (!events)
            FAIL(ST_NOMEM, "no memory for %zu output events", cap);
        p->events = events;
        p->cap_events = cap;
    }
    *out = &p->events[p->n_events++];
    **out = (struct event){.kind = kind, .i_call = p->n_calls - 1};
    return ST_OK;
}

/* Makes the next n bytes an event, or a part of the last one when that is of the same kind. */
static enum status emit(struct output_parser *p, enum output_kind kind, size_t n)
{
    struct event *e = p->n_events > p->i_event ? &p->events[p->n_events - 1] : NULL;
    if (n == 0)
        return ST_OK;
    if (!e || e->kind != kind) {
        TRY(new_event(p, kind, &e));
        e->at[0] = p->texts.len;
    }
    TRY(text_buf_append(&p->texts, p->text.data + p->at, n));
    e->n[0] += n;
    p->at += n;
    return ST_OK;
}

static enum status store(struct output_parser *p, struct output_span s, bool plain, struct event *e,
                         int i)
{
    e->at[i] = p->texts.len;
    if (plain)
        TRY(text_buf_append(&p->texts, s.p, s.n));
    else
        TRY(output_json_text(s, &p->texts));
    e->n[i] = p->texts.len - e->at[i];
    return ST_OK;
}

static enum status emit_begin(struct output_parser *p, const struct output_call *call)
{
    struct event *e = NULL;
    p->n_calls++;
    TRY(new_event(p, OUT_CALL_BEGIN, &e));
    e->has_id = call->id.p != NULL;
    TRY(store(p, call->name, call->plain_name, e, 0));
    return e->has_id ? store(p, call->id, call->plain_id, e, 1) : ST_OK;
}

static enum status emit_end(struct output_parser *p)
{
    struct event *e = NULL;
    return new_event(p, OUT_CALL_END, &e);
}

static enum status emit_call(struct output_parser *p, const struct output_call *call)
{
    struct event *e = NULL;
    TRY(emit_begin(p, call));
    TRY(new_event(p, OUT_CALL_ARGUMENTS, &e));
    TRY(store(p, call->arguments, *call->arguments.p != '"', e, 0));
    return emit_end(p);
}

bool output_parser_next(struct output_parser *p, struct output_event *out)
{
    if (p->i_event == p->n_events)
        return false;
    const struct event *e = &p->events[p->i_event++];
    const char *texts = p->texts.data;
    *out = (struct output_event){.kind = e->kind};
    out->i_call = e->i_call;
    if (e->kind != OUT_CALL_BEGIN) {
        out->text = texts + e->at[0];
        out->n_text = e->n[0];
        return true;
    }
    out->name = texts + e->at[0];
    out->n_name = e->n[0];
    out->id = e->has_id ? texts + e->at[1] : NULL;
    out->n_id = e->n[1];
    return true;
}

/* --- parsing: each step says whether it got on (go) or needs more text --- */

static const char *rest(const struct output_parser *p, size_t *n)
{
    *n = p->text.len - p->at;
    return *n ? p->text.data + p->at : "";
}

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
    const char *s = rest(p, &n);
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
    const char *s = rest(p, &n);
    enum output_scan r = SCAN_BAD;
    for (; i < n; i++) {
        const char *q = memchr(s + i, p->think_close[0], n - i);
        i = q ? (size_t)(q - s) : n;
        if (i == n ||
            (r = begins(s + i, n - i, p->think_close, p->n_close, p->finished)) != SCAN_BAD)
            break;
    }
    TRY(emit(p, OUT_REASONING, i));
    if (i == n || r != SCAN_OK) {
        *go = false;
        return ST_OK;
    }
    p->at += p->n_close;
    p->reasoning_bytes = p->dropped + p->at;
    p->state = CONTENT_START;
    return ST_OK;
}

static void begin_call(struct output_parser *p, enum output_tools format)
{
    p->state = IN_CALL;
    output_scanner_init(&p->scanner, format);
}

/* The mark that the text begins with; SCAN_MORE: it could be one. */
static enum output_scan at_mark(const struct output_parser *p, const char *s, size_t n,
                                const struct mark **mark)
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

/* Blanks, then a mark, plain JSON, or other text. */
static enum status step_content_start(struct output_parser *p, bool *go)
{
    size_t n, blanks;
    const char *s = rest(p, &n);
    const struct mark *mark;
    blanks = count_blanks(s, n);
    if (!p->plain_json) {
        p->state = IN_CONTENT;
        return ST_OK;
    }
    enum output_scan r =
        blanks == n && !p->finished ? SCAN_MORE : at_mark(p, s + blanks, n - blanks, &mark);
    if (r == SCAN_MORE) {
        *go = false;
        return ST_OK;
    }
    char first = blanks < n ? s[blanks] : 0;
    bool list = p->tools != OUTPUT_TOOLS_LLAMA3 && first == '[';
    if (r == SCAN_BAD && (first == '{' || list))
        begin_call(p, p->tools == OUTPUT_TOOLS_LLAMA3 ? OUTPUT_TOOLS_LLAMA3 : OUTPUT_TOOLS_JSON);
    else
        p->state = IN_CONTENT;
    return ST_OK;
}

static enum status step_content(struct output_parser *p, bool *go)
{
    size_t n, i = 0;
    const char *s = rest(p, &n);
    const struct mark *mark = NULL;
    enum output_scan r = SCAN_BAD;
    while (i < n && r == SCAN_BAD) {
        r = s[i] == '<' || s[i] == '[' ? at_mark(p, s + i, n - i, &mark) : SCAN_BAD;
        i += r == SCAN_BAD;
    }
    TRY(emit(p, OUT_CONTENT, i));
    if (r == SCAN_OK)
        begin_call(p, mark->format);
    else
        *go = false;
    return ST_OK;
}

/* Are arguments that are written into a string a JSON object? */
static enum status check_arguments(struct output_parser *p, const struct output_call *call,
                                   bool *good)
{
    struct output_json j;
    enum output_scan r = SCAN_MORE;
    size_t from = p->texts.len, i;
    *good = true;
    if (*call->arguments.p != '"')
        return ST_OK;
    TRY(output_json_text(call->arguments, &p->texts));
    output_json_init(&j);
    for (i = from; r == SCAN_MORE && i < p->texts.len; i++)
        r = output_json_feed(&j, (unsigned char)p->texts.data[i]);
    *good = r == SCAN_OK && i == p->texts.len && p->texts.data[from] == '{';
    p->texts.len = from;
    return ST_OK;
}

/* All calls of the accepted text, or none of them when one is wrong. */
static enum status take_calls(struct output_parser *p, const char *s, bool *good)
{
    struct output_call call;
    enum output_scan r;
    size_t n = 0;
    *good = true;
    for (; (r = output_scanner_call(&p->scanner, s, n, &call)) == SCAN_OK && *good; n++)
        TRY(check_arguments(p, &call, good));
    *good = *good && r == SCAN_MORE;
    for (size_t i = 0; *good && i < n; i++) {
        if (output_scanner_call(&p->scanner, s, i, &call) == SCAN_OK)
            TRY(emit_call(p, &call));
    }
    return ST_OK;
}

/* It was no call, or what follows the last one is none: what the scanner went over is content, and the rest is
 * looked at anew. */
static enum status give_up_call(struct output_parser *p)
{
    const struct output_scanner *c = &p->scanner;
    TRY(emit(p, OUT_CONTENT, c->at || c->begun ? c->at - c->base : 1));
    p->state = IN_CONTENT;
    return ST_OK;
}

/* The scanner's text up to that offset is done with. */
static void drop_call(struct output_parser *p, size_t to)
{
    p->at += to - p->scanner.base;
    p->scanner.base = to;
}

static enum status is_known(struct output_parser *p, const struct output_call *call, bool *known)
{
    size_t from = p->texts.len;
    TRY(output_json_text(call->name, &p->texts));
    for (size_t i = 0; i < p->n_names && !*known; i++)
        *known = strlen(p->names[i]) == p->texts.len - from &&
                 memcmp(p->names[i], p->texts.data + from, p->texts.len - from) == 0;
    p->texts.len = from;
    return ST_OK;
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
    TRY(emit_begin(p, &call));
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
    TRY(emit(p, OUT_CALL_ARGUMENTS, to - from));
    c->base = to;
    p->in_arguments = !c->json_broken && r == SCAN_MORE;
    return p->in_arguments ? ST_OK : emit_end(p);
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
            TRY(emit_call(p, &call));
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
    const char *s = rest(p, &n);
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

static enum status step_call(struct output_parser *p, bool *go)
{
    struct output_scanner *c = &p->scanner;
    size_t n;
    const char *s = rest(p, &n);
    bool too_long = n >= p->max_call && !p->in_arguments;
    enum output_scan r =
        output_scanner_run(c, s, c->base + (too_long ? p->max_call : n), p->finished && !too_long);
    if (p->in_arguments) {
        TRY(give_arguments(p, r));
        s = rest(p, &n);
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

/* Blanks (and Llama's ';', and DeepSeek's closing mark) between calls and after the last one are
 * dropped. */
static enum status step_after_call(struct output_parser *p, bool *go)
{
    size_t n, skip;
    const char *s = rest(p, &n);
    const struct mark *mark;
    enum output_tools format = p->scanner.format;
    bool marked = p->scanner.marked;
    skip = count_blanks(s, n);
    if (format == OUTPUT_TOOLS_LLAMA3 && skip < n && s[skip] == ';')
        skip += 1 + count_blanks(s + skip + 1, n - skip - 1);
    if (skip == n) {
        *go = false;
        p->at += p->finished ? n : 0;
        return ST_OK;
    }
    enum output_scan end = SCAN_BAD, r = at_mark(p, s + skip, n - skip, &mark);
    if (format == OUTPUT_TOOLS_DEEPSEEK)
        end = begins(s + skip, n - skip, DS_CALLS_END, strlen(DS_CALLS_END), p->finished);
    if (r == SCAN_MORE || end == SCAN_MORE) {
        *go = false;
    } else if (end == SCAN_OK) {
        p->at += skip + strlen(DS_CALLS_END);
        p->scanner.format = OUTPUT_TOOLS_NONE; /* once */
    } else if (r == SCAN_OK) {
        p->at += skip;
        begin_call(p, mark->format);
    } else if (format == OUTPUT_TOOLS_LLAMA3 && s[skip] == '{') {
        begin_call(p, format);
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
        [IN_CALL] = step_call,
        [AFTER_CALL] = step_after_call,
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
    if (p->i_event == p->n_events) {
        p->i_event = p->n_events = 0;
        p->texts.len = 0;
    }
}

size_t output_parser_reasoning_bytes(const struct output_parser *p)
{
    return p->state == IN_REASONING ? p->dropped + p->text.len : p->reasoning_bytes;
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
