#include "ops/op_unheld.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op_cases.h"

enum { LOUD_ROWS = 40, LOUD = 35, LOUD_D = 16, LOUD_QKV = 4 * LOUD_D };

/* A prefill of LOUD_ROWS tokens through qkv_to_cache and attention, element `at` of token LOUD being
 * `value`: 2 query heads, then a key, then a value. */
static void prefill_with(struct backend *be, enum dtype t, int32_t at, float value, float *out)
{
    struct op_env e = env_open(be);
    const int32_t n = LOUD_ROWS, blocks = (n + 15) / 16;
    int32_t pos[LOUD_ROWS], seq[LOUD_ROWS] = {0}, q_start[] = {0, LOUD_ROWS}, table[] = {0, 1, 2};
    float *x = in_rows(41, 0, n, LOUD_QKV), turn[2][LOUD_ROWS * LOUD_D / 2];
    for (int32_t i = 0; i < n * LOUD_D / 2; i++) {
        turn[0][i] = 1.0f;
        turn[1][i] = 0.0f;
    }
    for (int32_t i = 0; i < n; i++)
        pos[i] = i;
    x[LOUD * LOUD_QKV + at] = value;
    struct attn_layer al = {
        .n_q = 2, .n_kv = 1, .d_head = LOUD_D, .rot_dim = LOUD_D, .q_per_kv = 2, .scale = 0.25f};
    al.cos = env_packed(&e, n, LOUD_D / 2, DT_F32, turn[0]);
    al.sin = env_packed(&e, n, LOUD_D / 2, DT_F32, turn[1]);
    struct kv_layer kv = {.k = env_packed(&e, 16 * blocks, LOUD_D, t, NULL),
                          .v = env_packed(&e, 16 * blocks, LOUD_D, t, NULL)};
    if (op_kv_scaled(t)) {
        kv.k_scale = env_packed(&e, 16 * blocks, 1, DT_F32, NULL);
        kv.v_scale = env_packed(&e, 16 * blocks, 1, DT_F32, NULL);
    }
    struct step_dev st = {.n_tokens = n, .n_seqs = 1, .max_q = n, .max_kv = n, .block_len = 16};
    st.pos = st.slot = env_packed(&e, n, 1, DT_I32, pos);
    st.seq = env_packed(&e, n, 1, DT_I32, seq);
    st.q_start = env_packed(&e, 2, 1, DT_I32, q_start);
    st.kv_len = env_packed(&e, 1, 1, DT_I32, (int32_t[]){LOUD_ROWS});
    st.block_table = env_packed(&e, 1, blocks, DT_I32, table);
    struct view vx = env_packed(&e, n, LOUD_QKV, DT_F32, x),
                q = env_packed(&e, n, 2 * LOUD_D, DT_F32, NULL),
                o = env_packed(&e, n, 2 * LOUD_D, DT_F32, NULL);
    ENV_RUN(&e, e.ops->qkv_to_cache(be, &al, &st, vx, kv, q));
    ENV_RUN(&e, e.ops->attention(be, &al, &st, q, kv, o));
    env_read(&e, out, o);
    free(x);
    cr_assert_eq(env_close(&e), ST_OK, "%s", status_detail());
}

void check_unheld_entries(struct backend *be)
{
    static const struct {
        enum dtype type;
        float value;
    } cases[] = {{DT_F16, 1e6f}, {DT_F16, -1e6f},    {DT_F16, NAN}, {DT_BF16, INFINITY},
                 {DT_BF16, NAN}, {DT_I8, INFINITY},  {DT_I8, NAN},  {DT_E4M3, -INFINITY},
                 {DT_E4M3, NAN}, {DT_F32, INFINITY}, {DT_F32, NAN}};
    enum { OUT = LOUD_ROWS * 2 * LOUD_D, BEFORE = LOUD * 2 * LOUD_D };
    static float want[OUT], got[OUT];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (int32_t at = 2 * LOUD_D + 3; at < LOUD_QKV; at += LOUD_D) {
            prefill_with(be, cases[i].type, at, 1.0f, want);
            prefill_with(be, cases[i].type, at, cases[i].value, got);
            cr_assert_eq(memcmp(got, want, BEFORE * sizeof *got), 0, "%s: %g reaches tokens before",
                         dtype_name(cases[i].type), (double)cases[i].value);
            bool key = at < 3 * LOUD_D; /* of a value one element alone has to be NaN */
            for (int32_t k = BEFORE; k < OUT; k++)
                cr_assert(isnan(got[k]) || (!key && k % LOUD_D != at % LOUD_D), "%s: %g is %g",
                          dtype_name(cases[i].type), (double)cases[i].value, (double)got[k]);
        }
    prefill_with(be, DT_BF16, LOUD_QKV - 1, 1e6f, got);
    for (int32_t k = 0; k < OUT; k++)
        cr_assert(isfinite(got[k])); /* bf16 has it */
}
