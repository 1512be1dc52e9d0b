/* Fields that say what the text of an answer must follow: OpenAI's response_format, vLLM's structured_outputs and
 * guided_*, llama.cpp's grammar, Ollama's format.  They set the grammar of the request; at most one of them may. */
#ifndef CLIENT_GATEWAY_GRAMMAR_FIELDS_H
#define CLIENT_GATEWAY_GRAMMAR_FIELDS_H

#include "client/gateway/answer_request.h"
#include "common/json/json_read.h"

/* {"type": "text" | "json_object" | "json_schema", "json_schema": {"name", "schema", ...}} */
MUST_CHECK enum status grammar_read_response_format(struct answer_request *q,
                                                    struct json_cursor *c);
/* The same with name, schema, ... beside type (Responses, Anthropic's output_config.format). */
MUST_CHECK enum status grammar_read_text_format(struct answer_request *q, struct json_cursor *c);
/* {"json" | "regex" | "choice" | "grammar" | "json_object": ...} */
MUST_CHECK enum status grammar_read_structured_outputs(struct answer_request *q,
                                                       struct json_cursor *c);
/* "json", a schema, or "". */
MUST_CHECK enum status grammar_read_ollama_format(struct answer_request *q, struct json_cursor *c);

MUST_CHECK enum status grammar_read_schema(struct answer_request *q,
                                           struct json_cursor *c); /* an object, or its text */
MUST_CHECK enum status grammar_read_regex(struct answer_request *q, struct json_cursor *c);
/* A context-free grammar (common/grammar/gbnf.h). */
MUST_CHECK enum status grammar_read_gbnf(struct answer_request *q, struct json_cursor *c);
MUST_CHECK enum status grammar_read_choice(struct answer_request *q,
                                           struct json_cursor *c); /* a list of strings */

#endif
