/* Patterns of reading ahead for the processors that were measured (docs/measured-history.md,
 * Reading ahead; `bench_ops auto 2 read-ahead` compares eight of them). */
#include "backends/cpu/read_ahead.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stddef.h>
#include <string.h>

#include "common/status.h"

#if defined(__x86_64__)
/* Each line that is asked for also sets the streamer of Intel's processors going, which brings what
 * follows in the page.  Seen on Sapphire Rapids, 2 threads, shares of a plain read's rate: every
 * line 0.9 to 1.0, whole first halves 1.25, three eighths 1.35, a quarter 1.25; 8 KiB ahead 1.2, 16
 * to 64 KiB the same. */
static const struct read_ahead by_default = {READ_AHEAD_BYTES, READ_AHEAD_EIGHTHS,
                                             READ_AHEAD_EIGHTHS};

static const struct row {
    char maker[13];                /* of CPUID leaf 0 */
    unsigned from, until;          /* families, both included */
    unsigned from_model, to_model; /* of these families, both included */
    struct read_ahead pattern;
} table[] = {
    /* Zen 4 (family 25 with these models): its prefetchers alone.  Where they bring 38 to 61 GB/s to two
     * cores, asking for every line costs 6 to 14 %; at 33 GB/s it makes no difference. */
    {"AuthenticAMD", 25, 25, 0x10, 0x1f, {0, 0, 8}},
    {"AuthenticAMD", 25, 25, 0x60, 0x7f, {0, 0, 8}},
    {"AuthenticAMD", 25, 25, 0xa0, 0xaf, {0, 0, 8}},
    /* Zen 3 (the other models): every line; its prefetchers alone bring 13 GB/s of Q8_0 to two cores
     * where these bring 18 to 21.  Zen 5 (26), not measured with this table: every line. */
    {"AuthenticAMD", 25, 25, 0, 255, {8 << 10, 8, 8}},
    {"AuthenticAMD", 26, 26, 0, 255, {4 << 10, 8, 8}},
};

struct read_ahead read_ahead_here(void)
{
    unsigned a, family, model, maker[3], highest;
    if (!__get_cpuid(0, &highest, &maker[0], &maker[2], &maker[1]) ||
        !__get_cpuid(1, &a, &(unsigned){0}, &(unsigned){0}, &(unsigned){0}))
        return by_default;
    family = (a >> 8 & 15U) + ((a >> 8 & 15U) == 15U ? a >> 20 & 255U : 0);
    model = (a >> 4 & 15U) | (a >> 12 & 0xf0U);
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (memcmp(maker, table[i].maker, sizeof maker) == 0 && family >= table[i].from &&
            family <= table[i].until && model >= table[i].from_model && model <= table[i].to_model)
            return table[i].pattern;
    return by_default;
}
#else
/* Not measured: the processor's prefetchers alone for weights, which are read in address order. */
struct read_ahead read_ahead_here(void)
{
    return (struct read_ahead){.kv_eighths = 8};
}
#endif
