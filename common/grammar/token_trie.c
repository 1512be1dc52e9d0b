#include "common/grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

/* A text and what is at its end. */
struct item {
    const uint8_t *p;
    uint32_t n, chars; /* chars: of a rest, the plain characters before it */
    int32_t id;
};

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    if (c == 0)
        c = (x->n > y->n) - (x->n < y->n);
    if (c == 0)
        c = (x->chars > y->chars) - (x->chars < y->chars);
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

/* A token's longest beginning of whole plain characters. */
struct plain_part {
    uint32_t bytes, chars; /* at most SLICE_CHARS */
    bool more;             /* another would follow */
};

static struct plain_part plain_part(const struct item *token)
{
    const uint8_t *p = token->p;
    uint32_t n = token->n, at = 0, chars = 0;
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
        if (chars == SLICE_CHARS)
            return (struct plain_part){at, chars, true};
        chars++;
        at += len;
    }
    return (struct plain_part){at, chars, false};
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
    t->plain = calloc((SLICE_CHARS + 1) * (size_t)t->n_words, sizeof *t->plain);
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
            items[n++] =
                (struct item){t->bytes + t->off[i], t->off[i + 1] - t->off[i], 0, (int32_t)i};
    return n;
}

static void link_same(struct token_trie *t, const struct item *items, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (items[i].n == items[i - 1].n && common_bytes(&items[i], &items[i - 1]) == items[i].n)
            t->same[items[i - 1].id] = items[i].id;
}

static bool same_text(const struct item *a, const struct item *b)
{
    return a->n == b->n && common_bytes(a, b) == a->n;
}

/* Tries of the sorted rests behind each number of plain characters; their ids are indices of part_first.  spare: [n] */
static enum status build_parts(struct token_trie *t, const struct item *rests, uint32_t n,
                               struct item *spare)
{
    for (uint32_t chars = 0; chars <= SLICE_CHARS; chars++) {
        uint32_t n_spare = 0;
        for (uint32_t i = 0; i < n; i++)
            if (rests[i].chars == chars)
                spare[n_spare++] = rests[i];
        TRY(trie_build(&t->rests_after[chars], spare, n_spare));
    }
    return ST_OK;
}

/* Sorts the rests and makes their tries. */
static enum status build_rests(struct token_trie *t, struct item *rests, uint32_t n,
                               struct item *spare)
{
    qsort(rests, n, sizeof *rests, compare_items);
    t->rest_first = calloc((size_t)n + 1, sizeof *t->rest_first);
    t->part_first = calloc((size_t)n + 1, sizeof *t->part_first);
    t->rest_tokens = calloc((size_t)n + 1, sizeof *t->rest_tokens);
    if (!t->rest_first || !t->part_first || !t->rest_tokens)
        FAIL(ST_NOMEM, "no memory for %u tokens", n);
    uint32_t n_rests = 0, n_parts = 0;
    for (uint32_t i = 0; i < n; i++) { /* from here on the ids are those of rests */
        n_rests += !i || !same_text(&rests[i], &rests[i - 1]);
        t->rest_first[n_rests] = i + 1;
        t->rest_tokens[i] = rests[i].id;
        rests[i].id = (int32_t)n_rests - 1;
    }
    TRY(trie_build(&t->rests, rests, n));
    for (uint32_t i = 0; i < n; i++) { /* and now of their parts */
        n_parts +=
            !i || rests[i].chars != rests[i - 1].chars || !same_text(&rests[i], &rests[i - 1]);
        t->part_first[n_parts] = i + 1;
        rests[i].id = (int32_t)n_parts - 1;
    }
    return build_parts(t, rests, n, spare);
}

/* Divides the sorted tokens into plain ones, those with a plain part and a rest, and others. */
static enum status slice(struct token_trie *t, struct item *items, uint32_t n, struct item *rests)
{
    uint32_t n_others = 0, n_rests = 0, n_unplain = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct plain_part part = plain_part(&items[i]);
        uint32_t rest = items[i].n - part.bytes, id = (uint32_t)items[i].id;
        if (rest == 0)
            for (uint32_t k = part.chars; k <= SLICE_CHARS; k++)
                t->plain[(size_t)k * t->n_words + id / 32] |= 1U << (id % 32);
        else
            items[n_unplain++] = items[i];
        if (!part.more && rest > 0 && rest <= SLICE_CHARS)
            rests[n_rests++] =
                (struct item){items[i].p + part.bytes, rest, part.chars, items[i].id};
    }
    TRY(trie_build(&t->unplain, items, n_unplain));
    for (uint32_t i = 0; i < n_unplain; i++) {
        struct plain_part part = plain_part(&items[i]);
        if (part.more || items[i].n - part.bytes > SLICE_CHARS)
            items[n_others++] = items[i];
    }
    TRY(trie_build(&t->others, items, n_others));
    return build_rests(t, rests, n_rests, items);
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
    for (uint32_t k = 0; k <= SLICE_CHARS; k++)
        free(t->rests_after[k].nodes);
    free(t->plain);
    free(t->rest_first);
    free(t->part_first);
    free(t->rest_tokens);
    free(t);
}
