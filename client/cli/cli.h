/* What every subcommand needs: its command line, errors in one line, colours, Ctrl-C, files, JSON
 * strings. */
#ifndef CLIENT_CLI_CLI_H
#define CLIENT_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "client/lib/ingot.h"
#include "common/options.h"
#include "common/status.h"

#define DEFAULT_ENDPOINT "tcp://127.0.0.1:5555"

/* ---- the command line ---- */

/* Parses; -1 to go on, else the exit code (help was printed, or the error was said). */
int cli_parse(const struct option_set *set, void *dest, int argc, char **argv,
              struct option_result *res);

/* ---- errors: one line on standard error, "ingot COMMAND: text" ---- */

int cli_usage(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3); /* returns EXIT_USAGE */
/* What has just failed, ours or the library's; returns code. */
int cli_fail(const char *command, int code);
/* The exit code for a failed call of the library. */
int cli_exit_code(enum ingot_code code);

/* ---- terminal ---- */

/* Call once, in main: colours need a terminal and no NO_COLOR. */
void cli_init_colours(bool forbidden);
/* An escape sequence ("1", "31", "0"), or "" where f has no colours. */
const char *cli_sgr(FILE *f, int code);
bool cli_is_terminal(FILE *f);
/* Text of a model: on a terminal control characters other than newline and tab are shown as U+FFFD. */
void cli_put_text(FILE *f, const char *s, size_t n);
/* A name, an id or a message of a server as one visible line (common/visible.h). */
void cli_put_name(FILE *f, const char *s);

/* ---- Ctrl-C, SIGTERM, SIGHUP ---- */

void interrupts_catch(void);
int interrupts(void);  /* how many came */
bool terminated(void); /* one of them was SIGTERM or SIGHUP */

/* ---- files and JSON ---- */

/* The whole file, NUL-terminated, malloc'ed; "-" is standard input. */
MUST_CHECK enum status cli_read_file(const char *path, char **data, size_t *n);
void cli_put_json(FILE *f, const char *s, size_t n); /* with its quotes */

/* ---- server ---- */

/* The keys of the connection, as every command that connects takes them. */
struct cli_keys {
    const char *key, *server_key;
};

#define CLI_KEY_ROWS(args, member)                                                                 \
    {.name = "key",                                                                                \
     .type = OPT_STRING,                                                                           \
     .at = offsetof(args, member.key),                                                             \
     .arg = "FILE",                                                                                \
     .help = "This program's own key, made by `ingot key new FILE`: TCP "                          \
             "connections between a server and its clients and workers are "                       \
             "encrypted, and each side proves its key."},                                          \
    {                                                                                              \
        .name = "server-key", .type = OPT_STRING, .at = offsetof(args, member.server_key),         \
        .arg = "KEY|FILE",                                                                         \
        .help = "The coordinator's public key, or a file with it (FILE.pub of "                    \
                "its key): needed with --key."                                                     \
    }

/* Connects; -1 to go on, else the exit code, after the error was said.  keys may be NULL. */
int cli_connect(struct ingot_client **c, const char *command, const char *endpoint,
                const struct cli_keys *keys);
/* tenant: NULL or "": a random one; else one that this user's commands share (client/cli/own_token.h).
 * wait_ms: of --wait-ms; a server that does not answer at first gets so long, and a note says so. */
int cli_connect_as(struct ingot_client **c, const char *command, const char *endpoint,
                   const char *tenant, uint32_t wait_ms, const struct cli_keys *keys);
/* As cli_connect, to operate the server: see ingot_options.operate. */
int cli_connect_operator(struct ingot_client **c, const char *command, const char *endpoint,
                         const struct cli_keys *keys);

#endif
