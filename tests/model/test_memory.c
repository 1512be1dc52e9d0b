/* The memory plan against what is really taken:
 * the back end's alloc and load_weight are counted. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <string.h>

#include "rig.h"

static struct backend_ops counted; /* the CPU's table with two functions replaced */
static const struct backend_ops *real;
static size_t allocated, loaded;
static int in_use; /* buffers and weights not given back */

static enum status count_alloc(struct backend *be, size_t bytes, enum mem_kind kind,
                               struct buf **out)
{
    allocated += alloc_bytes(bytes);
    in_use++;
    return real->alloc(be, bytes, kind, out);
}

static enum status count_load(struct backend *be, const struct weight_src *src, struct weight **out)
{
    loaded += real->weight_bytes(be, src);
    in_use++;
    return real->load_weight(be, src, out);
}

static enum status count_stack(struct backend *be, const struct weight_src *src, int32_t n,
                               struct weight **out)
{
    loaded += real->stack_bytes(be, src, n);
    in_use++;
    return real->load_stack(be, src, n, out);
}

static void count_free(struct backend *be, struct buf *b)
{
    in_use--;
    real->free(be, b);
}

static void count_free_weight(struct backend *be, struct weight *w)
{
    in_use--;
    real->free_weight(be, w);
}

static struct backend *counting_backend(void)
{
    struct backend *be;
    struct backend_config cfg = {.threads = 1};
    must(backend_open(&be, "cpu", &cfg), "backend");
    real = backend_ops_of(be);
    counted = *real;
    counted.alloc = count_alloc;
    counted.load_weight = count_load;
    counted.load_stack = count_stack;
    counted.free = count_free;
    counted.free_weight = count_free_weight;
    ((struct backend_base *)be)->ops = &counted;
    return be;
}

ParameterizedTestParameters(memory, plan_is_what_is_taken)
{
    return cr_make_param_array(size_t, golden_indices(), n_golden);
}

/* What one rank plans and takes.  Opening a decoder exchanges nothing, so the collective is only a
 * name. */
static void check_rank(struct backend *be, struct loader *ld, enum dtype kv, int rank, int world)
{
    struct decoder *m;
    struct decoder_memory plan;
    struct coll co = {.rank = rank, .world = world};
    struct rig_config rc = {.kv_dtype = kv,
                            .block_len = 5,
                            .n_blocks = 13,
                            .max_tokens = 33,
                            .max_out = 3,
                            .max_ctx = 67};
    struct decoder_config cfg = rig_decoder_config(loader_config(ld), rc, rank, world);
    allocated = loaded = 0;
    must(decoder_plan_memory(&plan, loader_config(ld), ld, be, &cfg), "plan");
    cr_assert_eq(allocated + loaded, 0, "a plan takes nothing");
    must(decoder_open(&m, loader_config(ld), ld, be, &co, &cfg), "open");
    cr_assert_eq(loaded, plan.weights);
    cr_assert_eq(allocated, plan.kv + plan.states + plan.scratch + plan.tables);
    size_t blocks = plan.kv_per_block * 13,
           rounding = 4 * (size_t)decoder_model(m)->n_layers * ALLOC_ALIGN;
    cr_assert(plan.kv >= blocks && plan.kv - blocks < rounding);
    size_t states = plan.states_per_seq * (size_t)cfg.max_seqs;
    cr_assert_eq(plan.states > 0, model_n_delta(decoder_model(m)) > 0);
    cr_assert(plan.states >= states && plan.states - states < rounding);
    decoder_close(m);
    cr_assert_eq(in_use, 0);
}

ParameterizedTest(size_t *i, memory, plan_is_what_is_taken)
{
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16, DT_I8, DT_E4M3};
    struct backend *be = counting_backend();
    struct loader *ld;
    must(loader_open(&ld, golden_dir(golden_names[*i])), golden_names[*i]);
    int most = loader_config(ld)->n_q < 4 ? loader_config(ld)->n_q : 4;
    for (size_t k = 0; k < ARRAY_LEN(types); k++)
        for (int world = 1; world <= most; world++)
            for (int rank = 0; rank < world; rank++)
                check_rank(be, ld, types[k], rank, world);
    loader_close(ld);
    real->close(be);
}

/* Layers that read the keys and values of others take none of the cache. */
Test(memory, shared_keys_and_values_are_held_once)
{
    struct backend *be = counting_backend();
    struct loader *ld;
    struct decoder_memory plan;
    must(loader_open(&ld, golden_dir("gemma4-inputs")), "gemma4-inputs");
    const struct model_config *mc = loader_config(ld);
    struct rig_config rc = {.kv_dtype = DT_F32, .block_len = 5, .n_blocks = 13};
    struct decoder_config cfg = rig_decoder_config(mc, rc, 0, 1);
    must(decoder_plan_memory(&plan, mc, ld, be, &cfg), "plan");
    cr_assert_eq(mc->n_layers, 6);
    cr_assert_eq(mc->n_kv_shared, 3); /* of the others two have a window */
    size_t cols =
        2 * (size_t)(mc->n_kv * mc->d_head) + (size_t)(mc->global_n_kv * mc->global_d_head);
    cr_assert_eq(plan.kv_per_block, 2 * 5 * cols * sizeof(float));
    loader_close(ld);
    real->close(be);
}

static void no_experts(struct backend *be, struct backend_info *out)
{
    real->info(be, out);
    out->experts = false;
}

Test(memory, a_backend_without_experts_says_so)
{
    struct backend *be = counting_backend();
    struct loader *ld;
    struct decoder_memory plan;
    must(loader_open(&ld, golden_dir("qwen3moe")), "qwen3moe");
    struct decoder_config cfg = rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, 1);
    counted.info = no_experts;
    cr_assert_eq(decoder_plan_memory(&plan, loader_config(ld), ld, be, &cfg), ST_UNSUPPORTED);
    cr_assert(strstr(status_text(), "the backend cpu (") &&
                  strstr(status_text(), "has no mixtures of experts"),
              "%s", status_text());
    loader_close(ld);
    real->close(be);
}

static void no_features(struct backend *be, struct backend_info *out)
{
    real->info(be, out);
    out->features = 0;
}

Test(memory, a_backend_without_a_feature_says_so)
{
    static const struct {
        const char *model, *text;
    } rows[] = {
        {"glm4moe", "has no sigmoid or grouped routing of experts, which Glm4MoeForCausalLM needs"},
        {"qwen2moe", "has no gates, which Qwen2MoeForCausalLM needs"},
        {"starcoder2", "has no biases before norms, which Starcoder2ForCausalLM needs"},
        {"gpt-oss", "has no attention sinks, which GptOssForCausalLM needs"},
        {"olmo2", "has no norms over all heads at once, which Olmo2ForCausalLM needs"},
        {"deepseek3", "has no latent attention, which DeepseekV3ForCausalLM needs"},
        {"gemma4", "has no norms of values, which Gemma4ForCausalLM needs"},
        {"gemma3n", "has no norms of values, which Gemma3nForCausalLM needs"},
        {"minicpm3", "has no latent attention, which MiniCPM3ForCausalLM needs"},
    };
    struct backend *be = counting_backend();
    counted.info = no_features;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct loader *ld;
        struct decoder_memory plan;
        must(loader_open(&ld, golden_dir(rows[i].model)), rows[i].model);
        struct decoder_config cfg =
            rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, 1);
        cr_assert_eq(decoder_plan_memory(&plan, loader_config(ld), ld, be, &cfg), ST_UNSUPPORTED);
        cr_assert(strstr(status_text(), rows[i].text), "%s", status_text());
        loader_close(ld);
    }
    real->close(be);
}

static unsigned lacking; /* a bit of enum backend_feature */

static void all_features_but_one(struct backend *be, struct backend_info *out)
{
    real->info(be, out);
    out->features &= ~lacking;
}

/* Each feature that Gemma 3n needs is looked for. */
Test(memory, a_backend_without_one_feature_says_so)
{
    static const struct {
        enum backend_feature feature;
        const char *text;
    } rows[] = {
        {FEATURE_VALUES, "has no norms of values"},
        {FEATURE_Q_ALONE, "has no layers that share keys and values"},
        {FEATURE_STREAMS, "has no AltUp"},
        {FEATURE_LATENT, "has no matrices of residual streams"},
        {FEATURE_GATE_CUT, "has no gates cut by the statistics of their row"},
    };
    struct backend *be = counting_backend();
    struct loader *ld;
    struct decoder_memory plan;
    must(loader_open(&ld, golden_dir("gemma3n")), "gemma3n");
    struct decoder_config cfg = rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, 1);
    counted.info = all_features_but_one;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        lacking = 1U << rows[i].feature;
        cr_assert_eq(decoder_plan_memory(&plan, loader_config(ld), ld, be, &cfg), ST_UNSUPPORTED);
        cr_expect(strstr(status_text(), rows[i].text), "%s", status_text());
    }
    loader_close(ld);
    real->close(be);
}

static void small_heads(struct backend *be, struct backend_info *out)
{
    real->info(be, out);
    out->max_head = 31;
}

Test(memory, heads_that_are_too_large)
{
    struct backend *be = counting_backend();
    struct loader *ld;
    struct decoder_memory plan;
    must(loader_open(&ld, golden_dir("deepseek3")), "deepseek3");
    struct decoder_config cfg = rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, 1);
    counted.info = small_heads;
    cr_assert_eq(decoder_plan_memory(&plan, loader_config(ld), ld, be, &cfg), ST_UNSUPPORTED);
    cr_assert(strstr(status_text(), "heads of 32 elements") && strstr(status_text(), "up to 31"),
              "%s", status_text());
    loader_close(ld);
    real->close(be);
}

struct progress {
    size_t last, total;
    int calls;
};

static void on_progress(void *ctx, size_t done, size_t total)
{
    struct progress *p = ctx;
    cr_assert_gt(done, p->last);
    cr_assert_leq(done, total);
    *p = (struct progress){done, total, p->calls + 1};
}

Test(memory, progress_ends_at_the_total)
{
    struct backend *be = counting_backend();
    struct loader *ld;
    struct decoder *m;
    struct progress p = {0};
    struct stored_tensor t;
    size_t bytes = 0;
    must(loader_open(&ld, golden_dir("llama-sharded-bf16")), "open");
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        bytes += t.n_bytes;
    }
    struct decoder_config cfg = rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, 1);
    loader_on_progress(ld, on_progress, &p);
    must(decoder_open(&m, loader_config(ld), ld, be, NULL, &cfg), "open");
    cr_assert_gt(p.calls, 5);
    cr_assert_eq(p.last, p.total);
    cr_assert_eq(p.total, bytes, "one rank reads all of the files' tensors");
    decoder_close(m);
    loader_close(ld);
    real->close(be);
}

/* Every failure on the way gives back what was taken. */
static int fail_at;
static enum status failing_alloc(struct backend *be, size_t bytes, enum mem_kind kind,
                                 struct buf **out)
{
    if (fail_at-- == 0)
        FAIL(ST_NOMEM, "the device is full");
    return count_alloc(be, bytes, kind, out);
}

static enum status failing_load(struct backend *be, const struct weight_src *src,
                                struct weight **out)
{
    if (fail_at-- == 0)
        FAIL(ST_NOMEM, "the device is full");
    return count_load(be, src, out);
}

Test(memory, a_failed_open_leaves_nothing)
{
    struct backend *be = counting_backend();
    struct loader *ld;
    struct engine *e;
    must(loader_open(&ld, golden_dir("llama-gqa")), "open");
    struct decoder_config cfg = rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, 1);
    counted.alloc = failing_alloc;
    counted.load_weight = failing_load;
    int n = 0;
    for (;; n++) {
        fail_at = n;
        enum status st = engine_create(&e, ld, be, NULL, &cfg);
        if (st == ST_OK)
            break;
        cr_assert_eq(st, ST_NOMEM);
        cr_assert_null(e);
        cr_assert_eq(in_use, 0, "failure %d left something", n);
    }
    cr_assert_gt(n, 15);
    engine_destroy(e);
    cr_assert_eq(in_use, 0);
    loader_close(ld);
    real->close(be);
}
