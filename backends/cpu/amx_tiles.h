/* The shapes of AMX's tile registers. */
#ifndef BACKENDS_CPU_AMX_TILES_H
#define BACKENDS_CPU_AMX_TILES_H

#include <immintrin.h>
#include <stdint.h>

/* The operand of LDTILECFG. */
struct tile_config {
    uint8_t palette, start_row, reserved[14]; /* palette 1: eight registers of 1 KiB */
    uint16_t row_bytes[16];                   /* of a row: at most 64 */
    uint8_t rows[16];                         /* at most 16 */
};

/* GCC 12's _tile_loadconfig names the first 8 bytes of its operand alone, so it may be compiled as if
 * the others were never read; the empty statement names them all. */
__attribute__((target("amx-tile"))) static inline void tiles_configure(const struct tile_config *c)
{
    __asm__ volatile("" ::"m"(*c));
    _tile_loadconfig(c);
}

#endif
