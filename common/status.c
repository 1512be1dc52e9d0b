#include "common/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/visible.h"

static _Thread_local char detail[1024];
static _Thread_local size_t text_at; /* where the text begins, after "file.c:line: " */

enum status status_fail(enum status code, const char *file, int line, const char *fmt, ...)
{
    const char *base = strrchr(file, '/');
    char text[900]; /* formatted apart: the arguments may point into detail */
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int n = snprintf(detail, sizeof detail, "%.64s:%d: ", base ? base + 1 : file, line);
    text_at = n > 0 ? (size_t)n : 0;
    visible_text(detail + text_at, sizeof detail - text_at, text, strlen(text));
    return code;
}

const char *status_detail(void)
{
    return detail;
}

const char *status_text(void)
{
    return detail + text_at;
}

const char *status_name(enum status st)
{
    static const char *const names[ST_N] = {
        [ST_OK] = "ok",
        [ST_NOMEM] = "out_of_memory",
        [ST_IO] = "io",
        [ST_FORMAT] = "format",
        [ST_RANGE] = "range",
        [ST_UNSUPPORTED] = "unsupported",
        [ST_BUSY] = "busy",
        [ST_CANCELED] = "cancelled",
        [ST_TIMEOUT] = "timeout",
        [ST_PEER] = "peer",
        [ST_DEVICE] = "device",
        [ST_BUG] = "bug",
        [ST_NOT_FOUND] = "not_found",
    };
    return st >= 0 && st < ST_N && names[st] ? names[st] : "unknown";
}
