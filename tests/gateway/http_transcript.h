/* Feeds bytes to the HTTP parser, cut as asked, and writes down what it says: for each request its line, its
 * headers and its body, at the end why it stopped.  The parser's limits here are small.  Used by the tests and
 * the fuzz target. */
#ifndef TESTS_GATEWAY_HTTP_TRANSCRIPT_H
#define TESTS_GATEWAY_HTTP_TRANSCRIPT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gateway/http_parser.h"

enum { TEST_MAX_LINE = 64, TEST_MAX_HEADERS = 5, TEST_MAX_HEAD = 200, TEST_MAX_BODY = 20 };

static inline void transcript_put(struct text_buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char hex[8];
        if (s[i] >= 0x20 && s[i] < 0x7f) {
            if (text_buf_append(out, &s[i], 1) != ST_OK)
                abort();
            continue;
        }
        int len = snprintf(hex, sizeof hex, "<%02x>", (unsigned)(unsigned char)s[i]);
        if (text_buf_append(out, hex, (size_t)len) != ST_OK)
            abort();
    }
}

static inline void transcript_text(struct text_buf *out, const char *s)
{
    transcript_put(out, s, strlen(s));
}

/* "POST /path?query @host 1.1 close wait a=b c=d " */
static inline void transcript_head(struct text_buf *out, const struct http_parser *p)
{
    const struct http_request *r = &p->request;
    transcript_text(out, http_method_name(r->method));
    transcript_text(out, " ");
    transcript_text(out, r->path);
    transcript_text(out, *r->query ? "?" : "");
    transcript_text(out, r->query);
    transcript_text(out, *r->host ? " @" : "");
    transcript_text(out, r->host);
    transcript_text(out, r->minor ? " 1.1" : " 1.0");
    transcript_text(out, r->keep_alive ? "" : " close");
    transcript_text(out, p->expects_continue ? " wait" : "");
    for (size_t i = 0; i < r->n_headers; i++) {
        if (strcmp(r->headers[i].name, "host") == 0)
            continue;
        transcript_text(out, " ");
        transcript_text(out, r->headers[i].name);
        transcript_text(out, "=");
        transcript_text(out, r->headers[i].value);
    }
}

/* Parses pieces of data: the first of `first` bytes, the others of `step` bytes; both at least 1.  Each piece
 * is copied to memory of its own, so that the sanitizer sees a byte too many. */
static inline struct text_buf http_transcript(const char *data, size_t n, size_t first, size_t step)
{
    static const struct http_limits limits = {.max_line = TEST_MAX_LINE,
                                              .max_headers = TEST_MAX_HEADERS,
                                              .max_head = TEST_MAX_HEAD,
                                              .max_body = TEST_MAX_BODY};
    struct http_parser p;
    struct text_buf out = {0};
    enum http_event ev = HTTP_EV_MORE;
    http_parser_init(&p, &limits);
    for (size_t at = 0, size = first; at < n && ev != HTTP_EV_BAD; size = step) {
        size_t len = size < n - at ? size : n - at, done = 0, used;
        char *piece = malloc(len);
        if (!piece)
            abort();
        memcpy(piece, data + at, len);
        do {
            ev = http_parser_feed(&p, piece + done, len - done, &used);
            done += used;
            if (ev == HTTP_EV_HEAD)
                transcript_head(&out, &p);
            if (ev == HTTP_EV_DONE) {
                transcript_text(&out, p.request.n_body ? " : " : "");
                transcript_put(&out, p.request.body, p.request.n_body);
                transcript_text(&out, " | ");
                http_parser_next(&p);
            }
        } while (ev == HTTP_EV_HEAD || (ev == HTTP_EV_DONE && done < len));
        if (ev == HTTP_EV_MORE && done != len)
            abort();
        at += len;
        free(piece);
    }
    if (ev == HTTP_EV_BAD) {
        char status[16];
        snprintf(status, sizeof status, "%d ", p.status);
        transcript_text(&out, status);
        transcript_text(&out, p.error);
    } else if (!http_parser_is_idle(&p)) {
        transcript_text(&out, "...");
    }
    http_parser_fini(&p);
    if (text_buf_append(&out, "", 1) != ST_OK)
        abort();
    return out;
}

#endif
