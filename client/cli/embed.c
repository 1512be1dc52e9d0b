/* ingot embed: a private server, the embeddings of a few texts, its end. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/embed_calls.h"

struct args {
    struct option_list prompt, tokens, token_types;
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
    {.name = "token-types",
     .type = OPT_LIST,
     .at = offsetof(struct args, token_types),
     .arg = "TYPES",
     .help = "The types of an encoder's tokens, \"0 0 1\": the first one for the first --tokens, "
             "and so "
             "on.  Default: all 0."},
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

static void print_vector(const struct args *a, const struct embed_call *e, size_t i)
{
    if (a->json)
        printf("{\"type\":\"embedding\",\"index\":%zu,\"prompt_tokens\":%" PRIu32
               ",\"embedding\":[",
               i, e->prompt_tokens);
    for (uint32_t k = 0; k < e->n; k++)
        printf("%s%.9g", k ? (a->json ? "," : " ") : "", (double)e->v[k]);
    puts(a->json ? "]}" : "");
}

static int ask_all(const struct args *a, struct private_server *p, struct embed_call *all, size_t n)
{
    int rc = embed_calls_run("embed", a->json, p, all, n);
    for (size_t i = 0; rc == EXIT_OK && i < n; i++)
        print_vector(a, &all[i], i);
    return rc;
}

/* "0 0 1", one for each id of the request. */
static enum status take_types(struct embed_call *e, const char *text)
{
    size_t n = 0;
    e->types = calloc(e->b.r.n_ids + 1, sizeof *e->types);
    if (!e->types)
        FAIL(ST_NOMEM, "no memory for the tokens' types");
    for (const char *p = text + strspn(text, " "); *p; n++) {
        char *end;
        errno = 0;
        unsigned long v = strtoul(p, &end, 10);
        if (end == p || *p < '0' || *p > '9' || errno || v > UINT8_MAX || (*end && *end != ' '))
            FAIL(ST_RANGE, "--token-types: '%.20s' is not a type (0 to 255)", p);
        if (n < e->b.r.n_ids)
            e->types[n] = (uint32_t)v;
        p = end + strspn(end, " ");
    }
    if (n != e->b.r.n_ids)
        FAIL(ST_RANGE, "--token-types: %zu types for %zu ids of --tokens", n, e->b.r.n_ids);
    e->b.r.token_types = e->types;
    return ST_OK;
}

static enum status make_requests(const struct args *a, struct embed_call *all)
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
        if (!text && i - a->prompt.n < a->token_types.n)
            TRY(take_types(&all[i], a->token_types.item[i - a->prompt.n]));
    }
    return ST_OK;
}

static int run(const struct args *a, const char *model)
{
    size_t n = a->prompt.n + a->tokens.n;
    if (n == 0)
        return cli_usage("embed", "give at least one --prompt or --tokens");
    if (a->token_types.n > a->tokens.n)
        return cli_usage("embed", "there are more --token-types than --tokens");
    struct embed_call *all = calloc(n, sizeof *all);
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
    embed_calls_free(all, n);
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
            "of the sentence-transformers library, an encoder, or with --embed any model.",
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
