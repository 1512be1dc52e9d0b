#include "worker/load/safetensors.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/formats/json_get.h"

enum { MAX_HEADER = 32 << 20 }; /* bytes of JSON; the largest published ones have about 10 MB */

static const struct type_row {
    const char *name;
    enum dtype dtype;
    unsigned bits;
} types[] = {
    {"F32", DT_F32, 32}, {"F16", DT_F16, 16},     {"BF16", DT_BF16, 16}, {"I32", DT_I32, 32},
    {"I8", DT_I8, 8},    {"F8_E4M3", DT_E4M3, 8}, {"F8_E5M2", DT_N, 8},  {"F64", DT_N, 64},
    {"I64", DT_N, 64},   {"I16", DT_N, 16},       {"U8", DT_N, 8},       {"U16", DT_N, 16},
    {"U32", DT_N, 32},   {"U64", DT_N, 64},       {"BOOL", DT_N, 8},     {"F8_E8M0", DT_N, 8},
    {"F4", DT_N, 4},     {"F6_E2M3", DT_N, 6},    {"F6_E3M2", DT_N, 6},  {"C64", DT_N, 64},
};

const char *shape_text(char *buf, size_t size, const uint64_t *shape, int32_t n_dims)
{
    size_t at = (size_t)snprintf(buf, size, "[");
    for (int32_t i = 0; i < n_dims && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%llu", i ? "," : "",
                               (unsigned long long)shape[i]);
    if (at < size)
        snprintf(buf + at, size - at, "]");
    return buf;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes); /* empty ones first */
}

static enum status read_type(struct st_tensor *t, const cJSON *item, const char *file,
                             unsigned *bits)
{
    const cJSON *type = json_member(item, "dtype");
    if (!type || !cJSON_IsString(type))
        FAIL(ST_FORMAT, "%s: tensor %s has no dtype", file, t->name);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (strcmp(types[i].name, type->valuestring) == 0) {
            t->type_name = types[i].name;
            t->dtype = types[i].dtype;
            *bits = types[i].bits;
            return ST_OK;
        }
    }
    FAIL(ST_UNSUPPORTED, "%s: tensor %s has the unknown dtype \"%.40s\"", file, t->name,
         type->valuestring);
}

/* Bytes of the shape; FAILs on overflow and on a number of bits that is no whole byte. */
static enum status read_shape(struct st_tensor *t, const cJSON *item, const char *file,
                              unsigned bits, size_t *n_bytes)
{
    const cJSON *shape = json_member(item, "shape"), *d;
    size_t n_bits = bits;
    if (!shape || !cJSON_IsArray(shape))
        FAIL(ST_FORMAT, "%s: tensor %s has no shape", file, t->name);
    cJSON_ArrayForEach(d, shape)
    {
        if (t->n_dims == MAX_TENSOR_DIMS)
            FAIL(ST_UNSUPPORTED, "%s: tensor %s has more than %d dimensions", file, t->name,
                 MAX_TENSOR_DIMS);
        if (!json_is_u53(d, &t->shape[t->n_dims]))
            FAIL(ST_FORMAT, "%s: tensor %s: dimension %d is not a whole number >= 0", file, t->name,
                 t->n_dims);
        if (!mul_size(n_bits, (size_t)t->shape[t->n_dims], &n_bits))
            FAIL(ST_FORMAT, "%s: tensor %s: the shape overflows", file, t->name);
        t->n_dims++;
    }
    if (n_bits % 8)
        FAIL(ST_FORMAT, "%s: tensor %s: its shape is not a whole number of bytes", file, t->name);
    *n_bytes = n_bits / 8;
    return ST_OK;
}

static enum status read_tensor(struct st_tensor *t, const cJSON *item, size_t start, size_t len,
                               const char *file)
{
    uint64_t range[2];
    size_t want = 0;
    unsigned bits = 0;
    char text[200];
    if (!cJSON_IsObject(item))
        FAIL(ST_FORMAT, "%s: tensor %s is not described by an object", file, t->name);
    TRY(read_type(t, item, file, &bits));
    TRY(read_shape(t, item, file, bits, &want));
    const cJSON *off = json_member(item, "data_offsets");
    if (!off || !cJSON_IsArray(off) || cJSON_GetArraySize(off) != 2 ||
        !json_is_u53(cJSON_GetArrayItem(off, 0), &range[0]) ||
        !json_is_u53(cJSON_GetArrayItem(off, 1), &range[1]) || range[0] > range[1])
        FAIL(ST_FORMAT, "%s: tensor %s: data_offsets must be two whole numbers, begin <= end", file,
             t->name);
    if (range[1] > len - start)
        FAIL(ST_FORMAT,
             "%s: tensor %s ends at byte %llu of the data, but the file has %zu (truncated?)", file,
             t->name, (unsigned long long)range[1], len - start);
    t->offset = start + (size_t)range[0];
    t->n_bytes = (size_t)(range[1] - range[0]);
    if (t->n_bytes != want)
        FAIL(ST_FORMAT, "%s: tensor %s: %s of shape %s has %zu bytes, but data_offsets give %zu",
             file, t->name, t->type_name, shape_text(text, sizeof text, t->shape, t->n_dims), want,
             t->n_bytes);
    return ST_OK;
}

/* The tensors, ordered by offset, must cover [start, len) exactly. */
static enum status check_cover(const struct safetensors *s, size_t start, size_t len,
                               const char *file)
{
    size_t at = start;
    const char *before = "the header";
    for (size_t i = 0; i < s->n; i++) {
        const struct st_tensor *t = &s->tensor[i];
        if (t->offset < at)
            FAIL(ST_FORMAT, "%s: tensors %s and %s overlap", file, before, t->name);
        if (t->offset > at)
            FAIL(ST_FORMAT, "%s: hole of %zu bytes between %s and tensor %s", file, t->offset - at,
                 before, t->name);
        at += t->n_bytes;
        before = t->name;
    }
    if (at != len)
        FAIL(ST_FORMAT, "%s: %zu bytes after the last tensor belong to none", file, len - at);
    return ST_OK;
}

static enum status check_metadata(const cJSON *meta, const char *file)
{
    const cJSON *c;
    if (!cJSON_IsObject(meta))
        FAIL(ST_FORMAT, "%s: __metadata__ is not an object", file);
    cJSON_ArrayForEach(c, meta) if (!cJSON_IsString(c))
        FAIL(ST_FORMAT, "%s: __metadata__.%.100s is not a string", file, c->string);
    return ST_OK;
}

static enum status read_header(struct safetensors *s, const cJSON *root, size_t start, size_t len,
                               const char *file)
{
    size_t n = 0, n_names = 0;
    const cJSON *c;
    if (!cJSON_IsObject(root))
        FAIL(ST_FORMAT, "%s: the header is not an object", file);
    cJSON_ArrayForEach(c, root)
    {
        n++;
        n_names += strlen(c->string) + 1;
    }
    s->tensor = calloc(n + 1, sizeof *s->tensor);
    s->names = malloc(n_names + 1);
    if (!s->tensor || !s->names)
        FAIL(ST_NOMEM, "%s: no memory for %zu tensors", file, n);
    char *name = s->names;
    cJSON_ArrayForEach(c, root)
    {
        if (strcmp(c->string, "__metadata__") == 0) {
            TRY(check_metadata(c, file));
            continue;
        }
        size_t n_name = strlen(c->string) + 1;
        if (n_name > 256)
            FAIL(ST_FORMAT, "%s: a tensor's name has %zu bytes", file, n_name - 1);
        memcpy(name, c->string, n_name);
        s->tensor[s->n].name = name;
        name += n_name;
        TRY(read_tensor(&s->tensor[s->n], c, start, len, file));
        s->n++;
    }
    qsort(s->tensor, s->n, sizeof *s->tensor, by_offset);
    TRY(check_cover(s, start, len, file));
    qsort(s->tensor, s->n, sizeof *s->tensor, by_name);
    return ST_OK;
}

enum status safetensors_parse(struct safetensors *out, const void *data, size_t len,
                              const char *file)
{
    const unsigned char *b = data;
    uint64_t n_header = 0;
    cJSON *root;
    char what[300];
    memset(out, 0, sizeof *out);
    if (len < 8)
        FAIL(ST_FORMAT, "%s: %zu bytes are no safetensors file", file, len);
    for (int i = 0; i < 8; i++)
        n_header |= (uint64_t)b[i] << (8 * i);
    if (n_header > MAX_HEADER)
        FAIL(ST_FORMAT, "%s: a header of %llu bytes (at most %d are read): no safetensors file?",
             file, (unsigned long long)n_header, MAX_HEADER);
    if (n_header > len - 8)
        FAIL(ST_FORMAT, "%s: the header has %llu bytes, but the file ends after %zu (truncated?)",
             file, (unsigned long long)n_header, len - 8);
    if (n_header && b[8] != '{')
        FAIL(ST_FORMAT, "%s: the header does not begin with '{'", file);
    snprintf(what, sizeof what, "header of %.250s", file);
    TRY(json_parse(&root, b + 8, (size_t)n_header, MAX_HEADER, what));
    enum status st = read_header(out, root, 8 + (size_t)n_header, len, file);
    cJSON_Delete(root);
    if (st != ST_OK)
        safetensors_fini(out);
    return st;
}

void safetensors_fini(struct safetensors *s)
{
    free(s->tensor);
    free(s->names);
    memset(s, 0, sizeof *s);
}

const struct st_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    struct st_tensor key = {.name = name};
    return s->n ? bsearch(&key, s->tensor, s->n, sizeof key, by_name) : NULL;
}
