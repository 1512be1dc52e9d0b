/* Cuts a GGUF file into parts, and lies about them when asked. */
#ifndef TESTS_MODEL_SPLIT_GGUF_H
#define TESTS_MODEL_SPLIT_GGUF_H

#include <stdint.h>

struct split_recipe {
    int n_parts;
    int lie_part; /* from 0: which part lies; its key and value */
    const char *lie_key;
    uint32_t lie_value;
    const char *twice; /* a tensor that the last part has too, or NULL */
};

/* Writes DIR/NAME-0000i-of-0000n.gguf, tensors in turns; the first part has the metadata. */
void split_gguf(const char *whole, const char *dir, const char *name, const struct split_recipe *r);

#endif
