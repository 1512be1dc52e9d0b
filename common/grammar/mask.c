#include "common/grammar/mask.h"

#include <stdlib.h>
#include <string.h>

struct mask_cache {
    uint32_t generation; /* of the machine whose states these are */
    uint32_t n_words;
    uint32_t n, cap;    /* masks */
    uint32_t next;      /* the one that is replaced next, when all are used */
    uint32_t *words;    /* [cap][n_words] */
    uint32_t *state_of; /* [cap] */
    uint32_t *slot_of;  /* [cap_states] its mask + 1, 0: none */
    uint32_t cap_states;
    uint32_t plain;  /* expression of a plain character */
    uint32_t *spare; /* [n_words] */
    uint64_t work;   /* of the mask that is made */
};

enum status mask_cache_create(struct mask_cache **out, uint32_t plain)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        FAIL(ST_NOMEM, "no memory for masks");
    (*out)->plain = plain;
    return ST_OK;
}

void mask_cache_shrink(struct mask_cache *c)
{
    free(c->words);
    free(c->state_of);
    free(c->slot_of);
    free(c->spare);
    *c = (struct mask_cache){.generation = c->generation, .plain = c->plain};
}

void mask_cache_destroy(struct mask_cache *c)
{
    if (!c)
        return;
    mask_cache_shrink(c);
    free(c);
}

size_t mask_cache_bytes(const struct mask_cache *c)
{
    return ((size_t)c->cap + 1) * c->n_words * sizeof *c->words + c->cap * sizeof *c->state_of +
           c->cap_states * sizeof *c->slot_of;
}

/* ---- walking ---- */

static void set_token(uint32_t *mask, const struct token_trie *trie, int32_t token)
{
    for (; token >= 0; token = trie->same[token])
        mask[token / 32] |= 1U << (token % 32);
}

static void set_rest(uint32_t *mask, const struct token_trie *trie, const uint32_t *first,
                     int32_t rest)
{
    for (uint32_t i = first[rest]; i < first[rest + 1]; i++)
        mask[trie->rest_tokens[i] / 32] |= 1U << (trie->rest_tokens[i] % 32);
}

/* Walks a trie along with the machine: what a dead state is reached by is skipped with all that begins so.  first: of a trie of
 * rests, NULL: it has tokens.  Ends early when the machine is full or the work too much. */
static void walk(struct mask_cache *c, struct machine *m, const struct token_trie *trie,
                 const struct trie *t, uint32_t state, const uint32_t *first, uint32_t *mask)
{
    uint32_t states[TRIE_MAX_TOKEN_BYTES + 1]; /* by depth */
    const uint8_t *classes = expr_classes(machine_exprs(m));
    states[0] = state;
    for (uint32_t i = 0; i < t->n;) {
        const struct trie_node *node = &t->nodes[i];
        uint32_t from = states[node->depth - 1];
        uint32_t class_id = classes[node->byte], to = machine_row(m, from)[class_id];
        if (to >= MACHINE_HEAVY) { /* or unknown */
            to = machine_next(m, from, node->byte);
            if (machine_full(m))
                return;
            if (machine_row(m, from)[class_id] & MACHINE_HEAVY)
                c->work += machine_work(m, from, node->byte);
            if (c->work > MASK_MAX_WORK)
                return;
        }
        if (to == MACHINE_DEAD) {
            i += node->skip;
            continue;
        }
        states[node->depth] = to;
        if (node->token >= 0) {
            if (first)
                set_rest(mask, trie, first, node->token);
            else
                set_token(mask, trie, node->token);
        }
        i++;
    }
}

/* ---- states inside strings ---- */

/* If the state is one expression C{min,n} x, C containing the plain characters and x beginning with none of them: n, and
 * *min; else 0.  Then each plain character leads to the same state, whatever the stacks are. */
static uint32_t string_run(struct machine *m, uint32_t state, uint32_t plain, uint32_t *min)
{
    uint32_t n;
    const struct machine_pair *pairs = machine_pairs(m, state, &n);
    *min = 0;
    return n == 1 ? expr_string_run(machine_exprs(m), pairs[0].expr, plain, min) : 0;
}

/* The rests behind each number of plain characters, walked from the state that these lead to. */
static void walk_counted(struct mask_cache *c, struct machine *m, const struct token_trie *trie,
                         uint32_t state, uint32_t n, uint32_t *mask)
{
    for (uint32_t k = 0; state != MACHINE_DEAD; k++) {
        walk(c, m, trie, &trie->rests_after[k], state, trie->part_first, mask);
        if (k == n || machine_full(m) || mask_too_dear(c))
            return;
        state = machine_next(m, state, 'a');
    }
}

/* Are all texts of plain characters, up to SLICE_CHARS of them, beginnings of what may follow? */
static bool takes_plain(struct machine *m, uint32_t state, uint32_t plain)
{
    uint32_t n;
    const struct machine_pair *pairs = machine_pairs(m, state, &n);
    for (uint32_t i = 0; i < n; i++)
        if (expr_free_run(machine_exprs(m), pairs[i].expr, plain) > SLICE_CHARS)
            return true;
    return false;
}

static void make_mask(struct mask_cache *c, struct machine *m, const struct token_trie *trie,
                      uint32_t state, uint32_t *mask)
{
    c->work = 0;
    machine_begin_work(m);
    uint32_t min, run = string_run(m, state, c->plain, &min);
    uint32_t n = run < SLICE_CHARS ? run : SLICE_CHARS;
    if (run > 0) {
        memcpy(mask, token_trie_plain(trie, n), trie->n_words * sizeof *mask);
        if (min == 0 && run > 2 * SLICE_CHARS) /* too far from a bound to tell the states apart */
            walk(c, m, trie, &trie->rests, state, trie->rest_first, mask);
        else
            walk_counted(c, m, trie, state, n, mask);
        walk(c, m, trie, &trie->others, state, NULL, mask);
        return;
    }
    if (takes_plain(m, state, c->plain)) {
        memcpy(mask, token_trie_plain(trie, SLICE_CHARS), trie->n_words * sizeof *mask);
        walk(c, m, trie, &trie->unplain, state, NULL, mask);
        return;
    }
    memset(mask, 0, trie->n_words * sizeof *mask);
    walk(c, m, trie, &trie->all, state, NULL, mask);
}

/* ---- the cache ---- */

static bool take_memory(struct mask_cache *c, const struct machine *m,
                        const struct token_trie *trie)
{
    if (c->n_words == 0) {
        c->n_words = trie->n_words;
        c->spare = malloc(trie->n_words * sizeof *c->spare);
    }
    uint32_t n_states = machine_n_states(m);
    if (n_states > c->cap_states) {
        uint32_t cap = c->cap_states ? c->cap_states : 256;
        while (cap < n_states)
            cap *= 2;
        uint32_t *slot_of = realloc(c->slot_of, cap * sizeof *slot_of);
        if (!slot_of)
            return false;
        memset(slot_of + c->cap_states, 0, (cap - c->cap_states) * sizeof *slot_of);
        c->slot_of = slot_of;
        c->cap_states = cap;
    }
    return c->spare != NULL;
}

static void forget(struct mask_cache *c, const struct machine *m)
{
    if (c->slot_of)
        memset(c->slot_of, 0, c->cap_states * sizeof *c->slot_of);
    c->n = c->next = 0;
    c->generation = machine_generation(m);
}

/* Room for one more mask, in place of the oldest when the cache is full; NULL: no memory. */
static uint32_t *take_slot(struct mask_cache *c, uint32_t state)
{
    size_t most = MASK_CACHE_BYTES / (c->n_words * sizeof *c->words);
    most = most < 8 ? 8 : most;
    if (c->n == c->cap && c->cap < most) {
        uint32_t cap = c->cap ? 2 * c->cap : 8;
        cap = cap > most ? (uint32_t)most : cap;
        uint32_t *words = realloc(c->words, (size_t)cap * c->n_words * sizeof *words);
        c->words = words ? words : c->words;
        uint32_t *state_of = words ? realloc(c->state_of, cap * sizeof *state_of) : NULL;
        if (!state_of)
            return NULL;
        c->state_of = state_of;
        c->cap = cap;
    }
    uint32_t slot = c->n < c->cap ? c->n : c->next++ % c->cap;
    if (slot == c->n)
        c->n++;
    else
        c->slot_of[c->state_of[slot]] = 0;
    c->state_of[slot] = state;
    c->slot_of[state] = slot + 1;
    return c->words + (size_t)slot * c->n_words;
}

bool mask_too_dear(const struct mask_cache *c)
{
    return c->work > MASK_MAX_WORK;
}

const uint32_t *mask_of(struct mask_cache *c, struct machine *m, const struct token_trie *trie,
                        uint32_t state, bool *hit)
{
    if (c->generation != machine_generation(m))
        forget(c, m);
    state = machine_far(m, state, trie->most_bytes);
    *hit = state < c->cap_states && c->slot_of[state];
    c->work = 0;
    if (*hit)
        return c->words + (size_t)(c->slot_of[state] - 1) * c->n_words;
    if (!take_memory(c, m, trie))
        return NULL;
    make_mask(c, m, trie, state, c->spare);
    if (machine_full(m) || machine_no_memory(m) || mask_too_dear(c))
        return c->spare;
    uint32_t *words = take_memory(c, m, trie) ? take_slot(c, state) : NULL;
    if (!words)
        return c->spare;
    memcpy(words, c->spare, c->n_words * sizeof *words);
    return words;
}
