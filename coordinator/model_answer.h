/* A model's answers and grammars: the grammar of a request's answer as its model writes it, the bytes that a token has in
 * a grammar.  Thread safe. */
#ifndef COORDINATOR_MODEL_ANSWER_H
#define COORDINATOR_MODEL_ANSWER_H

#include "common/wire/client_msg.h"
#include "coordinator/model_text.h"

/* Appends the source of the structural tags that a chat's answer must follow (answer_grammar.h); nothing where the
 * request's own grammar is all.  prompt: the rendered chat. */
MUST_CHECK enum status model_answer_grammar(const struct model_text *mt,
                                            const struct msg_generate *g,
                                            const struct text_buf *prompt, struct text_buf *out,
                                            const char **field);

/* Appends the source of a budget of thinking (common/grammar/thinking.h) around g's grammar, which is none or structural
 * tags; nothing without a budget, or where thinking cannot begin.  ST_UNSUPPORTED: the model has no marks of thinking that
 * its tokens can write. */
MUST_CHECK enum status model_answer_budget(const struct model_text *mt,
                                           const struct msg_generate *g,
                                           const struct text_buf *prompt, struct text_buf *out,
                                           const char **field);

/* Appends the bytes of a token as grammars see it (common/grammar/grammar.h, GRAMMAR_SPECIAL): those of its text, or the
 * mark's if it is a special token among the marks of calls and thinking; none of other special ones. */
MUST_CHECK enum status model_token_bytes(const struct model_text *mt, int32_t id,
                                         struct text_buf *out);

#endif
