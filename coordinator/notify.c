#include "coordinator/notify.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/visible.h"

void coordinator_notify(struct coordinator *co, const char *fmt, ...)
{
    char text[1024], line[1024];
    va_list ap;
    if (co->cfg.notify_fd < 0)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : visible_text(line, sizeof line - 1, text, strlen(text));
    line[len++] = '\n';
    if (write(co->cfg.notify_fd, line, len) < 0)
        co->cfg.notify_fd = -1; /* the supervisor is gone; it is told nothing more */
}
