#include "worker/step/id_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status id_map_init(struct id_map *m, size_t max)
{
    size_t n = 16;
    if (max > SIZE_MAX / 64)
        FAIL(ST_RANGE, "a map of %zu sequences", max);
    while (n < 2 * max)
        n *= 2;
    m->key = calloc(n, sizeof *m->key);
    m->value = calloc(n, sizeof *m->value);
    m->mask = n - 1;
    if (m->key && m->value)
        return ST_OK;
    id_map_fini(m);
    FAIL(ST_NOMEM, "no memory for a map of %zu sequences", max);
}

void id_map_fini(struct id_map *m)
{
    free(m->key);
    free(m->value);
    *m = (struct id_map){0};
}

void id_map_clear(struct id_map *m)
{
    memset(m->key, 0, (m->mask + 1) * sizeof *m->key);
}

/* Mixes all bits (the finaliser of SplitMix64: Steele, Lea, Flood 2014). */
static size_t home(const struct id_map *m, uint64_t key)
{
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9U;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebU;
    return (size_t)(key ^ (key >> 31)) & m->mask;
}

/* Where the key is, or the free place where it would be. */
static size_t find(const struct id_map *m, uint64_t key)
{
    size_t i = home(m, key);
    while (m->key[i] && m->key[i] != key)
        i = (i + 1) & m->mask;
    return i;
}

int32_t id_map_get(const struct id_map *m, uint64_t key)
{
    size_t i = find(m, key);
    return key && m->key[i] == key ? m->value[i] : -1;
}

void id_map_put(struct id_map *m, uint64_t key, int32_t value)
{
    size_t i = find(m, key);
    assert(key && !m->key[i]);
    m->key[i] = key;
    m->value[i] = value;
}

void id_map_remove(struct id_map *m, uint64_t key)
{
    size_t hole = find(m, key);
    if (!key || m->key[hole] != key)
        return;
    for (size_t i = (hole + 1) & m->mask; m->key[i]; i = (i + 1) & m->mask) {
        size_t from_home = (i - home(m, m->key[i])) & m->mask; /* how far it was pushed */
        if (from_home >= ((i - hole) & m->mask)) {
            m->key[hole] = m->key[i];
            m->value[hole] = m->value[i];
            hole = i;
        }
    }
    m->key[hole] = 0;
}
