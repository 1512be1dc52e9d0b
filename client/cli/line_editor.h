/* Messages typed at a terminal: line editing, history, pasted lines as one message.  The terminal is
 * in its usual mode between two calls of line_editor_read, and again when the process is ended by a
 * signal that can be caught or stopped by Ctrl-Z.  Made with libedit (line_editor.c); a build without
 * it has line_editor_none.c, which opens no editor.  One editor a process, one thread. */
#ifndef CLIENT_CLI_LINE_EDITOR_H
#define CLIENT_CLI_LINE_EDITOR_H

#include <stdbool.h>

#include "common/status.h"

struct line_editor;

struct line_editor_config {
    bool colours;                /* of the prompt */
    const char *state, *home;    /* where the history is kept: see history_file_open */
    bool keep_history;           /* false: no file is read or written */
    bool (*idle)(void *context); /* called a few times a second while nothing is typed; false ends
                                    the waiting: TYPED_STOPPED */
    void *context;
};

enum typed {
    TYPED_MESSAGE,
    TYPED_NOTHING,  /* Ctrl-C with an empty line */
    TYPED_CLEARED,  /* Ctrl-C, the line is dropped */
    TYPED_TOO_LONG, /* more than MAX_LINE_BYTES, dropped */
    TYPED_END,      /* Ctrl-D, or the terminal is gone */
    TYPED_STOPPED,  /* SIGTERM, SIGHUP, or idle said so */
};

/* "libedit"; NULL: this build has no line editor. */
const char *line_editor_name(void);

/* ST_UNSUPPORTED: no line editor in this build, no UTF-8 locale, or not such a terminal.  A history
 * that cannot be kept is no failure: line_editor_trouble tells it. */
MUST_CHECK enum status line_editor_open(struct line_editor **out,
                                        const struct line_editor_config *cfg);
/* Why there is no history file; NULL: there is one, or none was asked for. */
const char *line_editor_trouble(const struct line_editor *e);

/* Shows the prompt and waits.  *message: UTF-8, NUL-terminated, may hold newlines, without those at
 * its end; valid until the next call. */
enum typed line_editor_read(struct line_editor *e, char **message);

void line_editor_close(struct line_editor *e); /* NULL is fine */

#endif
