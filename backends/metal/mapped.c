/* Packed weights in a mapped file: buffers over its pages, without a copy.  Neighbours share a buffer as
 * far as the device's largest length allows; two buffers share at most the page in which one weight
 * ends and the next begins. */
#include <stdlib.h>
#include <unistd.h>

#include "backends/metal/metal_backend.h"
#include "backends/metal/objc.h"
#include "common/log.h"

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

size_t metal_edge_bytes(void)
{
    return METAL_MAX_MAPPED * 2 * page_bytes();
}

/* Whole pages of a file. */
struct pages {
    size_t at, end; /* bytes */
};

static struct pages pages_of(const struct packed_range *r)
{
    size_t page = page_bytes();
    return (struct pages){r->at / page * page, metal_round_up(r->at + r->n_bytes, page)};
}

/* The last page may go beyond the file's end: it is mapped whole. */
static enum status map_pages(struct backend *be, const struct mapped_file *file, struct pages p)
{
    size_t bytes = p.end - p.at;
    if (be->n_mapped == METAL_MAX_MAPPED)
        FAIL(ST_NOMEM, "Metal device %s: packed weights in more than %d buffers of %zu bytes",
             be->name, METAL_MAX_MAPPED, be->max_buffer);
    struct metal_block *b = &be->mapped[be->n_mapped];
    *b = (struct metal_block){.data = (char *)(uintptr_t)(file->data + p.at), .bytes = bytes};
    TRY(metal_map_buffer(be, b->data, bytes, &b->buffer));
    be->n_mapped++;
    return ST_OK;
}

static enum status map_all(struct backend *be, const struct mapped_file *file,
                           const struct packed_range *range, size_t n)
{
    for (size_t i = 0, next; i < n; i = next) {
        struct pages all = pages_of(&range[i]);
        for (next = i + 1; next < n; next++) {
            size_t end = pages_of(&range[next]).end;
            if (end - all.at > be->max_buffer)
                break;
            all.end = end;
        }
        TRY(map_pages(be, file, all));
    }
    return ST_OK;
}

static void give_buffers(struct backend *be)
{
    for (int i = 0; i < be->n_mapped; i++)
        metal_give(&be->mapped[i].buffer);
    be->n_mapped = 0;
}

/* What the file's weights count in the plan. */
static enum status count_weights(struct backend *be, const struct packed_range *range, size_t n)
{
    const size_t left = be->plan.part[PART_WEIGHTS] - be->used.part[PART_WEIGHTS];
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += alloc_bytes(range[i].n_bytes);
    if (be->planned && bytes > left)
        FAIL(ST_BUG, "the memory plan has %zu bytes left for weights: not the file's %zu", left,
             bytes);
    be->mapped_left = bytes;
    return ST_OK;
}

enum status metal_map_packed(struct backend *be, struct mapped_file *file,
                             const struct packed_range *range, size_t n)
{
    if (be->n_mapped > 0)
        FAIL(ST_BUG, "packed weights are mapped once");
    TRY(count_weights(be, range, n));
    enum status st = map_all(be, file, range, n);
    if (st != ST_OK) {
        give_buffers(be);
        be->mapped_left = 0;
        return st;
    }
    log_line(LOG_INFO, "Metal: %zu bytes of packed weights are mapped, not copied: %d buffer%s",
             be->mapped_left, be->n_mapped, be->n_mapped == 1 ? "" : "s");
    be->packed = *file;
    *file = (struct mapped_file){.data = (const unsigned char *)""};
    return ST_OK;
}

struct metal_block *metal_mapped_at(struct backend *be, const void *data, size_t bytes)
{
    const char *p = data;
    for (int i = 0; i < be->n_mapped; i++) {
        struct metal_block *b = &be->mapped[i];
        if (p >= b->data && p < b->data + b->bytes && bytes <= (size_t)(b->data + b->bytes - p))
            return b;
    }
    return NULL;
}

void metal_unmap(struct backend *be)
{
    give_buffers(be);
    mapped_file_close(&be->packed);
}
