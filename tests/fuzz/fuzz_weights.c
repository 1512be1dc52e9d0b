/* A model in memory: a byte that chooses ranks and rank, config.json, NUL, the safetensors file.  Every
 * weight of the rank's share is cut from it and packed, so that what the loader accepts must be in the
 * file's bounds (sanitizers). */
#include <stdlib.h>
#include <string.h>

#include "worker/load/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct source {
    struct tensor_source base;
    const struct safetensors *st;
    const uint8_t *data;
};

static void source_close(struct tensor_source *s)
{
    free(s);
}

static size_t source_count(const struct tensor_source *s)
{
    return ((const struct source *)s)->st->n;
}

static void source_get(const struct tensor_source *base, size_t i, struct stored_tensor *out)
{
    const struct source *s = (const struct source *)base;
    const struct st_tensor *t = &s->st->tensor[i];
    *out = (struct stored_tensor){.name = t->name,
                                  .type_name = t->type_name,
                                  .dtype = t->dtype,
                                  .n_dims = t->n_dims,
                                  .data = s->data + t->offset,
                                  .n_bytes = t->n_bytes};
    memcpy(out->shape, t->shape, sizeof out->shape);
}

static const struct tensor_source_ops ops = {
    .format = "memory", .close = source_close, .count = source_count, .get = source_get};

static enum status pack(void *ctx, enum weight_id id, int32_t layer, const struct weight_src *src,
                        int32_t n, size_t n_bytes)
{
    struct backend *be = ctx;
    struct weight *w;
    (void)layer, (void)n_bytes;
    TRY(weight_is_stack(id) ? backend_ops_of(be)->load_stack(be, src, n, &w)
                            : backend_ops_of(be)->load_weight(be, src, &w));
    backend_ops_of(be)->free_weight(be, w);
    return ST_OK;
}

static enum status add_size(void *ctx, enum weight_id id, int32_t layer,
                            const struct weight_src *src, int32_t n, size_t n_bytes)
{
    (void)ctx, (void)id, (void)layer, (void)src, (void)n, (void)n_bytes;
    return ST_OK;
}

static enum status pack_all(struct loader *ld, int rank, int world)
{
    static struct backend *be; /* opened once */
    struct backend_config bc = {.threads = 1, .isa = "plain"};
    struct shard sh;
    if (!be && backend_open(&be, "cpu", &bc) != ST_OK)
        abort();
    TRY(shard_plan(&sh, loader_config(ld), rank, world));
    TRY(weights_each(ld, &sh, add_size, NULL, true));
    TRY(loader_check_used(ld));
    return weights_each(ld, &sh, pack, be, false);
}

static void load(const struct model_config *mc, const struct safetensors *st, const uint8_t *data,
                 int choice)
{
    struct source *s = calloc(1, sizeof *s);
    struct tensor_source *src = &s->base;
    struct loader *ld;
    int world = 1 << choice % 4;
    if (!s)
        abort();
    *s = (struct source){{.ops = &ops}, st, data};
    if (loader_open_source(&ld, mc, &src) != ST_OK)
        return;
    enum status st_load = pack_all(ld, choice / 4 % world, world);
    (void)st_load; /* any status */
    loader_close(ld);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_config mc;
    struct safetensors st;
    const uint8_t *nul = size ? memchr(data + 1, 0, size - 1) : NULL;
    if (!nul || model_config_parse(&mc, data + 1, (size_t)(nul - data) - 1, NULL, 0) != ST_OK ||
        mc.n_layers > 2 || mc.hidden > 4096 || mc.n_experts > 16)
        return 0;
    const uint8_t *file = nul + 1;
    size_t n = size - (size_t)(file - data);
    if (safetensors_parse(&st, file, n, "fuzz") != ST_OK)
        return 0;
    load(&mc, &st, file, data[0]);
    safetensors_fini(&st);
    return 0;
}
