#include "client/gateway/http_head.h"

#include <stdlib.h>
#include <string.h>

#include "client/gateway/http_chars.h"

/* Appends bytes and a NUL to the head. */
static bool put(struct http_parser *p, const char *s, size_t n)
{
    if (text_buf_append(&p->head, s, n) != ST_OK || text_buf_append(&p->head, "", 1) != ST_OK)
        return http_parser_refuse(p, 503, "out of memory");
    return true;
}

/* ---- the request line ---- */

/* "example.org:8080", "127.0.0.1", "[::1]:80" */
static bool is_authority(const char *s, size_t n)
{
    size_t i = 0;
    if (n && s[0] == '[') {
        for (i = 1; i < n && (http_hex(s[i]) >= 0 || s[i] == ':' || s[i] == '.'); i++)
            ;
        if (i < 3 || i == n || s[i++] != ']')
            return false;
    } else {
        for (; i < n && (http_is_alnum(s[i]) || strchr("-._", s[i])); i++)
            ;
        if (i == 0)
            return false;
    }
    if (i == n)
        return true;
    if (s[i++] != ':' || n - i > 5)
        return false;
    for (; i < n; i++)
        if (!http_is_digit(s[i]))
            return false;
    return true;
}

/* Appends the path after its percent escapes. */
static bool put_path(struct http_parser *p, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '%') {
            int high = i + 2 < n ? http_hex(s[i + 1]) : -1,
                low = i + 2 < n ? http_hex(s[i + 2]) : -1;
            if (high < 0 || low < 0)
                return http_parser_refuse(p, 400, "a % without two hexadecimal digits in the path");
            c = (char)(high << 4 | low);
            i += 2;
            if (!http_is_value_char(c) || c == '\t')
                return http_parser_refuse(p, 400, "a control character in the path");
        }
        if (text_buf_append(&p->head, &c, 1) != ST_OK)
            return http_parser_refuse(p, 503, "out of memory");
    }
    return put(p, "", 0);
}

/* "/path?query", "http://host/path?query", or "*" of OPTIONS */
static bool put_target(struct http_parser *p, const char *s, size_t n)
{
    const char *host = s;
    size_t n_host = 0, scheme = n >= 7 && strncasecmp(s, "http://", 7) == 0    ? 7
                                : n >= 8 && strncasecmp(s, "https://", 8) == 0 ? 8
                                                                               : 0;
    if (p->request.method == HTTP_OPTIONS && n == 1 && s[0] == '*')
        return put(p, "*", 1) && put(p, "", 0) && put(p, "", 0);
    if (scheme) {
        host = s + scheme;
        while (n_host < n - scheme && host[n_host] != '/' && host[n_host] != '?')
            n_host++;
        if (!is_authority(host, n_host))
            return http_parser_refuse(p, 400, "the host in the request line is malformed");
        s = host + n_host;
        n -= scheme + n_host;
    }
    const char *mark = memchr(s, '?', n);
    size_t n_path = mark ? (size_t)(mark - s) : n;
    if (scheme && n_path == 0) {
        if (!put(p, "/", 1))
            return false;
    } else if (n_path == 0 || s[0] != '/') {
        return http_parser_refuse(p, 400, "the path does not begin with '/'");
    } else if (!put_path(p, s, n_path)) {
        return false;
    }
    return put(p, mark ? mark + 1 : "", mark ? n - n_path - 1 : 0) && put(p, host, n_host);
}

bool http_head_request_line(struct http_parser *p)
{
    const char *s = p->line.data, *end = s + p->line.len;
    const char *target = memchr(s, ' ', p->line.len);
    const char *version = target ? memchr(target + 1, ' ', (size_t)(end - target - 1)) : NULL;
    size_t n_method = target ? (size_t)(target - s) : 0;
    if (n_method == 0 || !version)
        return http_parser_refuse(p, 400, "the request line is not METHOD TARGET VERSION");
    for (size_t i = 0; i < n_method; i++)
        if (!http_is_token_char(s[i]))
            return http_parser_refuse(p, 400, "the method is malformed");
    target++;
    for (const char *c = target; c < version; c++)
        if (*c <= 0x20 || *c >= 0x7f || *c == '#')
            return http_parser_refuse(p, 400, "the target has a character that is not allowed");
    version++;
    if (end - version != 8 || memcmp(version, "HTTP/", 5) != 0 || !http_is_digit(version[5]) ||
        version[6] != '.' || !http_is_digit(version[7]))
        return http_parser_refuse(p, 400, "the request line does not end with the HTTP version");
    if (version[5] != '1' || version[7] > '1')
        return http_parser_refuse(p, 505, "only HTTP/1.0 and HTTP/1.1 are served");
    p->request.minor = version[7] - '0';
    for (int m = 0; m < HTTP_N_METHODS; m++) {
        const char *name = http_method_name((enum http_method)m);
        if (strlen(name) == n_method && memcmp(s, name, n_method) == 0) {
            p->request.method = (enum http_method)m;
            return put_target(p, target, (size_t)(version - 1 - target));
        }
    }
    return http_parser_refuse(p, 501, "the method is not implemented");
}

/* ---- header lines ---- */

/* Checks "name: value" and puts the name into lower case; value without white space around it. */
static bool split(struct http_parser *p, size_t *n_name, const char **value, size_t *n_value)
{
    char *s = p->line.data;
    size_t n = p->line.len, i = 0;
    if (s[0] == ' ' || s[0] == '\t')
        return http_parser_refuse(p, 400, "a folded header line");
    for (; i < n && http_is_token_char(s[i]); i++)
        if (s[i] >= 'A' && s[i] <= 'Z')
            s[i] = (char)(s[i] | 0x20);
    if (i == 0 || i == n || s[i] != ':')
        return http_parser_refuse(p, 400, "a header line is not NAME: VALUE");
    *n_name = i;
    size_t from = i + 1, to = n;
    while (from < to && (s[from] == ' ' || s[from] == '\t'))
        from++;
    while (to > from && (s[to - 1] == ' ' || s[to - 1] == '\t'))
        to--;
    for (i = from; i < to; i++)
        if (!http_is_value_char(s[i]))
            return http_parser_refuse(p, 400, "a control character in a header");
    *value = s + from;
    *n_value = to - from;
    return true;
}

bool http_head_header_line(struct http_parser *p)
{
    size_t n_name, n_value;
    const char *value;
    return split(p, &n_name, &value, &n_value) && put(p, p->line.data, n_name) &&
           put(p, value, n_value);
}

bool http_head_trailer_line(struct http_parser *p)
{
    static const char *const framing[] = {"content-length", "transfer-encoding", "host"};
    size_t n_name, n_value;
    const char *value;
    if (!split(p, &n_name, &value, &n_value))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(framing); i++)
        if (http_word_is(p->line.data, n_name, framing[i]))
            return http_parser_refuse(p, 400, "a trailer that says how the message is framed");
    return true;
}

/* ---- the whole head ---- */

/* Points the request into p->head, which no longer moves. */
static bool index_head(struct http_parser *p)
{
    struct http_request *r = &p->request;
    const char *at = p->head.data;
    r->path = at;
    r->query = r->path + strlen(r->path) + 1;
    r->host = r->query + strlen(r->query) + 1;
    at = r->host + strlen(r->host) + 1;
    p->headers = calloc(p->n_lines ? p->n_lines : 1, sizeof *p->headers);
    if (!p->headers)
        return http_parser_refuse(p, 503, "out of memory");
    for (size_t i = 0; i < p->n_lines; i++) {
        p->headers[i].name = at;
        p->headers[i].value = at + strlen(at) + 1;
        at = p->headers[i].value + strlen(p->headers[i].value) + 1;
    }
    r->headers = p->headers;
    r->n_headers = p->n_lines;
    return true;
}

/* Headers of which there may be one at most: proxies differ in which of several they take. */
static bool check_once(struct http_parser *p)
{
    static const char *const once[] = {"host",   "content-length", "transfer-encoding",
                                       "expect", "authorization",  "content-type",
                                       "origin"};
    for (size_t i = 0; i < ARRAY_LEN(once); i++) {
        size_t n = 0;
        for (size_t k = 0; k < p->n_lines; k++)
            n += strcmp(p->headers[k].name, once[i]) == 0;
        if (n > 1)
            return http_parser_refuse(p, 400,
                                      "a header that may be there once is there more than once");
    }
    return true;
}

static bool check_host(struct http_parser *p)
{
    struct http_request *r = &p->request;
    const char *host = http_request_header(r, "host");
    if (!host && r->minor > 0)
        return http_parser_refuse(p, 400, "an HTTP/1.1 request without Host");
    if (host && *host && !is_authority(host, strlen(host)))
        return http_parser_refuse(p, 400, "the Host header is malformed");
    if (!*r->host && host)
        r->host = host;
    return true;
}

static bool check_transfer_encoding(struct http_parser *p, const char *coding)
{
    const char *word, *last = "";
    size_t n, n_last = 0, n_chunked = 0, n_words = 0;
    if (p->request.minor == 0)
        return http_parser_refuse(p, 400, "Transfer-Encoding in an HTTP/1.0 request");
    while ((word = http_next_word(&coding, &n))) {
        n_words++;
        n_chunked += http_word_is(word, n, "chunked");
        last = word;
        n_last = n;
    }
    if (n_chunked != 1 || !http_word_is(last, n_last, "chunked"))
        return http_parser_refuse(p, 400, "Transfer-Encoding does not end with chunked, once");
    if (n_words > 1)
        return http_parser_refuse(p, 501, "no transfer coding but chunked is implemented");
    p->chunked = true;
    return true;
}

static bool check_content_length(struct http_parser *p, const char *digits)
{
    size_t n = strlen(digits);
    bool huge = false;
    for (size_t i = 0; i < n; i++) {
        if (!http_is_digit(digits[i]))
            return http_parser_refuse(p, 400, "Content-Length is not a number");
        huge = huge || p->left > UINT64_MAX / 10 - 1;
        p->left = huge ? p->left : 10 * p->left + (uint64_t)(digits[i] - '0');
    }
    if (n == 0)
        return http_parser_refuse(p, 400, "Content-Length is not a number");
    if (huge || p->left > p->limits->max_body)
        return http_parser_refuse(p, 413, "the body is too large");
    return true;
}

static bool check_framing(struct http_parser *p)
{
    const struct http_request *r = &p->request;
    const char *coding = http_request_header(r, "transfer-encoding");
    const char *length = http_request_header(r, "content-length");
    if (coding && length)
        return http_parser_refuse(p, 400, "both Content-Length and Transfer-Encoding");
    if (coding)
        return check_transfer_encoding(p, coding);
    if (length)
        return check_content_length(p, length);
    if (r->method == HTTP_POST || r->method == HTTP_PUT || r->method == HTTP_PATCH)
        return http_parser_refuse(p, 411, "neither Content-Length nor Transfer-Encoding");
    return true;
}

static void read_connection(struct http_request *r)
{
    bool close = false, keep_alive = false;
    for (size_t i = 0; i < r->n_headers; i++) {
        const char *list = r->headers[i].value, *word;
        size_t n;
        if (strcmp(r->headers[i].name, "connection") != 0)
            continue;
        while ((word = http_next_word(&list, &n))) {
            close = close || http_word_is(word, n, "close");
            keep_alive = keep_alive || http_word_is(word, n, "keep-alive");
        }
    }
    r->keep_alive = !close && (r->minor > 0 || keep_alive);
}

bool http_head_finish(struct http_parser *p)
{
    if (!index_head(p) || !check_once(p) || !check_host(p) || !check_framing(p))
        return false;
    read_connection(&p->request);
    const char *expect = http_request_header(&p->request, "expect");
    if (expect && p->request.minor > 0) {
        if (strcasecmp(expect, "100-continue") != 0)
            return http_parser_refuse(p, 417, "no expectation but 100-continue can be met");
        p->expects_continue = p->chunked || p->left > 0;
    }
    return true;
}
