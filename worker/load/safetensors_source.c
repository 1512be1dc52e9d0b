/* A folder of safetensors files, with an index or a single file, as the loader's list of
 * tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/safetensors_index.h"
#include "common/mapped_file.h"
#include "worker/load/tensor_source.h"

struct st_file {
    struct mapped_file map;
    struct safetensors st;
};

struct st_source {
    struct tensor_source base;
    struct st_file *file;
    int32_t n_files;
    bool wrapped;
    const char *prefix; /* see safetensors_source_open */
    struct ref {
        const struct st_tensor *tensor;
        const char *name; /* the end of the tensor's */
        int32_t file;
    } * ref; /* [n], by name */
    size_t n;
    char *names; /* of a model that was saved without "model."; else NULL */
};

static void source_close(struct tensor_source *base)
{
    struct st_source *s = (struct st_source *)base;
    for (int32_t i = 0; i < s->n_files; i++) {
        safetensors_fini(&s->file[i].st);
        mapped_file_close(&s->file[i].map);
    }
    free(s->file);
    free(s->ref);
    free(s->names);
    free(s);
}

static size_t source_count(const struct tensor_source *base)
{
    return ((const struct st_source *)base)->n;
}

static void source_get(const struct tensor_source *base, size_t i, struct stored_tensor *out)
{
    const struct st_source *s = (const struct st_source *)base;
    const struct st_tensor *t = s->ref[i].tensor;
    *out = (struct stored_tensor){.name = s->ref[i].name,
                                  .type_name = t->type_name,
                                  .dtype = t->dtype,
                                  .n_dims = t->n_dims,
                                  .data = s->file[s->ref[i].file].map.data + t->offset,
                                  .n_bytes = t->n_bytes};
    memcpy(out->shape, t->shape, sizeof out->shape);
}

static const struct tensor_source_ops ops = {
    .format = "safetensors", .close = source_close, .count = source_count, .get = source_get};

static int ref_by_name(const void *a, const void *b)
{
    return strcmp(((const struct ref *)a)->name, ((const struct ref *)b)->name);
}

static bool begins_with(const char *s, const char *start)
{
    return strncmp(s, start, strlen(start)) == 0;
}

/* The name that a tensor of a multi-modal model has in a text model: "language_model.model.norm",
 * or as transformers 5 writes it "model.language_model.norm".  NULL: of another part. */
static const char *text_name(const char *name)
{
    static const char *const others[] = {
        "vision_tower.",
        "model.vision_tower.",
        "multi_modal_projector.",
        "vision_model.",
        "model.vision_model.",
        "model.multi_modal_projector.",
        "audio_tower.",
        "model.audio_tower.",
        "embed_audio.",
        "model.embed_audio.",
        "embed_vision.",
        "model.embed_vision.",
        "visual.",
        "model.visual.",
    };
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (begins_with(name, others[i]))
            return NULL;
    if (begins_with(name, "language_model."))
        return name + strlen("language_model.");
    if (begins_with(name, "model.language_model."))
        return name + strlen("model.language_");
    return name;
}

static enum status open_file(struct st_source *s, const char *dir, const char *name)
{
    struct st_file *f = &s->file[s->n_files];
    char path[4400];
    snprintf(path, sizeof path, "%.4000s/%.300s", dir, name);
    TRY(mapped_file_open(&f->map, path));
    s->n_files++; /* from here on close gives the map back */
    return safetensors_parse(&f->st, f->map.data, f->map.size, name);
}

/* Was the model saved as its base class?  Then the names lack "model." */
static bool is_bare(const struct st_source *s)
{
    bool bare = false;
    for (size_t i = 0; i < s->n; i++) {
        if (begins_with(s->ref[i].name, "model.") || begins_with(s->ref[i].name, "lm_head."))
            return false;
        bare = bare || strcmp(s->ref[i].name, "embed_tokens.weight") == 0;
    }
    return bare;
}

static enum status add_prefix(struct st_source *s)
{
    static const char prefix[] = "model.";
    size_t n = 0, at = 0;
    for (size_t i = 0; i < s->n; i++)
        n += sizeof prefix + strlen(s->ref[i].name);
    s->names = malloc(n);
    if (!s->names)
        FAIL(ST_NOMEM, "no memory for the names of %zu tensors", s->n);
    for (size_t i = 0; i < s->n; i++) {
        char *name = s->names + at;
        at += (size_t)snprintf(name, n - at, "%s%s", prefix, s->ref[i].name) + 1;
        s->ref[i].name = name;
    }
    return ST_OK;
}

/* One list over all files, ordered by name. */
static enum status list_tensors(struct st_source *s)
{
    size_t n = 0;
    bool prefixed = false;
    for (int32_t i = 0; i < s->n_files; i++)
        n += s->file[i].st.n;
    s->ref = calloc(n + 1, sizeof *s->ref);
    if (!s->ref)
        FAIL(ST_NOMEM, "no memory for %zu tensors", n);
    for (int32_t i = 0; i < s->n_files; i++)
        for (size_t t = 0; t < s->file[i].st.n; t++) {
            const struct st_tensor *tensor = &s->file[i].st.tensor[t];
            const char *name = s->wrapped ? text_name(tensor->name) : tensor->name;
            if (name && s->prefix && begins_with(name, s->prefix)) {
                name += strlen(s->prefix);
                prefixed = true;
            }
            if (name)
                s->ref[s->n++] = (struct ref){tensor, name, i};
        }
    bool without_model = is_bare(s);
    s->base.bare = without_model || (s->prefix && !prefixed);
    if (without_model)
        TRY(add_prefix(s));
    qsort(s->ref, s->n, sizeof *s->ref, ref_by_name);
    return ST_OK;
}

/* The index and the files must tell the same. */
static enum status check_index(const struct st_source *s, const struct st_index *ix)
{
    for (size_t i = 0; i < ix->n; i++)
        if (!safetensors_find(&s->file[ix->row[i].file].st, ix->row[i].tensor))
            FAIL(ST_FORMAT, "%s has no tensor %.200s, but the index says so",
                 ix->file[ix->row[i].file], ix->row[i].tensor);
    for (size_t i = 1; i < s->n; i++)
        if (ref_by_name(&s->ref[i - 1], &s->ref[i]) == 0)
            FAIL(ST_FORMAT, "tensor %s is in %s and in %s", s->ref[i].tensor->name,
                 ix->file[s->ref[i - 1].file], ix->file[s->ref[i].file]);
    size_t n = 0;
    for (int32_t i = 0; i < s->n_files; i++)
        n += s->file[i].st.n;
    if (n != ix->n)
        FAIL(ST_FORMAT, "the files have %zu tensors, the index %zu", n, ix->n);
    return ST_OK;
}

static enum status open_indexed(struct st_source *s, const char *dir, const struct st_index *ix)
{
    s->file = calloc((size_t)ix->n_files, sizeof *s->file);
    if (!s->file)
        FAIL(ST_NOMEM, "no memory for %d files", ix->n_files);
    for (int32_t i = 0; i < ix->n_files; i++)
        TRY(open_file(s, dir, ix->file[i]));
    TRY(list_tensors(s));
    return check_index(s, ix);
}

static enum status open_sharded(struct st_source *s, const char *dir)
{
    struct mapped_file map;
    struct st_index ix;
    char path[4400];
    snprintf(path, sizeof path, "%.4000s/model.safetensors.index.json", dir);
    enum status st = mapped_file_open(&map, path);
    if (st == ST_NOT_FOUND)
        FAIL(ST_NOT_FOUND,
             "%s has neither model.safetensors nor model.safetensors.index.json "
             "(other weight files, such as pytorch_model.bin, are not read)",
             dir);
    if (st != ST_OK)
        return st;
    st = st_index_parse(&ix, map.data, map.size, "model.safetensors.index.json");
    mapped_file_close(&map);
    if (st != ST_OK)
        return st;
    st = open_indexed(s, dir, &ix);
    st_index_fini(&ix);
    return st;
}

static enum status open_single(struct st_source *s, const char *dir)
{
    s->file = calloc(1, sizeof *s->file);
    if (!s->file)
        FAIL(ST_NOMEM, "no memory");
    TRY(open_file(s, dir, "model.safetensors"));
    return list_tensors(s);
}

enum status safetensors_source_open(struct tensor_source **out, const char *dir, bool wrapped,
                                    const char *prefix)
{
    struct st_source *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        FAIL(ST_NOMEM, "no memory");
    s->base.ops = &ops;
    s->wrapped = wrapped;
    s->prefix = prefix;
    enum status st = open_single(s, dir);
    if (st == ST_NOT_FOUND) {
        free(s->file);
        s->file = NULL;
        st = open_sharded(s, dir);
    }
    if (st != ST_OK) {
        source_close(&s->base);
        return st;
    }
    *out = &s->base;
    return ST_OK;
}
