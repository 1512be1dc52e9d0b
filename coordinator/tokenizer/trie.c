/* A trie in one hash table keyed by (node, byte): small, and a step is one look-up.  Used by the
 * unigram model and by the search for added tokens. */
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/impl.h"

static uint32_t edge_hash(uint32_t node, unsigned char byte)
{
    uint64_t k = ((uint64_t)node << 8 | byte) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(k >> 32);
}

enum status trie_init(struct trie *t, size_t total_bytes)
{
    size_t slots = 16;
    while (slots < total_bytes * 2)
        slots *= 2;
    if (slots > (size_t)1 << 30)
        FAIL(ST_RANGE, "a vocabulary with %zu bytes of text is too large", total_bytes);
    t->slots = malloc(slots * sizeof *t->slots);
    t->id = malloc((total_bytes + 1) * sizeof *t->id);
    if (!t->slots || !t->id) {
        trie_fini(t);
        FAIL(ST_NOMEM, "no memory for a trie of %zu bytes", total_bytes);
    }
    memset(t->slots, 0xFF, slots * sizeof *t->slots);
    t->mask = (uint32_t)(slots - 1);
    t->n_nodes = 1;
    t->id[0] = -1;
    return ST_OK;
}

void trie_fini(struct trie *t)
{
    free(t->slots);
    free(t->id);
    *t = (struct trie){0};
}

static struct trie_edge *edge_at(const struct trie *t, uint32_t node, unsigned char byte)
{
    uint32_t i = edge_hash(node, byte) & t->mask;
    while (t->slots[i].node != UINT32_MAX && (t->slots[i].node != node || t->slots[i].byte != byte))
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

uint32_t trie_next(const struct trie *t, uint32_t node, unsigned char byte)
{
    const struct trie_edge *e = edge_at(t, node, byte);
    return e->node == UINT32_MAX ? UINT32_MAX : e->next;
}

void trie_put(struct trie *t, const char *p, size_t n, int32_t id, bool replace)
{
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        struct trie_edge *e = edge_at(t, node, (unsigned char)p[i]);
        if (e->node == UINT32_MAX) {
            *e = (struct trie_edge){.node = node, .next = t->n_nodes, .byte = (uint8_t)p[i]};
            t->id[t->n_nodes++] = -1;
        }
        node = e->next;
    }
    if (t->id[node] < 0 || replace)
        t->id[node] = id;
}
