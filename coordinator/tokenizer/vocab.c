#include "coordinator/tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/unicode.h"

uint32_t str_hash(const char *p, size_t n)
{
    uint64_t h = n * UINT64_C(0x9E3779B97F4A7C15), w;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
    }
    w = 0;
    for (size_t i = 0; i < n; i++)
        w |= (uint64_t)(unsigned char)p[i] << 8 * i;
    h = (h ^ w) * UINT64_C(0xD6E8FEB86659FD93);
    h ^= h >> 32;
    h *= UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(h >> 32);
}

void vocab_init(struct vocab *v)
{
    *v = (struct vocab){0};
    for (int i = 0; i < 256; i++)
        v->byte_id[i] = -1;
}

void vocab_fini(struct vocab *v)
{
    free(v->raw);
    free(v->text);
    free(v->flags);
    free(v->by_text.slots);
    free(v->by_raw.slots);
    text_buf_free(&v->arena);
    *v = (struct vocab){0};
}

enum status vocab_reserve(struct vocab *v, int32_t n)
{
    if (n <= v->cap)
        return ST_OK;
    int32_t cap = v->cap ? v->cap : 1024;
    while (cap < n)
        cap *= 2; /* n <= TOK_MAX_VOCAB, a power of two far from overflow */
    struct strref *text = realloc(v->text, (size_t)cap * sizeof *text);
    if (text)
        v->text = text;
    uint8_t *flags = realloc(v->flags, (size_t)cap);
    if (flags)
        v->flags = flags;
    struct strref *raw = v->raw;
    if (raw) {
        raw = realloc(v->raw, (size_t)cap * sizeof *raw);
        if (raw)
            v->raw = raw;
    }
    if (!text || !flags || (v->raw && !raw))
        FAIL(ST_NOMEM, "no memory for a vocabulary of %d tokens", (int)cap);
    memset(flags + v->cap, 0, (size_t)(cap - v->cap));
    memset(text + v->cap, 0, (size_t)(cap - v->cap) * sizeof *text);
    if (raw)
        memset(raw + v->cap, 0, (size_t)(cap - v->cap) * sizeof *raw);
    v->cap = cap;
    return ST_OK;
}

static enum status store(struct vocab *v, const char *p, size_t n, struct strref *ref)
{
    if (n > UINT32_MAX - v->arena.len)
        FAIL(ST_RANGE, "the vocabulary has more than 4 GiB of text");
    *ref = (struct strref){(uint32_t)v->arena.len, (uint32_t)n};
    return text_buf_append(&v->arena, p, n);
}

/* "<0x0A>" -> 10; -1: another token. */
static int byte_of(const char *p, size_t n)
{
    int b = 0;
    if (n != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        char c = p[i];
        if (c >= '0' && c <= '9')
            b = b * 16 + (c - '0');
        else if ((c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'))
            b = b * 16 + ((c | 32) - 'a' + 10);
        else
            return -1;
    }
    return b;
}

static enum status set_raw(struct vocab *v, int32_t id);

enum status vocab_set(struct vocab *v, int32_t id, const char *text, size_t n, unsigned flags)
{
    if (id < 0 || id >= TOK_MAX_VOCAB)
        FAIL(ST_RANGE, "token id %d is not below %d", (int)id, (int)TOK_MAX_VOCAB);
    TRY(vocab_reserve(v, id + 1));
    if (v->flags[id] & TF_USED)
        FAIL(ST_FORMAT, "two tokens have the id %d: \"%.*s\" and \"%.*s\"", (int)id,
             (int)v->text[id].len, v->arena.data + v->text[id].at, (int)(n < 100 ? n : 100), text);
    TRY(text_buf_reserve(&v->arena, n + 1)); /* data is not NULL, even if all texts are empty */
    TRY(store(v, text, n, &v->text[id]));
    int b = byte_of(text, n);
    if (b >= 0)
        flags |= TF_BYTE;
    /* The model looks for upper-case digits only; the decoder takes both. */
    if (b >= 0 && (flags & TF_MODEL) && text[3] < 'a' && text[4] < 'a')
        v->byte_id[b] = id;
    v->flags[id] = (uint8_t)(flags | TF_USED);
    if (id >= v->n_ids)
        v->n_ids = id + 1;
    if (flags & TF_MODEL)
        v->n_model++;
    return v->raw ? set_raw(v, id) : ST_OK;
}

static enum status map_init(struct str_map *m, size_t n)
{
    size_t slots = 16;
    while (slots < n * 2)
        slots *= 2;
    m->slots = malloc(slots * sizeof *m->slots);
    if (!m->slots)
        FAIL(ST_NOMEM, "no memory for a table of %zu tokens", n);
    memset(m->slots, 0xFF, slots * sizeof *m->slots);
    m->mask = (uint32_t)(slots - 1);
    return ST_OK;
}

static int32_t map_find(const struct str_map *m, const char *arena, const struct strref *refs,
                        const char *p, size_t n, uint32_t hash)
{
    if (!m->slots)
        return -1;
    for (uint32_t i = hash & m->mask; m->slots[i].id >= 0; i = (i + 1) & m->mask) {
        const struct strref *r = &refs[m->slots[i].id];
        if (m->slots[i].hash == hash && r->len == n && memcmp(arena + r->at, p, n) == 0)
            return m->slots[i].id;
    }
    return -1;
}

static void map_put(struct str_map *m, const char *arena, const struct strref *refs, int32_t id)
{
    struct strref r = refs[id];
    uint32_t hash = str_hash(arena + r.at, r.len), i = hash & m->mask;
    for (; m->slots[i].id >= 0; i = (i + 1) & m->mask) {
        struct strref o = refs[m->slots[i].id];
        if (m->slots[i].hash == hash && o.len == r.len &&
            memcmp(arena + o.at, arena + r.at, r.len) == 0)
            break; /* the same text: the later id */
    }
    m->slots[i] = (struct str_slot){hash, id};
}

/* Room for the bytes is made first, so that the text does not move; bytes are no longer than their
 * spelling. */
static enum status set_raw(struct vocab *v, int32_t id)
{
    bool all;
    TRY(text_buf_reserve(&v->arena, v->text[id].len));
    size_t at = v->arena.len;
    TRY(bytes_of_chars(v->arena.data + v->text[id].at, v->text[id].len, &v->arena, &all));
    if (v->arena.len > UINT32_MAX)
        FAIL(ST_RANGE, "the vocabulary has more than 4 GiB of text");
    if (all) {
        v->raw[id] = (struct strref){(uint32_t)at, (uint32_t)(v->arena.len - at)};
    } else {
        v->raw[id] = v->text[id];
        v->flags[id] |= TF_PLAIN;
    }
    return ST_OK;
}

static enum status make_raw(struct vocab *v)
{
    v->raw = calloc(v->cap ? (size_t)v->cap : 1, sizeof *v->raw);
    if (!v->raw)
        FAIL(ST_NOMEM, "no memory for %d tokens", (int)v->n_ids);
    TRY(text_buf_reserve(&v->arena, v->arena.len));
    for (int32_t id = 0; id < v->n_ids; id++)
        if (v->flags[id] & TF_USED)
            TRY(set_raw(v, id));
    return ST_OK;
}

enum status vocab_finish(struct vocab *v, bool byte_level)
{
    v->byte_level = byte_level;
    if (byte_level)
        TRY(make_raw(v));
    TRY(map_init(&v->by_text, (size_t)v->n_model));
    if (byte_level)
        TRY(map_init(&v->by_raw, (size_t)v->n_model));
    for (int32_t id = 0; id < v->n_ids; id++) {
        if (!(v->flags[id] & TF_MODEL))
            continue;
        map_put(&v->by_text, v->arena.data, v->text, id);
        if (byte_level && !(v->flags[id] & TF_PLAIN))
            map_put(&v->by_raw, v->arena.data, v->raw, id);
    }
    return ST_OK;
}

int32_t vocab_find_text(const struct vocab *v, const char *p, size_t n)
{
    return map_find(&v->by_text, v->arena.data, v->text, p, n, str_hash(p, n));
}

int32_t vocab_find_hashed(const struct vocab *v, const char *text, size_t n, uint32_t hash)
{
    return map_find(&v->by_text, v->arena.data, v->text, text, n, hash);
}

int32_t vocab_find_raw(const struct vocab *v, const char *p, size_t n)
{
    return map_find(v->byte_level ? &v->by_raw : &v->by_text, v->arena.data,
                    v->byte_level ? v->raw : v->text, p, n, str_hash(p, n));
}

/* Bytes that are printable in Latin-1 stand for themselves; the other 68 follow from U+0100 on. */
static bool stands_for_itself(uint32_t b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

uint32_t byte_to_char(unsigned char b)
{
    if (stands_for_itself(b))
        return b;
    if (b <= 0x20)
        return 0x100u + b;
    return b == 0xAD ? 0x143 : 0x100u + 33 + (b - 0x7Fu);
}

int char_to_byte(uint32_t cp)
{
    if (stands_for_itself(cp))
        return (int)cp;
    if (cp >= 0x100 && cp <= 0x120)
        return (int)(cp - 0x100);
    if (cp >= 0x121 && cp <= 0x142)
        return (int)(cp - 0x121 + 0x7F);
    return cp == 0x143 ? 0xAD : -1;
}

enum status bytes_of_chars(const char *text, size_t n, struct text_buf *out, bool *all)
{
    size_t len, was = out->len;
    TRY(text_buf_reserve(out, n));
    for (size_t at = 0; at < n; at += len) {
        int b = char_to_byte(u8_get(text + at, &len));
        if (b < 0) {
            out->len = was;
            *all = false;
            return ST_OK;
        }
        out->data[out->len++] = (char)b;
    }
    *all = true;
    return ST_OK;
}

enum status merge_map_init(struct merge_map *m, size_t n)
{
    size_t slots = 16;
    while (slots < n * 2)
        slots *= 2;
    if (slots > (size_t)1 << 28)
        FAIL(ST_RANGE, "%zu merges are too many", n);
    m->slots = malloc(slots * sizeof *m->slots);
    if (!m->slots)
        FAIL(ST_NOMEM, "no memory for %zu merges", n);
    memset(m->slots, 0xFF, slots * sizeof *m->slots);
    m->mask = (uint32_t)(slots - 1);
    m->n = 0;
    return ST_OK;
}

void merge_map_fini(struct merge_map *m)
{
    free(m->slots);
    *m = (struct merge_map){0};
}

void merge_map_put(struct merge_map *m, struct merge e)
{
    uint32_t i = merge_hash(e.left, e.right) & m->mask;
    while (m->slots[i].left >= 0 && (m->slots[i].left != e.left || m->slots[i].right != e.right))
        i = (i + 1) & m->mask;
    m->slots[i] = e;
    m->n++;
}
