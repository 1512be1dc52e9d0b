/* The prompt of /v1/completions and the input of /v1/embeddings: a string, token ids, or a list of either. */
#include <stdlib.h>

#include "client/gateway/openai_request.h"

static enum status add_prompt(struct answer_request *q, struct json_cursor *c, size_t most,
                              const struct answer_prompt *p)
{
    if (q->n_prompts == most)
        return json_fail(c, ST_RANGE, "at most %zu prompts are taken", most);
    q->prompts[q->n_prompts++] = *p;
    return ST_OK;
}

static enum status read_text(struct answer_request *q, struct json_cursor *c, size_t most)
{
    struct answer_prompt p = {0};
    struct text_buf text = {0};
    enum status st = json_read_string(c, &text);
    p.n_text = text.len;
    if (st == ST_OK)
        st = answer_keep_text(q, &text, &p.text);
    text_buf_free(&text);
    return st == ST_OK ? add_prompt(q, c, most, &p) : st;
}

/* The items of an array of ids; the first one is next. */
static enum status read_ids(struct answer_request *q, struct json_cursor *c, size_t most)
{
    struct answer_prompt p = {0};
    int32_t *ids = NULL;
    enum status st = ST_OK;
    do {
        int64_t id;
        st = json_read_i64(c, 0, INT32_MAX, &id);
        if (st == ST_OK)
            st = answer_grow((void **)&ids, p.n_ids, sizeof *ids);
        if (st == ST_OK)
            ids[p.n_ids++] = (int32_t)id;
    } while (st == ST_OK && json_next_item(c));
    if (st == ST_OK && !(p.ids = answer_keep(q, ids, p.n_ids * sizeof *ids)))
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for %zu token ids", p.n_ids);
    free(ids);
    return st == ST_OK ? add_prompt(q, c, most, &p) : st;
}

enum status openai_read_prompts(struct answer_request *q, struct json_cursor *c, size_t most)
{
    struct json_cursor whole = *c;
    q->prompts = answer_keep(q, NULL, most * sizeof *q->prompts);
    if (!q->prompts)
        FAIL(ST_NOMEM, "no memory for prompts");
    if (json_peek(c) != JSON_ARRAY)
        return read_text(q, c, most);
    TRY(json_enter_array(c));
    if (!json_next_item(c))
        return request_fail_at(c, &whole, "there is no prompt in the list");
    if (json_peek(c) == JSON_NUMBER)
        return read_ids(q, c, most);
    do {
        if (json_peek(c) != JSON_ARRAY) {
            TRY(read_text(q, c, most));
            continue;
        }
        TRY(json_enter_array(c));
        if (!json_next_item(c))
            return request_fail_at(c, &whole, "a list of tokens is empty");
        TRY(read_ids(q, c, most));
    } while (json_next_item(c));
    return ST_OK;
}
