/* Character classes as the HuggingFace tokenizers library has them, as ranges in order; for
 * unicode.c. */
#ifndef COORDINATOR_TOKENIZER_UNICODE_TABLES_H
#define COORDINATOR_TOKENIZER_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

struct uc_range {
    uint32_t first, last;
};

struct uc_table {
    const struct uc_range *ranges;
    size_t n;
};

extern const struct uc_table uc_punctuation, uc_nonspacing, uc_marks, uc_other, uc_ordered,
    uc_decomposable;

#endif
