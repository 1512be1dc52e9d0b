/* ingot chat: what its parts share.  One thread. */
#ifndef CLIENT_CLI_CHAT_H
#define CLIENT_CLI_CHAT_H

#include "client/cli/cli.h"
#include "client/cli/conversation.h"
#include "client/cli/line_editor.h"
#include "client/cli/private_server.h"
#include "client/cli/request_options.h"

enum { MAX_CHANGES = 64, MAX_CHAT_ARGS = 256 };

struct chat_args {
    struct sampling_args sampling;
    struct serve_args serve;
    const char *connect, *tenant, *system;
    struct cli_keys keys;
    bool shift, history;
};

struct chat {
    struct chat_args args;
    struct private_server server; /* sup NULL: the server is not ours */
    struct ingot_client *client;
    struct conversation talk;
    int argc; /* the command line, read again with the changes of /params */
    char **argv;
    char *changes[MAX_CHANGES]; /* [n_changes] options, malloc'ed */
    size_t n_changes;
    bool person;                /* at a terminal */
    struct line_editor *editor; /* NULL: lines are read as they come */
    int idle_code;              /* exit code when the server was lost at the prompt, else -1 */
};

/* ---- chat_options.c ---- */

/* The rows of struct chat_args, and the program's option table over them. */
void chat_rows(struct row_list *rows);
struct option_set chat_option_set(const struct row_list *rows);

/* Parses the command line with the changes of /params into a; false: status_text() tells why not. */
bool chat_parse(struct chat *ch, struct chat_args *a);

/* ---- chat_commands.c ---- */

/* Runs a line that begins with one slash (it is changed); false: the conversation is over. */
bool chat_command(struct chat *ch, char *line);
/* For --help. */
#define CHAT_COMMANDS_HELP                                                                         \
    "Commands in the conversation:\n"                                                              \
    "  /help                   list these commands\n"                                              \
    "  /reset                  forget the conversation; the system turn stays\n"                   \
    "  /system TEXT            set the system turn (without TEXT: remove it)\n"                    \
    "  /shift on|off           when the context is full, let the oldest turns leave\n"             \
    "  /params                 show the sampling parameters\n"                                     \
    "  /params NAME=VALUE ...  change some, such as temperature=0.7 max-tokens=200 seed=1\n"       \
    "  /quit                   end\n"                                                              \
    "A message that begins with a slash is written with two: //etc is a folder.\n"

/* ---- chat_turn.c ---- */

/* One message and its answer: -1 to go on, else the exit code. */
int chat_turn(struct chat *ch, const char *message);

#endif
