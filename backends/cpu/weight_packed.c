/* Packed matrices as bytes, for a file that outlives the process. */
#include <string.h>

#include "backends/cpu/cpu_backend.h"
#include "backends/pack_probe.h"
#include "common/hash.h"

/* A small matrix of one type packed, and two as a stack: their bytes. */
static enum status hash_packed(struct backend *be, const struct weight_src *one,
                               const struct weight_src *stack, uint64_t *hash)
{
    struct weight *w;
    TRY(weight_make(be, one, NULL, &w));
    *hash = hash_bytes(*hash, w->data.data, w->data.bytes);
    cpu_free_weight(be, w);
    TRY(cpu_load_stack(be, stack, 2, &w));
    *hash = hash_bytes(*hash, w->data.data, w->data.bytes);
    cpu_free_weight(be, w);
    return ST_OK;
}

enum status cpu_pack_id(struct backend *be, uint64_t *id)
{
    *id = hash_bytes(0, be->kernels->name, strlen(be->kernels->name));
    return pack_probe(be, hash_packed, id);
}

const void *cpu_packed(struct backend *be, const struct weight *w, size_t *n_bytes)
{
    (void)be;
    *n_bytes = w->data.bytes;
    return w->data.data;
}

enum status cpu_load_packed(struct backend *be, const struct weight_src *src, const void *data,
                            size_t n_bytes, struct weight **out)
{
    struct weight shape;
    TRY(weight_describe(src, &shape));
    TRY(x_pack_fit(be, src));
    if (n_bytes != weight_data_bytes(src))
        FAIL(ST_FORMAT, "weight %s: %zu packed bytes, it has %zu", src->name, n_bytes,
             weight_data_bytes(src));
    return weight_make(be, src, data, out);
}
