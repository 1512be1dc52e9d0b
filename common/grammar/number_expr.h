/* JSON numbers as expressions: syntax, bounds and multiples. */
#ifndef COMMON_GRAMMAR_NUMBER_EXPR_H
#define COMMON_GRAMMAR_NUMBER_EXPR_H

#include "common/grammar/expr.h"
#include "common/json/json_read.h"

enum { NUMBER_MAX_DIGITS = 48 };

/* A decimal number without its leading and trailing zeros. */
struct decimal {
    bool negative;
    int n_whole, n_fraction;
    char whole[NUMBER_MAX_DIGITS], fraction[NUMBER_MAX_DIGITS]; /* digits */
};

/* ST_RANGE: more digits than NUMBER_MAX_DIGITS before or behind the point. */
MUST_CHECK enum status decimal_read(struct decimal *d, struct json_span number);
int decimal_compare(const struct decimal *a, const struct decimal *b);

struct number_bound {
    bool set, exclusive;
    struct decimal value;
};

struct number_rule {
    bool integer;
    struct number_bound lo, hi;
    uint32_t divisor, decimals; /* a multiple of divisor / 10^decimals; divisor 0: of anything */
};

/* All numbers that the rule allows: integers without point and exponent; others with an exponent only where there is
 * neither bound nor divisor. */
uint32_t number_expr(struct expr_pool *p, const struct number_rule *rule);

#endif
