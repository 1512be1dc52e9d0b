/* How a quantised matrix is stored in device memory: panels of QUANT_PANEL rows, one row for each
 * lane of a warp.  A panel is the groups of QUANT_GROUP columns, in order, each `super` of them (a
 * block of the file) behind a head; what the lanes of a warp load together is one run of bytes:
 *
 *   head    d [32] f16 or bf16; with a minimum {d, d_min} [32], two f16; with a zero point
 *           {d, zero} [32], 16 bits each
 *           SUB_BYTES:   for each group sub [32][halves] int8, then with a minimum for each group
 *                        sub_min [32] int8 (halves = 1)
 *           SUB_NIBBLES: for each group [32][2] bytes, sub in the low half, sub_min in the high one
 *   group   the codes in planes of 8, 4, 2 and 1 bits, the least significant bits first:
 *           8 bits  [2][32][16]: elements 0 to 15, then 16 to 31
 *           4 bits  [32][16]: byte i has elements i (low half) and i + 16; with `values` byte i has
 *                   elements 2 i and 2 i + 1
 *           2 bits  [32][8]: byte 4 w + b has elements 16 w + b, + 4, + 8, + 12, from bit 0 on
 *           1 bit   [32][4]: byte b has elements b, b + 4, ..., b + 28, from bit 0 on
 *
 * An element is q scale (+ minimum) as common/quant.h has it: q = code + low, or values[code];
 * scale = d sub, minimum = d_min sub_min, or -scale zero.  A share that begins inside a block keeps
 * the block's head and the groups that it touches.  Rows beyond the last are zero. */
#ifndef BACKENDS_CUDA_QUANT_LAYOUT_H
#define BACKENDS_CUDA_QUANT_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "common/dtype.h"
#include "common/status.h"

enum { QUANT_PANEL = 32, QUANT_GROUP = 32, QUANT_SUPER = 8 };

enum quant_minimum { MINIMUM_NONE, MINIMUM_F16, MINIMUM_ZERO };
enum quant_sub { SUB_NONE, SUB_BYTES, SUB_NIBBLES };

/* One type's storage. */
struct quant_type {
    int32_t bits, halves; /* of a code; scales of a group: 2 where bits is 2, 3 or 6 */
    int32_t low;
    int32_t d_at, min_at; /* offsets of d and d_min, or the zero point, in the file's block */
    enum quant_minimum minimum;
    enum quant_sub sub;   /* else than SUB_NONE: QUANT_SUPER groups have a head */
    int32_t bf16;         /* d */
    const int8_t *values; /* [16] of 4-bit codes, or NULL */
};

/* NULL: not a type in blocks. */
const struct quant_type *quant_type_of(enum dtype t);

/* Where the parts of a panel are; the share begins `before` groups into its first block. */
struct quant_place {
    int32_t before;                /* below super */
    int32_t super_shift;           /* super = 1 << super_shift */
    int32_t head_bytes, sub_bytes; /* sub_bytes: d's, where the subs begin */
    int32_t min_bytes;             /* from the head's begin to sub_min */
    int32_t group_bytes;
    int32_t n_groups; /* of a panel */
    size_t panel_bytes;
};

/* Of a share of k columns that begins `skip` elements into a block. */
struct quant_place quant_place_of(const struct quant_type *q, int32_t skip, int32_t k);

/* Rows [0, n) of a panel, n <= QUANT_PANEL: rows[i] is the block in which row i's share begins.
 * out [panel_bytes] is written whole. */
void quant_store_panel(enum dtype t, const struct quant_place *at, const char *const *rows,
                       int32_t n, char *out);

#ifdef __cplusplus
}
#endif

#endif
