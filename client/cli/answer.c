#include "client/cli/answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/answer_json.h"
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "common/clock.h"
#include "common/text/output_parser.h"

enum { LOOK_MS = 50, MIN_RETRY_MS = 50, MAX_RETRY_MS = 500, MAX_SHOWN = 16 /* samples */ };

struct answer {
    struct ingot_client *c;
    struct ingot_request r; /* from the first sending on with its id */
    const struct answer_config *cfg;
    struct answer_text *text;
    bool splits;
    struct output_parser *parser; /* NULL: text is shown as it comes */
    char id[INGOT_ID_SIZE];
    int seen_interrupts;
    bool cancelled, said_waiting;
    bool begun, ends_line;                 /* something was shown; the last of it was a newline */
    struct answer_text samples[MAX_SHOWN]; /* with n > 1: shown one after the other at the end */
    uint64_t give_up_us;
};

static bool plain(const struct answer *a)
{
    return !a->cfg->json;
}

/* One line on standard error; an unfinished line of the answer is ended first. */
static void complain(struct answer *a, const char *text)
{
    if (a->begun && !a->ends_line && cli_is_terminal(stdout))
        putchar('\n');
    fflush(stdout);
    fprintf(stderr, "%singot %s: ", cli_sgr(stderr, 31), a->cfg->command);
    cli_put_name(stderr, text);
    fprintf(stderr, "%s\n", cli_sgr(stderr, 0));
}

static int fail(struct answer *a, enum ingot_code code, int exit_code)
{
    if (a->cfg->json)
        answer_json_error(stdout, code, ingot_last_error(), code == INGOT_PEER);
    complain(a, ingot_last_error());
    return exit_code;
}

/* ---- events ---- */

static void keep_text(struct answer_text *t, const char *s, size_t n)
{
    if (!n)
        return;
    if (t->cap - t->n < n) {
        size_t cap = (t->n + n) * 2;
        char *data = realloc(t->data, cap);
        if (!data)
            return; /* the history of a chat lacks a piece; the answer itself was shown */
        t->data = data;
        t->cap = cap;
    }
    memcpy(t->data + t->n, s, n);
    t->n += n;
}

static void show_text(struct answer *a, const char *s, size_t n)
{
    cli_put_text(stdout, s, n);
    a->begun = true;
    a->ends_line = s[n - 1] == '\n';
}

static void show_call_piece(struct answer *a, const struct output_event *ev)
{
    if (ev->kind == OUT_CALL_BEGIN) {
        printf("%s%s[calls ", a->ends_line ? "" : "\n", cli_sgr(stdout, 36));
        cli_put_text(stdout, ev->name, ev->n_name);
        putchar(' ');
    } else if (ev->kind == OUT_CALL_ARGUMENTS) {
        cli_put_text(stdout, ev->text, ev->n_text);
    } else {
        printf("]%s\n", cli_sgr(stdout, 0));
    }
    a->begun = true;
    a->ends_line = ev->kind == OUT_CALL_END;
}

/* what the parser is certain of by now */
static void show_parsed(struct answer *a)
{
    struct output_event ev;
    while (output_parser_next(a->parser, &ev)) {
        if (ev.kind != OUT_REASONING && ev.kind != OUT_CONTENT) {
            show_call_piece(a, &ev);
            continue;
        }
        fputs(cli_sgr(stdout, ev.kind == OUT_REASONING ? 2 : 0), stdout);
        show_text(a, ev.text, ev.n_text);
        fputs(cli_sgr(stdout, 0), stdout);
    }
}

static void on_delta(struct answer *a, const struct ingot_event *ev)
{
    if (a->text && ev->sample == 0)
        keep_text(a->text, ev->text, ev->n_text);
    if (!plain(a) || !ev->n_text)
        return;
    if (a->r.n > 1) {
        if (ev->sample < MAX_SHOWN)
            keep_text(&a->samples[ev->sample], ev->text, ev->n_text);
        return;
    }
    if (a->parser && output_parser_push(a->parser, ev->text, ev->n_text) == ST_OK)
        show_parsed(a);
    else
        show_text(a, ev->text, ev->n_text);
    fflush(stdout);
}

static void say_summary(const struct ingot_event *ev)
{
    double first = (double)ev->first_token_us / 1e6, total = (double)ev->total_us / 1e6;
    fprintf(stderr,
            "%s%s · %" PRIu32 " prompt tokens (%" PRIu32 " cached) · %" PRIu32
            " answered · first after %.3f s · %.1f tokens/s",
            cli_sgr(stderr, 2), ingot_reason_name(ev->samples[0].reason), ev->prompt_tokens,
            ev->cached_tokens, ev->completion_tokens, first,
            total > first ? (double)ev->completion_tokens / (total - first) : 0.0);
    if (ev->recoveries)
        fprintf(stderr, " · survived %" PRIu32 " lost worker group%s", ev->recoveries,
                ev->recoveries > 1 ? "s" : "");
    fprintf(stderr, "%s\n", cli_sgr(stderr, 0));
}

static void show_samples(struct answer *a)
{
    for (uint32_t i = 0; i < MAX_SHOWN && i < a->r.n; i++) {
        const struct answer_text *t = &a->samples[i];
        printf("%s[%" PRIu32 "]%s ", cli_sgr(stdout, 2), i, cli_sgr(stdout, 0));
        if (t->n)
            cli_put_text(stdout, t->data, t->n);
        if (!t->n || t->data[t->n - 1] != '\n')
            putchar('\n');
    }
    a->ends_line = true;
}

/* the worst of the samples' ends */
static int on_finish(struct answer *a, const struct ingot_event *ev)
{
    int rc = ev->n_samples ? EXIT_OK : EXIT_REFUSED;
    if (a->parser && output_parser_finish(a->parser) == ST_OK)
        show_parsed(a);
    if (plain(a) && a->r.n > 1)
        show_samples(a);
    if (plain(a) && !a->ends_line)
        putchar('\n');
    fflush(stdout);
    if (a->cfg->summary && ev->n_samples)
        say_summary(ev);
    for (uint32_t i = 0; i < ev->n_samples; i++)
        if (ev->samples[i].reason > INGOT_REASON_STOP)
            rc = EXIT_REFUSED;
    if (a->text) {
        a->text->cancelled = a->cancelled;
        a->text->cut = ev->n_samples && ev->samples[0].reason == INGOT_REASON_LENGTH;
        a->text->prompt_tokens = ev->prompt_tokens;
        a->text->completion_tokens = ev->completion_tokens;
    }
    return a->cancelled ? EXIT_INTERRUPTED : rc;
}

static int on_error(struct answer *a, const struct ingot_event *ev)
{
    char text[1200];
    if (ev->field && *ev->field && !strstr(ev->detail, ev->field))
        snprintf(text, sizeof text, "%s: %s", ev->field, ev->detail);
    else
        snprintf(text, sizeof text, "%s", ev->detail);
    complain(a, text);
    return EXIT_REFUSED;
}

/* ---- waiting ---- */

/* Looks after our own server and at Ctrl-C; -1 to go on. */
static int look_around(struct answer *a)
{
    enum supervisor_state state;
    if (a->cfg->own && supervisor_poll(a->cfg->own, 0, &state) != ST_OK)
        return fail(a, INGOT_PEER, EXIT_FAILED);
    if (interrupts() == a->seen_interrupts)
        return -1;
    a->seen_interrupts = interrupts();
    if (a->cancelled || !ingot_connected(a->c))
        return EXIT_INTERRUPTED; /* a second Ctrl-C, or no server: do not wait for it */
    a->cancelled = true;
    if (ingot_cancel(a->c, a->id) != INGOT_OK)
        return EXIT_INTERRUPTED;
    return -1;
}

static int send_request(struct answer *a)
{
    enum ingot_code code = ingot_generate(a->c, &a->r, a->r.request_id == a->id ? NULL : a->id);
    a->r.request_id = a->id;
    if (code == INGOT_OK)
        return -1;
    return fail(a, code, code == INGOT_RANGE ? EXIT_REFUSED : EXIT_NO_SERVER);
}

static void say_waiting(const struct answer *a, const char *why)
{
    fprintf(stderr, "ingot %s: ", a->cfg->command);
    cli_put_name(stderr, why);
    fputs("; waiting\n", stderr);
}

/* Busy: waits a little and sends the request again; -1 to go on, -2 when the waiting is over. */
static int try_again(struct answer *a, const struct ingot_event *ev)
{
    uint64_t now = clock_us();
    if (!ev->rejected || !ev->retryable || a->cancelled || now >= a->give_up_us)
        return -2;
    if (!a->said_waiting)
        say_waiting(a, ev->detail);
    a->said_waiting = true;
    uint32_t ms = ev->retry_after_ms;
    ms = ms < MIN_RETRY_MS ? MIN_RETRY_MS : ms > MAX_RETRY_MS ? MAX_RETRY_MS : ms;
    for (uint64_t until = now + 1000U * (uint64_t)ms; clock_us() < until;) {
        usleep(10000);
        if (interrupts() != a->seen_interrupts)
            return EXIT_INTERRUPTED;
    }
    return send_request(a);
}

/* The server says how its model writes; one that does not is older, and the usual marks are looked for. */
static void on_accepted(struct answer *a, const struct ingot_event *ev)
{
    const struct ingot_model *m = &ingot_server(a->c)->model;
    struct output_options split = {.tools = OUTPUT_TOOLS_AUTO, .reasoning = true};
    if (!a->splits || a->parser)
        return;
    if (*m->tool_format) {
        if (output_tools_from_name(m->tool_format, &split.tools) != ST_OK)
            split.tools = OUTPUT_TOOLS_AUTO;
        split.reasoning = *m->think_open;
        split.starts_in_reasoning = ev->starts_in_reasoning;
    }
    if (*m->think_open) {
        split.think_open = m->think_open;
        split.think_close = m->think_close;
    }
    if (output_parser_create(&a->parser, &split) != ST_OK)
        a->parser = NULL; /* shown as it comes */
}

/* -1 to go on, else the exit code */
static int on_event(struct answer *a, struct ingot_event *ev)
{
    if (strcmp(ev->request_id, a->id) != 0)
        return -1; /* the end of one before, given up by Ctrl-C */
    if (ev->kind == INGOT_EVENT_ERROR) {
        int rc = try_again(a, ev);
        if (rc != -2)
            return rc;
    }
    if (a->cfg->json)
        answer_json_event(stdout, ev, a->r.n > 1);
    switch (ev->kind) {
    case INGOT_EVENT_ACCEPTED:
        on_accepted(a, ev);
        return -1;
    case INGOT_EVENT_DELTA:
        on_delta(a, ev);
        return -1;
    case INGOT_EVENT_FINISH:
        return on_finish(a, ev);
    case INGOT_EVENT_ERROR:
        return on_error(a, ev);
    case INGOT_EVENT_PONG: /* never asked for, like the others */
    case INGOT_EVENT_TOKENS:
    case INGOT_EVENT_TEXT:
    case INGOT_EVENT_STATS:
        return -1;
    }
    return EXIT_FAILED;
}

int answer_stream(struct ingot_client *c, const struct ingot_request *r,
                  const struct answer_config *cfg, struct answer_text *text)
{
    struct answer a = {.c = c,
                       .r = *r,
                       .cfg = cfg,
                       .text = text,
                       .seen_interrupts = interrupts(),
                       .give_up_us = clock_us() + 1000U * (uint64_t)cfg->wait_ms};
    a.splits = cfg->split && !cfg->json && r->n == 1 && cli_is_terminal(stdout);
    a.r.keep_marks = a.r.keep_marks || a.splits;
    int rc = send_request(&a);
    while (rc < 0) {
        struct ingot_event ev;
        enum ingot_code code = ingot_next(c, &ev, LOOK_MS);
        if (code == INGOT_OK)
            rc = on_event(&a, &ev);
        else if (code != INGOT_TIMEOUT && code != INGOT_CANCELLED)
            rc = fail(&a, code, cli_exit_code(code));
        if (rc < 0)
            rc = look_around(&a);
    }
    output_parser_destroy(a.parser);
    for (size_t i = 0; i < MAX_SHOWN; i++)
        free(a.samples[i].data);
    fflush(stdout);
    if (ferror(stdout)) {
        fprintf(stderr, "ingot %s: cannot write the answer\n", cfg->command);
        return EXIT_FAILED;
    }
    return rc;
}
