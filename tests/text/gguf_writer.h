/* Writes small GGUF files into memory, for tests. */
#ifndef TESTS_TEXT_GGUF_WRITER_H
#define TESTS_TEXT_GGUF_WRITER_H

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#define GGUF_FILE_MAX 32768

struct file {
    unsigned char bytes[GGUF_FILE_MAX];
    size_t n;
};

static inline void put(struct file *f, const void *p, size_t n)
{
    cr_assert_leq(f->n + n, sizeof f->bytes);
    memcpy(f->bytes + f->n, p, n);
    f->n += n;
}

static inline void put_int(struct file *f, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)(v >> 8 * i);
        put(f, &b, 1);
    }
}

static inline void put_str(struct file *f, const char *s)
{
    put_int(f, strlen(s), 8);
    put(f, s, strlen(s));
}

static inline void put_header(struct file *f, uint64_t tensors, uint64_t keys)
{
    f->n = 0;
    put(f, "GGUF", 4);
    put_int(f, 3, 4);
    put_int(f, tensors, 8);
    put_int(f, keys, 8);
}

#endif
