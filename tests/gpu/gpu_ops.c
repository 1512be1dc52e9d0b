/* Every op of the CUDA backend on GPU 0, without Criterion:
 *   gpu_ops [--few]     --few: every eighth case of at most 64 rows (emulator, sanitizers)
 * A case passes when it agrees with double precision and rows alone or in chunks of 5 have the same
 * bits as all together.  TAP on stdout. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/tap.h"
#include "ops/op_cuda.h"

enum { FEW_STEP = 8, FEW_ROWS = 64, MAX_ALONE = 256 };

static size_t n_results(const struct op_case *c)
{
    return (size_t)c->rows * (size_t)c->op->cols(c);
}

/* Says what is wrong; the empty string: nothing. */
static void check_reference(const struct op_case *c, const float *got, char *why, size_t size)
{
    size_t n = n_results(c), cols = (size_t)c->op->cols(c);
    double *want = calloc(n + 1, sizeof *want), *bound = calloc(n + 1, sizeof *bound);
    if (!want || !bound)
        abort();
    c->op->reference(c, want, bound);
    for (size_t i = 0; i < n && !why[0]; i++) {
        double v = got[i];
        bool fine = isinf(want[i]) ? v == want[i] : fabs(v - want[i]) <= bound[i];
        if (!fine)
            snprintf(why, size, "row %zu column %zu: %.9g, expected %.9g within %.3g", i / cols,
                     i % cols, v, want[i], bound[i]);
    }
    free(want);
    free(bound);
}

/* The same rows in calls of `chunk` rows. */
static void check_chunks(struct backend *be, const struct op_case *c, int32_t chunk,
                         const float *want, char *why, size_t size)
{
    size_t cols = (size_t)c->op->cols(c);
    float *got = calloc(n_results(c) + 1, sizeof *got);
    if (!got)
        abort();
    for (int32_t r = 0; r < c->rows && !why[0]; r += chunk) {
        int32_t n = c->rows - r < chunk ? c->rows - r : chunk;
        if (c->op->run(be, c, r, n, got + (size_t)r * cols) != ST_OK)
            snprintf(why, size, "%s", status_detail());
    }
    for (size_t i = 0; i < n_results(c) && !why[0]; i++)
        if (bits_of_f32(got[i]) != bits_of_f32(want[i]))
            snprintf(why, size, "in chunks of %d: row %zu column %zu: %a, not %a", chunk, i / cols,
                     i % cols, (double)got[i], (double)want[i]);
    free(got);
}

static void run_case(struct tap *t, struct backend *be, const struct op_case *c)
{
    char why[512] = "";
    float *out = calloc(n_results(c) + 1, sizeof *out);
    struct op_case rounded = with_rounded_x(c);
    if (!out)
        abort();
    if (c->op->run(be, c, 0, c->rows, out) != ST_OK)
        snprintf(why, sizeof why, "%s", status_detail());
    if (!why[0])
        check_reference(&rounded, out, why, sizeof why);
    if (!why[0] && c->rows <= MAX_ALONE)
        check_chunks(be, c, 1, out, why, sizeof why);
    if (!why[0])
        check_chunks(be, c, 5, out, why, sizeof why);
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
        const char *lacks = cuda_lacks(be, c);
        if (few && (i % FEW_STEP || c->rows > FEW_ROWS))
            continue;
        if (lacks)
            tap_skip(&t, op_case_name(c), lacks);
        else
            run_case(&t, be, c);
    }
    backend_ops_of(be)->close(be);
    return tap_end(&t);
}
