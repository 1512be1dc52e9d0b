/* Rows of x in 8 bits: one source for all instruction sets, as row_kernels.h. */
#ifndef BACKENDS_CPU_QUANT_X_H
#define BACKENDS_CPU_QUANT_X_H

#include <string.h>

#include "backends/cpu/sorted.h"

/* x [GROUP], zero outside the slice. */
static inline void quantize_group(const float x[GROUP], int8_t a[GROUP], struct quant_x *info)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, nearest even */
    uint32_t most = 0;
    int32_t sum_low = 0, sum = 0;
    for (int i = 0; i < GROUP; i++) {
        uint32_t m = bits_of_f32(x[i]) & 0x7fffffffU; /* ordered as the magnitudes */
        most = m > most ? m : most;
    }
    float amax = f32_of_bits(most), inverse = 127.0f / amax, d = amax / 127.0f;
    bool finite = most < 0x7f800000U;
    if (!finite || bits_of_f32(inverse) >= 0x7f800000U) { /* also amax = 0 */
        memset(a, 0, GROUP);
        *info = (struct quant_x){.d = finite ? 0.0f : f32_of_bits(0x7fc00000U),
                                 .d_sum = finite ? 0.0f : f32_of_bits(0x7fc00000U)};
        return;
    }
    int32_t n[GROUP];
    for (int i = 0; i < GROUP; i++)
        n[i] = (int32_t)(bits_of_f32(x[i] * inverse + magic) - bits_of_f32(magic));
    for (int i = 0; i < GROUP; i++)
        a[i] = (int8_t)n[i];
    for (int i = 0; i < GROUP; i++) { /* one loop: gcc sums halves of 16 elements one by one */
        sum += n[i];
        sum_low += i < GROUP / 2 ? n[i] : 0;
    }
    *info = (struct quant_x){d, d * (float)sum, -128 * sum, -128 * sum_low};
}

/* x [k] to row `row` of a tile of `rows`.  pairs: 8 bytes of a row, then 8 of its partner, see
 * quant_neon.h. */
static inline void quantize_row(const struct quant_shape *s, const float *x, int row, int rows,
                                char *tile, bool pairs)
{
    pairs = pairs && (row | 1) < rows;
    int32_t skip = s->skip % GROUP;
    for (int i = 0, k = 0; i < s->n_slices; i++) {
        int32_t g, end;
        for (slice_groups(s, i, &g, &end); g < end; g++, tile += rows * X_GROUP_BYTES) {
            int32_t to = (g + 1) * GROUP - skip,
                    n = (to < s->slice_end[i] ? to : s->slice_end[i]) - k;
            int8_t *to_a =
                (int8_t *)tile + (pairs ? row / 2 * 2 * GROUP + row % 2 * 8 : row * GROUP);
            int8_t in_order[GROUP], *a = pairs ? in_order : to_a;
            struct quant_x *info = (struct quant_x *)(void *)(tile + rows * GROUP) + row;
            float edge[GROUP] = {0};
            if (n < GROUP)
                memcpy(edge + (k + skip) % GROUP, x + k, (size_t)n * sizeof *x);
            quantize_group(n < GROUP ? edge : x + k, a, info);
            for (int i_eight = 0; pairs && i_eight < GROUP / 8; i_eight++)
                memcpy(to_a + 16 * i_eight, in_order + 8 * i_eight, 8);
            k += n;
        }
    }
}

static void row_quantize(const struct quant_shape *s, const float *x, int row, int rows, char *tile)
{
#ifdef DOT_MATRIX
    quantize_row(s, x, row, rows, tile, true);
#else
    quantize_row(s, x, row, rows, tile, false);
#endif
}

static void row_sort(const struct sorted_shape *s, const void *plan, const float *x, char *row)
{
    const int32_t *n_chunks = plan, *order = sorted_order(plan);
    const struct sorted_chunk *chunk = sorted_chunks_of(s, plan);
    struct sorted_x *out = (struct sorted_x *)(void *)(row + sorted_infos_at(s));
    for (int i = 0; i < s->n_slices; i++)
        for (int32_t c = 0; c < n_chunks[i]; c++, chunk++, out++) {
            float gathered[SORTED_CHUNK];
            struct quant_x info;
            int n = 4 * chunk->quads;
            for (int e = 0; e < SORTED_CHUNK;
                 e++) /* order goes on with columns behind the last place */
                gathered[e] = x[order[e]];
            for (int e = 0; e < SORTED_CHUNK; e++)
                gathered[e] = e < n ? gathered[e] : 0.0f;
            quantize_group(gathered, (int8_t *)row, &info); /* the rest is overwritten */
            *out = (struct sorted_x){info.d, (float)info.start / 128.0f};
            order += n;
            row += n;
        }
}

#endif
