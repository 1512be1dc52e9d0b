#include "client/cli/bench_http.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/json/json_read.h"

#ifndef MSG_NOSIGNAL /* macOS: there SIGPIPE ends the program */
#define MSG_NOSIGNAL 0
#endif

enum { READ_BYTES = 1 << 16, MAX_HEAD = 1 << 14, MAX_PIECE = 1 << 24, MAX_PART = 512 };

enum phase { PHASE_IDLE, PHASE_HEAD, PHASE_CHUNKS, PHASE_BODY };

struct stream {
    int fd;
    enum phase phase;
    int status;
    bool last;          /* the server ends the connection after the answer */
    bool told, done;    /* told: its end was given; done: [DONE] has come */
    size_t left;        /* of a body with a length */
    struct text_buf in; /* as it came; at: parsed to there */
    size_t at;
    struct text_buf body; /* chunks without their frames; body_at: given to there */
    size_t body_at;
    struct text_buf text; /* of the event */
    char id[INGOT_ID_SIZE];
    uint32_t seq;
    struct ingot_event end; /* what is known of the end so far */
    struct ingot_sample_end sample;
};

struct bench_http {
    char authority[MAX_PART], host[MAX_PART], port[16], path[MAX_PART];
    const char *model, *key;
    struct stream *streams; /* [n] */
    struct pollfd *polls;   /* [n] */
    size_t n, next;         /* next: the stream that is looked at next */
    uint64_t serial;
    struct text_buf request;
    char detail[MAX_PART];
};

/* ---- connecting ---- */

/* http://HOST[:PORT][/PATH]; HOST may be [::1] */
static enum status parse_url(struct bench_http *h, const char *url)
{
    static const char scheme[] = "http://";
    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        FAIL(ST_RANGE, "%s: the URL begins with http:// (TLS is not measured)", url);
    const char *host = url + sizeof scheme - 1, *end = host + strcspn(host, "/");
    snprintf(h->authority, sizeof h->authority, "%.*s", (int)(end - host), host);
    const char *host_end = *host == '[' ? memchr(host, ']', (size_t)(end - host))
                                        : memchr(host, ':', (size_t)(end - host));
    if (*host == '[' ? !host_end : host == end)
        FAIL(ST_RANGE, "%s: not http://HOST:PORT", url);
    host += *host == '[';
    if (!host_end)
        host_end = end;
    const char *port = host_end + (*host_end == ']');
    int n_port = *port == ':' ? (int)(end - port - 1) : 2;
    if (host_end == host || host_end - host >= MAX_PART || n_port < 1 || n_port > 5 ||
        strlen(end) >= MAX_PART - 32)
        FAIL(ST_RANGE, "%s: not http://HOST:PORT", url);
    snprintf(h->host, sizeof h->host, "%.*s", (int)(host_end - host), host);
    snprintf(h->port, sizeof h->port, "%.*s", n_port, *port == ':' ? port + 1 : "80");
    snprintf(h->path, sizeof h->path, "%.*s", (int)strcspn(end, "?#"), end);
    while (*h->path && h->path[strlen(h->path) - 1] == '/')
        h->path[strlen(h->path) - 1] = '\0';
    return ST_OK;
}

static enum status connect_stream(const struct bench_http *h, struct stream *s)
{
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int on = 1, why = getaddrinfo(h->host, h->port, &want, &list);
    if (why != 0)
        FAIL(ST_IO, "%s: %s", h->host, gai_strerror(why));
    for (const struct addrinfo *a = list; a && s->fd < 0; a = a->ai_next) {
        s->fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (s->fd >= 0 && connect(s->fd, a->ai_addr, a->ai_addrlen) != 0) {
            why = errno;
            close(s->fd);
            s->fd = -1;
        }
    }
    freeaddrinfo(list);
    if (s->fd < 0)
        FAIL(ST_IO, "cannot connect to %s:%s: %s", h->host, h->port, strerror(why));
    (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return ST_OK;
}

static enum status connect_again(const struct bench_http *h, struct stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->last = false;
    s->at = s->in.len = 0;
    return connect_stream(h, s);
}

static enum status open_streams(struct bench_http *h, const struct bench_http_options *o, size_t n)
{
    h->model = o->model;
    h->key = o->key;
    TRY(parse_url(h, o->url));
    h->streams = calloc(n, sizeof *h->streams);
    h->polls = calloc(n, sizeof *h->polls);
    if (!h->streams || !h->polls)
        FAIL(ST_NOMEM, "no memory for %zu streams", n);
    for (; h->n < n; h->n++) {
        h->streams[h->n].fd = -1;
        TRY(connect_stream(h, &h->streams[h->n]));
    }
    return ST_OK;
}

enum ingot_code bench_http_open(struct bench_http **out, const struct bench_http_options *o,
                                size_t n)
{
    struct bench_http *h = calloc(1, sizeof *h);
    *out = NULL;
    if (!h)
        return INGOT_OUT_OF_MEMORY;
    enum status st = open_streams(h, o, n);
    if (st != ST_OK)
        bench_http_close(h);
    else
        *out = h;
    return (enum ingot_code)st;
}

void bench_http_close(struct bench_http *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n; i++) {
        struct stream *s = &h->streams[i];
        if (s->fd >= 0)
            close(s->fd);
        text_buf_free(&s->in);
        text_buf_free(&s->body);
        text_buf_free(&s->text);
    }
    text_buf_free(&h->request);
    free(h->streams);
    free(h->polls);
    free(h);
}

/* ---- requests ---- */

static enum status put(struct text_buf *b, const char *text)
{
    return text_buf_append(b, text, strlen(text));
}

static enum status write_body(const struct bench_http *h, struct text_buf *b,
                              const struct ingot_request *r)
{
    char text[2 * MAX_PART];
    TRY(put(b, "{\"prompt\":["));
    for (size_t i = 0; i < r->n_ids; i++) {
        snprintf(text, sizeof text, "%s%" PRId32, i ? "," : "", r->ids[i]);
        TRY(put(b, text));
    }
    snprintf(text, sizeof text,
             "],\"max_tokens\":%" PRIu32 ",\"temperature\":%.9g,\"seed\":%" PRIu64
             ",\"ignore_eos\":%s,\"stream\":true,\"stream_options\":{\"include_usage\":true}",
             r->max_tokens, (double)r->temperature, r->seed, r->ignore_eos ? "true" : "false");
    TRY(put(b, text));
    if (h->model) { /* a name with quotes is refused by the server as bad JSON */
        snprintf(text, sizeof text, ",\"model\":\"%s\"", h->model);
        TRY(put(b, text));
    }
    return put(b, "}");
}

static enum status write_request(struct bench_http *h, const struct ingot_request *r)
{
    struct text_buf body = {0};
    char head[4 * MAX_PART];
    enum status st = write_body(h, &body, r);
    int n = snprintf(head, sizeof head,
                     "POST %s/v1/completions HTTP/1.1\r\nHost: %s\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n%s%s%s\r\n",
                     h->path, h->authority, body.len, h->key ? "Authorization: Bearer " : "",
                     h->key ? h->key : "", h->key ? "\r\n" : "");
    h->request.len = 0;
    if (n < 0 || (size_t)n >= sizeof head)
        st = ST_RANGE;
    if (st == ST_OK)
        st = text_buf_append(&h->request, head, (size_t)n);
    if (st == ST_OK)
        st = text_buf_append(&h->request, body.data, body.len);
    text_buf_free(&body);
    return st;
}

static enum status send_all(const struct stream *s, const struct text_buf *b)
{
    for (size_t at = 0; at < b->len;) {
        ssize_t n = send(s->fd, b->data + at, b->len - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            FAIL(ST_IO, "cannot send: %s", strerror(errno));
        at += n > 0 ? (size_t)n : 0;
    }
    return ST_OK;
}

enum ingot_code bench_http_generate(struct bench_http *h, size_t stream,
                                    const struct ingot_request *r, char id[INGOT_ID_SIZE])
{
    struct stream *s = &h->streams[stream];
    enum status st = s->fd < 0 || s->last ? connect_again(h, s) : ST_OK;
    if (st != ST_OK)
        return (enum ingot_code)st;
    snprintf(s->id, sizeof s->id, "h%zu-%" PRIu64, stream, ++h->serial);
    memcpy(id, s->id, sizeof s->id);
    s->phase = PHASE_HEAD;
    s->status = 0;
    s->told = s->done = false;
    s->seq = 0;
    s->body.len = s->body_at = 0;
    s->sample = (struct ingot_sample_end){.reason = INGOT_REASON_NONE, .stop_id = -1};
    s->end = (struct ingot_event){.kind = INGOT_EVENT_FINISH, .request_id = s->id};
    st = write_request(h, r);
    if (st == ST_OK)
        st = send_all(s, &h->request);
    return (enum ingot_code)st;
}

/* ---- what comes ---- */

static enum status receive(struct stream *s)
{
    char bytes[READ_BYTES];
    ssize_t n = recv(s->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return ST_OK;
    if (n <= 0 && s->phase == PHASE_IDLE) {
        close(s->fd);
        s->fd = -1;
        return ST_OK;
    }
    if (n <= 0)
        FAIL(ST_PEER, "the server closed a connection in the middle of an answer");
    if (s->phase == PHASE_IDLE)
        FAIL(ST_FORMAT, "the server sent %zd bytes after an answer", n);
    if (s->at == s->in.len)
        s->at = s->in.len = 0;
    return text_buf_append(&s->in, bytes, (size_t)n);
}

/* A line of `in` without its CRLF; NULL: it is not there yet.  It ends with NUL. */
static enum status take_line(struct stream *s, char **line)
{
    char *begin = s->in.data + s->at;
    char *end = memchr(begin, '\n', s->in.len - s->at);
    *line = NULL;
    if (!end && s->in.len - s->at > MAX_HEAD)
        FAIL(ST_FORMAT, "a line of more than %d bytes", MAX_HEAD);
    if (!end)
        return ST_OK;
    if (end == begin || end[-1] != '\r')
        FAIL(ST_FORMAT, "a line that does not end with CRLF");
    end[-1] = '\0';
    s->at = (size_t)(end + 1 - s->in.data);
    *line = begin;
    return ST_OK;
}

static enum status take_header(struct stream *s, const char *line)
{
    static const char stream_type[] = "content-type: text/event-stream",
                      chunked[] = "transfer-encoding: chunked", length[] = "content-length: ";
    if (strcasecmp(line, "connection: close") == 0)
        s->last = true;
    else if (strcasecmp(line, chunked) == 0)
        s->phase = PHASE_CHUNKS;
    else if (strncasecmp(line, length, sizeof length - 1) == 0)
        s->left = (size_t)strtoull(line + sizeof length - 1, NULL, 10);
    else if (strncasecmp(line, stream_type, 14) == 0 && s->status == 200 &&
             strncasecmp(line, stream_type, sizeof stream_type - 1) != 0)
        FAIL(ST_FORMAT, "the answer is no event stream: %s", line);
    return s->left > MAX_PIECE ? ST_RANGE : ST_OK;
}

/* Waits for the whole head, so that no line is parsed twice. */
static enum status take_head(struct stream *s)
{
    char *line, *from = s->in.data + s->at;
    size_t n = s->in.len - s->at;
    bool whole = false;
    for (size_t i = 3; i < n && !whole; i++)
        whole = memcmp(from + i - 3, "\r\n\r\n", 4) == 0;
    if (!whole)
        return n > MAX_HEAD ? ST_RANGE : ST_OK;
    TRY(take_line(s, &line));
    if (!line || sscanf(line, "HTTP/1.1 %3d ", &s->status) != 1)
        FAIL(ST_FORMAT, "no answer of HTTP/1.1: %s", line ? line : "");
    s->phase = PHASE_BODY;
    s->left = 0;
    for (;;) {
        TRY(take_line(s, &line));
        if (!line || !*line)
            break;
        TRY(take_header(s, line));
    }
    if (s->status == 200 && s->phase != PHASE_CHUNKS)
        FAIL(ST_FORMAT, "a stream that is not chunked");
    return ST_OK;
}

/* Takes one chunk when all of it is there. */
static enum status take_chunk(struct stream *s, bool *more)
{
    size_t begin = s->at;
    char *line, *end;
    *more = false;
    TRY(take_line(s, &line));
    if (!line)
        return ST_OK;
    size_t n = (size_t)strtoull(line, &end, 16);
    if (end == line || *end || n > MAX_PIECE)
        FAIL(ST_FORMAT, "a chunk of size '%s'", line);
    if (s->in.len - s->at < n + 2) {
        line[strlen(line)] = '\r'; /* to be read again */
        s->at = begin;
        return ST_OK;
    }
    if (memcmp(s->in.data + s->at + n, "\r\n", 2) != 0)
        FAIL(ST_FORMAT, "a chunk that does not end with CRLF");
    TRY(text_buf_append(&s->body, s->in.data + s->at, n));
    s->at += n + 2;
    *more = n > 0;
    if (n == 0)
        s->phase = PHASE_IDLE;
    return ST_OK;
}

static enum status take_body(struct stream *s)
{
    size_t n = s->in.len - s->at < s->left ? s->in.len - s->at : s->left;
    TRY(text_buf_append(&s->body, s->in.data + s->at, n));
    s->at += n;
    s->left -= n;
    if (s->left == 0)
        s->phase = PHASE_IDLE;
    return ST_OK;
}

static enum status take_bytes(struct stream *s)
{
    if (s->phase == PHASE_HEAD)
        TRY(take_head(s));
    if (s->phase == PHASE_BODY)
        return take_body(s);
    for (bool more = s->phase == PHASE_CHUNKS; more;)
        TRY(take_chunk(s, &more));
    return ST_OK;
}

/* ---- events of a stream ---- */

static enum status read_usage(struct stream *s, struct json_cursor *c)
{
    struct json_span key;
    uint64_t n;
    if (json_take_null(c))
        return ST_OK;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_span_is(key, "prompt_tokens")) {
            TRY(json_read_u64(c, 0, UINT32_MAX, &n));
            s->end.prompt_tokens = (uint32_t)n;
        } else if (json_span_is(key, "completion_tokens")) {
            TRY(json_read_u64(c, 0, UINT32_MAX, &n));
            s->end.completion_tokens = (uint32_t)n;
        } else if (json_span_is(key, "prompt_tokens_details") && !json_take_null(c)) {
            TRY(json_enter_object(c));
            while (json_next_key(c, &key))
                if (json_span_is(key, "cached_tokens") && !json_take_null(c)) {
                    TRY(json_read_u64(c, 0, UINT32_MAX, &n));
                    s->end.cached_tokens = (uint32_t)n;
                }
        }
    }
    return ST_OK;
}

static enum status read_choice(struct stream *s, struct json_cursor *c)
{
    static const char *const reasons[] = {"length", "stop"};
    struct json_span key;
    size_t i;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "text")) {
            TRY(json_read_string(c, &s->text));
        } else if (json_span_is(key, "finish_reason")) {
            TRY(json_read_choice(c, reasons, ARRAY_LEN(reasons), &i));
            if (s->end.n_samples++)
                return json_fail(c, ST_FORMAT, "the second one of an answer");
            s->sample.reason = i ? INGOT_REASON_EOS : INGOT_REASON_LENGTH;
        }
    }
    return ST_OK;
}

static enum status read_error(struct stream *s, struct json_cursor *c)
{
    struct json_span key;
    s->end.kind = INGOT_EVENT_ERROR;
    s->text.len = 0;
    if (json_peek(c) != JSON_OBJECT)
        return ST_OK;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key))
        if (json_span_is(key, "message") && json_peek(c) == JSON_STRING)
            TRY(json_read_string(c, &s->text));
    return ST_OK;
}

static enum status read_event(struct stream *s, const char *data, size_t n)
{
    struct json_cursor c;
    struct json_span key;
    s->text.len = 0;
    TRY(json_open(&c, data, n, NULL));
    TRY(json_enter_object(&c));
    while (json_next_key(&c, &key)) {
        if (json_span_is(key, "choices")) {
            TRY(json_enter_array(&c));
            while (json_next_item(&c))
                TRY(read_choice(s, &c));
        } else if (json_span_is(key, "usage")) {
            TRY(read_usage(s, &c));
        } else if (json_span_is(key, "error")) {
            TRY(read_error(s, &c));
        }
    }
    return ST_OK;
}

/* The next event that is whole.  *got: it is of interest. */
static enum status take_event(struct bench_http *h, struct stream *s, struct ingot_event *ev,
                              bool *got)
{
    static const char data[] = "data: ", done[] = "[DONE]";
    while (s->body_at < s->body.len) {
        char *begin = s->body.data + s->body_at, *end = NULL;
        size_t n = s->body.len - s->body_at;
        for (size_t i = 1; i < n && !end; i++)
            if (begin[i] == '\n' && begin[i - 1] == '\n')
                end = begin + i - 1;
        if (!end)
            return ST_OK;
        s->body_at += (size_t)(end - begin) + 2;
        if (*begin == ':')
            continue;
        size_t len = (size_t)(end - begin), skip = sizeof data - 1;
        if (s->done || len < skip || memcmp(begin, data, skip) != 0 || memchr(begin, '\n', len))
            FAIL(ST_FORMAT, "an event that is not one line 'data: ...', or comes after [DONE]");
        s->done = len - skip == sizeof done - 1 && memcmp(begin + skip, done, sizeof done - 1) == 0;
        if (s->done)
            continue;
        TRY(read_event(s, begin + skip, len - skip));
        if (s->end.kind == INGOT_EVENT_ERROR) {
            snprintf(h->detail, sizeof h->detail, "%.*s", (int)s->text.len,
                     s->text.len ? s->text.data : "");
        } else if (s->text.len) {
            *ev = (struct ingot_event){.kind = INGOT_EVENT_DELTA,
                                       .request_id = s->id,
                                       .seq = s->seq++,
                                       .n_ids = 1,
                                       .text = s->text.data,
                                       .n_text = s->text.len};
            *got = true;
            return ST_OK;
        }
    }
    s->body.len = s->body_at = 0;
    return ST_OK;
}

/* The answer has ended. */
static enum status give_end(struct bench_http *h, struct stream *s, struct ingot_event *ev)
{
    s->told = true;
    if (s->status == 200 && (!s->done || s->body_at < s->body.len))
        FAIL(ST_FORMAT, "a stream without [DONE]");
    if (s->at < s->in.len)
        FAIL(ST_FORMAT, "the server sent %zu bytes after an answer", s->in.len - s->at);
    *ev = s->end;
    if (s->status != 200) {
        ev->kind = INGOT_EVENT_ERROR;
        if (s->body.len == 0 || read_event(s, s->body.data, s->body.len) != ST_OK)
            s->text.len = 0;
        snprintf(h->detail, sizeof h->detail, "HTTP status %d: %.*s", s->status, (int)s->text.len,
                 s->text.len ? s->text.data : "");
        ev->rejected = true;
        ev->retryable = s->status == 429 || s->status == 503;
    }
    ev->detail = h->detail;
    ev->field = "";
    s->sample.completion_tokens = ev->completion_tokens;
    ev->samples = &s->sample;
    return ST_OK;
}

/* Of what has been received already. */
static enum status next_of(struct bench_http *h, struct stream *s, struct ingot_event *ev,
                           bool *got)
{
    if (s->told || !*s->id)
        return ST_OK;
    if (s->phase != PHASE_IDLE)
        TRY(take_bytes(s));
    if (s->status == 200)
        TRY(take_event(h, s, ev, got));
    if (*got || s->phase != PHASE_IDLE)
        return ST_OK;
    *got = true;
    return give_end(h, s, ev);
}

static enum status wait_bytes(struct bench_http *h, uint32_t timeout_ms)
{
    for (size_t i = 0; i < h->n; i++)
        h->polls[i] = (struct pollfd){.fd = h->streams[i].fd, .events = POLLIN};
    int n = poll(h->polls, (nfds_t)h->n, (int)timeout_ms);
    if (n < 0 && errno != EINTR)
        FAIL(ST_IO, "waiting for answers: %s", strerror(errno));
    if (n < 0)
        return ST_CANCELED;
    if (n == 0)
        return ST_TIMEOUT;
    for (size_t i = 0; i < h->n; i++)
        if (h->polls[i].revents)
            TRY(receive(&h->streams[i]));
    h->next = 0;
    return ST_OK;
}

static enum status next_event(struct bench_http *h, struct ingot_event *ev, uint32_t timeout_ms)
{
    for (;;) {
        bool got = false;
        for (; h->next < h->n; h->next++) {
            TRY(next_of(h, &h->streams[h->next], ev, &got));
            if (got)
                return ST_OK;
        }
        TRY(wait_bytes(h, timeout_ms));
    }
}

enum ingot_code bench_http_next(struct bench_http *h, struct ingot_event *ev, uint32_t timeout_ms)
{
    return (enum ingot_code)next_event(h, ev, timeout_ms);
}
