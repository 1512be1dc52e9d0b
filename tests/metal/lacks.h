/* The op cases that the Metal backend does not have. */
#ifndef TESTS_METAL_LACKS_H
#define TESTS_METAL_LACKS_H

#include "ops/op_cases.h"

/* Why the Metal backend does not run the case; NULL: it does. */
static inline const char *metal_lacks(const struct op_case *c)
{
    if ((c->op == &op_linear || c->op == &op_embed) && is_sorted(c->dtype))
        return "no weights with sorted columns";
    return NULL;
}

#endif
