#include "client/gateway/request_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/hex.h"
#include "common/random.h"
#include "common/visible.h"

enum { MADE_ID_BYTES = 16, TRACE_ID_AT = 3, TRACE_ID_LEN = 32 };

static int64_t wall_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- headers ---- */

static bool is_good_id(const char *id)
{
    size_t n = strlen(id);
    for (size_t i = 0; i < n; i++)
        if (id[i] < 0x21 || id[i] > 0x7e)
            return false;
    return n >= 1 && n < LOG_ID_SIZE;
}

static void take_id(struct request_log *l, const char *given)
{
    uint8_t bytes[MADE_ID_BYTES];
    if (given && is_good_id(given)) {
        snprintf(l->id, sizeof l->id, "%s", given);
        return;
    }
    random_bytes(bytes, sizeof bytes);
    hex_of(bytes, sizeof bytes, l->id);
}

/* n lower-case hexadecimal digits, not all of them 0 unless zeros are allowed */
static bool is_hex(const char *p, size_t n, bool zeros)
{
    return strspn(p, "0123456789abcdef") >= n && (zeros || strspn(p, "0") < n);
}

/* version-trace-parent-flags (W3C Trace Context, level 1): a later version may have more after a dash. */
static bool is_traceparent(const char *p)
{
    return strlen(p) >= 55 && is_hex(p, 2, true) && strncmp(p, "ff", 2) != 0 && p[2] == '-' &&
           is_hex(p + 3, 32, false) && p[35] == '-' && is_hex(p + 36, 16, false) && p[52] == '-' &&
           is_hex(p + 53, 2, true) && (p[55] == '\0' || (p[55] == '-' && strncmp(p, "00", 2) != 0));
}

struct request_log *request_log_begin(const struct http_request *q, struct http_reply *r,
                                      bool with_body)
{
    struct request_log *l = calloc(1, sizeof *l);
    const char *trace = http_request_header(q, "traceparent");
    if (!l)
        return NULL;
    l->time_ms = wall_ms();
    l->began_us = clock_us();
    l->method = http_method_name(q->method);
    l->route = "other";
    l->body_bytes = q->n_body;
    take_id(l, http_request_header(q, "x-request-id"));
    http_reply_header(r, "X-Request-Id", l->id);
    if (trace && is_traceparent(trace)) {
        memcpy(l->traceparent, trace, sizeof l->traceparent - 1);
        http_reply_header(r, "traceparent", l->traceparent);
    }
    if (with_body && q->n_body) {
        l->n_body = q->n_body < LOG_MAX_BODY ? q->n_body : LOG_MAX_BODY;
        l->body = malloc(l->n_body);
        if (l->body)
            memcpy(l->body, q->body, l->n_body);
    }
    return l;
}

void request_log_free(struct request_log *l)
{
    if (!l)
        return;
    free(l->body);
    free(l);
}

/* ---- figures ---- */

void request_log_model(struct request_log *l, const char *model, bool stream)
{
    snprintf(l->model, sizeof l->model, "%s", model);
    l->stream = stream;
}

void request_log_event(struct request_log *l, const struct ingot_event *ev)
{
    if (ev->kind == INGOT_EVENT_ERROR)
        l->code = ev->code;
    if (ev->kind != INGOT_EVENT_FINISH)
        return;
    l->n_finished++;
    l->prompt_tokens += ev->prompt_tokens;
    l->cached_tokens += ev->cached_tokens;
    l->completion_tokens += ev->completion_tokens;
    l->preemptions += ev->preemptions;
    l->recoveries += ev->recoveries;
    if (ev->queue_us > l->queue_us)
        l->queue_us = ev->queue_us;
    if (ev->first_token_us && (!l->first_token_us || ev->first_token_us < l->first_token_us))
        l->first_token_us = ev->first_token_us;
    for (uint32_t i = 0; i < ev->n_samples; i++)
        if ((int)ev->samples[i].reason < INGOT_N_REASONS)
            l->reasons[ev->samples[i].reason]++;
}

/* ---- the line ---- */

static void member_text(struct json_writer *w, const char *key, const char *text)
{
    if (text && *text)
        json_member_string(w, key, text);
    else
        json_member_null(w, key);
}

static void member_ms(struct json_writer *w, const char *key, uint64_t us)
{
    json_write_key(w, key);
    json_write_f64(w, (double)us / 1000);
}

/* "2026-11-22T23:04:05.678Z" */
static void member_time(struct json_writer *w, int64_t ms)
{
    char text[40], whole[32];
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    if (!gmtime_r(&s, &tm) || !strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &tm))
        whole[0] = '\0';
    snprintf(text, sizeof text, "%s.%03dZ", whole, (int)(ms % 1000));
    json_member_string(w, "time", text);
}

static void member_reasons(struct json_writer *w, const struct request_log *l)
{
    json_write_key(w, "finish");
    json_write_object(w);
    for (int i = 0; i < INGOT_N_REASONS; i++)
        if (l->reasons[i])
            json_member_u64(w, ingot_reason_name((enum ingot_reason)i), l->reasons[i]);
    json_write_end_object(w);
}

static void write_request(struct json_writer *w, const struct request_log *l)
{
    char trace_id[TRACE_ID_LEN + 1] = "";
    if (*l->traceparent)
        snprintf(trace_id, sizeof trace_id, "%.*s", TRACE_ID_LEN, l->traceparent + TRACE_ID_AT);
    json_member_string(w, "id", l->id);
    member_text(w, "trace", trace_id);
    member_text(w, "key", l->key_id);
    json_member_string(w, "method", l->method);
    json_member_string(w, "route", l->route);
    member_text(w, "model", l->model);
    json_member_bool(w, "stream", l->stream);
    json_member_u64(w, "bytes_in", l->body_bytes);
    member_ms(w, "total_ms", clock_us() - l->began_us);
    if (l->body) {
        json_write_key(w, "body");
        json_write_bytes(w, l->body, l->n_body);
    }
    if (!l->n_generates)
        return;
    member_reasons(w, l);
    json_member_u64(w, "prompt_tokens", l->prompt_tokens);
    json_member_u64(w, "cached_tokens", l->cached_tokens);
    json_member_u64(w, "completion_tokens", l->completion_tokens);
    member_ms(w, "queue_ms", l->queue_us);
    member_ms(w, "first_token_ms", l->first_token_us);
    json_member_u64(w, "preemptions", l->preemptions);
    json_member_u64(w, "recoveries", l->recoveries);
    if (l->code != INGOT_OK)
        json_member_string(w, "error", ingot_code_name(l->code));
}

/* A terminal also obeys DEL, the control characters U+0080 to U+009F and those of directions, which JSON lets pass. */
static enum status append_visible(struct text_buf *out, const char *p, size_t n)
{
    char one[VISIBLE_SIZE];
    for (size_t used; n; p += used, n -= used) {
        size_t len = visible_char(p, n, &used, one);
        if (*p == 0x7f)
            TRY(text_buf_append(out, "\\u007f", 6)); /* as JSON has it */
        else
            TRY(text_buf_append(out, used > 1 ? one : p, used > 1 ? len : 1));
    }
    return ST_OK;
}

enum status request_log_line(struct text_buf *out, const struct request_log *l,
                             const struct http_outcome *o)
{
    struct text_buf line = {0};
    struct json_writer w = {.out = &line};
    json_write_object(&w);
    member_time(&w, l ? l->time_ms : wall_ms());
    json_member_string(&w, "peer", o->peer);
    json_member_i64(&w, "status", o->status ? o->status : STATUS_CLIENT_GONE);
    json_member_bool(&w, "whole", o->whole);
    json_member_u64(&w, "bytes_out", o->bytes);
    if (l)
        write_request(&w, l);
    json_write_end_object(&w);
    enum status st = w.status;
    if (st == ST_OK)
        st = append_visible(out, line.data, line.len);
    text_buf_free(&line);
    TRY(st);
    return text_buf_append(out, "\n", 1);
}
