/* The compiler from JSON Schema to rules, in parts: schema.c (conjunctions of schemas, references, alternatives),
 * schema_keywords.c (which keywords are read), schema_values.c (null to number and string, enum and const),
 * schema_array.c, schema_object.c.
 *
 * A conjunction is a list of schemas (nodes of the tree) that a value must satisfy together.  Its rule is made once;
 * the rule of one that is in progress is reserved first, so that references may be recursive. */
#ifndef COMMON_GRAMMAR_SCHEMA_IMPL_H
#define COMMON_GRAMMAR_SCHEMA_IMPL_H

#include "common/grammar/rules.h"
#include "common/grammar/schema_tree.h"

enum {
    CONJ_MAX = 64,          /* schemas that hold for one value together */
    CHOICES_MAX = 64,       /* anyOf and oneOf in them */
    SCHEMA_MAX_MERGE = 256, /* nested references, alternatives and subschemas */
    SCHEMA_PATH = 160,
};

/* Types of values, as bits. */
enum {
    T_NULL = 1,
    T_BOOL = 2,
    T_NUMBER = 4,
    T_STRING = 8,
    T_ARRAY = 16,
    T_OBJECT = 32,
    T_ALL = 63,
};

/* Schemas that hold together; nodes are objects of the tree, or the boolean false. */
struct conj {
    uint32_t n;
    uint32_t node[CONJ_MAX];
};

/* A conjunction with its references and allOf resolved. */
struct shape {
    struct conj all;    /* schemas whose own keywords hold */
    uint32_t n_choices; /* anyOf and oneOf that must hold too: the arrays */
    uint32_t choice[CHOICES_MAX];
    unsigned types; /* bits that all of them allow */
    bool integer;   /* numbers must be whole */
};

struct memo {
    struct conj conj;
    uint32_t rule;
};

struct schema_compiler {
    struct schema_tree tree;
    const struct schema_style *style;
    struct rules *rules;
    struct expr_pool *pool;
    bool siblings_of_ref; /* keywords beside $ref hold (since 2019-09) */
    unsigned depth;
    uint32_t *rule_of; /* [tree.n] of each schema alone, 0: not made */
    struct memo *memo; /* of conjunctions of two and more */
    uint32_t n_memo, cap_memo;
    uint32_t any; /* rule of any value; 0: not made */
};

/* ---- failures ---- */

/* Fails with the node's path before the text. */
MUST_CHECK enum status schema_fail(const struct schema_compiler *k, uint32_t node, enum status code,
                                   const char *fmt, ...) PRINTF_LIKE(4, 5);

/* ---- schema.c ---- */

MUST_CHECK enum status schema_conj_add(const struct schema_compiler *k, struct conj *c,
                                       uint32_t node);
/* The rule of a conjunction of subschemas (any value if it is empty). */
MUST_CHECK enum status schema_rule(struct schema_compiler *k, const struct conj *c, uint32_t *rule);

/* ---- schema_keywords.c ---- */

/* ST_UNSUPPORTED: a keyword that is not read, or ST_FORMAT: not of its type. */
MUST_CHECK enum status schema_check_keywords(const struct schema_compiler *k, uint32_t node);
/* Whole number >= 0 of a member, or `otherwise`. */
MUST_CHECK enum status schema_count(const struct schema_compiler *k, uint32_t node,
                                    const char *name, uint32_t otherwise, uint32_t *out);
unsigned schema_type_bit(enum json_type type);
/* Bits of "type" (T_ALL without it) and whether numbers must be whole. */
MUST_CHECK enum status schema_types(const struct schema_compiler *k, uint32_t node, unsigned *types,
                                    bool *integer);

/* ---- schema_values.c ---- */

/* Do all of the shape's enum and const allow something?  If there are any, *rule is the rule of the values that the
 * shape allows and *found is set. */
MUST_CHECK enum status schema_enum(struct schema_compiler *k, const struct shape *s, bool *found,
                                   uint32_t *rule);
MUST_CHECK enum status schema_number(struct schema_compiler *k, const struct shape *s,
                                     uint32_t *rule);
MUST_CHECK enum status schema_string(struct schema_compiler *k, const struct conj *c,
                                     uint32_t *rule);
/* Between the quotes, in the style's form; *plain: any string. */
MUST_CHECK enum status schema_string_expr(struct schema_compiler *k, const struct conj *c,
                                          bool *plain, uint32_t *expr);

/* ---- schema_array.c, schema_object.c ---- */

MUST_CHECK enum status schema_array(struct schema_compiler *k, const struct conj *c,
                                    uint32_t *rule);
MUST_CHECK enum status schema_object(struct schema_compiler *k, const struct conj *c,
                                     uint32_t *rule);

static inline uint32_t rule_never(struct schema_compiler *k)
{
    return rules_alt(k->rules, NULL, 0);
}

/* [sep] item, as one rule */
static inline uint32_t rule_pair(struct schema_compiler *k, uint32_t a, uint32_t b)
{
    return rules_seq(k->rules, (uint32_t[]){a, b}, 2);
}

#endif
