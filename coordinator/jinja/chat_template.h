/* Chat templates: the Jinja text of a model's repository that turns a conversation into a prompt.
 * Renders byte for byte as apply_chat_template of HuggingFace transformers does: an immutable
 * sandboxed Jinja2 with trim_blocks, lstrip_blocks, loop controls, generation blocks, and tojson
 * without ASCII escapes.
 *
 * Callers: the coordinator, for chat requests and ApplyTemplate; the ingot-text command.
 * Threads: a template does not change after it was made; any number of threads may render with it
 * at once.
 * Templates are not trusted: each rendering is bounded in work, depth, memory and output. */
#ifndef COORDINATOR_JINJA_CHAT_TEMPLATE_H
#define COORDINATOR_JINJA_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/status.h"
#include "common/text/text_buf.h"

struct chat_template;

/* A piece of borrowed text; data NULL means that it is absent. */
struct chat_text {
    const char *data;
    size_t len; /* bytes */
};

/* Parses UTF-8 source (copied).  ST_FORMAT names the line; ST_UNSUPPORTED names a statement that
 * needs other files (include, import, extends, block); ST_NOMEM when the source is larger than
 * CHAT_MAX_SOURCE. */
#define CHAT_MAX_SOURCE ((size_t)1 << 20) /* bytes */
MUST_CHECK enum status chat_template_create(struct chat_template **out, const char *source,
                                            size_t len);

/* The template of a HuggingFace model directory.  name NULL is the one called "default".  Looked
 * for in this order:
 *   chat_template.jinja (name NULL) or additional_chat_templates/NAME.jinja
 *   chat_template.json
 *   "chat_template" of tokenizer_config.json: a text, or a list of {"name", "template"}
 * ST_NOT_FOUND names the places searched and the templates that exist; ST_FORMAT, ST_IO. */
MUST_CHECK enum status chat_template_from_model(struct chat_template **out, const char *model_dir,
                                                const char *name);
void chat_template_destroy(struct chat_template *t);

/* The source that was parsed, for showing. */
struct chat_text chat_template_source(const struct chat_template *t);

/* Appends the special tokens of MODEL_DIR/tokenizer_config.json as one JSON object, to be used as
 * request.variables: bos_token, eos_token, unk_token, pad_token, ..., each a text or {"content"}.
 * {} when there is no such file.  ST_FORMAT, ST_IO. */
MUST_CHECK enum status chat_special_tokens(const char *model_dir, struct text_buf *json);

/* What to render.  All JSON texts are strict JSON (NaN and Infinity are refused). */
struct chat_request {
    struct chat_text messages; /* JSON list of objects */
    struct chat_text tools;    /* JSON list or null; absent is null */
    /* JSON object: bos_token, eos_token, enable_thinking, ...; absent is {} */
    struct chat_text variables;
    struct chat_text more; /* a second such object, whose keys replace the first's; absent is {} */
    bool add_generation_prompt;
    bool continue_final_message; /* cut after the last message's content; not with the above */
    bool allow_mutation;         /* list.append and its like, which the immutable sandbox refuses */
    const struct tm *now;        /* what strftime_now shows; NULL: this moment, local time */
    /* NULL, or gets a byte for each byte of the text appended: 0 = it is of the template, of `variables`, of a role of
     * letters, digits, - and _, or a digit of a number; 1 = it may come from anything else in the conversation, however
     * the template cut, joined or changed it. */
    struct text_buf *content;
};

struct chat_limits {
    uint64_t max_steps; /* units of work; 20 to 80 ns each */
    uint32_t max_depth; /* of nested evaluation, about 1 KiB of stack each */
    size_t max_memory;  /* bytes for values while rendering */
    size_t max_output;  /* bytes of rendered text */
};
extern const struct chat_limits chat_limits_default;

/* Why no text came. */
enum chat_outcome {
    CHAT_RENDERED,
    CHAT_REFUSED, /* the template itself refused (raise_exception): its message is for the client */
    CHAT_FAILED,  /* the template failed on this conversation, or ran into a limit */
    CHAT_BAD_INPUT, /* messages, tools or variables are no such JSON */
};

/* Appends the prompt to out.  On any failure out is as it was.
 *   ST_OK           CHAT_RENDERED
 *   ST_RANGE        CHAT_REFUSED; status_text() is the template's message alone, up to 900 bytes
 *   ST_UNSUPPORTED  CHAT_FAILED, "chat template line N: ..."
 *   ST_NOMEM        CHAT_FAILED: which limit was reached and where; or memory ran out
 *   ST_FORMAT       CHAT_BAD_INPUT: which of the texts and at which byte
 * outcome may be NULL.  refusal (may be NULL) gets the template's whole message appended. */
MUST_CHECK enum status chat_template_render(const struct chat_template *t,
                                            const struct chat_request *request,
                                            const struct chat_limits *limits, struct text_buf *out,
                                            enum chat_outcome *outcome, struct text_buf *refusal);

#endif
