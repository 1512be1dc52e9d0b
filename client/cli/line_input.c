#include "client/cli/line_input.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* a line that is complete; the last one may lack its newline */
static bool take_line(struct line_input *in, char **line)
{
    char *end = in->n ? memchr(in->data, '\n', in->n) : NULL;
    if (!end && !(in->ended && in->n))
        return false;
    size_t n = end ? (size_t)(end - in->data) : in->n;
    in->taken = n + (end ? 1 : 0);
    if (n && in->data[n - 1] == '\r')
        n--;
    in->data[n] = '\0';
    *line = in->data;
    return true;
}

static bool make_room(struct line_input *in)
{
    if (in->n + 1 < in->cap)
        return true;
    size_t cap = in->cap ? 2 * in->cap : 4096;
    char *data = cap <= 2 * (size_t)MAX_LINE_BYTES ? realloc(in->data, cap) : NULL;
    if (!data)
        return false;
    in->data = data;
    in->cap = cap;
    return true;
}

enum line_result line_read(struct line_input *in, int timeout_ms, char **line)
{
    if (in->taken) {
        in->n -= in->taken;
        memmove(in->data, in->data + in->taken, in->n);
        in->taken = 0;
    }
    if (take_line(in, line))
        return LINE_READY;
    if (in->ended)
        return LINE_END;
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&p, 1, timeout_ms) <= 0)
        return LINE_NOT_YET;
    if (!make_room(in))
        return LINE_TOO_LONG;
    ssize_t n = read(STDIN_FILENO, in->data + in->n, in->cap - in->n - 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return LINE_NOT_YET;
    if (n <= 0)
        in->ended = true;
    else
        in->n += (size_t)n;
    if (take_line(in, line))
        return LINE_READY;
    return in->ended ? LINE_END : LINE_NOT_YET;
}

void line_input_free(struct line_input *in)
{
    free(in->data);
    *in = (struct line_input){0};
}
