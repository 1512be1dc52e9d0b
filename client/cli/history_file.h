/* Messages typed earlier, kept in a file of the user (mode 0600), one a line: \n and \\ stand for a
 * newline and a backslash.  Programs that run at the same time may share the file: each appends
 * whole lines.  One thread. */
#ifndef CLIENT_CLI_HISTORY_FILE_H
#define CLIENT_CLI_HISTORY_FILE_H

#include <stddef.h>

#include "client/cli/state_path.h"
#include "common/status.h"

enum { HISTORY_MAX = 1000 /* messages */ };

struct history_file {
    int fd;
    char path[STATE_PATH];
};

struct history_lines { /* the oldest first */
    char **line;       /* [n]; into data */
    size_t n;
    char *data;
};

/* Opens STATE/ingot/chat_history and makes what is missing; state NULL: HOME/.local/state (the two
 * are the values of XDG_STATE_HOME and HOME).  ST_NOT_FOUND: both are NULL.  ST_IO. */
MUST_CHECK enum status history_file_open(struct history_file *h, const char *state,
                                         const char *home);
/* The last HISTORY_MAX messages; a file with more than twice as many is cut to them. */
MUST_CHECK enum status history_file_read(struct history_file *h, struct history_lines *out);
MUST_CHECK enum status history_file_append(struct history_file *h, const char *text);
void history_lines_free(struct history_lines *l);
void history_file_close(struct history_file *h);

#endif
