#include "common/grammar/expr_lengths.h"

#include <stdlib.h>
#include <string.h>

#include "common/grammar/expr_impl.h"
#include "common/grammar/growing.h"
#include "common/hash.h"

enum {
    MAX_STATES = 2048,
    MAX_CELLS = 1 << 20, /* states times numbers of characters */
    MAX_SETS = 1 << 15,
    MAX_BYTES = 1 << 25, /* of all sets */
    MAX_OPERANDS = 64,   /* of an AND */
    MAX_REST = 6,        /* parts of the rest of a character */
};

enum { NO_LENGTHS = 0, UNDER_WAY = UINT16_MAX }; /* of a node */

/* ---- operands that count ---- */

/* r U{lo,hi}: r is what remains of a character, EXPR_EMPTY at its border. */
struct counted {
    uint32_t rest, unit, lo, hi;
};

/* Characters are prefix codes, as are the rests of one, so a text has one number of them. */
static bool is_unit(const struct expr_pool *p, uint32_t e)
{
    return e != EXPR_NONE && (e == p->kept[EXPR_ANY_PLAIN] || e == p->kept[EXPR_ANY_JSON]);
}

static uint32_t limits(struct expr_pool *p, struct counted c, uint32_t lo, uint32_t hi)
{
    return expr_concat(p, c.rest, expr_repeat(p, c.unit, lo, hi));
}

/* Notes what can remain of a character. */
static void mark_rests(struct expr_pool *p, uint32_t unit)
{
    uint32_t list[64], n = 0;
    list[n++] = unit;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < p->n_classes; c++) {
            uint32_t d = expr_derive(p, list[i], c);
            if (d == EXPR_NONE || d == EXPR_EMPTY || p->nodes[d].is_rest || n == ARRAY_LEN(list))
                continue;
            p->nodes[d].is_rest = true;
            list[n++] = d;
        }
}

static bool counts(struct expr_pool *p, uint32_t e, struct counted *c)
{
    uint32_t parts[MAX_REST], n = 0;
    for (; p->nodes[e].kind == EK_CONCAT && n < MAX_REST; e = expr_operands(p, e)[1])
        parts[n++] = expr_operands(p, e)[0];
    if (p->nodes[e].kind != EK_REPEAT || !is_unit(p, expr_operands(p, e)[0]))
        return false;
    const uint32_t *w = expr_operands(p, e);
    *c = (struct counted){.rest = EXPR_EMPTY, .unit = w[0], .lo = w[1], .hi = w[2]};
    while (n > 0)
        c->rest = expr_concat(p, parts[--n], c->rest);
    return c->rest == EXPR_EMPTY || p->nodes[c->rest].is_rest;
}

static bool bounded(struct counted c)
{
    return c.lo > 0 || c.hi != EXPR_NO_LIMIT;
}

/* The operands of an AND but the i-th, as one expression. */
static uint32_t others(struct expr_pool *p, uint32_t e, uint32_t i)
{
    uint32_t list[MAX_OPERANDS], n = p->nodes[e].n_words;
    memcpy(list, expr_operands(p, e), n * sizeof *list);
    list[i] = list[n - 1];
    return expr_and(p, list, n - 1);
}

/* Of an AND: how many operands count with bounds; the last of these. */
static uint32_t find_counted(struct expr_pool *p, uint32_t e, uint32_t *which, struct counted *c)
{
    uint32_t found = 0;
    if (p->nodes[e].kind != EK_AND || p->nodes[e].n_words > MAX_OPERANDS)
        return 0;
    for (uint32_t i = 0; i < p->nodes[e].n_words; i++) {
        struct counted x;
        if (!counts(p, expr_operands(p, e)[i], &x) || !bounded(x))
            continue;
        *which = i;
        *c = x;
        found++;
    }
    return found;
}

bool lengths_counted(struct expr_pool *p, uint32_t e)
{
    uint32_t which;
    struct counted c;
    return find_counted(p, e, &which, &c) > 0;
}

/* ---- the automaton of x and U{0,} ---- */

struct state {
    uint32_t x, t;              /* t: U{0,} or the rest of a character and U{0,} */
    uint32_t both;              /* AND(x, t) */
    uint32_t same;              /* another state with this AND; UINT32_MAX: none */
    uint32_t before, before_at; /* its lengths until now */
    bool border;                /* of characters: the next byte begins one */
};

struct edge {
    uint32_t from, to;
};

struct numbers {
    struct expr_pool *p;
    struct counted c;
    struct state *states;
    struct edge *edges;
    uint8_t *ends;    /* [rows][n_states] can state i reach its end with k characters? */
    uint64_t *hashes; /* [rows] */
    uint32_t n_states, cap_states, n_edges, cap_edges, cap_ends, cap_hashes;
    bool possible;
};

/* The index of the state, found or added, unless it is not possible. */
static enum status state_of(struct numbers *m, uint32_t x, uint32_t t, uint32_t *index)
{
    struct expr_pool *p = m->p;
    struct counted c;
    uint32_t both = expr_and2(p, x, t), which;
    TRY(p->status);
    uint32_t same = p->nodes[both].lengths == UNDER_WAY ? p->nodes[both].lengths_at : UINT32_MAX;
    for (uint32_t i = same; i != UINT32_MAX; i = m->states[i].same) {
        *index = i;
        if (m->states[i].x == x && m->states[i].t == t)
            return ST_OK;
        m->possible = m->possible && m->states[i].t == t;
    }
    work_spend(p->work, 1);
    /* a second number in x would merge with the first one where they are equal */
    m->possible = m->possible && m->n_states < MAX_STATES && find_counted(p, both, &which, &c) == 0;
    if (!m->possible)
        return p->status;
    TRY(GROW(&m->states, &m->cap_states, (size_t)m->n_states + 1, MAX_STATES,
             "the states of a pattern"));
    bool border = t == expr_repeat(p, m->c.unit, 0, EXPR_NO_LIMIT);
    m->states[m->n_states] = (struct state){.x = x,
                                            .t = t,
                                            .both = both,
                                            .same = same,
                                            .border = border,
                                            .before = p->nodes[both].lengths,
                                            .before_at = p->nodes[both].lengths_at};
    p->nodes[both].lengths = UNDER_WAY;
    p->nodes[both].lengths_at = *index = m->n_states++;
    return p->status;
}

static enum status explore_states(struct numbers *m)
{
    struct expr_pool *p = m->p;
    for (uint32_t i = 0; i < m->n_states && m->possible; i++) {
        uint32_t first = m->n_edges;
        for (uint32_t c = 0; c < p->n_classes && m->possible; c++) {
            uint32_t x = expr_derive(p, m->states[i].x, c), t = expr_derive(p, m->states[i].t, c);
            uint32_t to, k = first;
            TRY(p->status);
            if (x == EXPR_NONE || t == EXPR_NONE)
                continue;
            TRY(state_of(m, x, t, &to));
            while (k < m->n_edges && m->edges[k].to != to)
                k++;
            if (k < m->n_edges || !m->possible)
                continue;
            TRY(GROW(&m->edges, &m->cap_edges, (size_t)m->n_edges + 1, MAX_STATES * 256,
                     "the transitions of a pattern"));
            m->edges[m->n_edges++] = (struct edge){i, to};
        }
        TRY(work_check(p->work));
    }
    return ST_OK;
}

/* ---- with how many characters each state can reach its end ---- */

/* Row k from row k - 1: a character that begins takes one; the rest of one takes none. */
static void next_row(struct numbers *m, uint32_t k)
{
    uint8_t *row = m->ends + (size_t)k * m->n_states;
    const uint8_t *before = k ? row - m->n_states : NULL;
    for (uint32_t i = 0; i < m->n_states; i++)
        row[i] = k == 0 && m->p->nodes[m->states[i].both].nullable;
    for (uint32_t e = 0; before && e < m->n_edges; e++)
        if (m->states[m->edges[e].from].border)
            row[m->edges[e].from] |= before[m->edges[e].to];
    for (bool changed = true; changed;) {
        changed = false;
        work_spend(m->p->work, 1 + m->n_edges / 8);
        for (uint32_t e = 0; e < m->n_edges; e++) {
            struct edge at = m->edges[e];
            if (m->states[at.from].border || row[at.from] || !row[at.to])
                continue;
            row[at.from] = 1;
            changed = true;
        }
    }
}

/* The row that equals row k, or k. */
static uint32_t same_row(const struct numbers *m, uint32_t k)
{
    size_t n = m->n_states;
    for (uint32_t i = 0; i < k; i++)
        if (m->hashes[i] == m->hashes[k] && memcmp(m->ends + i * n, m->ends + k * n, n) == 0)
            return i;
    return k;
}

static enum status find_rows(struct numbers *m, uint32_t *start, uint32_t *period)
{
    struct expr_pool *p = m->p;
    uint32_t n = m->n_states;
    for (uint32_t k = 0;; k++) {
        if ((size_t)(k + 1) * n > MAX_CELLS ||
            (size_t)(k + 1) * n * sizeof(uint32_t) + p->lengths_bytes > MAX_BYTES) {
            m->possible = false;
            return ST_OK;
        }
        TRY(GROW(&m->ends, &m->cap_ends, (size_t)(k + 1) * n, MAX_CELLS,
                 "the lengths of a pattern"));
        TRY(GROW(&m->hashes, &m->cap_hashes, (size_t)k + 1, MAX_CELLS, "the lengths of a pattern"));
        next_row(m, k);
        m->hashes[k] = hash_bytes(0, m->ends + (size_t)k * n, n);
        work_spend(p->work, 1 + (n + k) / 16);
        TRY(work_check(p->work));
        *start = same_row(m, k);
        *period = k - *start;
        if (*period)
            return ST_OK;
    }
}

static enum status keep(struct numbers *m, uint32_t start, uint32_t period)
{
    struct expr_pool *p = m->p;
    uint32_t n = m->n_states, rows = start + period;
    TRY(GROW(&p->lengths, &p->cap_lengths, (size_t)p->n_lengths + 1, MAX_SETS,
             "the lengths of a grammar's patterns"));
    uint32_t most = 0, *dist = malloc((size_t)rows * n * sizeof *dist);
    if (!dist)
        FAIL(ST_NOMEM, "no memory for the lengths of a pattern");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t next = UINT32_MAX;
        for (uint32_t k = rows + period; k-- > 0;) {
            uint32_t folded = k < rows ? k : k - period;
            if (m->ends[(size_t)folded * n + i])
                next = k;
            if (k < rows)
                dist[(size_t)k * n + i] = next == UINT32_MAX ? next : next - k;
            if (k < rows && next != UINT32_MAX && next - k > most)
                most = next - k;
        }
    }
    p->lengths[p->n_lengths++] = (struct expr_lengths){dist, n, start, period, most};
    p->lengths_bytes += (size_t)rows * n * sizeof *dist;
    work_spend(p->work, (size_t)rows * n / 8);
    for (uint32_t i = 0; i < n; i++) {
        p->nodes[m->states[i].both].lengths = p->n_lengths;
        p->nodes[m->states[i].both].lengths_at = i;
    }
    return ST_OK;
}

/* The states in which exactly one more character must begin, and with them those in which none may. */
static enum status explore_last(struct numbers *m, enum status (*explore)(void *, uint32_t),
                                void *ctx)
{
    struct expr_pool *p = m->p;
    for (uint32_t i = 0; i < m->n_states; i++) {
        struct counted c;
        if (!counts(p, m->states[i].t, &c)) {
            m->possible = false;
            return ST_OK;
        }
        uint32_t e = expr_and2(p, m->states[i].x, limits(p, c, 1, 1));
        TRY(p->status);
        TRY(explore(ctx, e));
    }
    return ST_OK;
}

enum status lengths_find(struct expr_pool *p, uint32_t e,
                         enum status (*explore)(void *ctx, uint32_t e), void *ctx, bool *done)
{
    struct numbers m = {.p = p, .possible = true};
    uint32_t which, first, start = 0, period = 0;
    *done = false;
    mark_rests(p, p->kept[EXPR_ANY_PLAIN]);
    mark_rests(p, p->kept[EXPR_ANY_JSON]);
    TRY(p->status);
    if (find_counted(p, e, &which, &m.c) != 1)
        return p->status;
    uint32_t t = limits(p, m.c, 0, EXPR_NO_LIMIT), x = others(p, e, which);
    uint32_t both = expr_and2(p, x, t);
    TRY(p->status);
    if (p->nodes[both].lengths != NO_LENGTHS) {
        *done = true;
        return ST_OK;
    }
    enum status st = state_of(&m, x, t, &first);
    if (st == ST_OK)
        st = explore_states(&m);
    if (st == ST_OK && m.possible)
        st = find_rows(&m, &start, &period);
    if (st == ST_OK && m.possible)
        st = explore_last(&m, explore, ctx);
    if (st == ST_OK && m.possible)
        st = keep(&m, start, period);
    *done = st == ST_OK && m.possible;
    for (uint32_t i = m.n_states; i-- > 0 && !*done;) {
        p->nodes[m.states[i].both].lengths = m.states[i].before;
        p->nodes[m.states[i].both].lengths_at = m.states[i].before_at;
    }
    free(m.states);
    free(m.edges);
    free(m.ends);
    free(m.hashes);
    return st;
}

/* ---- asking ---- */

static bool none_of(const struct expr_lengths *l, uint32_t i, uint32_t lo, uint32_t hi)
{
    uint32_t k = lo < l->start ? lo : l->start + (lo - l->start) % l->period;
    uint32_t dist = l->dist[(size_t)k * l->n + i];
    return dist == UINT32_MAX || (hi != EXPR_NO_LIMIT && dist > hi - lo);
}

/* Of an AND: an operand that counts with bounds, and the lengths without these bounds.  NULL: there is none. */
static const struct expr_lengths *lengths_of(struct expr_pool *p, uint32_t e, uint32_t *which,
                                             struct counted *c, uint32_t *at)
{
    for (uint32_t i = 0; i < p->nodes[e].n_words && p->nodes[e].n_words <= MAX_OPERANDS; i++) {
        if (!counts(p, expr_operands(p, e)[i], c) || !bounded(*c))
            continue;
        uint32_t both = expr_and2(p, others(p, e, i), limits(p, *c, 0, EXPR_NO_LIMIT));
        const struct expr_node *n = &p->nodes[both];
        if (n->lengths == NO_LENGTHS)
            continue;
        *which = i;
        *at = n->lengths_at;
        return &p->lengths[n->lengths - 1];
    }
    return NULL;
}

bool lengths_empty(struct expr_pool *p, uint32_t e)
{
    const struct expr_node *n = &p->nodes[e];
    struct counted c;
    uint32_t which, at;
    if (n->lengths != NO_LENGTHS) /* the bounds are behind it */
        return none_of(&p->lengths[n->lengths - 1], n->lengths_at, 0, EXPR_NO_LIMIT);
    const struct expr_lengths *l = lengths_of(p, e, &which, &c, &at);
    return l && none_of(l, at, c.lo, c.hi);
}

uint32_t lengths_far(struct expr_pool *p, uint32_t e, uint32_t most)
{
    struct counted c;
    uint32_t which, at;
    const struct expr_lengths *l = lengths_of(p, e, &which, &c, &at);
    if (!l)
        return e;
    uint64_t later = (uint64_t)(c.lo > most ? c.lo : most) + l->most;
    uint32_t hi = c.hi, lo = c.lo, first = l->start + most + 1;
    if (hi != EXPR_NO_LIMIT && hi >= later) /* whatever the end is, it comes before the bound */
        hi = EXPR_NO_LIMIT;
    if (lo > first) /* the numbers repeat from start on */
        lo = first + (lo - first) % l->period;
    if (hi != EXPR_NO_LIMIT)
        hi -= c.lo - lo;
    if (hi == c.hi && lo == c.lo)
        return e;
    return expr_and2(p, others(p, e, which), limits(p, c, lo, hi));
}
