/* Which expressions are empty. */
#include "common/grammar/expr_impl.h"
#include "common/grammar/expr_lengths.h"
#include "common/grammar/growing.h"

/* The expressions that can be reached from the first one, and their transitions backwards. */
struct search {
    struct expr_pool *p;
    uint32_t *list, n_list, cap_list; /* expressions, in the order in which they were found */
    uint32_t *from, n_from, cap_from; /* pairs (expression, one of its derivatives) */
};

static enum status search_all(struct search *s, uint32_t e, uint32_t max)
{
    struct expr_pool *p = s->p;
    TRY(GROW(&s->list, &s->cap_list, 1, max, "the states of a pattern"));
    s->list[s->n_list++] = e;
    p->nodes[e].explored = true;
    for (uint32_t i = 0; i < s->n_list; i++)
        for (uint32_t c = 0; c < p->n_classes; c++) {
            uint32_t d = expr_derive(p, s->list[i], c);
            TRY(p->status);
            if (d == EXPR_NONE)
                continue;
            size_t pairs = (size_t)max * 512;
            TRY(GROW(&s->from, &s->cap_from, (size_t)s->n_from + 2, pairs,
                     "the transitions of a pattern"));
            s->from[s->n_from++] = s->list[i];
            s->from[s->n_from++] = d;
            if (p->nodes[d].explored)
                continue;
            TRY(GROW(&s->list, &s->cap_list, (size_t)s->n_list + 1, max,
                     "the states of a pattern"));
            s->list[s->n_list++] = d;
            p->nodes[d].explored = true;
        }
    return ST_OK;
}

/* Marks as empty what does not lead to a nullable expression: sweeps the transitions from the last to the first until
 * nothing changes. */
static void mark_empty(struct search *s)
{
    struct expr_pool *p = s->p;
    bool changed = true;
    for (uint32_t i = 0; i < s->n_list; i++)
        p->nodes[s->list[i]].empty = !p->nodes[s->list[i]].nullable;
    while (changed && work_check(p->work) == ST_OK) {
        changed = false;
        work_spend(p->work, s->n_from / 4);
        for (uint32_t i = s->n_from; i > 0; i -= 2) {
            struct expr_node *to = &p->nodes[s->from[i - 1]], *at = &p->nodes[s->from[i - 2]];
            if (!at->empty || to->empty)
                continue;
            at->empty = false;
            changed = true;
        }
    }
}

static enum status explore_whole(struct expr_pool *p, uint32_t e, uint32_t max_states)
{
    struct search s = {.p = p};
    if (p->nodes[e].explored || !p->nodes[e].has_and)
        return p->status;
    enum status st = search_all(&s, e, max_states);
    if (st == ST_OK)
        mark_empty(&s);
    if (st == ST_OK)
        st = work_check(p->work);
    free(s.list);
    free(s.from);
    return st;
}

/* Is each derivative of e, but for none at all, endless again?  An endless expression without intersections has infinitely
 * many texts. */
static bool endless(const struct expr_pool *p, uint32_t e)
{
    while (p->nodes[e].kind == EK_CONCAT)
        e = expr_operands(p, e)[1];
    if (p->nodes[e].kind == EK_OR) {
        for (uint32_t i = 0; i < p->nodes[e].n_words; i++)
            if (!endless(p, expr_operands(p, e)[i]))
                return false;
        return true;
    }
    return p->nodes[e].kind == EK_REPEAT && expr_operands(p, e)[2] == EXPR_NO_LIMIT;
}

/* Has e infinitely many texts, and so has what can be derived from it, but for none at all?  All but a few of everything, or
 * of an endless expression: the names of members that are no properties. */
static bool never_empty(const struct expr_pool *p, uint32_t e)
{
    uint32_t n_endless = 0;
    if (p->nodes[e].kind != EK_AND)
        return expr_excludes_few(p, e);
    for (uint32_t i = 0; i < p->nodes[e].n_words; i++) {
        uint32_t o = expr_operands(p, e)[i];
        if (!expr_excludes_few(p, o) && (p->nodes[o].has_and || !endless(p, o) || n_endless++))
            return false;
    }
    return true;
}

/* Does e consist, by sequences and alternatives, of parts that are explored one by one?  A repetition that contains an
 * intersection is none.  *simpler: is one of them an intersection with a number of characters, or never empty? */
static bool has_parts(struct expr_pool *p, uint32_t e, bool *simpler)
{
    for (; p->nodes[e].kind == EK_CONCAT; e = expr_operands(p, e)[1])
        if (!has_parts(p, expr_operands(p, e)[0], simpler))
            return false;
    if (!p->nodes[e].has_and)
        return true;
    if (p->nodes[e].kind == EK_OR) {
        for (uint32_t i = 0; i < p->nodes[e].n_words; i++)
            if (!has_parts(p, expr_operands(p, e)[i], simpler))
                return false;
        return true;
    }
    *simpler = *simpler || never_empty(p, e) || lengths_counted(p, e);
    return p->nodes[e].kind != EK_REPEAT;
}

struct limit {
    struct expr_pool *p;
    uint32_t max_states;
};

static enum status explore_in(void *ctx, uint32_t e)
{
    struct limit *l = ctx;
    return explore_whole(l->p, e, l->max_states);
}

static enum status explore_parts(struct limit *l, uint32_t e)
{
    struct expr_pool *p = l->p;
    bool done = false;
    for (; p->nodes[e].kind == EK_CONCAT; e = expr_operands(p, e)[1])
        TRY(explore_parts(l, expr_operands(p, e)[0]));
    if (p->nodes[e].kind == EK_OR) {
        for (uint32_t i = 0; i < p->nodes[e].n_words; i++)
            TRY(explore_parts(l, expr_operands(p, e)[i]));
        return ST_OK;
    }
    if (never_empty(p, e))
        return ST_OK;
    if (lengths_counted(p, e))
        TRY(lengths_find(p, e, explore_in, l, &done));
    return done ? ST_OK : explore_in(l, e);
}

enum status expr_explore(struct expr_pool *p, uint32_t e, uint32_t max_states, bool *empty)
{
    struct limit l = {p, max_states};
    bool simpler = false;
    enum status st = p->status;
    if (st == ST_OK && !p->nodes[e].explored) {
        bool parts = has_parts(p, e, &simpler) && simpler;
        st = parts ? explore_parts(&l, e) : explore_whole(p, e, max_states);
        p->base_nodes = p->n_nodes;
        p->base_words = p->n_words;
    }
    *empty = expr_known_empty(p, e);
    return st;
}

static bool find_empty(struct expr_pool *p, uint32_t e)
{
    for (; p->nodes[e].kind == EK_CONCAT; e = expr_operands(p, e)[1])
        if (expr_known_empty(p, expr_operands(p, e)[0]))
            return true;
    if (p->nodes[e].kind == EK_OR) {
        for (uint32_t i = 0; i < p->nodes[e].n_words; i++)
            if (!expr_known_empty(p, expr_operands(p, e)[i]))
                return false;
        return true;
    }
    if (p->nodes[e].explored)
        return p->nodes[e].empty;
    if (never_empty(p, e))
        return false;
    if (p->nodes[e].kind == EK_AND)
        return lengths_empty(p, e);
    return e == EXPR_NONE || p->nodes[e].empty;
}

bool expr_known_empty(struct expr_pool *p, uint32_t e)
{
    if (e == EXPR_NONE || !p->nodes[e].has_and)
        return e == EXPR_NONE;
    if (!p->nodes[e].explored && !p->nodes[e].known) {
        bool empty = find_empty(p, e);
        p->nodes[e].known = true;
        p->nodes[e].empty = empty;
    }
    return p->nodes[e].empty;
}

uint32_t expr_far(struct expr_pool *p, uint32_t e, uint32_t most)
{
    if (!p->nodes[e].has_and)
        return e;
    if (p->nodes[e].kind == EK_CONCAT) {
        uint32_t a = expr_operands(p, e)[0], b = expr_operands(p, e)[1];
        return expr_concat(p, expr_far(p, a, most), b);
    }
    return p->nodes[e].kind == EK_AND && !p->nodes[e].explored && !never_empty(p, e)
               ? lengths_far(p, e, most)
               : e;
}
