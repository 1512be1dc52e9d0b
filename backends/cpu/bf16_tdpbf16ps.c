/* AMX (its tile registers, BF16): the instruction that defines BF16_TILES. */
#include "backends/cpu/bf16.h"

#include <immintrin.h>

#include "backends/cpu/bf16_round.h"
#include "backends/cpu/read_ahead.h"

enum { ROWS = 16, T_COLS = 16 };

/* The operand of LDTILECFG. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Tile registers 0 and 1 are the sums of columns [0, 16) and [16, 32), 2 is x, 3 and 4 weights. */
static void configure(int rows, int pairs)
{
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 5; i++) {
        c.row_bytes[i] = (uint16_t)(i == 2 ? 4 * pairs : 4 * T_COLS);
        c.rows[i] = (uint8_t)(i < 3 ? rows : pairs);
    }
    _tile_loadconfig(&c);
}

static void load_sums(const struct bf16_chain *c)
{
    _tile_loadd(0, c->acc, PANEL * sizeof(float));
    _tile_loadd(1, &c->acc[0][T_COLS], PANEL * sizeof(float));
}

static void store_sums(const struct bf16_chain *c)
{
    _tile_stored(0, c->acc, PANEL * sizeof(float));
    _tile_stored(1, &c->acc[0][T_COLS], PANEL * sizeof(float));
}

static void add_group(const uint16_t *x, const uint16_t *w)
{
    _tile_loadd(2, x, BF16_GROUP * sizeof *x);
    _tile_loadd(3, w, PANEL * 4);
    _tile_loadd(4, w + PANEL, PANEL * 4);
    _tile_dpbf16ps(0, 2, 3);
    _tile_dpbf16ps(1, 2, 4);
}

/* Groups of 16 pairs, then, with other shapes of the tiles, one of fewer. */
static void tile_chain(const struct bf16_chain *c)
{
    enum { FULL = BF16_GROUP / 2 };
    const uint16_t *x = c->x, *w = c->w;
    const char *ahead = c->ahead;
    int left = c->pairs;
    if (left >= FULL) {
        configure(c->rows, FULL);
        load_sums(c);
        for (; left >= FULL; left -= FULL) {
            for (int i = 0; i < FULL; i++, ahead += c->ahead_step)
                read_ahead(c->read, ahead, c->ahead_step);
            add_group(x, w);
            x += c->rows * BF16_GROUP;
            w += FULL * PANEL * 2;
        }
        store_sums(c);
    }
    if (left > 0) {
        configure(c->rows, left);
        load_sums(c);
        add_group(x, w);
        store_sums(c);
    }
    _tile_release();
}

const struct bf16_kernels bf16_tdpbf16ps = {"tdpbf16ps", ROWS, tile_chain, bf16_round_row};
