#include "common/grammar/regex.h"

#include <stdlib.h>

#include "common/grammar/regex_parse.h"

struct compiler {
    struct expr_pool *pool;
    const struct regex_tree *tree;
};

/* Where a part is in the text. */
struct place {
    bool begin, end;         /* nothing is before it, behind it */
    bool may_begin, may_end; /* only texts that may be empty are */
};

static enum status compile(const struct compiler *k, uint32_t node, struct place at, uint32_t *out);

/* Does the node match only at a border, without any character? */
static bool is_border(const struct compiler *k, uint32_t node)
{
    const struct regex_node *n = &k->tree->nodes[node];
    switch (n->kind) {
    case RX_EMPTY:
    case RX_BEGIN:
    case RX_END:
        return true;
    case RX_CONCAT:
    case RX_OR:
        return is_border(k, n->a) && is_border(k, n->b);
    default:
        return false;
    }
}

static bool may_be_empty(const struct compiler *k, uint32_t node)
{
    const struct regex_node *n = &k->tree->nodes[node];
    switch (n->kind) {
    case RX_SET:
        return false;
    case RX_CONCAT:
        return may_be_empty(k, n->a) && may_be_empty(k, n->b);
    case RX_OR:
        return may_be_empty(k, n->a) || may_be_empty(k, n->b);
    case RX_REPEAT:
        return n->min == 0 || may_be_empty(k, n->a);
    default:
        return true;
    }
}

static bool has_border(const struct compiler *k, uint32_t node)
{
    const struct regex_node *n = &k->tree->nodes[node];
    switch (n->kind) {
    case RX_BEGIN:
    case RX_END:
        return true;
    case RX_CONCAT:
    case RX_OR:
        return has_border(k, n->a) || has_border(k, n->b);
    case RX_REPEAT:
        return has_border(k, n->a);
    default:
        return false;
    }
}

/* A list of concatenated items is a left comb of CONCAT nodes; done without recursion along the comb. */
static enum status compile_concat(const struct compiler *k, uint32_t node, struct place at,
                                  uint32_t *out)
{
    const struct regex_node *nodes = k->tree->nodes;
    uint32_t n = 0, e;
    for (uint32_t i = node; nodes[i].kind == RX_CONCAT; i = nodes[i].a)
        n++;
    uint32_t *items = malloc((n + 1) * sizeof *items);
    struct place *places = malloc((n + 1) * sizeof *places);
    enum status st = items && places ? ST_OK : ST_NOMEM;
    for (uint32_t i = node, left = n; st == ST_OK && left > 0; i = nodes[i].a)
        items[--left] = nodes[i].b;
    struct place now = at;
    for (uint32_t i = 0; st == ST_OK && i < n; i++) { /* what is before each */
        places[i] = now;
        now.begin = now.begin && is_border(k, items[i]);
        now.may_begin = now.may_begin && may_be_empty(k, items[i]);
    }
    *out = EXPR_EMPTY;
    now = at;
    for (uint32_t i = n; st == ST_OK && i-- > 0;) { /* and behind */
        places[i].end = now.end;
        places[i].may_end = now.may_end;
        now.end = now.end && is_border(k, items[i]);
        now.may_end = now.may_end && may_be_empty(k, items[i]);
        st = compile(k, items[i], places[i], &e);
        if (st == ST_OK)
            *out = expr_concat(k->pool, e, *out);
    }
    free(items);
    free(places);
    return st;
}

static enum status compile_border(const struct regex_node *n, bool here, bool maybe, uint32_t *out)
{
    if (!here && maybe)
        FAIL(ST_UNSUPPORTED,
             "regular expression, byte %u: %s is supported only at the border of the text", n->at,
             n->kind == RX_BEGIN ? "^" : "$");
    *out = here ? EXPR_EMPTY : EXPR_NONE;
    return ST_OK;
}

static enum status compile(const struct compiler *k, uint32_t node, struct place at, uint32_t *out)
{
    const struct regex_node *n = &k->tree->nodes[node];
    uint32_t a, b;
    switch (n->kind) {
    case RX_EMPTY:
        *out = EXPR_EMPTY;
        return ST_OK;
    case RX_SET:
        *out = n->expr;
        return ST_OK;
    case RX_BEGIN:
        return compile_border(n, at.begin, at.may_begin, out);
    case RX_END:
        return compile_border(n, at.end, at.may_end, out);
    case RX_CONCAT:
        return compile_concat(k, node, at, out);
    case RX_OR:
        TRY(compile(k, n->a, at, &a));
        TRY(compile(k, n->b, at, &b));
        *out = expr_or2(k->pool, a, b);
        return ST_OK;
    case RX_REPEAT:
        if (has_border(k, n->a))
            FAIL(ST_UNSUPPORTED,
                 "regular expression, byte %u: ^ and $ are not supported in a repetition", n->at);
        TRY(compile(k, n->a, at, &a));
        *out = expr_repeat(k->pool, a, n->min, n->max);
        return ST_OK;
    }
    return ST_OK;
}

/* The texts that contain a match: before and behind it there is nothing, or something. */
static enum status search(const struct compiler *k, enum text_form form, uint32_t *out)
{
    struct expr_pool *p = k->pool;
    uint32_t any = charset_any(p, form);
    uint32_t some = expr_repeat(p, any, 1, EXPR_NO_LIMIT),
             all = expr_repeat(p, any, 0, EXPR_NO_LIMIT);
    uint32_t e[2][2]; /* [something is before][and behind] */
    for (int before = 0; before < 2; before++)
        for (int behind = 0; behind < 2; behind++) {
            struct place at = {!before, !behind, !before, !behind};
            TRY(compile(k, k->tree->root, at, &e[before][behind]));
        }
    uint32_t with[2];
    for (int before = 0; before < 2; before++)
        with[before] = e[before][0] == e[before][1]
                           ? expr_concat(p, e[before][0], all)
                           : expr_or2(p, e[before][0], expr_concat(p, e[before][1], some));
    *out = with[0] == with[1] ? expr_concat(p, all, with[0])
                              : expr_or2(p, with[0], expr_concat(p, some, with[1]));
    return ST_OK;
}

enum status regex_compile(struct expr_pool *p, const char *pattern, size_t n,
                          enum regex_match match, enum text_form form, uint32_t *out)
{
    struct regex_tree tree = {0};
    struct compiler k = {p, &tree};
    enum status st = regex_parse(&tree, p, pattern, n, form);
    if (st == ST_OK && match == REGEX_SEARCH)
        st = search(&k, form, out);
    else if (st == ST_OK)
        st = compile(&k, tree.root, (struct place){true, true, true, true}, out);
    free(tree.nodes);
    return st == ST_OK ? expr_status(p) : st;
}
