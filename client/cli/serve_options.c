#include "client/cli/serve_options.h"

#include <assert.h>
#include <string.h>

static const struct option_row model_rows[] = {
    {.help = "Model"},
    {.name = "pull",
     .type = OPT_FLAG,
     .at = offsetof(struct serve_args, pull),
     .help = "Download the model ORG/NAME first if it is not in the cache, as `ingot pull` does."},
};

static const struct option_row own_rows[] = {
    {.help = "Ranks and device"},
    {.name = "groups",
     .type = OPT_INT,
     .at = offsetof(struct serve_args, groups),
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = MAX_GROUPS,
     .help = "Worker groups of --tp ranks each, every one with all weights, that share the load; "
             "when one is lost the others go on with its requests at once. Without --threads they "
             "share the cores."},
    {.help = "HTTP"},
    {.name = "http",
     .type = OPT_STRING,
     .at = offsetof(struct serve_args, http),
     .arg = "ADDR:PORT|off",
     .def = "127.0.0.1:8080",
     .help = "Where ingot-gateway serves OpenAI's API. With INGOT_API_KEY in the environment "
             "requests must carry that key, as they must for other addresses than loopback."},
    {.name = "api-keys",
     .type = OPT_STRING,
     .at = offsetof(struct serve_args, api_keys),
     .arg = "FILE",
     .help = "Requests over HTTP must carry a key of this file; `ingot api-key` writes it."},
    {.name = "metrics-prefix",
     .type = OPT_STRING,
     .at = offsetof(struct serve_args, metrics_prefix),
     .arg = "PREFIX",
     .def = "ingot_",
     .help = "Begins the names in /metrics that vLLM has too; with vllm: they are vLLM's, for its "
             "dashboards."},
    {.name = "metrics-need-key",
     .type = OPT_FLAG,
     .at = offsetof(struct serve_args, metrics_need_key),
     .help = "/metrics needs an API key too; otherwise all who reach the gateway can read it."},
};

void serve_engine_rows(struct row_list *l, size_t base)
{
    shared_rows(l, FOR_LOAD, base + offsetof(struct serve_args, shared));
    rows_add(l, model_rows, ARRAY_LEN(model_rows), base);
}

void serve_rows(struct row_list *l, size_t base)
{
    shared_rows(l, FOR_SERVE, base + offsetof(struct serve_args, shared));
    rows_add(l, model_rows, ARRAY_LEN(model_rows), base);
    rows_add(l, own_rows, ARRAY_LEN(own_rows), base);
}

void serve_pass_options(struct child_args *a, const struct shared_options *o,
                        enum option_user command, enum option_user program)
{
    struct row_list rows = {.n = 0};
    struct shared_options def;
    shared_rows_passed(&rows, command, program);
    enum status st = options_defaults(rows.row, rows.n, &def);
    assert(st == ST_OK && "the table's defaults are within its bounds");
    (void)st;
    for (size_t i = 0; i < rows.n; i++) {
        char value[MAX_ARGS_TEXT], usual[MAX_ARGS_TEXT]; /* a value cut short does not fit into a */
        option_text(&rows.row[i], o, value, sizeof value);
        option_text(&rows.row[i], &def, usual, sizeof usual);
        if (strcmp(value, usual) != 0)
            child_argf(a, "--%s=%s", rows.row[i].name, value);
    }
}
