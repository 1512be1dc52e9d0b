/* The part of an output parser that reads tool calls.  Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_PARSER_CALLS_H
#define COMMON_TEXT_OUTPUT_PARSER_CALLS_H

#include "common/text/output_parser_state.h"

/* The state IN_CALL or IN_XML begins: the rest of the text begins with a call of that format.  mark: with which it
 * begins, or NULL. */
void parser_begin_call(struct output_parser *p, enum output_tools format,
                       const struct parser_mark *mark);
/* A step in these states; *go is cleared when it needs more text. */
MUST_CHECK enum status parser_step_call(struct output_parser *p, bool *go);
MUST_CHECK enum status parser_step_xml(struct output_parser *p, bool *go);

#endif
