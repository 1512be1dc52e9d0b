/* What the parts of the parser share.  Internal to the parse*.c files. */
#ifndef COORDINATOR_JINJA_PARSER_H
#define COORDINATOR_JINJA_PARSER_H

#include "coordinator/jinja/ast.h"
#include "coordinator/jinja/lex.h"

struct jmacro_level { /* the macros and call blocks around what is being parsed */
    struct jmacro_level *outer;
    struct jsignature *signature;
};

struct jparser {
    struct jmem *mem;
    struct jtree *tree;
    struct jtokens tokens;
    size_t at;
    unsigned depth;
    unsigned loops; /* around what is being parsed, within the innermost macro */
    struct jmacro_level *macros;
};

#define PARSE_FAIL(...) FAIL(ST_FORMAT, "chat template line " __VA_ARGS__)

static inline struct jtoken *jp_current(const struct jparser *p)
{
    return &p->tokens.items[p->at];
}

static inline struct jtoken *jp_next_token(const struct jparser *p) /* the one after it */
{
    return &p->tokens.items[p->at + (p->at + 1 < p->tokens.n)];
}

bool jp_is_op(const struct jtoken *t, const char *op);
bool jp_is_name(const struct jtoken *t, const char *name);
bool jp_skip_op(struct jparser *p, const char *op);
bool jp_skip_name(struct jparser *p, const char *name);
MUST_CHECK enum status jp_expect_op(struct jparser *p, const char *op);
/* Takes a name and interns it. */
MUST_CHECK enum status jp_take_name(struct jparser *p, const struct jsym **out);
MUST_CHECK enum status jp_unexpected(const struct jparser *p, const char *wanted);

MUST_CHECK enum status jp_node(struct jparser *p, enum jnode_type type, uint32_t line,
                               struct jnode **out);
MUST_CHECK enum status jp_push(struct jparser *p, struct jbody *body, struct jnode *n);
MUST_CHECK enum status jp_enter(struct jparser *p);

MUST_CHECK enum status jp_expression(struct jparser *p, bool with_condition, struct jnode **out);
/* A name, constant, list, dict or something in parentheses. */
MUST_CHECK enum status jp_primary(struct jparser *p, struct jnode **out);
/* The subscripts and calls behind *node, and then its filters and tests. */
MUST_CHECK enum status jp_postfix(struct jparser *p, struct jnode **node);
MUST_CHECK enum status jp_filter_expr(struct jparser *p, struct jnode **node);
/* One expression, or a tuple of those between commas; name_end (may be NULL) is a name that ends
 * it. */
MUST_CHECK enum status jp_tuple(struct jparser *p, bool with_condition, const char *name_end,
                                bool in_parentheses, struct jnode **out);
/* Names, namespace attributes (when allowed) or a tuple of them. */
MUST_CHECK enum status jp_target(struct jparser *p, bool with_namespace, const char *name_end,
                                 struct jnode **out);
/* name(args)|name... applied to in (NULL in a filter block); the first name needs no bar when
 * inline. */
MUST_CHECK enum status jp_filters(struct jparser *p, struct jnode *in, bool first_inline,
                                  struct jnode **out);

#endif
