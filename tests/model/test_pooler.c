/* Pooling: the values of each mode, the same bits in any chunks, and slots that are used again. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "worker/embed/pooler.h"

enum { HIDDEN = 5, TOKENS = 37, SLOTS = 3 };

static struct sentence_modules all_modes(bool normalize)
{
    struct sentence_modules m = {.present = true, .n_pools = POOL_N, .dim = POOL_N * HIDDEN};
    for (int i = 0; i < POOL_N; i++)
        m.pool[i] = (enum pooling)(POOL_N - 1 - i); /* in another order than the enum's */
    if (normalize)
        m.module[m.n_modules++] = (struct module){.kind = MODULE_NORMALIZE};
    return m;
}

static struct pooler *create(const struct sentence_modules *m)
{
    struct pooler_config cfg = {.modules = m, .model = "", .hidden = HIDDEN, .max_open = SLOTS};
    struct pooler *p;
    cr_assert_eq(pooler_create(&p, &cfg), ST_OK, "%s", status_text());
    cr_assert_geq(pooler_bytes(&cfg), SLOTS * HIDDEN * (2 * sizeof(double) + 3 * sizeof(float)));
    return p;
}

static void fill(float rows[TOKENS][HIDDEN], unsigned seed)
{
    for (int i = 0; i < TOKENS; i++)
        for (int k = 0; k < HIDDEN; k++) {
            seed = seed * 1664525U + 1013904223U;
            rows[i][k] = (float)(int)(seed >> 8) / (float)(1 << 22) - 2.0f;
        }
}

Test(pooler, modes_have_their_values)
{
    struct sentence_modules m = all_modes(false);
    struct pooler *p = create(&m);
    float rows[TOKENS][HIDDEN], out[POOL_N * HIDDEN];
    fill(rows, 1);
    pooler_take(p, 1, 0, rows[0], TOKENS);
    pooler_finish(p, 1, TOKENS, out);
    for (int k = 0; k < HIDDEN; k++) {
        double sum = 0, weighted = 0, most = -INFINITY;
        for (int i = 0; i < TOKENS; i++) {
            sum += (double)rows[i][k];
            weighted += (i + 1) * (double)rows[i][k];
            most = fmax(most, (double)rows[i][k]);
        }
        const double want[POOL_N] = {(double)rows[TOKENS - 1][k],
                                     weighted / (TOKENS * (TOKENS + 1) / 2.0),
                                     sum / sqrt(TOKENS),
                                     sum / TOKENS,
                                     most,
                                     (double)rows[0][k]};
        for (int mode = 0; mode < POOL_N; mode++)
            cr_expect_float_eq((double)out[mode * HIDDEN + k], want[mode], 1e-6, "mode %d", mode);
    }
    pooler_destroy(p);
}

Test(pooler, chunks_do_not_change_the_bits)
{
    struct sentence_modules m = all_modes(true);
    struct pooler *p = create(&m);
    float rows[TOKENS][HIDDEN], other[TOKENS][HIDDEN], whole[POOL_N * HIDDEN], out[POOL_N * HIDDEN];
    double norm = 0;
    fill(rows, 2);
    fill(other, 3);
    pooler_take(p, 0, 0, rows[0], TOKENS);
    pooler_finish(p, 0, TOKENS, whole);
    for (int i = 0; i < POOL_N * HIDDEN; i++)
        norm += (double)whole[i] * (double)whole[i];
    cr_expect_float_eq(norm, 1.0, 1e-6);
    for (int chunk = 1; chunk < TOKENS; chunk++) {
        /* another sequence between the chunks, and a slot that had one before */
        pooler_take(p, 2, 0, other[0], 1 + chunk / 2);
        for (int at = 0; at < TOKENS; at += chunk) {
            int n = TOKENS - at < chunk ? TOKENS - at : chunk;
            pooler_take(p, 2, at, rows[at], n);
            pooler_take(p, 1, at, other[at], n);
        }
        pooler_finish(p, 2, TOKENS, out);
        cr_expect_eq(memcmp(out, whole, sizeof out), 0, "chunks of %d", chunk);
    }
    pooler_finish(p, 1, TOKENS, out);
    cr_expect_neq(memcmp(out, whole, sizeof out), 0);
    pooler_destroy(p);
}

Test(pooler, dense_weights_must_be_there)
{
    struct sentence_modules m = {.present = true, .n_pools = 1, .dim = 4, .n_modules = 1};
    m.module[0] = (struct module){.kind = MODULE_DENSE, .in = HIDDEN, .out = 4, .path = "2_Dense"};
    struct pooler_config cfg = {
        .modules = &m, .model = "/nowhere", .hidden = HIDDEN, .max_open = 1};
    struct pooler *p;
    cr_expect_eq(pooler_create(&p, &cfg), ST_NOT_FOUND);
    cr_expect_null(p);
    cr_expect_not_null(strstr(status_text(), "2_Dense/model.safetensors"));
}
