#include "common/text/output_scanner.h"

#include <string.h>

char scan_byte_at(const struct output_scanner *s, const struct scan_input *in)
{
    return in->p[s->at - s->base];
}

enum output_scan scan_literal(struct output_scanner *s, const struct scan_input *in,
                              const char *text)
{
    size_t len = strlen(text), there = in->n - s->at, n = there < len ? there : len;
    if (memcmp(in->p + (s->at - s->base), text, n) != 0)
        return SCAN_BAD;
    if (n < len)
        return in->finished ? SCAN_BAD : SCAN_MORE;
    s->at += len;
    return SCAN_OK;
}

enum output_scan scan_maybe(struct output_scanner *s, const struct scan_input *in, const char *text,
                            bool *taken)
{
    enum output_scan r = scan_literal(s, in, text);
    *taken = r == SCAN_OK;
    return r == SCAN_BAD ? SCAN_OK : r;
}

enum output_scan scan_blanks(struct output_scanner *s, const struct scan_input *in)
{
    while (s->at < in->n && (scan_byte_at(s, in) == ' ' || scan_byte_at(s, in) == '\n' ||
                             scan_byte_at(s, in) == '\r' || scan_byte_at(s, in) == '\t'))
        s->at++;
    return s->at < in->n ? SCAN_OK : in->finished ? SCAN_BAD : SCAN_MORE;
}

bool output_scanner_named(const struct output_scanner *s)
{
    return s->name_to > s->name_from;
}

/* The byte c was taken; ended: the JSON has ended with it. */
static enum output_news json_news(struct output_scanner *s, const struct output_json *before,
                                  char c, bool ended)
{
    bool first = s->at == s->json_from - 1;
    if (!output_scanner_named(s))
        return output_members_feed(&s->members, before, &s->json, c, s->at);
    return first && c == '{' ? NEWS_ARGUMENTS : ended ? NEWS_ARGUMENTS_END : NEWS_NONE;
}

enum output_scan scan_json(struct output_scanner *s, const struct scan_input *in)
{
    if (s->json_broken)
        return SCAN_BAD;
    if (s->json_from == 0)
        s->json_from = s->at + 1;
    while (s->at < in->n && !s->json_ended) {
        struct output_json before = s->json;
        char c = scan_byte_at(s, in);
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

enum output_scan scan_name(struct output_scanner *s, const struct scan_input *in, size_t *from,
                           size_t *to)
{
    if (*to == 0)
        *from = s->at;
    while (s->at < in->n && is_name_byte((unsigned char)scan_byte_at(s, in))) {
        if (s->at - *from == OUTPUT_MAX_NAME)
            return SCAN_BAD;
        *to = ++s->at;
    }
    if (s->at == in->n)
        return in->finished ? SCAN_BAD : SCAN_MORE;
    return *to > *from ? SCAN_OK : SCAN_BAD;
}
