/* What is known of one HTTP request and of its answer: the figures of the access log and of the metrics.
 *
 * gateway.c makes one for each request that reaches it and hangs it on the reply (http_reply_user); upstream.c adds the
 * coordinator's events; gateway.c gives it away when the answer has ended.  The loop's thread alone. */
#ifndef CLIENT_GATEWAY_REQUEST_LOG_H
#define CLIENT_GATEWAY_REQUEST_LOG_H

#include "client/gateway/http_server.h"
#include "client/lib/ingot.h"
#include "common/json/json_write.h"

enum {
    LOG_ID_SIZE = 129, /* of X-Request-Id and its NUL */
    TRACEPARENT_SIZE = 56,
    LOG_NAME_SIZE = 257, /* of a model or a key, and its NUL */
    LOG_MAX_BODY = 64 << 10,
    INGOT_N_REASONS = INGOT_REASON_FAILED + 1,
    STATUS_CLIENT_GONE = 499, /* logged where the client had gone before its answer began */
};

struct request_log {
    char id[LOG_ID_SIZE];               /* X-Request-Id: the client's, or made here */
    char traceparent[TRACEPARENT_SIZE]; /* as W3C has it; "": none came, or a malformed one */
    char key_id[LOG_NAME_SIZE];         /* never the key; "": no key */
    char model[LOG_NAME_SIZE];          /* as the client named it; "": not known */
    const char *method, *route;         /* route: the table's path, "other" for none of them */
    bool stream;
    int64_t time_ms;   /* since 1970, when it was there */
    uint64_t began_us; /* of clock_us, at the same moment */
    uint64_t body_bytes;
    char *body; /* [n_body] its beginning, with --log-prompts, else NULL */
    size_t n_body;
    /* of the coordinator, all prompts of the request together */
    uint32_t n_generates, n_finished;
    uint64_t prompt_tokens, cached_tokens, completion_tokens;
    uint32_t preemptions, recoveries;
    uint64_t queue_us,
        first_token_us; /* the longest wait for a first step; the soonest first token, 0: none */
    uint32_t reasons[INGOT_N_REASONS]; /* samples that ended so */
    enum ingot_code code;              /* of the Error that ended it; INGOT_OK: none */
};

/* Takes time, X-Request-Id and traceparent of the request, and sends both with the answer.  An X-Request-Id of other
 * than 1 to 128 visible ASCII characters is replaced.  NULL: no memory. */
struct request_log *request_log_begin(const struct http_request *q, struct http_reply *r,
                                      bool with_body);
void request_log_free(struct request_log *l); /* NULL is fine */

/* The model as the request names it, and how it wants its answer. */
void request_log_model(struct request_log *l, const char *model, bool stream);

/* Of a Generate that this request has sent. */
void request_log_event(struct request_log *l, const struct ingot_event *ev);

/* One line of JSON, ended by a newline.  l NULL: the server refused the request before it reached the gateway. */
MUST_CHECK enum status request_log_line(struct text_buf *out, const struct request_log *l,
                                        const struct http_outcome *o);

#endif
