/* HTTP for a hub, over libcurl: where a request goes, with which headers, and how its answer is judged.
 * Redirects are followed by the callers, so that the token goes to the hub alone.  One thread. */
#ifndef CLIENT_PULL_HUB_HTTP_H
#define CLIENT_PULL_HUB_HTTP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/text/text_buf.h"

enum { HTTP_URL_SIZE = 8192, HTTP_DIGEST_SIZE = 80, MAX_REDIRECTS = 10, MAX_FAILURES = 5 };

struct hub_http {
    const char *endpoint; /* "https://host", without a slash at its end */
    const char *token;    /* NULL: none */
    int64_t stall_s;      /* a connection without bytes for longer is broken */
};

/* One answer. */
struct http_answer {
    long status;                        /* 0: there was none */
    char next[HTTP_URL_SIZE];           /* of a redirect, absolute */
    char linked_etag[HTTP_DIGEST_SIZE]; /* X-Linked-ETag without quotes, of the hub alone; "" */
    bool has_range;
    uint64_t range_at, range_size; /* Content-Range: first byte, size of the whole file */
    int64_t retry_after_s;         /* -1: none */
};

/* Checks the endpoint. */
MUST_CHECK enum status http_init(struct hub_http *h, const char *endpoint, const char *token,
                                 int64_t stall_s);

typedef size_t http_write(char *data, size_t size, size_t n, void *context);

/* A request for url, ready to be added to a multi handle.  *headers is freed by http_free after the
 * request.  range: "0-99", or NULL.  a gets the headers; write the body, also that of a refusal. */
MUST_CHECK enum status http_begin(CURL **out, struct curl_slist **headers, const struct hub_http *h,
                                  const char *url, const char *range, struct http_answer *a,
                                  http_write *write, void *context);
void http_free(CURL *easy, struct curl_slist *headers);

/* After its end: fills status, next and retry_after_s. */
void http_answered(CURL *easy, struct http_answer *a);

/* The judgement of an end that gave no body: */
enum http_verdict {
    HTTP_GOOD,     /* 2xx, and everything came */
    HTTP_REDIRECT, /* to a->next, which http_begin checks */
    HTTP_AGAIN,    /* a broken connection or a busy server: try again after http_wait_us */
    HTTP_REFUSED,  /* for good: http_refuse says why */
};
enum http_verdict http_judge(CURLcode code, const struct http_answer *a);

/* How long to wait before try n (0: the first one again): what the server asks for, else ever longer. */
uint64_t http_wait_us(const struct http_answer *a, int n);

/* Why the server refused, for subject ("ORG/NAME"). */
MUST_CHECK enum status http_refuse(const struct hub_http *h, CURLcode code,
                                   const struct http_answer *a, const char *subject);

/* Where the request goes next; from: where it went.  ST_PEER: no redirect that may be followed. */
MUST_CHECK enum status http_redirect(const char *from, const struct http_answer *a,
                                     char url[HTTP_URL_SIZE]);

/* The whole body of url, at most max bytes, with redirects and new tries. */
MUST_CHECK enum status http_get(const struct hub_http *h, const char *url, const char *subject,
                                size_t max, struct text_buf *body);

/* Appends text as a part of a URL's path: all but letters, digits and "-._~" is escaped, and slashes
 * where slash is false. */
MUST_CHECK enum status http_url_add(char url[HTTP_URL_SIZE], const char *text, bool slash);

#endif
