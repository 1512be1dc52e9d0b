/* The safetensors header, and the index of a model in several files: the first byte chooses. */
#include "worker/load/safetensors.h"

#include <stdlib.h>

#include "common/formats/safetensors_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(const struct safetensors *s, const uint8_t *data, size_t size)
{
    volatile uint8_t sink = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct st_tensor *t = &s->tensor[i];
        if (t->offset > size || t->n_bytes > size - t->offset)
            abort();
        if (t->n_bytes)
            sink = (uint8_t)(sink + data[t->offset] + data[t->offset + t->n_bytes - 1]);
        if (safetensors_find(s, t->name) != t)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors s;
    struct st_index ix;
    if (size == 0)
        return 0;
    if (data[0] == 'i') {
        if (st_index_parse(&ix, data + 1, size - 1, "fuzz") == ST_OK)
            st_index_fini(&ix);
    } else if (safetensors_parse(&s, data + 1, size - 1, "fuzz") == ST_OK) {
        touch(&s, data + 1, size - 1);
        safetensors_fini(&s);
    }
    return 0;
}
