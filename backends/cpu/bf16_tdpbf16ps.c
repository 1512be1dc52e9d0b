/* AMX (its tile registers, BF16): the instruction that defines BF16_TILES. */
#include "backends/cpu/bf16.h"

#include "backends/cpu/amx_tiles.h"
#include "backends/cpu/bf16_round.h"
#include "backends/cpu/read_ahead.h"
#include "backends/cpu/simd_avx512.h"
#include "backends/cpu/vectors.h"

enum {
    T_ROWS = 16, /* of a tile register */
    T_COLS = 16,
    ROWS = 2 * T_ROWS,
    GROUP_PAIRS = BF16_GROUP / 2,
    FEW_ROWS = 4, /* up to here fused multiply-adds keep up with the memory */
};

/* Tile registers: 0 to 3 are the sums, [two tiles of rows][columns 0 to 15, 16 to 31]; 4 and 5 x of
 * the two tiles of rows; 6 and 7 the weights of both halves of the columns. */
static void configure(int rows, int pairs)
{
    struct tile_config c = {.palette = 1};
    int first = rows < T_ROWS ? rows : T_ROWS, second = rows > T_ROWS ? rows - T_ROWS : first;
    for (int i = 0; i < 8; i++) {
        bool of_first = i < 2 || i == 4;
        c.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? 4 * pairs : 4 * T_COLS);
        c.rows[i] = (uint8_t)(i > 5 ? pairs : of_first ? first : second);
    }
    tiles_configure(&c);
}

static void load_sums(const struct bf16_chain *c)
{
    _tile_loadd(0, c->acc, PANEL * sizeof(float));
    _tile_loadd(1, &c->acc[0][T_COLS], PANEL * sizeof(float));
    if (c->rows > T_ROWS) {
        _tile_loadd(2, c->acc[T_ROWS], PANEL * sizeof(float));
        _tile_loadd(3, &c->acc[T_ROWS][T_COLS], PANEL * sizeof(float));
    }
}

static void store_sums(const struct bf16_chain *c)
{
    _tile_stored(0, c->acc, PANEL * sizeof(float));
    _tile_stored(1, &c->acc[0][T_COLS], PANEL * sizeof(float));
    if (c->rows > T_ROWS) {
        _tile_stored(2, c->acc[T_ROWS], PANEL * sizeof(float));
        _tile_stored(3, &c->acc[T_ROWS][T_COLS], PANEL * sizeof(float));
    }
}

ALWAYS_INLINE void add_group(const uint16_t *x, const uint16_t *w, bool two)
{
    _tile_loadd(4, x, BF16_GROUP * sizeof *x);
    _tile_loadd(6, w, PANEL * 4);
    _tile_loadd(7, w + PANEL, PANEL * 4);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (two) {
        _tile_loadd(5, x + T_ROWS * BF16_GROUP, BF16_GROUP * sizeof *x);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

/* Whole groups of pairs. */
ALWAYS_INLINE void add_groups(const struct bf16_chain *c, int n, bool two)
{
    const struct read_ahead read = c->read;
    const char *ahead = c->ahead;
    const int step = c->ahead_step;
    const uint16_t *x = c->x, *w = c->w;
    for (; n > 0; n--, x += c->rows * BF16_GROUP, w += GROUP_PAIRS * PANEL * 2) {
        for (int i = 0; i < GROUP_PAIRS; i++, ahead += step)
            read_ahead(read, ahead, step);
        add_group(x, w, two);
    }
}

/* Groups of 16 pairs, then, with other shapes of the tiles, one of fewer. */
static void tile_chain(const struct bf16_chain *c)
{
    int groups = c->pairs / GROUP_PAIRS, left = c->pairs % GROUP_PAIRS;
    bool two = c->rows > T_ROWS;
    if (c->rows <= FEW_ROWS) {
        bf16_avx512[BF16_TILES].chain(c);
        return;
    }
    if (groups > 0) {
        configure(c->rows, GROUP_PAIRS);
        load_sums(c);
        if (two)
            add_groups(c, groups, true);
        else
            add_groups(c, groups, false);
        store_sums(c);
    }
    if (left > 0) {
        configure(c->rows, left);
        load_sums(c);
        add_group(c->x + groups * c->rows * BF16_GROUP, c->w + groups * GROUP_PAIRS * PANEL * 2,
                  two);
        store_sums(c);
    }
    _tile_release();
}

const struct bf16_kernels bf16_tdpbf16ps = {
    .name = "tdpbf16ps",
    .tile_rows = ROWS,
    .piece_pairs = 128,
    .chain = tile_chain,
    .round = bf16_round_row,
    .climb = climb_rows,
};
