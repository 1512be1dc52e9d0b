#include "common/grammar/machine.h"

#include "common/grammar/growing.h"
#include "common/grammar/heavy.h"
#include "common/grammar/stacks.h"
#include "common/hash.h"

struct state {
    uint32_t pairs, n_pairs; /* m->pairs[pairs ..], ascending */
    uint32_t row;            /* m->rows[row ..], n_classes transitions */
    bool accepts;
};

/* A rule to be entered, with what follows it; RESUME: what follows alone. */
#define RESUME UINT32_MAX
struct entry {
    uint32_t rule, stacks;
};

struct machine {
    struct rules *rules;
    uint32_t root, generation;
    bool full, no_memory; /* no_memory: a table could not grow for lack of it */
    struct stacks stacks;
    struct state *states;
    uint32_t n_states, cap_states;
    struct machine_pair *pairs;
    uint32_t n_pairs, cap_pairs;
    uint32_t *rows;
    uint32_t n_rows, cap_rows; /* in words */
    uint32_t *table;           /* [n_table] states + 1 by hash; a power of two */
    uint32_t n_table;
    struct heavy heavy; /* transitions, by their place in rows */

    /* the state that is being made */
    struct entry *todo;
    uint32_t n_todo, cap_todo;
    struct machine_pair *found;
    uint32_t n_found, cap_found;
    uint64_t *seen;    /* [n_seen] entries that were done: their key, by hash; 0: free */
    uint32_t *seen_in; /* [n_seen] the number of the state that they were done for */
    uint32_t n_seen, used_seen, number;
    bool accepts, too_large;
    uint32_t steps;
};

enum { MAX_STEPS = 16 * MACHINE_MAX_PAIRS }; /* to make one state */

/* ---- life ---- */

enum { FIRST_TABLE = 256, FIRST_BYTES = 4 };

static uint32_t make_next(struct machine *m, uint32_t state, uint32_t class_id);

/* ST_RANGE where all texts begin with the same bytes, of at most FIRST_BYTES, behind which no state is small enough: every
 * answer would end there. */
static enum status check_begin(struct machine *m, uint32_t state)
{
    uint32_t n_alive = 1;
    for (int i = 0; i < FIRST_BYTES && n_alive == 1 && !m->full; i++) {
        bool too_large = false, ends = m->states[state].accepts;
        uint32_t alive = MACHINE_DEAD;
        n_alive = 0;
        for (uint32_t c = 0; c < expr_n_classes(m->rules->pool) && n_alive < 2 && !m->full; c++) {
            uint32_t next = make_next(m, state, c);
            too_large = too_large || m->too_large;
            if (next != MACHINE_DEAD) {
                alive = next;
                n_alive++;
            }
        }
        if (n_alive == 0 && too_large && !ends && !m->full)
            FAIL(ST_RANGE, "%s: more than %d alternatives are possible where an answer begins",
                 rules_place(m->rules, m->root), MACHINE_MAX_PAIRS);
        state = alive;
    }
    return ST_OK;
}

static enum status first_tables(struct machine *m)
{
    m->table = calloc(FIRST_TABLE, sizeof *m->table);
    m->seen = calloc(FIRST_TABLE, sizeof *m->seen);
    m->seen_in = calloc(FIRST_TABLE, sizeof *m->seen_in);
    m->n_table = m->n_seen = FIRST_TABLE;
    if (!m->table || !m->seen || !m->seen_in)
        FAIL(ST_NOMEM, "no memory for a grammar's automaton");
    TRY(stacks_init(&m->stacks));
    m->stacks.work = m->rules->work;
    TRY(GROW(&m->states, &m->cap_states, 1, MACHINE_MAX_STATES, "states"));
    machine_flush(m);
    m->generation = 0;
    uint32_t start = machine_start(m);
    enum status st = start == MACHINE_DEAD ? ST_OK : check_begin(m, start);
    m->stacks.work = NULL;
    TRY(work_check(m->rules->work));
    if (machine_no_memory(m))
        FAIL(ST_NOMEM, "no memory for a grammar's automaton");
    if (start == MACHINE_DEAD)
        FAIL(ST_RANGE, "%s: the grammar is too large", rules_place(m->rules, m->root));
    return st;
}

enum status machine_create(struct machine **out, struct rules *rules, uint32_t root)
{
    *out = NULL;
    struct machine *m = calloc(1, sizeof *m);
    if (!m)
        FAIL(ST_NOMEM, "no memory for a grammar's automaton");
    m->rules = rules;
    m->root = root;
    enum status st = first_tables(m);
    if (st != ST_OK) {
        machine_destroy(m);
        return st;
    }
    *out = m;
    return ST_OK;
}

void machine_destroy(struct machine *m)
{
    if (!m)
        return;
    stacks_fini(&m->stacks);
    free(m->states);
    free(m->pairs);
    free(m->rows);
    free(m->table);
    free(m->todo);
    free(m->found);
    free(m->seen);
    free(m->seen_in);
    heavy_fini(&m->heavy);
    free(m);
}

void machine_flush(struct machine *m)
{
    m->generation++;
    m->full = m->no_memory = false;
    m->n_pairs = m->n_rows = 0;
    m->states[0] = (struct state){0};
    m->n_states = 1;
    memset(m->table, 0, m->n_table * sizeof *m->table);
    stacks_clear(&m->stacks);
    heavy_clear(&m->heavy);
    expr_trim(m->rules->pool);
}

/* Makes the tables by hash, which are empty, small again. */
static void shrink_tables(struct machine *m)
{
    uint32_t *table = calloc(FIRST_TABLE, sizeof *table), *in = calloc(FIRST_TABLE, sizeof *in);
    uint64_t *seen = calloc(FIRST_TABLE, sizeof *seen);
    if (!table || !in || !seen) {
        free(table);
        free(in);
        free(seen);
        return;
    }
    free(m->table);
    free(m->seen_in);
    free(m->seen);
    m->table = table;
    m->seen_in = in;
    m->seen = seen;
    m->n_table = m->n_seen = FIRST_TABLE;
}

void machine_shrink(struct machine *m)
{
    machine_flush(m);
    stacks_shrink(&m->stacks);
    heavy_fini(&m->heavy);
    expr_shrink(m->rules->pool);
    shrink_tables(m);
    SHRINK(&m->states, &m->cap_states, m->n_states);
    SHRINK(&m->pairs, &m->cap_pairs, m->n_pairs);
    SHRINK(&m->rows, &m->cap_rows, m->n_rows);
    SHRINK(&m->todo, &m->cap_todo, 0);
    SHRINK(&m->found, &m->cap_found, 0);
}

size_t machine_bytes(const struct machine *m)
{
    return sizeof *m + rules_bytes(m->rules) + stacks_bytes(&m->stacks) +
           m->cap_states * sizeof *m->states + m->cap_pairs * sizeof *m->pairs +
           m->cap_rows * sizeof *m->rows + m->n_table * sizeof *m->table +
           m->cap_todo * sizeof *m->todo + m->cap_found * sizeof *m->found +
           m->n_seen * (sizeof *m->seen + sizeof *m->seen_in) + heavy_bytes(&m->heavy);
}

uint32_t machine_generation(const struct machine *m)
{
    return m->generation;
}

bool machine_full(const struct machine *m)
{
    return m->full;
}

bool machine_no_memory(const struct machine *m)
{
    return m->no_memory || m->stacks.status == ST_NOMEM || expr_status(m->rules->pool) == ST_NOMEM;
}

/* ---- making a state ---- */

/* Notes that the machine ran out of room or memory. */
static void run_out(struct machine *m, enum status why)
{
    m->full = true;
    m->no_memory = m->no_memory || why == ST_NOMEM;
}

static enum status grow_seen(struct machine *m)
{
    uint32_t n = m->n_seen * 2;
    uint64_t *seen = calloc(n, sizeof *seen);
    uint32_t *in = calloc(n, sizeof *in);
    if (!seen || !in) {
        free(seen);
        free(in);
        FAIL(ST_NOMEM, "no memory for a grammar's automaton");
    }
    for (uint32_t i = 0; i < m->n_seen; i++) {
        if (m->seen_in[i] != m->number)
            continue;
        uint32_t at = (uint32_t)hash_mix(m->seen[i]) & (n - 1);
        while (in[at])
            at = (at + 1) & (n - 1);
        seen[at] = m->seen[i];
        in[at] = m->number;
    }
    free(m->seen);
    free(m->seen_in);
    m->seen = seen;
    m->seen_in = in;
    m->n_seen = n;
    return ST_OK;
}

/* Was the rule entered with these stacks for this state before?  Notes it. */
static bool done_before(struct machine *m, struct entry e)
{
    uint64_t key = (uint64_t)e.rule << 32 | e.stacks;
    if (2 * ++m->used_seen >= m->n_seen && grow_seen(m) != ST_OK) {
        run_out(m, ST_NOMEM);
        return true;
    }
    uint32_t at = (uint32_t)hash_mix(key) & (m->n_seen - 1);
    for (; m->seen_in[at] == m->number; at = (at + 1) & (m->n_seen - 1))
        if (m->seen[at] == key)
            return true;
    m->seen[at] = key;
    m->seen_in[at] = m->number;
    return false;
}

static void enter(struct machine *m, uint32_t rule, uint32_t stacks)
{
    if (rule != RESUME && !m->rules->list[rule].productive)
        return;
    if (m->n_todo >= 4 * MACHINE_MAX_PAIRS ||
        stacks_depth(&m->stacks, stacks) > MACHINE_MAX_DEPTH) {
        m->too_large = true;
        return;
    }
    enum status st =
        GROW(&m->todo, &m->cap_todo, (size_t)m->n_todo + 1, 4 * MACHINE_MAX_PAIRS, "rules");
    if (st != ST_OK) {
        run_out(m, st);
        return;
    }
    m->todo[m->n_todo++] = (struct entry){rule, stacks};
}

static void add_pair(struct machine *m, uint32_t expr, uint32_t stacks)
{
    if (m->n_found >= 4 * MACHINE_MAX_PAIRS) {
        m->too_large = true;
        return;
    }
    enum status st =
        GROW(&m->found, &m->cap_found, (size_t)m->n_found + 1, 4 * MACHINE_MAX_PAIRS, "pairs");
    if (st != ST_OK) {
        run_out(m, st);
        return;
    }
    m->found[m->n_found++] = (struct machine_pair){expr, stacks};
}

static uint32_t push(struct machine *m, uint32_t rule, uint32_t pos, uint32_t stacks)
{
    return stacks_push(&m->stacks, (struct frame){rule, pos}, stacks);
}

/* Goes on behind what was matched. */
static void resume(struct machine *m, uint32_t stacks)
{
    uint32_t n;
    const struct stack_top *tops = stacks_tops(&m->stacks, stacks, &n);
    uint32_t first = (uint32_t)(tops - m->stacks.tops);
    m->steps += n;
    for (uint32_t i = 0; i < n; i++) { /* pushing moves the tops */
        struct stack_top t = m->stacks.tops[first + i];
        if (t.frame.rule == STACK_BOTTOM) {
            m->accepts = true;
            continue;
        }
        const struct rule *r = &m->rules->list[t.frame.rule];
        const uint32_t *args = r->n_args ? m->rules->args + r->args : NULL;
        if (r->kind == RULE_SEQ) {
            bool last = t.frame.pos + 1 == r->n_args;
            enter(m, args[t.frame.pos],
                  last ? t.below : push(m, t.frame.rule, t.frame.pos + 1, t.below));
            continue;
        }
        /* a repetition, pos times so far */
        uint32_t cap = r->max == EXPR_NO_LIMIT ? r->min : r->max;
        uint32_t more = t.frame.pos < cap ? t.frame.pos + 1 : t.frame.pos;
        if (r->max == EXPR_NO_LIMIT || t.frame.pos < r->max)
            enter(m, args[0], push(m, t.frame.rule, more, t.below));
        if (t.frame.pos >= r->min)
            enter(m, RESUME, t.below);
    }
}

static void open_rule(struct machine *m, struct entry e)
{
    const struct rule *r = &m->rules->list[e.rule];
    const uint32_t *args = r->n_args ? m->rules->args + r->args : NULL;
    switch (r->kind) {
    case RULE_LEXEME:
        add_pair(m, args[0], e.stacks);
        if (expr_nullable(m->rules->pool, args[0]))
            enter(m, RESUME, e.stacks);
        return;
    case RULE_SEQ:
        if (r->n_args == 0)
            enter(m, RESUME, e.stacks);
        else
            enter(m, args[0], push(m, e.rule, 1, e.stacks));
        return;
    case RULE_ALT:
        for (uint32_t i = 0; i < r->n_args; i++)
            enter(m, args[i], e.stacks);
        return;
    case RULE_REF:
        enter(m, args[0], e.stacks);
        return;
    case RULE_REPEAT:
        if (r->max > 0)
            enter(m, args[0],
                  push(m, e.rule, r->max == EXPR_NO_LIMIT && r->min == 0 ? 0 : 1, e.stacks));
        if (r->min == 0)
            enter(m, RESUME, e.stacks);
        return;
    }
}

static void begin_state(struct machine *m)
{
    m->number++;
    if (m->number == 0) { /* the stamps of four billion states ago must not match */
        memset(m->seen_in, 0, m->n_seen * sizeof *m->seen_in);
        m->number = 1;
    }
    m->used_seen = m->n_todo = m->n_found = m->steps = 0;
    m->accepts = m->too_large = false;
}

static void close_rules(struct machine *m)
{
    uint64_t work = 0;
    while (m->n_todo && !m->full && !m->too_large && work_check(m->rules->work) == ST_OK) {
        struct entry e = m->todo[--m->n_todo];
        work_spend(m->rules->work, 4);
        m->steps++;
        if (++work > MAX_STEPS)
            m->too_large = true;
        else if (done_before(m, e))
            continue;
        else if (e.rule == RESUME)
            resume(m, e.stacks);
        else
            open_rule(m, e);
    }
    if (m->stacks.status != ST_OK || expr_status(m->rules->pool) != ST_OK)
        run_out(m, m->stacks.status != ST_OK ? m->stacks.status : expr_status(m->rules->pool));
}

static int compare_pairs(const void *a, const void *b)
{
    const struct machine_pair *x = a, *y = b;
    if (x->expr != y->expr)
        return (x->expr > y->expr) - (x->expr < y->expr);
    return (x->stacks > y->stacks) - (x->stacks < y->stacks);
}

/* The stacks of all n pairs, which are lost.  Two by two: to add one after the other to a growing set would take the
 * square of their number. */
static uint32_t all_stacks(struct machine *m, struct machine_pair *p, uint32_t n)
{
    for (; n > 1; n = (n + 1) / 2) {
        for (uint32_t i = 0; i < n / 2; i++)
            p[i].stacks = stacks_union(&m->stacks, p[2 * i].stacks, p[2 * i + 1].stacks);
        if (n % 2)
            p[n / 2].stacks = p[n - 1].stacks;
    }
    return p->stacks;
}

/* Pairs of one expression become one, with the stacks of all. */
static void merge_pairs(struct machine *m)
{
    uint32_t kept = 0;
    if (m->n_found > 1)
        qsort(m->found, m->n_found, sizeof *m->found, compare_pairs);
    for (uint32_t i = 0, end; i < m->n_found; i = end) {
        for (end = i + 1; end < m->n_found && m->found[end].expr == m->found[i].expr;)
            end++;
        uint32_t stacks = all_stacks(m, m->found + i, end - i);
        m->found[kept++] = (struct machine_pair){m->found[i].expr, stacks};
    }
    m->n_found = kept;
    m->too_large = m->too_large || kept > MACHINE_MAX_PAIRS;
    if (m->stacks.status != ST_OK)
        run_out(m, m->stacks.status);
}

/* ---- the table of states ---- */

static uint64_t hash_pairs(bool accepts, const struct machine_pair *pairs, uint32_t n)
{
    return hash_bytes(accepts, pairs, n * sizeof *pairs);
}

static enum status grow_table(struct machine *m)
{
    uint32_t n = m->n_table * 2;
    uint32_t *table = calloc(n, sizeof *table);
    if (!table)
        FAIL(ST_NOMEM, "no memory for a grammar's states");
    for (uint32_t s = 1; s < m->n_states; s++) {
        const struct state *t = &m->states[s];
        uint32_t at = (uint32_t)hash_pairs(t->accepts, m->pairs + t->pairs, t->n_pairs) & (n - 1);
        while (table[at])
            at = (at + 1) & (n - 1);
        table[at] = s + 1;
    }
    free(m->table);
    m->table = table;
    m->n_table = n;
    return ST_OK;
}

static enum status add_state(struct machine *m, uint32_t slot)
{
    uint32_t n_classes = expr_n_classes(m->rules->pool);
    TRY(GROW(&m->states, &m->cap_states, (size_t)m->n_states + 1, MACHINE_MAX_STATES, "states"));
    TRY(GROW(&m->pairs, &m->cap_pairs, (size_t)m->n_pairs + m->n_found, MACHINE_MAX_WORDS / 2,
             "pairs"));
    TRY(GROW(&m->rows, &m->cap_rows, (size_t)m->n_rows + n_classes, MACHINE_MAX_WORDS,
             "transitions"));
    m->states[m->n_states] = (struct state){
        .pairs = m->n_pairs, .n_pairs = m->n_found, .row = m->n_rows, .accepts = m->accepts};
    if (m->n_found)
        memcpy(m->pairs + m->n_pairs, m->found, m->n_found * sizeof *m->found);
    m->n_pairs += m->n_found;
    memset(m->rows + m->n_rows, 0xff, n_classes * sizeof *m->rows);
    m->n_rows += n_classes;
    m->table[slot] = ++m->n_states;
    return 2 * m->n_states >= m->n_table ? grow_table(m) : ST_OK;
}

/* The state of what was found. */
static uint32_t end_state(struct machine *m)
{
    close_rules(m);
    if (!m->full && !m->too_large)
        merge_pairs(m);
    if (m->full || m->too_large || (m->n_found == 0 && !m->accepts))
        return MACHINE_DEAD;
    uint32_t mask = m->n_table - 1;
    uint32_t at = (uint32_t)hash_pairs(m->accepts, m->found, m->n_found) & mask;
    for (; m->table[at]; at = (at + 1) & mask) {
        const struct state *s = &m->states[m->table[at] - 1];
        if (s->accepts == m->accepts && s->n_pairs == m->n_found &&
            (s->n_pairs == 0 ||
             memcmp(m->pairs + s->pairs, m->found, m->n_found * sizeof *m->found) == 0))
            return m->table[at] - 1;
    }
    enum status st = add_state(m, at);
    if (st != ST_OK) {
        run_out(m, st);
        return MACHINE_DEAD;
    }
    return m->n_states - 1;
}

uint32_t machine_start(struct machine *m)
{
    begin_state(m);
    enter(m, m->root, STACKS_BOTTOM);
    return end_state(m);
}

static uint32_t make_next(struct machine *m, uint32_t state, uint32_t class_id)
{
    struct expr_pool *pool = m->rules->pool;
    const struct state s = m->states[state];
    begin_state(m);
    for (uint32_t i = 0; i < s.n_pairs && !m->full; i++) {
        struct machine_pair p = m->pairs[s.pairs + i];
        m->steps += expr_weight(pool, p.expr);
        uint32_t d = expr_derive(pool, p.expr, class_id);
        if (expr_known_empty(pool, d))
            continue;
        if (d != EXPR_EMPTY)
            add_pair(m, d, p.stacks);
        if (expr_nullable(pool, d))
            enter(m, RESUME, p.stacks);
    }
    uint32_t next = end_state(m);
    if (m->full)
        return MACHINE_DEAD;
    /* a state that is too large is given up somewhere, which depends on the order of its pairs */
    uint32_t steps = m->too_large ? MAX_STEPS : m->steps, at = s.row + class_id;
    enum status st = steps > MACHINE_LIGHT ? heavy_add(&m->heavy, at, steps) : ST_OK;
    if (st != ST_OK) {
        run_out(m, st);
        return MACHINE_DEAD;
    }
    m->rows[at] = steps > MACHINE_LIGHT ? next | MACHINE_HEAVY : next;
    return next;
}

uint32_t machine_next(struct machine *m, uint32_t state, uint8_t byte)
{
    uint32_t class_id = expr_classes(m->rules->pool)[byte];
    if (state == MACHINE_DEAD)
        return MACHINE_DEAD;
    uint32_t next = m->rows[m->states[state].row + class_id];
    return next != MACHINE_UNKNOWN ? next & ~(uint32_t)MACHINE_HEAVY
                                   : make_next(m, state, class_id);
}

bool machine_accepts(const struct machine *m, uint32_t state)
{
    return m->states[state].accepts;
}

/* ---- for masks ---- */

const struct machine_pair *machine_pairs(const struct machine *m, uint32_t state, uint32_t *n)
{
    *n = m->states[state].n_pairs;
    return *n ? m->pairs + m->states[state].pairs : NULL;
}

uint32_t machine_far(struct machine *m, uint32_t state, uint32_t most)
{
    const struct state s = m->states[state];
    bool same = true;
    if (state == MACHINE_DEAD)
        return state;
    begin_state(m);
    m->accepts = s.accepts;
    for (uint32_t i = 0; i < s.n_pairs && !m->full; i++) {
        struct machine_pair p = m->pairs[s.pairs + i];
        uint32_t e = expr_far(m->rules->pool, p.expr, most);
        same = same && e == p.expr;
        add_pair(m, e, p.stacks);
    }
    if (same)
        return state;
    uint32_t far = end_state(m);
    return m->full || m->too_large ? state : far;
}

struct expr_pool *machine_exprs(const struct machine *m)
{
    return m->rules->pool;
}

uint32_t machine_n_states(const struct machine *m)
{
    return m->n_states;
}

const uint32_t *machine_row(const struct machine *m, uint32_t state)
{
    return m->rows + m->states[state].row;
}

void machine_begin_work(struct machine *m)
{
    heavy_begin(&m->heavy);
}

uint32_t machine_work(struct machine *m, uint32_t state, uint8_t byte)
{
    return heavy_count(&m->heavy, m->states[state].row + expr_classes(m->rules->pool)[byte]);
}

const char *machine_place(const struct machine *m, uint32_t state)
{
    uint32_t n, stacks = STACKS_BOTTOM;
    if (m->states[state].n_pairs)
        stacks = m->pairs[m->states[state].pairs].stacks;
    const struct stack_top *tops = stacks_tops(&m->stacks, stacks, &n);
    bool inside = n > 0 && tops[0].frame.rule != STACK_BOTTOM;
    return rules_place(m->rules, inside ? tops[0].frame.rule : m->root);
}
