/* Several ranks give the bits of one: worlds 2, 4 and 8 for even and uneven shards, shared
 * key/value heads, every kind of bias; world 3 runs, close to one rank, and does not depend on the
 * batch. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "make_gguf.h"
#include "make_model.h"
#include "rig.h"

enum { N_TOKENS = 40 };

struct job {
    int32_t vocab, n_tokens;
    int32_t chunk;      /* tokens of a forward */
    float *logits;      /* [n_tokens, vocab], from rank 0 */
    float *logits_last; /* the same of the highest rank */
    int world;
};

/* The last token once more, over a copy of this rank's KV in other blocks:
 * in place of its logits. */
static enum status hand_over(struct engine *e, const int32_t *ids, float *logits, int32_t n,
                             int32_t vocab)
{
    struct engine_kv kv[8] = {{0}};
    size_t bytes = engine_kv_row_bytes(e) * (size_t)(n - 1);
    int32_t n_layers = engine_config(e)->n_layers;
    for (int32_t i = 0; i < n_layers; i++)
        kv[i] = (struct engine_kv){.k = malloc(bytes), .v = malloc(bytes)};
    TRY(engine_truncate_kv(e, 1, n - 1));
    TRY(engine_export_kv(e, 1, kv));
    TRY(engine_init_kv_cache(e, 2, kv, n - 1));
    engine_release(e, 1);
    TRY(engine_decode_step(e, ids[n - 1], n - 1, 2, logits + (size_t)(n - 1) * (size_t)vocab));
    for (int32_t i = 0; i < n_layers; i++) {
        free(kv[i].k);
        free(kv[i].v);
    }
    return ST_OK;
}

/* The sequence in chunks, all logits, beside another sequence that must not matter. */
static enum status run(void *ctx, struct engine *e, int rank)
{
    struct job *j = ctx;
    int32_t ids[N_TOKENS], other[3] = {1, 0, 2};
    float *to = calloc((size_t)j->n_tokens * (size_t)j->vocab, sizeof *to);
    float *drop = calloc((size_t)j->vocab, sizeof *drop);
    enum status st = ST_OK;
    for (int32_t i = 0; i < j->n_tokens; i++)
        ids[i] = (i * 7 + 3) % j->vocab;
    if (j->chunk < j->n_tokens)
        st = engine_prefill(e, 7, other, 3, drop);
    if (st == ST_OK)
        st = engine_prepare(e, 1, 0);
    for (int32_t at = 0; st == ST_OK && at < j->n_tokens; at += j->chunk) {
        int32_t n = j->n_tokens - at < j->chunk ? j->n_tokens - at : j->chunk;
        st = engine_forward_verify(e, 1, ids + at, n, to + (size_t)at * (size_t)j->vocab);
    }
    if (st == ST_OK && model_n_delta(engine_config(e)) == 0) /* a state cannot be cut */
        st = hand_over(e, ids, to, j->n_tokens, j->vocab);
    size_t bytes = (size_t)j->n_tokens * (size_t)j->vocab * sizeof *to;
    if (rank == 0)
        memcpy(j->logits, to, bytes);
    if (rank == j->world - 1)
        memcpy(j->logits_last, to, bytes);
    free(to);
    free(drop);
    return st;
}

static struct job job_run(const char *dir, int world, int32_t chunk, enum dtype kv)
{
    struct model_config mc;
    must(model_config_load(&mc, dir), dir);
    struct job j = {.vocab = mc.vocab, .n_tokens = N_TOKENS, .chunk = chunk, .world = world};
    size_t n = (size_t)N_TOKENS * (size_t)mc.vocab;
    j.logits = calloc(n, sizeof(float));
    j.logits_last = calloc(n, sizeof(float));
    rig_group(dir, (struct rig_config){.kv_dtype = kv, .block_len = 8}, world, run, &j);
    cr_assert_arr_eq(j.logits, j.logits_last, n * sizeof(float), "%s: ranks differ", dir);
    return j;
}

static void job_free(struct job *j)
{
    free(j->logits);
    free(j->logits_last);
}

static void same_bits(const char *dir, const struct job *a, const struct job *b)
{
    size_t n = (size_t)N_TOKENS * (size_t)a->vocab;
    for (size_t i = 0; i < n; i++)
        cr_assert(memcmp(&a->logits[i], &b->logits[i], sizeof(float)) == 0,
                  "%s: world %d chunk %d and world %d chunk %d differ at token %zu, column %zu: "
                  "%.9g and %.9g",
                  dir, a->world, a->chunk, b->world, b->chunk, i / (size_t)a->vocab,
                  i % (size_t)a->vocab, (double)a->logits[i], (double)b->logits[i]);
}

static void all_worlds(const char *dir, int max_world, enum dtype kv)
{
    struct job one = job_run(dir, 1, N_TOKENS, kv);
    double size = 0;
    for (int32_t i = 0; i < one.vocab; i++)
        size = fmax(size, fabs((double)one.logits[i]));
    cr_assert(size > 1e-3 && size < 1e6, "%s: logits of size %g test nothing", dir, size);
    for (int world = 1; world <= max_world; world *= 2) {
        struct job whole = job_run(dir, world, N_TOKENS, kv), parts = job_run(dir, world, 7, kv);
        same_bits(dir, &whole, &one);
        same_bits(dir, &parts, &one);
        job_free(&whole);
        job_free(&parts);
    }
    job_free(&one);
}

Test(tp, golden_models)
{
    all_worlds(golden_dir("llama-gqa"), 8, DT_F32); /* 8 heads share 2 */
    all_worlds(golden_dir("llama-attention-bias"), 4, DT_F32);
    all_worlds(golden_dir("llama-mlp-bias"), 4, DT_F32);
    all_worlds(golden_dir("llama-mqa"), 4, DT_BF16);
    all_worlds(golden_dir("llama-sharded-bf16"), 4, DT_F32);
    all_worlds(golden_dir("mistral-window"), 4, DT_F32);
    all_worlds(golden_dir("qwen2"), 4, DT_F16);
    all_worlds(golden_dir("qwen3"), 4, DT_F32);
    all_worlds(golden_dir("mixtral"), 4, DT_F32);
    all_worlds(golden_dir("gemma4-values-bf16"), 4, DT_F16); /* heads of two sizes */
    all_worlds(golden_dir("gemma4"), 4, DT_BF16);
    all_worlds(golden_dir("gemma3n"), 4, DT_BF16); /* gates cut over all ranks */
    all_worlds(golden_dir("gemma3n-active-bf16"), 4, DT_F32);
    all_worlds(golden_dir("gemma3n-widths"), 4, DT_F16);
    all_worlds(golden_dir("qwen3moe-step"), 4, DT_F32); /* dense and sparse layers */
    all_worlds(golden_dir("qwen3moe-v5-bf16"), 4, DT_BF16);
}

/* Ranks and slices cut the blocks of floats of 4 bits, whose scales go with both parts. */
Test(tp, floats_of_4_bits)
{
    static const char *const names[] = {
        "llama-nf4",      "llama-nf4-double", "llama-fp4",  "llama-nvfp4",
        "qwen3moe-nf4",   "qwen3moe-nvfp4",   "llama-bnb8", "llama-nvfp4-modelopt",
        "llama-ct-mxfp4", "qwen3moe-ct-mxfp4"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        all_worlds(golden_dir(names[i]), 4, DT_F32);
}

/* Rows in groups, whose scales go with them; GGUF's tiled value heads, which read a rank's key heads from the last one on
 * to the first one. */
Test(tp, delta_nets)
{
    char path[1100];
    all_worlds(golden_dir("qwen3next-fp8-block"), 4, DT_F32);
    all_worlds(golden_dir("qwen3next-gptq-order"), 4, DT_F32);
    all_worlds(golden_dir("qwen35-int4"), 4, DT_F32);
    all_worlds(golden_dir("qwen35moe-fp8-block"), 4, DT_F32);
    snprintf(path, sizeof path, "%s/../../gguf/qwen35-uneven-bf16.gguf", golden_dir("qwen35"));
    all_worlds(path, 4, DT_F32);
    snprintf(path, sizeof path, "%s/../../gguf/qwen3next.gguf", golden_dir("qwen35"));
    all_worlds(path, 4, DT_F32);
}

/* Chunks of the context, and experts whose weights are factors on their inputs. */
Test(tp, llama4)
{
    char path[1100];
    all_worlds(golden_dir("llama4"), 4, DT_F32);
    all_worlds(golden_dir("llama4-layers-bf16"), 4, DT_F16); /* 6 heads on 3 */
    all_worlds(golden_dir("llama4-fp8"), 4, DT_F32);
    all_worlds(golden_dir("llama4-fp8-split"), 4, DT_F32);
    all_worlds(golden_dir("llama4-int4-order"), 4, DT_F32);
    snprintf(path, sizeof path, "%s/../../gguf/llama4-plain-bf16.gguf", golden_dir("llama4"));
    all_worlds(path, 4, DT_BF16);
}

/* Groups of heads whose norm is of several ranks, and heads of whole groups. */
Test(tp, mamba_layers)
{
    char path[1100];
    all_worlds(golden_dir("granite-hybrid"), 4, DT_F32);
    all_worlds(golden_dir("granite-hybrid-groups-bf16"), 4, DT_F32);
    all_worlds(golden_dir("falcon-h1"), 4, DT_F32); /* beside attention */
    all_worlds(golden_dir("falcon-h1-norm-bf16"), 4, DT_BF16);
    all_worlds(golden_dir("bamba-groups-bf16"), 4, DT_F32);
    all_worlds(golden_dir("nemotron-h"), 4, DT_F32); /* layers of one part */
    all_worlds(golden_dir("nemotron-h-moe"), 4, DT_BF16);
    all_worlds(golden_dir("nemotron-h-groups-bf16"), 4, DT_F32);
    snprintf(path, sizeof path, "%s/../../gguf/granite-hybrid.gguf", golden_dir("granite-hybrid"));
    all_worlds(path, 4, DT_F32);
}

static const struct toy uneven = {.n_layers = 2,
                                  .hidden = 36,
                                  .ffn = 61,
                                  .vocab = 53,
                                  .n_q = 14,
                                  .n_kv = 2,
                                  .d_head = 6,
                                  .attention_bias = true,
                                  .mlp_bias = true};

Test(tp, heads_that_do_not_divide)
{
    const char *dir = toy_make(&uneven);
    all_worlds(dir, 8, DT_F32);
    toy_remove(dir);
    struct toy odd = {.n_layers = 1,
                      .hidden = 30,
                      .ffn = 9,
                      .vocab = 11,
                      .n_q = 9,
                      .n_kv = 9,
                      .d_head = 4,
                      .tied = true};
    dir = toy_make(&odd);
    all_worlds(dir, 8, DT_F32);
    toy_remove(dir);
}

/* Blocks of 256 go across the heads of 32; a rank holds whole blocks of the feed-forward width. */
static const struct toy wide = {.n_layers = 1,
                                .hidden = 256,
                                .vocab = 64,
                                .n_q = 8,
                                .n_kv = 4,
                                .d_head = 32,
                                .attention_bias = true};

/* Activations in 8 bits: a step is amax / 127, so a product is off by about 1 %, more where random
 * minima cancel random codes (Q5_1 here: 4 % after the layer). */
static void near(const char *dir, const struct job *a, const struct job *b)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < (size_t)N_TOKENS * (size_t)a->vocab; i++) {
        double d = (double)a->logits[i] - (double)b->logits[i];
        off += d * d;
        size += (double)b->logits[i] * (double)b->logits[i];
    }
    cr_assert(off > 0 && off < 0.06 * 0.06 * size, "%s: logits off by %g of their size", dir,
              sqrt(off / size));
}

/* Any number of ranks gives the bits of one, near those of the weights' values in f32. */
static void quantised(enum dtype t, enum dtype t_v, int32_t ffn, int max_world)
{
    struct toy toy = wide;
    toy.ffn = ffn;
    const char *dir = toy_make(&toy);
    struct gguf_recipe blocks = {.quant = t, .quant_v = t_v}, values = blocks;
    values.expand = true;
    const char *path = gguf_make(dir, &blocks), *path_f32 = gguf_make(dir, &values);
    all_worlds(path, max_world, DT_F32);
    struct job a = job_run(path, 1, N_TOKENS, DT_F32), b = job_run(path_f32, 1, N_TOKENS, DT_F32);
    near(path, &a, &b);
    job_free(&a);
    job_free(&b);
    unlink(path);
    unlink(path_f32);
    toy_remove(dir);
}

Test(tp, quantised_weights)
{
    quantised(DT_Q8_0, DT_Q8_0, 512, 8);
    quantised(DT_Q4_0, DT_Q4_0, 512, 8);
    quantised(DT_Q5_1, DT_Q5_0, 512, 4);
    quantised(DT_Q4_K, DT_Q6_K, 2048, 4);
    quantised(DT_Q6_K, DT_Q6_K, 1280, 4);
    quantised(DT_Q4_1, DT_Q5_K, 160, 4);
}

#define EXPERTS                                                                                    \
    .arch = "Qwen3MoeForCausalLM", .model_type = "qwen3_moe", .qk_norm = true, .n_experts = 6,     \
    .more = ",\"num_experts\":6,\"num_experts_per_tok\":3,\"norm_topk_prob\":true,"                \
            "\"moe_intermediate_size\":"

/* The experts' columns do not divide by the ranks; quantised ones are cut between blocks. */
Test(tp, experts)
{
    struct toy odd = {.n_layers = 2,
                      .hidden = 36,
                      .ffn = 5,
                      .vocab = 53,
                      .n_q = 14,
                      .n_kv = 2,
                      .d_head = 6,
                      .expert_ffn = 29,
                      EXPERTS "29"};
    const char *dir = toy_make(&odd);
    all_worlds(dir, 8, DT_F32);
    toy_remove(dir);

    struct toy toy = {.n_layers = 1,
                      .hidden = 256,
                      .ffn = 8,
                      .vocab = 64,
                      .n_q = 8,
                      .n_kv = 4,
                      .d_head = 32,
                      .expert_ffn = 1280,
                      EXPERTS "1280"};
    static const enum dtype types[] = {DT_Q8_0, DT_Q4_0, DT_Q4_K};
    dir = toy_make(&toy);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        const char *path =
            gguf_make(dir, &(struct gguf_recipe){.quant = types[i], .quant_v = types[i]});
        all_worlds(path, types[i] == DT_Q4_K ? 4 : 8, DT_F32);
        unlink(path);
    }
    toy_remove(dir);
}

/* Not a power of two: another order of sums, so not the bits of one rank, but still its own
 * whatever the batch. */
Test(tp, world_3)
{
    const char *dir = toy_make(&uneven);
    struct job one = job_run(dir, 1, N_TOKENS, DT_F32), whole = job_run(dir, 3, N_TOKENS, DT_F32);
    struct job parts = job_run(dir, 3, 5, DT_F32);
    same_bits(dir, &whole, &parts);
    for (size_t i = 0; i < (size_t)N_TOKENS * (size_t)one.vocab; i++)
        cr_assert_float_eq(one.logits[i], whole.logits[i], 2e-4f * (1 + fabsf(one.logits[i])));
    job_free(&one);
    job_free(&whole);
    job_free(&parts);
    toy_remove(dir);
}
