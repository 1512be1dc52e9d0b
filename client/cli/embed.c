/* ingot embed: a private server, the embeddings of a few texts, its end. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/answer_json.h"
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/private_server.h"
#include "client/cli/request_options.h"

enum { WAIT_MS = 200 };

struct args {
    struct option_list prompt, tokens;
    const char *prompt_name;
    int64_t dimensions;
    struct serve_args serve;
    bool json;
};

static const struct option_row own_rows[] = {
    {.help = "Texts and output"},
    {.name = "prompt",
     .type = OPT_LIST,
     .at = offsetof(struct args, prompt),
     .arg = "TEXT",
     .help = "A text; give the option again for more texts."},
    {.name = "tokens",
     .type = OPT_LIST,
     .at = offsetof(struct args, tokens),
     .arg = "IDS",
     .help = "A text as token ids, \"1 2 3\"; likewise.  Nothing is added to them."},
    {.name = "prompt-name",
     .type = OPT_STRING,
     .at = offsetof(struct args, prompt_name),
     .arg = "NAME",
     .help =
         "Begin each --prompt with this prompt of the model's config_sentence_transformers.json; "
         "default: its default_prompt_name."},
    {.name = "dimensions",
     .type = OPT_INT,
     .at = offsetof(struct args, dimensions),
     .arg = "N",
     .def = "0",
     .max = INT32_MAX,
     .help = "Only the first N components, of a model that was made for it; 0: all."},
    {.name = "json",
     .type = OPT_FLAG,
     .at = offsetof(struct args, json),
     .help = "Print one JSON object per text."},
};

/* What came for one text. */
struct embedding {
    struct built_request b;
    char id[INGOT_ID_SIZE];
    float *v; /* [n]; NULL: not yet */
    uint32_t n, prompt_tokens;
};

static void print_vector(const struct args *a, const struct embedding *e, size_t i)
{
    if (a->json)
        printf("{\"type\":\"embedding\",\"index\":%zu,\"prompt_tokens\":%" PRIu32
               ",\"embedding\":[",
               i, e->prompt_tokens);
    for (uint32_t k = 0; k < e->n; k++)
        printf("%s%.9g", k ? (a->json ? "," : " ") : "", (double)e->v[k]);
    puts(a->json ? "]}" : "");
}

/* The exit code, or -1. */
static int take_event(const struct args *a, struct embedding *all, size_t n,
                      const struct ingot_event *ev)
{
    size_t i = 0;
    while (i < n && strcmp(all[i].id, ev->request_id ? ev->request_id : "") != 0)
        i++;
    if (ev->kind == INGOT_EVENT_ERROR) {
        if (a->json)
            answer_json_error(stdout, ev->code, ev->detail, ev->retryable);
        fputs("ingot embed: ", stderr);
        cli_put_name(stderr, ev->detail);
        putc('\n', stderr);
        return EXIT_REFUSED;
    }
    if (i == n || ev->kind != INGOT_EVENT_FINISH)
        return -1;
    all[i].v = malloc((ev->n_embedding + 1) * sizeof *all[i].v);
    if (!all[i].v || !ev->embedding) {
        fputs("ingot embed: no embedding came\n", stderr);
        return EXIT_FAILED;
    }
    memcpy(all[i].v, ev->embedding, ev->n_embedding * sizeof *all[i].v);
    all[i].n = ev->n_embedding;
    all[i].prompt_tokens = ev->prompt_tokens;
    return -1;
}

static int ask_all(const struct args *a, struct private_server *p, struct embedding *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ingot_generate(p->client, &all[i].b.r, all[i].id) != INGOT_OK)
            return cli_fail("embed", EXIT_FAILED);
    for (size_t done = 0; done < n;) {
        struct ingot_event ev;
        enum supervisor_state state;
        enum ingot_code code = ingot_next(p->client, &ev, WAIT_MS);
        if (interrupts())
            return EXIT_INTERRUPTED;
        if (code == INGOT_TIMEOUT && supervisor_poll(p->sup, 0, &state) == ST_OK)
            continue;
        if (code != INGOT_OK)
            return cli_fail("embed", cli_exit_code(code));
        int rc = take_event(a, all, n, &ev);
        if (rc >= 0)
            return rc;
        done += ev.kind == INGOT_EVENT_FINISH;
    }
    for (size_t i = 0; i < n; i++)
        print_vector(a, &all[i], i);
    return EXIT_OK;
}

static enum status make_requests(const struct args *a, struct embedding *all)
{
    for (size_t i = 0; i < a->prompt.n + a->tokens.n; i++) {
        bool text = i < a->prompt.n;
        const struct prompt_args prompt = {.prompt = text ? a->prompt.item[i] : NULL,
                                           .tokens = text ? NULL : a->tokens.item[i - a->prompt.n],
                                           .tool_choice = "auto",
                                           .add_special = true};
        all[i].b.r = ingot_request_default();
        TRY(request_prompt(&all[i].b, &prompt));
        all[i].b.r.embed = true;
        all[i].b.r.prompt_name = text ? a->prompt_name : NULL;
        all[i].b.r.dimensions = (uint32_t)a->dimensions;
    }
    return ST_OK;
}

static int run(const struct args *a, const char *model)
{
    size_t n = a->prompt.n + a->tokens.n;
    if (n == 0)
        return cli_usage("embed", "give at least one --prompt or --tokens");
    struct embedding *all = calloc(n, sizeof *all);
    struct private_server p = {.sup = NULL};
    if (!all) {
        fputs("ingot embed: no memory\n", stderr);
        return EXIT_FAILED;
    }
    int rc = make_requests(a, all) == ST_OK ? private_server_open(&p, "embed", &a->serve, model)
                                            : cli_fail("embed", EXIT_USAGE);
    if (rc < 0)
        rc = ask_all(a, &p, all, n);
    private_server_close(&p);
    for (size_t i = 0; i < n; i++) {
        request_free(&all[i].b);
        free(all[i].v);
    }
    free(all);
    return rc;
}

int cmd_embed(int argc, char **argv)
{
    struct args a = {.json = false};
    struct option_result res;
    struct row_list rows = {.n = 0};
    rows_add(&rows, own_rows, ARRAY_LEN(own_rows), 0);
    serve_engine_rows(&rows, offsetof(struct args, serve));
    rows_default(&rows, "log-level", "warn");
    struct option_set set = {
        .program = "ingot embed",
        .usage = "MODEL (--prompt TEXT | --tokens IDS) ... [options]",
        .summary =
            "Loads a model, prints the embedding of each text and ends.  The model is a folder "
            "of the sentence-transformers library, or with --embed any model.",
        .epilog =
            "Examples:\n"
            "  ingot embed models/Qwen3-Embedding-0.6B --prompt 'What is Ingot?' --prompt-name "
            "query\n"
            "  ingot embed demo-model --embed --prompt 'a fox' --prompt 'a dog' --json\n"
            "Object of --json, one line for each text, first those of --prompt:\n"
            "  {\"type\":\"embedding\",\"index\":0,\"prompt_tokens\":..,\"embedding\":[..]}\n"
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
