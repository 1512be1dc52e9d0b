/* Writes GGUF files (version 3) as a stream: all keys, then the table of all tensors, then their
 * data in the table's order.  The file grows under a temporary name beside its own and takes that
 * only at the end, so that there is never a half-written model; whatever fails leaves nothing
 * behind.  Owner: whoever created it.  One thread.
 * Failures: ST_IO with the system's reason (a full disk among them), ST_NOMEM. */
#ifndef WORKER_QUANTIZE_GGUF_WRITE_H
#define WORKER_QUANTIZE_GGUF_WRITE_H

#include "common/formats/gguf.h"

struct gguf_writer;

/* path: borrowed until the destroy. */
MUST_CHECK enum status gguf_writer_create(struct gguf_writer **out, const char *path);
/* Without a gguf_finish before it: the file is removed. */
void gguf_writer_destroy(struct gguf_writer *w);

/* ---- 1: keys, each once ---- */
MUST_CHECK enum status gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v);
MUST_CHECK enum status gguf_put_f32(struct gguf_writer *w, const char *key, float v);
MUST_CHECK enum status gguf_put_bool(struct gguf_writer *w, const char *key, bool v);
MUST_CHECK enum status gguf_put_str(struct gguf_writer *w, const char *key, const char *s,
                                    size_t n);
/* An array of n elements, which follow one by one. */
MUST_CHECK enum status gguf_begin_array(struct gguf_writer *w, const char *key, enum gguf_type type,
                                        size_t n);
MUST_CHECK enum status gguf_item_str(struct gguf_writer *w, const char *s, size_t n);
MUST_CHECK enum status gguf_item_32(struct gguf_writer *w, uint32_t bits); /* 32-bit types */
MUST_CHECK enum status gguf_item_bool(struct gguf_writer *w, bool v);
/* A value that another file holds (gguf_raw_value). */
MUST_CHECK enum status gguf_put_raw(struct gguf_writer *w, struct gguf_str key, enum gguf_type type,
                                    const void *value, size_t n);

/* ---- 2: tensors.  shape [n_dims], slowest first; whole blocks in a row ---- */
MUST_CHECK enum status gguf_put_tensor(struct gguf_writer *w, const char *name, enum ggml_type type,
                                       int32_t n_dims, const uint64_t *shape);
/* Bytes that the whole file will have. */
uint64_t gguf_writer_size(const struct gguf_writer *w);

/* ---- 3: opens the file; then the data of each tensor in any number of pieces, gguf_end_tensor
 * after each ---- */
MUST_CHECK enum status gguf_begin_data(struct gguf_writer *w);
MUST_CHECK enum status gguf_write_data(struct gguf_writer *w, const void *data, size_t n);
MUST_CHECK enum status gguf_end_tensor(struct gguf_writer *w);

/* On disk, under its own name.  ST_BUG: data is missing. */
MUST_CHECK enum status gguf_finish(struct gguf_writer *w);

#endif
