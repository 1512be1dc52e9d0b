#define _GNU_SOURCE /* MAP_NORESERVE */
#include "common/wire/frame.h"

#include <string.h>
#include <sys/mman.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

static const uint8_t magic[4] = {'I', 'N', 'G', 'T'};

/* after a message that used more than this the pages go back to the system */
enum { KEEP_BYTES = 4 << 20 };

enum status wire_mem_init(struct wire_mem *m, size_t cap)
{
    *m = (struct wire_mem){0};
    void *p =
        mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        FAIL(ST_NOMEM, "cannot reserve %zu bytes for messages", cap);
    m->base = p;
    m->cap = cap;
    return ST_OK;
}

void wire_mem_fini(struct wire_mem *m)
{
    if (m->base)
        munmap(m->base, m->cap);
    *m = (struct wire_mem){0};
}

void wire_mem_reset(struct wire_mem *m)
{
    if (m->used > KEEP_BYTES)
        madvise(m->base + KEEP_BYTES, m->cap - KEEP_BYTES, MADV_DONTNEED);
    if (m->used > m->peak)
        m->peak = m->used;
    m->used = 0;
    m->exhausted = 0;
}

void *wire_mem_alloc(struct wire_mem *m, size_t n)
{
    if (n > m->cap - m->used) {
        m->exhausted = 1;
        return NULL;
    }
    void *p = m->base + m->used;
    size_t padded = (n + 15) & ~(size_t)15;
    m->used = padded > m->cap - m->used ? m->cap : m->used + padded;
    return p;
}

enum status frame_parse(struct frame *out, const void *data, size_t n)
{
    const uint8_t *p = data;
    if (n < FRAME_HEADER || memcmp(p, magic, sizeof magic) != 0)
        FAIL(ST_FORMAT, "not an Ingot frame (%zu bytes without the header INGT)", n);
    if (p[4] != WIRE_MAJOR)
        FAIL(ST_UNSUPPORTED, "protocol version %u.%u; this side speaks %u.%u", p[4], p[5],
             (unsigned)WIRE_MAJOR, (unsigned)WIRE_MINOR);
    uint32_t flags =
        (uint32_t)p[8] | (uint32_t)p[9] << 8 | (uint32_t)p[10] << 16 | (uint32_t)p[11] << 24;
    if (flags)
        FAIL(ST_UNSUPPORTED, "unknown frame flags 0x%x", (unsigned)flags);
    out->minor = p[5];
    out->type = (uint16_t)(p[6] | p[7] << 8);
    out->body = p + FRAME_HEADER;
    out->n_body = n - FRAME_HEADER;
    return ST_OK;
}

void frame_header(uint8_t out[FRAME_HEADER], uint16_t type)
{
    memcpy(out, magic, sizeof magic);
    out[4] = WIRE_MAJOR;
    out[5] = WIRE_MINOR;
    out[6] = (uint8_t)(type & 0xff);
    out[7] = (uint8_t)(type >> 8);
    memset(out + 8, 0, 4);
}
