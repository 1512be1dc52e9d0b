/* The part of an output parser that reads tool calls.  Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_PARSER_CALLS_H
#define COMMON_TEXT_OUTPUT_PARSER_CALLS_H

#include "common/text/output_parser_state.h"

/* The state IN_CALL begins: the rest of the text begins with a call of that format. */
void parser_begin_call(struct output_parser *p, enum output_tools format);
/* A step in that state; *go is cleared when it needs more text. */
MUST_CHECK enum status parser_step_call(struct output_parser *p, bool *go);

#endif
