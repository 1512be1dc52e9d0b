/* The prompt of /v1/completions: a string, token ids, or a list of either. */
#include <stdlib.h>

#include "client/gateway/openai_request.h"

static enum status add_prompt(struct openai_request *q, struct json_cursor *c,
                              const struct answer_prompt *p)
{
    if (q->of.n_prompts == ANSWER_MAX_CHOICES)
        return json_fail(c, ST_RANGE, "at most %d prompts are taken", ANSWER_MAX_CHOICES);
    q->of.prompts[q->of.n_prompts++] = *p;
    return ST_OK;
}

static enum status read_text(struct openai_request *q, struct json_cursor *c)
{
    struct answer_prompt p = {0};
    struct text_buf text = {0};
    enum status st = json_read_string(c, &text);
    p.n_text = text.len;
    if (st == ST_OK)
        st = answer_keep_text(&q->of, &text, &p.text);
    text_buf_free(&text);
    return st == ST_OK ? add_prompt(q, c, &p) : st;
}

/* The items of an array of ids; the first one is next. */
static enum status read_ids(struct openai_request *q, struct json_cursor *c)
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
    if (st == ST_OK && !(p.ids = answer_keep(&q->of, ids, p.n_ids * sizeof *ids)))
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for %zu token ids", p.n_ids);
    free(ids);
    return st == ST_OK ? add_prompt(q, c, &p) : st;
}

enum status openai_read_prompt(struct openai_request *q, struct json_cursor *c)
{
    struct json_cursor whole = *c;
    struct answer_prompt none[ANSWER_MAX_CHOICES] = {{0}};
    q->of.prompts = answer_keep(&q->of, none, sizeof none);
    if (!q->of.prompts)
        FAIL(ST_NOMEM, "no memory for prompts");
    if (json_peek(c) != JSON_ARRAY)
        return read_text(q, c);
    TRY(json_enter_array(c));
    if (!json_next_item(c))
        return request_fail_at(c, &whole, "there is no prompt in the list");
    if (json_peek(c) == JSON_NUMBER)
        return read_ids(q, c);
    do {
        if (json_peek(c) != JSON_ARRAY) {
            TRY(read_text(q, c));
            continue;
        }
        TRY(json_enter_array(c));
        if (!json_next_item(c))
            return request_fail_at(c, &whole, "a list of tokens is empty");
        TRY(read_ids(q, c));
    } while (json_next_item(c));
    return ST_OK;
}
