#include "client/gateway/responses_items.h"

#include <stdio.h>

const char *responses_item_id(char out[RESPONSES_ID_SIZE], const struct responses_item *item,
                              const char *hex)
{
    static const char *const prefixes[N_ITEM_KINDS] = {"", "rs", "msg", "fc"};
    snprintf(out, RESPONSES_ID_SIZE, "%s_%s_%zu", prefixes[item->kind], hex, item->index);
    return out;
}

static void member_bytes(struct json_writer *w, const char *key, const struct text_buf *b,
                         bool whole)
{
    json_write_key(w, key);
    json_write_bytes(w, b->data, whole ? b->len : 0);
}

static void empty_list(struct json_writer *w, const char *key)
{
    json_write_key(w, key);
    json_write_array(w);
    json_write_end_array(w);
}

void responses_write_part(struct json_writer *w, const struct responses_item *item, bool whole)
{
    json_write_object(w);
    json_member_string(w, "type", item->kind == ITEM_MESSAGE ? "output_text" : "reasoning_text");
    member_bytes(w, "text", &item->text, whole);
    if (item->kind == ITEM_MESSAGE) {
        empty_list(w, "annotations");
        empty_list(w, "logprobs");
    }
    json_write_end_object(w);
}

void responses_write_item(struct json_writer *w, const struct responses_item *item, const char *hex,
                          enum responses_state state)
{
    static const char *const states[] = {"in_progress", "completed", "incomplete"};
    bool whole = state != ITEM_BEGUN;
    static const char *const types[N_ITEM_KINDS] = {"", "reasoning", "message", "function_call"};
    char id[RESPONSES_ID_SIZE];
    json_write_object(w);
    json_member_string(w, "id", responses_item_id(id, item, hex));
    json_member_string(w, "type", types[item->kind]);
    json_member_string(w, "status", states[state]);
    if (item->kind == ITEM_CALL) {
        json_member_string(w, "call_id", item->call->id);
        member_bytes(w, "name", &item->call->name, true);
        member_bytes(w, "arguments", &item->text, whole);
    } else {
        if (item->kind == ITEM_MESSAGE)
            json_member_string(w, "role", "assistant");
        else
            empty_list(w, "summary");
        json_write_key(w, "content");
        json_write_array(w);
        if (whole)
            responses_write_part(w, item, true);
        json_write_end_array(w);
    }
    json_write_end_object(w);
}
