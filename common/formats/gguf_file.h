/* A GGUF model on disk: one file, or all parts of a split one ("NAME-00001-of-00003.gguf"; any part
 * opens the whole), mapped read-only.  Who calls it: whatever opens a model by its path.  Owner:
 * whoever opened it; the struct gguf and all it shows live until the close.  Read-only: any number
 * of threads. */
#ifndef COMMON_FORMATS_GGUF_FILE_H
#define COMMON_FORMATS_GGUF_FILE_H

#include "common/formats/gguf.h"

struct gguf_file;

/* ST_NOT_FOUND (no such file, or which part is missing), ST_IO, and those of gguf_parse; all name
 * the file. */
MUST_CHECK enum status gguf_file_open(struct gguf_file **out, const char *path);
void gguf_file_close(struct gguf_file *f);

/* The tensors of all parts, the metadata of the first. */
const struct gguf *gguf_file_model(const struct gguf_file *f);

size_t gguf_file_parts(const struct gguf_file *f);

struct gguf_part_name {
    int stem;        /* characters before "-00001-of-00003.gguf" */
    int part, count; /* part from 1 on */
};
/* false: not the name of a part. */
bool gguf_parse_part_name(const char *path, struct gguf_part_name *out);

#endif
