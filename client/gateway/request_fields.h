/* Fields of a request that several APIs have under one name and with one meaning: sampling, stops, limits, and the
 * variables of the chat template.  The readers of the APIs' JSON call it for the names that are not their own. */
#ifndef CLIENT_GATEWAY_REQUEST_FIELDS_H
#define CLIENT_GATEWAY_REQUEST_FIELDS_H

#include "client/gateway/answer_request.h"
#include "common/json/json_read.h"
#include "common/json/json_write.h"

enum { REQUEST_MAX_STOP_IDS = 32 };

/* Reads the value when key is the name of such a field; else *known is false.  null is not read here. */
MUST_CHECK enum status request_field_read(struct answer_request *q, struct json_span key,
                                          struct json_cursor *c, bool *known);
/* The same; a name that is none, or that this API spells otherwise (NULL: all are its own), is refused. */
MUST_CHECK enum status request_field_or_refusal(struct answer_request *q, struct json_span key,
                                                const char *otherwise, struct json_cursor *c);
/* The same for the field of that name, which must be one: an API calls it otherwise. */
MUST_CHECK enum status request_field_read_as(struct answer_request *q, const char *name,
                                             struct json_cursor *c);

MUST_CHECK enum status request_read_u32(struct json_cursor *c, uint32_t lo, uint32_t hi,
                                        uint32_t *out);
/* A boolean of which one value is supported. */
MUST_CHECK enum status request_only_bool(struct json_cursor *c, bool wanted);

/* Reads an object: null members are passed over, the others given to the reader with the name, in their order. */
typedef enum status request_member_reader(void *request, struct json_span key,
                                          struct json_cursor *c);
MUST_CHECK enum status request_read_members(void *request, struct json_cursor *c,
                                            request_member_reader *read);
/* The failure of a member whose name is not read. */
MUST_CHECK enum status request_unknown(struct json_cursor *c);

/* A failure of the value before which `whole` is: something is missing in it. */
MUST_CHECK enum status request_fail_at(struct json_cursor *c, const struct json_cursor *whole,
                                       const char *text);
/* Passes a member on as it came; its value is next. */
MUST_CHECK enum status request_pass_member(struct json_writer *w, struct json_span key,
                                           struct json_cursor *c);

/* ---- tools ---- */

/* A function's name, which is kept among those that the answer may call. */
MUST_CHECK enum status request_read_tool_name(struct answer_request *q, struct json_cursor *c);
/* An object with such a name. */
MUST_CHECK enum status request_read_function(struct answer_request *q, struct json_cursor *c);

/* ---- messages ---- */

/* Turns that are added one by one; request_turns_end gives them to the request, request_turns_free forgets them. */
struct request_turns {
    struct ingot_turn *turn;
    size_t n;
};

/* json: the whole message; it is emptied.  c: for failures. */
MUST_CHECK enum status request_turns_add(struct request_turns *t, struct answer_request *q,
                                         struct json_cursor *c, struct text_buf *json);

struct request_message { /* of text, reasoning and tool calls, as chat templates get it */
    const char *role;
    const struct text_buf *text, *thinking; /* thinking: may be empty */
    const struct text_buf *calls;           /* n_calls items of tool_calls */
    size_t n_calls;
};
MUST_CHECK enum status request_turns_add_message(struct request_turns *t, struct answer_request *q,
                                                 struct json_cursor *c,
                                                 const struct request_message *m);
MUST_CHECK enum status request_turns_end(struct request_turns *t, struct answer_request *q);
void request_turns_free(struct request_turns *t);

/* ---- tools ---- */

/* Writes the tool that is next in c as a tool of OpenAI's form. */
typedef enum status request_tool_writer(struct answer_request *q, struct json_writer *w,
                                        struct json_cursor *c);
/* A list of tools -> the request's; none are no tools. */
MUST_CHECK enum status request_read_tools(struct answer_request *q, struct json_cursor *c,
                                          request_tool_writer *write);

/* ---- variables of the chat template ---- */

enum request_thinking { THINKING_UNSET, THINKING_OFF, THINKING_ON };

struct request_variables {
    struct json_span given;         /* an object, or n 0: chat_template_kwargs */
    struct json_span effort;        /* as it is written, or n 0: reasoning_effort */
    enum request_thinking thinking; /* enable_thinking */
};

/* Reads a value of chat_template_kwargs or reasoning_effort. */
MUST_CHECK enum status request_read_given(struct request_variables *v, struct json_cursor *c);
MUST_CHECK enum status request_read_effort(struct request_variables *v, struct json_cursor *c);
/* Sets the request's variables, when there are any; those that are given win. */
MUST_CHECK enum status request_set_variables(struct answer_request *q,
                                             const struct request_variables *v);

#endif
