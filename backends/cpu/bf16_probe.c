/* Does a processor's instruction follow its manual?  Manuals of other makers are silent about some
 * of it, and an emulator may differ. */
#include <string.h>

#include "backends/cpu/bf16.h"
#include "common/hash.h"

/* Rows: more than any kernel takes for few. */
enum { ROUNDS = 64, PROBE_PAIRS = 35, PROBE_ROWS = 8 };

/* A number whose exponent is one of a few neighbours, so that sums cancel and round. */
static uint16_t number(uint64_t h, unsigned exponent, unsigned spread)
{
    unsigned e = exponent + (unsigned)(h >> 20) % spread;
    return (uint16_t)((h & 0x8000U) | e << 7 | (h >> 32 & 0x7fU));
}

/* Round i's operands: near 1; products near the least normal number; denormals; any exponent; large
 * ones that overflow; and infinities with zeros. */
static uint16_t operand(int round, uint64_t seed, bool of_x)
{
    uint64_t h = hash_mix(seed);
    switch (round % 6) {
    case 0:
        return number(h, 124, 8);
    case 1:
        return number(h, 58, 12);
    case 2:
        return of_x ? number(h, 0, 3) : number(h, 120, 16);
    case 3:
        return number(h, 0, 255);
    case 4:
        return number(h, 180, 20);
    default:
        return h % 5 == 0 ? (uint16_t)(h & 0x8000U ? 0x7f80 : 0xff80) : number(h, 0, 255);
    }
}

static float start(int round, uint64_t seed)
{
    uint64_t h = hash_mix(seed);
    float low = f32_of_bits((uint32_t)(h & 0x80ffffffU)); /* up to twice the least normal number */
    return round % 3 == 0 ? 0.0f : round % 6 == 3 ? (float)(int64_t)h * 0x1p-60f : low;
}

static bool equal(float a, float b)
{
    return bits_of_f32(a) == bits_of_f32(b) || (isnan(a) && isnan(b));
}

bool bf16_agrees(const struct bf16_kernels *k, enum bf16_order order)
{
    enum { GROUPS = (2 * PROBE_PAIRS + BF16_GROUP - 1) / BF16_GROUP };
    _Alignas(64) uint16_t x[GROUPS * PROBE_ROWS * BF16_GROUP] = {0}, w[PROBE_PAIRS * PANEL * 2];
    _Alignas(64) float want[PROBE_ROWS][PANEL], got[PROBE_ROWS][PANEL];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t seed = (uint64_t)i << 32;
        struct bf16_chain c = {.x = x, .w = w, .ahead = (const char *)w};
        c.rows = k->tile_rows < PROBE_ROWS ? k->tile_rows : PROBE_ROWS;
        c.pairs = i % 2 ? 1 + i % PROBE_PAIRS : PROBE_PAIRS;
        for (size_t j = 0; j < ARRAY_LEN(x); j++)
            x[j] = operand(i, seed++, true);
        for (size_t j = 0; j < ARRAY_LEN(w); j++)
            w[j] = operand(i, seed++, false);
        for (int j = 0; j < PROBE_ROWS * PANEL; j++)
            want[j / PANEL][j % PANEL] = start(i, seed++);
        memcpy(got, want, sizeof got);
        c.acc = want;
        bf16_plain[order].chain(&c);
        c.acc = got;
        k->chain(&c);
        for (int j = 0; j < PROBE_ROWS * PANEL; j++)
            if (!equal(want[j / PANEL][j % PANEL], got[j / PANEL][j % PANEL]))
                return false;
    }
    return true;
}
