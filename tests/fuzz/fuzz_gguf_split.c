/* The parts of a model from a stranger: parsing and joining them must end in a status.  The input
 * is the number of parts, their lengths but the last one's (16 bits each), and their bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/gguf.h"
#include "common/formats/model_config.h"

enum { MAX = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(const struct gguf *g)
{
    static struct model_config mc;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        volatile unsigned char first = t->data[0], last = t->data[t->n_bytes - 1];
        (void)first;
        (void)last;
    }
    (void)!model_config_from_gguf(&mc, g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *part[MAX] = {NULL};
    void *copy[MAX] = {NULL};
    size_t n = size ? data[0] % MAX + 1U : 0, at = 1 + 2 * (n - 1), n_open = 0;
    if (size < 1 || size < at)
        return 0;
    for (size_t i = 0; i < n; i++) {
        size_t left = size - at, want = left;
        if (i + 1 < n)
            want = (size_t)data[1 + 2 * i] | (size_t)data[2 + 2 * i] << 8;
        want = want < left ? want : left;
        copy[i] = malloc(want ? want : 1); /* of its own, for the address sanitizer */
        memcpy(copy[i], data + at, want);
        at += want;
        if (gguf_parse(&part[i], copy[i], want) == ST_OK)
            n_open++;
    }
    if (n_open == n && gguf_join(part, n) == ST_OK)
        touch(part[0]);
    for (size_t i = 0; i < MAX; i++) {
        gguf_free(part[i]);
        free(copy[i]);
    }
    return 0;
}
