/* A strict parser of HTTP/1.0 and 1.1 requests (RFC 9110, 9112), fed with bytes as they arrive.
 *
 *     http_parser_init(&p, &limits);
 *     do {
 *         event = http_parser_feed(&p, data, n, &used);
 *         data += used, n -= used;
 *         // HTTP_EV_HEAD: p.request is there, without its body; feed goes on, also with n = 0
 *         // HTTP_EV_DONE: the whole request; http_parser_next before the one that may follow
 *         // HTTP_EV_BAD:  p.status and p.error say why; the connection cannot go on
 *     } while (event == HTTP_EV_HEAD || n > 0 && event == HTTP_EV_DONE);
 *
 * Where the two ends of a proxy could disagree, the request is refused: Content-Length together with
 * Transfer-Encoding, either of them twice, folded header lines, lone CR or LF, white space before a colon or
 * around a chunk size, a coding other than chunked, several Host headers.  The events do not depend on how
 * the bytes were cut.  Pure, no I/O; one thread per parser. */
#ifndef CLIENT_GATEWAY_HTTP_PARSER_H
#define CLIENT_GATEWAY_HTTP_PARSER_H

#include "client/gateway/http_request.h"

/* limits are borrowed. */
void http_parser_init(struct http_parser *p, const struct http_limits *limits);
void http_parser_fini(struct http_parser *p);

/* Takes up to n bytes; *used: how many. */
enum http_event http_parser_feed(struct http_parser *p, const char *data, size_t n, size_t *used);

/* After HTTP_EV_DONE: forgets the request, frees its memory, and is ready for another. */
void http_parser_next(struct http_parser *p);

/* Has no byte of a request come? */
bool http_parser_is_idle(const struct http_parser *p);

/* Does the request have a body that is still to come?  After HTTP_EV_HEAD. */
bool http_parser_wants_body(const struct http_parser *p);

#endif
