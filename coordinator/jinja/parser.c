/* The parser's place among the tokens, and the making of nodes. */
#include "coordinator/jinja/parser.h"

#include <string.h>

enum { MAX_DEPTH = 150 }; /* nested expressions or blocks */

bool jp_is_op(const struct jtoken *t, const char *op)
{
    return t->type == T_OP && t->p[0] == op[0] && t->n == strlen(op) &&
           (t->n == 1 || t->p[1] == op[1]);
}

bool jp_is_name(const struct jtoken *t, const char *name)
{
    return t->type == T_NAME && t->n == strlen(name) && memcmp(t->p, name, t->n) == 0;
}

bool jp_skip_op(struct jparser *p, const char *op)
{
    bool is = jp_is_op(jp_current(p), op);
    p->at += is;
    return is;
}

bool jp_skip_name(struct jparser *p, const char *name)
{
    bool is = jp_is_name(jp_current(p), name);
    p->at += is;
    return is;
}

enum status jp_unexpected(const struct jparser *p, const char *wanted)
{
    const struct jtoken *t = jp_current(p);
    if (t->type == T_EOF)
        PARSE_FAIL("%u: expected %s, found the end of the template", t->line, wanted);
    PARSE_FAIL("%u: expected %s, found '%.*s'", t->line, wanted, (int)(t->n < 40 ? t->n : 40),
               t->p);
}

enum status jp_expect_op(struct jparser *p, const char *op)
{
    char wanted[8] = {'\'', op[0], '\'', 0};
    return jp_skip_op(p, op) ? ST_OK : jp_unexpected(p, wanted);
}

enum status jtree_intern(struct jmem *m, struct jtree *t, const char *p, size_t n,
                         struct jsym **out)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 16777619u;
    struct jsym **bucket = &t->buckets[h & (t->n_buckets - 1)];
    for (struct jsym *s = *bucket; s; s = s->next) {
        if (jstr_is(&s->s, p, n)) {
            *out = s;
            return ST_OK;
        }
    }
    struct jsym *s = jmem_alloc(m, sizeof *s);
    if (!s)
        return jmem_full(m);
    *s = (struct jsym){.s = {p, n, n}, .index = t->n_syms++, .next = *bucket};
    *bucket = s;
    *out = s;
    return ST_OK;
}

enum status jp_take_name(struct jparser *p, const struct jsym **out)
{
    const struct jtoken *t = jp_current(p);
    struct jsym *s;
    if (t->type != T_NAME)
        return jp_unexpected(p, "a name");
    p->at++;
    TRY(jtree_intern(p->mem, p->tree, t->p, t->n, &s));
    *out = s;
    return ST_OK;
}

enum status jp_node(struct jparser *p, enum jnode_type type, uint32_t line, struct jnode **out)
{
    struct jnode *n = jmem_alloc(p->mem, sizeof *n);
    if (!n)
        return jmem_full(p->mem);
    *n = (struct jnode){.type = (uint8_t)type, .line = line};
    *out = n;
    return ST_OK;
}

enum status jp_push(struct jparser *p, struct jbody *body, struct jnode *n)
{
    if ((body->n & (body->n - 1)) == 0) { /* full at 0, 1, 2, 4, ... */
        struct jnode **items = jmem_array(p->mem, body->n ? body->n * 2 : 1, sizeof(*items));
        if (!items)
            return jmem_full(p->mem);
        if (body->n)
            memcpy(items, body->items, body->n * sizeof(*items));
        body->items = items;
    }
    body->items[body->n++] = n;
    return ST_OK;
}

enum status jp_enter(struct jparser *p)
{
    if (++p->depth > MAX_DEPTH)
        PARSE_FAIL("%u: nested deeper than %d", jp_current(p)->line, MAX_DEPTH);
    return ST_OK;
}
