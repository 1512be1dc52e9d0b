/* Attention bit for bit as on the plain path, under every instruction set: every head size in steps
 * of 16, every type of cache, every number of rows in a tile, each row with a range of keys of its
 * own. */
#include "effort.h"
#include "isas.h"
#include "ops/op_checks.h"

enum { TILE_MOST = 17 }; /* a row more than any tile has */

static const int32_t head_sizes[] = {8,   16,  24,  32,  48,  64,  80,  96,  112, 128,
                                     144, 160, 176, 192, 208, 224, 240, 256, 272};
static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16, DT_I8, DT_E4M3};

/* Ranges of a tile's rows: of different ends; of different beginnings and ends, over the border of
 * two splits (256 keys); without a key that all rows see; equal for two heads; in blocks of fewer keys than a
 * vector has. */
static const struct ranges {
    int32_t past, window, heads, block_len;
} ranges[] = {{30, 0, 1, 16}, {250, 20, 1, 16}, {30, 5, 1, 16}, {40, 0, 2, 16}, {50, 0, 2, 4}};

static struct op_case case_of(int32_t d, enum dtype t, int32_t rows, const struct ranges *g)
{
    return (struct op_case){.op = &op_attention,
                            .rows = rows,
                            .n_seqs = 1,
                            .past = g->past,
                            .n_q = 2 * g->heads,
                            .n_kv = 2,
                            .q_per_kv = g->heads,
                            .d = d,
                            .block_len = g->block_len,
                            .dtype = t,
                            .window = g->window};
}

static void check_head(int32_t d, struct backend *plain, struct backend *const *others)
{
    for (size_t t = 0; t < ARRAY_LEN(types); t++)
        for (size_t g = 0; g < ARRAY_LEN(ranges); g++)
            for (int32_t rows = 1; rows <= TILE_MOST / ranges[g].heads;
                 rows += (int32_t)effort(1, 4)) {
                struct op_case c = case_of(d, types[t], rows, &ranges[g]);
                float *want = results(plain, &c);
                for (size_t i = 0; i < ARRAY_LEN(float_isas); i++) {
                    if (!others[i])
                        continue;
                    float *got = results(others[i], &c);
                    check_same(&c, got, want, float_isas[i]);
                    free(got);
                }
                free(want);
            }
}

Test(attention, same_bits_for_every_head_type_and_number_of_rows)
{
    struct backend *plain = open_isa("plain", 1), *others[ARRAY_LEN(float_isas)] = {NULL};
    for (size_t i = 0; i < ARRAY_LEN(float_isas); i++)
        if (strcmp(float_isas[i], "plain") != 0)
            others[i] = open_isa(float_isas[i], 1);
    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i++)
        check_head(head_sizes[i], plain, others);
    for (size_t i = 0; i < ARRAY_LEN(float_isas); i++)
        close_isa(others[i]);
    close_isa(plain);
}
