/* ingot-journal: reads the journal files of a coordinator and repeats what they say. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/build_info.h"
#include "common/hex.h"
#include "common/log.h"
#include "common/mapped_file.h"
#include "common/options.h"
#include "common/visible.h"
#include "coordinator/journal/replay.h"

enum { EXIT_DIFFERS = 1, EXIT_USAGE = 2, EXIT_ABSENT = 3, EXIT_NO_END = 4 };

struct args {
    uint64_t max_memory;
};

static const struct option_row rows[] = {
    {.name = "max-memory",
     .type = OPT_SIZE,
     .at = offsetof(struct args, max_memory),
     .arg = "BYTES",
     .def = "4G",
     .min = 1 << 20,
     .max = 1e15,
     .help = "What a replay may allocate."},
};

static const struct option_set options = {
    .program = "ingot-journal",
    .usage = "verify FILE|DIR... | list FILE | show FILE|DIR [REQUEST]",
    .summary =
        "Replays journal files of ingot-coordinator; `ingot replay` runs it.\n"
        "verify: the same inputs must give the same plans and effects, step by step; names "
        "the first difference.  Of a folder all its files, which must continue each other.\n"
        "list: the requests in a file, one a line.\n"
        "show: one request (a sequence number of list, or the client's request id), or all, as a "
        "line of JSON per sample: prompt, parameters, tokens, and with what they were computed.  "
        "They come in the order of their ends; seq_id grows with the samples of a request.",
    .epilog =
        "Examples:\n"
        "  ingot serve demo-model --journal journal    (writes the files)\n"
        "  ingot replay verify journal\n"
        "  ingot replay list journal/ingot-00000001.journal\n"
        "  ingot replay show journal/ingot-00000001.journal 3\n"
        "Exit codes: 0 done; 1 a file is damaged or the replay differs; 2 usage; 3 no such "
        "request; 4 a file\nhas no end: still written, the process was killed, or records were "
        "removed from its end.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .min_args = 2,
    .max_args = -1,
};

static const char *reason_name(enum finish_reason why)
{
    static const char *const names[] = {
        [FINISH_NONE] = "live",
        [FINISH_STOP_ID] = "eos",
        [FINISH_LENGTH] = "length",
        [FINISH_STOP_STRING] = "stop",
        [FINISH_CANCELLED] = "cancelled",
        [FINISH_DEADLINE] = "deadline",
        [FINISH_FAILED] = "failed",
        [FINISH_NOT_FINITE] = "not_finite",
        [FINISH_GRAMMAR_COMPLETE] = "eos",
        [FINISH_GRAMMAR_STUCK] = "stuck",
        [FINISH_EMBEDDED] = "embedded",
    };
    return names[why];
}

/* ---- what to do with a request that has ended, or lives at the end of the file ---- */

typedef void request_action(const struct replay_request *q, const struct journal_served *served,
                            void *arg);

static void print_line(const struct replay_request *q, const struct journal_served *served,
                       void *arg)
{
    char label[256]; /* the client chose it */
    (void)arg;
    (void)served;
    visible_text(label, sizeof label, q->label, strlen(q->label));
    printf("%20" PRIu64 " %8u %8u %10" PRIu64 " %10" PRIu64 " %-10s %s\n", q->r.seq_id,
           q->r.n_prompt, q->n_known - q->r.n_prompt, q->n_step_first, q->n_step_last,
           reason_name(q->reason), label);
}

static void print_ids(const char *name, const int32_t *ids, uint32_t n)
{
    printf("\"%s\":[", name);
    for (uint32_t i = 0; i < n; i++)
        printf("%s%" PRId32, i ? "," : "", ids[i]);
    printf("]");
}

static void print_bytes(const char *name, const char *text, size_t n)
{
    printf("\"%s\":\"", name);
    for (const unsigned char *p = (const unsigned char *)text; n-- > 0; p++)
        if (*p == '"' || *p == '\\')
            printf("\\%c", *p);
        else if (*p < 0x20)
            printf("\\u%04x", *p);
        else
            putchar(*p);
    printf("\"");
}

static void print_text(const char *name, const char *text)
{
    print_bytes(name, text, strlen(text));
}

/* A number of JSON; infinities and NaN have none. */
static void print_float(const char *name, double v)
{
    printf("\"%s\":", name);
    if (v - v == 0.0)
        printf("%.9g", v);
    else
        printf("null");
}

static void print_params(const struct sample_params *p)
{
    const struct {
        const char *name;
        double v;
    } f[] = {{"temperature", (double)p->temperature},
             {"top_p", (double)p->top_p},
             {"min_p", (double)p->min_p},
             {"repetition_penalty", (double)p->repetition_penalty},
             {"presence_penalty", (double)p->presence_penalty},
             {"frequency_penalty", (double)p->frequency_penalty}};
    for (size_t i = 0; i < ARRAY_LEN(f); i++) {
        print_float(f[i].name, f[i].v);
        putchar(',');
    }
    printf("\"top_k\":%" PRIu32 ",\"min_tokens\":%" PRIu32 ",\"seed\":%" PRIu64
           ",\"logprobs\":%s,\"top_logprobs\":%" PRIu32 ",\"prompt_logprobs\":%s",
           p->top_k, p->min_new, p->seed, p->logprobs || p->top_logprobs ? "true" : "false",
           p->top_logprobs, p->prompt_logprobs ? "true" : "false");
}

static void print_served(const struct journal_served *s)
{
    char hex[2 * SHA256_BYTES + 1] = "";
    if (s->has_weights)
        hex_of(s->weights, sizeof s->weights, hex);
    print_text("weights", hex);
    putchar(',');
    print_text("numerics", s->numerics);
    putchar(',');
}

static void print_json(const struct replay_request *q, const struct journal_served *served)
{
    const struct sched_req *r = &q->r;
    printf("{\"seq_id\":%" PRIu64 ",", r->seq_id);
    print_text("request_id", q->label);
    printf(",\"tenant\":\"%016" PRIx64 "\",\"group\":%" PRIu64 ",\"priority\":%" PRId32
           ",\"max_tokens\":%" PRIu64 ",",
           r->salt, r->group_id, r->priority, (uint64_t)r->max_new + r->n_tokens - r->n_prompt);
    print_served(served);
    printf("\"params\":{");
    print_params(&r->sp);
    printf("},");
    print_ids("stop_ids", r->stop_ids, r->n_stop_ids);
    printf(",\"logit_bias\":[");
    for (uint32_t i = 0; i < r->n_bias; i++)
        printf("%s[%" PRId32 ",%.9g]", i ? "," : "", r->bias[i].id, (double)r->bias[i].bias);
    printf("],");
    if (r->grammar) {
        printf("\"grammar_kind\":%" PRIu32 ",", r->grammar_kind);
        print_bytes("grammar", r->grammar_source, r->n_grammar);
        putchar(',');
    }
    print_ids("prompt", r->tokens, r->n_prompt);
    putchar(',');
    if (r->resumed) /* of the tokens, those that the client had from another coordinator */
        printf("\"resumed\":%" PRIu32 ",", r->n_tokens - r->n_prompt);
    print_ids("tokens", r->tokens + r->n_prompt, q->n_known - r->n_prompt);
    printf(",\"logprobs\":[");
    for (uint32_t i = r->n_prompt; i < q->n_known; i++) {
        double v = (double)q->logprobs[i];
        printf("%s", i > r->n_prompt ? "," : "");
        if (i < q->n_before || v - v != 0.0)
            printf("null"); /* sampled before this file began, or no number */
        else
            printf("%.9g", v);
    }
    printf("],");
    if (q->reason == FINISH_EMBEDDED) /* of its components' bytes */
        printf("\"embedding\":\"%016" PRIx64 "\",", q->embedding);
    printf("\"reason\":\"%s\"}\n", reason_name(q->reason));
}

struct wanted {
    const char *name; /* request id, or a number; NULL: all */
    uint64_t seq_id;
    unsigned found;
};

static void print_if_wanted(const struct replay_request *q, const struct journal_served *served,
                            void *arg)
{
    struct wanted *w = arg;
    if (w->name && q->r.seq_id != w->seq_id && strcmp(q->label, w->name) != 0)
        return;
    w->found++;
    print_json(q, served);
}

static void ignore(const struct replay_request *q, const struct journal_served *served, void *arg)
{
    (void)q;
    (void)served;
    (void)arg;
}

/* ---- files ---- */

/* The lists are in the opposite order of their making: samples that end with one record, and those that live. */
static void each(const struct replay_request *q, const struct journal_served *served,
                 request_action *act, void *arg)
{
    const struct replay_request *last = NULL, *at;
    while (q != last) {
        for (at = q; at->next != last; at = at->next)
            ;
        act(at, served, arg);
        last = at;
    }
}

static enum status replay_file(const char *path, size_t max_bytes, request_action *act, void *arg,
                               struct replay_summary *sum)
{
    struct mapped_file f;
    struct replay *p = NULL;
    struct replay_event ev = {.kind = REPLAY_SUBMIT};
    struct journal_served served = {.numerics = ""};
    TRY(mapped_file_open(&f, path));
    enum status st = replay_open(&p, f.data, f.size, max_bytes);
    while (st == ST_OK && ev.kind != REPLAY_DONE) {
        st = replay_next(p, &ev);
        if (st == ST_OK && ev.kind == REPLAY_SERVED)
            served = *ev.served;
        if (st == ST_OK)
            each(ev.ended, &served, act, arg);
    }
    if (st == ST_OK) {
        each(replay_live(p), &served, act, arg);
        replay_summary(p, sum);
    }
    replay_close(p);
    mapped_file_close(&f);
    return st;
}

static int complain(const char *path)
{
    fflush(stdout);
    fprintf(stderr, "ingot-journal: %s: %s\n", path, status_text());
    return EXIT_DIFFERS;
}

static void note_end(const char *path, const struct replay_summary *sum)
{
    fflush(stdout);
    if (sum->n_torn)
        fprintf(stderr, "ingot-journal: %s: the last %zu bytes are an unfinished record\n", path,
                sum->n_torn);
    else if (!sum->ended_well)
        fprintf(stderr,
                "ingot-journal: %s: no end: still written, the process was killed, or records were "
                "removed\n",
                path);
}

/* Files in their order, and what the last one said. */
struct verified {
    struct replay_summary last;
    bool any;
    size_t max_bytes;
    int rc; /* the most serious exit code: EXIT_DIFFERS, then EXIT_NO_END, then 0 */
};

static void note_rc(struct verified *v, int rc)
{
    if (v->rc != EXIT_DIFFERS && rc)
        v->rc = rc;
}

/* A file that goes on where a process's file before ended must be preceded by that one. */
static void check_order(struct verified *v, const char *path, const struct replay_summary *sum)
{
    if (!sum->before)
        return;
    fflush(stdout);
    if (!v->any) {
        fprintf(stderr, "ingot-journal: %s: the file that it continues was not given\n", path);
    } else if (v->last.check != sum->before) {
        fprintf(stderr,
                "ingot-journal: %s: it does not continue the file before: records or a file are "
                "missing\n",
                path);
        note_rc(v, EXIT_DIFFERS);
    }
}

static void verify_file(const char *path, void *arg)
{
    struct verified *v = arg;
    struct replay_summary sum;
    if (replay_file(path, v->max_bytes, ignore, NULL, &sum) != ST_OK) {
        note_rc(v, complain(path));
        v->any = false;
        return;
    }
    printf("%s: the same: %" PRIu64 " records, %" PRIu64 " steps, %" PRIu64 " tokens, %" PRIu64
           " sequences (%" PRIu64 " ended, %u live), %" PRIu64 " resets\n",
           path, sum.n_records, sum.n_plans, sum.n_tokens, sum.n_submitted, sum.n_ended, sum.n_live,
           sum.n_resets);
    check_order(v, path, &sum);
    note_end(path, &sum);
    note_rc(v, sum.ended_well ? 0 : EXIT_NO_END);
    v->last = sum;
    v->any = true;
}

static int is_journal(const struct dirent *e)
{
    size_t n = strlen(e->d_name), n_end = strlen(".journal");
    return n > n_end && strcmp(e->d_name + n - n_end, ".journal") == 0;
}

/* Calls act for the journals of a folder in their order, or for the one file; false: none is there. */
typedef void file_action(const char *path, void *arg);

static bool each_file(const char *path, file_action *act, void *arg)
{
    struct dirent **names;
    struct stat st;
    char file[4096];
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        act(path, arg);
        return true;
    }
    int n = scandir(path, &names, is_journal, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        act(file, arg);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    if (n <= 0)
        fprintf(stderr, "ingot-journal: %s: no journal is there\n", path);
    return n > 0;
}

static int verify(char **paths, int n, size_t max_bytes)
{
    struct verified v = {.max_bytes = max_bytes};
    for (int i = 0; i < n; i++)
        if (!each_file(paths[i], verify_file, &v))
            note_rc(&v, EXIT_DIFFERS);
    return v.rc;
}

static int list(const char *path, size_t max_bytes)
{
    struct replay_summary sum;
    printf("%20s %8s %8s %10s %10s %-10s %s\n", "sequence", "prompt", "tokens", "first step",
           "last step", "reason", "request id");
    if (replay_file(path, max_bytes, print_line, NULL, &sum) != ST_OK)
        return complain(path);
    note_end(path, &sum);
    return 0;
}

struct shown {
    struct wanted wanted;
    size_t max_bytes;
    int rc;
};

static void show_file(const char *path, void *arg)
{
    struct shown *w = arg;
    struct replay_summary sum;
    if (replay_file(path, w->max_bytes, print_if_wanted, &w->wanted, &sum) != ST_OK)
        w->rc = complain(path);
    else
        note_end(path, &sum);
}

/* name NULL: all requests. */
static int show(const char *path, const char *name, size_t max_bytes)
{
    struct shown w = {.wanted = {.name = name}, .max_bytes = max_bytes};
    char *end;
    if (name) {
        w.wanted.seq_id = strtoull(name, &end, 10);
        if (*end || *name == '-')
            w.wanted.seq_id = 0; /* no sequence has that number */
    }
    if (!each_file(path, show_file, &w))
        return EXIT_DIFFERS;
    if (w.rc || w.wanted.found || !name)
        return w.rc;
    fprintf(stderr, "ingot-journal: %s: no request %s\n", path, name);
    return EXIT_ABSENT;
}

int main(int argc, char **argv)
{
    struct args args;
    struct option_result res;
    log_init("journal", LOG_WARN);
    if (options_parse(&options, &args, argc, argv, &res) != ST_OK) {
        fprintf(stderr, "ingot-journal: %s\n", status_text());
        return EXIT_USAGE;
    }
    if (res.help) {
        options_print_help(stdout, &options, res.help);
        return 0;
    }
    if (res.version) {
        build_info_print(stdout, "ingot-journal");
        return 0;
    }
    const char *command = res.args[0];
    int n = res.n_args - 1;
    int rc = EXIT_USAGE;
    if (strcmp(command, "verify") == 0)
        rc = verify(res.args + 1, n, args.max_memory);
    else if (strcmp(command, "list") == 0 && n == 1)
        rc = list(res.args[1], args.max_memory);
    else if (strcmp(command, "show") == 0 && n <= 2)
        rc = show(res.args[1], n == 2 ? res.args[2] : NULL, args.max_memory);
    else
        fprintf(stderr, "ingot-journal: %s\n", options.usage);
    if (fflush(stdout) != 0 && rc == 0) {
        fprintf(stderr, "ingot-journal: cannot write the output\n");
        rc = EXIT_DIFFERS;
    }
    return rc;
}
