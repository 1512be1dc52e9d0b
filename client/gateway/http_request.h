/* A request, and the state of the parser that reads it.  Shared by http_parser.c and http_head.c. */
#ifndef CLIENT_GATEWAY_HTTP_REQUEST_H
#define CLIENT_GATEWAY_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text/text_buf.h"

struct http_limits {
    size_t max_line;    /* bytes of the request line; more is 414 */
    size_t max_headers; /* header lines; more is 431 */
    size_t max_head;    /* bytes of all header lines, and again of all trailers; more is 431 */
    size_t max_body;    /* bytes; more is 413 */
};

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_N_METHODS
};

struct http_header {
    const char *name; /* in lower case */
    const char *value;
};

struct http_request { /* borrowed from its parser */
    enum http_method method;
    int minor;         /* HTTP/1.minor: 0 or 1 */
    bool keep_alive;   /* as the client wishes */
    const char *path;  /* after percent escapes, begins with '/'; or "*" of OPTIONS */
    const char *query; /* as it came, without '?'; "" */
    const char *host;  /* with its port; "" where HTTP/1.0 sends none */
    const struct http_header *headers;
    size_t n_headers;
    const char *body; /* after HTTP_EV_DONE */
    size_t n_body;
};

enum http_event { HTTP_EV_MORE, HTTP_EV_HEAD, HTTP_EV_DONE, HTTP_EV_BAD };

struct http_parser {
    /* results */
    struct http_request request;
    bool expects_continue; /* after HTTP_EV_HEAD: the client waits for "100 Continue" */
    int status;            /* after HTTP_EV_BAD: 400, 411, 413, 414, 417, 431, 501, 503 or 505 */
    const char *error;     /* a sentence for the client */
    /* its own */
    const struct http_limits *limits;
    int state;
    bool empty_line_seen, chunked;
    size_t n_lines, n_line_bytes; /* header lines, or trailers, so far */
    size_t n_extension;           /* bytes of chunk extensions so far */
    uint64_t left;                /* bytes of the body or of this chunk to come */
    struct text_buf line, head, body;
    struct http_header *headers;
};

/* The first header of that name (in lower case), or NULL. */
const char *http_request_header(const struct http_request *r, const char *name);

/* "GET"; never NULL. */
const char *http_method_name(enum http_method m);

/* Sets the parser's status and error; always false. */
bool http_parser_refuse(struct http_parser *p, int status, const char *error);

#endif
