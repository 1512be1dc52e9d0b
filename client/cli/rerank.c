/* ingot rerank: a private server, the scores of a query and a few documents, its end. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/embed_calls.h"
#include "common/ranking.h"

struct args {
    const char *query;
    struct option_list document;
    int64_t top_n;
    struct serve_args serve;
    bool json;
};

static const struct option_row own_rows[] = {
    {.help = "Texts and output"},
    {.name = "query",
     .type = OPT_STRING,
     .at = offsetof(struct args, query),
     .arg = "TEXT",
     .help = "The query that documents are compared with.  Needed."},
    {.name = "document",
     .type = OPT_LIST,
     .at = offsetof(struct args, document),
     .arg = "TEXT",
     .help = "A document; give the option again for more."},
    {.name = "top",
     .type = OPT_INT,
     .at = offsetof(struct args, top_n),
     .arg = "N",
     .def = "0",
     .max = INT32_MAX,
     .help = "Print only the N best documents; 0: all."},
    {.name = "json",
     .type = OPT_FLAG,
     .at = offsetof(struct args, json),
     .help = "Print one JSON object per document."},
};

static void print_all(const struct args *a, const struct ranked *order, size_t n,
                      const struct embed_call *all)
{
    for (size_t i = 0; i < n; i++) {
        const struct ranked *r = &order[i];
        if (a->json) {
            printf("{\"type\":\"score\",\"index\":%zu,\"prompt_tokens\":%" PRIu32
                   ",\"score\":%.9g}\n",
                   r->index, all[r->index].prompt_tokens, (double)r->score);
            continue;
        }
        printf("%.9g ", (double)r->score);
        cli_put_name(stdout, a->document.item[r->index]);
        putchar('\n');
    }
}

static int score_all(const struct args *a, struct private_server *p, struct embed_call *all)
{
    size_t n = a->document.n, most = a->top_n > 0 && (size_t)a->top_n < n ? (size_t)a->top_n : n;
    int rc = embed_calls_run("rerank", a->json, p, all, n);
    struct ranked *order = calloc(n + 1, sizeof *order);
    if (rc == EXIT_OK && !order) {
        fputs("ingot rerank: no memory\n", stderr);
        rc = EXIT_FAILED;
    }
    for (size_t i = 0; rc == EXIT_OK && i < n; i++) {
        if (all[i].n != 1) {
            fprintf(stderr, "ingot rerank: %" PRIu32 " components came, not a score\n", all[i].n);
            rc = EXIT_FAILED;
        }
        order[i] = (struct ranked){i, all[i].v[0]};
    }
    if (rc == EXIT_OK) {
        ranking_sort(order, n);
        print_all(a, order, most, all);
    }
    free(order);
    return rc;
}

static void make_requests(const struct args *a, struct embed_call *all)
{
    for (size_t i = 0; i < a->document.n; i++) {
        struct ingot_request *r = &all[i].b.r;
        *r = ingot_request_default();
        r->text = a->query;
        r->n_text = strlen(a->query);
        r->embed = true;
        r->document = a->document.item[i];
        r->n_document = strlen(a->document.item[i]);
    }
}

static int run(const struct args *a, const char *model)
{
    struct private_server p = {.sup = NULL};
    if (!a->query)
        return cli_usage("rerank", "--query TEXT is required");
    if (a->document.n == 0)
        return cli_usage("rerank", "give at least one --document");
    struct embed_call *all = calloc(a->document.n, sizeof *all);
    if (!all) {
        fputs("ingot rerank: no memory\n", stderr);
        return EXIT_FAILED;
    }
    make_requests(a, all);
    int rc = private_server_open(&p, "rerank", &a->serve, model);
    if (rc < 0)
        rc = score_all(a, &p, all);
    private_server_close(&p);
    embed_calls_free(all, a->document.n);
    return rc;
}

int cmd_rerank(int argc, char **argv)
{
    struct args a = {.json = false};
    struct option_result res;
    struct row_list rows = {.n = 0};
    rows_add(&rows, own_rows, ARRAY_LEN(own_rows), 0);
    serve_engine_rows(&rows, offsetof(struct args, serve));
    rows_default(&rows, "log-level", "warn");
    struct option_set set = {
        .program = "ingot rerank",
        .usage = "MODEL --query TEXT --document TEXT ... [options]",
        .summary = "Loads a reranker, prints the score of each document for the query, the best "
                   "document first, and ends.",
        .epilog =
            "Examples:\n"
            "  ingot rerank models/bge-reranker-v2-m3 --query 'a fox' --document 'An animal.' "
            "--document 'A car.'\n"
            "Object of --json, one line for each document; index counts the options from 0:\n"
            "  {\"type\":\"score\",\"index\":0,\"prompt_tokens\":..,\"score\":..}\n"
            "  {\"type\":\"error\",\"code\":\"..\",\"detail\":\"..\",\"retryable\":..}"
            "\n" EXIT_CODES_HELP,
        .rows = rows.row,
        .n_rows = rows.n,
        .min_args = 1,
        .max_args = 1,
    };
    int rc = cli_parse(&set, &a, argc, argv, &res);
    if (rc >= 0)
        return rc;
    interrupts_catch();
    signal(SIGPIPE, SIG_IGN); /* the server must be ended when the output cannot be written */
    return run(&a, res.args[0]);
}
