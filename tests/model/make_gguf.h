/* Writes a HuggingFace model directory as a GGUF file, as the public converters do: other names, q
 * and k of the Llama family reordered for RoPE over neighbours, stretched RoPE as divisors or as
 * keys. */
#ifndef TESTS_MODEL_MAKE_GGUF_H
#define TESTS_MODEL_MAKE_GGUF_H

#include <stdint.h>

#include "common/formats/gguf.h"

struct gguf_recipe {
    enum dtype quant, quant_v; /* of layer matrices, and of v; DT_F32: as stored.  The quantised
                                  weights are random blocks, not those of the model */
    bool expand;               /* the same blocks' values, in f32 */
    const char *without;       /* a key or tensor name that is left out, or NULL */
    const char *key;           /* one more u32 key, or NULL; it replaces the key of that name */
    uint32_t value;
    const char *tensor; /* one more F32 tensor of one element, or NULL */
    const char *as;     /* a tensor that is stored as blocks of zeros of as_type, or NULL */
    enum ggml_type as_type;
};

/* The file's path, valid until the next call but one; the caller unlinks it. */
const char *gguf_make(const char *dir, const struct gguf_recipe *recipe);

#endif
