#include "common/text/output_harmony.h"

#include <string.h>

#include "common/text/output_formats.h"
#include "common/text/output_parser_calls.h"

enum { MAX_HEADER = 512 /* bytes; a longer one is content */ };

static const char *const ends[] = {HARMONY_END, HARMONY_CALL, HARMONY_RETURN};
static const char *const openings[] = {HARMONY_START, HARMONY_CHANNEL, HARMONY_MESSAGE, " to="};

/* The first of the texts that the rest begins with; SCAN_MORE: it could yet. */
static enum output_scan begins_with_one(const char *s, size_t n, bool finished,
                                        const char *const *texts, size_t n_texts, size_t *len)
{
    enum output_scan best = SCAN_BAD;
    for (size_t i = 0; i < n_texts; i++) {
        size_t all = strlen(texts[i]), k = n < all ? n : all;
        if (memcmp(s, texts[i], k) != 0)
            continue;
        if (k == all) {
            *len = all;
            return SCAN_OK;
        }
        best = finished ? SCAN_BAD : SCAN_MORE;
    }
    return best;
}

static const char *find(const char *s, size_t n, const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i + len <= n; i++)
        if (memcmp(s + i, text, len) == 0)
            return s + i;
    return NULL;
}

/* The function that a header of n bytes is sent to; n 0: none. */
static struct output_span recipient(const char *header, size_t n)
{
    static const char prefix[] = "functions.";
    const char *to = find(header, n, "to="), *end = header + n;
    if (!to)
        return (struct output_span){NULL, 0};
    const char *from = to += strlen("to=");
    while (to < end && *to != ' ' && *to != '<')
        to++;
    if ((size_t)(to - from) > strlen(prefix) && memcmp(from, prefix, strlen(prefix)) == 0)
        from += strlen(prefix);
    return (struct output_span){from, (size_t)(to - from)};
}

static void begin_channel(struct output_parser *p, enum output_kind kind)
{
    p->state = IN_CHANNEL;
    p->channel = kind;
}

/* The message behind a header of n bytes: a call's arguments are an object. */
static void begin_message(struct output_parser *p, const char *header, size_t n, char first)
{
    bool analysis = find(header, n, HARMONY_CHANNEL "analysis") != NULL;
    if (p->tools == OUTPUT_TOOLS_HARMONY && recipient(header, n).n && first == '{') {
        parser_begin_call(p, OUTPUT_TOOLS_HARMONY, NULL);
        p->only_reasoning = false;
        return;
    }
    p->at += n + strlen(HARMONY_MESSAGE);
    begin_channel(p, analysis && p->reasoning ? OUT_REASONING : OUT_CONTENT);
}

enum status harmony_step_header(struct output_parser *p, bool *go)
{
    size_t n, end_len = 0, len = 0;
    const char *s = parser_rest(p, &n);
    enum output_scan end = begins_with_one(s, n, p->finished, ends, ARRAY_LEN(ends), &end_len),
                     head = begins_with_one(s, n, p->finished, openings, ARRAY_LEN(openings), &len);
    if (end == SCAN_OK) {
        p->at += end_len;
        return ST_OK;
    }
    const char *message = find(s, n < MAX_HEADER ? n : MAX_HEADER, HARMONY_MESSAGE);
    if (head == SCAN_OK && message) {
        const char *body = message + strlen(HARMONY_MESSAGE);
        while (body < s + n && (*body == ' ' || *body == '\n'))
            body++;
        *go = body < s + n || p->finished;
        if (*go)
            begin_message(p, s, (size_t)(message - s), body < s + n ? *body : 0);
    } else if ((head == SCAN_OK && n < MAX_HEADER && !p->finished) || head == SCAN_MORE ||
               end == SCAN_MORE) {
        *go = false;
    } else {
        begin_channel(p, OUT_CONTENT);
        p->no_header = true;
    }
    return ST_OK;
}

enum status harmony_step_channel(struct output_parser *p, bool *go)
{
    static const char *const next[] = {HARMONY_END, HARMONY_CALL, HARMONY_RETURN, HARMONY_START,
                                       HARMONY_CHANNEL};
    size_t n, len = 0, i = 0;
    const char *s = parser_rest(p, &n);
    enum output_scan r = SCAN_BAD;
    while (i < n && r == SCAN_BAD) {
        r = s[i] == '<' ? begins_with_one(s + i, n - i, p->finished, next, ARRAY_LEN(next), &len)
                        : SCAN_BAD;
        i += r == SCAN_BAD;
    }
    if (i == 0 && r == SCAN_OK && p->no_header) { /* it begins with the mark of one */
        p->no_header = p->only_reasoning = false;
        return parser_emit(p, OUT_CONTENT, len);
    }
    p->no_header = false;
    p->only_reasoning &= p->channel == OUT_REASONING || i == 0;
    TRY(parser_emit(p, p->channel, i));
    if (r != SCAN_OK) {
        *go = false;
        return ST_OK;
    }
    if (p->only_reasoning)
        p->reasoning_bytes = p->dropped + p->at + len;
    p->state = IN_HEADER;
    return ST_OK;
}

enum output_scan output_run_harmony(struct output_scanner *s, const struct scan_input *in)
{
    enum output_scan end;
    if (s->phase == 0) { /* the header is whole, but a bound on calls may cut it */
        const char *message = find(in->p, in->n, HARMONY_MESSAGE);
        if (!message)
            return SCAN_MORE;
        struct output_span name = recipient(in->p, (size_t)(message - in->p));
        s->name_from = (size_t)(name.p - in->p);
        s->name_to = s->name_from + name.n;
        s->at = (size_t)(message - in->p) + strlen(HARMONY_MESSAGE);
        s->marked = true;
        s->phase = 1;
    }
    if (s->phase == 1) {
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 2;
    }
    end = scan_json(s, in);
    return s->json_broken && s->begun ? scan_literal(s, in, HARMONY_CALL) : end;
}
