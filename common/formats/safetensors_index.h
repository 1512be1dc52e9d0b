/* model.safetensors.index.json: which file of a model folder holds which tensor.  Pure; used by the
 * loader and by the digest of the weight files. */
#ifndef COMMON_FORMATS_SAFETENSORS_INDEX_H
#define COMMON_FORMATS_SAFETENSORS_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct st_index {
    struct st_index_row {
        const char *tensor;
        int32_t file;
    } * row; /* [n], by tensor */
    size_t n;
    const char **file; /* [n_files], by name; plain file names without a directory */
    int32_t n_files;
    char *names;
};

MUST_CHECK enum status st_index_parse(struct st_index *out, const void *text, size_t len,
                                      const char *what);
void st_index_fini(struct st_index *ix);

#endif
