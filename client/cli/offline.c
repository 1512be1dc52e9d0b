/* ingot tokenize, detokenize, template, inspect, quantize, replay, version: what needs no server.
 * The work is done by the sibling programs ingot-text, ingot-worker, ingot-quantize and
 * ingot-journal; tokenize and detokenize can ask a server instead. */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "client/cli/child.h"
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/line_editor.h"
#include "client/cli/model_name.h"
#include "client/cli/serve_options.h"
#include "common/build_info.h"
#include "common/text/text_options.h"

/* Becomes the program; comes back only when that fails. */
static int become(const char *command, const char *program, const char *const *argv)
{
    char path[MAX_PATH_LEN];
    if (child_find(program, path) != ST_OK)
        return cli_fail(command, EXIT_FAILED);
    fflush(stdout);
    execv(path, (char *const *)(uintptr_t)argv);
    fprintf(stderr, "ingot %s: cannot run %s: %s\n", command, path, strerror(errno));
    return EXIT_FAILED;
}

/* program, extra (NULL: none), then the arguments from argv[from] on; argv[1] may be a model's name */
static int pass_on(const char *program, const char *extra, int argc, char **argv, int from)
{
    struct model_place model;
    int rc = model_find_argument(&model, argc, argv);
    if (rc >= 0)
        return rc;
    const char **v = calloc((size_t)argc + 3, sizeof *v);
    size_t n = 0;
    if (!v) {
        fprintf(stderr, "ingot %s: no memory\n", argv[0]);
        return EXIT_FAILED;
    }
    v[n++] = program;
    if (extra)
        v[n++] = extra;
    for (int i = from; i < argc; i++)
        v[n++] = argv[i];
    rc = become(argv[0], program, v);
    free(v);
    return rc;
}

/* ---- by a server ---- */

static enum status ask_ids(struct ingot_client *c, const struct text_options *a)
{
    char *data = NULL;
    const int32_t *ids;
    size_t n = a->text ? strlen(a->text) : 0, n_ids;
    if (a->text_file)
        TRY(cli_read_file(a->text_file, &data, &n));
    enum ingot_code code =
        ingot_tokenize(c, data ? data : a->text, n, !a->no_special, &ids, &n_ids);
    if (code == INGOT_OK) {
        printf(a->json ? "{\"ids\": [" : "%s", "");
        for (size_t i = 0; i < n_ids; i++)
            printf("%s%" PRId32, i == 0 ? "" : a->json ? ", " : " ", ids[i]);
        if (a->json)
            printf("], \"count\": %zu}", n_ids);
        putchar('\n');
    }
    free(data);
    return (enum status)code;
}

static enum status ask_text(struct ingot_client *c, const struct text_options *a)
{
    const char *text;
    char *data = NULL;
    int32_t *ids = NULL;
    size_t n = 0, n_text;
    if (a->ids_file)
        TRY(cli_read_file(a->ids_file, &data, &n));
    if (a->n_id_args) {
        TRY(text_join_ids(&data, a));
        n = strlen(data);
    }
    const char *from = data ? data : a->ids;
    enum status st = ST_OK;
    if (data && strlen(data) != n)
        st = status_fail(ST_FORMAT, __FILE__, __LINE__, "the ids contain a NUL byte");
    else if (!(ids = malloc((strlen(from) + 1) * sizeof *ids)))
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for the ids");
    if (st == ST_OK)
        st = text_parse_ids(from, INT32_MAX, ids, &n);
    if (st == ST_OK)
        st = (enum status)ingot_detokenize(c, ids, n, a->skip_special, &text, &n_text);
    if (st == ST_OK) {
        cli_put_text(stdout, text, n_text);
        if (cli_is_terminal(stdout))
            putchar('\n');
    }
    free(ids);
    free(data);
    return st;
}

typedef enum status ask_server(struct ingot_client *c, const struct text_options *a);

static int by_server(const char *command, const struct text_options *a, ask_server *ask)
{
    struct ingot_client *c = NULL;
    const struct cli_keys keys = {a->key, a->server_key};
    int rc = cli_connect(&c, command, a->connect ? a->connect : DEFAULT_ENDPOINT, &keys);
    if (rc < 0) {
        enum status st = ask(c, a);
        rc = st == ST_OK ? EXIT_OK : cli_fail(command, cli_exit_code((enum ingot_code)st));
    }
    ingot_close(c);
    return rc;
}

/* tokenize and detokenize: by ingot-text, which has the tokenizers, or by a server. */
static int text_command(int argc, char **argv, const struct option_set *set,
                        const char *(*conflict_of)(const struct text_options *), ask_server *ask)
{
    struct text_options a;
    struct option_result res;
    char **own = calloc((size_t)argc + 1, sizeof *own); /* parsing reorders it */
    if (!own) {
        fprintf(stderr, "ingot %s: no memory\n", argv[0]);
        return EXIT_FAILED;
    }
    memcpy(own, argv, (size_t)argc * sizeof *argv);
    int rc = cli_parse(set, &a, argc, own, &res);
    if (rc < 0)
        text_take_arguments(&a, &res);
    const char *conflict = rc < 0 ? conflict_of(&a) : NULL;
    if (conflict)
        rc = cli_usage(argv[0], "%s", conflict);
    if (rc < 0)
        rc = text_asks_server(&a) ? by_server(argv[0], &a, ask)
                                  : pass_on("ingot-text", argv[0], argc, argv, 1);
    free(own);
    return rc;
}

int cmd_tokenize(int argc, char **argv)
{
    return text_command(argc, argv, &text_tokenize_options, text_tokenize_conflict, ask_ids);
}

int cmd_detokenize(int argc, char **argv)
{
    return text_command(argc, argv, &text_detokenize_options, text_detokenize_conflict, ask_text);
}

int cmd_template(int argc, char **argv)
{
    return pass_on("ingot-text", "template", argc, argv, 1);
}

int cmd_pull(int argc, char **argv)
{
    const char **v = calloc((size_t)argc + 1, sizeof *v);
    if (!v) {
        fprintf(stderr, "ingot pull: no memory\n");
        return EXIT_FAILED;
    }
    memcpy(v, argv, (size_t)argc * sizeof *v);
    v[0] = "ingot-pull";
    int rc = become("pull", "ingot-pull", v);
    free(v);
    return rc;
}

int cmd_quantize(int argc, char **argv)
{
    return pass_on("ingot-quantize", NULL, argc, argv, 1);
}

int cmd_replay(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "recompute") == 0)
        return recompute_command(argc - 1, argv + 1);
    return pass_on("ingot-journal", NULL, argc, argv, 1);
}

/* ---- inspect ---- */

struct inspect_args {
    struct serve_args serve;
    bool json;
};

static int inspect(struct inspect_args *a, const char *model)
{
    struct child_args v = {.n = 0};
    child_arg(&v, "ingot-worker");
    child_arg(&v, "--inspect");
    child_argf(&v, "--model=%s", model);
    serve_pass_options(&v, &a->serve.shared, FOR_LOAD, FOR_WORKER);
    if (a->json)
        child_arg(&v, "--json");
    if (v.too_long)
        return cli_usage("inspect", "the options are too long");
    return become("inspect", "ingot-worker", v.v);
}

int cmd_inspect(int argc, char **argv)
{
    static const struct option_row own[] = {
        {.name = "json",
         .type = OPT_FLAG,
         .at = offsetof(struct inspect_args, json),
         .help = "As JSON."},
    };
    struct inspect_args a = {.json = false};
    struct option_result res;
    struct row_list rows = {.n = 0};
    rows_add(&rows, own, ARRAY_LEN(own), 0);
    serve_engine_rows(&rows, offsetof(struct inspect_args, serve));
    struct option_set set = {
        .program = "ingot inspect",
        .usage = "MODEL [--tp N] [--json] [options of 'ingot serve']",
        .summary =
            "Prints a model's configuration, its tensors and what each rank would need in memory, "
            "to the byte. Loads nothing.",
        .epilog = "Examples:\n"
                  "  ingot inspect models/Qwen3-0.6B\n"
                  "  ingot inspect model-q4_k_m.gguf --tp 2 --max-seqs 16 --max-ctx 8192\n"
                  "Exit codes: 0 done, 1 failure, 2 wrong options, 3 the model cannot be served.",
        .rows = rows.row,
        .n_rows = rows.n,
        .min_args = 1,
        .max_args = 1,
    };
    struct model_place model;
    int rc = cli_parse(&set, &a, argc, argv, &res);
    if (rc < 0)
        rc = model_find(&model, "inspect", res.args[0], a.serve.pull);
    return rc >= 0 ? rc : inspect(&a, model.path);
}

/* ---- version ---- */

int cmd_version(int argc, char **argv)
{
    static const struct option_set set = {
        .program = "ingot version",
        .usage = "",
        .summary = "Prints the versions of this build and of the ZeroMQ library that it runs with.",
        .epilog = "Exit codes: 0 done, 2 wrong options.",
    };
    struct option_result res;
    int major, minor, patch;
    char none;
    int rc = cli_parse(&set, &none, argc, argv, &res);
    if (rc >= 0)
        return rc;
    zmq_version(&major, &minor, &patch);
    build_info_print(stdout, "ingot");
    printf("ZeroMQ %d.%d.%d\n", major, minor, patch);
    printf("line editing of chat: %s\n",
           line_editor_name() ? line_editor_name() : "none (built without libedit)");
    return EXIT_OK;
}
