/* The member logprobs of OpenAI's choices. */
#ifndef CLIENT_GATEWAY_OPENAI_LOGPROBS_H
#define CLIENT_GATEWAY_OPENAI_LOGPROBS_H

#include "client/gateway/answer_tokens.h"
#include "common/json/json_write.h"

/* {"content":[...],"refusal":null} of a chat: of the tokens that are ready and not cut, those of thinking and of tool
 * calls included. */
void openai_write_chat_logprobs(struct json_writer *w, const struct answer_tokens *t);

/* {"text_offset":...,"tokens":...} of a completion, likewise: of the prompt and then of the answer t, each NULL if it is
 * not shown.  The prompt's first token has no log probability.  n_top: alternatives that are shown at most. */
void openai_write_text_logprobs(struct json_writer *w, const struct answer_tokens *prompt,
                                const struct answer_tokens *t, uint32_t n_top);
/* Of t alone, whose offsets count from the beginning of the prompt. */
void openai_write_text_logprobs_behind(struct json_writer *w, const struct answer_tokens *prompt,
                                       const struct answer_tokens *t, uint32_t n_top);

/* vLLM's prompt_logprobs: null, then for each token {"ID":{"logprob":..,"rank":..,"decoded_token":..},...} of it and of
 * the first n_top alternatives. */
void openai_write_prompt_logprobs(struct json_writer *w, const struct answer_tokens *prompt,
                                  uint32_t n_top);

/* The list of their ids, also of those that are cut from the text. */
void openai_write_token_ids(struct json_writer *w, const struct answer_tokens *t);

#endif
