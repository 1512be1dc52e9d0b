/* How a reranker's query and document become one text: by a chat template that renders messages of the roles "query" and
 * "document", behind a system message with the model's prompt, as the CrossEncoder class of sentence-transformers makes
 * them; or by the tokenizer.  Made once at start; immutable afterwards. */
#ifndef COORDINATOR_PAIR_TEXT_H
#define COORDINATOR_PAIR_TEXT_H

#include <time.h>

#include "common/formats/sentence_modules.h"
#include "coordinator/jinja/chat_template.h"
#include "coordinator/tokenizer/tokenizer.h"

struct pair_text {
    const struct chat_template *chat; /* that renders them; NULL: the tokenizer joins them */
    struct chat_template *own;        /* chat, unless that is the model's own; NULL */
    bool parts;                       /* the messages' contents are lists of parts */
    bool generation_prompt;
    struct chat_text variables; /* bos_token, ... as JSON; borrowed */
};

/* chat: the model's template, borrowed; NULL: it has none, or, with bad_chat, one that is not understood: why says so.
 * ST_UNSUPPORTED: the template does not show both texts. */
MUST_CHECK enum status pair_text_open(struct pair_text *p, const struct sentence_modules *modules,
                                      const struct chat_template *chat, bool bad_chat,
                                      const char *why, struct chat_text variables);
void pair_text_close(struct pair_text *p);

/* Appends the pair as p->chat renders it; prompt: the system message, NULL: none; content as of chat_template.h. */
MUST_CHECK enum status pair_text_render(const struct pair_text *p, const char *prompt,
                                        struct tok_text query, struct tok_text document,
                                        const struct tm *now, struct text_buf *out,
                                        struct text_buf *content);

#endif
