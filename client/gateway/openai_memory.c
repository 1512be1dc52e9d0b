/* What the readers of a request's fields share: memory, and failures of a whole value. */
#include <stdlib.h>
#include <string.h>

#include "client/gateway/openai_request.h"

enum status openai_grow(void **array, size_t n, size_t item_size)
{
    if (n & (n - 1)) /* there is room up to the next power of two */
        return ST_OK;
    void *grown = realloc(*array, (n ? 2 * n : 1) * item_size);
    if (!grown)
        FAIL(ST_NOMEM, "no memory for a list of %zu", n);
    *array = grown;
    return ST_OK;
}

static bool keep_block(struct openai_request *q, void *block)
{
    if (openai_grow((void **)&q->block, q->n_blocks, sizeof *q->block) != ST_OK)
        return false;
    q->block[q->n_blocks++] = block;
    return true;
}

void *openai_keep(struct openai_request *q, const void *data, size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p || !keep_block(q, p)) {
        free(p);
        return NULL;
    }
    if (n)
        memcpy(p, data, n);
    return p;
}

enum status openai_keep_text(struct openai_request *q, struct text_buf *b, const char **out)
{
    enum status st = text_buf_append(b, "", 1);
    if (st == ST_OK && !(*out = openai_keep(q, b->data, b->len)))
        FAIL(ST_NOMEM, "no memory for a text of %zu bytes", b->len);
    text_buf_free(b);
    return st;
}

void openai_request_free(struct openai_request *q)
{
    for (size_t i = 0; i < q->n_blocks; i++)
        free(q->block[i]);
    free(q->block);
    *q = (struct openai_request){0};
}

enum status openai_fail_at(struct json_cursor *c, const struct json_cursor *whole, const char *text)
{
    *c = *whole;
    return json_fail(c, ST_FORMAT, "%s", text);
}
