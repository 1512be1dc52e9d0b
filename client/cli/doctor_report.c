/* One line of the report of `ingot doctor`. */
#include <stdarg.h>
#include <stdio.h>

#include "client/cli/cli.h"
#include "client/cli/doctor.h"

void report_line(struct report *r, enum finding f, const char *what, const char *advice,
                 const char *fmt, ...)
{
    static const char *const names[] = {"ok", "warn", "fail"};
    static const int colours[] = {32, 33, 31};
    char text[1024];
    va_list ap;
    printf("%s%-4s%s  %-14s ", cli_sgr(stdout, colours[f]), names[f], cli_sgr(stdout, 0), what);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cli_put_name(stdout, text);
    putchar('\n');
    if (advice && f != FINDING_OK)
        printf("                      -> %s\n", advice);
    fflush(stdout);
    r->n[f]++;
}
