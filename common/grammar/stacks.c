#include "common/grammar/stacks.h"

#include "common/grammar/growing.h"
#include "common/hash.h"

enum { FIRST_TABLE = 256 };

static uint64_t hash_tops(const struct stack_top *tops, uint32_t n)
{
    return hash_bytes(n, tops, n * sizeof *tops);
}

static enum status grow_table(struct stacks *s)
{
    uint32_t n = s->n_table * 2;
    uint32_t *table = calloc(n, sizeof *table);
    struct stacks_union *unions = calloc(n, sizeof *unions);
    if (!table || !unions) {
        free(table);
        free(unions);
        FAIL(ST_NOMEM, "no memory for a grammar's stacks");
    }
    for (uint32_t i = 0; i < s->n_sets; i++) {
        uint32_t at = (uint32_t)hash_tops(s->tops + s->sets[i].tops, s->sets[i].n) & (n - 1);
        while (table[at])
            at = (at + 1) & (n - 1);
        table[at] = i + 1;
    }
    free(s->table);
    free(s->unions);
    s->table = table;
    s->unions = unions;
    s->n_table = n;
    return ST_OK;
}

/* Adds the set of the n tops that were appended behind n_tops. */
static enum status add_set(struct stacks *s, uint32_t n, uint32_t slot)
{
    uint32_t depth = 0;
    TRY(GROW(&s->sets, &s->cap_sets, (size_t)s->n_sets + 1, STACKS_MAX, "the stacks of a grammar"));
    for (uint32_t i = 0; i < n; i++) {
        const struct stack_top *t = &s->tops[s->n_tops + i];
        uint32_t d = t->frame.rule == STACK_BOTTOM ? 0 : s->sets[t->below].depth + 1;
        depth = d > depth ? d : depth;
    }
    s->sets[s->n_sets] = (struct stack_set){s->n_tops, n, depth};
    s->n_tops += n;
    s->table[slot] = ++s->n_sets;
    return 2 * s->n_sets >= s->n_table ? grow_table(s) : ST_OK;
}

/* The set of the n tops that were appended behind n_tops, found or made. */
static uint32_t intern(struct stacks *s, uint32_t n)
{
    const struct stack_top *tops = s->tops + s->n_tops;
    uint32_t mask = s->n_table - 1, at = (uint32_t)hash_tops(tops, n) & mask;
    for (; s->table[at]; at = (at + 1) & mask) {
        const struct stack_set *x = &s->sets[s->table[at] - 1];
        if (x->n == n && memcmp(s->tops + x->tops, tops, n * sizeof *tops) == 0)
            return s->table[at] - 1;
    }
    s->status = add_set(s, n, at);
    return s->status == ST_OK ? s->n_sets - 1 : STACKS_NONE;
}

static bool room(struct stacks *s, size_t n)
{
    if (s->status == ST_OK)
        s->status =
            GROW(&s->tops, &s->cap_tops, s->n_tops + n, STACKS_MAX_TOPS, "the stacks of a grammar");
    return s->status == ST_OK;
}

enum status stacks_init(struct stacks *s)
{
    *s = (struct stacks){.n_table = FIRST_TABLE};
    s->table = calloc(FIRST_TABLE, sizeof *s->table);
    s->unions = calloc(FIRST_TABLE, sizeof *s->unions);
    if (!s->table || !s->unions)
        FAIL(ST_NOMEM, "no memory for a grammar's stacks");
    TRY(GROW(&s->sets, &s->cap_sets, 2, STACKS_MAX, "the stacks of a grammar"));
    TRY(GROW(&s->tops, &s->cap_tops, 1, STACKS_MAX_TOPS, "the stacks of a grammar"));
    stacks_clear(s);
    return ST_OK;
}

void stacks_fini(struct stacks *s)
{
    free(s->sets);
    free(s->tops);
    free(s->table);
    free(s->unions);
    *s = (struct stacks){0};
}

void stacks_clear(struct stacks *s)
{
    s->status = ST_OK;
    s->n_sets = s->n_tops = 0;
    memset(s->table, 0, s->n_table * sizeof *s->table);
    memset(s->unions, 0, s->n_table * sizeof *s->unions);
    (void)intern(s, 0); /* STACKS_NONE */
    s->tops[0] = (struct stack_top){{STACK_BOTTOM, 0}, STACKS_NONE};
    (void)intern(s, 1); /* STACKS_BOTTOM */
}

void stacks_shrink(struct stacks *s)
{
    uint32_t *table = calloc(FIRST_TABLE, sizeof *table);
    struct stacks_union *unions = calloc(FIRST_TABLE, sizeof *unions);
    if (!table || !unions) {
        free(table);
        free(unions);
        return;
    }
    free(s->table);
    free(s->unions);
    s->table = table;
    s->unions = unions;
    s->n_table = FIRST_TABLE;
    stacks_clear(s);
    SHRINK(&s->sets, &s->cap_sets, s->n_sets);
    SHRINK(&s->tops, &s->cap_tops, s->n_tops);
}

size_t stacks_bytes(const struct stacks *s)
{
    return s->cap_sets * sizeof *s->sets + s->cap_tops * sizeof *s->tops +
           s->n_table * (sizeof *s->table + sizeof *s->unions);
}

uint32_t stacks_push(struct stacks *s, struct frame frame, uint32_t below)
{
    if (!room(s, 1))
        return STACKS_NONE;
    s->tops[s->n_tops] = (struct stack_top){frame, below};
    return intern(s, 1);
}

static uint64_t frame_key(struct frame f)
{
    return (uint64_t)f.rule << 32 | f.pos;
}

static struct stacks_union *union_at(const struct stacks *s, uint32_t a, uint32_t b)
{
    return &s->unions[hash_mix((uint64_t)a << 32 | b) & (s->n_table - 1)];
}

/* a < b */
static uint32_t make_union(struct stacks *s, uint32_t a, uint32_t b)
{
    uint32_t na = s->sets[a].n, nb = s->sets[b].n, n = 0;
    work_spend(s->work, 8 + na + nb);
    if (work_check(s->work) != ST_OK)
        return a;
    struct stack_top *out = malloc(((size_t)na + nb) * sizeof *out);
    if (!out)
        s->status = ST_NOMEM;
    for (uint32_t i = 0, k = 0; s->status == ST_OK && (i < na || k < nb);) {
        struct stack_top x = {{0, 0}, 0}, y = {{0, 0}, 0}; /* unions below move the tops */
        if (i < na)
            x = s->tops[s->sets[a].tops + i];
        if (k < nb)
            y = s->tops[s->sets[b].tops + k];
        if (k == nb || (i < na && frame_key(x.frame) < frame_key(y.frame))) {
            out[n++] = x;
            i++;
        } else if (i == na || frame_key(y.frame) < frame_key(x.frame)) {
            out[n++] = y;
            k++;
        } else {
            out[n++] = (struct stack_top){x.frame, stacks_union(s, x.below, y.below)};
            i++;
            k++;
        }
    }
    uint32_t set = STACKS_NONE;
    if (s->status == ST_OK && room(s, n)) {
        memcpy(s->tops + s->n_tops, out, n * sizeof *out);
        set = intern(s, n);
    }
    free(out);
    return set;
}

uint32_t stacks_union(struct stacks *s, uint32_t a, uint32_t b)
{
    if (a == b || a == STACKS_NONE || b == STACKS_NONE)
        return a == STACKS_NONE ? b : a;
    if (a > b)
        return stacks_union(s, b, a);
    const struct stacks_union *known = union_at(s, a, b);
    if (known->a == a && known->b == b)
        return known->set;
    uint32_t set = make_union(s, a, b);
    if (s->status == ST_OK && work_check(s->work) == ST_OK)
        *union_at(s, a, b) = (struct stacks_union){a, b, set};
    return set;
}
