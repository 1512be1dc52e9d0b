/* Lines of the Test Anything Protocol from plain C: a GPU machine has no Criterion. */
#ifndef TESTS_GPU_TAP_H
#define TESTS_GPU_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

struct tap {
    int n, failed, skipped;
};

__attribute__((format(printf, 2, 0))) static inline void tap_line(const char *verdict,
                                                                  const char *fmt, va_list args)
{
    printf("%s - ", verdict);
    vprintf(fmt, args);
    putchar('\n');
    fflush(stdout);
}

/* One case.  Returns fine. */
__attribute__((format(printf, 3, 4))) static inline bool tap_ok(struct tap *t, bool fine,
                                                                const char *fmt, ...)
{
    char verdict[32];
    va_list args;
    snprintf(verdict, sizeof verdict, "%s %d", fine ? "ok" : "not ok", ++t->n);
    t->failed += !fine;
    va_start(args, fmt);
    tap_line(verdict, fmt, args);
    va_end(args);
    return fine;
}

/* A case that cannot run here. */
static inline void tap_skip(struct tap *t, const char *name, const char *why)
{
    t->skipped++;
    printf("ok %d - %s # SKIP %s\n", ++t->n, name, why);
    fflush(stdout);
}

/* The plan; the program's exit status.  No case at all is a failure. */
static inline int tap_end(const struct tap *t)
{
    printf("1..%d\n", t->n);
    return t->failed > 0 || t->n == 0;
}

#endif
