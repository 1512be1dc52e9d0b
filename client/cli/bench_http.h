/* The HTTP path of `ingot bench`: streams of /v1/completions with token ids as prompt, one kept-alive connection a
 * stream.  What comes is parsed strictly and becomes the events that libingot would give, one DELTA a chunk of text;
 * the ids themselves are not known.  One thread. */
#ifndef CLIENT_CLI_BENCH_HTTP_H
#define CLIENT_CLI_BENCH_HTTP_H

#include "client/lib/ingot.h"

struct bench_http;

struct bench_http_options {
    const char *url;   /* http://HOST:PORT, and a path before /v1 */
    const char *model; /* NULL: not named */
    const char *key;   /* of the API; NULL: none */
};

/* Connects n streams.  INGOT_RANGE: the URL is malformed; INGOT_IO: the server is not there. */
enum ingot_code bench_http_open(struct bench_http **out, const struct bench_http_options *o,
                                size_t n);
void bench_http_close(struct bench_http *h); /* NULL is fine */

/* Of r it uses ids, max_tokens, temperature, seed and ignore_eos.  The stream must have no request. */
enum ingot_code bench_http_generate(struct bench_http *h, size_t stream,
                                    const struct ingot_request *r, char id[INGOT_ID_SIZE]);
/* As ingot_next.  INGOT_FORMAT: the server broke a rule of HTTP or of event streams. */
enum ingot_code bench_http_next(struct bench_http *h, struct ingot_event *ev, uint32_t timeout_ms);

#endif
