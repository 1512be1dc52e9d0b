/* Lines from standard input, read so that waiting for one can be interrupted and shared with other
 * work. */
#ifndef CLIENT_CLI_LINE_INPUT_H
#define CLIENT_CLI_LINE_INPUT_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_LINE_BYTES = 1 << 20 };

struct line_input {
    char *data;           /* malloc'ed; begin with {0} */
    size_t n, cap, taken; /* bytes read; bytes of the line returned last */
    bool ended;
};

enum line_result {
    LINE_READY,
    LINE_NOT_YET, /* the time is over, or a signal came */
    LINE_END,
    LINE_TOO_LONG,
};

/* Waits at most timeout_ms for a whole line; *line is NUL-terminated, without its newline, and
 * valid until the next call. */
enum line_result line_read(struct line_input *in, int timeout_ms, char **line);
void line_input_free(struct line_input *in);

#endif
