/* The bytes that qkv_to_cache stores are those of the definition, for every element type on every
 * instruction set. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "isas.h"
#include "ops/kv_spec.h"
#include "ops/op_cases.h"
#include "ops/op_unheld.h"

enum { N_KV = 3, ROWS = 48, MAX_D = 512 };

static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16, DT_I8, DT_E4M3};

static bool is_scaled(enum dtype t)
{
    return t == DT_I8 || t == DT_E4M3;
}

/* Halves of the last place of a type, and their neighbours in f32. */
static float near_tie(int32_t row, int32_t i, int fraction)
{
    float f = 1.0f + ldexpf((float)((i * 7 + row) % (1 << fraction)) + 0.5f, -fraction);
    f = ldexpf(i % 2 ? -f : f, (row * 5 + i) % 13 - 6);
    return i % 3 == 0 ? f : nextafterf(f, i % 3 == 1 ? 0.0f : 1e30f);
}

/* Element i of head `head` of row `row`: all kinds of heads in turn. */
static float input(int32_t row, int32_t head, int32_t i)
{
    static const float edges[] = {0.0f,       -0.0f,         0x1p-24f,  0x1.8p-24f, 0x1p-25f,
                                  0x1.2p-14f, 65504.0f,      65519.9f,  65520.0f,   -70000.0f,
                                  0x1p-133f,  0x1.fffffep0f, 3.0e38f,   0x1p-126f,  0x1.8p-134f,
                                  3.39e38f,   -0x1.04p-14f,  0x1.01p0f, 0x1.03p0f,  -1.0f};
    float x = in_f32(71, row * N_KV + head, i);
    switch (row % 8) {
    case 0: /* int8 and e4m3: the greatest is a power of two of top, so products are exact */
        return i == 0 ? -127.0f : (float)((i * 3 + row) % 255 - 127) / 2;
    case 1:
        return i == 0 ? 448.0f * 0.25f : 0.25f * near_tie(row, i, 3);
    case 2:
        return near_tie(row, i, 10);
    case 3:
        return near_tie(row, i, 7);
    case 4:
        return edges[(size_t)(row / 8 * 7 + i) % ARRAY_LEN(edges)];
    case 5: /* heads at the border of "too small", and zeros */
        return row == 5 ? 0.0f : row == 13 ? x * 0x1p-101f : i == 0 ? 0x1p-100f : x * 0x1p-100f;
    default:
        return ldexpf(x, (row * 11 + head) % 80 - 40);
    }
}

/* n elements of K or V: row t went to cache row ROWS - 1 - t. */
static void check_rows(enum dtype t, const char *isa, int32_t d, int which, const float *qkv,
                       const char *cache, const float *scale)
{
    char want[MAX_D * 4];
    float want_scale = 0;
    size_t n_bytes = (size_t)d * dtype_size(t);
    for (int32_t row = 0; row < ROWS; row++)
        for (int32_t g = 0; g < N_KV; g++) {
            const float *x = qkv + (size_t)row * (size_t)((2 * N_KV + 1) * d) +
                             (size_t)((1 + which * N_KV + g) * d);
            size_t at = (size_t)(ROWS - 1 - row) * N_KV + (size_t)g;
            spec_store(t, x, d, want, &want_scale);
            cr_assert(memcmp(cache + at * n_bytes, want, n_bytes) == 0,
                      "%s on %s, d %d: row %d, head %d: other bytes", dtype_name(t), isa, d, row,
                      g);
            if (is_scaled(t))
                cr_assert(memcmp(&scale[at], &want_scale, sizeof want_scale) == 0,
                          "%s on %s, d %d: row %d, head %d: scale %a, not %a", dtype_name(t), isa,
                          d, row, g, (double)scale[at], (double)want_scale);
        }
}

static void check_type(struct backend *be, const char *isa, enum dtype t, int32_t d)
{
    static float qkv[ROWS * (2 * N_KV + 1) * MAX_D];
    static char cache[ROWS * N_KV * MAX_D * 4];
    static float scale[ROWS * N_KV];
    struct op_env e = env_open(be);
    int32_t pos[ROWS], slot[ROWS], cols = (2 * N_KV + 1) * d, nkv = N_KV * d;
    for (int32_t row = 0; row < ROWS; row++) {
        pos[row] = row;
        slot[row] = ROWS - 1 - row;
        for (int32_t i = 0; i < cols; i++)
            qkv[row * cols + i] = input(row, i / d, i % d);
    }
    struct attn_layer al = {.n_q = 1, .n_kv = N_KV, .d_head = d, .q_per_kv = 1, .eps = 1e-6f};
    struct step_dev st = {.n_tokens = ROWS,
                          .pos = env_packed(&e, ROWS, 1, DT_I32, pos),
                          .slot = env_packed(&e, ROWS, 1, DT_I32, slot)};
    struct kv_layer kv = {.k = env_packed(&e, ROWS, nkv, t, NULL),
                          .v = env_packed(&e, ROWS, nkv, t, NULL)};
    if (is_scaled(t)) {
        kv.k_scale = env_packed(&e, ROWS, N_KV, DT_F32, NULL);
        kv.v_scale = env_packed(&e, ROWS, N_KV, DT_F32, NULL);
    }
    struct view vx = env_packed(&e, ROWS, cols, DT_F32, qkv),
                vq = env_packed(&e, ROWS, d, DT_F32, NULL);
    ENV_RUN(&e, e.ops->qkv_to_cache(be, &al, &st, vx, kv, vq));
    for (int which = 0; which < 2; which++) {
        env_read(&e, cache, which ? kv.v : kv.k);
        if (is_scaled(t))
            env_read(&e, scale, which ? kv.v_scale : kv.k_scale);
        cr_assert_eq(e.st, ST_OK, "%s: %s", isa, status_detail());
        check_rows(t, isa, d, which, qkv, cache, scale);
    }
    cr_assert_eq(env_close(&e), ST_OK);
}

Test(kv_store, bytes_of_the_definition)
{
    static const int32_t heads[] = {1, 2, 8, 16, 20, 64, 80, 128, 512};
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(float_isas); i++) {
        struct backend *be = open_isa(float_isas[i], 2);
        if (!be)
            continue;
        for (size_t t = 0; t < ARRAY_LEN(types); t++)
            for (size_t d = 0; d < ARRAY_LEN(heads); d++)
                check_type(be, float_isas[i], types[t], heads[d]);
        close_isa(be);
        n++;
    }
    cr_assert_geq(n, 1);
}

Test(kv_store, what_a_cache_cannot_hold_is_seen_by_later_tokens_alone)
{
    for (size_t i = 0; i < ARRAY_LEN(float_isas); i++) {
        struct backend *be = open_isa(float_isas[i], 2);
        if (!be)
            continue;
        check_unheld_entries(be);
        close_isa(be);
    }
}

/* Queries alone give what they give beside keys and values, and the cache keeps its bytes. */
Test(kv_store, queries_alone)
{
    enum { D = 20, N_Q = 3, COLS = (N_Q + 2 * N_KV) * D };
    static float qkv[ROWS * COLS], alone[ROWS * N_Q * D], q[2][ROWS * N_Q * D];
    static char cache[2][ROWS * N_KV * D * 4];
    int32_t pos[ROWS], slot[ROWS];
    for (int32_t row = 0; row < ROWS; row++) {
        pos[row] = slot[row] = row;
        for (int32_t i = 0; i < COLS; i++)
            qkv[row * COLS + i] = input(row, i / D, i % D);
        memcpy(alone + row * N_Q * D, qkv + row * COLS, N_Q * D * sizeof *alone);
    }
    for (size_t n = 0; n < ARRAY_LEN(float_isas); n++) {
        struct backend *be = open_isa(float_isas[n], 2);
        if (!be)
            continue;
        struct op_env e = env_open(be);
        struct attn_layer al = {
            .n_q = N_Q, .n_kv = N_KV, .d_head = D, .q_per_kv = 1, .eps = 1e-6f, .v_norm = true};
        struct step_dev st = {.n_tokens = ROWS,
                              .pos = env_packed(&e, ROWS, 1, DT_I32, pos),
                              .slot = env_packed(&e, ROWS, 1, DT_I32, slot)};
        struct kv_layer kv = {.k = env_packed(&e, ROWS, N_KV * D, DT_F32, NULL),
                              .v = env_packed(&e, ROWS, N_KV * D, DT_F32, NULL)};
        for (int i = 0; i < 2; i++) {
            al.q_alone = i;
            struct view x = env_packed(&e, ROWS, attn_qkv_cols(&al), DT_F32, i ? alone : qkv),
                        out = env_packed(&e, ROWS, N_Q * D, DT_F32, NULL);
            ENV_RUN(&e, e.ops->qkv_to_cache(be, &al, &st, x, kv, out));
            env_read(&e, q[i], out);
            env_read(&e, cache[i], kv.k);
        }
        cr_assert_eq(e.st, ST_OK, "%s: %s", float_isas[n], status_detail());
        cr_assert_eq(memcmp(q[0], q[1], sizeof q[0]), 0, "%s", float_isas[n]);
        cr_assert_eq(memcmp(cache[0], cache[1], sizeof cache[0]), 0, "%s", float_isas[n]);
        cr_assert_eq(env_close(&e), ST_OK);
        close_isa(be);
    }
}

/* The definition itself, at values worked out by hand. */
Test(kv_store, definition)
{
    static const struct {
        enum dtype t;
        float x;
        unsigned bits;
    } cases[] = {
        {DT_F16, 1.0f, 0x3c00},         {DT_F16, -2.0f, 0xc000},
        {DT_F16, 65504.0f, 0x7bff},     {DT_F16, 65520.0f, 0x7e00},
        {DT_F16, 65519.0f, 0x7bff},     {DT_F16, 0x1p-24f, 0x0001},
        {DT_F16, 0x1p-25f, 0x0000},     {DT_F16, 0x1.8p-24f, 0x0002},
        {DT_F16, 0x1.002p0f, 0x3c00},   {DT_F16, 0x1.006p0f, 0x3c02},
        {DT_F16, -0.0f, 0x8000},        {DT_BF16, 1.0f, 0x3f80},
        {DT_BF16, 0x1.01p0f, 0x3f80},   {DT_BF16, 0x1.03p0f, 0x3f82},
        {DT_BF16, 3.4e38f, 0x7fc0},     {DT_BF16, -0x1p-126f, 0x8080},
        {DT_BF16, 0x1p-133f, 0x0001},   {DT_F16, 0x1.ff8p-15f, 0x03ff},
        {DT_F16, 0x1.ffcp-15f, 0x0400}, {DT_F16, -INFINITY, 0x7e00},
        {DT_BF16, -NAN, 0x7fc0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint16_t got;
        float none;
        spec_store(cases[i].t, &cases[i].x, 1, &got, &none);
        cr_assert_eq(got, cases[i].bits, "%s of %a: %04x, not %04x", dtype_name(cases[i].t),
                     (double)cases[i].x, got, cases[i].bits);
    }
    static const float x[] = {-254.0f, 1.0f, 3.0f, 5.0f, -1.0f, 254.0f, 2.0f, 0.0f};
    static const int8_t want_i8[] = {-127, 0, 2, 2, 0, 127, 1, 0};
    int8_t got_i8[8];
    uint8_t got_e4m3[8];
    float scale;
    spec_store(DT_I8, x, 8, got_i8, &scale);
    cr_assert(memcmp(got_i8, want_i8, 8) == 0 && scale == 2.0f);
    /* 448: the greatest; 17, 18 and 19 lie between 16 and 20: a step of 2;
     * 0x1p-10 is half a step */
    static const float y[] = {448.0f, 17.0f, 18.0f, 19.0f, 0x1p-9f, 0x1p-10f, -0x1.8p-9f, -464.0f};
    static const uint8_t want_e4m3[] = {0x7e, 0x58, 0x59, 0x5a, 0x01, 0x00, 0x82, 0xfe};
    float unscaled[8];
    memcpy(unscaled, y, sizeof y);
    unscaled[7] = -448.0f; /* the scale is 1 */
    spec_store(DT_E4M3, unscaled, 8, got_e4m3, &scale);
    cr_assert_eq(scale, 1.0f);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(got_e4m3[i], want_e4m3[i], "e4m3 of %a: %02x", (double)unscaled[i],
                     got_e4m3[i]);
}
