#include "common/grammar/grammar.h"

#include <stdlib.h>

#include "common/grammar/charset.h"
#include "common/grammar/growing.h"
#include "common/grammar/mask.h"
#include "common/grammar/source.h"
#include "common/grammar/tags.h"
#include "common/utf8.h"

struct grammar {
    struct rules rules;
    struct machine *machine;
    struct mask_cache *masks;
    uint64_t n_work; /* steps of compiling */
    enum grammar_kind kind;
    struct thinking_rule *thinking; /* of the kinds with a budget */
};

struct matcher {
    struct grammar *g;
    uint32_t generation; /* of the machine whose states these are */
    uint8_t *bytes;      /* [n] */
    uint32_t *states;    /* [n + 1]; states[0] is before any byte */
    uint32_t n, cap_bytes, cap_states;
};

/* ---- compiling ---- */

static enum status compile_source(struct rules *r, const struct grammar_source *s, uint32_t *root)
{
    if (s->n > GRAMMAR_MAX_BYTES)
        FAIL(ST_RANGE, "the source of %zu bytes is longer than %d", s->n, GRAMMAR_MAX_BYTES);
    if (!utf8_valid(s->text, s->n))
        FAIL(ST_FORMAT, "the source is not UTF-8");
    return s->kind == GRAMMAR_TAGS ? tags_compile(r, s->text, s->n, root)
                                   : source_compile(r, s, root);
}

/* Takes the budget of thinking off: what is left is the tags of the text. */
static enum status take_thinking(struct grammar *g, struct grammar_source *s)
{
    static const char any[] = "{\"free\":{}}";
    struct json_span answer;
    if (s->kind != GRAMMAR_THINKING && s->kind != GRAMMAR_THINKING_TAGS)
        return ST_OK;
    g->thinking = malloc(sizeof *g->thinking);
    if (!g->thinking)
        FAIL(ST_NOMEM, "no memory for a budget of thinking");
    TRY(thinking_read(g->thinking, s->text, s->n, &answer));
    if ((s->kind == GRAMMAR_THINKING_TAGS) != (answer.p != NULL))
        FAIL(ST_FORMAT, "a budget of thinking %s",
             answer.p ? "alone has no answer" : "with tags needs an answer");
    *s = answer.p ? (struct grammar_source){GRAMMAR_TAGS, answer.p, answer.n}
                  : (struct grammar_source){GRAMMAR_TAGS, any, sizeof any - 1};
    return ST_OK;
}

static enum status build(struct grammar *g, struct grammar_source *source,
                         struct grammar_work *work)
{
    uint32_t root = 0;
    TRY(rules_init(&g->rules, work));
    TRY(take_thinking(g, source));
    uint32_t plain = charset_json_plain(g->rules.pool);
    TRY(compile_source(&g->rules, source, &root));
    TRY(rules_finish(&g->rules, root));
    TRY(machine_create(&g->machine, &g->rules, root));
    return mask_cache_create(&g->masks, plain);
}

/* The failure of a compile whose work is spent, or unwanted. */
static enum status fail_work(const struct grammar *g, const struct grammar_work *work)
{
    if (work->status == ST_CANCELED)
        FAIL(ST_CANCELED, "the grammar is not wanted any more");
    if (work->status == ST_NOMEM)
        FAIL(ST_NOMEM, "no memory for a grammar");
    FAIL(ST_RANGE, "%s: compiling this takes more than %d steps", rules_at_place(&g->rules),
         GRAMMAR_MAX_WORK);
}

enum status grammar_compile(struct grammar **out, const struct grammar_source *source,
                            const atomic_bool *stop)
{
    struct grammar_work work = {.left = GRAMMAR_MAX_WORK, .stop = stop};
    *out = NULL;
    struct grammar *g = calloc(1, sizeof *g);
    if (!g)
        FAIL(ST_NOMEM, "no memory for a grammar");
    struct grammar_source left = *source;
    g->kind = source->kind;
    enum status st = build(g, &left, &work);
    if (work.status != ST_OK)
        st = fail_work(g, &work);
    if (st != ST_OK) {
        grammar_destroy(g);
        return st;
    }
    rules_count_work(&g->rules, NULL);
    g->n_work = GRAMMAR_MAX_WORK - work.left;
    *out = g;
    return ST_OK;
}

uint64_t grammar_work(const struct grammar *g)
{
    return g->n_work;
}

void grammar_destroy(struct grammar *g)
{
    if (!g)
        return;
    mask_cache_destroy(g->masks);
    machine_destroy(g->machine);
    rules_fini(&g->rules);
    free(g->thinking);
    free(g);
}

const struct thinking_rule *grammar_thinking(const struct grammar *g)
{
    return g->thinking;
}

bool grammar_is_open(const struct grammar *g)
{
    return grammar_kind_is_open(g->kind);
}

size_t grammar_bytes(const struct grammar *g)
{
    return sizeof *g + (g->thinking ? sizeof *g->thinking : 0) + machine_bytes(g->machine) +
           mask_cache_bytes(g->masks);
}

void grammar_shrink(struct grammar *g)
{
    mask_cache_shrink(g->masks);
    machine_shrink(g->machine);
}

uint32_t grammar_n_states(const struct grammar *g)
{
    return machine_n_states(g->machine);
}

/* ---- matchers ---- */

enum { MAX_TEXT = 1 << 28 }; /* bytes of a matcher */

/* Takes all states again if the machine has forgotten them.  The bytes were accepted before, and fit into an empty
 * machine. */
static void renew(struct matcher *m)
{
    struct machine *x = m->g->machine;
    while (m->generation != machine_generation(x) || machine_full(x)) {
        if (machine_full(x))
            machine_flush(x);
        m->generation = machine_generation(x);
        m->states[0] = machine_start(x);
        for (uint32_t i = 0; i < m->n && !machine_full(x); i++)
            m->states[i + 1] = machine_next(x, m->states[i], m->bytes[i]);
        if (machine_no_memory(x)) { /* the states are to be taken again */
            m->generation--;
            return;
        }
        if (machine_full(x))
            return; /* one text alone fills it: its last states are dead */
    }
}

static uint32_t state_of(struct matcher *m)
{
    if (m->generation != machine_generation(m->g->machine))
        renew(m);
    return m->states[m->n];
}

enum status matcher_create(struct matcher **out, struct grammar *g)
{
    *out = NULL;
    struct matcher *m = calloc(1, sizeof *m);
    if (!m || GROW(&m->states, &m->cap_states, 1, 64, "states") != ST_OK) {
        free(m);
        FAIL(ST_NOMEM, "no memory for a matcher");
    }
    m->g = g;
    m->generation = machine_generation(g->machine);
    m->states[0] = machine_start(g->machine);
    *out = m;
    return ST_OK;
}

void matcher_destroy(struct matcher *m)
{
    if (!m)
        return;
    free(m->bytes);
    free(m->states);
    free(m);
}

enum status matcher_copy(struct matcher **out, const struct matcher *m)
{
    bool ok;
    TRY(matcher_create(out, m->g));
    enum status st = matcher_consume(*out, m->bytes, m->n, &ok);
    if (st != ST_OK) {
        matcher_destroy(*out);
        *out = NULL;
    }
    return st;
}

enum status matcher_consume(struct matcher *m, const void *bytes, size_t n, bool *ok)
{
    const uint8_t *p = bytes;
    struct machine *x = m->g->machine;
    uint32_t state = state_of(m), begin = m->n;
    *ok = false;
    TRY(GROW(&m->bytes, &m->cap_bytes, m->n + n, MAX_TEXT, "the bytes of an answer"));
    TRY(GROW(&m->states, &m->cap_states, m->n + n + 1, MAX_TEXT + 1, "the bytes of an answer"));
    for (size_t i = 0; i < n && state != MACHINE_DEAD; i++) {
        uint32_t next = machine_next(x, state, p[i]);
        if (machine_full(x)) {
            renew(m);
            next = machine_next(x, m->states[m->n], p[i]);
        }
        state = next;
        m->bytes[m->n] = p[i];
        m->states[++m->n] = state;
    }
    if (machine_no_memory(x)) {
        m->n = begin;
        FAIL(ST_NOMEM, "no memory for the states of a grammar");
    }
    *ok = state != MACHINE_DEAD || n == 0;
    if (!*ok)
        m->n = begin;
    return ST_OK;
}

void matcher_rollback(struct matcher *m, size_t n)
{
    m->n -= (uint32_t)n;
}

size_t matcher_n_bytes(const struct matcher *m)
{
    return m->n;
}

void matcher_reset(struct matcher *m)
{
    m->n = 0;
}

bool matcher_accepts(struct matcher *m)
{
    return machine_accepts(m->g->machine, state_of(m));
}

const char *matcher_place(struct matcher *m)
{
    return machine_place(m->g->machine, state_of(m));
}

static void count(const uint32_t *mask, uint32_t n_words, uint32_t *n, int32_t *only)
{
    *n = 0;
    *only = -1;
    for (uint32_t w = 0; w < n_words; w++) {
        if (mask[w] && *only < 0)
            *only = (int32_t)(32 * w) + __builtin_ctz(mask[w]);
        *n += (uint32_t)__builtin_popcount(mask[w]);
    }
}

enum status matcher_mask(struct matcher *m, const struct token_trie *trie, uint32_t *mask,
                         uint32_t *n, int32_t *only, bool *cached)
{
    struct machine *x = m->g->machine;
    const uint32_t *words = mask_of(m->g->masks, x, trie, state_of(m), cached);
    if (words && machine_full(x)) { /* once more with empty tables */
        renew(m);
        words = mask_of(m->g->masks, x, trie, m->states[m->n], cached);
    }
    if (!words || machine_no_memory(x))
        FAIL(ST_NOMEM, "no memory for a mask of %u tokens", trie->n_tokens);
    if (machine_full(x) || mask_too_dear(m->g->masks))
        FAIL(ST_RANGE, "%s: the tokens that may follow take more than %d steps to find",
             matcher_place(m), MASK_MAX_WORK);
    memcpy(mask, words, trie->n_words * sizeof *mask);
    count(mask, trie->n_words, n, only);
    return ST_OK;
}
