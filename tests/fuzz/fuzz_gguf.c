/* A GGUF file from a stranger: parsing it, reading all of it, and making a tokenizer of it must end
 * in a status. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/formats/gguf.h"
#include "common/formats/model_config.h"
#include "coordinator/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads both ends of every tensor, where the address sanitizer sees it. */
static void touch_tensors(const struct gguf *g)
{
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        volatile unsigned char first = t->data[0], last = t->data[t->n_bytes - 1];
        (void)first;
        (void)last;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *g;
    struct tokenizer *t;
    struct token_list ids = {0};
    if (gguf_parse(&g, data, size) != ST_OK)
        return 0;
    touch_tensors(g);
    static struct model_config mc;
    (void)!model_config_from_gguf(&mc, g);
    if (tokenizer_from_gguf(&t, g) == ST_OK) {
        (void)!tokenizer_encode(t, "It's 12 a\n b", 12, TOK_ADD_SPECIAL, &ids);
        tokenizer_destroy(t);
    }
    token_list_free(&ids);
    gguf_free(g);
    return 0;
}
