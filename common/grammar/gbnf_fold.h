/* Which parts of a context-free grammar are expressions; for gbnf.c only. */
#ifndef COMMON_GRAMMAR_GBNF_FOLD_H
#define COMMON_GRAMMAR_GBNF_FOLD_H

#include "common/grammar/gbnf_parse.h"
#include "common/grammar/work.h"

/* Greatest size (literals' bytes and sets' ranges, with rules written out) of an expression of several parts. */
enum { GBNF_MAX_FOLD = 1024 };
#define GBNF_NOT_FOLDED UINT32_MAX

struct gbnf_fold {
    struct gbnf_tree *tree; /* borrowed; sizes of its nodes are set: GBNF_NOT_FOLDED or less */
    struct expr_pool *pool; /* borrowed */
    struct grammar_work *work;
    uint32_t *expr; /* [n_rules] of the rules that are folded */
    uint32_t *size; /* [n_rules] of these, else GBNF_NOT_FOLDED */
};

/* Folds the rules without recursion, and those whose only recursion is at their end.  Freed with gbnf_fold_free, also after
 * a failure. */
MUST_CHECK enum status gbnf_fold(struct gbnf_fold *f, struct gbnf_tree *tree,
                                 struct expr_pool *pool, struct grammar_work *work);
void gbnf_fold_free(struct gbnf_fold *f);

/* The expression of a node whose size is not GBNF_NOT_FOLDED. */
uint32_t gbnf_fold_expr(const struct gbnf_fold *f, uint32_t node);
/* One of the node's children that are literals, whatever their sizes; EXPR_NONE: there are none. */
uint32_t gbnf_fold_texts(const struct gbnf_fold *f, const struct gbnf_node *node);

#endif
