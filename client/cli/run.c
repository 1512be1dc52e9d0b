/* ingot run: a private server, one request, its end. */
#include <signal.h>

#include "client/cli/answer.h"
#include "client/cli/answer_json.h"
#include "client/cli/commands.h"
#include "client/cli/private_server.h"
#include "client/cli/request_options.h"

struct args {
    struct prompt_args prompt;
    struct sampling_args sampling;
    struct serve_args serve;
    bool json;
};

static const struct option_row own_rows[] = {
    {.name = "json",
     .type = OPT_FLAG,
     .at = offsetof(struct args, json),
     .help = "Print JSON objects, as `ingot generate --json` does."},
};

static int ask(struct args *a, const struct built_request *b, const char *model)
{
    struct private_server p;
    int rc = private_server_open(&p, "run", &a->serve, model);
    if (rc >= 0 && a->json)
        answer_json_error(stdout, INGOT_PEER, ingot_last_error(), false);
    if (rc < 0) {
        struct answer_config cfg = {.command = "run",
                                    .json = a->json,
                                    .summary = !a->json && cli_is_terminal(stderr),
                                    .wait_ms = (uint32_t)a->sampling.wait_ms,
                                    .own = p.sup};
        rc = answer_stream(p.client, &b->r, &cfg, NULL);
    }
    private_server_close(&p);
    return rc;
}

static int run(struct args *a, const char *model)
{
    struct built_request b = {0};
    enum status st = request_prompt(&b, &a->prompt);
    if (st == ST_OK)
        st = request_sampling(&b, &a->sampling);
    int rc =
        st == ST_OK ? ask(a, &b, model) : cli_fail("run", st == ST_IO ? EXIT_FAILED : EXIT_USAGE);
    request_free(&b);
    return rc;
}

int cmd_run(int argc, char **argv)
{
    struct args a = {.serve.one_request = true};
    struct option_result res;
    struct row_list rows = {.n = 0};
    prompt_rows(&rows, offsetof(struct args, prompt));
    sampling_rows(&rows, offsetof(struct args, sampling));
    rows_add(&rows, own_rows, ARRAY_LEN(own_rows), 0);
    serve_engine_rows(&rows, offsetof(struct args, serve));
    rows_default(&rows, "log-level", "warn");
    struct option_set set = {
        .program = "ingot run",
        .usage = "MODEL (--prompt TEXT | --message TEXT | ...) [options]",
        .summary = "Loads a model (a folder in HuggingFace layout or a .gguf file), answers one "
                   "request and "
                   "ends. Ctrl-C cancels the answer.",
        .epilog = "Examples:\n"
                  "  ingot run demo-model --message 'Tell me a story about a fox.'\n"
                  "  ingot run demo-model --tp 2 --prompt 'Once upon a time' --temperature "
                  "0\n" EXIT_CODES_HELP,
        .rows = rows.row,
        .n_rows = rows.n,
        .min_args = 1,
        .max_args = 1,
    };
    int rc = cli_parse(&set, &a, argc, argv, &res);
    if (rc >= 0)
        return rc;
    interrupts_catch();
    signal(SIGPIPE, SIG_IGN); /* the server must be ended when the answer cannot be written */
    return run(&a, res.args[0]);
}
