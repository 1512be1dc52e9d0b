#include "split_gguf.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/gguf_file.h"
#include "rig.h"
#include "worker/quantize/gguf_write.h"

static uint32_t value_of(const struct split_recipe *r, int part, const char *key, uint32_t v)
{
    bool lies = r->lie_key && r->lie_part == part && strcmp(r->lie_key, key) == 0;
    return lies ? r->lie_value : v;
}

static void put_keys(struct gguf_writer *w, const struct gguf *g, const struct split_recipe *r,
                     int part)
{
    for (size_t i = 0; part == 0 && i < gguf_n_keys(g); i++) {
        enum gguf_type type;
        size_t n;
        struct gguf_str key = gguf_key(g, i, &type);
        const unsigned char *value = gguf_raw_value(g, i, &n);
        must(gguf_put_raw(w, key, type, value, n), "a key");
    }
    uint32_t all = (uint32_t)gguf_n_tensors(g) + (r->twice ? 1 : 0);
    must(gguf_put_u32(w, "split.no", value_of(r, part, "split.no", (uint32_t)part)), "split.no");
    must(gguf_put_u32(w, "split.count", value_of(r, part, "split.count", (uint32_t)r->n_parts)),
         "split.count");
    must(gguf_put_u32(w, "split.tensors.count", value_of(r, part, "split.tensors.count", all)),
         "split.tensors.count");
}

static bool in_part(const struct gguf *g, size_t i, const struct split_recipe *r, int part)
{
    const struct gguf_tensor *t = gguf_tensor_at(g, i);
    bool twice = r->twice && strlen(r->twice) == t->name.len &&
                 memcmp(r->twice, t->name.data, t->name.len) == 0;
    return (int)(i % (size_t)r->n_parts) == part || (twice && part == r->n_parts - 1);
}

static void put_part(const char *path, const struct gguf *g, const struct split_recipe *r, int part)
{
    struct gguf_writer *w;
    must(gguf_writer_create(&w, path), path);
    put_keys(w, g, r, part);
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        char name[128];
        uint64_t shape[GGUF_MAX_DIMS];
        snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.data);
        for (uint32_t d = 0; d < t->n_dims; d++)
            shape[d] = t->ne[t->n_dims - 1 - d];
        if (in_part(g, i, r, part))
            must(gguf_put_tensor(w, name, t->type, (int32_t)t->n_dims, shape), name);
    }
    must(gguf_begin_data(w), path);
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (!in_part(g, i, r, part))
            continue;
        must(gguf_write_data(w, t->data, t->n_bytes), path);
        must(gguf_end_tensor(w), path);
    }
    must(gguf_finish(w), path);
    gguf_writer_destroy(w);
}

void split_gguf(const char *whole, const char *dir, const char *name, const struct split_recipe *r)
{
    struct gguf_file *f;
    char path[512];
    must(gguf_file_open(&f, whole), whole);
    for (int i = 0; i < r->n_parts; i++) {
        snprintf(path, sizeof path, "%s/%s-%05d-of-%05d.gguf", dir, name, i + 1, r->n_parts);
        put_part(path, gguf_file_model(f), r, i);
    }
    gguf_file_close(f);
}
