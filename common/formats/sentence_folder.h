/* A model's folder as the sentence-transformers library opens it: which modules make an embedding or a score of the
 * model's states.  Called by the coordinator, the ranks and the weights digest. */
#ifndef COMMON_FORMATS_SENTENCE_FOLDER_H
#define COMMON_FORMATS_SENTENCE_FOLDER_H

#include "common/formats/sentence_modules.h"

/* What the options of a program add to a model's files. */
struct modules_asked {
    bool embed; /* embeddings also without modules */
    int rerank; /* index into off, qwen3: scores also without them */
};

/* model: a folder or a .gguf file, or NULL (none); mc: its configuration.  A decoder without modules.json is not
 * present, unless `asked` wants it: then the last token's state is normalised, or the logits of "yes" and "no" behind
 * it are compared.  An encoder without modules.json gives the mean of its states, as in the library.
 * ST_UNSUPPORTED, ST_FORMAT, ST_RANGE name the file and the field. */
MUST_CHECK enum status sentence_modules_load(struct sentence_modules *out, const char *model,
                                             const struct model_config *mc,
                                             struct modules_asked asked);

#endif
