/* How a reranker's query and document become one text: by a chat template that renders messages of the roles "query" and
 * "document", behind a system message with the model's prompt, as the CrossEncoder class of sentence-transformers makes
 * them; or by the tokenizer. */
#ifndef COORDINATOR_PAIR_TEXT_H
#define COORDINATOR_PAIR_TEXT_H

#include <time.h>

#include "coordinator/model_text.h"

/* Sets mt->pair and its companions from mt->modules and the model's chat template.  ST_UNSUPPORTED: the template does not
 * show both texts. */
MUST_CHECK enum status pair_text_open(struct model_text *mt);

/* Appends the pair as mt->pair renders it; prompt: the system message, NULL: none; content as of chat_template.h. */
MUST_CHECK enum status pair_text_render(const struct model_text *mt, const char *prompt,
                                        struct tok_text query, struct tok_text document,
                                        const struct tm *now, struct text_buf *out,
                                        struct text_buf *content);

#endif
