/* What the programs of check.sh print: TAP for what must hold, and "# fact NAME VALUE" for what is
 * only found out; check.py reads both. */
#ifndef TESTS_METAL_REPORT_H
#define TESTS_METAL_REPORT_H

#include "gpu/tap.h"

__attribute__((format(printf, 1, 2))) static inline void fact(const char *fmt, ...)
{
    va_list args;
    printf("# fact ");
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

#endif
