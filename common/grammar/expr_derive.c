/* Byte classes and derivatives. */
#include "common/grammar/expr_impl.h"
#include "common/grammar/growing.h"

#define NOT_MADE UINT32_MAX /* a derivative */

/* ---- classes ---- */

/* Divides each class by the set. */
static void refine(struct expr_pool *p, const uint32_t *set)
{
    uint8_t moved[256];
    bool has[256] = {false}, lacks[256] = {false}, renamed[256] = {false};
    for (unsigned b = 0; b < 256; b++)
        (set[b / 32] >> (b % 32) & 1 ? has : lacks)[p->classes[b]] = true;
    uint32_t n = p->n_classes;
    for (uint32_t c = 0; c < n; c++)
        if (has[c] && lacks[c]) {
            renamed[c] = true;
            moved[c] = (uint8_t)p->n_classes++;
        }
    for (unsigned b = 0; b < 256; b++)
        if ((set[b / 32] >> (b % 32) & 1) && renamed[p->classes[b]])
            p->classes[b] = moved[p->classes[b]];
}

void expr_freeze(struct expr_pool *p)
{
    bool digits = false;
    p->n_classes = 1;
    memset(p->classes, 0, sizeof p->classes);
    for (uint32_t e = 0; e < p->n_nodes && p->n_classes < 256; e++) {
        if (p->nodes[e].kind == EK_BYTES)
            refine(p, expr_operands(p, e));
        digits = digits || p->nodes[e].kind == EK_MULTIPLE;
    }
    static const char number[] = "0123456789.";
    for (size_t i = 0; digits && number[i]; i++) {
        struct byte_set one = {{0}};
        byte_set_add(&one, (uint8_t)number[i], (uint8_t)number[i]);
        refine(p, one.words);
    }
    for (unsigned b = 0; b < 256; b++)
        p->first_of[p->classes[b]] = (uint8_t)b;
    for (uint32_t e = 0; e < p->n_nodes; e++)
        p->nodes[e].row = 0;
    p->n_rows = p->n_classes; /* row 0 means none */
    p->base_nodes = p->n_nodes;
    p->base_words = p->n_words;
}

uint32_t expr_n_classes(const struct expr_pool *p)
{
    return p->n_classes;
}

const uint8_t *expr_classes(const struct expr_pool *p)
{
    return p->classes;
}

/* ---- derivatives ---- */

static uint32_t derive_list(struct expr_pool *p, uint32_t e, uint32_t class_id)
{
    enum { INLINE = 64 };
    uint32_t n = p->nodes[e].n_words, space[INLINE], result;
    bool is_or = p->nodes[e].kind == EK_OR;
    uint32_t *list = n <= INLINE ? space : malloc(n * sizeof *list);
    if (!list) {
        p->status = ST_NOMEM;
        return EXPR_NONE;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = expr_derive(p, expr_operands(p, e)[i], class_id);
        if (!is_or || d != EXPR_NONE)
            list[kept++] = d;
    }
    if (is_or)
        result = kept == 0 ? EXPR_NONE : kept == 1 ? list[0] : expr_or(p, list, kept);
    else
        result = expr_and(p, list, kept);
    if (list != space)
        free(list);
    return result;
}

static uint32_t derive_repeat(struct expr_pool *p, const uint32_t w[3], uint32_t class_id)
{
    uint32_t min = w[1] ? w[1] - 1 : 0, max = w[2] == EXPR_NO_LIMIT ? w[2] : w[2] - 1;
    uint32_t d = expr_derive(p, w[0], class_id);
    return d == EXPR_NONE ? d : expr_concat(p, d, expr_repeat(p, w[0], min, max));
}

static uint32_t derive_multiple(struct expr_pool *p, const uint32_t w[4], unsigned byte)
{
    uint32_t next[4] = {w[0], w[1], w[2], w[3]};
    if (byte == '.' && !w[3]) {
        next[3] = 1;
    } else if (byte >= '0' && byte <= '9' && !(w[3] && w[2] == 0 && byte != '0')) {
        bool scaled = w[3] && w[2] == 0; /* a zero behind the last decimal that counts */
        next[1] = scaled ? w[1] : (uint32_t)(((uint64_t)w[1] * 10 + (byte - '0')) % w[0]);
        next[2] -= w[3] && w[2] > 0;
    } else {
        return EXPR_NONE;
    }
    return expr_make(p, EK_MULTIPLE, next, 4);
}

static uint32_t derivative(struct expr_pool *p, uint32_t e, uint32_t class_id)
{
    const struct expr_node *n = &p->nodes[e];
    uint32_t w[4] = {0};
    struct byte_set set;
    if (n->n_words <= 4 && n->n_words) /* making expressions moves the words */
        memcpy(w, expr_operands(p, e), n->n_words * sizeof *w);
    switch ((enum expr_kind)n->kind) {
    case EK_NONE:
    case EK_EMPTY:
        return EXPR_NONE;
    case EK_BYTES:
        memcpy(&set, expr_operands(p, e), sizeof set);
        return byte_set_has(&set, p->first_of[class_id]) ? EXPR_EMPTY : EXPR_NONE;
    case EK_CONCAT: {
        bool skip = p->nodes[w[0]].nullable;
        uint32_t d = expr_concat(p, expr_derive(p, w[0], class_id), w[1]);
        return skip ? expr_or2(p, d, expr_derive(p, w[1], class_id)) : d;
    }
    case EK_OR:
    case EK_AND:
        return derive_list(p, e, class_id);
    case EK_NOT:
        return expr_not(p, expr_derive(p, w[0], class_id));
    case EK_REPEAT:
        return derive_repeat(p, w, class_id);
    case EK_MULTIPLE:
        return derive_multiple(p, w, p->first_of[class_id]);
    }
    return EXPR_NONE;
}

/* The row of e's transitions, made if there is none; NULL after a failure. */
static uint32_t *row_of(struct expr_pool *p, uint32_t e)
{
    if (p->nodes[e].row == 0) {
        size_t end = (size_t)p->n_rows + p->n_classes;
        work_spend(p->work, 1 + p->n_classes / 4);
        enum status st =
            GROW(&p->rows, &p->cap_rows, end, EXPR_MAX_DERIVED, "a grammar's transitions");
        if (st != ST_OK) {
            p->status = st;
            return NULL;
        }
        memset(p->rows + p->n_rows, 0xff, p->n_classes * sizeof *p->rows);
        p->nodes[e].row = p->n_rows;
        p->n_rows = (uint32_t)end;
    }
    return p->rows + p->nodes[e].row;
}

uint32_t expr_weight(const struct expr_pool *p, uint32_t e)
{
    const struct expr_node *n = &p->nodes[e];
    while (n->kind == EK_CONCAT || n->kind == EK_REPEAT || n->kind == EK_NOT)
        n = &p->nodes[p->words[n->words]];
    return n->kind == EK_OR || n->kind == EK_AND ? n->n_words : 1;
}

uint32_t expr_derive(struct expr_pool *p, uint32_t e, uint32_t class_id)
{
    enum expr_kind kind = (enum expr_kind)p->nodes[e].kind;
    work_spend(p->work, 1);
    if (kind == EK_NONE || kind == EK_EMPTY || kind == EK_BYTES)
        return derivative(p, e, class_id); /* quicker than a row */
    uint32_t *row = row_of(p, e);
    if (!row)
        return EXPR_NONE;
    if (row[class_id] != NOT_MADE)
        return row[class_id];
    uint32_t d = derivative(p, e, class_id);
    if (p->status != ST_OK)
        return EXPR_NONE;
    p->rows[p->nodes[e].row + class_id] = d;
    return d;
}

bool expr_matches(struct expr_pool *p, uint32_t e, const void *text, size_t n)
{
    const uint8_t *s = text;
    for (size_t i = 0; i < n && e != EXPR_NONE && p->status == ST_OK; i++)
        e = expr_derive(p, e, s[i]);
    return expr_nullable(p, e);
}

bool expr_nearly_full(const struct expr_pool *p)
{
    return p->status != ST_OK || p->n_nodes > EXPR_MAX / 4 * 3 ||
           p->n_words > EXPR_MAX_WORDS / 4 * 3 || p->n_rows > EXPR_MAX_DERIVED / 4 * 3;
}

void expr_trim(struct expr_pool *p)
{
    p->n_nodes = p->base_nodes;
    p->n_words = p->base_words;
    p->n_rows = p->n_classes;
    for (uint32_t e = 0; e < p->n_nodes; e++)
        p->nodes[e].row = 0;
    p->status = expr_rehash(p);
}

void expr_shrink(struct expr_pool *p)
{
    SHRINK(&p->nodes, &p->cap_nodes, p->n_nodes);
    SHRINK(&p->words, &p->cap_words, p->n_words);
    SHRINK(&p->rows, &p->cap_rows, p->n_rows);
}

size_t expr_pool_bytes(const struct expr_pool *p)
{
    return p->cap_nodes * sizeof *p->nodes + p->n_table * sizeof *p->table +
           ((size_t)p->cap_words + p->cap_rows) * sizeof *p->words +
           p->cap_lengths * sizeof *p->lengths + p->lengths_bytes;
}
