#include "common/formats/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "common/formats/gguf_impl.h"
#include "common/utf8.h"

#define MAX_ALIGNMENT 65536

struct cursor {
    const unsigned char *data;
    size_t at, len; /* bytes */
};

static enum status take(struct cursor *c, size_t n, const unsigned char **p, const char *what)
{
    *p = c->data + c->at;
    if (n > c->len - c->at)
        FAIL(ST_FORMAT, "gguf: the file ends inside %s at byte %zu (%zu bytes are missing)", what,
             c->at, n - (c->len - c->at));
    c->at += n;
    return ST_OK;
}

static enum status take_u32(struct cursor *c, uint32_t *v, const char *what)
{
    const unsigned char *p;
    TRY(take(c, 4, &p, what));
    *v = (uint32_t)gguf_load(p, 4);
    return ST_OK;
}

static enum status take_u64(struct cursor *c, uint64_t *v, const char *what)
{
    const unsigned char *p;
    TRY(take(c, 8, &p, what));
    *v = gguf_load(p, 8);
    return ST_OK;
}

static enum status take_str(struct cursor *c, struct gguf_str *s, uint64_t max, const char *what)
{
    uint64_t n;
    const unsigned char *p;
    TRY(take_u64(c, &n, what));
    if (n > max || n > c->len - c->at)
        FAIL(ST_FORMAT, "gguf: the length of %s, %llu at byte %zu, is too large", what,
             (unsigned long long)n, c->at - 8);
    TRY(take(c, (size_t)n, &p, what));
    *s = (struct gguf_str){(const char *)p, (size_t)n};
    return ST_OK;
}

/* ---- metadata ---- */

static enum status take_array(struct cursor *c, struct gguf_entry *e)
{
    uint32_t type;
    struct gguf_array *a = &e->array;
    TRY(take_u32(c, &type, "an array"));
    TRY(take_u64(c, &a->n, "an array"));
    size_t size = gguf_scalar_size(type);
    if (size == 0 && type != GGUF_STRING)
        FAIL(ST_UNSUPPORTED, "gguf: \"%s\" is an array of type %u", gguf_show(e->key).text,
             (unsigned)type);
    a->type = (enum gguf_type)type;
    a->data = c->data + c->at;
    if (a->n > (c->len - c->at) / (size ? size : 8))
        FAIL(ST_FORMAT, "gguf: \"%s\" says that it has %llu elements, more than the file holds",
             gguf_show(e->key).text, (unsigned long long)a->n);
    if (size) {
        c->at += (size_t)a->n * size;
        for (uint64_t i = 0; type == GGUF_BOOL && i < a->n; i++)
            if (a->data[i] > 1)
                FAIL(ST_FORMAT, "gguf: \"%s\"[%llu] is neither true nor false",
                     gguf_show(e->key).text, (unsigned long long)i);
        return ST_OK;
    }
    for (uint64_t i = 0; i < a->n; i++) {
        struct gguf_str s;
        TRY(take_str(c, &s, UINT32_MAX, "a string of an array"));
    }
    return ST_OK;
}

/* Names go to terminals and logs. */
static enum status check_name(struct gguf_str name, const char *what)
{
    bool clean = name.len > 0 && utf8_valid(name.data, name.len);
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i],
                      next = (unsigned char)name.data[i + (i + 1 < name.len)];
        clean &=
            c >= 0x20 && c != 0x7F && !(c == 0xC2 && next < 0xA0); /* the last: U+0080 to U+009F */
    }
    if (!clean)
        FAIL(ST_FORMAT, "gguf: %s is empty, not UTF-8 or holds control characters: \"%s\"", what,
             gguf_show(name).text);
    return ST_OK;
}

static enum status take_value(struct cursor *c, struct gguf_entry *e, uint32_t type)
{
    e->type = (enum gguf_type)type;
    if (type == GGUF_STRING)
        return take_str(c, &e->str, UINT32_MAX, "a string");
    if (type == GGUF_ARRAY)
        return take_array(c, e);
    size_t size = gguf_scalar_size(type);
    if (size == 0)
        FAIL(ST_UNSUPPORTED, "gguf: \"%s\" has the unknown type %u", gguf_show(e->key).text,
             (unsigned)type);
    TRY(take(c, size, &e->data, "a value"));
    if (type == GGUF_BOOL && *e->data > 1)
        FAIL(ST_FORMAT, "gguf: \"%s\" is neither true nor false", gguf_show(e->key).text);
    return ST_OK;
}

static enum status take_entry(struct cursor *c, struct gguf_entry *e)
{
    uint32_t type;
    TRY(take_str(c, &e->key, GGUF_MAX_NAME, "a key"));
    TRY(check_name(e->key, "a key"));
    TRY(take_u32(c, &type, "a value's type"));
    e->raw = c->data + c->at;
    TRY(take_value(c, e, type));
    e->n_raw = (size_t)(c->data + c->at - e->raw);
    return ST_OK;
}

static int key_order(const void *a, const void *b)
{
    return gguf_str_order(((const struct gguf_entry *)a)->key, ((const struct gguf_entry *)b)->key);
}

/* Entries are kept sorted by key: getters search by halves, and doubles lie side by side. */
static enum status parse_metadata(struct gguf *g, struct cursor *c, uint64_t n)
{
    if (n > GGUF_MAX_KEYS)
        FAIL(ST_RANGE, "gguf: %llu keys are more than %d", (unsigned long long)n, GGUF_MAX_KEYS);
    if (n > (c->len - c->at) / 13) /* a key's length, a type, one byte */
        FAIL(ST_FORMAT, "gguf: the header says %llu keys, more than the file holds",
             (unsigned long long)n);
    g->entries = calloc(n ? (size_t)n : 1, sizeof *g->entries);
    if (!g->entries)
        FAIL(ST_NOMEM, "gguf: no memory for %llu keys", (unsigned long long)n);
    for (; g->n_entries < n; g->n_entries++)
        TRY(take_entry(c, &g->entries[g->n_entries]));
    qsort(g->entries, g->n_entries, sizeof *g->entries, key_order);
    for (size_t i = 1; i < g->n_entries; i++)
        if (gguf_str_order(g->entries[i - 1].key, g->entries[i].key) == 0)
            FAIL(ST_FORMAT, "gguf: the key \"%s\" stands twice", gguf_show(g->entries[i].key).text);
    return ST_OK;
}

static enum status read_alignment(struct gguf *g)
{
    g->alignment = 32;
    enum status st = gguf_get_u64(g, "general.alignment", &g->alignment);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    if (g->alignment == 0 || g->alignment > MAX_ALIGNMENT ||
        (g->alignment & (g->alignment - 1)) != 0)
        FAIL(ST_FORMAT, "gguf: general.alignment %llu is no power of two up to %d",
             (unsigned long long)g->alignment, MAX_ALIGNMENT);
    return ST_OK;
}

/* ---- tensors ---- */

static enum status check_shape(struct gguf_tensor *t, const struct ggml_type_info *info)
{
    t->n_elements = 1;
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++) {
        if (t->ne[i] == 0 || t->ne[i] > INT64_MAX)
            FAIL(ST_FORMAT, "gguf: tensor \"%s\": dimension %u is %llu", gguf_show(t->name).text,
                 (unsigned)i, (unsigned long long)t->ne[i]);
        if (t->n_elements > (uint64_t)INT64_MAX / t->ne[i])
            FAIL(ST_FORMAT, "gguf: tensor \"%s\": its dimensions overflow",
                 gguf_show(t->name).text);
        t->n_elements *= t->ne[i];
    }
    if (t->ne[0] % info->block != 0)
        FAIL(ST_FORMAT, "gguf: tensor \"%s\": rows of %llu are no multiple of the %u of a %s block",
             gguf_show(t->name).text, (unsigned long long)t->ne[0], (unsigned)info->block,
             info->name);
    uint64_t blocks = t->n_elements / info->block;
    if (blocks > SIZE_MAX / info->bytes)
        FAIL(ST_FORMAT, "gguf: tensor \"%s\": its size overflows", gguf_show(t->name).text);
    t->n_bytes = (size_t)blocks * info->bytes;
    return ST_OK;
}

static enum status take_tensor(struct cursor *c, struct gguf_tensor *t, uint64_t alignment)
{
    uint32_t type;
    TRY(take_str(c, &t->name, GGUF_MAX_NAME, "a tensor's name"));
    TRY(check_name(t->name, "a tensor's name"));
    TRY(take_u32(c, &t->n_dims, "a tensor"));
    if (t->n_dims > GGUF_MAX_DIMS)
        FAIL(ST_FORMAT, "gguf: tensor \"%s\" has %u dimensions, more than %d",
             gguf_show(t->name).text, (unsigned)t->n_dims, GGUF_MAX_DIMS);
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++)
        t->ne[i] = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        TRY(take_u64(c, &t->ne[i], "a tensor's dimensions"));
    TRY(take_u32(c, &type, "a tensor's type"));
    const struct ggml_type_info *info = ggml_type_info(type);
    if (!info)
        FAIL(ST_UNSUPPORTED, "gguf: tensor \"%s\" has the unknown type %u", gguf_show(t->name).text,
             (unsigned)type);
    t->type = (enum ggml_type)type;
    TRY(check_shape(t, info));
    TRY(take_u64(c, &t->offset, "a tensor's offset"));
    if (t->offset % alignment != 0)
        FAIL(ST_FORMAT, "gguf: tensor \"%s\": its offset %llu is not aligned to %llu",
             gguf_show(t->name).text, (unsigned long long)t->offset, (unsigned long long)alignment);
    return ST_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Places each tensor in the file, and looks for overlaps and doubled names.  Afterwards sorted by
 * name. */
static enum status place_tensors(struct gguf *g, const struct cursor *c)
{
    size_t start = c->at;
    if (g->n_tensors == 0)
        return ST_OK;
    size_t pad = (size_t)((g->alignment - start % g->alignment) % g->alignment);
    if (pad > c->len - start)
        FAIL(ST_FORMAT, "gguf: the file ends before the tensors' data");
    start += pad;
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        if (t->offset > c->len - start || t->n_bytes > c->len - start - (size_t)t->offset)
            FAIL(ST_FORMAT,
                 "gguf: tensor \"%s\": %zu bytes at offset %llu reach beyond the end of the file",
                 gguf_show(t->name).text, t->n_bytes, (unsigned long long)t->offset);
        t->data = c->data + start + (size_t)t->offset;
        t->offset += start;
    }
    qsort(g->tensors, g->n_tensors, sizeof *g->tensors, by_offset);
    for (size_t i = 1; i < g->n_tensors; i++) {
        const struct gguf_tensor *a = &g->tensors[i - 1], *b = &g->tensors[i];
        if (b->offset - a->offset < a->n_bytes)
            FAIL(ST_FORMAT, "gguf: the tensors \"%s\" and \"%s\" overlap", gguf_show(a->name).text,
                 gguf_show(b->name).text);
    }
    return gguf_sort_tensors(g);
}

static enum status parse_tensors(struct gguf *g, struct cursor *c, uint64_t n)
{
    if (n > GGUF_MAX_TENSORS)
        FAIL(ST_RANGE, "gguf: %llu tensors are more than %d", (unsigned long long)n,
             GGUF_MAX_TENSORS);
    if (n > (c->len - c->at) / 25)
        FAIL(ST_FORMAT, "gguf: the header says %llu tensors, more than the file holds",
             (unsigned long long)n);
    g->tensors = calloc(n ? (size_t)n : 1, sizeof *g->tensors);
    if (!g->tensors)
        FAIL(ST_NOMEM, "gguf: no memory for %llu tensors", (unsigned long long)n);
    for (; g->n_tensors < n; g->n_tensors++)
        TRY(take_tensor(c, &g->tensors[g->n_tensors], g->alignment));
    return place_tensors(g, c);
}

static enum status parse(struct gguf *g, struct cursor *c)
{
    const unsigned char *magic;
    uint64_t n_tensors, n_keys;
    TRY(take(c, 4, &magic, "the header"));
    if (memcmp(magic, "GGUF", 4) != 0)
        FAIL(ST_FORMAT, "gguf: the file does not begin with \"GGUF\"");
    TRY(take_u32(c, &g->version, "the header"));
    if (g->version == 0x02000000 || g->version == 0x03000000)
        FAIL(ST_UNSUPPORTED, "gguf: big-endian files are not supported");
    if (g->version != 2 && g->version != 3)
        FAIL(ST_UNSUPPORTED, "gguf: version %u is not supported", (unsigned)g->version);
    TRY(take_u64(c, &n_tensors, "the header"));
    TRY(take_u64(c, &n_keys, "the header"));
    TRY(parse_metadata(g, c, n_keys));
    TRY(read_alignment(g));
    TRY(gguf_read_part(g));
    return parse_tensors(g, c, n_tensors);
}

enum status gguf_parse(struct gguf **out, const void *data, size_t len)
{
    *out = NULL;
    struct gguf *g = calloc(1, sizeof *g);
    struct cursor c = {data, 0, len};
    if (!g)
        FAIL(ST_NOMEM, "gguf: no memory");
    enum status st = parse(g, &c);
    if (st != ST_OK)
        gguf_free(g);
    else
        *out = g;
    return st;
}

void gguf_free(struct gguf *g)
{
    if (!g)
        return;
    free(g->entries);
    free(g->tensors);
    free(g);
}
