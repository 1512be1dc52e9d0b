#include "client/gateway/http_parser.h"

#include <stdlib.h>
#include <string.h>

#include "client/gateway/http_chars.h"
#include "client/gateway/http_head.h"

enum { MAX_CHUNK_LINE = 256 /* bytes, with extensions */ };

enum state {
    REQUEST_LINE,
    HEADER_LINE,
    BODY,       /* of a known length */
    CHUNK_LINE, /* its size */
    CHUNK,
    CHUNK_END, /* the CRLF behind it */
    TRAILER_LINE,
    DONE,
    BAD
};

void http_parser_init(struct http_parser *p, const struct http_limits *limits)
{
    *p = (struct http_parser){.limits = limits};
}

void http_parser_fini(struct http_parser *p)
{
    text_buf_free(&p->line);
    text_buf_free(&p->head);
    text_buf_free(&p->body);
    free(p->headers);
    p->headers = NULL;
}

void http_parser_next(struct http_parser *p)
{
    const struct http_limits *limits = p->limits;
    http_parser_fini(p);
    http_parser_init(p, limits);
}

bool http_parser_is_idle(const struct http_parser *p)
{
    return p->state == REQUEST_LINE && p->line.len == 0;
}

bool http_parser_wants_body(const struct http_parser *p)
{
    return p->state == BODY || p->state == CHUNK_LINE;
}

/* ---- lines ---- */

/* Moves bytes into p->line up to the LF.  true: the line is whole and its CRLF is gone. */
static bool take_line(struct http_parser *p, const char *data, size_t n, size_t *used, size_t max,
                      int status, const char *too_long)
{
    const char *lf = memchr(data, '\n', n);
    size_t take = lf ? (size_t)(lf - data) + 1 : n;
    if (take > max - p->line.len)
        return http_parser_refuse(p, status, too_long);
    if (text_buf_append(&p->line, data, take) != ST_OK)
        return http_parser_refuse(p, 503, "out of memory");
    *used += take;
    if (!lf)
        return false;
    char *s = p->line.data;
    size_t len = p->line.len;
    if (len < 2 || s[len - 2] != '\r')
        return http_parser_refuse(p, 400, "a line ends with LF instead of CR LF");
    p->line.len = len - 2;
    if (memchr(s, '\r', p->line.len))
        return http_parser_refuse(p, 400, "a CR that does not end a line");
    if (memchr(s, '\0', p->line.len))
        return http_parser_refuse(p, 400, "a NUL in the head of a request");
    return true;
}

/* The lines of head and trailers count together against the limits. */
static bool take_header(struct http_parser *p, const char *data, size_t n, size_t *used)
{
    size_t left = p->limits->max_head + 2 - p->n_line_bytes; /* the empty line is free */
    if (!take_line(p, data, n, used, left, 431, "the headers are too long"))
        return false;
    if (p->line.len == 0)
        return true;
    p->n_line_bytes += p->line.len + 2;
    if (p->n_line_bytes > p->limits->max_head)
        return http_parser_refuse(p, 431, "the headers are too long");
    if (++p->n_lines > p->limits->max_headers)
        return http_parser_refuse(p, 431, "too many headers");
    return true;
}

static void request_line(struct http_parser *p, const char *data, size_t n, size_t *used)
{
    if (p->line.len == 0 && data[0] != '\r' && !http_is_token_char(data[0])) {
        http_parser_refuse(p, 400, "this is not HTTP");
        return;
    }
    if (!take_line(p, data, n, used, p->limits->max_line, 414, "the request line is too long"))
        return;
    if (p->line.len == 0 && !p->empty_line_seen) {
        p->empty_line_seen = true; /* some clients end a body with CR LF of its own */
    } else if (http_head_request_line(p)) {
        p->state = HEADER_LINE;
    }
    p->line.len = 0;
}

/* true: the head is whole. */
static bool header_line(struct http_parser *p, const char *data, size_t n, size_t *used)
{
    if (!take_header(p, data, n, used))
        return false;
    if (p->line.len > 0) {
        (void)http_head_header_line(p);
        p->line.len = 0;
        return false;
    }
    if (!http_head_finish(p))
        return false;
    p->n_lines = p->n_line_bytes = 0;
    p->state = p->chunked ? CHUNK_LINE : p->left ? BODY : DONE;
    return true;
}

/* ---- the body ---- */

/* "1a;name=value": hexadecimal digits at once, extensions are dropped. */
static void chunk_line(struct http_parser *p, const char *data, size_t n, size_t *used)
{
    size_t i = 0;
    if (!take_line(p, data, n, used, MAX_CHUNK_LINE, 400, "the line of a chunk size is too long"))
        return;
    for (p->left = 0; i < p->line.len && http_hex(p->line.data[i]) >= 0; i++)
        p->left = p->left << 4 | (uint64_t)http_hex(p->line.data[i]);
    if (i == 0 || i > 16 || (i < p->line.len && p->line.data[i] != ';')) {
        http_parser_refuse(p, 400, "a chunk size that is not hexadecimal");
        return;
    }
    p->n_extension += p->line.len - i;
    for (; i < p->line.len; i++)
        if (!http_is_value_char(p->line.data[i])) {
            http_parser_refuse(p, 400, "a control character in a chunk extension");
            return;
        }
    p->line.len = 0;
    if (p->n_extension > p->limits->max_head)
        http_parser_refuse(p, 400, "the chunk extensions are too long");
    else if (p->left > p->limits->max_body - p->body.len)
        http_parser_refuse(p, 413, "the body is too large");
    else
        p->state = p->left ? CHUNK : TRAILER_LINE;
}

static void take_body(struct http_parser *p, const char *data, size_t n, size_t *used)
{
    size_t take = n < p->left ? n : (size_t)p->left;
    if (text_buf_append(&p->body, data, take) != ST_OK) {
        http_parser_refuse(p, 503, "out of memory");
        return;
    }
    *used += take;
    p->left -= take;
    if (p->left == 0)
        p->state = p->chunked ? CHUNK_END : DONE;
}

static void chunk_end(struct http_parser *p, const char *data, size_t *used)
{
    if (data[0] != "\r\n"[p->line.len]) {
        http_parser_refuse(p, 400, "a chunk is longer than its size");
        return;
    }
    ++*used;
    if (p->line.len++ == 0)
        return;
    p->line.len = 0;
    p->state = CHUNK_LINE;
}

static void trailer_line(struct http_parser *p, const char *data, size_t n, size_t *used)
{
    if (!take_header(p, data, n, used))
        return;
    if (p->line.len == 0)
        p->state = DONE;
    else if (http_head_trailer_line(p))
        p->line.len = 0;
}

enum http_event http_parser_feed(struct http_parser *p, const char *data, size_t n, size_t *used)
{
    *used = 0;
    while (p->state != DONE && p->state != BAD && *used < n) {
        const char *at = data + *used;
        size_t left = n - *used;
        switch ((enum state)p->state) {
        case REQUEST_LINE:
            request_line(p, at, left, used);
            break;
        case HEADER_LINE:
            if (header_line(p, at, left, used))
                return HTTP_EV_HEAD;
            break;
        case CHUNK_LINE:
            chunk_line(p, at, left, used);
            break;
        case BODY:
        case CHUNK:
            take_body(p, at, left, used);
            break;
        case CHUNK_END:
            chunk_end(p, at, used);
            break;
        case TRAILER_LINE:
            trailer_line(p, at, left, used);
            break;
        case DONE:
        case BAD:
            break;
        }
        if (p->status)
            p->state = BAD;
    }
    if (p->state == BAD)
        return HTTP_EV_BAD;
    if (p->state != DONE)
        return HTTP_EV_MORE;
    p->request.body = p->body.data;
    p->request.n_body = p->body.len;
    return HTTP_EV_DONE;
}
