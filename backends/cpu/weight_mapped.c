/* Packed weights in a mapped file: matrices in its pages, without a copy. */
#include <stdint.h>

#include "backends/cpu/cpu_backend.h"
#include "common/host.h"
#include "common/log.h"

enum { ALIGN = 64 }; /* bytes, of a matrix, as mem_take gives them */

/* A file's pages are on the node whose process read or wrote them first, which may be another one than
 * this rank's: copies are placed. */
enum status cpu_map_packed(struct backend *be, struct mapped_file *file,
                           const struct packed_range *range, size_t n)
{
    (void)range;
    (void)n;
    if (be->packed.size > 0)
        FAIL(ST_BUG, "packed weights are mapped once");
    if (!host_has_one_node(HOST_NODES))
        FAIL(ST_UNSUPPORTED, "this host has several nodes of memory");
    be->packed = *file;
    *file = (struct mapped_file){.data = (const unsigned char *)""};
    return ST_OK;
}

/* Kernels do not write to weights. */
bool mem_borrow(struct buf *b, const struct backend *be, const void *data, size_t bytes)
{
    uintptr_t at = (uintptr_t)data, first = (uintptr_t)be->packed.data;
    if (at < first || bytes > be->packed.size || at - first > be->packed.size - bytes ||
        at % ALIGN != 0 || bytes == 0)
        return false;
    *b = (struct buf){.data = (void *)at, .bytes = bytes};
    return true;
}
