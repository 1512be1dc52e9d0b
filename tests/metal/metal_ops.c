/* Every op of the Metal backend, without Criterion:
 *   metal_ops [--products|--simple] [--few]
 * --few: every eighth case of at most 32 rows (for the double); --products: matrix products and attention alone,
 * with INGOT_METAL_PRODUCTS=matrices by simdgroup matrices; --simple: ops without functions of simdgroups alone, which
 * with INGOT_METAL_GPU=any older GPUs run, too.
 * A case passes when it agrees with double precision and rows alone or in chunks of 5 have the same
 * bits as all together.  TAP on stdout. */
#include <stdlib.h>
#include <string.h>

#include "lacks.h"
#include "ops/op_verdict.h"
#include "report.h"

enum { FEW_STEP = 8, FEW_ROWS = 32, MAX_ALONE = 256 };

static void run_case(struct tap *t, struct backend *be, const struct op_case *c)
{
    char why[OP_WHY_BYTES] = "";
    float *out = op_results(be, c, why);
    if (!why[0])
        op_check_reference(c, out, why);
    if (!why[0] && c->rows <= MAX_ALONE)
        op_check_chunks(be, c, 1, out, why);
    if (!why[0])
        op_check_chunks(be, c, 5, out, why);
    tap_ok(t, !why[0], "%s%s%s", op_case_name(c), why[0] ? ": " : "", why);
    free(out);
}

int main(int argc, char **argv)
{
    bool few = false, products = false, simple = false;
    struct tap t = {0};
    struct backend *be;
    for (int i = 1; i < argc; i++) {
        bool *option = strcmp(argv[i], "--few") == 0        ? &few
                       : strcmp(argv[i], "--products") == 0 ? &products
                       : strcmp(argv[i], "--simple") == 0   ? &simple
                                                            : NULL;
        if (!option) {
            fprintf(stderr, "usage: metal_ops [--products|--simple] [--few]\n");
            return 2;
        }
        *option = true;
    }
    if (backend_open(&be, "metal", &(struct backend_config){0}) != ST_OK) {
        tap_ok(&t, false, "open: %s", status_detail());
        return tap_end(&t);
    }
    for (size_t i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        if (!metal_lacks(c) && (!products || metal_by_matrices(c)) &&
            (!simple || metal_simple(c)) && !(few && (i % FEW_STEP || c->rows > FEW_ROWS)))
            run_case(&t, be, c);
    }
    backend_ops_of(be)->close(be);
    return tap_end(&t);
}
