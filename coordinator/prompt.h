/* From what a client sends to a prompt: chat messages to text, text to token ids.  Called by the
 * text thread; thread safe. */
#ifndef COORDINATOR_PROMPT_H
#define COORDINATOR_PROMPT_H

#include "common/wire/client_msg.h"
#include "coordinator/model_text.h"

/* Sets the clock and zone that the chat leaves open to those of this moment and machine: taken once,
 * they are the same for all that is rendered of it.  ST_IO: the machine does not know its zone. */
MUST_CHECK enum status prompt_set_clock(struct msg_chat *chat);

/* Appends the chat as the model's template renders it; its clock is set.  content: NULL, or gets a byte for each one of
 * the text: see chat_template.h.  On failure *field is the
 * path of the field at fault: "chat.tools_json", or "chat" when the template refuses the whole. */
MUST_CHECK enum status prompt_render(const struct model_text *mt, const struct msg_chat *chat,
                                     struct text_buf *out, struct text_buf *content,
                                     const char **field);

/* The ids of a chat, whose clock is set; flags: TOK_ADD_SPECIAL or 0.  The text as it was rendered is appended to
 * text.  *field as of prompt_render. */
MUST_CHECK enum status prompt_chat_ids(const struct model_text *mt, const struct msg_chat *chat,
                                       unsigned flags, struct token_list *out,
                                       struct text_buf *text, const char **field);

/* The ids of a Generate's prompt, whatever its kind (the clock of a chat is set); free them with
 * token_list_free.  text: a chat as it was rendered is appended, another prompt only with g->want_prompt_text.
 * On failure *field is the path of the field at fault. */
MUST_CHECK enum status prompt_ids(const struct model_text *mt, const struct msg_generate *g,
                                  struct token_list *out, struct text_buf *text,
                                  const char **field);

/* Of a request with a document: the ids of the pair, and g->token_types, which are in *types (freed by the
 * caller).  Otherwise as prompt_ids. */
MUST_CHECK enum status prompt_pair(const struct model_text *mt, struct msg_generate *g,
                                   struct token_list *out, uint32_t **types, struct text_buf *text,
                                   const char **field);

/* Of a decoder's score: drops the padding tokens at the end, as the library does (transformers' classifiers).
 * ST_RANGE: there are no others. */
MUST_CHECK enum status prompt_score(const struct model_text *mt, struct token_list *ids);

/* Of a request with `embed`: puts the model's prompt before g->text; the whole text is in `text`, which must
 * outlive g; of a pair that a template renders: sets g->pair_prompt.  ST_UNSUPPORTED, ST_RANGE: the model gives no embeddings, or has no such prompt. */
MUST_CHECK enum status prompt_embed(const struct model_text *mt, struct msg_generate *g,
                                    struct text_buf *text, const char **field);

#endif
