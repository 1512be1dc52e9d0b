/* An untrusted tokenizer.json: loading it, and encoding and decoding with the result, must end in a
 * status.
 * Input: the file; a U+0000, if there is one, ends it, and the text follows. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status round_trip(const struct tokenizer *t, const char *text, size_t n)
{
    struct token_list ids = {0};
    struct text_buf out = {0};
    enum status st = tokenizer_encode(t, text, n, TOK_ADD_SPECIAL | TOK_EXPLAIN, &ids);
    for (size_t i = 0; i < ids.n && st == ST_OK; i++)
        if (ids.origins[i].begin > ids.origins[i].end || ids.origins[i].end > n)
            __builtin_trap();
    if (st == ST_OK)
        st = tokenizer_decode(t, ids.ids, ids.n, 0, &out);
    token_list_free(&ids);
    text_buf_free(&out);
    return st;
}

/* The text with itself. */
static void as_pair(const struct tokenizer *t, const char *text, size_t n)
{
    const struct tok_text both[2] = {{text, n}, {text, n}};
    struct token_list ids = {0};
    uint32_t *types;
    if (tokenizer_encode_pair(t, both, &ids, &types) == ST_OK)
        for (size_t i = 0; i < ids.n; i++)
            if (types[i] > 255 || ids.ids[i] < 0)
                __builtin_trap();
    free(types);
    token_list_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tokenizer *t;
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size;
    const char *text = nul ? (const char *)nul + 1 : "It's 12 \xC3\xA9\xE2\x96\x81 a\n  b";
    size_t text_n = nul ? size - n - 1 : strlen(text);
    if (tokenizer_from_json(&t, (const char *)data, n, NULL, 0) != ST_OK)
        return 0;
    (void)!round_trip(t, text, text_n);
    as_pair(t, text, text_n);
    tokenizer_destroy(t);
    return 0;
}
