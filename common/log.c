#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/visible.h"

static char process_name[80] = "ingot";
static enum log_level least_level = LOG_INFO;
static int coloured;

void log_init(const char *name, enum log_level least)
{
    snprintf(process_name, sizeof process_name, "%s", name);
    least_level = least;
    coloured = isatty(STDERR_FILENO);
}

void log_line(enum log_level level, const char *fmt, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    static const char *const colours[] = {"\033[2m", "", "\033[33m", "\033[31m"};
    char text[1300], line[1400];
    struct timespec ts;
    struct tm tm;
    va_list ap;

    if (level < least_level)
        return;
    clock_gettime(CLOCK_REALTIME, &ts);
    localtime_r(&ts.tv_sec, &tm);
    int n = snprintf(line, sizeof line, "%02d:%02d:%02d.%03d %s%-5s%s %s ", tm.tm_hour, tm.tm_min,
                     tm.tm_sec, (int)(ts.tv_nsec / 1000000), coloured ? colours[level] : "",
                     names[level], coloured ? "\033[0m" : "", process_name);
    size_t len = (size_t)n;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    len += visible_text(line + len, sizeof line - len - 1, text, strlen(text));
    line[len++] = '\n';
    /* a log line that cannot be written has nowhere to be reported */
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written;
}

void log_failure(enum log_level level, enum status st, const char *what)
{
    log_line(level, "%s: %s%s", what, st == ST_BUG ? "internal error: " : "", status_text());
    log_line(LOG_DEBUG, "%s: %s at %s", what, status_name(st), status_detail());
}
