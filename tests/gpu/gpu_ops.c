/* Every op of the CUDA backend on GPU 0, without Criterion:
 *   gpu_ops [--few]     --few: every eighth case of at most 64 rows (emulator, sanitizers)
 * Operands have the bits of elements.  A case passes when it agrees with double precision and rows alone or in chunks of 5 have the same
 * bits as all together; those of e4m3, NVFP4 and nf4 weights also with their products on matrix units.  TAP on
 * stdout. */
#include <stdlib.h>
#include <string.h>

#include "gpu/tap.h"
#include "ops/op_cuda.h"
#include "ops/op_verdict.h"
#include "ops/operand_pairs.h"

enum { FEW_STEP = 8, FEW_ROWS = 64, MAX_ALONE = 256 };

static void run_case(struct tap *t, struct backend *be, const struct op_case *c, bool f32)
{
    char why[OP_WHY_BYTES] = "";
    struct op_case rounded = f32 ? with_rounded_x(c) : with_halved_x(c);
    float *out = op_results(be, c, why);
    if (!why[0])
        op_check_reference(&rounded, out, why);
    if (!why[0] && c->rows <= MAX_ALONE)
        op_check_chunks(be, c, 1, out, why);
    if (!why[0])
        op_check_chunks(be, c, 5, out, why);
    tap_ok(t, !why[0], "%s%s%s", op_case_name(c), why[0] ? ": " : "", why);
    free(out);
}

int main(int argc, char **argv)
{
    bool few = argc == 2 && strcmp(argv[1], "--few") == 0;
    struct tap t = {0};
    struct backend *be;
    struct backend_info info;
    if (argc > 1 && !few) {
        fprintf(stderr, "usage: gpu_ops [--few]\n");
        return 2;
    }
    if (backend_open(&be, "cuda", &(struct backend_config){0}) != ST_OK) {
        tap_ok(&t, false, "open: %s", status_detail());
        return tap_end(&t);
    }
    backend_ops_of(be)->info(be, &info);
    printf("# %s\n", info.device);
    for (size_t i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        if (few && (i % FEW_STEP || c->rows > FEW_ROWS))
            continue;
        run_case(&t, be, c, true);
    }
    for (size_t i = 0; i < n_operand_pairs; i++) {
        char why[OP_WHY_BYTES];
        operand_pair_check(be, &operand_pairs[i], why);
        tap_ok(&t, !why[0], "%s%s%s", operand_pair_name(&operand_pairs[i]), why[0] ? ": " : "",
               why);
    }
    backend_ops_of(be)->close(be);
    if (backend_open(&be, "cuda", &(struct backend_config){.activations = ACTIVATIONS_AUTO}) !=
        ST_OK) {
        tap_ok(&t, false, "open: %s", status_detail());
        return tap_end(&t);
    }
    for (size_t i = 0; i < n_op_cases; i++)
        if (op_has_scaled_mma(&op_cases[i]) && !(few && op_cases[i].rows > FEW_ROWS))
            run_case(&t, be, &op_cases[i], false);
    backend_ops_of(be)->close(be);
    return tap_end(&t);
}
