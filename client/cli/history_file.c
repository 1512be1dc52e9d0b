#include "client/cli/history_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/state_path.h"

enum { MAX_BYTES = 64 << 20 };

enum status history_file_open(struct history_file *h, const char *state, const char *home)
{
    struct stat st;
    h->fd = -1;
    TRY(state_path(h->path, state, home, "chat_history"));
    h->fd = open(h->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (h->fd < 0 || fstat(h->fd, &st) != 0)
        FAIL(ST_IO, "cannot open %s: %s", h->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        FAIL(ST_IO, "%s is not a regular file", h->path);
    if ((st.st_mode & 077) && fchmod(h->fd, 0600) != 0)
        FAIL(ST_IO, "others may read %s: %s", h->path, strerror(errno));
    return ST_OK;
}

/* ---- reading ---- */

static enum status read_all(struct history_file *h, struct history_lines *out, size_t *n)
{
    struct stat st;
    if (fstat(h->fd, &st) != 0)
        FAIL(ST_IO, "cannot read %s: %s", h->path, strerror(errno));
    if (st.st_size > MAX_BYTES)
        FAIL(ST_RANGE, "%s is longer than %d bytes", h->path, MAX_BYTES);
    size_t size = (size_t)st.st_size;
    out->data = malloc(size + 1);
    if (!out->data)
        FAIL(ST_NOMEM, "no memory for %s", h->path);
    ssize_t got = 0;
    for (*n = 0; *n < size; *n += (size_t)got)
        if ((got = pread(h->fd, out->data + *n, size - *n, (off_t)*n)) <= 0)
            break;
    if (got < 0)
        FAIL(ST_IO, "cannot read %s: %s", h->path, strerror(errno));
    out->data[*n] = '\0';
    return ST_OK;
}

/* in place */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (*s == '\\' && (s[1] == 'n' || s[1] == '\\'))
            *to++ = *++s == 'n' ? '\n' : '\\';
        else
            *to++ = *s;
    }
    *to = '\0';
}

/* Writes the file anew with what begins at `from`. */
static enum status shorten(struct history_file *h, const char *from, size_t n)
{
    if (ftruncate(h->fd, 0) != 0 || write(h->fd, from, n) != (ssize_t)n)
        FAIL(ST_IO, "cannot shorten %s: %s", h->path, strerror(errno));
    return ST_OK;
}

static enum status read_locked(struct history_file *h, struct history_lines *out)
{
    size_t n = 0, n_lines = 0, skip;
    TRY(read_all(h, out, &n));
    for (size_t i = 0; i < n; i++)
        n_lines += out->data[i] == '\n';
    skip = n_lines > HISTORY_MAX ? n_lines - HISTORY_MAX : 0;
    char *at = out->data, *all = out->data + n;
    for (size_t i = 0; i < skip; i++)
        at = (char *)memchr(at, '\n', (size_t)(all - at)) + 1;
    if (n_lines > 2 * HISTORY_MAX)
        TRY(shorten(h, at, (size_t)(all - at)));
    out->line = calloc(HISTORY_MAX, sizeof *out->line);
    if (!out->line)
        FAIL(ST_NOMEM, "no memory for %s", h->path);
    for (char *end; (end = memchr(at, '\n', (size_t)(all - at))); at = end + 1) {
        *end = '\0';
        unescape(at);
        out->line[out->n++] = at;
    }
    return ST_OK;
}

enum status history_file_read(struct history_file *h, struct history_lines *out)
{
    *out = (struct history_lines){0};
    if (flock(h->fd, LOCK_EX) != 0)
        FAIL(ST_IO, "cannot lock %s: %s", h->path, strerror(errno));
    enum status st = read_locked(h, out);
    flock(h->fd, LOCK_UN);
    if (st != ST_OK)
        history_lines_free(out);
    return st;
}

void history_lines_free(struct history_lines *l)
{
    free(l->line);
    free(l->data);
    *l = (struct history_lines){0};
}

/* ---- writing ---- */

enum status history_file_append(struct history_file *h, const char *text)
{
    size_t n = 0;
    char *line = malloc(2 * strlen(text) + 1);
    if (!line)
        FAIL(ST_NOMEM, "no memory for a line of the history");
    for (; *text; text++) {
        if (*text == '\n' || *text == '\\')
            line[n++] = '\\';
        line[n++] = *text;
        if (*text == '\n')
            line[n - 1] = 'n';
    }
    line[n++] = '\n';
    bool ok = flock(h->fd, LOCK_EX) == 0 && write(h->fd, line, n) == (ssize_t)n;
    int err = errno;
    flock(h->fd, LOCK_UN);
    free(line);
    if (!ok)
        FAIL(ST_IO, "cannot write %s: %s", h->path, strerror(err));
    return ST_OK;
}

void history_file_close(struct history_file *h)
{
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
}
