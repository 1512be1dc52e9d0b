#include "common/grammar/expr_impl.h"

#include <assert.h>

#include "common/grammar/growing.h"
#include "common/hash.h"

/* ---- the pool ---- */

static uint64_t hash_of(const struct expr_pool *p, uint32_t e)
{
    const struct expr_node *n = &p->nodes[e];
    const uint32_t *words = n->n_words ? p->words + n->words : NULL;
    return hash_bytes(n->kind, words, n->n_words * sizeof *words);
}

static void table_put(struct expr_pool *p, uint32_t e)
{
    uint32_t mask = p->n_table - 1, at = (uint32_t)hash_of(p, e) & mask;
    while (p->table[at])
        at = (at + 1) & mask;
    p->table[at] = e + 1;
}

enum status expr_rehash(struct expr_pool *p)
{
    uint32_t n = 256;
    while (n < 2 * p->n_nodes + 2)
        n *= 2;
    uint32_t *table = calloc(n, sizeof *table);
    if (!table)
        FAIL(ST_NOMEM, "no memory for a table of %u expressions", n);
    free(p->table);
    p->table = table;
    p->n_table = n;
    for (uint32_t e = 0; e < p->n_nodes; e++)
        table_put(p, e);
    return ST_OK;
}

/* Is a number that ends here a multiple?  w: the operands of an EK_MULTIPLE. */
static bool multiple_ends(const uint32_t w[4])
{
    uint64_t rest = w[1];
    for (uint32_t i = 0; i < w[2]; i++)
        rest = rest * 10 % w[0];
    return rest == 0;
}

static bool nullable_of(const struct expr_pool *p, enum expr_kind kind, const uint32_t *w,
                        uint32_t n)
{
    switch (kind) {
    case EK_NONE:
    case EK_BYTES:
        return false;
    case EK_EMPTY:
        return true;
    case EK_NOT:
        return !p->nodes[w[0]].nullable;
    case EK_REPEAT:
        return w[1] == 0;
    case EK_MULTIPLE:
        return multiple_ends(w);
    case EK_CONCAT:
    case EK_AND:
        for (uint32_t i = 0; i < n; i++)
            if (!p->nodes[w[i]].nullable)
                return false;
        return true;
    case EK_OR:
        for (uint32_t i = 0; i < n; i++)
            if (p->nodes[w[i]].nullable)
                return true;
        return false;
    }
    return false;
}

static bool has_and_of(const struct expr_pool *p, enum expr_kind kind, const uint32_t *w,
                       uint32_t n)
{
    if (kind == EK_AND || kind == EK_NOT)
        return true;
    uint32_t n_ops = kind == EK_CONCAT || kind == EK_OR ? n : kind == EK_REPEAT ? 1 : 0;
    for (uint32_t i = 0; i < n_ops; i++)
        if (p->nodes[w[i]].has_and)
            return true;
    return false;
}

static enum status append(struct expr_pool *p, enum expr_kind kind, const uint32_t *w, uint32_t n)
{
    static const char *what = "the expressions of a grammar";
    TRY(GROW(&p->nodes, &p->cap_nodes, (size_t)p->n_nodes + 1, EXPR_MAX, what));
    TRY(GROW(&p->words, &p->cap_words, (size_t)p->n_words + n, EXPR_MAX_WORDS, what));
    p->nodes[p->n_nodes] = (struct expr_node){.words = p->n_words,
                                              .n_words = n,
                                              .kind = (uint8_t)kind,
                                              .nullable = nullable_of(p, kind, w, n),
                                              .has_and = has_and_of(p, kind, w, n)};
    if (n)
        memcpy(p->words + p->n_words, w, n * sizeof *w);
    p->n_words += n;
    p->n_nodes++;
    if (2 * p->n_nodes >= p->n_table)
        return expr_rehash(p);
    table_put(p, p->n_nodes - 1);
    return ST_OK;
}

uint32_t expr_make(struct expr_pool *p, enum expr_kind kind, const uint32_t *w, uint32_t n)
{
    uint32_t mask = p->n_table - 1;
    uint32_t at = (uint32_t)hash_bytes(kind, w, n * sizeof *w) & mask;
    work_spend(p->work, 2 + n / 4);
    if (p->status == ST_OK)
        p->status = work_check(p->work);
    if (p->status != ST_OK)
        return EXPR_NONE;
    for (; p->table[at]; at = (at + 1) & mask) {
        work_spend(p->work, 1);
        const struct expr_node *e = &p->nodes[p->table[at] - 1];
        if (e->kind == kind && e->n_words == n &&
            (n == 0 || memcmp(p->words + e->words, w, n * sizeof *w) == 0))
            return p->table[at] - 1;
    }
    work_spend(p->work, 6);
    p->status = append(p, kind, w, n);
    return p->status == ST_OK ? p->n_nodes - 1 : EXPR_NONE;
}

/* Each byte is a class of its own; no derivative was made. */
static void identity_classes(struct expr_pool *p)
{
    p->n_classes = p->n_rows = 256;
    for (unsigned b = 0; b < 256; b++)
        p->classes[b] = p->first_of[b] = (uint8_t)b;
}

enum status expr_pool_create(struct expr_pool **out)
{
    uint32_t none = EXPR_NONE;
    *out = NULL;
    struct expr_pool *p = calloc(1, sizeof *p);
    if (!p || expr_rehash(p) != ST_OK) {
        free(p);
        FAIL(ST_NOMEM, "no memory for a grammar's expressions");
    }
    identity_classes(p);
    (void)expr_make(p, EK_NONE, NULL, 0);
    (void)expr_make(p, EK_EMPTY, NULL, 0);
    (void)expr_make(p, EK_NOT, &none, 1);
    if (p->status != ST_OK) {
        enum status st = p->status;
        expr_pool_destroy(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

void expr_pool_destroy(struct expr_pool *p)
{
    if (!p)
        return;
    free(p->nodes);
    free(p->words);
    free(p->table);
    free(p->rows);
    for (uint32_t i = 0; i < p->n_lengths; i++)
        free(p->lengths[i].dist);
    free(p->lengths);
    free(p);
}

void expr_count_work(struct expr_pool *p, struct grammar_work *work)
{
    p->work = work;
}

enum status expr_status(const struct expr_pool *p)
{
    return p->status;
}

size_t expr_count(const struct expr_pool *p)
{
    return p->n_nodes;
}

/* ---- builders ---- */

uint32_t expr_bytes(struct expr_pool *p, const struct byte_set *set)
{
    uint32_t any = 0;
    for (int i = 0; i < 8; i++)
        any |= set->words[i];
    return any ? expr_make(p, EK_BYTES, set->words, 8) : EXPR_NONE;
}

uint32_t expr_range(struct expr_pool *p, unsigned lo, unsigned hi)
{
    struct byte_set set = {{0}};
    byte_set_add(&set, lo, hi);
    return expr_bytes(p, &set);
}

/* (x y ... z) b is x (y ... (z b)).  Not by recursion: a sequence is as long as a text. */
static uint32_t append_to_sequence(struct expr_pool *p, uint32_t a, uint32_t b)
{
    enum { INLINE = 64 };
    uint32_t space[INLINE], *list = space, n = 0;
    for (uint32_t e = a; p->nodes[e].kind == EK_CONCAT; e = expr_operands(p, e)[1])
        n++;
    if (n > INLINE)
        list = malloc(n * sizeof *list);
    if (!list) {
        p->status = ST_NOMEM;
        return EXPR_NONE;
    }
    for (uint32_t i = 0; i < n; i++, a = expr_operands(p, a)[1])
        list[i] = expr_operands(p, a)[0];
    for (b = expr_make(p, EK_CONCAT, (uint32_t[]){a, b}, 2); n > 0 && b != EXPR_NONE; n--)
        b = expr_make(p, EK_CONCAT, (uint32_t[]){list[n - 1], b}, 2);
    if (list != space)
        free(list);
    return b;
}

uint32_t expr_concat(struct expr_pool *p, uint32_t a, uint32_t b)
{
    if (a == EXPR_NONE || b == EXPR_NONE)
        return EXPR_NONE;
    if (a == EXPR_EMPTY || b == EXPR_EMPTY)
        return a == EXPR_EMPTY ? b : a;
    if (p->nodes[a].kind == EK_CONCAT)
        return append_to_sequence(p, a, b);
    return expr_make(p, EK_CONCAT, (uint32_t[]){a, b}, 2);
}

uint32_t expr_literal(struct expr_pool *p, const void *text, size_t n)
{
    const uint8_t *s = text;
    uint32_t e = EXPR_EMPTY;
    while (n-- > 0 && p->status == ST_OK)
        e = expr_concat(p, expr_range(p, s[n], s[n]), e);
    return e;
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Lists the operands of an OR or AND, nested ones of the same kind in place of these. */
static uint32_t *flatten(struct expr_pool *p, enum expr_kind kind, const uint32_t *e, size_t n,
                         size_t *n_out)
{
    size_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += p->nodes[e[i]].kind == kind ? p->nodes[e[i]].n_words : 1;
    work_spend(p->work, 2 * all);
    uint32_t *list = malloc((all + 1) * sizeof *list);
    if (!list) {
        p->status = ST_NOMEM;
        return NULL;
    }
    *n_out = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t n_ops = p->nodes[e[i]].kind == kind ? p->nodes[e[i]].n_words : 1;
        memcpy(list + *n_out, n_ops == 1 ? &e[i] : expr_operands(p, e[i]), n_ops * sizeof *list);
        *n_out += n_ops;
    }
    return list;
}

static size_t sort_unique(uint32_t *list, size_t n)
{
    size_t kept = 0;
    if (n > 1)
        qsort(list, n, sizeof *list, compare_ids);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || list[kept - 1] != list[i])
            list[kept++] = list[i];
    return kept;
}

/* The sets of one byte become one set. */
static size_t join_sets(struct expr_pool *p, uint32_t *list, size_t n)
{
    struct byte_set set = {{0}};
    size_t kept = 0, n_sets = 0;
    for (size_t i = 0; i < n; i++) {
        if (p->nodes[list[i]].kind != EK_BYTES) {
            list[kept++] = list[i];
            continue;
        }
        n_sets++;
        for (int k = 0; k < 8; k++)
            set.words[k] |= expr_operands(p, list[i])[k];
    }
    if (n_sets)
        list[kept++] = expr_bytes(p, &set);
    return kept;
}

static uint32_t finish(struct expr_pool *p, enum expr_kind kind, uint32_t *list, size_t n,
                       uint32_t neutral, uint32_t absorbing)
{
    size_t kept = 0;
    uint32_t result;
    for (size_t i = 0; i < n; i++)
        if (list[i] != neutral)
            list[kept++] = list[i];
    if (kept && kind == EK_OR)
        kept = join_sets(p, list, kept);
    kept = sort_unique(list, kept);
    for (size_t i = 0; i < kept; i++)
        if (list[i] == absorbing) {
            free(list);
            return absorbing;
        }
    if (kept == 0)
        result = neutral;
    else
        result = kept == 1 ? list[0] : expr_make(p, kind, list, (uint32_t)kept);
    free(list);
    return result;
}

uint32_t expr_or(struct expr_pool *p, const uint32_t *e, size_t n)
{
    uint32_t *list = flatten(p, EK_OR, e, n, &n);
    return list ? finish(p, EK_OR, list, n, EXPR_NONE, EXPR_ALL) : EXPR_NONE;
}

uint32_t expr_and(struct expr_pool *p, const uint32_t *e, size_t n)
{
    uint32_t *list = flatten(p, EK_AND, e, n, &n);
    return list ? finish(p, EK_AND, list, n, EXPR_ALL, EXPR_NONE) : EXPR_NONE;
}

uint32_t expr_or2(struct expr_pool *p, uint32_t a, uint32_t b)
{
    if (a == EXPR_NONE || b == EXPR_NONE || a == b)
        return a == EXPR_NONE ? b : a;
    return expr_or(p, (uint32_t[]){a, b}, 2);
}

uint32_t expr_and2(struct expr_pool *p, uint32_t a, uint32_t b)
{
    return expr_and(p, (uint32_t[]){a, b}, 2);
}

uint32_t expr_not(struct expr_pool *p, uint32_t a)
{
    if (p->nodes[a].kind == EK_NOT)
        return expr_operands(p, a)[0];
    return expr_make(p, EK_NOT, &a, 1);
}

uint32_t expr_repeat(struct expr_pool *p, uint32_t a, uint32_t min, uint32_t max)
{
    if (max == 0 || a == EXPR_EMPTY)
        return EXPR_EMPTY;
    if (a == EXPR_NONE)
        return min == 0 ? EXPR_EMPTY : EXPR_NONE;
    if (min == 1 && max == 1)
        return a;
    if (p->nodes[a].nullable)
        min = 0;
    return expr_make(p, EK_REPEAT, (uint32_t[]){a, min, max}, 3);
}

uint32_t expr_optional(struct expr_pool *p, uint32_t a)
{
    return expr_or2(p, a, EXPR_EMPTY);
}

uint32_t expr_multiple(struct expr_pool *p, uint32_t divisor, uint32_t decimals)
{
    assert(divisor >= 1 && decimals <= 9);
    return expr_make(p, EK_MULTIPLE, (uint32_t[]){divisor, 0, decimals, 0}, 4);
}

uint32_t *expr_kept(struct expr_pool *p, enum expr_kept which)
{
    return &p->kept[which];
}

/* ---- choices ---- */

static int compare_texts(const void *a, const void *b)
{
    const struct expr_text *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int c = n ? memcmp(x->p, y->p, n) : 0;
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

/* Bytes that all of the sorted texts share from `at` on. */
static size_t common_run(const struct expr_text *t, size_t n, size_t at)
{
    size_t end = at;
    while (end < t[0].n && end < t[n - 1].n && t[0].p[end] == t[n - 1].p[end])
        end++;
    return end - at;
}

/* Of sorted texts from byte `at` on. */
static uint32_t choice_from(struct expr_pool *p, const struct expr_text *t, size_t n, size_t at)
{
    size_t run = common_run(t, n, at), end = at + run, n_list = 0;
    uint32_t list[257];
    for (size_t i = 0; i < n;) {
        size_t k = i;
        if (t[i].n == end) { /* texts that end here are equal */
            while (k < n && t[k].n == end)
                k++;
            list[n_list++] = EXPR_EMPTY;
        } else {
            while (k < n && t[k].p[end] == t[i].p[end])
                k++;
            list[n_list++] = choice_from(p, t + i, k - i, end);
        }
        i = k;
    }
    return expr_concat(p, expr_literal(p, t[0].p + at, run), expr_or(p, list, n_list));
}

uint32_t expr_choice(struct expr_pool *p, struct expr_text *texts, size_t n)
{
    if (n == 0)
        return EXPR_NONE;
    qsort(texts, n, sizeof *texts, compare_texts);
    return choice_from(p, texts, n, 0);
}

/* ---- looking ---- */

bool expr_nullable(const struct expr_pool *p, uint32_t e)
{
    return p->nodes[e].nullable;
}

bool expr_has_and(const struct expr_pool *p, uint32_t e)
{
    return p->nodes[e].has_and;
}

bool expr_finite(const struct expr_pool *p, uint32_t e)
{
    for (; p->nodes[e].kind == EK_CONCAT; e = expr_operands(p, e)[1]) /* as long as a text */
        if (!expr_finite(p, expr_operands(p, e)[0]))
            return false;
    const struct expr_node *n = &p->nodes[e];
    const uint32_t *w = expr_operands(p, e);
    if (n->kind == EK_REPEAT)
        return w[2] != EXPR_NO_LIMIT && expr_finite(p, w[0]);
    if (n->kind == EK_NOT || n->kind == EK_MULTIPLE)
        return false;
    if (n->kind == EK_OR || n->kind == EK_AND)
        for (uint32_t i = 0; i < n->n_words; i++)
            if (!expr_finite(p, w[i]))
                return false;
    return true;
}

/* Does a contain all of unit's texts, obviously? */
static bool covers(const struct expr_pool *p, uint32_t a, uint32_t unit)
{
    if (a == unit || a == EXPR_ALL)
        return true;
    if (p->nodes[a].kind != EK_OR)
        return false;
    /* unit is an OR of texts whose members a has too */
    const uint32_t *w = expr_operands(p, a), *u = expr_operands(p, unit);
    uint32_t n_unit = p->nodes[unit].kind == EK_OR ? p->nodes[unit].n_words : 0;
    for (uint32_t i = 0; i < n_unit; i++) {
        bool has = false;
        for (uint32_t k = 0; k < p->nodes[a].n_words && !has; k++) {
            const uint32_t *x = expr_operands(p, w[k]), *y = expr_operands(p, u[i]);
            has = w[k] == u[i];
            if (!has && p->nodes[w[k]].kind == EK_BYTES && p->nodes[u[i]].kind == EK_BYTES) {
                has = true;
                for (int b = 0; b < 8; b++)
                    has = has && (y[b] & ~x[b]) == 0;
            }
        }
        if (!has)
            return false;
    }
    return n_unit > 0;
}

bool expr_excludes_few(const struct expr_pool *p, uint32_t e)
{
    return p->nodes[e].kind == EK_NOT && expr_finite(p, expr_operands(p, e)[0]);
}

/* Of an AND: one operand with complements of finite sets; a text that may be extended for ever leaves those sets. */
static uint32_t free_run_of_and(const struct expr_pool *p, const uint32_t *w, uint32_t n,
                                uint32_t unit)
{
    uint32_t run = 0, n_others = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!expr_excludes_few(p, w[i])) {
            run = expr_free_run(p, w[i], unit);
            n_others++;
        }
    return n_others == 0 || (n_others == 1 && run == EXPR_NO_LIMIT) ? EXPR_NO_LIMIT : 0;
}

uint32_t expr_free_run(const struct expr_pool *p, uint32_t e, uint32_t unit)
{
    const struct expr_node *n = &p->nodes[e];
    const uint32_t *w = expr_operands(p, e);
    uint32_t most = 0;
    switch ((enum expr_kind)n->kind) {
    case EK_REPEAT:
        return covers(p, w[0], unit) ? w[2] : 0;
    case EK_CONCAT:
        /* what follows can be completed: an operand that may be empty counts as dead */
        return expr_has_and(p, w[1]) ? 0 : expr_free_run(p, w[0], unit);
    case EK_NOT:
        return w[0] == EXPR_NONE || expr_finite(p, w[0]) ? EXPR_NO_LIMIT : 0;
    case EK_AND:
        return free_run_of_and(p, w, n->n_words, unit);
    case EK_OR:
        for (uint32_t i = 0; i < n->n_words; i++) {
            uint32_t run = expr_free_run(p, w[i], unit);
            most = run > most ? run : most;
        }
        return most;
    default:
        return 0;
    }
}

/* Can a text of e, obviously, begin only with one of a few bytes?  Then these. */
static bool first_bytes(const struct expr_pool *p, uint32_t e, struct byte_set *out)
{
    if (p->nodes[e].kind == EK_CONCAT)
        e = expr_operands(p, e)[0];
    if (p->nodes[e].kind != EK_BYTES)
        return false;
    memcpy(out, expr_operands(p, e), sizeof *out);
    return true;
}

static bool has_id(const uint32_t *list, uint32_t n, uint32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == id)
            return true;
    return false;
}

/* Do they share a byte with what begins unit, an OR of sets and sequences? */
static bool may_begin(const struct expr_pool *p, uint32_t unit, const struct byte_set *bytes)
{
    const uint32_t *u = expr_operands(p, unit);
    uint32_t n = p->nodes[unit].kind == EK_OR ? p->nodes[unit].n_words : 1;
    struct byte_set first;
    for (uint32_t i = 0; i < n; i++) {
        if (!first_bytes(p, n == 1 ? unit : u[i], &first))
            return true;
        for (int k = 0; k < 8; k++)
            if (first.words[k] & bytes->words[k])
                return true;
    }
    return false;
}

/* Of a that covers unit: does none of its other texts begin as one of unit's? */
static bool extends(const struct expr_pool *p, uint32_t a, uint32_t unit)
{
    const uint32_t *w = expr_operands(p, a), *u = expr_operands(p, unit);
    if (a == unit)
        return true;
    if (p->nodes[a].kind != EK_OR || p->nodes[unit].kind != EK_OR)
        return false;
    for (uint32_t i = 0; i < p->nodes[a].n_words; i++) {
        struct byte_set first;
        if (has_id(u, p->nodes[unit].n_words, w[i]))
            continue;
        if (!first_bytes(p, w[i], &first))
            return false;
        /* of a set the bytes that unit's has not */
        for (uint32_t k = 0; k < p->nodes[unit].n_words; k++)
            if (p->nodes[w[i]].kind == EK_BYTES && p->nodes[u[k]].kind == EK_BYTES)
                for (int b = 0; b < 8; b++)
                    first.words[b] &= ~expr_operands(p, u[k])[b];
        if (may_begin(p, unit, &first))
            return false;
    }
    return true;
}

uint32_t expr_string_run(const struct expr_pool *p, uint32_t e, uint32_t unit, uint32_t *min)
{
    struct byte_set rest;
    *min = 0;
    if (p->nodes[e].kind != EK_CONCAT)
        return 0;
    uint32_t a = expr_operands(p, e)[0], b = expr_operands(p, e)[1];
    if (p->nodes[a].kind != EK_REPEAT)
        return 0;
    const uint32_t *w = expr_operands(p, a); /* what is repeated, min, max */
    if (!covers(p, w[0], unit) || !extends(p, w[0], unit) || !first_bytes(p, b, &rest) ||
        may_begin(p, unit, &rest))
        return 0;
    *min = w[1];
    return w[2];
}
