#include "common/text/output_python.h"

#include <stdio.h>
#include <string.h>

#include "common/text/output_python_marks.h"
#include "common/text/output_scanner.h"

enum phase { AT_HEADER, IN_ARGUMENTS, IN_STRING, BETWEEN };

void output_python_begin(struct output_python *y, const char *const *names, size_t n_names)
{
    y->phase = AT_HEADER;
    y->names = names;
    y->n_names = n_names;
    output_writer_begin(&y->w);
}

void output_python_free(struct output_python *y)
{
    output_writer_free(&y->w);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* ---- strings ---- */

/* The number of n digits at p in that base; false: they are none. */
static bool read_digits(const char *p, size_t n, unsigned base, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned c = (unsigned char)p[i];
        unsigned d = c >= '0' && c <= '9'                 ? c - '0'
                     : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                          : base;
        if (d >= base)
            return false;
        *out = *out * base + d;
    }
    return true;
}

/* A character as an escape of JSON; beyond U+10FFFF: U+FFFD. */
static enum status put_char(struct output_writer *w, uint32_t c)
{
    char text[16];
    if (c > 0x10ffff)
        c = 0xfffd;
    if (c < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                 (unsigned)(0xdc00 + (c & 0x3ff)));
    return text_buf_append(&w->out, text, strlen(text));
}

/* \xHH, \uHHHH, \UHHHHHHHH; *used 0: it is not complete yet.  What is none stays as it is written. */
static enum status read_hex(struct output_writer *w, const char *p, size_t left, bool finished,
                            size_t *used)
{
    size_t n = p[1] == 'x' ? 2 : p[1] == 'u' ? 4 : 8;
    uint32_t c;
    *used = 0;
    if (left < 2 + n && !finished)
        return ST_OK;
    bool good = left >= 2 + n && read_digits(p + 2, n, 16, &c);
    *used = good ? 2 + n : 2;
    return good ? put_char(w, c) : output_writer_text(w, p, 2);
}

/* Up to three octal digits. */
static enum status read_octal(struct output_writer *w, const char *p, size_t left, bool finished,
                              size_t *used)
{
    size_t n = 1;
    uint32_t c;
    while (n < 3 && 1 + n < left && p[1 + n] >= '0' && p[1 + n] <= '7')
        n++;
    *used = 0;
    if (n < 3 && 1 + n == left && !finished)
        return ST_OK;
    *used = 1 + n;
    return read_digits(p + 1, n, 8, &c) ? put_char(w, c) : ST_OK;
}

/* p is at a backslash. */
static enum status read_escape(struct output_writer *w, const char *p, size_t left, bool finished,
                               size_t *used)
{
    static const char names[] = "abfnrtv'\"\\", values[] = "\a\b\f\n\r\t\v'\"\\";
    *used = 0;
    if (left < 2)
        return ST_OK;
    const char *simple = p[1] ? strchr(names, p[1]) : NULL;
    if (p[1] == 'x' || p[1] == 'u' || p[1] == 'U')
        return read_hex(w, p, left, finished, used);
    if (p[1] >= '0' && p[1] <= '7')
        return read_octal(w, p, left, finished, used);
    *used = 2;
    if (p[1] == '\n') /* the line goes on */
        return ST_OK;
    return simple ? output_writer_text(w, &values[simple - names], 1) : output_writer_text(w, p, 2);
}

/* A piece of a string: text, an escape, or its end. */
static enum status read_string(struct output_python *y, struct output_span text, bool finished,
                               size_t *at, enum output_step *step)
{
    const char *p = text.p + *at;
    size_t left = text.n - *at, n = 0;
    while (n < left && p[n] != y->quote && p[n] != '\\')
        n++;
    *step = STEP_GOES_ON;
    *at += n;
    TRY(output_writer_text(&y->w, p, n));
    if (n == left)
        return ST_OK;
    if (p[n] == '\\') {
        TRY(read_escape(&y->w, p + n, left - n, finished, &n));
        *at += n;
        if (n == 0)
            *step = finished ? STEP_BROKEN : STEP_NEEDS_MORE;
        return ST_OK;
    }
    ++*at;
    y->colon = y->w.json.is_key;
    y->phase = IN_ARGUMENTS;
    return output_writer_byte(&y->w, '"', step);
}

/* ---- the other parts of arguments ---- */

/* What ends the innermost level in JSON, if c does in Python; else 0.  Lists may be tuples. */
static char closer(const struct output_python *y, char c)
{
    if (y->w.json.depth == 1)
        return c == ')' ? '}' : 0;
    if (output_json_in_object(&y->w.json))
        return c == '}' ? '}' : 0;
    return c == ']' || c == ')' ? ']' : 0;
}

/* Must an item be here, or can one be? */
static bool item_fits(const struct output_python *y)
{
    return y->comma || output_json_wants_key(&y->w.json) || output_json_wants_value(&y->w.json);
}

/* The comma that was read, now that another item follows. */
static enum status put_comma(struct output_python *y, enum output_step *step)
{
    if (!y->comma)
        return ST_OK;
    y->comma = false;
    TRY(output_writer_byte(&y->w, ',', step));
    return *step == STEP_GOES_ON ? output_writer_byte(&y->w, ' ', step) : ST_OK;
}

/* A word up to the byte that ends it: '=' behind a KEY, ':' behind another key, or what may follow a value. */
static enum status read_word(struct output_python *y, struct output_span text, bool finished,
                             size_t *at, enum output_step *step)
{
    const char *p = text.p + *at;
    size_t n = 0, left = text.n - *at;
    TRY(put_comma(y, step));
    bool key = output_json_wants_key(&y->w.json), named = key && y->w.json.depth == 1;
    while (n < left && n <= OUTPUT_MAX_NAME && !is_blank(p[n]) && (unsigned char)p[n] > ' ' &&
           !strchr(",()[]{}\"'=:", p[n]))
        n++;
    size_t end = n;
    while (end < left && is_blank(p[end]))
        end++;
    *step = STEP_BROKEN;
    if (end == left && n <= OUTPUT_MAX_NAME) {
        *step = finished ? STEP_BROKEN : STEP_NEEDS_MORE;
        return ST_OK;
    }
    bool ends = named ? p[end] == '='
                : key ? p[end] == ':'
                      : p[end] == ',' || closer(y, p[end]) != 0;
    if (n == 0 || n > OUTPUT_MAX_NAME || !ends)
        return ST_OK;
    *at += n;
    TRY(output_writer_word(&y->w, p, n, step));
    y->colon = key;
    return ST_OK;
}

/* ',' or what opens or ends a level or a string, at *at. */
static enum status read_mark(struct output_python *y, char c, size_t *at, enum output_step *step)
{
    char ends = closer(y, c);
    *step = STEP_BROKEN;
    if (c == ',' && !item_fits(y)) {
        *step = STEP_GOES_ON;
        y->comma = true;
    } else if (ends) {
        TRY(output_writer_byte(&y->w, ends, step));
        y->comma = false;
    } else if (item_fits(y) && c != ',' && c != ')' && c != ']' && c != '}') {
        *step = STEP_GOES_ON;
        TRY(put_comma(y, step));
        bool named = output_json_wants_key(&y->w.json) && y->w.json.depth == 1;
        if (named)
            *step = STEP_BROKEN; /* a KEY has no quotes */
        else
            TRY(output_writer_byte(&y->w, c == '(' ? '[' : c == '\'' ? '"' : c, step));
        if (!named && (c == '"' || c == '\'') && *step == STEP_GOES_ON) {
            y->quote = c;
            y->phase = IN_STRING;
        }
    }
    *at += *step != STEP_BROKEN;
    return ST_OK;
}

static enum status read_item(struct output_python *y, struct output_span text, bool finished,
                             size_t *at, enum output_step *step)
{
    char c = text.p[*at];
    *step = STEP_GOES_ON;
    if (is_blank(c)) {
        ++*at;
        return ST_OK;
    }
    if (y->colon) {
        bool named = y->w.json.depth == 1;
        *step = c == (named ? '=' : ':') ? STEP_GOES_ON : STEP_BROKEN;
        if (*step == STEP_BROKEN)
            return ST_OK;
        ++*at;
        y->colon = false;
        TRY(output_writer_byte(&y->w, ':', step));
        return output_writer_byte(&y->w, ' ', step);
    }
    if (strchr(",()[]{}\"'", c) && c)
        return read_mark(y, c, at, step);
    *step = STEP_BROKEN;
    return item_fits(y) ? read_word(y, text, finished, at, step) : ST_OK;
}

static enum status read_arguments(struct output_python *y, struct output_span text, bool finished,
                                  size_t *at, enum output_step *step)
{
    *step = STEP_GOES_ON;
    while (*step == STEP_GOES_ON) {
        if (*at == text.n)
            *step = finished ? STEP_BROKEN : STEP_NEEDS_MORE;
        else
            TRY(y->phase == IN_STRING ? read_string(y, text, finished, at, step)
                                      : read_item(y, text, finished, at, step));
    }
    return ST_OK;
}

/* ---- the whole ---- */

/* NAME( with a KEY= or the ')' behind it, of which s->at is then at the former. */
static enum output_scan call_head(struct output_scanner *s, const struct scan_input *in)
{
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_name(s, in, &s->name_from, &s->name_to));
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_literal(s, in, "("));
    size_t inside = s->at, from, to = 0;
    SCAN_STEP(scan_blanks(s, in));
    if (scan_byte_at(s, in) != ')') {
        SCAN_STEP(scan_name(s, in, &from, &to));
        SCAN_STEP(scan_blanks(s, in));
        SCAN_STEP(scan_literal(s, in, "="));
    }
    s->at = inside;
    return SCAN_OK;
}

static enum output_scan list_head(struct output_scanner *s, const struct scan_input *in)
{
    bool start, end;
    SCAN_STEP(scan_maybe(s, in, PYTHON_START, &start));
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_maybe(s, in, PYTHON_END, &end));
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_literal(s, in, "["));
    s->marked = start || end;
    return call_head(s, in);
}

static bool is_known(const struct output_python *y, const char *name, size_t n)
{
    for (size_t i = 0; i < y->n_names; i++)
        if (strlen(y->names[i]) == n && memcmp(y->names[i], name, n) == 0)
            return true;
    return !y->names;
}

static enum status begin_call(struct output_python *y, const struct output_scanner *s,
                              struct output_span text, struct output_events *events, size_t *n)
{
    enum output_step step;
    const struct output_call call = {.name = {text.p + s->name_from, s->name_to - s->name_from},
                                     .plain_name = true};
    *n = s->at;
    y->phase = IN_ARGUMENTS;
    y->comma = y->colon = false;
    output_writer_begin(&y->w);
    TRY(output_events_begin(events, &call));
    TRY(output_writer_byte(&y->w, '{', &step));
    return output_events_text(events, OUT_CALL_ARGUMENTS, "{", 1);
}

static enum status run_header(struct output_python *y, struct output_span text, bool finished,
                              struct output_events *events, size_t *n, enum output_xml_state *state)
{
    struct output_scanner s = {.format = OUTPUT_TOOLS_LLAMA4};
    struct scan_input in = {text.p, text.n, finished};
    enum output_scan r = list_head(&s, &in);
    if (r == SCAN_OK && !s.marked && !is_known(y, text.p + s.name_from, s.name_to - s.name_from))
        r = SCAN_BAD;
    *state = r == SCAN_MORE ? XML_MORE : r == SCAN_BAD ? XML_NO_CALL : XML_GOES_ON;
    if (r == SCAN_BAD)
        *n = s.at ? s.at : 1;
    return r == SCAN_OK ? begin_call(y, &s, text, events, n) : ST_OK;
}

static enum status run_arguments(struct output_python *y, struct output_span text, bool finished,
                                 struct output_events *events, size_t *n,
                                 enum output_xml_state *state)
{
    enum output_step step;
    y->w.out.len = 0;
    TRY(read_arguments(y, text, finished, n, &step));
    TRY(output_events_text(events, OUT_CALL_ARGUMENTS, y->w.out.data, y->w.out.len));
    *state = step == STEP_NEEDS_MORE ? XML_MORE : step == STEP_BROKEN ? XML_BROKEN : XML_GOES_ON;
    if (step != STEP_ENDED)
        return ST_OK;
    y->phase = BETWEEN;
    return output_events_end(events);
}

/* Another call, or the list's end, which may be missing. */
static enum output_scan list_goes_on(struct output_scanner *s, const struct scan_input *in,
                                     bool *ended)
{
    bool comma;
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_maybe(s, in, ",", &comma));
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_maybe(s, in, "]", ended));
    return *ended ? SCAN_OK : comma ? call_head(s, in) : SCAN_BAD;
}

static enum status run_between(struct output_python *y, struct output_span text, bool finished,
                               struct output_events *events, size_t *n,
                               enum output_xml_state *state)
{
    struct output_scanner s = {.format = OUTPUT_TOOLS_LLAMA4};
    struct scan_input in = {text.p, text.n, finished};
    bool ended = false;
    enum output_scan r = list_goes_on(&s, &in, &ended);
    *state = r == SCAN_MORE ? XML_MORE : r == SCAN_BAD || ended ? XML_ENDED : XML_GOES_ON;
    if (ended)
        *n = s.at;
    return r == SCAN_OK && !ended ? begin_call(y, &s, text, events, n) : ST_OK;
}

enum status output_python_run(struct output_python *y, struct output_span text, bool finished,
                              struct output_events *events, size_t *n, enum output_xml_state *state)
{
    *n = 0;
    if (y->phase == AT_HEADER)
        return run_header(y, text, finished, events, n, state);
    if (y->phase == BETWEEN)
        return run_between(y, text, finished, events, n, state);
    return run_arguments(y, text, finished, events, n, state);
}
