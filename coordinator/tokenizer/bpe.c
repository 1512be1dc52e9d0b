/* Byte-pair encoding (Sennrich, Haddow and Birch 2016): the pair of neighbours with the lowest rank
 * is joined, the leftmost first among equals, until none is left.  Short pieces by looking again at
 * every pair, long ones with a heap over a linked list, n log n whatever the text. */
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

#define SHORT_PIECE 24      /* symbols; up to here a scan is faster than a heap */
#define CACHE_SLOTS 4096    /* of one call */
#define CACHE_MIN_TEXT 2048 /* bytes; below, making a cache costs more than it saves */
#define CACHE_BYTES 28      /* of a cached piece at most */
#define CACHE_IDS 8         /* tokens of a cached piece at most */

struct bpe_symbol {
    int32_t id;
    uint32_t len;       /* bytes of the piece; 0: joined into another */
    int32_t prev, next; /* indices; -1: none */
    uint8_t source;     /* enum token_source */
};

struct bpe_pair {
    uint32_t rank;
    int32_t at; /* index of the left symbol */
    int32_t id; /* of the joined token */
};

struct cache_slot {
    uint8_t n_bytes, n_ids; /* n_bytes 0: free */
    char bytes[CACHE_BYTES];
    int32_t ids[CACHE_IDS];
    uint8_t lens[CACHE_IDS], sources[CACHE_IDS];
};

/* ---- first symbols ---- */

static enum status symbols_room(struct work *w, size_t n)
{
    if (n <= w->symbols_cap)
        return ST_OK;
    size_t cap = n + n / 2 + 64;
    struct bpe_symbol *s = realloc(w->symbols, cap * sizeof *s);
    if (!s)
        FAIL(ST_NOMEM, "no memory to tokenize a piece of %zu bytes", n);
    w->symbols = s;
    w->symbols_cap = cap;
    return ST_OK;
}

struct spelling { /* of a piece into first symbols */
    size_t n;
    bool has_unk; /* an unknown token waits for its end */
    uint32_t unk_len;
};

static void add_symbol(struct work *w, struct spelling *sp, int32_t id, size_t len,
                       enum token_source source)
{
    w->symbols[sp->n] =
        (struct bpe_symbol){.id = id, .len = (uint32_t)len, .source = (uint8_t)source};
    sp->n++;
}

static void end_unk(struct work *w, struct spelling *sp)
{
    if (sp->has_unk)
        add_symbol(w, sp, w->t->model.unk, sp->unk_len, TOKEN_UNKNOWN);
    sp->has_unk = false;
}

/* A character that is no token: its bytes, or the unknown token, or (as HuggingFace has it)
 * nothing. */
static void spell_unknown(struct work *w, struct spelling *sp, const char *c, size_t len,
                          size_t cover)
{
    const struct model *m = &w->t->model;
    bool bytes = m->byte_fallback;
    for (size_t i = 0; i < len && bytes; i++)
        bytes = w->t->vocab.byte_id[(unsigned char)c[i]] >= 0;
    if (bytes) {
        for (size_t i = 0; i < len; i++)
            add_symbol(w, sp, w->t->vocab.byte_id[(unsigned char)c[i]], i < cover ? 1 : 0,
                       TOKEN_BYTE);
        return;
    }
    if (m->unk < 0)
        return;
    if (sp->has_unk && !m->fuse_unk)
        end_unk(w, sp);
    sp->unk_len = (sp->has_unk ? sp->unk_len : 0) + (uint32_t)cover;
    sp->has_unk = true;
}

/* p is text, or (byte-level) bytes; affixes make the general case. */
static enum status spell_affixed(struct work *w, const char *p, size_t n, struct spelling *sp)
{
    const struct model *m = &w->t->model;
    struct text_buf s = {0};
    enum status st = ST_OK;
    size_t len;
    for (size_t i = 0; i < n && st == ST_OK; i += len) {
        char c[4];
        size_t k;
        if (w->t->vocab.byte_level) {
            len = 1;
            k = u8_put(c, byte_to_char((unsigned char)p[i]));
        } else {
            u8_get(p + i, &len);
            memcpy(c, p + i, k = len);
        }
        s.len = 0;
        if (i > 0)
            st = text_buf_append(&s, m->prefix.data, m->prefix.len);
        if (st == ST_OK)
            st = text_buf_append(&s, c, k);
        if (st == ST_OK && i + len == n)
            st = text_buf_append(&s, m->suffix.data, m->suffix.len);
        if (st != ST_OK)
            break;
        int32_t id = vocab_find_text(&w->t->vocab, s.data, s.len);
        /* Bytes of the affixes have no place in the text, but each symbol needs a length. */
        if (id >= 0) {
            end_unk(w, sp);
            add_symbol(w, sp, id, len, TOKEN_MODEL);
        } else {
            st = symbols_room(w, sp->n + s.len + (n - i) * 4 + 2);
            if (st == ST_OK)
                spell_unknown(w, sp, s.data, s.len, len);
        }
    }
    text_buf_free(&s);
    return st;
}

static enum status spell(struct work *w, const char *p, size_t n, size_t *n_symbols)
{
    const struct model *m = &w->t->model;
    struct spelling sp = {0};
    size_t len;
    TRY(symbols_room(w, n * 2 + 2));
    if (m->prefix.len || m->suffix.len) {
        TRY(spell_affixed(w, p, n, &sp));
    } else if (w->t->vocab.byte_level) {
        for (size_t i = 0; i < n; i++) {
            int32_t id = m->start[(unsigned char)p[i]];
            if (id >= 0) {
                end_unk(w, &sp);
                add_symbol(w, &sp, id, 1, TOKEN_MODEL);
            } else {
                char c[4];
                spell_unknown(w, &sp, c, u8_put(c, byte_to_char((unsigned char)p[i])), 1);
            }
        }
    } else {
        for (size_t i = 0; i < n; i += len) {
            unsigned char b = (unsigned char)p[i];
            u8_get(p + i, &len);
            int32_t id = b < 0x80 ? m->start[b] : vocab_find_text(&w->t->vocab, p + i, len);
            if (id >= 0) {
                end_unk(w, &sp);
                add_symbol(w, &sp, id, len, TOKEN_MODEL);
            } else {
                spell_unknown(w, &sp, p + i, len, len);
            }
        }
    }
    end_unk(w, &sp);
    *n_symbols = sp.n;
    return ST_OK;
}

/* ---- merging ---- */

/* At most SHORT_PIECE symbols, kept dense; ranks[i] is that of the pair (i, i + 1). */
static size_t merge_short(const struct merge_map *merges, struct bpe_symbol *s, size_t n)
{
    const struct merge *pair[SHORT_PIECE];
    for (size_t i = 0; i + 1 < n; i++)
        pair[i] = merge_find(merges, s[i].id, s[i + 1].id);
    while (n > 1) {
        size_t best = n;
        for (size_t i = 0; i + 1 < n; i++)
            if (pair[i] && (best == n || pair[i]->rank < pair[best]->rank))
                best = i;
        if (best == n)
            break;
        s[best].id = pair[best]->id;
        s[best].len += s[best + 1].len;
        s[best].source = TOKEN_MODEL;
        n--;
        memmove(s + best + 1, s + best + 2, (n - best - 1) * sizeof *s);
        if (best + 1 < n)
            memmove(pair + best + 1, pair + best + 2, (n - best - 2) * sizeof *pair);
        if (best > 0)
            pair[best - 1] = merge_find(merges, s[best - 1].id, s[best].id);
        if (best + 1 < n)
            pair[best] = merge_find(merges, s[best].id, s[best + 1].id);
    }
    return n;
}

static bool before(const struct bpe_pair *a, const struct bpe_pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static enum status heap_push(struct work *w, int32_t at)
{
    const struct bpe_symbol *s = &w->symbols[at];
    const struct merge *m =
        s->next < 0 ? NULL : merge_find(&w->t->model.merges, s->id, w->symbols[s->next].id);
    if (!m)
        return ST_OK;
    if (w->heap_n == w->heap_cap) {
        size_t cap = w->heap_cap ? w->heap_cap * 2 : 256;
        struct bpe_pair *h = realloc(w->heap, cap * sizeof *h);
        if (!h)
            FAIL(ST_NOMEM, "no memory for %zu pairs", cap);
        w->heap = h;
        w->heap_cap = cap;
    }
    struct bpe_pair e = {m->rank, at, m->id};
    size_t i = w->heap_n++;
    for (; i > 0 && before(&e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = e;
    return ST_OK;
}

static struct bpe_pair heap_pop(struct work *w)
{
    struct bpe_pair top = w->heap[0], e = w->heap[--w->heap_n];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < w->heap_n) {
        if (child + 1 < w->heap_n && before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (!before(&w->heap[child], &e))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = e;
    return top;
}

static enum status merge_long(struct work *w, size_t *n_symbols)
{
    struct bpe_symbol *s = w->symbols;
    size_t n = *n_symbols, kept = 0;
    for (size_t i = 0; i < n; i++) {
        s[i].prev = (int32_t)i - 1;
        s[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
    }
    w->heap_n = 0;
    for (size_t i = 0; i + 1 < n; i++)
        TRY(heap_push(w, (int32_t)i));
    while (w->heap_n) {
        struct bpe_pair e = heap_pop(w);
        struct bpe_symbol *a = &s[e.at];
        if (a->id < 0 || a->next < 0)
            continue;
        struct bpe_symbol *b = &s[a->next];
        /* The pair may have changed since it was pushed. */
        const struct merge *m = merge_find(&w->t->model.merges, a->id, b->id);
        if (!m || m->id != e.id)
            continue;
        a->id = e.id;
        a->len += b->len;
        a->source = TOKEN_MODEL;
        b->id = -1;
        a->next = b->next;
        if (a->next >= 0)
            s[a->next].prev = e.at;
        if (a->prev >= 0)
            TRY(heap_push(w, a->prev));
        TRY(heap_push(w, e.at));
    }
    for (size_t i = 0; i < n; i++)
        if (s[i].id >= 0)
            s[kept++] = s[i];
    *n_symbols = kept;
    return ST_OK;
}

static enum status merge_symbols(struct work *w, const char *p, size_t n, size_t *n_symbols)
{
    TRY(spell(w, p, n, n_symbols));
    if (*n_symbols > INT32_MAX)
        FAIL(ST_RANGE, "a piece of %zu bytes is too long", n);
    if (*n_symbols > SHORT_PIECE)
        return merge_long(w, n_symbols);
    *n_symbols = merge_short(&w->t->model.merges, w->symbols, *n_symbols);
    return ST_OK;
}

/* ---- pieces ---- */

static enum status emit_symbols(struct work *w, size_t base, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct bpe_symbol *s = &w->symbols[i];
        TRY(emit(w, s->id, (enum token_source)s->source, base, base + s->len));
        base += s->len;
    }
    return ST_OK;
}

static enum status emit_cached(struct work *w, const struct cache_slot *c, size_t base)
{
    for (size_t i = 0; i < c->n_ids; i++) {
        TRY(emit(w, c->ids[i], (enum token_source)c->sources[i], base, base + c->lens[i]));
        base += c->lens[i];
    }
    return ST_OK;
}

static void cache_put(struct cache_slot *c, const char *p, size_t n, const struct bpe_symbol *s,
                      size_t n_ids)
{
    if (n > CACHE_BYTES || n_ids > CACHE_IDS)
        return;
    c->n_bytes = (uint8_t)n;
    c->n_ids = (uint8_t)n_ids;
    memcpy(c->bytes, p, n);
    for (size_t i = 0; i < n_ids; i++) {
        c->ids[i] = s[i].id;
        c->lens[i] = (uint8_t)s[i].len;
        c->sources[i] = s[i].source;
    }
}

static enum status encode_word(struct work *w, const char *p, size_t n, size_t base)
{
    const struct tokenizer *t = w->t;
    struct cache_slot *c = NULL;
    size_t n_symbols;
    int32_t whole = vocab_find_raw(&t->vocab, p, n);
    if (whole >= 0) {
        if (t->model.ignore_merges ||
            atomic_load_explicit(&t->model.alone[whole], memory_order_relaxed) == ALONE_YES)
            return emit(w, whole, TOKEN_MODEL, base, base + n);
    }
    if (n <= CACHE_BYTES && w->cache) {
        c = &w->cache[str_hash(p, n) & (CACHE_SLOTS - 1)];
        if (c->n_bytes == n && memcmp(c->bytes, p, n) == 0)
            return emit_cached(w, c, base);
    }
    TRY(merge_symbols(w, p, n, &n_symbols));
    /* What a word comes out as depends on its bytes alone, so any thread that notes it notes the
     * same. */
    if (whole >= 0 && n_symbols == 1 && w->symbols[0].id == whole)
        atomic_store_explicit(&t->model.alone[whole], ALONE_YES, memory_order_relaxed);
    else if (c)
        cache_put(c, p, n, w->symbols, n_symbols);
    return emit_symbols(w, base, n_symbols);
}

enum status bpe_encode(struct work *w, const char *p, size_t n)
{
    static const char mark[] = "\xE2\x96\x81"; /* U+2581, the blank of SentencePiece */
    if (!w->cache && w->n >= CACHE_MIN_TEXT) {
        w->cache = calloc(CACHE_SLOTS, sizeof *w->cache);
        if (!w->cache)
            FAIL(ST_NOMEM, "no memory for the piece cache");
    }
    if (!w->t->model.cut_at_blocks || w->t->model.ignore_merges)
        return encode_word(w, p, n, 0);
    /* Cut between another character and a U+2581: no merge reaches over that border. */
    size_t begin = 0, at = 0;
    while (at < n) {
        const char *hit = n - at > 3 ? memchr(p + at + 1, mark[0], n - at - 1) : NULL;
        if (!hit)
            break;
        at = (size_t)(hit - p);
        if (n - at < 3 || memcmp(hit, mark, 3) != 0 ||
            (at >= begin + 3 && memcmp(hit - 3, mark, 3) == 0))
            continue;
        TRY(encode_word(w, p + begin, at - begin, begin));
        begin = at;
    }
    return encode_word(w, p + begin, n - begin, begin);
}

/* True when no merge makes a token with U+2581 behind another character. */
static bool merges_respect_blocks(const struct tokenizer *t)
{
    const struct merge_map *m = &t->model.merges;
    for (size_t i = 0; m->n && i <= m->mask; i++) {
        const struct merge *e = &m->slots[i];
        if (e->left < 0)
            continue;
        if ((t->vocab.flags[e->left] | t->vocab.flags[e->right]) & TF_BYTE)
            return false;
        struct tok_text s = vocab_text(&t->vocab, e->id);
        for (size_t k = 1; k + 2 < s.len; k++)
            if (memcmp(s.data + k, "\xE2\x96\x81", 3) == 0 &&
                (k < 3 || memcmp(s.data + k - 3, "\xE2\x96\x81", 3) != 0))
                return false;
    }
    return true;
}

enum status bpe_prepare(struct tokenizer *t)
{
    struct model *m = &t->model;
    size_t n = t->vocab.n_ids > 0 ? (size_t)t->vocab.n_ids : 1;
    m->alone = calloc(n, sizeof *m->alone);
    if (!m->alone)
        FAIL(ST_NOMEM, "no memory for %zu tokens", n);
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        m->start[b] = t->vocab.byte_level || b < 0x80 ? vocab_find_raw(&t->vocab, &c, 1) : -1;
    }
    /* U+2581 must itself be a token: then an unknown character before it ends there. */
    bool affixes = m->prefix.len || m->suffix.len;
    m->cut_at_blocks = !t->vocab.byte_level && !affixes &&
                       vocab_find_text(&t->vocab, "\xE2\x96\x81", 3) >= 0 &&
                       merges_respect_blocks(t);
    return ST_OK;
}
