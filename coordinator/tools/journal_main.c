/* ingot-journal: reads the journal files of a coordinator and repeats what they say. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/build_info.h"
#include "common/log.h"
#include "common/mapped_file.h"
#include "common/options.h"
#include "common/visible.h"
#include "coordinator/journal/replay.h"
#include "coordinator/tools/journal_show.h"

enum { EXIT_DIFFERS = 1, EXIT_USAGE = 2, EXIT_ABSENT = 3, EXIT_NO_END = 4 };

struct args {
    uint64_t max_memory;
    const char *model;
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
    {.name = "model",
     .type = OPT_STRING,
     .at = offsetof(struct args, model),
     .arg = "PATH",
     .help = "The model's folder or .gguf file: show prints the text of the answers, too."},
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
        "line of JSON per sample: prompt, parameters, stop strings, tokens, and with what they "
        "were "
        "computed; with --model also the text.  Requests come in the order of their ends, the "
        "samples of a request in their order.\n"
        "`ingot replay recompute` runs the requests again on the model and compares every token; "
        "it has a --help of its own.",
    .epilog =
        "Examples:\n"
        "  ingot serve demo-model --journal journal    (writes the files)\n"
        "  ingot replay verify journal\n"
        "  ingot replay list journal/ingot-00000001.journal\n"
        "  ingot replay show journal/ingot-00000001.journal 3 --model demo-model\n"
        "  ingot replay recompute journal demo-model\n"
        "Exit codes: 0 done; 1 a file is damaged or the replay differs; 2 usage; 3 no such "
        "request; 4 a file\nhas no end: still written, the process was killed, or records were "
        "removed from its end.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .min_args = 2,
    .max_args = -1,
};

/* ---- files ---- */

/* What is done after each record; served: with what its tokens are computed. */
typedef enum status event_action(const struct replay *p, const struct replay_event *ev,
                                 const struct journal_served *served, void *arg);

static enum status replay_all(struct replay *p, event_action *act, void *arg)
{
    struct replay_event ev = {.kind = REPLAY_SUBMIT};
    struct journal_served served = {.numerics = ""};
    while (ev.kind != REPLAY_DONE) {
        TRY(replay_next(p, &ev));
        if (ev.kind == REPLAY_SERVED)
            served = *ev.served;
        if (act)
            TRY(act(p, &ev, &served, arg));
    }
    return ST_OK;
}

/* act NULL: nothing more. */
static enum status replay_file(const char *path, size_t max_bytes, event_action *act, void *arg,
                               struct replay_summary *sum)
{
    struct mapped_file f;
    struct replay *p = NULL;
    TRY(mapped_file_open(&f, path));
    enum status st = replay_open(&p, f.data, f.size, max_bytes);
    if (st == ST_OK)
        st = replay_all(p, act, arg);
    if (st == ST_OK)
        replay_summary(p, sum);
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
    if (replay_file(path, v->max_bytes, NULL, NULL, &sum) != ST_OK) {
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

static void print_line(const struct replay_request *q)
{
    char label[256]; /* the client chose it */
    visible_text(label, sizeof label, q->label, strlen(q->label));
    printf("%20" PRIu64 " %8u %8u %10" PRIu64 " %10" PRIu64 " %-10s %s\n", q->r.seq_id,
           q->r.n_prompt, q->n_known - q->r.n_prompt, q->n_step_first, q->n_step_last,
           journal_reason_name(q->reason), label);
}

/* The list is in the opposite order of its making: samples that end with one record, and those that live. */
static void print_lines(const struct replay_request *q)
{
    const struct replay_request *last = NULL, *at;
    while (q != last) {
        for (at = q; at->next != last; at = at->next)
            ;
        print_line(at);
        last = at;
    }
}

static enum status list_event(const struct replay *p, const struct replay_event *ev,
                              const struct journal_served *served, void *arg)
{
    (void)served;
    (void)arg;
    print_lines(ev->ended);
    if (ev->kind == REPLAY_DONE)
        print_lines(replay_live(p));
    return ST_OK;
}

static int list(const char *path, size_t max_bytes)
{
    struct replay_summary sum;
    printf("%20s %8s %8s %10s %10s %-10s %s\n", "sequence", "prompt", "tokens", "first step",
           "last step", "reason", "request id");
    if (replay_file(path, max_bytes, list_event, NULL, &sum) != ST_OK)
        return complain(path);
    note_end(path, &sum);
    return 0;
}

struct shown {
    struct journal_show *show;
    size_t max_bytes;
    int rc;
};

static enum status show_event(const struct replay *p, const struct replay_event *ev,
                              const struct journal_served *served, void *arg)
{
    struct shown *w = arg;
    return journal_show_event(w->show, p, ev, served);
}

static void show_file(const char *path, void *arg)
{
    struct shown *w = arg;
    struct replay_summary sum;
    if (replay_file(path, w->max_bytes, show_event, w, &sum) != ST_OK)
        w->rc = complain(path);
    else
        note_end(path, &sum);
}

static int show(const char *path, const struct show_config *cfg, size_t max_bytes)
{
    struct shown w = {.max_bytes = max_bytes};
    if (journal_show_open(&w.show, cfg) != ST_OK)
        return complain(cfg->model ? cfg->model : path);
    if (!each_file(path, show_file, &w))
        w.rc = EXIT_DIFFERS;
    if (!w.rc && !journal_show_found(w.show) && cfg->request) {
        fprintf(stderr, "ingot-journal: %s: no request %s\n", path, cfg->request);
        w.rc = EXIT_ABSENT;
    }
    journal_show_close(w.show);
    return w.rc;
}

static int run(char **words, int n, const struct args *args)
{
    if (strcmp(words[0], "verify") == 0)
        return verify(words + 1, n - 1, args->max_memory);
    if (strcmp(words[0], "list") == 0 && n == 2)
        return list(words[1], args->max_memory);
    const struct show_config cfg = {args->model, n == 3 ? words[2] : NULL};
    if (strcmp(words[0], "show") == 0 && n <= 3)
        return show(words[1], &cfg, args->max_memory);
    fprintf(stderr, "ingot-journal: %s\n", options.usage);
    return EXIT_USAGE;
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
    int rc = run(res.args, res.n_args, &args);
    if (fflush(stdout) != 0 && rc == 0) {
        fprintf(stderr, "ingot-journal: cannot write the output\n");
        rc = EXIT_DIFFERS;
    }
    return rc;
}
