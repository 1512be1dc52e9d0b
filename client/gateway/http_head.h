/* The lines of a request's head, one by one: what http_parser.c calls.  Pure. */
#ifndef CLIENT_GATEWAY_HTTP_HEAD_H
#define CLIENT_GATEWAY_HTTP_HEAD_H

#include "client/gateway/http_request.h"

/* p->line, without its CRLF, is the request line: appends path, query and host to p->head, each ended by NUL. */
bool http_head_request_line(struct http_parser *p);

/* p->line is a header line: appends name and value to p->head, each ended by NUL. */
bool http_head_header_line(struct http_parser *p);

/* p->line is a trailer line: checked and dropped. */
bool http_head_trailer_line(struct http_parser *p);

/* All lines are there: fills p->request, p->left, p->chunked, p->expects_continue. */
bool http_head_finish(struct http_parser *p);

#endif
