#include "common/grammar/rules.h"

#include "common/grammar/growing.h"

/* ---- building ---- */

enum status rules_init(struct rules *r, struct grammar_work *work)
{
    *r = (struct rules){0};
    enum status st = expr_pool_create(&r->pool);
    if (st == ST_OK)
        rules_count_work(r, work);
    if (st == ST_OK)
        rules_at(r, "#");
    if (st == ST_OK)
        (void)rules_seq(r, NULL, 0); /* rule 0 */
    if (st == ST_OK)
        st = r->status;
    if (st != ST_OK)
        rules_fini(r);
    return st;
}

void rules_fini(struct rules *r)
{
    expr_pool_destroy(r->pool);
    free(r->list);
    free(r->args);
    free(r->places);
    *r = (struct rules){0};
}

void rules_count_work(struct rules *r, struct grammar_work *work)
{
    r->work = work;
    expr_count_work(r->pool, work);
}

size_t rules_bytes(const struct rules *r)
{
    return expr_pool_bytes(r->pool) + r->cap * sizeof *r->list + r->cap_args * sizeof *r->args +
           r->cap_places;
}

void rules_at(struct rules *r, const char *place)
{
    size_t n = strlen(place) + 1;
    if (r->status == ST_OK && r->n_places && strcmp(r->places + r->place, place) == 0)
        return;
    if (r->status == ST_OK)
        r->status = GROW(&r->places, &r->cap_places, r->n_places + n, RULES_MAX_PLACES,
                         "the paths of a grammar");
    if (r->status != ST_OK)
        return;
    memcpy(r->places + r->n_places, place, n);
    r->place = r->n_places;
    r->n_places += (uint32_t)n;
}

static uint32_t add(struct rules *r, enum rule_kind kind, const uint32_t *args, uint32_t n)
{
    work_spend(r->work, 4 + n);
    if (r->status == ST_OK)
        r->status = work_check(r->work);
    if (r->status == ST_OK)
        r->status = GROW(&r->list, &r->cap, (size_t)r->n + 1, RULES_MAX, "the rules of a grammar");
    if (r->status == ST_OK)
        r->status = GROW(&r->args, &r->cap_args, (size_t)r->n_args + n, RULES_MAX_ARGS,
                         "the rules of a grammar");
    if (r->status != ST_OK)
        return 0;
    r->list[r->n] = (struct rule){.kind = kind, .args = r->n_args, .n_args = n, .place = r->place};
    if (n)
        memcpy(r->args + r->n_args, args, n * sizeof *args);
    r->n_args += n;
    return r->n++;
}

uint32_t rules_lexeme(struct rules *r, uint32_t expr)
{
    return expr == EXPR_EMPTY ? 0 : add(r, RULE_LEXEME, &expr, 1);
}

uint32_t rules_literal(struct rules *r, const char *text)
{
    return rules_lexeme(r, expr_literal(r->pool, text, strlen(text)));
}

uint32_t rules_seq(struct rules *r, const uint32_t *args, uint32_t n)
{
    return n == 1 ? args[0] : add(r, RULE_SEQ, args, n);
}

uint32_t rules_alt(struct rules *r, const uint32_t *args, uint32_t n)
{
    return n == 1 ? args[0] : add(r, RULE_ALT, args, n);
}

uint32_t rules_repeat(struct rules *r, uint32_t arg, uint32_t min, uint32_t max)
{
    uint32_t rule = add(r, RULE_REPEAT, &arg, 1);
    if (rule) {
        r->list[rule].min = min;
        r->list[rule].max = max;
    }
    return rule;
}

uint32_t rules_reserve(struct rules *r)
{
    return add(r, RULE_REF, &(uint32_t){0}, 1);
}

void rules_define(struct rules *r, uint32_t reserved, uint32_t rule)
{
    if (r->status == ST_OK)
        r->args[r->list[reserved].args] = rule;
}

/* ---- what can match ---- */

/* For each rule the rules that have it as an argument: users[first[i] .. first[i + 1]). */
struct users {
    uint32_t *first, *users, *missing, *todo;
};

static void users_free(struct users *u)
{
    free(u->first);
    free(u->users);
    free(u->missing);
    free(u->todo);
}

static enum status users_list(struct users *u, const struct rules *r)
{
    u->first = calloc((size_t)r->n + 2, sizeof *u->first);
    u->users = calloc((size_t)r->n_args + 1, sizeof *u->users);
    u->missing = calloc((size_t)r->n + 1, sizeof *u->missing);
    u->todo = calloc((size_t)r->n + 1, sizeof *u->todo);
    if (!u->first || !u->users || !u->missing || !u->todo)
        FAIL(ST_NOMEM, "no memory for %u rules", r->n);
    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t k = 0; r->list[i].kind != RULE_LEXEME && k < r->list[i].n_args; k++)
            u->first[r->args[r->list[i].args + k] + 2]++;
    for (uint32_t i = 2; i < r->n + 2; i++)
        u->first[i] += u->first[i - 1];
    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t k = 0; r->list[i].kind != RULE_LEXEME && k < r->list[i].n_args; k++)
            u->users[u->first[r->args[r->list[i].args + k] + 1]++] = i;
    return ST_OK;
}

enum question { IS_PRODUCTIVE, IS_NULLABLE };

static bool *answer(struct rules *r, uint32_t i, enum question q)
{
    return q == IS_PRODUCTIVE ? &r->list[i].productive : &r->list[i].nullable;
}

/* Arguments that must have the property before the rule has it; UINT32_MAX: it never does. */
static uint32_t needed(const struct rules *r, const struct rule *rule, enum question q)
{
    uint32_t e;
    switch (rule->kind) {
    case RULE_LEXEME:
        e = r->args[rule->args];
        if (q == IS_PRODUCTIVE)
            return expr_known_empty(r->pool, e) ? UINT32_MAX : 0;
        return expr_nullable(r->pool, e) ? 0 : UINT32_MAX;
    case RULE_SEQ:
        return rule->n_args;
    case RULE_ALT:
    case RULE_REF:
        return rule->n_args ? 1 : UINT32_MAX;
    case RULE_REPEAT:
        return rule->min > 0;
    }
    return UINT32_MAX;
}

/* The least fixed point: from the rules that need nothing to those that use them. */
static void solve(struct rules *r, struct users *u, enum question q)
{
    uint32_t n_todo = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        u->missing[i] = needed(r, &r->list[i], q);
        if (u->missing[i] == 0) {
            *answer(r, i, q) = true;
            u->todo[n_todo++] = i;
        }
    }
    while (n_todo) {
        uint32_t i = u->todo[--n_todo];
        for (uint32_t k = u->first[i]; k < u->first[i + 1]; k++) {
            uint32_t user = u->users[k];
            if (*answer(r, user, q) || --u->missing[user])
                continue;
            *answer(r, user, q) = true;
            u->todo[n_todo++] = user;
        }
    }
}

/* ---- left recursion ---- */

enum color { WHITE, GREY, BLACK };

struct visit {
    uint32_t rule, i_arg;
};

/* The next argument at which a text of the rule can begin, from *i on; false: there is none. */
static bool next_corner(const struct rules *r, uint32_t rule, uint32_t *i, uint32_t *corner)
{
    const struct rule *x = &r->list[rule];
    if (x->kind == RULE_LEXEME)
        return false;
    for (; *i < x->n_args; ++*i) {
        uint32_t arg = r->args[x->args + *i];
        if (x->kind == RULE_SEQ && *i > 0 && !r->list[r->args[x->args + *i - 1]].nullable)
            return false;
        if (!r->list[arg].productive)
            continue;
        *corner = arg;
        ++*i;
        return true;
    }
    return false;
}

static enum status no_left_recursion(const struct rules *r, uint32_t root, struct visit *path,
                                     uint8_t *color)
{
    uint32_t depth = 0, corner;
    path[depth++] = (struct visit){root, 0};
    color[root] = GREY;
    while (depth) {
        struct visit *v = &path[depth - 1];
        if (!next_corner(r, v->rule, &v->i_arg, &corner)) {
            color[v->rule] = BLACK;
            depth--;
        } else if (color[corner] == GREY) {
            FAIL(ST_UNSUPPORTED, "%s: left recursion (it refers to itself before any text)",
                 rules_place(r, corner));
        } else if (color[corner] == WHITE) {
            color[corner] = GREY;
            path[depth++] = (struct visit){corner, 0};
        }
    }
    return ST_OK;
}

static enum status check_corners(const struct rules *r)
{
    struct visit *path = calloc(r->n, sizeof *path);
    uint8_t *color = calloc(r->n, 1);
    enum status st = path && color ? ST_OK : ST_NOMEM;
    for (uint32_t i = 0; i < r->n && st == ST_OK; i++) {
        const struct rule *x = &r->list[i];
        if (!x->productive)
            continue;
        if (color[i] == WHITE)
            st = no_left_recursion(r, i, path, color);
        if (st == ST_OK && x->kind == RULE_REPEAT && r->list[r->args[x->args]].nullable)
            st = status_fail(ST_UNSUPPORTED, __FILE__, __LINE__,
                             "%s: a repetition of something that may be empty", rules_place(r, i));
    }
    free(path);
    free(color);
    return st;
}

static enum status explore(struct rules *r)
{
    bool empty;
    for (uint32_t i = 0; i < r->n; i++) {
        const struct rule *x = &r->list[i];
        if (x->kind != RULE_LEXEME || !expr_has_and(r->pool, r->args[x->args]))
            continue;
        r->place = x->place;
        enum status st = expr_explore(r->pool, r->args[x->args], RULES_MAX_EXPLORED, &empty);
        TRY(work_check(r->work));
        if (st == ST_NOMEM)
            FAIL(ST_NOMEM, "no memory for a grammar");
        if (st != ST_OK)
            FAIL(ST_RANGE, "%s: the combination of patterns, lengths and names is too large",
                 rules_place(r, i));
    }
    return ST_OK;
}

enum status rules_finish(struct rules *r, uint32_t root)
{
    struct users u = {0};
    TRY(r->status);
    TRY(expr_status(r->pool));
    expr_freeze(r->pool);
    TRY(explore(r));
    enum status st = users_list(&u, r);
    if (st == ST_OK) {
        solve(r, &u, IS_PRODUCTIVE);
        solve(r, &u, IS_NULLABLE);
    }
    users_free(&u);
    TRY(st);
    if (!r->list[root].productive)
        FAIL(ST_FORMAT, "%s: no text can satisfy this", rules_place(r, root));
    return check_corners(r);
}
