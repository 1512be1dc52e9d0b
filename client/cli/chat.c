/* ingot chat: a conversation with a model loaded for it, or with a running server. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/answer.h"
#include "client/cli/commands.h"
#include "client/cli/line_input.h"
#include "client/cli/private_server.h"
#include "client/cli/request_options.h"

enum { MAX_CHANGES = 64 };

struct args {
    struct sampling_args sampling;
    struct serve_args serve;
    const char *connect, *system;
};

struct turn {
    const char *role; /* literal */
    char *content;    /* malloc'ed */
    size_t n;
};

struct chat {
    struct args args;
    struct private_server server;
    struct ingot_client *client;
    struct turn *turns; /* [n_turns]; the first may be the system's */
    size_t n_turns, max_turns;
    int argc; /* the command line with the /params that were given since */
    char **argv;
    char *changes[MAX_CHANGES];
    size_t n_changes;
    bool person; /* at a terminal */
};

static const struct option_row own_rows[] = {
    {.help = "Conversation"},
    {.name = "connect",
     .type = OPT_STRING,
     .at = offsetof(struct args, connect),
     .arg = "EP",
     .help = "Talk to the server there; without MODEL the default is " DEFAULT_ENDPOINT "."},
    {.name = "system",
     .type = OPT_STRING,
     .at = offsetof(struct args, system),
     .arg = "TEXT",
     .help = "What the model is told before the conversation."},
};

static void make_rows(struct row_list *rows)
{
    rows->n = 0;
    rows_add(rows, own_rows, ARRAY_LEN(own_rows), 0);
    sampling_rows(rows, offsetof(struct args, sampling));
    serve_engine_rows(rows, offsetof(struct args, serve));
    rows_default(rows, "log-level", "warn");
}

static struct option_set make_set(const struct row_list *rows)
{
    return (struct option_set){
        .program = "ingot chat",
        .usage = "[MODEL | --connect EP] [options]",
        .summary =
            "A conversation with a model. Given MODEL, it is loaded for this conversation; else a "
            "running server is asked. One line is one message; with standard input from a file "
            "or a pipe too.",
        .epilog =
            "In the conversation: /help, /reset, /system TEXT, /params [NAME=VALUE ...], /quit.\n"
            "Ctrl-C ends an answer; Ctrl-C or Ctrl-D at the prompt ends the "
            "conversation.\n" EXIT_CODES_HELP,
        .rows = rows->row,
        .n_rows = rows->n,
        .max_args = 1,
    };
}

/* ---- history ---- */

static bool add_turn(struct chat *ch, const char *role, const char *content, size_t n)
{
    if (ch->n_turns == ch->max_turns) {
        size_t max = ch->max_turns ? 2 * ch->max_turns : 16;
        struct turn *turns = realloc(ch->turns, max * sizeof *turns);
        if (!turns)
            return false;
        ch->turns = turns;
        ch->max_turns = max;
    }
    char *copy = malloc(n + 1);
    if (!copy)
        return false;
    memcpy(copy, content, n);
    copy[n] = '\0';
    ch->turns[ch->n_turns++] = (struct turn){role, copy, n};
    return true;
}

static void drop_turns(struct chat *ch, size_t keep)
{
    while (ch->n_turns > keep)
        free(ch->turns[--ch->n_turns].content);
}

static bool reset(struct chat *ch, const char *system)
{
    drop_turns(ch, 0);
    return !system || add_turn(ch, "system", system, strlen(system));
}

/* ---- commands ---- */

static void show_help(void)
{
    puts("/help                  this text\n"
         "/reset                 forget the conversation\n"
         "/system TEXT           forget it and tell the model something before the next one\n"
         "/params                the sampling parameters in effect\n"
         "/params NAME=VALUE ... change them, such as temperature=0.7 max-tokens=200 seed=1\n"
         "/quit                  end");
}

static bool parse_all(struct chat *ch, struct args *a, struct option_result *res,
                      struct row_list *rows)
{
    char *argv[MAX_CHANGES + 256];
    int n = 0;
    for (int i = 0; i < ch->argc; i++)
        argv[n++] = ch->argv[i];
    for (size_t i = 0; i < ch->n_changes; i++)
        argv[n++] = ch->changes[i];
    make_rows(rows);
    struct option_set set = make_set(rows);
    *a = (struct args){.connect = NULL};
    return options_parse(&set, a, n, argv, res) == ST_OK;
}

static void show_params(const struct chat *ch)
{
    struct row_list rows = {.n = 0};
    struct option_result given = {.n_args = 0};
    sampling_rows(&rows, offsetof(struct args, sampling));
    struct option_set set = {.rows = rows.row, .n_rows = rows.n};
    for (size_t i = 0; i < rows.n; i++)
        given.given[i] = true; /* no "(default)" marks: the values are what counts here */
    options_print_effective(stdout, &set, &ch->args, &given);
}

static void change_param(struct chat *ch, const char *word)
{
    struct built_request b = {0};
    struct option_result res;
    struct row_list rows;
    struct args a;
    size_t n = strcspn(word, "=");
    if (!sampling_has(word, n)) {
        printf("there is no parameter '%.*s'; /params lists them\n", (int)n, word);
        return;
    }
    char *option = malloc(strlen(word) + 3);
    if (!option || ch->n_changes == MAX_CHANGES) {
        puts("too many changes");
        free(option);
        return;
    }
    memcpy(option, "--", 2);
    memcpy(option + 2, word, strlen(word) + 1);
    ch->changes[ch->n_changes++] = option;
    if (parse_all(ch, &a, &res, &rows) && request_sampling(&b, &a.sampling) == ST_OK) {
        ch->args.sampling = a.sampling;
        return;
    }
    printf("%s\n", status_text());
    free(ch->changes[--ch->n_changes]);
}

/* false: the conversation is over */
static bool command(struct chat *ch, char *line)
{
    char *save = NULL, *name = strtok_r(line, " \t", &save);
    const char *rest = save && *save ? save : NULL;
    if (strcmp(name, "/quit") == 0 || strcmp(name, "/exit") == 0)
        return false;
    if (strcmp(name, "/help") == 0) {
        show_help();
    } else if (strcmp(name, "/reset") == 0) {
        bool has_system = ch->n_turns && strcmp(ch->turns[0].role, "system") == 0;
        drop_turns(ch, has_system ? 1 : 0);
        puts("the conversation is forgotten");
    } else if (strcmp(name, "/system") == 0) {
        puts(reset(ch, rest) ? "a new conversation begins" : "no memory");
    } else if (strcmp(name, "/params") == 0 && !rest) {
        show_params(ch);
    } else if (strcmp(name, "/params") == 0) {
        for (char *w = strtok_r(NULL, " \t", &save); w; w = strtok_r(NULL, " \t", &save))
            change_param(ch, w);
    } else {
        printf("there is no command %s; /help lists them\n", name);
    }
    fflush(stdout);
    return true;
}

/* ---- turns ---- */

static int ask(struct chat *ch, struct answer_text *text)
{
    struct built_request b = {.r = ingot_request_default()};
    struct answer_config cfg = {.split = true,
                                .command = "chat",
                                .wait_ms = (uint32_t)ch->args.sampling.wait_ms,
                                .own = ch->server.sup};
    b.turns = calloc(ch->n_turns, sizeof *b.turns);
    if (!b.turns || request_sampling(&b, &ch->args.sampling) != ST_OK) {
        request_free(&b);
        return cli_fail("chat", EXIT_FAILED);
    }
    for (size_t i = 0; i < ch->n_turns; i++)
        b.turns[i] = (struct ingot_turn){.role = ch->turns[i].role,
                                         .content = ch->turns[i].content,
                                         .n_content = ch->turns[i].n};
    b.r.turns = b.turns;
    b.r.n_turns = ch->n_turns;
    int rc = answer_stream(ch->client, &b.r, &cfg, text);
    request_free(&b);
    return rc;
}

/* One message and its answer; -1 to go on, else the exit code. */
static int turn(struct chat *ch, const char *line)
{
    struct answer_text text = {0};
    size_t before = ch->n_turns;
    if (!add_turn(ch, "user", line, strlen(line))) {
        fprintf(stderr, "ingot chat: no memory for the conversation\n");
        return EXIT_FAILED;
    }
    int rc = ask(ch, &text);
    if (rc == EXIT_OK || text.cancelled) {
        if (!add_turn(ch, "assistant", text.data ? text.data : "", text.n))
            drop_turns(ch, before);
    } else {
        drop_turns(ch, before); /* the message was not answered: it can be written again */
    }
    free(text.data);
    if (rc == EXIT_NO_SERVER || rc == EXIT_FAILED)
        return rc;
    if (!ch->person && rc == EXIT_REFUSED)
        return rc;
    if (rc == EXIT_INTERRUPTED && !text.cancelled)
        return rc;
    return -1;
}

static int look_after_server(struct chat *ch)
{
    enum supervisor_state state;
    if (ch->server.sup && supervisor_poll(ch->server.sup, 0, &state) != ST_OK)
        return cli_fail("chat", EXIT_FAILED);
    return -1;
}

static void show_prompt(const struct chat *ch)
{
    if (ch->person)
        printf("%s>%s ", cli_sgr(stdout, 36), cli_sgr(stdout, 0));
    fflush(stdout);
}

static int talk(struct chat *ch)
{
    struct line_input in = {0};
    int rc = -1;
    show_prompt(ch);
    while (rc < 0) {
        char *line;
        int before = interrupts();
        enum line_result got = line_read(&in, 200, &line);
        if (got == LINE_END) {
            rc = EXIT_OK;
        } else if (got == LINE_TOO_LONG) {
            fprintf(stderr, "ingot chat: a message is longer than %d bytes\n", MAX_LINE_BYTES);
            rc = EXIT_FAILED;
        } else if (got == LINE_READY) {
            bool go_on = line[0] != '/' || command(ch, line);
            if (!go_on)
                rc = EXIT_OK;
            else if (line[0] != '/' && line[strspn(line, " \t")])
                rc = turn(ch, line);
            if (rc < 0)
                show_prompt(ch);
        } else if (interrupts() != before) {
            rc = ch->person ? EXIT_OK : EXIT_INTERRUPTED;
        } else {
            rc = look_after_server(ch);
        }
    }
    if (ch->person)
        putchar('\n');
    line_input_free(&in);
    return rc;
}

static int open_and_talk(struct chat *ch, const char *model)
{
    int rc = model ? private_server_open(&ch->server, "chat", &ch->args.serve, model)
                   : cli_connect(&ch->client, "chat",
                                 ch->args.connect ? ch->args.connect : DEFAULT_ENDPOINT);
    if (rc >= 0)
        return rc;
    if (model)
        ch->client = ch->server.client;
    if (!ingot_server(ch->client)->model.chat) {
        fputs("ingot chat: ", stderr);
        cli_put_name(stderr, ingot_server(ch->client)->model.name);
        fputs(" has no chat template; 'ingot generate --prompt' continues texts\n", stderr);
        return EXIT_REFUSED;
    }
    if (ch->person) {
        fputs(cli_sgr(stdout, 1), stdout);
        cli_put_name(stdout, ingot_server(ch->client)->model.name);
        printf("%s. /help lists the commands.\n", cli_sgr(stdout, 0));
    }
    if (!reset(ch, ch->args.system))
        return EXIT_FAILED;
    return talk(ch);
}

static void chat_free(struct chat *ch)
{
    if (ch->server.sup)
        private_server_close(&ch->server);
    else
        ingot_close(ch->client);
    drop_turns(ch, 0);
    free(ch->turns);
    while (ch->n_changes)
        free(ch->changes[--ch->n_changes]);
}

int cmd_chat(int argc, char **argv)
{
    struct chat ch = {.argc = argc, .argv = argv};
    struct option_result res;
    struct row_list rows;
    struct built_request b = {0};
    if (argc > 256)
        return cli_usage("chat", "too many arguments");
    make_rows(&rows);
    struct option_set set = make_set(&rows);
    char *own[256]; /* parsing reorders it, and /params parses again */
    memcpy(own, argv, (size_t)argc * sizeof *argv);
    int rc = cli_parse(&set, &ch.args, argc, own, &res);
    if (rc >= 0)
        return rc;
    if (res.n_args && ch.args.connect)
        return cli_usage("chat", "give either MODEL or --connect");
    if (request_sampling(&b, &ch.args.sampling) != ST_OK)
        return cli_fail("chat", EXIT_USAGE);
    interrupts_catch();
    signal(SIGPIPE, SIG_IGN);
    ch.person = cli_is_terminal(stdin) && cli_is_terminal(stdout);
    rc = open_and_talk(&ch, res.n_args ? res.args[0] : NULL);
    chat_free(&ch);
    return rc;
}
