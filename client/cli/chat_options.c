/* The options of `ingot chat`, and the reading of its command line again with the changes of
 * /params. */
#include "client/cli/chat.h"
#include "client/cli/commands.h"

static const struct option_row own_rows[] = {
    {.help = "Conversation"},
    {.name = "connect",
     .type = OPT_STRING,
     .at = offsetof(struct chat_args, connect),
     .arg = "EP",
     .help = "Talk to the server there; without MODEL the default is " DEFAULT_ENDPOINT "."},
    CLI_KEY_ROWS(struct chat_args, keys),
    {.name = "tenant",
     .type = OPT_STRING,
     .at = offsetof(struct chat_args, tenant),
     .arg = "NAME",
     .help = "The owner of the requests, 1 to 64 bytes: prompts of one tenant share the prefix "
             "cache, among the commands of this user. Default: a random one for each run. The "
             "user's token in $XDG_STATE_HOME/ingot/token, else ~/.local/state/ingot/token, proves "
             "that requests are yours; it is made when it is first needed."},
    {.name = "system",
     .type = OPT_STRING,
     .at = offsetof(struct chat_args, system),
     .arg = "TEXT",
     .help = "System turn: instructions for the model before the conversation."},
    {.name = "shift",
     .type = OPT_FLAG,
     .at = offsetof(struct chat_args, shift),
     .help = "When the context is full, let the oldest turns leave (the system turn stays) instead "
             "of refusing the message; a line tells how many left."},
    {.name = "history",
     .type = OPT_FLAG,
     .at = offsetof(struct chat_args, history),
     .def = "true",
     .help =
         "Keep the messages typed at a terminal in $XDG_STATE_HOME/ingot/chat_history (default "
         "~/.local/state), for the arrow keys of later conversations; --no-history keeps none."},
};

void chat_rows(struct row_list *rows)
{
    rows->n = 0;
    rows_add(rows, own_rows, ARRAY_LEN(own_rows), 0);
    sampling_rows(rows, offsetof(struct chat_args, sampling));
    serve_engine_rows(rows, offsetof(struct chat_args, serve));
    rows_default(rows, "log-level", "warn");
}

#define EXAMPLES                                                                                   \
    "Examples:\n"                                                                                  \
    "  ingot chat                                  # with the server at " DEFAULT_ENDPOINT "\n"    \
    "  ingot chat demo-model --temperature 0\n"                                                    \
    "  echo 'What is Ingot?' | ingot chat demo-model\n"

#define KEYS                                                                                       \
    "Keys at a terminal:\n"                                                                        \
    "  Up, Down, Ctrl-R        earlier messages; search them\n"                                    \
    "  Alt-Enter               a newline in the message; pasted lines are one message\n"           \
    "  Ctrl-C                  at the prompt: drop the line; on an empty line, twice: end\n"       \
    "                          during an answer: cancel it\n"                                      \
    "  Ctrl-D                  end\n"                                                              \
    "Line editing: libedit; ~/.editrc is read.\n"

#define NO_KEYS                                                                                    \
    "Ctrl-C during an answer cancels it; at the prompt Ctrl-C twice or Ctrl-D ends.\n"             \
    "Line editing: none (this build has no libedit): one line is one message.\n"

struct option_set chat_option_set(const struct row_list *rows)
{
    return (struct option_set){
        .program = "ingot chat",
        .usage = "[MODEL | --connect EP] [options]",
        .summary = "A conversation with a model. Given MODEL, a folder in HuggingFace layout or a "
                   ".gguf file, it is loaded for this conversation; otherwise a running server is "
                   "asked. When standard input is a file or a pipe, each line is one message.",
        .epilog = line_editor_name()
                      ? EXAMPLES "\n" CHAT_COMMANDS_HELP "\n" KEYS "\n" EXIT_CODES_HELP
                      : EXAMPLES "\n" CHAT_COMMANDS_HELP "\n" NO_KEYS "\n" EXIT_CODES_HELP,
        .rows = rows->row,
        .n_rows = rows->n,
        .max_args = 1,
    };
}

bool chat_parse(struct chat *ch, struct chat_args *a)
{
    char *argv[MAX_CHANGES + MAX_CHAT_ARGS];
    struct option_result res;
    struct row_list rows;
    int n = 0;
    for (int i = 0; i < ch->argc; i++)
        argv[n++] = ch->argv[i];
    for (size_t i = 0; i < ch->n_changes; i++)
        argv[n++] = ch->changes[i];
    chat_rows(&rows);
    struct option_set set = chat_option_set(&rows);
    *a = (struct chat_args){.connect = NULL};
    return options_parse(&set, a, n, argv, &res) == ST_OK;
}
