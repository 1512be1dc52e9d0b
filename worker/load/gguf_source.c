/* A GGUF model, in one file or several, as the loader's list of tensors. */
#include <stdlib.h>
#include <string.h>

#include "common/formats/gguf_file.h"
#include "worker/load/tensor_source.h"

struct gguf_source {
    struct tensor_source base;
    struct gguf_file *file;
    const struct gguf *g; /* the file's */
    const char **name;    /* [tensors], in names */
    char *names;
};

static void source_close(struct tensor_source *base)
{
    struct gguf_source *s = (struct gguf_source *)base;
    gguf_file_close(s->file);
    free(s->name);
    free(s->names);
    free(s);
}

static size_t source_count(const struct tensor_source *base)
{
    return gguf_n_tensors(((const struct gguf_source *)base)->g);
}

/* The parser keeps tensors by name; the file's dimensions come fastest first. */
static void source_get(const struct tensor_source *base, size_t i, struct stored_tensor *out)
{
    const struct gguf_source *s = (const struct gguf_source *)base;
    const struct gguf_tensor *t = gguf_tensor_at(s->g, i);
    *out = (struct stored_tensor){.name = s->name[i],
                                  .type_name = ggml_type_info(t->type)->name,
                                  .dtype = gguf_dtype(t->type),
                                  .n_dims = (int32_t)t->n_dims,
                                  .data = t->data,
                                  .n_bytes = t->n_bytes};
    for (uint32_t d = 0; d < t->n_dims; d++)
        out->shape[d] = t->ne[t->n_dims - 1 - d];
}

static const struct tensor_source_ops ops = {
    .format = "gguf", .close = source_close, .count = source_count, .get = source_get};

/* The file's names have no NUL behind them. */
static enum status copy_names(struct gguf_source *s)
{
    size_t n = gguf_n_tensors(s->g), bytes = 1;
    for (size_t i = 0; i < n; i++)
        bytes += gguf_tensor_at(s->g, i)->name.len + 1;
    s->names = malloc(bytes);
    s->name = calloc(n + 1, sizeof *s->name);
    if (!s->names || !s->name)
        FAIL(ST_NOMEM, "no memory for %zu tensors", n);
    char *at = s->names;
    for (size_t i = 0; i < n; i++) {
        struct gguf_str name = gguf_tensor_at(s->g, i)->name;
        memcpy(at, name.data, name.len);
        at[name.len] = 0;
        s->name[i] = at;
        at += name.len + 1;
    }
    return ST_OK;
}

static enum status open_file(struct gguf_source *s, struct model_config *mc, const char *path)
{
    TRY(gguf_file_open(&s->file, path));
    s->g = gguf_file_model(s->file);
    TRY(copy_names(s));
    enum status st = model_config_from_gguf(mc, s->g);
    if (st != ST_OK)
        FAIL(st, "%s: %s", path, status_text());
    return ST_OK;
}

enum status gguf_source_open(struct tensor_source **out, struct model_config *mc, const char *path)
{
    *out = NULL;
    struct gguf_source *s = calloc(1, sizeof *s);
    if (!s)
        FAIL(ST_NOMEM, "no memory");
    s->base.ops = &ops;
    enum status st = open_file(s, mc, path);
    if (st != ST_OK) {
        source_close(&s->base);
        return st;
    }
    *out = &s->base;
    return ST_OK;
}
