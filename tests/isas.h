/* The instruction sets of the CPU backend, for tests that run under each of them that the machine
 * can execute. */
#ifndef TESTS_ISAS_H
#define TESTS_ISAS_H

#include <criterion/criterion.h>

#include "backends/backend.h"

/* Every choice of --isa, and those that differ outside of products with quantised weights (avx512vnni: in
 * attention). */
static const char *const all_isas[] __attribute__((unused)) = {
    "plain", "avx2", "avxvnni", "avx512", "avx512vnni", "amx", "neon", "neondot", "neoni8mm"};
static const char *const float_isas[]
    __attribute__((unused)) = {"plain", "avx2", "avx512", "avx512vnni", "neon"};

/* A CPU backend; NULL: the machine cannot execute this instruction set. */
static inline struct backend *open_rounding(const char *isa, int threads, enum activations a)
{
    struct backend *be = NULL;
    struct backend_config cfg = {.threads = threads, .isa = isa, .activations = a};
    enum status st = backend_open(&be, "cpu", &cfg);
    if (st == ST_UNSUPPORTED)
        return NULL;
    cr_assert_eq(st, ST_OK, "%s", status_detail());
    return be;
}

static inline struct backend *open_isa(const char *isa, int threads)
{
    return open_rounding(isa, threads, ACTIVATIONS_F32);
}

static inline void close_isa(struct backend *be)
{
    if (be)
        backend_ops_of(be)->close(be);
}

static inline bool has_isa(const char *isa)
{
    struct backend *be = open_isa(isa, 1);
    close_isa(be);
    return be != NULL;
}

#endif
