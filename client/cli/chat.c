/* ingot chat: a conversation with a model loaded for it, or with a running server. */
#include "client/cli/chat.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/commands.h"
#include "client/cli/line_input.h"

enum { WAIT_MS = 200 };

/* ---- the prompt ---- */

/* Our own server must be looked after while nothing is typed; false: it is lost. */
static bool look_after_server(void *context)
{
    struct chat *ch = context;
    enum supervisor_state state;
    if (ch->server.sup && supervisor_poll(ch->server.sup, 0, &state) != ST_OK)
        ch->idle_code = cli_fail("chat", EXIT_FAILED);
    return ch->idle_code < 0;
}

static void show_prompt(const struct chat *ch)
{
    if (ch->person)
        printf("%s>%s ", cli_sgr(stdout, 36), cli_sgr(stdout, 0));
    fflush(stdout);
}

/* The next line without a line editor, as line_editor_read. */
static enum typed read_plainly(struct chat *ch, struct line_input *in, char **line)
{
    int before = interrupts();
    show_prompt(ch);
    for (;;) {
        switch (line_read(in, WAIT_MS, line)) {
        case LINE_READY:
            return TYPED_MESSAGE;
        case LINE_TOO_LONG:
            return TYPED_TOO_LONG;
        case LINE_END:
            return TYPED_END;
        case LINE_NOT_YET:
            if (terminated() || !look_after_server(ch))
                return TYPED_STOPPED;
            if (interrupts() == before)
                continue;
            if (ch->person)
                putchar('\n'); /* behind the ^C of the terminal, which has dropped the line */
            return TYPED_NOTHING;
        }
    }
}

/* A line that was typed: -1 to go on, else the exit code. */
static int take_line(struct chat *ch, char *line)
{
    if (!line[strspn(line, " \t\n")])
        return -1;
    if (line[0] != '/')
        return chat_turn(ch, line);
    if (line[1] == '/')
        return chat_turn(ch, line + 1);
    bool go_on = chat_command(ch, line);
    fflush(stdout);
    return go_on ? -1 : EXIT_OK;
}

static int too_long(const struct chat *ch)
{
    fprintf(stderr, "ingot chat: a message is longer than %d bytes\n", MAX_LINE_BYTES);
    return ch->person ? -1 : EXIT_FAILED;
}

/* Ctrl-C with an empty line: the second one in a row ends. */
static int on_interrupt(const struct chat *ch, enum typed last)
{
    if (!ch->person)
        return EXIT_INTERRUPTED;
    if (last == TYPED_NOTHING || last == TYPED_CLEARED)
        return EXIT_OK;
    puts("Ctrl-C once more, or Ctrl-D, ends the conversation.");
    return -1;
}

static int talk(struct chat *ch)
{
    struct line_input in = {0};
    enum typed last = TYPED_MESSAGE;
    int rc = -1;
    while (rc < 0) {
        char *line;
        enum typed got =
            ch->editor ? line_editor_read(ch->editor, &line) : read_plainly(ch, &in, &line);
        switch (got) {
        case TYPED_MESSAGE:
            rc = take_line(ch, line);
            break;
        case TYPED_NOTHING:
            rc = on_interrupt(ch, last);
            break;
        case TYPED_CLEARED:
            break;
        case TYPED_TOO_LONG:
            rc = too_long(ch);
            break;
        case TYPED_END:
            rc = EXIT_OK;
            if (ch->person)
                putchar('\n');
            break;
        case TYPED_STOPPED:
            rc = ch->idle_code < 0 ? EXIT_INTERRUPTED : ch->idle_code;
            break;
        }
        last = got;
    }
    line_input_free(&in);
    return rc;
}

/* ---- open and close ---- */

/* The line editor, or a line that says why there is none. */
static void open_editor(struct chat *ch)
{
    const char *term = getenv("TERM");
    struct line_editor_config cfg = {.colours = *cli_sgr(stdout, 36) != '\0',
                                     .state = getenv("XDG_STATE_HOME"),
                                     .home = getenv("HOME"),
                                     .keep_history = ch->args.history,
                                     .idle = look_after_server,
                                     .context = ch};
    bool able = term && *term && strcmp(term, "dumb") != 0;
    enum status st = able ? line_editor_open(&ch->editor, &cfg) : ST_UNSUPPORTED;
    const char *trouble = ch->editor ? line_editor_trouble(ch->editor) : NULL;
    fputs(cli_sgr(stdout, 2), stdout);
    if (st != ST_OK)
        printf("No line editing: %s.\n", able ? status_text() : "TERM names no terminal for it");
    else if (trouble)
        printf("No history is kept: %s.\n", trouble);
    fputs(cli_sgr(stdout, 0), stdout);
}

static void greet(const struct chat *ch)
{
    fputs(cli_sgr(stdout, 1), stdout);
    cli_put_name(stdout, ingot_server(ch->client)->model.name);
    printf("%s. /help lists the commands.\n", cli_sgr(stdout, 0));
}

static int open_and_talk(struct chat *ch, const char *model)
{
    int rc = model ? private_server_open(&ch->server, "chat", &ch->args.serve, model)
                   : cli_connect_as(&ch->client, "chat",
                                    ch->args.connect ? ch->args.connect : DEFAULT_ENDPOINT,
                                    ch->args.tenant, (uint32_t)ch->args.sampling.wait_ms,
                                    &ch->args.keys);
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
    if (conversation_set_system(&ch->talk, ch->args.system) != ST_OK)
        return cli_fail("chat", EXIT_FAILED);
    if (ch->person) {
        greet(ch);
        open_editor(ch);
    }
    return talk(ch);
}

static void chat_free(struct chat *ch)
{
    line_editor_close(ch->editor);
    if (ch->server.sup)
        private_server_close(&ch->server);
    else
        ingot_close(ch->client);
    conversation_free(&ch->talk);
    while (ch->n_changes)
        free(ch->changes[--ch->n_changes]);
}

int cmd_chat(int argc, char **argv)
{
    struct chat ch = {.argc = argc, .argv = argv, .idle_code = -1};
    struct option_result res;
    struct row_list rows;
    struct built_request b = {0};
    if (argc > MAX_CHAT_ARGS)
        return cli_usage("chat", "too many arguments");
    chat_rows(&rows);
    struct option_set set = chat_option_set(&rows);
    char *own[MAX_CHAT_ARGS]; /* parsing reorders it, and /params parses again */
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
