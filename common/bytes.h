/* Little-endian fields in memory.  Writing beyond the end only counts (n goes on, full() is true
 * then); reading beyond the end gives zeros and sets bad.  So callers check once, at the end. */
#ifndef COMMON_BYTES_H
#define COMMON_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct byte_writer {
    unsigned char *data; /* NULL with cap 0: only counts */
    size_t cap, n;       /* n: bytes asked for so far */
};

struct byte_reader {
    const unsigned char *data;
    size_t left;
    bool bad;
};

static inline bool byte_writer_full(const struct byte_writer *w)
{
    return w->n > w->cap;
}

static inline void put_bytes(struct byte_writer *w, const void *data, size_t n)
{
    if (n && w->n <= w->cap && n <= w->cap - w->n)
        memcpy(w->data + w->n, data, n);
    w->n = n > SIZE_MAX - w->n ? SIZE_MAX : w->n + n;
}

static inline void put_u64(struct byte_writer *w, uint64_t v)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    put_bytes(w, b, 8);
}

static inline void put_u32(struct byte_writer *w, uint32_t v)
{
    const unsigned char b[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
                                (unsigned char)(v >> 24)};
    put_bytes(w, b, 4);
}

static inline void put_f32(struct byte_writer *w, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_u32(w, bits);
}

static inline void put_i32s(struct byte_writer *w, const int32_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_u32(w, (uint32_t)v[i]);
}

/* The next n bytes in place, NULL when there are not as many. */
static inline const unsigned char *get_bytes(struct byte_reader *r, size_t n)
{
    const unsigned char *p = r->data;
    if (r->bad || n > r->left) {
        r->bad = true;
        return NULL;
    }
    r->data += n;
    r->left -= n;
    return p;
}

static inline uint64_t get_u64(struct byte_reader *r)
{
    const unsigned char *b = get_bytes(r, 8);
    uint64_t v = 0;
    for (int i = 7; b && i >= 0; i--)
        v = v << 8 | b[i];
    return v;
}

static inline uint32_t get_u32(struct byte_reader *r)
{
    const unsigned char *b = get_bytes(r, 4);
    return b ? b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24 : 0;
}

static inline float get_f32(struct byte_reader *r)
{
    uint32_t bits = get_u32(r);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline void get_i32s(struct byte_reader *r, int32_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (int32_t)get_u32(r);
}

#endif
