/* scale, then a product of the scaled rows, rounded or not: with the bits of the product of rows that were scaled
 * before. */
#include "ptx/ptx_chain.h"

#include <stdlib.h>
#include <string.h>

#include "ops/op_cases.h"

enum { K = 70, N = 48, MOST = 40 };

static struct weight *load(struct op_env *e, enum dtype t)
{
    static char data[N * K * 4];
    struct weight *w = NULL;
    for (int32_t i = 0; i < N * K; i++)
        store_at(data, t, (size_t)i, in_f32(130, i / K, i % K));
    const struct weight_src src = {
        .name = "chained",
        .cols = K,
        .n_parts = 1,
        .part = {{.data = data, .row_bytes = K * dtype_size(t), .dtype = t, .rows = N}},
        .n_slices = 1,
        .slice_end = {K}};
    ENV_RUN(e, e->ops->load_weight(e->be, &src, &w));
    if (w)
        e->weights[e->n_weights++] = w;
    return w;
}

/* factor of the rows in memory, factor of scale; 0.5 twice is exact */
static enum status run(struct backend *be, enum dtype t, int32_t rows, bool round, float before,
                       float factor, float out[MOST * N])
{
    struct op_env e = env_open(be);
    float *x = in_rows(131, 0, rows, K);
    for (int32_t i = 0; i < rows * K; i++)
        x[i] *= before;
    struct weight *w = load(&e, t);
    struct view vx = env_view(&e, rows, K, DT_F32, x), vo = env_view(&e, rows, N, DT_F32, NULL);
    ENV_RUN(&e, e.ops->scale(be, vx, factor));
    const struct input_rule rule = {.grid = GRID_INT8, .group = 32, .all = K};
    if (round)
        ENV_RUN(&e, e.ops->round_input(be, &rule, vx, (struct view){0}, vx));
    ENV_RUN(&e, e.ops->linear(be, w, vx, vo));
    env_read(&e, out, vo);
    free(x);
    return env_close(&e);
}

void ptx_check_chains(struct tap *t)
{
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};
    /* of the row kernels, of packed rows, and of fragments and tiles */
    static const int32_t rows[] = {3, 16, MOST};
    static float got[MOST * N], want[MOST * N];
    struct backend *be;
    if (backend_open(&be, "cuda", &(struct backend_config){0}) != ST_OK) {
        tap_ok(t, false, "chains: open: %s", status_detail());
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        for (size_t r = 0; r < 2 * ARRAY_LEN(rows); r++) {
            int32_t n = rows[r / 2];
            bool round = r % 2;
            enum status st = run(be, types[i], n, round, 0.5f, 1.0f, want);
            if (st == ST_OK)
                st = run(be, types[i], n, round, 1.0f, 0.5f, got);
            bool same = memcmp(got, want, (size_t)(n * N) * sizeof *got) == 0;
            tap_ok(t, st == ST_OK && same, "chain: scale, %sa product of %s and %d rows%s%s",
                   round ? "round_input, " : "", dtype_name(types[i]), n,
                   st != ST_OK ? ": "
                   : same      ? ""
                               : ": other bits",
                   st != ST_OK ? status_detail() : "");
        }
    backend_ops_of(be)->close(be);
}
