/* The engine's contracts.  Each is compared bit for bit with the plainest way to get the same
 * numbers: one sequence alone, token by token. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { N = 24 }; /* tokens of the sequence that is compared */

struct truth {
    struct rig r;
    int32_t vocab, ids[N];
    float *row; /* [N, vocab]: logits after each token, from decoding one by one */
    float *got; /* [N, vocab] */
};

static float *row(const struct truth *t, float *logits, int32_t i)
{
    return logits + (size_t)i * (size_t)t->vocab;
}

static void truth_open(struct truth *t, const char *name, struct rig_config cfg)
{
    rig_open(&t->r, golden_dir(name), cfg);
    t->vocab = t->r.mc->vocab;
    t->row = calloc((size_t)(N * t->vocab), sizeof(float));
    t->got = calloc((size_t)(N * t->vocab), sizeof(float));
    for (int32_t i = 0; i < N; i++)
        t->ids[i] = (i * 31 + 5) % t->vocab;
    must(engine_prepare(t->r.e, 1000, 0), "prepare");
    for (int32_t i = 0; i < N; i++)
        must(engine_decode(t->r.e, 1000, t->ids[i], i, row(t, t->row, i)), "decode");
    engine_release(t->r.e, 1000);
}

static void truth_close(struct truth *t)
{
    rig_close(&t->r);
    free(t->row);
    free(t->got);
}

static void same(const struct truth *t, const float *got, int32_t i, const char *what)
{
    cr_assert_arr_eq(got, row(t, t->row, i), (size_t)t->vocab * sizeof(float),
                     "%s: the logits after token %d have other bits", what, i);
}

static struct rig_config small(enum dtype kv)
{
    return (struct rig_config){.kv_dtype = kv, .block_len = 4, .max_tokens = 32, .max_out = 5};
}

struct model_row {
    char name[32];
    enum dtype kv;
};

static struct model_row models[] = {
    {"llama-gqa", DT_F32},
    {"llama-gqa", DT_F16},
    {"llama-gqa", DT_BF16},
    {"mistral-window", DT_F32},
    {"qwen3", DT_BF16},
    {"qwen2", DT_F32},
    {"llama-attention-bias", DT_F32},
    {"llama-gqa", DT_I8},
    {"qwen3", DT_E4M3},
    {"deepseek3", DT_F32},
    {"deepseek2-lite-bf16", DT_I8},
    {"qwen3next", DT_F32},
    {"qwen35-uneven-bf16", DT_I8},
    {"granite-hybrid", DT_F32},
    {"falcon-h1", DT_F32},
    {"granite-hybrid-groups-bf16", DT_BF16},
    {"bamba", DT_F32},
    {"nemotron-h-moe", DT_F32},
    {"nemotron-h-groups-bf16", DT_BF16},
    {"gemma3n", DT_F32},
    {"gemma3n-active-bf16", DT_I8},
    {"llama4", DT_F32},
    {"llama4-layers-bf16", DT_I8},
    {"llama4-fp8", DT_F32},
};

ParameterizedTestParameters(engine, prefill_equals_decode)
{
    return cr_make_param_array(struct model_row, models, ARRAY_LEN(models));
}

ParameterizedTest(struct model_row *m, engine, prefill_equals_decode)
{
    struct truth t;
    truth_open(&t, m->name, small(m->kv));
    for (int32_t cut = 0; cut < N; cut += 5) { /* in two calls, and in one */
        if (cut)
            must(engine_prefill(t.r.e, 1, t.ids, cut, t.got), "prefill");
        if (cut)
            same(&t, t.got, cut - 1, "first part");
        must(engine_prefill(t.r.e, 1, t.ids + cut, N - cut, t.got), "prefill");
        same(&t, t.got, N - 1, "prefill");
        cr_assert_eq(engine_kv_len(t.r.e, 1), N);
        engine_release(t.r.e, 1);
    }
    truth_close(&t);
}

ParameterizedTestParameters(engine, verify_equals_decode)
{
    return cr_make_param_array(struct model_row, models, ARRAY_LEN(models));
}

ParameterizedTest(struct model_row *m, engine, verify_equals_decode)
{
    struct truth t;
    truth_open(&t, m->name, small(m->kv));
    must(engine_prefill(t.r.e, 1, t.ids, 3, t.got), "prefill");
    must(engine_forward_verify(t.r.e, 1, t.ids + 3, N - 3, t.got),
         "verify"); /* in steps of 5 rows */
    for (int32_t i = 3; i < N; i++)
        same(&t, row(&t, t.got, i - 3), i, "verify");
    truth_close(&t);
}

/* The instruction set and the number of threads do not matter. */
Test(engine, same_bits_on_every_path)
{
    static const char *const isas[] = {"plain", "avx2", "avx512", NULL};
    struct truth t;
    truth_open(&t, "llama-sharded-bf16", small(DT_BF16));
    for (size_t i = 0; i < ARRAY_LEN(isas); i++) {
        for (int threads = 1; threads <= 3; threads++) {
            struct rig_config cfg = small(DT_BF16);
            struct backend_config bc = {.threads = threads, .isa = isas[i]};
            struct backend *be;
            struct rig r;
            if (backend_open(&be, "cpu", &bc) == ST_UNSUPPORTED)
                continue; /* not on this machine */
            backend_ops_of(be)->close(be);
            cfg.threads = threads;
            cfg.isa = isas[i];
            rig_open(&r, golden_dir("llama-sharded-bf16"), cfg);
            must(engine_prepare(r.e, 1, 0), "prepare");
            must(engine_forward_verify(r.e, 1, t.ids, N, t.got), "verify");
            for (int32_t n = 0; n < N; n++)
                same(&t, row(&t, t.got, n), n, isas[i] ? isas[i] : "auto");
            rig_close(&r);
        }
    }
    truth_close(&t);
}

Test(engine, a_prompt_longer_than_a_step)
{
    struct truth t;
    struct rig_config cfg = small(DT_F32);
    cfg.max_tokens = 7;
    truth_open(&t, "mistral-window", cfg);
    must(engine_prefill(t.r.e, 1, t.ids, N, t.got), "prefill");
    same(&t, t.got, N - 1, "in steps of 7");
    truth_close(&t);
}

Test(engine, truncate_is_as_never_taken)
{
    struct truth t;
    truth_open(&t, "mistral-window", small(DT_F32));
    int32_t wrong[9] = {9, 8, 7, 6, 5, 4, 3, 2, 1};
    for (int32_t keep = 1; keep < 14; keep++) {
        must(engine_prefill(t.r.e, 1, t.ids, keep, t.got), "prefill");
        must(engine_prefill(t.r.e, 1, wrong, 9, t.got), "wrong way");
        must(engine_truncate_kv(t.r.e, 1, keep), "truncate");
        cr_assert_eq(engine_kv_len(t.r.e, 1), keep);
        for (int32_t i = keep; i < N; i++) {
            must(engine_decode(t.r.e, 1, t.ids[i], i, t.got), "decode");
            same(&t, t.got, i, "after truncate");
        }
        engine_release(t.r.e, 1);
    }
    must(engine_prefill(t.r.e, 1, t.ids, 3, t.got), "prefill");
    must(engine_truncate_kv(t.r.e, 1, 0), "to nothing");
    must(engine_prefill(t.r.e, 1, t.ids, N, t.got), "again");
    same(&t, t.got, N - 1, "after truncate to 0");
    cr_assert_eq(engine_truncate_kv(t.r.e, 1, N + 1), ST_RANGE);
    cr_assert_eq(engine_truncate_kv(t.r.e, 2, 0), ST_NOT_FOUND);
    truth_close(&t);
}

Test(engine, decode_batch_equals_alone)
{
    struct truth t;
    truth_open(&t, "llama-gqa", small(DT_F32));
    struct engine_token batch[4];
    float *logits = calloc((size_t)(4 * t.vocab), sizeof *logits);
    /* four copies of the sequence at four places of it, in one batch */
    for (int32_t s = 0; s < 4; s++)
        must(engine_prefill(t.r.e, (uint64_t)s, t.ids, 2 + 5 * s, t.got), "prefill");
    for (int32_t step = 0; step < 6; step++) {
        for (int32_t s = 0; s < 4; s++) {
            int32_t pos = 2 + 5 * s + step;
            batch[3 - s] = (struct engine_token){(uint64_t)s, t.ids[pos], pos};
        }
        must(engine_decode_batch(t.r.e, batch, 4, logits), "batch");
        for (int32_t s = 0; s < 4; s++)
            same(&t, row(&t, logits, 3 - s), 2 + 5 * s + step, "batch");
    }
    must(engine_decode_batch(t.r.e, batch, 0, logits), "an empty batch");
    free(logits);
    truth_close(&t);
}

/* Steps of random chunks of three sequences against the same sequence alone. */
Test(engine, mixed_chunks_equal_separate)
{
    struct truth t;
    truth_open(&t, "qwen3", small(DT_F16));
    uint32_t rng = 12345;
    for (int round = 0; round < 60; round++) {
        int32_t len[3] = {0, 0, 0}, n_rows;
        do {
            struct engine_chunk c[3];
            int32_t n = 0, at[3];
            n_rows = 0;
            for (uint64_t s = 0; s < 3; s++) {
                rng = rng * 1664525U + 1013904223U;
                int32_t take = (int32_t)(rng >> 24) % 8;
                take = take < N - len[s] ? take : N - len[s];
                if (take == 0)
                    continue;
                bool final = (rng >> 16 & 1) != 0 || take == 1;
                c[n++] = (struct engine_chunk){s, t.ids + len[s], take, len[s], final};
                len[s] += take;
                if (final)
                    at[n_rows++] = len[s] - 1;
            }
            must(engine_unified_forward(t.r.e, c, n, t.got), "unified");
            for (int32_t i = 0; i < n_rows; i++)
                same(&t, row(&t, t.got, i), at[i], "mixed");
        } while (len[0] < N || len[1] < N || len[2] < N);
        engine_reset(t.r.e);
    }
    truth_close(&t);
}

static void kv_rows_take(struct engine_kv *kv, const struct engine *e, int32_t len)
{
    int32_t n_layers = engine_config(e)->n_layers, n_kv = engine_config(e)->n_kv;
    size_t row_bytes = engine_kv_row_bytes(e), conv, rule;
    engine_state_sizes(e, &conv, &rule);
    for (int32_t i = 0; i < n_layers; i++)
        kv[i] = (struct engine_kv){.k = malloc(row_bytes * (size_t)len),
                                   .v = malloc(row_bytes * (size_t)len),
                                   .k_scale = calloc((size_t)(n_kv * len), sizeof(float)),
                                   .v_scale = calloc((size_t)(n_kv * len), sizeof(float)),
                                   .conv = calloc(conv + 1, sizeof(float)),
                                   .rule = calloc(rule + 1, sizeof(float))};
}

static void kv_rows_free(struct engine_kv *kv, int32_t n_layers)
{
    for (int32_t i = 0; i < n_layers; i++) {
        void *parts[] = {kv[i].k, kv[i].v, kv[i].k_scale, kv[i].v_scale, kv[i].conv, kv[i].rule};
        for (size_t p = 0; p < ARRAY_LEN(parts); p++)
            free(parts[p]);
    }
}

/* KV computed by one engine goes on in another with other blocks. */
ParameterizedTestParameters(engine, kv_from_elsewhere)
{
    return cr_make_param_array(struct model_row, models, ARRAY_LEN(models));
}

ParameterizedTest(struct model_row *m, engine, kv_from_elsewhere)
{
    struct truth t;
    struct rig other;
    struct engine_kv kv[8];
    const int32_t len = 11;
    struct rig_config cfg = small(m->kv);
    truth_open(&t, m->name, cfg);
    cfg.block_len = 3;
    rig_open(&other, golden_dir(m->name), cfg);
    int32_t n_layers = t.r.mc->n_layers;
    kv_rows_take(kv, t.r.e, len);
    must(engine_prefill(t.r.e, 1, t.ids, len, t.got), "prefill");
    must(engine_export_kv(t.r.e, 1, kv), "export");
    must(engine_prefill(other.e, 5, t.ids, 4, t.got), "something else in the cache");
    cr_assert_not(engine_has_kv_cache(other.e, 9));
    must(engine_init_kv_cache(other.e, 9, kv, len), "init");
    cr_assert(engine_has_kv_cache(other.e, 9));
    cr_assert_eq(engine_init_kv_cache(other.e, 9, kv, len), ST_RANGE);
    for (int32_t i = len; i < N; i++) {
        must(engine_decode_step(other.e, t.ids[i], i, 9, t.got), "decode");
        same(&t, t.got, i, "handed over");
    }
    engine_release_kv_cache(other.e, 9);
    cr_assert_not(engine_has_kv_cache(other.e, 9));
    cr_assert_eq(engine_decode_step(other.e, 1, N, 9, t.got), ST_NOT_FOUND);
    cr_assert_str_eq(engine_name(other.e), "cpu");
    kv_rows_free(kv, n_layers);
    rig_close(&other);
    truth_close(&t);
}

Test(engine, refusals_change_nothing)
{
    struct truth t;
    truth_open(&t, "llama-gqa", small(DT_F32));
    struct engine *e = t.r.e;
    must(engine_prefill(e, 1, t.ids, 4, t.got), "prefill");
    int32_t bad[2] = {1, t.vocab};
    cr_assert_eq(engine_prefill(e, 1, t.ids, 0, t.got), ST_RANGE);
    cr_assert_eq(engine_prefill(e, 1, bad, 2, t.got), ST_RANGE);
    cr_assert_eq(engine_prefill(e, 2, bad, 2, t.got), ST_RANGE);
    cr_assert_not(engine_has_kv_cache(e, 2));
    bad[1] = -1;
    cr_assert_eq(engine_forward_verify(e, 1, bad, 2, t.got), ST_RANGE);
    cr_assert_eq(engine_decode(e, 1, 3, 5, t.got), ST_RANGE);
    cr_assert_not_null(strstr(status_text(), "has 4 tokens"));
    cr_assert_eq(engine_decode(e, 77, 3, 0, t.got), ST_NOT_FOUND);
    cr_assert_eq(engine_forward_verify(e, 77, t.ids, 2, t.got), ST_NOT_FOUND);
    struct engine_chunk twice[2] = {{1, t.ids + 4, 1, 4, true}, {1, t.ids + 5, 1, 5, true}};
    cr_assert_eq(engine_unified_forward(e, twice, 2, t.got), ST_RANGE);
    struct engine_chunk half[2] = {{3, t.ids, 4, 0, true}, {4, t.ids, 4, 2, true}};
    cr_assert_eq(engine_unified_forward(e, half, 2, t.got), ST_NOT_FOUND);
    cr_assert_not(engine_has_kv_cache(e, 3));
    cr_assert_eq(engine_kv_len(e, 1), 4);
    cr_assert_eq(engine_kv_len(e, 3), -1);
    engine_release(e, 77);
    must(engine_prefill(e, 1, t.ids + 4, N - 4, t.got), "prefill goes on");
    same(&t, t.got, N - 1, "after refusals");
    truth_close(&t);
}

Test(engine, budget)
{
    struct truth t;
    struct rig_config cfg = {
        .block_len = 4, .n_blocks = 8, .max_tokens = 40, .max_ctx = 64, .max_seqs = 3};
    truth_open(&t, "llama-gqa", cfg);
    struct engine *e = t.r.e;
    int32_t ids[40] = {0};
    cr_assert_eq(engine_kv_capacity(e), 32);
    cr_assert_eq(engine_prefill(e, 1, ids, 33, t.got), ST_NOMEM);
    cr_assert_not_null(strstr(status_text(), "budget of 32 tokens"), "%s", status_text());
    cr_assert_not(engine_has_kv_cache(e, 1));
    must(engine_prepare(e, 1, 20), "prepare");
    must(engine_prefill(e, 2, t.ids, 12, t.got), "prefill");
    same(&t, t.got, 11, "the rest of the budget");
    cr_assert_eq(engine_decode(e, 2, 0, 12, t.got), ST_NOMEM);
    cr_assert_not_null(strstr(status_text(), "budget of 8"), "%s", status_text());
    cr_assert_eq(engine_prepare(e, 3, 1), ST_NOMEM);
    cr_assert_not(engine_has_kv_cache(e, 3));
    must(engine_prefill(e, 1, t.ids, 20, t.got), "what was prepared");
    same(&t, t.got, 19, "prepared");
    must(engine_truncate_kv(e, 1, 2), "a reservation stays");
    cr_assert_eq(engine_decode(e, 2, 0, 12, t.got), ST_NOMEM);
    engine_release(e, 1);
    must(engine_decode(e, 2, t.ids[12], 12, t.got), "blocks are free again");
    same(&t, t.got, 12, "after release");
    must(engine_prepare(e, 3, 0), "third");
    must(engine_prepare(e, 4, 0), "fourth of three, the first is gone");
    cr_assert_eq(engine_prepare(e, 5, 0), ST_NOMEM);
    cr_assert_not_null(strstr(status_text(), "3 sequences are open"), "%s", status_text());
    struct engine_chunk c = {5, t.ids, 1, 0, true};
    cr_assert_eq(engine_unified_forward(e, &c, 1, t.got), ST_NOMEM);
    engine_reset(e);
    must(engine_prefill(e, 1, ids, 32, t.got), "all of it");
    cr_assert_eq(engine_decode(e, 1, 0, 32, t.got), ST_NOMEM);
    truth_close(&t);
}

Test(engine, settings_are_checked)
{
    struct rig r;
    rig_open(&r, golden_dir("llama-gqa"), (struct rig_config){0});
    const struct decoder_config good = rig_decoder_config(r.mc, (struct rig_config){0}, 0, 1);
    struct engine *e;
    struct decoder_config c = good;
    c.max_ctx = r.mc->max_ctx + 1;
    cr_assert_eq(engine_create(&e, r.ld, r.be, NULL, &c), ST_RANGE);
    c = good;
    c.n_blocks = 0;
    cr_assert_eq(engine_create(&e, r.ld, r.be, NULL, &c), ST_RANGE);
    c = good;
    c.n_blocks = INT32_MAX;
    cr_assert_eq(engine_create(&e, r.ld, r.be, NULL, &c), ST_RANGE);
    c = good;
    c.max_tokens = 0;
    cr_assert_eq(engine_create(&e, r.ld, r.be, NULL, &c), ST_RANGE);
    c = good;
    c.kv_dtype = DT_I32;
    cr_assert_eq(engine_create(&e, r.ld, r.be, NULL, &c), ST_UNSUPPORTED);
    c = good;
    c.world = 16;
    cr_assert_neq(engine_create(&e, r.ld, r.be, NULL, &c), ST_OK);
    cr_assert_null(e);
    rig_close(&r);
}
