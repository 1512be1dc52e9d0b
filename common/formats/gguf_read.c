/* Answers about a parsed GGUF file: values by key, tensors by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/gguf_impl.h"

static const char *const type_names[GGUF_TYPE_N] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

struct gguf_shown gguf_show(struct gguf_str s)
{
    struct gguf_shown o;
    size_t n = 0, i = 0;
    for (; i < s.len && n < 60; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (c >= 0x20 && c < 0x7F && c != '\\')
            o.text[n++] = (char)c;
        else
            n += (size_t)snprintf(o.text + n, sizeof o.text - n, "\\x%02x", c);
    }
    snprintf(o.text + n, sizeof o.text - n, "%s", i < s.len ? "..." : "");
    return o;
}

static const struct gguf_entry *find(const struct gguf *g, const char *key)
{
    size_t low = 0, high = g->n_entries;
    const struct gguf_str wanted = {key, strlen(key)};
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = gguf_str_order(g->entries[mid].key, wanted);
        if (c == 0)
            return &g->entries[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static enum status lookup(const struct gguf *g, const char *key, const struct gguf_entry **e)
{
    *e = find(g, key);
    if (!*e)
        FAIL(ST_NOT_FOUND, "gguf: the key \"%s\" is absent", key);
    return ST_OK;
}

static enum status wrong_type(const char *key, enum gguf_type has, const char *wanted)
{
    FAIL(ST_FORMAT, "gguf: \"%s\" is of type %s, not %s", key, type_names[has], wanted);
}

static bool is_unsigned(enum gguf_type t)
{
    return t == GGUF_U8 || t == GGUF_U16 || t == GGUF_U32 || t == GGUF_U64;
}

static bool is_signed(enum gguf_type t)
{
    return t == GGUF_I8 || t == GGUF_I16 || t == GGUF_I32 || t == GGUF_I64;
}

static int64_t load_signed(const unsigned char *p, enum gguf_type t)
{
    size_t n = gguf_scalar_size(t);
    uint64_t v = gguf_load(p, n);
    if (n < 8 && v >> (8 * n - 1))
        v |= ~UINT64_C(0) << 8 * n;
    int64_t s;
    memcpy(&s, &v, sizeof s);
    return s;
}

static double load_float(const unsigned char *p, enum gguf_type t)
{
    if (t == GGUF_F32) {
        uint32_t u = (uint32_t)gguf_load(p, 4);
        float f;
        memcpy(&f, &u, sizeof f);
        return (double)f;
    }
    uint64_t u = gguf_load(p, 8);
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

enum status gguf_get_u64(const struct gguf *g, const char *key, uint64_t *v)
{
    const struct gguf_entry *e;
    TRY(lookup(g, key, &e));
    if (is_unsigned(e->type)) {
        *v = gguf_load(e->data, gguf_scalar_size(e->type));
        return ST_OK;
    }
    if (!is_signed(e->type))
        return wrong_type(key, e->type, "an integer");
    int64_t s = load_signed(e->data, e->type);
    if (s < 0)
        FAIL(ST_RANGE, "gguf: \"%s\" is %lld, negative", key, (long long)s);
    *v = (uint64_t)s;
    return ST_OK;
}

enum status gguf_get_i64(const struct gguf *g, const char *key, int64_t *v)
{
    const struct gguf_entry *e;
    TRY(lookup(g, key, &e));
    if (is_signed(e->type)) {
        *v = load_signed(e->data, e->type);
        return ST_OK;
    }
    if (!is_unsigned(e->type))
        return wrong_type(key, e->type, "an integer");
    uint64_t u = gguf_load(e->data, gguf_scalar_size(e->type));
    if (u > INT64_MAX)
        FAIL(ST_RANGE, "gguf: \"%s\" is %llu, too large", key, (unsigned long long)u);
    *v = (int64_t)u;
    return ST_OK;
}

enum status gguf_get_f64(const struct gguf *g, const char *key, double *v)
{
    const struct gguf_entry *e;
    TRY(lookup(g, key, &e));
    if (e->type != GGUF_F32 && e->type != GGUF_F64)
        return wrong_type(key, e->type, "a float");
    *v = load_float(e->data, e->type);
    return ST_OK;
}

enum status gguf_get_bool(const struct gguf *g, const char *key, bool *v)
{
    const struct gguf_entry *e;
    TRY(lookup(g, key, &e));
    if (e->type != GGUF_BOOL)
        return wrong_type(key, e->type, "a bool");
    *v = *e->data != 0;
    return ST_OK;
}

enum status gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *v)
{
    const struct gguf_entry *e;
    TRY(lookup(g, key, &e));
    if (e->type != GGUF_STRING)
        return wrong_type(key, e->type, "a string");
    *v = e->str;
    return ST_OK;
}

bool gguf_is_array(const struct gguf *g, const char *key)
{
    const struct gguf_entry *e;
    return gguf_has(g, key) && lookup(g, key, &e) == ST_OK && e->type == GGUF_ARRAY;
}

enum status gguf_get_array(const struct gguf *g, const char *key, enum gguf_type type,
                           struct gguf_array *v)
{
    const struct gguf_entry *e;
    TRY(lookup(g, key, &e));
    if (e->type != GGUF_ARRAY)
        return wrong_type(key, e->type, "an array");
    if (e->array.type != type)
        FAIL(ST_FORMAT, "gguf: \"%s\" is an array of %s, not of %s", key, type_names[e->array.type],
             type_names[type]);
    *v = e->array;
    return ST_OK;
}

int64_t gguf_array_int(const struct gguf_array *a, uint64_t i)
{
    size_t n = gguf_scalar_size(a->type);
    const unsigned char *p = a->data + i * n;
    return is_signed(a->type) ? load_signed(p, a->type) : (int64_t)gguf_load(p, n);
}

double gguf_array_float(const struct gguf_array *a, uint64_t i)
{
    return load_float(a->data + i * gguf_scalar_size(a->type), a->type);
}

struct gguf_str gguf_array_next(const struct gguf_array *a, struct gguf_cursor *c)
{
    size_t n = (size_t)gguf_load(a->data + c->at, 8);
    struct gguf_str s = {(const char *)a->data + c->at + 8, n};
    c->at += 8 + n;
    return s;
}

uint32_t gguf_version(const struct gguf *g)
{
    return g->version;
}

size_t gguf_n_keys(const struct gguf *g)
{
    return g->n_entries;
}

struct gguf_str gguf_key(const struct gguf *g, size_t i, enum gguf_type *type)
{
    *type = g->entries[i].type;
    return g->entries[i].key;
}

const unsigned char *gguf_raw_value(const struct gguf *g, size_t i, size_t *n)
{
    *n = g->entries[i].n_raw;
    return g->entries[i].raw;
}

bool gguf_has(const struct gguf *g, const char *key)
{
    return find(g, key) != NULL;
}

static int by_name(const void *a, const void *b)
{
    return gguf_str_order(((const struct gguf_tensor *)a)->name,
                          ((const struct gguf_tensor *)b)->name);
}

enum status gguf_sort_tensors(struct gguf *g)
{
    qsort(g->tensors, g->n_tensors, sizeof *g->tensors, by_name);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (gguf_str_order(g->tensors[i - 1].name, g->tensors[i].name) == 0)
            FAIL(ST_FORMAT, "gguf: the tensor \"%s\" stands twice",
                 gguf_show(g->tensors[i].name).text);
    return ST_OK;
}

size_t gguf_n_tensors(const struct gguf *g)
{
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    return &g->tensors[i];
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
    size_t low = 0, high = g->n_tensors;
    const struct gguf_str wanted = {name, strlen(name)};
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = gguf_str_order(g->tensors[mid].name, wanted);
        if (c == 0)
            return &g->tensors[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

uint64_t gguf_alignment(const struct gguf *g)
{
    return g->alignment;
}
