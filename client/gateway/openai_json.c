#include "client/gateway/openai_json.h"

#include "common/hex.h"
#include "common/random.h"

enum { LEAST_CALL_ID = 9, CALL_ID_BYTES = 12 };

void openai_write_head(struct json_writer *w, const struct openai_head *h)
{
    const char *object = h->form == OPENAI_COMPLETION ? "text_completion"
                         : h->stream                  ? "chat.completion.chunk"
                                                      : "chat.completion";
    json_write_object(w);
    json_member_string(w, "id", h->id);
    json_member_string(w, "object", object);
    json_member_i64(w, "created", h->created);
    json_member_string(w, "model", h->model);
    json_member_null(w, "system_fingerprint");
    json_write_key(w, "choices");
    json_write_array(w);
}

static void write_usage(struct json_writer *w, const struct openai_usage *u)
{
    json_write_key(w, "usage");
    json_write_object(w);
    json_member_u64(w, "prompt_tokens", u->prompt_tokens);
    json_member_u64(w, "completion_tokens", u->completion_tokens);
    json_member_u64(w, "total_tokens", u->prompt_tokens + u->completion_tokens);
    json_write_key(w, "prompt_tokens_details");
    json_write_object(w);
    json_member_u64(w, "cached_tokens", u->cached_tokens);
    json_write_end_object(w);
    json_write_end_object(w);
}

void openai_write_tail(struct json_writer *w, const struct openai_head *h,
                       const struct openai_usage *usage)
{
    json_write_end_array(w);
    if (usage)
        write_usage(w, usage);
    else if (h->with_usage)
        json_member_null(w, "usage");
    json_write_end_object(w);
}

/* ---- calls ---- */

static void write_call_id(struct json_writer *w, const struct output_event *call)
{
    uint8_t bytes[CALL_ID_BYTES];
    char id[sizeof "call_" + 2 * CALL_ID_BYTES] = "call_";
    json_write_key(w, "id");
    if (call->id && call->n_id >= LEAST_CALL_ID) {
        json_write_bytes(w, call->id, call->n_id);
        return;
    }
    random_bytes(bytes, sizeof bytes);
    hex_of(bytes, sizeof bytes, id + sizeof "call_" - 1);
    json_write_string(w, id);
}

void openai_write_call(struct json_writer *w, const struct output_event *call, bool with_index)
{
    json_write_object(w);
    if (with_index)
        json_member_i64(w, "index", call->i_call);
    write_call_id(w, call);
    json_member_string(w, "type", "function");
    json_write_key(w, "function");
    json_write_object(w);
    json_write_key(w, "name");
    json_write_bytes(w, call->name, call->n_name);
    json_write_key(w, "arguments");
    json_write_bytes(w, call->arguments, call->n_arguments);
    json_write_end_object(w);
    json_write_end_object(w);
}

/* ---- choices ---- */

/* finish NULL: it goes on. */
static void end_choice(struct json_writer *w, const char *finish)
{
    json_member_null(w, "logprobs");
    if (finish)
        json_member_string(w, "finish_reason", finish);
    else
        json_member_null(w, "finish_reason");
    json_write_end_object(w);
}

static void begin_choice(struct json_writer *w, size_t index)
{
    json_write_object(w);
    json_member_u64(w, "index", index);
}

static void write_bytes(struct json_writer *w, const char *key, const char *text, size_t n)
{
    json_write_key(w, key);
    json_write_bytes(w, text, n);
}

static void write_message(struct json_writer *w, const struct openai_choice *c)
{
    json_write_key(w, "message");
    json_write_object(w);
    json_member_string(w, "role", "assistant");
    if (c->n_calls && !c->text.len)
        json_member_null(w, "content");
    else
        write_bytes(w, "content", c->text.data, c->text.len);
    json_member_null(w, "refusal");
    if (c->n_calls) {
        json_write_key(w, "tool_calls");
        json_write_array(w);
        json_write_raw(w, c->calls.data, c->calls.len);
        json_write_end_array(w);
    }
    json_write_end_object(w);
}

void openai_write_choice(struct json_writer *w, enum openai_form form, size_t index,
                         const struct openai_choice *c)
{
    begin_choice(w, index);
    if (form == OPENAI_CHAT)
        write_message(w, c);
    else
        write_bytes(w, "text", c->text.data, c->text.len);
    end_choice(w, c->finish);
}

void openai_write_role(struct json_writer *w, size_t index)
{
    begin_choice(w, index);
    json_write_key(w, "delta");
    json_write_object(w);
    json_member_string(w, "role", "assistant");
    json_member_string(w, "content", "");
    json_write_end_object(w);
    end_choice(w, NULL);
}

void openai_write_text(struct json_writer *w, enum openai_form form, size_t index, const char *text,
                       size_t n)
{
    begin_choice(w, index);
    if (form == OPENAI_CHAT) {
        json_write_key(w, "delta");
        json_write_object(w);
        write_bytes(w, "content", text, n);
        json_write_end_object(w);
    } else {
        write_bytes(w, "text", text, n);
    }
    end_choice(w, NULL);
}

void openai_write_call_chunk(struct json_writer *w, size_t index, const struct output_event *call)
{
    begin_choice(w, index);
    json_write_key(w, "delta");
    json_write_object(w);
    json_write_key(w, "tool_calls");
    json_write_array(w);
    openai_write_call(w, call, true);
    json_write_end_array(w);
    json_write_end_object(w);
    end_choice(w, NULL);
}

void openai_write_finish(struct json_writer *w, enum openai_form form, size_t index,
                         const char *finish)
{
    begin_choice(w, index);
    if (form == OPENAI_CHAT) {
        json_write_key(w, "delta");
        json_write_object(w);
        json_write_end_object(w);
    } else {
        json_member_string(w, "text", "");
    }
    end_choice(w, finish);
}
