/* Tool calls of Gemma 4, which are not JSON:
 *
 *     <|tool_call>call:NAME{KEY:VALUE,..}<tool_call|>
 *     VALUE: <|"|>TEXT<|"|>, a number, true, false, null, {KEY:VALUE,..} or [VALUE,..]
 *
 * (as the chat template of google/gemma-4-31B-it writes them).  They become a JSON object while they are read: strings
 * piece by piece, words (numbers, literals, keys without quotes) when they have ended.  What models also write is taken:
 * keys in quotes, strings in JSON's quotes, None, True and False, words without quotes (a string), blanks between items.
 * Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_GEMMA_H
#define COMMON_TEXT_OUTPUT_GEMMA_H

#include "common/text/output_events.h"
#include "common/text/output_gemma_marks.h"
#include "common/text/output_writer.h"
#include "common/text/output_xml.h"

struct output_gemma { /* begin with output_gemma_begin; free with output_gemma_free */
    int phase;
    struct output_writer w; /* of the arguments */
};

void output_gemma_begin(struct output_gemma *g);
void output_gemma_free(struct output_gemma *g);

/* Reads on in the text, takes the first *n bytes, and adds events, as output_xml_run. */
MUST_CHECK enum status output_gemma_run(struct output_gemma *g, struct output_span text,
                                        bool finished, struct output_events *events, size_t *n,
                                        enum output_xml_state *state);

#endif
