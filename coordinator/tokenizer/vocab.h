/* The vocabulary (id <-> bytes) and the merge table of a tokenizer: built once, then only read.
 * Who calls it: the loaders, the models, the decoder. */
#ifndef COORDINATOR_TOKENIZER_VOCAB_H
#define COORDINATOR_TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "common/text/text_buf.h"
#include "coordinator/tokenizer/tok_text.h"

#define TOK_MAX_VOCAB ((int32_t)1 << 24) /* ids are below this */

/* Flags of an id. */
enum {
    TF_USED = 1,
    TF_MODEL = 2, /* in the model's vocabulary */
    TF_ADDED = 4,
    TF_SPECIAL = 8,
    TF_BYTE = 16,  /* spelled <0xNN> */
    TF_PLAIN = 32, /* byte-level: has characters that stand for no byte */
};

struct strref {
    uint32_t at, len; /* bytes, into the arena */
};

struct str_slot {
    uint32_t hash;
    int32_t id; /* -1: free */
};

struct str_map {
    struct str_slot *slots;
    uint32_t mask; /* slots - 1; 0 slots when slots is NULL */
};

struct vocab {
    struct text_buf arena;
    struct strref *text; /* by id: as spelled */
    struct strref *raw;  /* by id: the bytes it stands for; NULL when not byte-level */
    uint8_t *flags;      /* by id */
    int32_t n_ids, cap;  /* ids are below n_ids */
    int32_t n_model;     /* tokens of the model */
    bool byte_level;
    struct str_map by_text, by_raw; /* of the model's tokens; by_raw only when byte-level */
    int32_t byte_id[256];           /* of <0xNN>; -1: none */
};

uint32_t str_hash(const char *p, size_t n);

void vocab_init(struct vocab *v);
void vocab_fini(struct vocab *v);
/* Room for ids below n. */
MUST_CHECK enum status vocab_reserve(struct vocab *v, int32_t n);
/* Sets the text of id (copied).  A model's token whose id is taken is ST_FORMAT. */
MUST_CHECK enum status vocab_set(struct vocab *v, int32_t id, const char *text, size_t n,
                                 unsigned flags);
/* After the last model token: makes the maps; of two ids with one text the later in file order
 * wins. */
MUST_CHECK enum status vocab_finish(struct vocab *v, bool byte_level);

/* Model tokens only; -1: none. */
int32_t vocab_find_text(const struct vocab *v, const char *p, size_t n);
int32_t vocab_find_hashed(const struct vocab *v, const char *text, size_t n, uint32_t hash);
int32_t vocab_find_raw(const struct vocab *v, const char *p, size_t n);

/* Asks the memory for the slot that a text with this hash will be looked for in. */
static inline void vocab_prefetch(const struct vocab *v, uint32_t hash)
{
    __builtin_prefetch(&v->by_text.slots[hash & v->by_text.mask]);
}

static inline struct tok_text vocab_text(const struct vocab *v, int32_t id)
{
    return (struct tok_text){v->arena.data + v->text[id].at, v->text[id].len};
}

static inline struct tok_text vocab_raw(const struct vocab *v, int32_t id)
{
    const struct strref *r = v->raw ? &v->raw[id] : &v->text[id];
    return (struct tok_text){v->arena.data + r->at, r->len};
}

/* The byte-level alphabet of GPT-2: a printable character for each byte. */
uint32_t byte_to_char(unsigned char b);
int char_to_byte(uint32_t cp); /* -1: stands for no byte */
/* Appends the bytes that text stands for; *all false (and nothing appended) when a character stands
 * for none. text may lie in out when out has room for n more bytes. */
MUST_CHECK enum status bytes_of_chars(const char *text, size_t n, struct text_buf *out, bool *all);

struct merge {
    int32_t left, right, id;
    uint32_t rank; /* lower is earlier */
};

struct merge_map {
    struct merge *slots; /* left -1: free */
    uint32_t mask;
    uint32_t n;
};

MUST_CHECK enum status merge_map_init(struct merge_map *m, size_t n);
void merge_map_fini(struct merge_map *m);
void merge_map_put(struct merge_map *m, struct merge e); /* the later of two equal pairs wins */

static inline uint32_t merge_hash(int32_t left, int32_t right)
{
    uint64_t k = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(k >> 32) ^ (uint32_t)(k >> 13);
}

static inline void merge_map_prefetch(const struct merge_map *m, int32_t left, int32_t right)
{
    __builtin_prefetch(&m->slots[merge_hash(left, right) & m->mask], 1);
}

/* NULL: the pair does not merge. */
static inline const struct merge *merge_find(const struct merge_map *m, int32_t left, int32_t right)
{
    if (m->n == 0)
        return NULL;
    for (uint32_t i = merge_hash(left, right) & m->mask;; i = (i + 1) & m->mask) {
        const struct merge *e = &m->slots[i];
        if (e->left == left && e->right == right)
            return e;
        if (e->left < 0)
            return NULL;
    }
}

#endif
