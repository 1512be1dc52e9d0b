/* The inside of struct gguf, for the files gguf*.c. */
#ifndef COMMON_FORMATS_GGUF_IMPL_H
#define COMMON_FORMATS_GGUF_IMPL_H

#include "common/formats/gguf.h"

struct gguf_entry {
    struct gguf_str key;
    enum gguf_type type;
    const unsigned char *data; /* scalars: where the value lies */
    struct gguf_str str;       /* GGUF_STRING */
    struct gguf_array array;   /* GGUF_ARRAY */
    const unsigned char *raw;  /* the value as the file has it */
    size_t n_raw;              /* bytes */
};

struct gguf {
    uint32_t version;
    uint64_t alignment;
    struct gguf_entry *entries;
    size_t n_entries;
    struct gguf_tensor *tensors;
    size_t n_tensors;
    /* of a model in several files; n_parts 1: this is all of it */
    uint64_t part, n_parts, n_all_tensors;
};

/* gguf_split.c: reads the keys split.*. */
MUST_CHECK enum status gguf_read_part(struct gguf *g);

/* gguf_read.c: by name; a doubled one is ST_FORMAT. */
MUST_CHECK enum status gguf_sort_tensors(struct gguf *g);

/* gguf_types.c: bytes of a scalar; 0: not a scalar. */
size_t gguf_scalar_size(uint32_t type);

/* Little-endian bytes at p as a number. */
uint64_t gguf_load(const unsigned char *p, size_t n);

/* < 0, 0, > 0: by bytes, a prefix first. */
int gguf_str_order(struct gguf_str a, struct gguf_str b);

#endif
