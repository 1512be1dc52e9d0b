/* ingot generate: one request to a running server. */
#include <stdlib.h>
#include <string.h>

#include "client/cli/answer.h"
#include "client/cli/answer_json.h"
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/request_options.h"

struct args {
    struct prompt_args prompt;
    struct sampling_args sampling;
    const char *connect, *tenant;
    struct cli_keys keys;
    bool json;
};

static const struct option_row own_rows[] = {
    {.help = "Server and output"},
    {.name = "connect",
     .type = OPT_STRING,
     .at = offsetof(struct args, connect),
     .arg = "EP",
     .def = DEFAULT_ENDPOINT,
     .help = "Endpoint of the server; several, with commas between them, are tried in turn."},
    CLI_KEY_ROWS(struct args, keys),
    {.name = "tenant",
     .type = OPT_STRING,
     .at = offsetof(struct args, tenant),
     .arg = "NAME",
     .help = "The owner of the requests, 1 to 64 bytes: prompts of one tenant share the prefix "
             "cache, among the commands of this user. Default: a random one for each run. The "
             "user's token in $XDG_STATE_HOME/ingot/token, else ~/.local/state/ingot/token, proves "
             "that requests are yours; it is made when it is first needed."},
    {.name = "json",
     .type = OPT_FLAG,
     .at = offsetof(struct args, json),
     .help =
         "Print one JSON object per line: accepted, any number of delta, then finish or error."},
};

static int run(const struct args *a)
{
    struct built_request b = {0};
    struct ingot_client *c = NULL;
    enum status st = request_prompt(&b, &a->prompt);
    if (st == ST_OK)
        st = request_sampling(&b, &a->sampling);
    int rc = st == ST_OK ? cli_connect_as(&c, "generate", a->connect, a->tenant,
                                          (uint32_t)a->sampling.wait_ms, &a->keys)
                         : cli_fail("generate", st == ST_IO ? EXIT_FAILED : EXIT_USAGE);
    if (rc >= 0 && a->json)
        answer_json_error(stdout, (enum ingot_code)(st != ST_OK ? st : ST_PEER), ingot_last_error(),
                          rc == EXIT_NO_SERVER);
    if (rc < 0) {
        struct answer_config cfg = {.command = "generate",
                                    .json = a->json,
                                    .summary = !a->json && cli_is_terminal(stderr),
                                    .wait_ms = (uint32_t)a->sampling.wait_ms};
        rc = answer_stream(c, &b.r, &cfg, NULL);
    }
    ingot_close(c);
    request_free(&b);
    return rc;
}

int cmd_generate(int argc, char **argv)
{
    struct args a;
    struct option_result res;
    struct row_list rows = {.n = 0};
    prompt_rows(&rows, offsetof(struct args, prompt));
    sampling_rows(&rows, offsetof(struct args, sampling));
    rows_add(&rows, own_rows, ARRAY_LEN(own_rows), 0);
    struct option_set set = {
        .program = "ingot generate",
        .usage = "[--connect EP] (--prompt TEXT | --message TEXT | ...) [options]",
        .summary = "Sends one request to a running server and prints the answer as it is "
                   "generated. Ctrl-C "
                   "cancels it.",
        .epilog =
            "Examples:\n"
            "  ingot generate --prompt 'Once upon a time' --max-tokens 100\n"
            "  ingot generate --message 'What is Ingot?' --temperature 0\n"
            "  ingot generate --chat '[{\"role\": \"user\", \"content\": \"Hi\"}]' --n 3 --seed 7 "
            "--json\n"
            "  ingot generate --prompt-file LICENSE --max-tokens 50 --connect "
            "tcp://127.0.0.1:5555\n"
            "Objects of --json:\n"
            "  {\"type\":\"accepted\",\"request_id\":..,\"prompt_tokens\":..,\"seed\":..,...}\n"
            "  {\"type\":\"delta\",\"ids\":[..],\"text\":\"..\",\"logprobs\":[..],"
            "\"top_logprobs\":[[{\"id\":..,\"logprob\":..}]]}\n"
            "      (with \"sample\" when --n is above 1)\n"
            "  {\"type\":\"finish\",\"reason\":\"eos|stop|length|cancelled|deadline|failed\","
            "\"prompt_tokens\":..,\n"
            "      "
            "\"cached_tokens\":..,\"completion_tokens\":..,\"timings\":{..},\"samples\":[..]}\n"
            "  "
            "{\"type\":\"error\",\"code\":\"..\",\"detail\":\"..\",\"retryable\":..}"
            "\n" EXIT_CODES_HELP,
        .rows = rows.row,
        .n_rows = rows.n,
    };
    int rc = cli_parse(&set, &a, argc, argv, &res);
    if (rc >= 0)
        return rc;
    interrupts_catch();
    return run(&a);
}
