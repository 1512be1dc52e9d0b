/* The metadata of the new file. */
#ifndef WORKER_QUANTIZE_KEYS_H
#define WORKER_QUANTIZE_KEYS_H

#include "common/formats/model_config.h"
#include "common/text/text_buf.h"
#include "worker/quantize/gguf_write.h"

struct keys_source {
    const char *path; /* of the model */
    const struct model_config *mc;
    uint32_t file_type;     /* general.file_type */
    struct text_buf *notes; /* lines about what GGUF cannot say exactly are added */
};

/* Everything but what describes the old file's types, parts and layout. */
MUST_CHECK enum status keys_copy(struct gguf_writer *w, const struct keys_source *s,
                                 const struct gguf *from);

/* Of a HuggingFace folder: the configuration as ARCH.* keys, the tokenizer and the chat template.
 * ST_UNSUPPORTED names what GGUF cannot say. */
MUST_CHECK enum status keys_from_folder(struct gguf_writer *w, const struct keys_source *s);

/* tokenizer.ggml.* and tokenizer.chat_template of the folder. */
MUST_CHECK enum status vocab_from_folder(struct gguf_writer *w, const struct keys_source *s);

#endif
