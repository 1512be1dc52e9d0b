#include "common/text/output_gemma.h"

#include <string.h>

#include "common/text/output_scanner.h"

enum phase { AT_HEADER, IN_ARGUMENTS, IN_TEXT, IN_JSON_STRING, AT_CLOSE };

void output_gemma_begin(struct output_gemma *g)
{
    g->phase = AT_HEADER;
    output_writer_begin(&g->w);
}

void output_gemma_free(struct output_gemma *g)
{
    output_writer_free(&g->w);
}

/* ---- reading: *at moves over the text ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Is the mark next?  Nothing is taken. */
static enum output_scan ahead(struct output_span text, size_t at, bool finished, const char *mark)
{
    struct output_scanner s = {.at = at};
    struct scan_input in = {text.p, text.n, finished};
    return scan_literal(&s, &in, mark);
}

/* A word up to the byte that ends it: a key's ':', or what may follow a value. */
static enum status read_word(struct output_gemma *g, struct output_span text, bool finished,
                             size_t *at, enum output_step *step)
{
    bool key = output_json_wants_key(&g->w.json);
    const char *p = text.p + *at, *stops = key ? ",{}[]<\":" : ",{}[]<\"";
    size_t n = 0, left = text.n - *at;
    while (n < left && n <= OUTPUT_MAX_NAME && (is_blank(p[n]) || (unsigned char)p[n] >= ' ') &&
           !strchr(stops, p[n]))
        n++;
    if (n == left && n <= OUTPUT_MAX_NAME) {
        *step = finished ? STEP_BROKEN : STEP_NEEDS_MORE;
        return ST_OK;
    }
    enum output_scan close =
        !key && p[n] == '<' ? ahead(text, *at + n, finished, GEMMA_CALL_END) : SCAN_BAD;
    bool ends = key ? p[n] == ':' : p[n] == ',' || p[n] == '}' || p[n] == ']' || close == SCAN_OK;
    *step = close == SCAN_MORE ? STEP_NEEDS_MORE : STEP_BROKEN;
    if (n > OUTPUT_MAX_NAME || !ends)
        return ST_OK;
    *at += n;
    while (is_blank(p[n - 1]))
        n--;
    return output_writer_word(&g->w, p, n, step);
}

/* '<' is next: a string, or the closing mark before its time. */
static enum status read_mark(struct output_gemma *g, struct output_span text, bool finished,
                             size_t *at, enum output_step *step)
{
    bool item = output_json_wants_key(&g->w.json) || output_json_wants_value(&g->w.json);
    enum output_scan quote = item ? ahead(text, *at, finished, GEMMA_QUOTE) : SCAN_BAD,
                     close = ahead(text, *at, finished, GEMMA_CALL_END);
    *step = close == SCAN_OK                           ? STEP_BROKEN_OFF
            : close == SCAN_MORE || quote == SCAN_MORE ? STEP_NEEDS_MORE
                                                       : STEP_BROKEN;
    if (quote != SCAN_OK)
        return ST_OK;
    *at += strlen(GEMMA_QUOTE);
    g->phase = IN_TEXT;
    return output_writer_byte(&g->w, '"', step);
}

static enum status read_item(struct output_gemma *g, struct output_span text, bool finished,
                             size_t *at, enum output_step *step)
{
    char c = text.p[*at];
    bool key = output_json_wants_key(&g->w.json), value = output_json_wants_value(&g->w.json);
    if (c == '<')
        return read_mark(g, text, finished, at, step);
    if ((key || value) && !is_blank(c) && !strchr("\"{}[],:", c))
        return read_word(g, text, finished, at, step);
    TRY(output_writer_byte(&g->w, c, step));
    *at += *step != STEP_BROKEN;
    if (c == '"' && *step == STEP_GOES_ON)
        g->phase = IN_JSON_STRING;
    return ST_OK;
}

/* A string up to its mark. */
static enum status read_text(struct output_gemma *g, struct output_span text, bool finished,
                             size_t *at, enum output_step *step)
{
    enum output_scan r = SCAN_BAD;
    size_t i = *at;
    for (; i < text.n; i++) {
        const char *q = memchr(text.p + i, *GEMMA_QUOTE, text.n - i);
        i = q ? (size_t)(q - text.p) : text.n;
        if (!q || (r = ahead(text, i, finished, GEMMA_QUOTE)) != SCAN_BAD)
            break;
    }
    TRY(output_writer_text(&g->w, text.p + *at, i - *at));
    *at = i;
    *step = finished ? STEP_BROKEN : STEP_NEEDS_MORE;
    if (i == text.n || r != SCAN_OK)
        return ST_OK;
    *at += strlen(GEMMA_QUOTE);
    g->phase = IN_ARGUMENTS;
    return output_writer_byte(&g->w, '"', step);
}

static enum status read_json_string(struct output_gemma *g, struct output_span text, size_t *at,
                                    enum output_step *step)
{
    TRY(output_writer_byte(&g->w, text.p[*at], step));
    *at += *step != STEP_BROKEN;
    if (!output_json_in_string(&g->w.json))
        g->phase = IN_ARGUMENTS;
    return ST_OK;
}

static enum status read_arguments(struct output_gemma *g, struct output_span text, bool finished,
                                  size_t *at, enum output_step *step)
{
    *step = STEP_GOES_ON;
    while (*step == STEP_GOES_ON) {
        if (*at == text.n)
            *step = finished ? STEP_BROKEN : STEP_NEEDS_MORE;
        else if (g->phase == IN_TEXT)
            TRY(read_text(g, text, finished, at, step));
        else if (g->phase == IN_JSON_STRING)
            TRY(read_json_string(g, text, at, step));
        else
            TRY(read_item(g, text, finished, at, step));
    }
    return ST_OK;
}

/* ---- the whole ---- */

/* Up to the '{' of the arguments. */
static enum output_scan header(struct output_scanner *s, const struct scan_input *in)
{
    SCAN_STEP(scan_literal(s, in, GEMMA_CALL_BEGIN));
    SCAN_STEP(scan_blanks(s, in));
    SCAN_STEP(scan_literal(s, in, "call:"));
    SCAN_STEP(scan_name(s, in, &s->name_from, &s->name_to));
    SCAN_STEP(scan_blanks(s, in));
    return in->p[s->at] == '{' ? SCAN_OK : SCAN_BAD;
}

static enum status run_header(struct output_gemma *g, struct output_span text, bool finished,
                              struct output_events *events, size_t *n, enum output_xml_state *state)
{
    struct output_scanner s = {.format = OUTPUT_TOOLS_GEMMA4};
    struct scan_input in = {text.p, text.n, finished};
    enum output_scan r = header(&s, &in);
    *state = r == SCAN_MORE ? XML_MORE : r == SCAN_BAD ? XML_NO_CALL : XML_GOES_ON;
    if (r == SCAN_BAD)
        *n = s.at ? s.at : 1;
    if (r != SCAN_OK)
        return ST_OK;
    const struct output_call call = {.name = {text.p + s.name_from, s.name_to - s.name_from},
                                     .plain_name = true};
    *n = s.at;
    g->phase = IN_ARGUMENTS;
    return output_events_begin(events, &call);
}

static enum status run_arguments(struct output_gemma *g, struct output_span text, bool finished,
                                 struct output_events *events, size_t *n,
                                 enum output_xml_state *state)
{
    enum output_step step;
    g->w.out.len = 0;
    TRY(read_arguments(g, text, finished, n, &step));
    TRY(output_events_text(events, OUT_CALL_ARGUMENTS, g->w.out.data, g->w.out.len));
    *state = step == STEP_NEEDS_MORE ? XML_MORE : step == STEP_BROKEN ? XML_BROKEN : XML_GOES_ON;
    if (step != STEP_ENDED && step != STEP_BROKEN_OFF)
        return ST_OK;
    g->phase = AT_CLOSE;
    return output_events_end(events);
}

/* The closing mark may be missing. */
static enum output_xml_state run_close(struct output_span text, bool finished, size_t *n)
{
    struct output_scanner s = {.format = OUTPUT_TOOLS_GEMMA4};
    struct scan_input in = {text.p, text.n, finished};
    bool taken = false;
    enum output_scan r = scan_blanks(&s, &in);
    if (r == SCAN_OK)
        r = scan_maybe(&s, &in, GEMMA_CALL_END, &taken);
    *n = taken ? s.at : 0;
    return r == SCAN_MORE ? XML_MORE : XML_ENDED;
}

enum status output_gemma_run(struct output_gemma *g, struct output_span text, bool finished,
                             struct output_events *events, size_t *n, enum output_xml_state *state)
{
    *n = 0;
    if (g->phase == AT_HEADER)
        return run_header(g, text, finished, events, n, state);
    if (g->phase != AT_CLOSE)
        return run_arguments(g, text, finished, events, n, state);
    *state = run_close(text, finished, n);
    return ST_OK;
}
