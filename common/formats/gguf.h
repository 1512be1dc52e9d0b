/* GGUF files (version 2 and 3, little endian): header, metadata, tensor table; a pure parser over
 * (pointer, length).  Everything is range-checked here, once: lengths, counts, types, alignment,
 * dimensions, block counts, tensor extents, overlaps and repeated names.  Callers can trust the
 * values that a getter returns.
 *
 * Callers: the tokenizer (vocabularies) and the weight loader (tensors).
 * Ownership: a struct gguf borrows the bytes, which must outlive it and stay unchanged.
 * Threads: read-only after gguf_parse, any number of threads.
 * Source: the GGUF specification, docs/gguf.md of ggml-org/ggml. */
#ifndef COMMON_FORMATS_GGUF_H
#define COMMON_FORMATS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dtype.h"
#include "common/status.h"

#define GGUF_MAX_KEYS 65536
#define GGUF_MAX_TENSORS 262144
#define GGUF_MAX_NAME 65535 /* bytes of a key or tensor name */
#define GGUF_MAX_DIMS 4

/* Types of a metadata value; the numbers are the file's. */
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_N
};

/* Types of a tensor; the numbers are the file's. */
enum ggml_type {
    GGML_F32 = 0,
    GGML_F16 = 1,
    GGML_Q4_0 = 2,
    GGML_Q4_1 = 3,
    GGML_Q5_0 = 6,
    GGML_Q5_1 = 7,
    GGML_Q8_0 = 8,
    GGML_Q8_1 = 9,
    GGML_Q2_K = 10,
    GGML_Q3_K = 11,
    GGML_Q4_K = 12,
    GGML_Q5_K = 13,
    GGML_Q6_K = 14,
    GGML_Q8_K = 15,
    GGML_IQ2_XXS = 16,
    GGML_IQ2_XS = 17,
    GGML_IQ3_XXS = 18,
    GGML_IQ1_S = 19,
    GGML_IQ4_NL = 20,
    GGML_IQ3_S = 21,
    GGML_IQ2_S = 22,
    GGML_IQ4_XS = 23,
    GGML_I8 = 24,
    GGML_I16 = 25,
    GGML_I32 = 26,
    GGML_I64 = 27,
    GGML_F64 = 28,
    GGML_IQ1_M = 29,
    GGML_BF16 = 30,
    GGML_TQ1_0 = 34,
    GGML_TQ2_0 = 35,
    GGML_MXFP4 = 39,
    GGML_NVFP4 = 40
};

struct ggml_type_info {
    const char *name; /* "q4_k" */
    uint32_t block;   /* elements of a block */
    uint32_t bytes;   /* bytes of a block */
};
/* NULL: not a type that Ingot knows. */
const struct ggml_type_info *ggml_type_info(uint32_t type);
/* DT_N: not one that Ingot computes with. */
enum dtype gguf_dtype(enum ggml_type type);

struct gguf_str {
    const char *data; /* not ended by NUL */
    size_t len;       /* bytes */
};

struct gguf_array {
    enum gguf_type type; /* of the elements; never GGUF_ARRAY */
    uint64_t n;
    const unsigned char *data; /* numbers: packed, little endian, not aligned */
};

struct gguf_tensor {
    struct gguf_str name;
    enum ggml_type type;
    uint32_t n_dims;            /* 0 to 4 */
    uint64_t ne[GGUF_MAX_DIMS]; /* elements along each dimension, fastest first; 1 beyond n_dims */
    uint64_t n_elements;        /* the product */
    uint64_t offset;            /* bytes from the start of the file */
    size_t n_bytes;             /* of data */
    const unsigned char *data; /* aligned as general.alignment says, relative to the file's start */
};

/* A text of the file as messages show it: its beginning, what is not printable ASCII as \xNN. */
struct gguf_shown {
    char text[72];
};
struct gguf_shown gguf_show(struct gguf_str s);

struct gguf;

/* ST_FORMAT names what is wrong and where; ST_UNSUPPORTED: another version, byte order or tensor
 * type; ST_NOMEM. */
MUST_CHECK enum status gguf_parse(struct gguf **out, const void *data, size_t len);
void gguf_free(struct gguf *g);

uint32_t gguf_version(const struct gguf *g);
size_t gguf_n_keys(const struct gguf *g);
struct gguf_str gguf_key(const struct gguf *g, size_t i,
                         enum gguf_type *type); /* i < gguf_n_keys */
/* Its value as the file has it behind the type, *n bytes: for writers. */
const unsigned char *gguf_raw_value(const struct gguf *g, size_t i, size_t *n);
bool gguf_has(const struct gguf *g, const char *key);

/* Typed getters: ST_NOT_FOUND when the key is absent, ST_FORMAT (named) when it has another type,
 * ST_RANGE (named) when an integer does not fit.  Integers of any width are taken for int64 and
 * uint64, f32 and f64 for double. */
MUST_CHECK enum status gguf_get_u64(const struct gguf *g, const char *key, uint64_t *v);
MUST_CHECK enum status gguf_get_i64(const struct gguf *g, const char *key, int64_t *v);
MUST_CHECK enum status gguf_get_f64(const struct gguf *g, const char *key, double *v);
MUST_CHECK enum status gguf_get_bool(const struct gguf *g, const char *key, bool *v);
MUST_CHECK enum status gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *v);
/* false when it is absent, too. */
bool gguf_is_array(const struct gguf *g, const char *key);
MUST_CHECK enum status gguf_get_array(const struct gguf *g, const char *key, enum gguf_type type,
                                      struct gguf_array *v);

/* Element i < a->n of an array of numbers, or of strings: strings are read in order through a
 * cursor that begins as {0}. */
int64_t gguf_array_int(const struct gguf_array *a,
                       uint64_t i); /* integer types up to 32 bits, bool, i64 */
double gguf_array_float(const struct gguf_array *a, uint64_t i); /* f32, f64 */
struct gguf_cursor {
    size_t at; /* bytes into a->data */
};
struct gguf_str gguf_array_next(const struct gguf_array *a, struct gguf_cursor *c);

size_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i); /* i < gguf_n_tensors */
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g,
                                           const char *name); /* NULL: absent */
uint64_t gguf_alignment(const struct gguf *g);

/* ---- models in several files ----
 * The keys split.no, split.count and split.tensors.count say which part a file is.  The first part
 * has the metadata. */

/* One of several parts, and not joined. */
bool gguf_is_part(const struct gguf *g);

/* part [n], in order: afterwards part[0] has the tensors of all and its own metadata; the others
 * are empty.  A tensor's offset stays that in its own file.  ST_FORMAT names what does not fit:
 * numbers, counts, a tensor that stands in two parts.  After a failure they can only be freed. */
MUST_CHECK enum status gguf_join(struct gguf *const *part, size_t n);

#endif
