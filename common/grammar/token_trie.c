#include "common/grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

/* A text and what is at its end. */
struct item {
    const uint8_t *p;
    uint32_t n;
    int32_t id;
};

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    if (c == 0)
        c = (x->n > y->n) - (x->n < y->n);
    return c ? c : (x->id > y->id) - (x->id < y->id);
}

static uint32_t common_bytes(const struct item *a, const struct item *b)
{
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->p[n] == b->p[n])
        n++;
    return n;
}

/* Of sorted items; equal texts share a node, which has the first one's id. */
static enum status trie_build(struct trie *t, const struct item *items, uint32_t n)
{
    size_t n_nodes = 0, used = 0;
    uint32_t path[TRIE_MAX_TOKEN_BYTES + 1]; /* nodes from the root */
    for (uint32_t i = 0; i < n; i++)
        n_nodes += items[i].n - (i ? common_bytes(&items[i - 1], &items[i]) : 0);
    if (n_nodes > UINT32_MAX / 2)
        FAIL(ST_RANGE, "a vocabulary of more than %u bytes", UINT32_MAX / 2);
    t->nodes = malloc((n_nodes + 1) * sizeof *t->nodes);
    if (!t->nodes)
        FAIL(ST_NOMEM, "no memory for %zu nodes of a vocabulary", n_nodes);
    uint32_t depth = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t shared = i ? common_bytes(&items[i - 1], &items[i]) : 0;
        for (; depth > shared; depth--)
            t->nodes[path[depth - 1]].skip = (uint32_t)used - path[depth - 1];
        for (; depth < items[i].n; depth++) {
            path[depth] = (uint32_t)used;
            t->nodes[used++] = (struct trie_node){
                .token = -1, .byte = items[i].p[depth], .depth = (uint16_t)(depth + 1)};
        }
        if (i == 0 || items[i].n != shared || items[i - 1].n != shared)
            t->nodes[path[depth - 1]].token = items[i].id;
    }
    for (; depth > 0; depth--)
        t->nodes[path[depth - 1]].skip = (uint32_t)used - path[depth - 1];
    t->n = (uint32_t)used;
    return ST_OK;
}

/* ---- the plain part of a token ---- */

/* Bytes of the longest beginning of whole plain characters, at most SLICE_CHARS; *more: another would follow. */
static uint32_t plain_bytes(const uint8_t *p, uint32_t n, bool *more)
{
    uint32_t at = 0, chars = 0;
    *more = false;
    while (at < n) {
        uint32_t len = 1;
        if (p[at] < 0x20 || p[at] == '"' || p[at] == '\\' || p[at] == 0x7f ||
            (p[at] >= 0x80 && p[at] < 0xc2) || p[at] > 0xf4)
            break;
        if (p[at] >= 0x80)
            len = p[at] < 0xe0 ? 2 : p[at] < 0xf0 ? 3 : 4;
        bool whole = n - at >= len;
        for (uint32_t i = 1; whole && i < len; i++) {
            uint8_t lo = 0x80, hi = 0xbf;
            if (i == 1) {
                lo = p[at] == 0xe0 ? 0xa0 : p[at] == 0xf0 ? 0x90 : lo;
                hi = p[at] == 0xed ? 0x9f : p[at] == 0xf4 ? 0x8f : hi;
            }
            whole = p[at + i] >= lo && p[at + i] <= hi;
        }
        if (!whole)
            break;
        if (chars++ == SLICE_CHARS) {
            *more = true;
            break;
        }
        at += len;
    }
    return at;
}

/* ---- life ---- */

static enum status copy_bytes(struct token_trie *t, const uint8_t *const *bytes, const uint32_t *n)
{
    size_t all = 0;
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        if (n[i] > TRIE_MAX_TOKEN_BYTES)
            FAIL(ST_RANGE, "token %u has %u bytes, more than %d", i, n[i], TRIE_MAX_TOKEN_BYTES);
        all += n[i];
        t->most_bytes = n[i] > t->most_bytes ? n[i] : t->most_bytes;
    }
    if (all > UINT32_MAX / 2)
        FAIL(ST_RANGE, "a vocabulary of %zu bytes", all);
    t->bytes = malloc(all + 1);
    t->off = calloc((size_t)t->n_tokens + 1, sizeof *t->off);
    t->same = malloc(((size_t)t->n_tokens + 1) * sizeof *t->same);
    t->plain = calloc((size_t)t->n_words + 1, sizeof *t->plain);
    if (!t->bytes || !t->off || !t->same || !t->plain)
        FAIL(ST_NOMEM, "no memory for a vocabulary of %zu bytes", all);
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        if (n[i])
            memcpy(t->bytes + t->off[i], bytes[i], n[i]);
        t->off[i + 1] = t->off[i] + n[i];
        t->same[i] = -1;
    }
    return ST_OK;
}

/* Fills items with the tokens that have bytes. */
static uint32_t list_tokens(const struct token_trie *t, struct item *items)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_tokens; i++)
        if (t->off[i + 1] > t->off[i])
            items[n++] = (struct item){t->bytes + t->off[i], t->off[i + 1] - t->off[i], (int32_t)i};
    return n;
}

static void link_same(struct token_trie *t, const struct item *items, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (items[i].n == items[i - 1].n && common_bytes(&items[i], &items[i - 1]) == items[i].n)
            t->same[items[i - 1].id] = items[i].id;
}

/* Sorts the rests and makes their trie. */
static enum status build_rests(struct token_trie *t, struct item *rests, uint32_t n)
{
    qsort(rests, n, sizeof *rests, compare_items);
    t->rest_first = calloc((size_t)n + 2, sizeof *t->rest_first);
    t->rest_tokens = calloc((size_t)n + 1, sizeof *t->rest_tokens);
    if (!t->rest_first || !t->rest_tokens)
        FAIL(ST_NOMEM, "no memory for %u tokens", n);
    for (uint32_t i = 0; i < n; i++) {
        bool again = i && rests[i].n == rests[i - 1].n &&
                     common_bytes(&rests[i], &rests[i - 1]) == rests[i].n;
        t->n_rests += !again;
        t->rest_first[t->n_rests] = i + 1;
        t->rest_tokens[i] = rests[i].id;
    }
    for (uint32_t i = 0, r = 0; i < n; i++) { /* from here on the ids are those of rests */
        r += i == t->rest_first[r + 1];
        rests[i].id = (int32_t)r;
    }
    return trie_build(&t->rests, rests, n);
}

/* Divides the sorted tokens into plain ones, those with a plain part and a rest, and others. */
static enum status slice(struct token_trie *t, struct item *items, uint32_t n, struct item *rests)
{
    uint32_t n_others = 0, n_rests = 0, n_unplain = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool more;
        uint32_t plain = plain_bytes(items[i].p, items[i].n, &more);
        bool whole = plain == items[i].n;
        if (whole)
            t->plain[items[i].id / 32] |= 1U << (items[i].id % 32);
        else
            items[n_unplain++] = items[i];
        if (!more && !whole && items[i].n - plain <= SLICE_CHARS)
            rests[n_rests++] = (struct item){items[i].p + plain, items[i].n - plain, items[i].id};
    }
    TRY(trie_build(&t->unplain, items, n_unplain));
    for (uint32_t i = 0; i < n_unplain; i++) {
        bool more;
        uint32_t plain = plain_bytes(items[i].p, items[i].n, &more);
        if (more || items[i].n - plain > SLICE_CHARS)
            items[n_others++] = items[i];
    }
    TRY(trie_build(&t->others, items, n_others));
    return build_rests(t, rests, n_rests);
}

static enum status build(struct token_trie *t, const uint8_t *const *bytes, const uint32_t *lengths)
{
    TRY(copy_bytes(t, bytes, lengths));
    struct item *items = malloc(((size_t)t->n_tokens + 1) * sizeof *items);
    struct item *rests = malloc(((size_t)t->n_tokens + 1) * sizeof *rests);
    enum status st = items && rests ? ST_OK : ST_NOMEM;
    if (st == ST_OK) {
        uint32_t n = list_tokens(t, items);
        qsort(items, n, sizeof *items, compare_items);
        link_same(t, items, n);
        st = trie_build(&t->all, items, n);
        if (st == ST_OK)
            st = slice(t, items, n, rests);
    }
    free(items);
    free(rests);
    return st;
}

enum status token_trie_create(struct token_trie **out, const uint8_t *const *bytes,
                              const uint32_t *n, uint32_t n_tokens)
{
    *out = NULL;
    if (n_tokens == 0 || n_tokens > TRIE_MAX_TOKENS)
        FAIL(ST_RANGE, "a vocabulary of %u tokens", n_tokens);
    struct token_trie *t = calloc(1, sizeof *t);
    if (!t)
        FAIL(ST_NOMEM, "no memory for a vocabulary");
    t->n_tokens = n_tokens;
    t->n_words = (n_tokens + 31) / 32;
    enum status st = build(t, bytes, n);
    if (st != ST_OK) {
        token_trie_destroy(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

void token_trie_destroy(struct token_trie *t)
{
    if (!t)
        return;
    free(t->bytes);
    free(t->off);
    free(t->same);
    free(t->all.nodes);
    free(t->others.nodes);
    free(t->unplain.nodes);
    free(t->rests.nodes);
    free(t->plain);
    free(t->rest_first);
    free(t->rest_tokens);
    free(t);
}
