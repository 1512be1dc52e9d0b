/* The report of a model, as text and as JSON, against the plan that it stands for. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "worker/inspect.h"

static const struct decoder_config sizes = {
    .world = 4, .max_tokens = 64, .max_seqs = 8, .max_out = 8, .block_len = 16, .kv_dtype = DT_F16};

static struct backend *cpu(void)
{
    struct backend *be;
    struct backend_config bc = {.threads = 1};
    must(backend_open(&be, "cpu", &bc), "backend");
    return be;
}

static enum status report(char **text, const char *dir, const struct decoder_config *cfg, bool json)
{
    size_t size;
    struct backend *be = cpu();
    FILE *f = open_memstream(text, &size);
    enum status st = inspect_model(f, dir, be, cfg, json);
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

    struct backend *be = cpu();
    struct loader *ld;
    must(loader_open(&ld, dir), dir);
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(root, "tensors")), (int)loader_count(ld));
    struct decoder_config cfg = sizes;
    cfg.max_ctx = loader_config(ld)->max_ctx;
    cfg.n_blocks = (cfg.max_ctx + 15) / 16;
    double sum = 0;
    cJSON_ArrayForEach(rank, cJSON_GetObjectItem(root, "ranks"))
    {
        struct decoder_memory m;
        must(decoder_plan_memory(&m, loader_config(ld), ld, be, &cfg), "plan");
        cr_assert_eq(number(rank, "rank"), cfg.rank);
        cr_assert_eq(number(rank, "weights_bytes"), (double)m.weights);
        cr_assert_eq(number(rank, "kv_bytes"), (double)m.kv);
        cr_assert_eq(number(rank, "kv_block_bytes"), (double)m.kv_per_block);
        cr_assert_eq(number(rank, "total_bytes"),
                     (double)(m.weights + m.kv + m.scratch + m.tables));
        sum += number(rank, "read_bytes");
        cfg.rank++;
    }
    cr_assert_eq(cfg.rank, 4);
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
    struct decoder_config cfg = sizes;
    cfg.world = 2;
    must(report(&text, golden_dir("qwen3"), &cfg, false), "report");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        cr_assert_not_null(strstr(text, parts[i]), "no \"%s\" in\n%s", parts[i], text);
    free(text);
}

Test(inspect, experts)
{
    char *text;
    static const char *const parts[] = {
        "experts        6 of 20 columns in 1 of 4 layers, 3 for a token\n",
        "of each expert",
        "model.layers.1.mlp.experts.5.down_proj.weight",
    };
    struct decoder_config cfg = sizes;
    cfg.world = 2;
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

Test(inspect, failures_write_nothing)
{
    char *text;
    struct decoder_config cfg = sizes;
    cfg.world = 64;
    cr_assert_eq(report(&text, golden_dir("llama-gqa"), &cfg, false), ST_RANGE);
    cr_assert_str_eq(text, "");
    free(text);
    cfg.world = 0;
    cr_assert_eq(report(&text, golden_dir("llama-gqa"), &cfg, true), ST_RANGE);
    cr_assert_str_eq(text, "");
    free(text);
    cr_assert_eq(report(&text, "/nonexistent", &sizes, true), ST_NOT_FOUND);
    cr_assert_str_eq(text, "");
    free(text);
}
