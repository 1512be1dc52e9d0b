/* The member logprobs of OpenAI's choices. */
#ifndef CLIENT_GATEWAY_OPENAI_LOGPROBS_H
#define CLIENT_GATEWAY_OPENAI_LOGPROBS_H

#include "client/gateway/answer_tokens.h"
#include "common/json/json_write.h"

/* {"content":[...],"refusal":null} of a chat, and {"text_offset":...,"tokens":...} of a completion: of the tokens that
 * are ready and not cut, those of thinking and of tool calls included.  offset: characters of the text before the answer. */
void openai_write_chat_logprobs(struct json_writer *w, const struct answer_tokens *t);
void openai_write_text_logprobs(struct json_writer *w, const struct answer_tokens *t,
                                uint64_t offset);

/* The list of their ids, also of those that are cut from the text. */
void openai_write_token_ids(struct json_writer *w, const struct answer_tokens *t);

#endif
