/* GGUF files that were not made by this repository's own writer and those that `ingot quantize` makes of the same
 * folders: both give the logits of transformers for the folder.
 *
 * tests/golden/gguf: files of llama.cpp's converter, made by foreign_gguf.py. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "temp_dir.h"

/* The largest difference of a logit from the folder's, relative to the largest logit. */
static double difference(const char *file, const char *name)
{
    struct golden g;
    struct rig r;
    double diff = 0, top = 0;
    golden_open(&g, golden_dir(name));
    size_t n = (size_t)g.n * (size_t)g.vocab;
    float *logits = malloc(n * sizeof *logits);
    rig_open(&r, file, (struct rig_config){0});
    must(engine_prepare(r.e, 1, g.n), "prepare");
    must(engine_forward_verify(r.e, 1, g.ids, g.n, logits), file);
    rig_close(&r);
    for (size_t i = 0; i < n; i++) {
        cr_assert_not(isnan(logits[i]), "%s", name);
        diff = fmax(diff, fabs((double)logits[i] - (double)g.logits[i]));
        top = fmax(top, fabs((double)g.logits[i]));
    }
    free(logits);
    golden_close(&g);
    return diff / top;
}

static const char *const foreign[] = {
    "llama-attention-bias",
    "llama-rope-llama3",
    "llama-rope-yarn-factor",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3moe",
    "gemma-plain-bf16",
    "gemma2-bf16",
    "gemma3-plain-bf16",
    "ministral3",
    "mistral3-vision",
    "phi3-long",
    "phi3-partial-bf16",
    "smollm3-bias-bf16",
    "granite",
    "granitemoe-bf16",
    "glm4",
    "exaone4",
    "deepseek2-lite-bf16",
    "deepseek3",
    "moonlight-bf16",
    "minicpm3",
    "qwen3next",
    "qwen35",
    "qwen35-uneven-bf16",
    "qwen35moe-bf16",
    "neox",
    "neox-sequential-bf16",
    "gpt2",
    "gpt2-bare-bf16",
    "gemma4",
    "gemma4-values-bf16",
    "gemma4-vision",
    "gemma4-inputs",
    "gemma4-inputs-bf16",
    "gemma4-moe",
    "gemma4-moe-bf16",
    "olmo2",
    "olmoe",
    "qwen2moe",
    "seed-oss",
    "ernie45",
    "cohere",
    "cohere2",
    "glm4moe",
    "dots1",
    "minimax-m2",
    "granite-hybrid",
    "granite-hybrid-dense",
    "falcon-h1",
    "falcon-h1-gate",
    "nemotron-h",
    "nemotron-h-moe",
};

ParameterizedTestParameters(foreign_gguf, of_llama_cpp)
{
    static size_t index[ARRAY_LEN(foreign)];
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        index[i] = i;
    return cr_make_param_array(size_t, index, ARRAY_LEN(foreign));
}

ParameterizedTest(size_t *i, foreign_gguf, of_llama_cpp)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/../../gguf/%s.gguf", golden_dir(foreign[*i]), foreign[*i]);
    double d = difference(path, foreign[*i]);
    cr_assert(d <= 1e-4, "%s: relative difference %g", foreign[*i], d);
}

/* The file with another value of a u32 key is refused. */
static void refused(const char *name, const char *key, uint32_t value, enum status want,
                    const char *says)
{
    char path[1100], dir[64], out[128];
    struct loader *ld = NULL;
    snprintf(path, sizeof path, "%s/../../gguf/%s.gguf", golden_dir(name), name);
    temp_dir_make(dir);
    snprintf(out, sizeof out, "%s/changed.gguf", dir);
    FILE *in = fopen(path, "rb"), *to = fopen(out, "wb");
    cr_assert(in && to, "%s", path);
    char *data = malloc(1 << 20);
    size_t n = fread(data, 1, 1 << 20, in), len = strlen(key), at = 0;
    while (at + len + 8 <= n && memcmp(data + at, key, len) != 0)
        at++;
    cr_assert(at + len + 8 <= n && n < 1 << 20, "%s has no key %s", name, key);
    memcpy(data + at + len + 4, &value, sizeof value); /* behind its type */
    cr_assert_eq(fwrite(data, 1, n, to), n);
    fclose(in);
    fclose(to);
    free(data);
    enum status st = loader_open(&ld, out);
    cr_expect(st == want && strstr(status_text(), says), "%s = %u: %s: %s", key, value,
              status_name(st), status_text());
    loader_close(ld);
    temp_dir_remove(dir);
}

Test(foreign_gguf, delta_nets_of_wrong_sizes)
{
    refused("qwen35", "qwen35.ssm.inner_size", 97, ST_RANGE,
            "ssm.inner_size 97 are no 8 value heads");
    refused("qwen35", "qwen35.ssm.inner_size", 1 << 20, ST_RANGE,
            "ssm.inner_size 1048576 are no 8 value heads");
    refused("qwen35", "qwen35.ssm.group_count", 3, ST_RANGE,
            "ssm.time_step_rank 8 is no multiple of ssm.group_count 3");
    refused("qwen35", "qwen35.ssm.conv_kernel", 1, ST_RANGE, "qwen35.ssm.conv_kernel");
    refused("qwen3next", "qwen3next.ssm.state_size", 1 << 20, ST_RANGE, "qwen3next.ssm.state_size");
    refused("qwen3next", "qwen3next.full_attention_interval", 0, ST_RANGE,
            "full_attention_interval");
}

Test(foreign_gguf, mamba_of_wrong_sizes)
{
    refused("granite-hybrid", "granitehybrid.ssm.inner_size", 97, ST_RANGE,
            "ssm.inner_size 97 are no 8 heads");
    refused("granite-hybrid", "granitehybrid.ssm.group_count", 3, ST_RANGE,
            "ssm.time_step_rank 8 is no multiple of ssm.group_count 3");
    refused("granite-hybrid", "granitehybrid.rope.dimension_count", 4, ST_UNSUPPORTED,
            "files of Bamba have the rows of q and k in another order");
    refused("granite-hybrid", "granitehybrid.ssm.conv_kernel", 99, ST_RANGE, "ssm.conv_kernel");
    refused("granite-hybrid", "granitehybrid.ssm.state_size", 1 << 20, ST_RANGE, "ssm.state_size");
}

Test(foreign_gguf, gemma4_of_other_kinds)
{
    refused("gemma4", "gemma4.attention.shared_kv_layers", 4, ST_RANGE, "shared_kv_layers");
    refused("gemma4", "gemma4.attention.shared_kv_layers", 3, ST_UNSUPPORTED,
            "shared_kv_layers = 3: layer 1 shares keys and values, and no layer of its kind is "
            "before");
    refused("gemma4", "gemma4.embedding_length_per_layer_input", 1 << 20, ST_RANGE,
            "embedding_length_per_layer_input");
    refused("gemma4-moe", "gemma4.expert_used_count", 9, ST_RANGE, "expert_used_count");
    refused("gemma4-inputs", "gemma4.attention.shared_kv_layers", 2, ST_UNSUPPORTED,
            "feed_forward_length[3] is 80, another layer of its kind has 40");
    refused("gemma4", "gemma4.attention.value_length_swa", 8, ST_UNSUPPORTED,
            "keys of 16 and values of 8");
    refused("gemma4", "gemma4.attention.key_length", 0, ST_RANGE, "key_length is 0");
    refused("gemma4-values-bf16", "gemma4.attention.head_count_kv", 4, ST_RANGE,
            "cannot share 4 key/value heads");
}

/* ---- ingot quantize ---- */

/* Its exit status; err: what it writes to stderr. */
static int quantize(const char *folder, const char *out, char *err, size_t size)
{
    int fd[2], rc;
    cr_assert_eq(pipe(fd), 0);
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        dup2(fd[1], STDERR_FILENO);
        close(fd[0]);
        close(fd[1]);
        if (freopen("/dev/null", "w", stdout))
            execl(INGOT_QUANTIZE, INGOT_QUANTIZE, folder, out, "--type", "f32", (char *)NULL);
        _exit(127);
    }
    close(fd[1]);
    size_t n = 0;
    for (ssize_t got; n + 1 < size && (got = read(fd[0], err + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    err[n] = 0;
    close(fd[0]);
    cr_assert_eq(waitpid(pid, &rc, 0), pid);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

/* Fixtures with an option that GGUF has no key for, and what the refusal says. */
static const char *why_not(const char *name)
{
    static const struct {
        const char *name, *says;
    } rows[] = {
        {"gemma2", "query_pre_attn_scalar 24 cannot be said in GGUF's gemma2"},
        {"gemma2-types-bf16", "query_pre_attn_scalar 24"},
        {"gemma3", "query_pre_attn_scalar 24 cannot be said in GGUF's gemma3"},
        {"gemma3-v5", "query_pre_attn_scalar 24"},
        {"gemma3-vision", "query_pre_attn_scalar 24"},
        {"qwen2moe-step-bf16", "an attention window in some of the layers cannot be said"},
        {"ministral", "MinistralForCausalLM has no architecture in GGUF"},
        {"qwen3moe-step", "norm_topk_prob false"},
        {"gpt-oss", "GptOssForCausalLM has no architecture in GGUF"},
        {"gpt-oss-bf16", "GptOssForCausalLM has no architecture in GGUF"},
        {"gpt-oss-mxfp4", "GptOssForCausalLM has no architecture in GGUF"},
        {"deepseek2-lite-bf16", "DeepseekV2ForCausalLM has no architecture in GGUF"},
        {"deepseek2", "DeepseekV2ForCausalLM has no architecture in GGUF"},
        {"deepseek3", "DeepseekV3ForCausalLM has no architecture in GGUF"},
        {"deepseek3-halves-bf16", "DeepseekV3ForCausalLM has no architecture in GGUF"},
        {"moonlight-bf16", "DeepseekV3ForCausalLM has no architecture in GGUF"},
        {"glm4lite", "Glm4MoeLiteForCausalLM has no architecture in GGUF"},
        {"glm4lite-layers-bf16", "Glm4MoeLiteForCausalLM has no architecture in GGUF"},
        {"minicpm3", "MiniCPM3ForCausalLM has no architecture in GGUF"},
        {"minicpm3-long-bf16", "MiniCPM3ForCausalLM has no architecture in GGUF"},
        {"qwen3next", "Qwen3NextForCausalLM has no architecture in GGUF"},
        {"qwen3next-uneven-bf16", "Qwen3NextForCausalLM has no architecture in GGUF"},
        {"qwen35", "Qwen3_5ForCausalLM has no architecture in GGUF"},
        {"qwen35-uneven-bf16", "Qwen3_5ForCausalLM has no architecture in GGUF"},
        {"qwen35-vision", "Qwen3_5ForCausalLM has no architecture in GGUF"},
        {"qwen35moe-bf16", "Qwen3_5MoeForCausalLM has no architecture in GGUF"},
        {"qwen35moe-vision", "Qwen3_5MoeForCausalLM has no architecture in GGUF"},
        {"llama-fp8-block", "weights of the method fp8 are not converted"},
        {"llama-fp8-tensor", "weights of the method fp8 are not converted"},
        {"llama-fp8-channel", "weights of the method fp8 are not converted"},
        {"qwen3moe-fp8-block", "weights of the method fp8 are not converted"},
        {"deepseek3-fp8-block", "weights of the method fp8 are not converted"},
        {"qwen3next-fp8-block", "weights of the method fp8 are not converted"},
        {"qwen35moe-fp8-block", "weights of the method fp8 are not converted"},
        {"llama-gptq", "weights of packed integers are not converted"},
        {"llama-gptq-zeros", "weights of packed integers are not converted"},
        {"llama-gptq-v2", "weights of packed integers are not converted"},
        {"llama-gptq-8bit", "weights of packed integers are not converted"},
        {"llama-gptq-8bit-zeros", "weights of packed integers are not converted"},
        {"llama-gptq-order", "weights of packed integers are not converted"},
        {"llama-gptq-order-zeros", "weights of packed integers are not converted"},
        {"qwen3moe-gptq", "weights of packed integers are not converted"},
        {"qwen3moe-gptq-order", "weights of packed integers are not converted"},
        {"deepseek3-gptq", "weights of packed integers are not converted"},
        {"llama-awq", "weights of packed integers are not converted"},
        {"qwen3moe-awq", "weights of packed integers are not converted"},
        {"llama-int4", "weights of packed integers are not converted"},
        {"llama-int8-packed", "weights of packed integers are not converted"},
        {"llama-int4-zeros", "weights of packed integers are not converted"},
        {"llama-int4-order", "weights of packed integers are not converted"},
        {"llama-int8", "weights of packed integers are not converted"},
        {"llama-int8-zeros", "weights of packed integers are not converted"},
        {"llama-int8-f32", "weights of packed integers are not converted"},
        {"qwen3moe-int4", "weights of packed integers are not converted"},
        {"qwen3next-gptq-order", "weights of packed integers are not converted"},
        {"qwen35-int4", "weights of packed integers are not converted"},
        {"llama-nf4", "weights of 4-bit floats are not converted"},
        {"llama-nf4-double", "weights of 4-bit floats are not converted"},
        {"llama-fp4", "weights of 4-bit floats are not converted"},
        {"qwen3moe-nf4", "weights of 4-bit floats are not converted"},
        {"llama-bnb8", "weights of packed integers are not converted"},
        {"llama-nvfp4", "weights of 4-bit floats are not converted"},
        {"qwen3moe-nvfp4", "weights of 4-bit floats are not converted"},
        {"llama-nvfp4-modelopt", "weights of 4-bit floats are not converted"},
        {"deepseek3-nvfp4", "weights of 4-bit floats are not converted"},
        {"llama-ct-mxfp4", "weights of 4-bit floats are not converted"},
        {"qwen3moe-ct-mxfp4", "weights of 4-bit floats are not converted"},
        {"granite-hybrid", "GraniteMoeHybridForCausalLM has no architecture in GGUF"},
        {"granite-hybrid-groups-bf16", "GraniteMoeHybridForCausalLM has no architecture in GGUF"},
        {"granite-hybrid-dense", "GraniteMoeHybridForCausalLM has no architecture in GGUF"},
        {"falcon-h1", "FalconH1ForCausalLM has no architecture in GGUF"},
        {"falcon-h1-norm-bf16", "FalconH1ForCausalLM has no architecture in GGUF"},
        {"falcon-h1-gate", "FalconH1ForCausalLM has no architecture in GGUF"},
        {"bamba", "BambaForCausalLM has no architecture in GGUF"},
        {"bamba-groups-bf16", "BambaForCausalLM has no architecture in GGUF"},
        {"nemotron-h", "NemotronHForCausalLM has no architecture in GGUF"},
        {"nemotron-h-moe", "NemotronHForCausalLM has no architecture in GGUF"},
        {"nemotron-h-groups-bf16", "NemotronHForCausalLM has no architecture in GGUF"},
        {"gemma4-bias", "GGUF's gemma4 has no name for model.layers.#.self_attn.q_proj.bias"},
        {"neox-v5", "GGUF's gptneox has GELU, this model another activation"},
        {"opt", "OPTForCausalLM has no architecture in GGUF"},
        {"opt-bare-bf16", "OPTForCausalLM has no architecture in GGUF"},
        {"smollm3", "GGUF's smollm3 has other layers without RoPE"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].says;
    return NULL;
}

ParameterizedTestParameters(foreign_gguf, of_ingot_quantize)
{
    return cr_make_param_array(size_t, golden_indices(), n_golden);
}

ParameterizedTest(size_t *i, foreign_gguf, of_ingot_quantize)
{
    const char *name = golden_names[*i], *refusal = why_not(name);
    char dir[64], out[128], err[2000];
    temp_dir_make(dir);
    snprintf(out, sizeof out, "%s/out.gguf", dir);
    int rc = quantize(golden_dir(name), out, err, sizeof err);
    if (refusal) {
        cr_expect_eq(rc, 3, "%s: %d %s", name, rc, err);
        cr_expect_not_null(strstr(err, refusal), "%s: %s", name, err);
        cr_expect_neq(access(out, F_OK), 0);
    } else {
        cr_assert_eq(rc, 0, "%s: %d %s", name, rc, err);
        double d = difference(out, name);
        cr_expect(d <= 1e-4, "%s: relative difference %g", name, d);
    }
    temp_dir_remove(dir);
}
