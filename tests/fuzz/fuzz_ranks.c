/* An untrusted tekken.json or tiktoken.model: loading it, and encoding with the result, must end in a status.
 * Input: 'k' and a tekken.json, or another byte and the lines of a tiktoken.model. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "coordinator/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char config[] = "{\"tokenizer_class\": \"TikTokenTokenizer\", "
                                 "\"added_tokens_decoder\": {\"300\": {\"content\": \"[EOS]\"}}}";
    static const char text[] = "It's 12 \xC3\xA9 a\n  b <s>";
    struct tokenizer *t;
    struct token_list ids = {0};
    if (size < 1)
        return 0;
    const char *p = (const char *)data + 1;
    enum status st = *data == 'k'
                         ? tokenizer_from_tekken(&t, p, size - 1)
                         : tokenizer_from_tiktoken(&t, p, size - 1, config, sizeof config - 1);
    if (st != ST_OK)
        return 0;
    (void)!tokenizer_encode(t, text, sizeof text - 1, TOK_ADD_SPECIAL | TOK_EXPLAIN, &ids);
    token_list_free(&ids);
    tokenizer_destroy(t);
    return 0;
}
