#include "client/cli/answer_json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "client/cli/cli.h"

static void put_string(FILE *f, const char *s)
{
    cli_put_json(f, s, strlen(s));
}

/* nine digits name a float exactly */
static void put_float(FILE *f, float v)
{
    if (isfinite(v))
        fprintf(f, "%.9g", (double)v);
    else
        fputs("null", f); /* a token that cannot be drawn */
}

static void put_accepted(FILE *f, const struct ingot_event *ev)
{
    fputs("{\"type\":\"accepted\",\"request_id\":", f);
    put_string(f, ev->request_id);
    fprintf(f,
            ",\"prompt_tokens\":%" PRIu32 ",\"seed\":%" PRIu64 ",\"queue_position\":%" PRIu32
            ",\"attached\":%s}\n",
            ev->prompt_tokens, ev->seed, ev->queue_position, ev->attached ? "true" : "false");
}

static void put_top(FILE *f, const char *name, uint32_t n, const uint32_t *n_top,
                    const struct ingot_logprob *top)
{
    fprintf(f, ",\"%s\":[", name);
    for (uint32_t i = 0; i < n; i++) {
        fputs(i ? ",[" : "[", f);
        for (uint32_t k = 0; k < n_top[i]; k++, top++) {
            fprintf(f, "%s{\"id\":%" PRId32 ",\"logprob\":", k ? "," : "", top->id);
            put_float(f, top->logprob);
            putc('}', f);
        }
        putc(']', f);
    }
    putc(']', f);
}

/* Of the entries of the prompt the first has no log probability: its rank is 0 and it comes first of all. */
static void put_prompt(FILE *f, const struct ingot_event *ev)
{
    const struct ingot_prompt_logprobs *p = &ev->prompt;
    fputs(",\"prompt_logprobs\":[", f);
    for (uint32_t i = 0; i < p->n; i++) {
        fputs(i ? "," : "", f);
        if (ev->seq == 0 && i == 0)
            fputs("null", f);
        else
            put_float(f, p->logprobs[i]);
    }
    putc(']', f);
    if (p->n_top)
        put_top(f, "prompt_top_logprobs", p->n, p->n_top, p->top);
}

static void put_delta(FILE *f, const struct ingot_event *ev, bool with_sample)
{
    fputs("{\"type\":\"delta\",", f);
    if (with_sample)
        fprintf(f, "\"sample\":%" PRIu32 ",", ev->sample);
    fputs("\"ids\":[", f);
    for (uint32_t i = 0; i < ev->n_ids; i++)
        fprintf(f, "%s%" PRId32, i ? "," : "", ev->ids[i]);
    fputs("],\"text\":", f);
    cli_put_json(f, ev->text, ev->n_text);
    if (ev->logprobs) {
        fputs(",\"logprobs\":[", f);
        for (uint32_t i = 0; i < ev->n_ids; i++) {
            fputs(i ? "," : "", f);
            put_float(f, ev->logprobs[i]);
        }
        putc(']', f);
    }
    if (ev->n_top)
        put_top(f, "top_logprobs", ev->n_ids, ev->n_top, ev->top);
    if (ev->prompt.n)
        put_prompt(f, ev);
    fputs("}\n", f);
}

static void put_sample_end(FILE *f, const struct ingot_sample_end *s)
{
    fprintf(f, "{\"sample\":%" PRIu32 ",\"reason\":\"%s\",\"completion_tokens\":%" PRIu32,
            s->sample, ingot_reason_name(s->reason), s->completion_tokens);
    if (s->n_matched_stop) {
        fputs(",\"stop\":", f);
        cli_put_json(f, s->matched_stop, s->n_matched_stop);
    }
    if (s->stop_id >= 0)
        fprintf(f, ",\"stop_id\":%" PRId32, s->stop_id);
    putc('}', f);
}

static void put_finish(FILE *f, const struct ingot_event *ev)
{
    fprintf(f,
            "{\"type\":\"finish\",\"reason\":\"%s\",\"prompt_tokens\":%" PRIu32
            ",\"cached_tokens\":%" PRIu32 ",\"completion_tokens\":%" PRIu32,
            ingot_reason_name(ev->n_samples ? ev->samples[0].reason : INGOT_REASON_FAILED),
            ev->prompt_tokens, ev->cached_tokens, ev->completion_tokens);
    fprintf(f,
            ",\"preemptions\":%" PRIu32 ",\"recoveries\":%" PRIu32
            ",\"timings\":{\"queue_ms\":%.3f,\"first_token_ms\":%.3f,\"total_ms\":%.3f}",
            ev->preemptions, ev->recoveries, (double)ev->queue_us / 1e3,
            (double)ev->first_token_us / 1e3, (double)ev->total_us / 1e3);
    fputs(",\"samples\":[", f);
    for (uint32_t i = 0; i < ev->n_samples; i++) {
        fputs(i ? "," : "", f);
        put_sample_end(f, &ev->samples[i]);
    }
    fputs("]}\n", f);
}

static void put_error(FILE *f, const struct ingot_event *ev)
{
    fprintf(f, "{\"type\":\"error\",\"code\":\"%s\",\"detail\":", ingot_code_name(ev->code));
    put_string(f, ev->detail);
    if (ev->field && *ev->field) {
        fputs(",\"field\":", f);
        put_string(f, ev->field);
    }
    fprintf(f, ",\"retryable\":%s", ev->retryable ? "true" : "false");
    if (ev->retry_after_ms)
        fprintf(f, ",\"retry_after_ms\":%" PRIu32, ev->retry_after_ms);
    fputs("}\n", f);
}

void answer_json_event(FILE *f, const struct ingot_event *ev, bool with_sample)
{
    switch (ev->kind) {
    case INGOT_EVENT_ACCEPTED:
        put_accepted(f, ev);
        break;
    case INGOT_EVENT_DELTA:
        put_delta(f, ev, with_sample);
        break;
    case INGOT_EVENT_FINISH:
        put_finish(f, ev);
        break;
    case INGOT_EVENT_ERROR:
        put_error(f, ev);
        break;
    case INGOT_EVENT_PONG: /* never asked for, like the others */
    case INGOT_EVENT_TOKENS:
    case INGOT_EVENT_TEXT:
    case INGOT_EVENT_STATS:
        break;
    }
    fflush(f);
}

void answer_json_error(FILE *f, enum ingot_code code, const char *detail, bool retryable)
{
    struct ingot_event ev = {
        .kind = INGOT_EVENT_ERROR, .code = code, .detail = detail, .retryable = retryable};
    answer_json_event(f, &ev, false);
}
