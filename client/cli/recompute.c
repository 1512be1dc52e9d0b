/* ingot replay recompute: the samples of a journal once more on the engine, token by token. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/private_server.h"
#include "client/cli/recorded.h"
#include "common/plan.h"
#include "common/wire/worker_msg.h"

enum { WAIT_MS = 200 };

struct args {
    struct serve_args serve;
};

struct counts {
    uint64_t samples, tokens, logprobs, resumed, embeddings;     /* compared */
    uint64_t empty, no_logprob, top, prompt_logprobs, no_digest; /* not compared */
    uint64_t differ;
};

struct recompute {
    struct private_server server;
    char weights[65], numerics[256]; /* of the group that computes; "": not known */
    struct counts n;
};

/* ---- the journal's samples, from ingot-journal ---- */

static enum status start_show(FILE **out, pid_t *pid, const char *path, const char *request)
{
    char program[MAX_PATH_LEN];
    int fd[2];
    TRY(child_find("ingot-journal", program));
    if (pipe(fd) != 0)
        FAIL(ST_IO, "cannot make a pipe: %s", strerror(errno));
    fflush(stdout);
    *pid = fork();
    if (*pid == 0) {
        dup2(fd[1], STDOUT_FILENO);
        close(fd[0]);
        close(fd[1]);
        execl(program, "ingot-journal", "show", path, request, (char *)NULL);
        _exit(127);
    }
    close(fd[1]);
    *out = *pid > 0 ? fdopen(fd[0], "r") : NULL;
    if (!*out) {
        close(fd[0]);
        FAIL(ST_IO, "cannot run ingot-journal: %s", strerror(errno));
    }
    return ST_OK;
}

/* ---- one sample ---- */

static void say_difference(struct recompute *p, const struct recorded *s, size_t i,
                           const struct ingot_event *ev, size_t k)
{
    bool other = ev->ids[k] != s->tokens.ids[i];
    p->n.differ++;
    printf("request ");
    cli_put_name(stdout, s->request_id);
    printf(", sequence %" PRIu64 ", token %zu%s: ", s->seq_id, i,
           i < s->n_resumed ? " (it came by resume)" : "");
    if (other)
        printf("%" PRId32 " is recorded, %" PRId32 " comes out\n", s->tokens.ids[i], ev->ids[k]);
    else
        printf("the log probability %.9g is recorded, %.9g comes out\n", (double)s->logprobs[i],
               (double)ev->logprobs[k]);
}

/* false: a token differs. */
static bool compare(struct recompute *p, const struct recorded *s, size_t *at,
                    const struct ingot_event *ev)
{
    for (size_t k = 0; k < ev->n_ids; k++, (*at)++) {
        bool known = *at < s->tokens.n && !isnan(s->logprobs[*at]);
        if (*at >= s->tokens.n || ev->ids[k] != s->tokens.ids[*at] ||
            (known && ev->logprobs[k] != s->logprobs[*at])) {
            say_difference(p, s, *at, ev, k);
            return false;
        }
        p->n.tokens++;
        p->n.resumed += *at < s->n_resumed;
        p->n.logprobs += known;
        p->n.no_logprob += !known;
    }
    return true;
}

static void compare_embedding(struct recompute *p, const struct recorded *s,
                              const struct ingot_event *ev)
{
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64,
             embedding_digest(ev->embedding, ev->n_embedding));
    p->n.embeddings++;
    if (strcmp(digest, s->embedding) == 0)
        return;
    p->n.differ++;
    printf("request ");
    cli_put_name(stdout, s->request_id);
    printf(", sequence %" PRIu64 ": the embedding's digest %s is recorded, %s comes out\n",
           s->seq_id, s->embedding, digest);
}

/* The exit code, or -1. */
static int recompute_sample(struct recompute *p, const struct recorded *s)
{
    struct ingot_event ev;
    size_t at = 0;
    bool same = true;
    if (ingot_generate(p->server.client, &s->r, NULL) != INGOT_OK)
        return cli_fail("replay", EXIT_FAILED);
    for (;;) {
        enum ingot_code code = ingot_next(p->server.client, &ev, WAIT_MS);
        if (interrupts())
            return EXIT_INTERRUPTED;
        enum supervisor_state state;
        if (code == INGOT_TIMEOUT && supervisor_poll(p->server.sup, 0, &state) == ST_OK)
            continue;
        if (code != INGOT_OK)
            return cli_fail("replay", EXIT_FAILED);
        if (ev.kind == INGOT_EVENT_ERROR) {
            fprintf(stderr, "ingot replay: request %s, sequence %" PRIu64 ": %s\n", s->request_id,
                    s->seq_id, ev.detail);
            return EXIT_FAILED;
        }
        if (ev.kind == INGOT_EVENT_DELTA && same)
            same = compare(p, s, &at, &ev);
        if (ev.kind == INGOT_EVENT_FINISH)
            break;
    }
    if (*s->embedding)
        compare_embedding(p, s, &ev);
    if (same && at < s->tokens.n) {
        p->n.differ++;
        printf("request ");
        cli_put_name(stdout, s->request_id);
        printf(", sequence %" PRIu64 ": %zu tokens are recorded, the answer ends after %zu\n",
               s->seq_id, s->tokens.n, at);
    }
    p->n.samples++;
    return -1;
}

/* Would the engine compute the same bits?  The exit code, or -1. */
static int check_engine(struct recompute *p, const struct recorded *s)
{
    if (*s->weights && *p->weights && strcmp(s->weights, p->weights) != 0) {
        fprintf(stderr, "ingot replay: the journal's weights are %s, those of this model %s\n",
                s->weights, p->weights);
        return EXIT_FAILED;
    }
    if (strstr(s->numerics, NUMERICS_ID_FAST)) {
        fprintf(stderr,
                "ingot replay: the journal's numerics are fast (%s): their bits cannot be "
                "compared\n",
                s->numerics);
        return EXIT_FAILED;
    }
    if (*s->numerics && strcmp(s->numerics, p->numerics) != 0) {
        fprintf(stderr,
                "ingot replay: the journal's numerics are %s, here they are %s: bits cannot be "
                "compared\n",
                s->numerics, p->numerics);
        return EXIT_FAILED;
    }
    p->n.no_digest += !*s->weights || !*p->weights;
    return -1;
}

static int recompute_line(struct recompute *p, struct recorded *s, const char *line, size_t n)
{
    if (recorded_read(s, line, n) != ST_OK)
        return cli_fail("replay", EXIT_FAILED);
    int rc = check_engine(p, s);
    if (rc >= 0)
        return rc;
    if (*s->embedding &&
        recorded_split_types(s, ingot_server(p->server.client)->model.vocab) != ST_OK)
        return cli_fail("replay", EXIT_FAILED);
    p->n.top += s->top_logprobs > 0;
    p->n.prompt_logprobs += s->wants_prompt_logprobs;
    if (s->tokens.n || *s->embedding)
        return recompute_sample(p, s);
    p->n.empty++;
    return -1;
}

/* ---- all ---- */

static void say_unchecked(uint64_t n, const char *what)
{
    if (n)
        printf("not checked: %" PRIu64 " %s\n", n, what);
}

static int report(const struct counts *n)
{
    printf("%s: %" PRIu64 " samples, %" PRIu64 " tokens (%" PRIu64
           " of them came by resume), %" PRIu64 " log probabilities",
           n->differ ? "different" : "the same", n->samples, n->tokens, n->resumed, n->logprobs);
    if (n->embeddings)
        printf(", %" PRIu64 " embeddings", n->embeddings);
    if (n->differ)
        printf("; %" PRIu64 " samples differ", n->differ);
    putchar('\n');
    say_unchecked(n->no_logprob, "log probabilities that are not in the file");
    say_unchecked(n->empty, "samples without tokens");
    say_unchecked(n->top, "samples' alternatives (top_logprobs), which are not in the journal");
    say_unchecked(n->prompt_logprobs, "prompts' log probabilities");
    say_unchecked(n->no_digest, "samples' weights: a digest is not known");
    return n->differ ? EXIT_FAILED : EXIT_OK;
}

static int read_lines(struct recompute *p, FILE *in)
{
    struct recorded s = {.seq_id = 0};
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = -1;
    while (rc < 0 && (n = getline(&line, &cap, in)) > 0)
        rc = recompute_line(p, &s, line, (size_t)n);
    free(line);
    recorded_free(&s);
    return rc;
}

static int recompute_all(struct recompute *p, const char *path, const char *request)
{
    enum { NO_END = 4 }; /* of ingot-journal: said on standard error */
    FILE *in;
    pid_t pid = -1;
    int ws = 0;
    if (start_show(&in, &pid, path, request) != ST_OK)
        return cli_fail("replay", EXIT_FAILED);
    int rc = read_lines(p, in);
    fclose(in);
    waitpid(pid, &ws, 0);
    if (rc >= 0)
        return rc;
    if (!WIFEXITED(ws) || (WEXITSTATUS(ws) && WEXITSTATUS(ws) != NO_END))
        return WIFEXITED(ws) ? WEXITSTATUS(ws) : EXIT_FAILED;
    return report(&p->n);
}

static int ask_engine(struct recompute *p)
{
    struct ingot_stats stats;
    if (ingot_stats(p->server.client, &stats) != INGOT_OK)
        return cli_fail("replay", EXIT_FAILED);
    for (uint32_t i = 0; i < stats.n_groups; i++)
        if (stats.groups[i].active) {
            snprintf(p->weights, sizeof p->weights, "%s", stats.groups[i].weights_digest);
            snprintf(p->numerics, sizeof p->numerics, "%s", stats.groups[i].numerics);
        }
    return -1;
}

int recompute_command(int argc, char **argv)
{
    struct recompute p = {.weights = ""};
    struct args a = {.serve = {.groups = 1}};
    struct option_result res;
    struct row_list rows = {.n = 0};
    serve_engine_rows(&rows, offsetof(struct args, serve));
    rows_default(&rows, "log-level", "warn");
    struct option_set set = {
        .program = "ingot replay recompute",
        .usage = "FILE|DIR MODEL [REQUEST] [options]",
        .summary =
            "Runs the requests of a journal, or one of them, again on the engine, on any number of "
            "ranks, and compares every token and every recorded log probability.  The first "
            "difference "
            "of each sample is named, and what could not be checked.",
        .epilog = "Examples:\n"
                  "  ingot replay recompute journal demo-model\n"
                  "  ingot replay recompute journal/ingot-00000001.journal demo-model 3 --tp 2\n"
                  "Exit codes: 0 the same, 1 it differs or cannot be computed, 2 usage, 3 no such "
                  "request.",
        .rows = rows.row,
        .n_rows = rows.n,
        .min_args = 2,
        .max_args = 3,
    };
    int rc = cli_parse(&set, &a, argc, argv, &res);
    if (rc >= 0)
        return rc;
    interrupts_catch();
    signal(SIGPIPE, SIG_IGN); /* the server must be ended */
    rc = private_server_open(&p.server, "replay", &a.serve, res.args[1]);
    if (rc < 0)
        rc = ask_engine(&p);
    if (rc < 0)
        rc = recompute_all(&p, res.args[0], res.n_args > 2 ? res.args[2] : NULL);
    private_server_close(&p.server);
    return rc;
}
