/* What the text service does with one job: chat messages to a prompt, text to token ids, ids to
 * text. */
#ifndef COORDINATOR_PROMPT_H
#define COORDINATOR_PROMPT_H

#include "coordinator/text_service.h"

/* Fills the job's result: status, detail and field, or tokens and text.  Thread safe for different
 * jobs. */
void prompt_do_job(struct text_job *job, const struct model_text *mt, struct wire_mem *mem);

/* The messages of a chat as the JSON list that templates take. */
MUST_CHECK enum status prompt_messages_json(const struct msg_chat *chat, struct text_buf *out);

#endif
