#include "client/pull/hub_http.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client/pull/stop.h"
#include "common/clock.h"

enum { CONNECT_S = 30, FIRST_WAIT_MS = 250, LONGEST_WAIT_MS = 10000, LONGEST_ASKED_S = 3600 };

/* ---- URLs ---- */

/* scheme://host:port of a URL; false: it has none of http and https. */
static bool origin_of(const char *url, char *out, size_t size)
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    CURLU *u = curl_url();
    bool ok = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
              (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0);
    if (ok) {
        int n = snprintf(out, size, "%s://%s:%s", scheme, host, port);
        ok = n > 0 && (size_t)n < size;
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
    return ok;
}

/* The same scheme, host and port. */
static bool same_origin(const char *a, const char *b)
{
    char of_a[512], of_b[512];
    return origin_of(a, of_a, sizeof of_a) && origin_of(b, of_b, sizeof of_b) &&
           strcasecmp(of_a, of_b) == 0;
}

enum status http_url_add(char url[HTTP_URL_SIZE], const char *text, bool slash)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    size_t n = strlen(url);
    for (; *text; text++) {
        if (n + 4 > HTTP_URL_SIZE)
            FAIL(ST_RANGE, "a URL is too long");
        if (strchr(plain, *text) || (*text == '/' && slash))
            url[n++] = *text;
        else
            n += (size_t)snprintf(url + n, 4, "%%%02X", (unsigned)(unsigned char)*text);
    }
    url[n] = '\0';
    return ST_OK;
}

enum status http_redirect(const char *from, const struct http_answer *a, char url[HTTP_URL_SIZE])
{
    char origin[512];
    if (!origin_of(a->next, origin, sizeof origin))
        FAIL(ST_PEER, "%s redirects to no HTTP address", from);
    if (strncasecmp(from, "https:", 6) == 0 && strncasecmp(a->next, "https:", 6) != 0)
        FAIL(ST_PEER, "%s redirects to an address without encryption", from);
    memcpy(url, a->next, sizeof a->next);
    return ST_OK;
}

/* ---- one request ---- */

enum status http_init(struct hub_http *h, const char *endpoint, const char *token, int64_t stall_s)
{
    char origin[512];
    if (!origin_of(endpoint, origin, sizeof origin))
        FAIL(ST_RANGE, "'%s' is not the http or https address of a hub", endpoint);
    *h = (struct hub_http){.endpoint = endpoint, .token = token, .stall_s = stall_s};
    return ST_OK;
}

/* The value of a header without blanks and a newline; NULL: it is another one. */
static const char *value_of(const char *line, size_t n, const char *name, size_t *len)
{
    size_t m = strlen(name);
    if (n <= m || strncasecmp(line, name, m) != 0 || line[m] != ':')
        return NULL;
    const char *v = line + m + 1, *end = line + n;
    while (v < end && (*v == ' ' || *v == '\t'))
        v++;
    while (end > v && strchr(" \t\r\n", end[-1]))
        end--;
    *len = (size_t)(end - v);
    return v;
}

static void take_etag(const char *v, size_t n, char out[HTTP_DIGEST_SIZE])
{
    if (n > 2 && strncmp(v, "W/", 2) == 0) {
        v += 2;
        n -= 2;
    }
    if (n >= 2 && v[0] == '"' && v[n - 1] == '"') {
        v++;
        n -= 2;
    }
    snprintf(out, HTTP_DIGEST_SIZE, "%.*s", (int)(n < HTTP_DIGEST_SIZE ? n : 0), v);
}

static size_t on_header(char *data, size_t size, size_t n, void *context)
{
    struct http_answer *a = context;
    const char *v;
    size_t len;
    char text[128];
    n *= size;
    if ((v = value_of(data, n, "X-Linked-ETag", &len)))
        take_etag(v, len, a->linked_etag);
    if ((v = value_of(data, n, "Content-Range", &len)) && len < sizeof text) {
        memcpy(text, v, len);
        text[len] = '\0';
        a->has_range =
            sscanf(text, "bytes %" SCNu64 "-%*u/%" SCNu64, &a->range_at, &a->range_size) == 2;
    }
    return n;
}

static enum status set_protocols(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    CURLcode code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    CURLcode code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
    if (code != CURLE_OK)
        FAIL(ST_UNSUPPORTED, "this libcurl cannot do HTTPS");
    return ST_OK;
}

enum status http_begin(CURL **out, struct curl_slist **headers, const struct hub_http *h,
                       const char *url, const char *range, struct http_answer *a, http_write *write,
                       void *context)
{
    char line[1024];
    CURL *easy = curl_easy_init();
    *headers = NULL;
    *a = (struct http_answer){.retry_after_s = -1};
    if (!easy)
        FAIL(ST_NOMEM, "no memory for a request");
    enum status st = set_protocols(easy);
    if (st != ST_OK) {
        curl_easy_cleanup(easy);
        return st;
    }
    if (h->token && same_origin(url, h->endpoint)) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", h->token);
        *headers = curl_slist_append(NULL, line);
    }
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "ingot/" INGOT_VERSION);
    curl_easy_setopt(easy, CURLOPT_RANGE, range);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)h->stall_s);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, a);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, write);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, context);
    *out = easy;
    return ST_OK;
}

void http_free(CURL *easy, struct curl_slist *headers)
{
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
}

void http_answered(CURL *easy, struct http_answer *a)
{
    char *next = NULL;
    curl_off_t wait = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &a->status);
    curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &next);
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &wait);
    if (next && strlen(next) < sizeof a->next)
        memcpy(a->next, next, strlen(next) + 1);
    if (wait > 0)
        a->retry_after_s = wait;
}

/* ---- answers ---- */

enum http_verdict http_judge(CURLcode code, const struct http_answer *a)
{
    switch (a->status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
        return HTTP_REDIRECT;
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
        return HTTP_AGAIN;
    default:
        break;
    }
    if (a->status >= 400)
        return HTTP_REFUSED;
    switch (code) {
    case CURLE_OK:
        return a->status >= 200 && a->status < 300 ? HTTP_GOOD : HTTP_REFUSED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
        return HTTP_AGAIN;
    default:
        return HTTP_REFUSED;
    }
}

uint64_t http_wait_us(const struct http_answer *a, int n)
{
    uint64_t ms = (uint64_t)FIRST_WAIT_MS << (n < 8 ? n : 8);
    if (a->retry_after_s >= 0)
        return 1000000U *
               (uint64_t)(a->retry_after_s < LONGEST_ASKED_S ? a->retry_after_s : LONGEST_ASKED_S);
    return 1000U * (ms < LONGEST_WAIT_MS ? ms : LONGEST_WAIT_MS);
}

enum status http_refuse(const struct hub_http *h, CURLcode code, const struct http_answer *a,
                        const char *subject)
{
    switch (a->status) {
    case 401:
        if (h->token)
            FAIL(ST_UNSUPPORTED,
                 "%s: the hub does not accept the token for it, or has no such model", subject);
        FAIL(ST_UNSUPPORTED,
             "%s: the hub asks for a token, or has no such model: set HF_TOKEN, or put the token "
             "into the cache's token file",
             subject);
    case 403:
        FAIL(ST_UNSUPPORTED,
             "%s: the hub refuses access: accept the model's terms on its page %s/%s%s", subject,
             h->endpoint, subject,
             h->token ? ", or use the token of an account that has" : " and set HF_TOKEN");
    case 404:
        FAIL(ST_NOT_FOUND, "%s: the hub has no such model, revision or file", subject);
    case 429:
        FAIL(ST_BUSY, "%s: the hub's rate limit is reached, after %d tries", subject, MAX_FAILURES);
    default:
        break;
    }
    if (a->status >= 300 || (a->status && code == CURLE_OK))
        FAIL(ST_PEER, "%s: the hub answers with HTTP status %ld", subject, a->status);
    FAIL(ST_PEER, "%s: no connection to the hub, or it breaks: %s", subject,
         curl_easy_strerror(code));
}

/* ---- a whole body ---- */

struct body {
    struct text_buf *out;
    size_t max;
    bool too_long;
};

static size_t on_body(char *data, size_t size, size_t n, void *context)
{
    struct body *b = context;
    n *= size;
    b->too_long = b->out->len + n > b->max;
    return b->too_long || text_buf_append(b->out, data, n) != ST_OK ? 0 : n;
}

enum status http_get(const struct hub_http *h, const char *url, const char *subject, size_t max,
                     struct text_buf *body)
{
    struct http_answer a;
    char at[HTTP_URL_SIZE];
    if (snprintf(at, sizeof at, "%s", url) >= (int)sizeof at)
        FAIL(ST_RANGE, "a URL is too long");
    for (int failures = 0, redirects = 0;;) {
        struct body b = {.out = body, .max = max};
        struct curl_slist *headers;
        CURL *easy;
        body->len = 0;
        TRY(http_begin(&easy, &headers, h, at, NULL, &a, on_body, &b));
        CURLcode code = curl_easy_perform(easy);
        http_answered(easy, &a);
        http_free(easy, headers);
        if (b.too_long && a.status < 300)
            FAIL(ST_PEER, "%s: the hub's answer is longer than %zu bytes", subject, max);
        enum http_verdict verdict = http_judge(code, &a);
        if (verdict == HTTP_GOOD)
            return ST_OK;
        if (verdict == HTTP_REDIRECT && redirects++ < MAX_REDIRECTS)
            TRY(http_redirect(at, &a, at));
        else if (verdict == HTTP_AGAIN && failures < MAX_FAILURES)
            TRY(stop_sleep(http_wait_us(&a, failures++), a.status == 429 ? subject : NULL));
        else
            return http_refuse(h, code, &a, subject);
    }
}
