/* How much of a test's repetition is run.  A sanitizer finds wrong memory accesses and races, which a
 * few repetitions show as well as many, at ten times the cost of each; tests/run.sh --all (INGOT_ALL)
 * runs all of it everywhere. */
#ifndef TESTS_EFFORT_H
#define TESTS_EFFORT_H

#include <stdbool.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static inline bool everything(void)
{
    return getenv("INGOT_ALL") != NULL;
}

static inline bool reduced(void)
{
    return SANITIZED && !everything();
}

/* n, or `few` under a sanitizer. */
static inline long effort(long n, long few)
{
    return reduced() ? few : n;
}

#endif
