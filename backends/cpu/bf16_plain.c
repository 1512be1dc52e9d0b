/* The executable specification of products with rounded activations, and the parts that all
 * instruction sets share: the strip of rounded rows, slices and tiles. */
#include <string.h>

#include "backends/cpu/bf16.h"
#include "backends/cpu/bf16_round.h"

/* Denormals to zero of their sign. */
static float flush(float v)
{
    return fabsf(v) < 0x1p-126f ? copysignf(0.0f, v) : v;
}

/* a b + c.  A sum so small that it might be a denormal is exact in double: a and b have 8
 * significant bits, c is no denormal. */
static float step(uint16_t a, uint16_t b, float c)
{
    float x = flush(f32_of_bf16(a)), y = flush(f32_of_bf16(b)), sum = fmaf(x, y, flush(c));
    if (fabsf(sum) > 0x1p-126f || sum == 0.0f || isnan(sum))
        return sum;
    double exact = (double)x * (double)y + (double)flush(c);
    return fabs(exact) < 0x1p-126 - 0x1p-151 ? copysignf(0.0f, sum) : sum; /* ties to 2^-126 */
}

static const uint16_t *pair_of_x(const struct bf16_chain *c, int row, int pair)
{
    int group = pair / (BF16_GROUP / 2), at = pair % (BF16_GROUP / 2);
    return c->x + ((size_t)group * (size_t)c->rows + (size_t)row) * BF16_GROUP + 2 * at;
}

static void plain_pairs(const struct bf16_chain *c)
{
    for (int r = 0; r < c->rows; r++)
        for (int col = 0; col < PANEL; col++) {
            float acc = c->acc[r][col];
            for (int p = 0; p < c->pairs; p++) {
                const uint16_t *x = pair_of_x(c, r, p), *w = c->w + (p * PANEL + col) * 2;
                acc = step(x[1], w[1], acc);
                acc = step(x[0], w[0], acc);
            }
            c->acc[r][col] = acc;
        }
}

static void plain_tiles(const struct bf16_chain *c)
{
    for (int r = 0; r < c->rows; r++)
        for (int col = 0; col < PANEL; col++)
            for (int p = 0; p < c->pairs;) {
                float even = 0.0f, odd = 0.0f;
                do {
                    const uint16_t *x = pair_of_x(c, r, p), *w = c->w + (p * PANEL + col) * 2;
                    even = step(x[0], w[0], even);
                    odd = step(x[1], w[1], odd);
                } while (++p % (BF16_GROUP / 2) && p < c->pairs);
                c->acc[r][col] = flush(flush(c->acc[r][col]) + flush(even + odd));
            }
}

const struct bf16_kernels bf16_plain[BF16_ORDERS] = {
    {"plain", 16, plain_pairs, bf16_round_row},
    {"plain", 16, plain_tiles, bf16_round_row},
};

/* ---- strips ---- */

void bf16_put_row(const struct bf16_kernels *k, int n_slices, const int32_t *slice_end,
                  const float *x, int row, int rows, uint16_t *tile)
{
    uint16_t *to = tile + (size_t)row * BF16_GROUP;
    for (int s = 0, i = 0; s < n_slices; s++)
        for (; i < slice_end[s]; to += (size_t)rows * BF16_GROUP) {
            int n = slice_end[s] - i < BF16_GROUP ? slice_end[s] - i : BF16_GROUP;
            if (n < BF16_GROUP)
                memset(to, 0, BF16_GROUP * sizeof *to);
            k->round(x + i, n, to);
            i += n;
        }
}

/* ---- panels ---- */

enum {
    CHUNK = 128, /* pairs that all tiles take before the next ones: 16 KiB of a panel, whole
                        groups of a slice */
};

/* The pairs of one slice, for all tiles; x_group: the slice's first group in a row of x. */
static void add_slice(const struct bf16_kernels *k, const struct bf16_panel *t, const uint16_t *w,
                      int pairs, int x_group, int x_groups, float (*acc)[PANEL])
{
    for (int p = 0; p < pairs; p += CHUNK) {
        struct bf16_chain c = {.w = w + (size_t)p * PANEL * 2, .read = t->read};
        if (t->n_tiles > 1) /* the first tile brings the chunk into the cache */
            c.read = read_ahead_of_next(t->read, CHUNK * PANEL * 4);
        c.pairs = pairs - p < CHUNK ? pairs - p : CHUNK;
        c.ahead_step = PANEL * 4 / t->n_tiles;
        for (int i = 0; i < t->n_tiles; i++) {
            int r0 = cut_start(t->rows, t->n_tiles, i);
            c.rows = cut_start(t->rows, t->n_tiles, i + 1) - r0;
            c.x = t->x + ((size_t)r0 * (size_t)x_groups +
                          (size_t)c.rows * (size_t)(x_group + p / (BF16_GROUP / 2))) *
                             BF16_GROUP;
            c.acc = acc + r0;
            c.ahead = (const char *)c.w + (size_t)i * (size_t)(c.pairs * c.ahead_step);
            k->chain(&c);
        }
    }
}

void bf16_panel_product(const struct bf16_kernels *k, const struct bf16_panel *t)
{
    struct slice_tree own;
    float(*sums)[PANEL] = own.tree[0];
    int groups = bf16_groups(t->n_slices, t->slice_end), group = 0, from = 0;
    const uint16_t *w = t->panel;
    for (int s = 0; s < t->n_slices; from = t->slice_end[s++]) {
        int pairs = (t->slice_end[s] - from + 1) / 2;
        memset(slice_sums(&own, s), 0, (size_t)t->rows * sizeof own.acc[0]);
        add_slice(k, t, w, pairs, group, groups, slice_sums(&own, s));
        sums = climb_rows(t->rows, s, &own);
        group += (pairs + BF16_GROUP / 2 - 1) / (BF16_GROUP / 2);
        w += (size_t)pairs * PANEL * 2;
    }
    for (int r = 0; r < t->rows; r++) {
        for (int c = 0; t->bias && c < PANEL; c++)
            sums[r][c] += t->bias[c];
        memcpy(t->out + (size_t)r * t->out_stride, sums[r], (size_t)t->cols * sizeof(float));
    }
}
