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
    {"plain", 16, 128, plain_pairs, bf16_round_row, climb_rows, NULL},
    {"plain", 16, 128, plain_tiles, bf16_round_row, climb_rows, NULL},
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

enum { GROUP_PAIRS = BF16_GROUP / 2 };

/* A place between two pairs of a panel, in the order of K. */
struct place {
    int slice;
    int32_t pair;  /* of the slice */
    size_t w_pair; /* of the panel */
    size_t group;  /* of a row of x */
};

static int32_t slice_pairs(const struct bf16_panel *t, int s)
{
    return (t->slice_end[s] - (s ? t->slice_end[s - 1] : 0) + 1) / 2;
}

/* At most `most` pairs of the slice from there on, groups as a whole. */
static int32_t pairs_from(const struct bf16_panel *t, const struct place *at, int32_t most)
{
    int32_t left = slice_pairs(t, at->slice) - at->pair;
    return left <= most ? left : most / GROUP_PAIRS * GROUP_PAIRS;
}

static void go_on(const struct bf16_panel *t, struct place *at, int32_t pairs)
{
    at->pair += pairs;
    at->w_pair += (size_t)pairs;
    at->group += (size_t)(pairs + GROUP_PAIRS - 1) / GROUP_PAIRS;
    if (at->pair == slice_pairs(t, at->slice)) {
        at->slice++;
        at->pair = 0;
    }
}

/* One tile, rows [row, row + c->rows), with `pairs` pairs of a slice. */
static void add_pairs(const struct bf16_kernels *k, const struct bf16_panel *t,
                      const struct place *at, int32_t pairs, int row, struct bf16_chain *c,
                      struct slice_tree *own)
{
    const struct slice_out out = {t->n_slices, t->cols, t->bias, t->out, t->out_stride};
    const size_t groups = (size_t)bf16_groups(t->n_slices, t->slice_end);
    c->x = t->x + ((size_t)row * groups + (size_t)c->rows * at->group) * BF16_GROUP;
    c->w = t->panel + at->w_pair * PANEL * 2;
    c->pairs = pairs;
    c->acc = slice_sums(own, at->slice) + row;
    bool begins = at->pair == 0, ends = at->pair + pairs == slice_pairs(t, at->slice);
    if (begins && ends && k->slice) {
        k->slice(c, own, &out, at->slice, row);
    } else {
        if (begins)
            memset(c->acc, 0, (size_t)c->rows * sizeof c->acc[0]);
        k->chain(c);
        if (ends)
            k->climb(own, &out, at->slice, row, c->rows);
    }
    c->ahead += pairs * c->ahead_step;
}

/* All tiles with the next `most` pairs, or somewhat fewer.  Returns the place behind them. */
static struct place add_piece(const struct bf16_kernels *k, const struct bf16_panel *t,
                              struct place from, int32_t most, struct slice_tree *own)
{
    struct bf16_chain c = {.ahead = (const char *)(t->panel + from.w_pair * PANEL * 2),
                           .ahead_step = PANEL * 4 / t->n_tiles,
                           .read = t->read};
    struct place at = from;
    if (t->n_tiles > 1) /* the first tile brings the piece into the cache */
        c.read = read_ahead_of_next(t->read, (uint32_t)most * PANEL * 4);
    for (int i = 0; i < t->n_tiles; i++) {
        int row = cut_start(t->rows, t->n_tiles, i);
        int32_t left = most, n;
        c.rows = cut_start(t->rows, t->n_tiles, i + 1) - row;
        for (at = from; at.slice < t->n_slices; left -= n, go_on(t, &at, n)) {
            n = pairs_from(t, &at, left);
            if (n == 0 && slice_pairs(t, at.slice) > 0)
                break;
            add_pairs(k, t, &at, n, row, &c, own);
        }
    }
    return at;
}

void bf16_panel_product(const struct bf16_kernels *k, const struct bf16_panel *t)
{
    struct slice_tree own;
    for (struct place at = {0}; at.slice < t->n_slices;)
        at = add_piece(k, t, at, k->piece_pairs, &own);
}
