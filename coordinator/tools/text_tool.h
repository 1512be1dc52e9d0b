/* The parts of ingot-text.  Each command takes its own argv (argv[0] is the command's name) and
 * returns the exit code of the program. */
#ifndef COORDINATOR_TOOLS_TEXT_TOOL_H
#define COORDINATOR_TOOLS_TEXT_TOOL_H

#include <stdbool.h>
#include <stdio.h>

#include "common/options.h"
#include "common/status.h"
#include "common/text/text_buf.h"
#include "coordinator/tokenizer/tokenizer.h"

enum text_exit {
    TEXT_OK = 0,
    TEXT_FAILED = 1,  /* a file is missing or malformed, or an id has no token */
    TEXT_USAGE = 2,   /* the command line is wrong */
    TEXT_REFUSED = 3, /* the chat template refused the conversation */
    TEXT_BROKEN = 4,  /* the chat template failed on the conversation, or ran into a limit */
};

#define TEXT_EXIT_CODES                                                                            \
    "Exit codes: 0 done, 1 failure (a file, a format), 2 bad command line, 3 the chat template "   \
    "refused,\n"                                                                                   \
    "4 the chat template failed."

#define TEXT_NO_SERVER "give MODEL or --tokenizer: this program asks no server, `ingot` does"

int text_tokenize(int argc, char **argv, bool colour);
int text_detokenize(int argc, char **argv, bool colour);
int text_template(int argc, char **argv, bool colour);

/* --- shared (text_io.c) --- */

/* Parses the command line.  False: *exit_code is to be returned (help was shown, or the error was
 * said). */
bool text_options(const struct option_set *set, void *dest, int argc, char **argv,
                  struct option_result *res, int *exit_code);

/* Says "ingot COMMAND: ..." on standard error; returns TEXT_FAILED or the given code. */
int text_fail(const char *command);
int text_usage(const char *command, const char *what);
void text_warn(const char *command, const char *what);

/* Appends a whole file; "-" is standard input. */
MUST_CHECK enum status text_read(const char *path, struct text_buf *out);

/* Writes bytes to standard output; ST_IO. */
MUST_CHECK enum status text_write(const char *p, size_t n);

/* Appends s as a JSON string. */
MUST_CHECK enum status text_put_json(struct text_buf *out, const char *s, size_t n);

/* Appends s so that it can be seen: control characters and bytes that are no UTF-8 as escapes. */
MUST_CHECK enum status text_put_visible(struct text_buf *out, const char *s, size_t n);

#endif
