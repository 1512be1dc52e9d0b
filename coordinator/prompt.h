/* From what a client sends to a prompt: chat messages to text, text to token ids.  Called by the
 * text thread; thread safe. */
#ifndef COORDINATOR_PROMPT_H
#define COORDINATOR_PROMPT_H

#include "common/wire/client_msg.h"
#include "coordinator/model_text.h"

/* Appends the chat as the model's template renders it. */
MUST_CHECK enum status prompt_render(const struct model_text *mt, const struct msg_chat *chat,
                                     struct text_buf *out);

/* The ids of a Generate's prompt, whatever its kind; free them with token_list_free.  On failure
 * *field names the prompt's kind. */
MUST_CHECK enum status prompt_ids(const struct model_text *mt, const struct msg_generate *g,
                                  struct token_list *out, const char **field);

#endif
