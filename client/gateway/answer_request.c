#include "client/gateway/answer_request.h"

#include <stdlib.h>
#include <string.h>

void answer_request_init(struct answer_request *q)
{
    *q = (struct answer_request){.ask = ingot_request_default()};
}

void answer_request_free(struct answer_request *q)
{
    for (size_t i = 0; i < q->n_blocks; i++)
        free(q->block[i]);
    free(q->block);
    free(q->tools);
    *q = (struct answer_request){0};
}

enum status answer_grow(void **array, size_t n, size_t item_size)
{
    if (n & (n - 1)) /* there is room up to the next power of two */
        return ST_OK;
    void *grown = realloc(*array, (n ? 2 * n : 1) * item_size);
    if (!grown)
        FAIL(ST_NOMEM, "no memory for a list of %zu", n);
    *array = grown;
    return ST_OK;
}

static bool keep_block(struct answer_request *q, void *block)
{
    if (answer_grow((void **)&q->block, q->n_blocks, sizeof *q->block) != ST_OK)
        return false;
    q->block[q->n_blocks++] = block;
    return true;
}

void *answer_keep(struct answer_request *q, const void *data, size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p || !keep_block(q, p)) {
        free(p);
        return NULL;
    }
    if (n && data)
        memcpy(p, data, n);
    return p;
}

enum status answer_keep_text(struct answer_request *q, struct text_buf *b, const char **out)
{
    enum status st = text_buf_append(b, "", 1);
    if (st == ST_OK && !(*out = answer_keep(q, b->data, b->len)))
        FAIL(ST_NOMEM, "no memory for a text of %zu bytes", b->len);
    text_buf_free(b);
    return st;
}
