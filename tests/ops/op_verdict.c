#include "ops/op_verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static size_t n_results(const struct op_case *c)
{
    return (size_t)c->rows * (size_t)c->op->cols(c);
}

float *op_results(struct backend *be, const struct op_case *c, char why[OP_WHY_BYTES])
{
    float *out = calloc(n_results(c) + 1, sizeof *out);
    if (!out)
        abort();
    if (c->op->run(be, c, 0, c->rows, out) != ST_OK)
        snprintf(why, OP_WHY_BYTES, "%s", status_detail());
    return out;
}

void op_check_reference(const struct op_case *c, const float *got, char why[OP_WHY_BYTES])
{
    size_t n = n_results(c), cols = (size_t)c->op->cols(c);
    double *want = calloc(n + 1, sizeof *want), *bound = calloc(n + 1, sizeof *bound);
    if (!want || !bound)
        abort();
    c->op->reference(c, want, bound);
    for (size_t i = 0; i < n && !why[0]; i++) {
        double v = (double)got[i];
        bool fine = isinf(want[i]) ? v == want[i] : fabs(v - want[i]) <= bound[i];
        if (!fine)
            snprintf(why, OP_WHY_BYTES, "row %zu column %zu: %.9g, expected %.9g within %.3g",
                     i / cols, i % cols, v, want[i], bound[i]);
    }
    free(want);
    free(bound);
}

void op_check_chunks(struct backend *be, const struct op_case *c, int32_t chunk, const float *want,
                     char why[OP_WHY_BYTES])
{
    size_t cols = (size_t)c->op->cols(c);
    float *got = calloc(n_results(c) + 1, sizeof *got);
    if (!got)
        abort();
    for (int32_t r = 0; r < c->rows && !why[0]; r += chunk) {
        int32_t n = c->rows - r < chunk ? c->rows - r : chunk;
        if (c->op->run(be, c, r, n, got + (size_t)r * cols) != ST_OK)
            snprintf(why, OP_WHY_BYTES, "%s", status_detail());
    }
    for (size_t i = 0; i < n_results(c) && !why[0]; i++)
        if (bits_of_f32(got[i]) != bits_of_f32(want[i]))
            snprintf(why, OP_WHY_BYTES, "in chunks of %d: row %zu column %zu: %a, not %a", chunk,
                     i / cols, i % cols, (double)got[i], (double)want[i]);
    free(got);
}
