/* The chat format of gpt-oss ("harmony"): an answer is a list of messages, each with a header that names its channel
 * and perhaps the function that it is sent to:
 *
 *     <|channel|>analysis<|message|>thinking<|end|>
 *     <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{..}<|call|>
 *     <|start|>assistant<|channel|>final<|message|>the answer<|return|>
 *
 * Source: the chat template of openai/gpt-oss-120b and OpenAI's description of the format.  The prompt ends with
 * <|start|>assistant.  Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_HARMONY_H
#define COMMON_TEXT_OUTPUT_HARMONY_H

#include "common/text/output_harmony_marks.h"
#include "common/text/output_parser_state.h"

/* Between messages: marks that end one, then the header of the next.  Text that is no header is content. */
MUST_CHECK enum status harmony_step_header(struct output_parser *p, bool *go);
/* In a message that is no call. */
MUST_CHECK enum status harmony_step_channel(struct output_parser *p, bool *go);

#endif
