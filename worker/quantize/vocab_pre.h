/* What a tokenizer.json does before and after its BPE model, in the words of GGUF.  Pure. */
#ifndef WORKER_QUANTIZE_VOCAB_PRE_H
#define WORKER_QUANTIZE_VOCAB_PRE_H

#include "common/formats/json_get.h"
#include "common/text/text_buf.h"

/* Byte-level BPE: *pre is tokenizer.ggml.pre.  ST_UNSUPPORTED: a pre-tokenizer without a name. */
MUST_CHECK enum status vocab_pre_name(const struct cJSON *root, const char **pre,
                                      struct text_buf *notes);

/* SentencePiece: tokenizer.ggml.add_space_prefix. */
MUST_CHECK enum status vocab_space_prefix(const struct cJSON *root, bool *prefix,
                                          struct text_buf *notes);

/* The tokens that the post-processor puts around a text; -1: none. */
MUST_CHECK enum status vocab_ends(const struct cJSON *root, int32_t *head, int32_t *tail);

/* A line about what is not carried exactly. */
MUST_CHECK enum status vocab_note(struct text_buf *notes, const char *text);

#endif
