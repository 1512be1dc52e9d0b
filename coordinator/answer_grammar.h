/* From what a chat asks of its answer (a form, tools that must be called, tools whose schemas hold) and the way in which
 * its model writes answers (thinking, calls) to one grammar: structural tags (common/grammar/tags.h).  The source is
 * complete: worker and journal need no table of formats.
 *
 *   - Thinking comes first, where the model has marks for it and the prompt has not closed it.
 *   - Then calls in the model's format, of the tools and with arguments by their schemas; where no call is required, also
 *     any text, or a text of the request's form if it has one.
 * Pure; called by the text thread. */
#ifndef COORDINATOR_ANSWER_GRAMMAR_H
#define COORDINATOR_ANSWER_GRAMMAR_H

#include "common/text/text_buf.h"
#include "coordinator/answer_ask.h"

/* Appends the source to out; nothing where the request's own grammar is all (also none).
 *   ST_FORMAT       tools_json is no list of functions, or a name has a byte that calls cannot have
 *   ST_NOT_FOUND    there is no tool of that name
 *   ST_UNSUPPORTED  a call is asked for, and the model's format has no form (output_formats.h)
 * *field: the field at fault, below "chat". */
MUST_CHECK enum status answer_grammar(const struct answer_form *f, struct text_buf *out,
                                      const char **field);

#endif
