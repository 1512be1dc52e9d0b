/* The report of a model, as text and as JSON, against the plan that it stands for. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "worker/inspect.h"
#include "worker/rank_plan.h"

static const struct shared_options sizes = {.tp = 4,
                                            .max_step_tokens = 64,
                                            .max_seqs = 8,
                                            .block_len = 16,
                                            .kv_blocks = 40,
                                            .kv_dtype = 2 /* f16 */};

/* As the worker opens it: activations is an index of its choices, auto and f32. */
static struct backend *cpu(int activations)
{
    struct backend *be;
    struct backend_config bc = {.threads = 1,
                                .activations = activations ? ACTIVATIONS_F32 : ACTIVATIONS_AUTO};
    must(backend_open(&be, "cpu", &bc), "backend");
    return be;
}

static enum status report(char **text, const char *dir, const struct shared_options *sizes_of,
                          bool json)
{
    size_t size;
    struct backend *be = cpu(sizes_of->activations);
    FILE *f = open_memstream(text, &size);
    struct worker_options opt = {.shared = *sizes_of, .json = json};
    opt.shared.model = dir;
    enum status st = inspect_model(f, &opt, be);
    fclose(f);
    backend_ops_of(be)->close(be);
    return st;
}

static double number(const cJSON *o, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
    cr_assert(cJSON_IsNumber(item), "%s", name);
    return item->valuedouble;
}

Test(inspect, json_is_the_plan)
{
    char *text;
    const char *dir = golden_dir("llama-gqa");
    must(report(&text, dir, &sizes, true), "report");
    cr_assert_eq(strchr(text, '\n'), text + strlen(text) - 1, "one line");
    cJSON *root = cJSON_Parse(text), *rank;
    cr_assert_not_null(root);
    const cJSON *config = cJSON_GetObjectItem(root, "config");
    cr_assert_eq(number(config, "heads"), 8);
    cr_assert_eq(number(config, "kv_heads"), 2);
    cr_assert_str_eq(cJSON_GetObjectItem(config, "architecture")->valuestring, "LlamaForCausalLM");

    struct backend *be = cpu(0);
    struct loader *ld;
    must(loader_open(&ld, dir), dir);
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(root, "tensors")), (int)loader_count(ld));
    double sum = 0;
    int n = 0;
    cJSON_ArrayForEach(rank, cJSON_GetObjectItem(root, "ranks"))
    {
        struct rank_place place = {.rank = n, .world = 4, .n_on_host = 4, .one_host = true};
        struct rank_plan p;
        uint64_t blocks;
        must(rank_plan_init(&p, &sizes, &place, be, ld), "plan");
        must(rank_plan_blocks(&p, &blocks), "blocks");
        cr_assert_eq(blocks, 40);
        must(rank_plan_set_blocks(&p, blocks), "plan");
        cr_assert_eq(number(rank, "rank"), n++);
        cr_assert_eq(number(rank, "weights_bytes"), (double)p.memory.weights);
        cr_assert_eq(number(rank, "kv_bytes"), (double)p.memory.kv);
        cr_assert_eq(number(rank, "kv_block_bytes"), (double)p.memory.kv_per_block);
        cr_assert_eq(number(rank, "step_bytes"), (double)p.step);
        cr_assert_eq(number(rank, "total_bytes"),
                     number(rank, "weights_bytes") + number(rank, "kv_bytes") +
                         number(rank, "scratch_bytes") + number(rank, "tables_bytes") +
                         number(rank, "step_bytes") + number(rank, "backend_bytes") +
                         number(rank, "graphs_bytes") + number(rank, "collective_bytes"));
        sum += number(rank, "read_bytes");
        rank_plan_fini(&p);
    }
    cr_assert_eq(n, 4);
    cr_assert_geq(sum, number(root, "bytes"), "norms are read by all ranks");
    cJSON_Delete(root);
    free(text);
    loader_close(ld);
    backend_ops_of(be)->close(be);
}

Test(inspect, text_names_everything)
{
    char *text;
    static const char *const parts[] = {
        "Qwen3ForCausalLM",
        "norm of q and k",
        "model.layers.1.self_attn.q_norm.weight",
        "memory plan for 2 ranks",
        "vocabulary",
        "KV a block",
        "f16",
    };
    struct shared_options cfg = sizes;
    cfg.tp = 2;
    must(report(&text, golden_dir("qwen3"), &cfg, false), "report");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        cr_assert_not_null(strstr(text, parts[i]), "no \"%s\" in\n%s", parts[i], text);
    free(text);
}

/* The weights are those of the same model in floats, and the cost is about what the scheme says. */
Test(inspect, quantisation)
{
    static const struct {
        const char *name, *says;
        double weights, least, most; /* bits a weight in memory; the embedding is in floats */
        bool f32;                    /* --activations f32 */
    } rows[] = {
        {"llama-gptq-zeros",
         "gptq: 4 bits, groups of 64 columns, zero points; activations in 8 bits (Metal: f32)\n",
         111936, 4.75, 11, false},
        {"llama-gptq-order",
         "gptq: 4 bits, groups of 32 columns in any order, sorted; activations in 8 bits (Metal: "
         "f32)\n",
         111936, 4.75, 16, false},
        {"llama-gptq-order",
         "gptq: 4 bits, groups of 32 columns in any order; activations in f32\n", 111936, 4.75, 12,
         true},
        {"qwen3next-gptq-order",
         "gptq: 4 bits, groups of 16 columns in any order, zero points; activations in f32\n", 0,
         4.75, 24, false},
        {"llama-awq",
         "awq: 4 bits, groups of 64 columns, zero points; activations in 8 bits (Metal: f32)\n",
         111936, 4.75, 11, false},
        {"llama-int8",
         "compressed-tensors: 8 bits, a scale for each row; activations in 8 bits (Metal: f32)\n",
         62656, 8.5, 13, false},
        {"llama-int8-f32", "compressed-tensors: 8 bits, a scale for each row; activations in f32\n",
         62656, 8.25, 14, false},
        {"llama-fp8-block",
         "fp8: e4m3 with a scale for each block of 128 x 128; activations in f32 (CUDA: f16)\n", 0,
         8, 32, false},
        {"llama-fp8-channel",
         "fp8: e4m3 with a scale for each row or matrix; activations in f32 (CUDA: f16)\n", 0, 8,
         32, false},
        {"llama-fp8-block", "each block of 128 x 128; activations in f32\n", 0, 8, 32, true},
        {"llama-nf4", "bitsandbytes: nf4, a scale for 64 weights; activations in f32 (CUDA: f16)\n",
         111936, 5, 12, false},
        {"llama-nf4", "bitsandbytes: nf4, a scale for 64 weights; activations in f32\n", 111936, 5,
         12, true},
        {"llama-nf4-double",
         "bitsandbytes: nf4, a scale for 64 weights, themselves in 8 bits; activations in f32 "
         "(CUDA: f16)\n",
         0, 5, 14, false},
        {"llama-fp4",
         "bitsandbytes: fp4, a scale for 256 weights; activations in f32 (CUDA: f16)\n", 0, 4.2, 14,
         false},
        {"llama-bnb8", "bitsandbytes: 8 bits, a scale for each row; activations in f32\n", 0, 8.2,
         14, false},
        {"llama-nvfp4",
         "compressed-tensors: nvfp4, a scale for 16 weights; activations in f32 (CUDA: f16)\n", 0,
         4.5, 12, false},
        {"llama-nvfp4-modelopt",
         "modelopt: nvfp4, a scale for 16 weights; activations in f32 (CUDA: f16)\n", 0, 4.5, 14,
         false},
        {"llama-ct-mxfp4",
         "compressed-tensors: mxfp4, a scale for 32 weights; activations in 8 bits (Metal: f32)\n",
         0, 4.5, 14, false},
        {"gpt-oss-mxfp4",
         "mxfp4: experts in 4 bits, a scale for 32 columns; activations in 8 bits (Metal: f32)\n",
         0, 4.5, 32, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *text;
        struct shared_options cfg = sizes;
        cfg.tp = 1;
        cfg.activations = rows[i].f32;
        must(report(&text, golden_dir(rows[i].name), &cfg, false), "report");
        cr_assert_not_null(strstr(text, rows[i].says), "%s: no \"%s\" in\n%s", rows[i].name,
                           rows[i].says, text);
        free(text);
        must(report(&text, golden_dir(rows[i].name), &cfg, true), "report");
        cJSON *root = cJSON_Parse(text);
        double bits = number(root, "memory_bits_per_weight"), n = number(root, "weights");
        cr_assert(bits >= rows[i].least && bits <= rows[i].most, "%s: %g bits", rows[i].name, bits);
        cr_assert(rows[i].weights == 0 || n == rows[i].weights, "%s: %g weights", rows[i].name, n);
        double file = number(root, "file_bits_per_weight") - 8 * number(root, "bytes") / n;
        cr_assert(file < 1e-9 && file > -1e-9, "%s", rows[i].name);
        cJSON_Delete(root);
        free(text);
    }
}

/* What the checkpoint asks of inputs, without and with --activations checkpoint (its place in the option's choices). */
Test(inspect, inputs_as_the_checkpoint_asks)
{
    enum { CHECKPOINT = 4 };
    static const struct {
        const char *name;
        int activations;
        const char *says, *asked;
    } rows[] = {
        {"llama-int8", 0,
         "asks for activations in int8, a scale for each token: --activations checkpoint rounds "
         "them so",
         "int8, a scale for each token"},
        {"llama-int8", CHECKPOINT,
         "asks for activations in int8, a scale for each token: so they are",
         "int8, a scale for each token"},
        {"llama-int8", CHECKPOINT, "a scale for each row; activations in int8\n",
         "int8, a scale for each token"},
        {"llama-fp8-block", CHECKPOINT, "for each block of 128 x 128; activations in e4m3\n",
         "e4m3, a scale for each token and 128 columns"},
        {"llama-fp8-channel", CHECKPOINT, "for each row or matrix; activations in e4m3\n",
         "e4m3, a scale for each matrix"},
        {"llama-gptq", CHECKPOINT, "groups of 32 columns; activations in f32\n", "f32"},
        {"llama-nvfp4", 0,
         "--activations checkpoint is not supported: "
         "quantization_config.config_groups.group_0.input_activations.num_bits = 4",
         ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *text;
        struct shared_options cfg = sizes;
        cfg.tp = 1;
        cfg.activations = rows[i].activations;
        must(report(&text, golden_dir(rows[i].name), &cfg, false), "report");
        cr_expect(strstr(text, rows[i].says), "%s: no \"%s\" in\n%s", rows[i].name, rows[i].says,
                  text);
        free(text);
        must(report(&text, golden_dir(rows[i].name), &cfg, true), "report");
        cJSON *root = cJSON_Parse(text);
        cr_expect_str_eq(cJSON_GetObjectItem(root, "checkpoint_activations")->valuestring,
                         rows[i].asked, "%s", rows[i].name);
        cr_expect_eq(cJSON_IsTrue(cJSON_GetObjectItem(root, "rounds_as_checkpoint")),
                     rows[i].activations == CHECKPOINT, "%s", rows[i].name);
        cr_expect_eq(!*cJSON_GetObjectItem(root, "checkpoint_activations_refused")->valuestring,
                     *rows[i].asked != 0, "%s", rows[i].name);
        cJSON_Delete(root);
        free(text);
    }
}

Test(inspect, experts)
{
    char *text;
    static const char *const parts[] = {
        "experts        6 of 20 columns in 1 of 4 layers, 3 for a token\n",
        "of each expert",
        "model.layers.1.mlp.experts.5.down_proj.weight",
    };
    struct shared_options cfg = sizes;
    cfg.tp = 2;
    must(report(&text, golden_dir("qwen3moe-step"), &cfg, false), "report");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        cr_assert_not_null(strstr(text, parts[i]), "no \"%s\" in\n%s", parts[i], text);
    free(text);
    must(report(&text, golden_dir("qwen3moe-step"), &cfg, true), "report");
    cJSON *root = cJSON_Parse(text), *config = cJSON_GetObjectItem(root, "config");
    cr_assert_eq(number(config, "experts"), 6);
    cr_assert_eq(number(config, "experts_per_token"), 3);
    cr_assert_eq(number(config, "sparse_layers"), 1);
    const cJSON *rank = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "ranks"), 1);
    const cJSON *columns = cJSON_GetObjectItem(rank, "expert_ffn");
    cr_assert_eq(cJSON_GetArrayItem(columns, 0)->valueint, 10);
    cr_assert_eq(cJSON_GetArrayItem(columns, 1)->valueint, 10);
    cJSON_Delete(root);
    free(text);
}

Test(inspect, latent_attention)
{
    char *text;
    struct shared_options cfg = sizes;
    cfg.tp = 2;
    must(report(&text, golden_dir("deepseek3"), &cfg, false), "report");
    cr_assert_not_null(strstr(text,
                              "latent: one row of 24 + 8 elements a token for all heads; queries "
                              "of 12 + 8 from a latent of their own, values of 10\n"),
                       "%s", text);
    free(text);
    must(report(&text, golden_dir("deepseek3"), &cfg, true), "report");
    cJSON *root = cJSON_Parse(text), *config = cJSON_GetObjectItem(root, "config");
    cr_assert_eq(number(config, "kv_rank"), 24);
    cr_assert_eq(number(config, "q_rank"), 20);
    cJSON_Delete(root);
    free(text);
}

Test(inspect, failures_write_nothing)
{
    char *text;
    struct shared_options cfg = sizes;
    cfg.tp = 64;
    cr_assert_eq(report(&text, golden_dir("llama-gqa"), &cfg, false), ST_RANGE);
    cr_assert_str_eq(text, "");
    free(text);
    cfg.tp = 0;
    cr_assert_eq(report(&text, golden_dir("llama-gqa"), &cfg, true), ST_RANGE);
    cr_assert_str_eq(text, "");
    free(text);
    cr_assert_eq(report(&text, "/nonexistent", &sizes, true), ST_NOT_FOUND);
    cr_assert_str_eq(text, "");
    free(text);
}
