/* Dicts: pairs in the order of insertion, and an index once there are more than a few. */
#include <string.h>

#include "coordinator/jinja/run.h"

enum { INDEX_FROM = 8 }; /* dicts up to this size are searched from end to end */

static uint64_t hash_bytes(const char *p, size_t n) /* FNV-1a */
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static uint64_t hash_number(const struct jval *v)
{
    double f = jval_as_float(v); /* 1, 1.0 and True are one key */
    if (f == 0)
        f = 0; /* not -0.0 */
    return hash_bytes((const char *)&f, sizeof f);
}

static enum status hash_value(struct jrun *r, const struct jval *v, uint64_t *out)
{
    switch (v->type) {
    case J_STR:
        TRY(j_charge_bytes(r, v->u.s->n));
        *out = hash_bytes(v->u.s->p, v->u.s->n);
        return ST_OK;
    case J_BIG:
        *out = hash_bytes(v->u.s->p, v->u.s->n);
        return ST_OK;
    case J_BOOL:
    case J_INT:
    case J_FLOAT:
        *out = hash_number(v);
        return ST_OK;
    case J_NONE:
        *out = 1;
        return ST_OK;
    case J_UNDEF:
        *out = 2;
        return ST_OK;
    case J_TUPLE: {
        TRY(j_enter(r));
        TRY(j_charge(r, v->u.list->n));
        uint64_t h = 3, item;
        for (size_t i = 0; i < v->u.list->n; i++) {
            TRY(hash_value(r, &v->u.list->items[i], &item));
            h = h * 1000003 ^ item;
        }
        j_leave(r);
        *out = h;
        return ST_OK;
    }
    default:
        FAIL(ST_UNSUPPORTED, "a %s cannot be a key: unhashable type", jtype_name(v));
    }
}

enum status jdict_new(struct jrun *r, struct jdict **out)
{
    struct jdict *d = jmem_alloc(&r->mem, sizeof *d);
    if (!d)
        return jmem_full(&r->mem);
    *d = (struct jdict){0};
    *out = d;
    return ST_OK;
}

static enum status key_equal(struct jrun *r, const struct jval *a, const struct jval *b, bool *out)
{
    if (a->type == J_STR && b->type == J_STR) {
        *out = jstr_is(a->u.s, b->u.s->p, b->u.s->n);
        return ST_OK;
    }
    return jval_equal(r, a, b, out);
}

/* *slot = where the key stands in the index or is to be put; *pair = it or NULL. */
static enum status probe(struct jrun *r, const struct jdict *d, const struct jval *key,
                         size_t *slot, struct jpair **pair)
{
    uint64_t h;
    *pair = NULL;
    TRY(hash_value(r, key, &h));
    for (size_t at = h & (d->n_index - 1);; at = (at + 1) & (d->n_index - 1)) {
        TRY(j_charge(r, 1));
        *slot = at;
        if (!d->index[at])
            return ST_OK;
        struct jpair *p = &d->pairs[d->index[at] - 1];
        bool same;
        TRY(key_equal(r, &p->key, key, &same));
        if (same) {
            *pair = p;
            return ST_OK;
        }
    }
}

static enum status rebuild_index(struct jrun *r, struct jdict *d)
{
    if (d->cap > UINT32_MAX / 4)
        FAIL(ST_NOMEM, "a dict of %zu items is too large", d->cap);
    d->n_index = 16;
    while (d->n_index < d->cap * 2)
        d->n_index *= 2;
    d->index = jmem_array(&r->mem, d->n_index, sizeof *d->index);
    if (!d->index)
        return jmem_full(&r->mem);
    memset(d->index, 0, d->n_index * sizeof *d->index);
    for (size_t i = 0; i < d->n; i++) {
        size_t slot;
        struct jpair *none;
        TRY(probe(r, d, &d->pairs[i].key, &slot, &none));
        d->index[slot] = (uint32_t)i + 1;
    }
    return ST_OK;
}

static enum status grow(struct jrun *r, struct jdict *d)
{
    size_t cap = d->cap ? d->cap * 2 : 4;
    struct jpair *pairs = jmem_array(&r->mem, cap, sizeof *pairs);
    if (!pairs)
        return jmem_full(&r->mem);
    if (d->n)
        memcpy(pairs, d->pairs, d->n * sizeof *pairs);
    d->pairs = pairs;
    d->cap = cap;
    return cap > INDEX_FROM ? rebuild_index(r, d) : ST_OK;
}

enum status jdict_find(struct jrun *r, const struct jdict *d, const struct jval *key,
                       struct jpair **out)
{
    size_t slot;
    *out = NULL;
    if (d->index)
        return probe(r, d, key, &slot, out);
    uint64_t unused;
    if (key->type != J_STR)
        TRY(hash_value(r, key, &unused)); /* refuses what cannot be a key */
    for (size_t i = 0; i < d->n; i++) {
        bool same;
        TRY(key_equal(r, &d->pairs[i].key, key, &same));
        if (same) {
            *out = &d->pairs[i];
            return ST_OK;
        }
    }
    return ST_OK;
}

enum status jdict_find_str(struct jrun *r, const struct jdict *d, const char *key, size_t n,
                           struct jpair **out)
{
    struct jstr s = {key, n, 0};
    struct jval v = jv_str(&s);
    return jdict_find(r, d, &v, out);
}

enum status jdict_set(struct jrun *r, struct jdict *d, const struct jval *key,
                      const struct jval *value)
{
    struct jpair *p;
    TRY(jdict_find(r, d, key, &p));
    if (p) {
        p->value = *value;
        return ST_OK;
    }
    if (d->n == d->cap)
        TRY(grow(r, d));
    if (d->index) {
        size_t slot;
        TRY(probe(r, d, key, &slot, &p));
        d->index[slot] = (uint32_t)d->n + 1;
    }
    d->pairs[d->n++] = (struct jpair){*key, *value};
    return ST_OK;
}

enum status jdict_remove(struct jrun *r, struct jdict *d, size_t i)
{
    TRY(j_charge(r, d->n));
    memmove(&d->pairs[i], &d->pairs[i + 1], (d->n - i - 1) * sizeof *d->pairs);
    d->n--;
    return d->index ? rebuild_index(r, d) : ST_OK;
}
