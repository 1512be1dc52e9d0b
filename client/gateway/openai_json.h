/* The JSON of OpenAI's answers: whole ones and the chunks of streams. */
#ifndef CLIENT_GATEWAY_OPENAI_JSON_H
#define CLIENT_GATEWAY_OPENAI_JSON_H

#include "client/gateway/openai_request.h"
#include "common/json/json_write.h"
#include "common/text/output_parser.h"

enum { OPENAI_ID_SIZE = 40 };

struct openai_usage {
    uint64_t prompt_tokens, cached_tokens, completion_tokens;
};

/* What all chunks of an answer say. */
struct openai_head {
    enum openai_form form;
    char id[OPENAI_ID_SIZE]; /* "chatcmpl-..." */
    char model[OPENAI_MAX_NAME];
    int64_t created;         /* s since 1970 */
    bool stream, with_usage; /* with_usage: the chunks have the member usage */
};

struct openai_choice {
    struct text_buf text;
    struct text_buf calls; /* items of tool_calls, with their commas */
    size_t n_calls;
    const char *finish; /* "stop" */
};

/* Begin and end of an answer, or of a chunk, with its list of choices.  usage NULL: none. */
void openai_write_head(struct json_writer *w, const struct openai_head *h);
void openai_write_tail(struct json_writer *w, const struct openai_head *h,
                       const struct openai_usage *usage);

/* Items of the list of choices: of a whole answer, and of chunks. */
void openai_write_choice(struct json_writer *w, enum openai_form form, size_t index,
                         const struct openai_choice *c);
void openai_write_role(struct json_writer *w, size_t index);
void openai_write_text(struct json_writer *w, enum openai_form form, size_t index, const char *text,
                       size_t n);
void openai_write_finish(struct json_writer *w, enum openai_form form, size_t index,
                         const char *finish);
void openai_write_call_chunk(struct json_writer *w, size_t index, const struct output_event *call);

/* An item of tool_calls: whole, or as the delta of a chunk with its index. */
void openai_write_call(struct json_writer *w, const struct output_event *call, bool with_index);

#endif
