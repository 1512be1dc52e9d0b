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
    "gemma3n",
    "gemma3n-vision-bf16",
    "gemma3n-widths",
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
    "llama4-plain-bf16",
    "bamba",
    "bamba-groups-bf16",
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
    refused("qwen35", "qwen35.ssm.inner_size", 97, ST_RANGE, "ssm.inner_size 97 are no 8 heads");
    refused("qwen35", "qwen35.ssm.inner_size", 1 << 20, ST_RANGE,
            "ssm.inner_size 1048576 are no 8 heads");
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
    refused("bamba", "granitehybrid.embedding_length", 20, ST_RANGE,
            "rope.dimension_count is 4, of heads of 5, which have no halves");
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
    refused("gemma4", "gemma4.attention.value_length_swa", 8, ST_UNSUPPORTED,
            "keys of 16 and values of 8");
    refused("gemma4", "gemma4.attention.key_length", 0, ST_RANGE, "key_length is 0");
    refused("gemma4-values-bf16", "gemma4.attention.head_count_kv", 4, ST_RANGE,
            "cannot share 4 key/value heads");
}

Test(foreign_gguf, gemma3n_of_other_kinds)
{
    refused("gemma3n", "gemma3n.altup.num_inputs", 0, ST_RANGE, "altup.num_inputs is 0");
    refused("gemma3n", "gemma3n.altup.num_inputs", 9, ST_RANGE, "altup.num_inputs is 9");
    refused("gemma3n", "gemma3n.altup.active_idx", 4, ST_RANGE,
            "the active residual stream is 4 of 4");
    refused("gemma3n", "gemma3n.attention.shared_kv_layers", 5, ST_RANGE, "shared_kv_layers");
    refused("gemma3n", "gemma3n.embedding_length_per_layer_input", 0, ST_RANGE,
            "the inputs of the layers have 0 elements");
}

/* The files do not say it; llama.cpp takes it for all of them. */
Test(foreign_gguf, llama4_has_the_usual_chunks)
{
    char path[1100];
    struct loader *ld;
    snprintf(path, sizeof path, "%s/../../gguf/llama4-plain-bf16.gguf", golden_dir("llama4"));
    must(loader_open(&ld, path), path);
    const struct model_config *mc = loader_config(ld);
    for (int32_t i = 0; i < mc->n_layers; i++) {
        bool nope = i == 3;
        cr_expect(mc->nope[i] == nope && model_chunk(mc, i) == (nope ? 0 : 8192) &&
                  model_window(mc, i) == 0 && model_scales_q(mc, i) == nope &&
                  model_unit_qk(mc, i) == !nope && mc->sparse[i] == (i % 2 == 1));
    }
    cr_expect(mc->rope.q_beta == 0.1 && mc->rope.q_floor == 8192 && mc->rope.q_first == 1);
    cr_expect(mc->ffn == 56 && mc->expert_ffn == 24 && mc->shared_ffn == 24);
    loader_close(ld);
}

Test(foreign_gguf, llama4_of_other_layers)
{
    refused("llama4-plain-bf16", "llama4.interleave_moe_layer_step", 1, ST_FORMAT,
            "interleave_moe_layer_step is 1, but layer 0 has no tensor ffn_gate_inp.weight");
    refused("llama4-plain-bf16", "llama4.interleave_moe_layer_step", 0, ST_RANGE,
            "interleave_moe_layer_step");
    refused("llama4-plain-bf16", "llama4.expert_used_count", 6, ST_RANGE, "expert_used_count");
}

/* ---- ingot quantize ---- */

/* Its exit status; err: what it writes to stderr. */
static int quantize(const char *folder, const char *out, const char *type, char *err, size_t size)
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
            execl(INGOT_QUANTIZE, INGOT_QUANTIZE, folder, out, "--type", type, (char *)NULL);
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
        {"gpt-oss", "swiglu_limit 1.5 cannot be said in GGUF\'s gpt-oss, which has 7"},
        {"gpt-oss-mxfp4", "swiglu_limit 1.5 cannot be said in GGUF\'s gpt-oss, which has 7"},
        {"deepseek3-halves-bf16", "rope_interleave false cannot be said"},
        {"glm4lite-layers-bf16",
         "dense layers behind sparse ones cannot be said in GGUF's deepseek2"},
        {"minicpm3-long-bf16", "GGUF's minicpm3 has no name for model.layers.#.mlp.gate_proj.bias"},
        {"qwen3next-uneven-bf16", "norm_topk_prob false cannot be said in GGUF's qwen3next"},
        {"llama-fp8-block", "weights of the method fp8 are not converted"},
        {"llama-fp8-tensor", "weights of the method fp8 are not converted"},
        {"llama-fp8-channel", "weights of the method fp8 are not converted"},
        {"qwen3moe-fp8-block", "weights of the method fp8 are not converted"},
        {"deepseek3-fp8-block", "weights of the method fp8 are not converted"},
        {"qwen3next-fp8-block", "weights of the method fp8 are not converted"},
        {"qwen35moe-fp8-block", "weights of the method fp8 are not converted"},
        {"llama4-fp8", "weights of the method fp8 are not converted"},
        {"llama4-fp8-split", "weights of the method fp8 are not converted"},
        {"llama4-int4-order", "weights of packed integers are not converted"},
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
        {"granite-hybrid-groups-bf16",
         "a least time step of 0.4 cannot be said in GGUF's granitehybrid"},
        {"falcon-h1-norm-bf16", "mamba_norm_before_gate true cannot be said in GGUF's falcon-h1"},
        {"nemotron-h-groups-bf16",
         "GGUF's nemotron_h_moe has no name for backbone.layers.#.mixer.up_proj"},
        {"gemma3n-active-bf16",
         "GGUF's gemma3n has no name for model.layers.#.self_attn.q_proj.bias"},
        {"llama4", "layer 0 has attention in chunks of 16 (0: in none): GGUF's llama4 has 8192"},
        {"llama4-vision", "in chunks of 16 (0: in none): GGUF's llama4 has 8192 there"},
        {"llama4-layers-bf16", "layer 0 has attention in chunks of 0"},
        {"llama4-dense", "layer 0 has attention in chunks of 0"},
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
    int rc = quantize(golden_dir(name), out, "f32", err, sizeof err);
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

/* ---- its types, on several ranks ---- */

struct run {
    struct golden g;
    float *logits; /* [n, vocab] of rank 0 */
};

static enum status run_rank(void *ctx, struct engine *e, int rank)
{
    struct run *r = ctx;
    size_t n = (size_t)r->g.n * (size_t)r->g.vocab;
    float *logits = rank == 0 ? r->logits : malloc(n * sizeof *logits);
    TRY(engine_prepare(e, 1, r->g.n));
    enum status st = engine_forward_verify(e, 1, r->g.ids, r->g.n, logits);
    if (rank != 0)
        free(logits);
    return st;
}

static const struct typed {
    const char *name, *type;
    double limit; /* of the distance from the folder's logits, relative to their length */
} typed[] = {
    /* measured: two thirds of it or less; experts change where their scores are near each other */
    {"deepseek3", "f16", 5e-3},
    {"deepseek3", "bf16", 0.15},
    {"deepseek3", "q8_0", 0.22},
    {"deepseek3", "q4_k_m", 0.9},
    {"moonlight-bf16", "q8_0", 0.33},
    {"deepseek2", "q4_0", 0.85},
    {"minicpm3", "q8_0", 0.085},
    {"minicpm3", "q4_0", 0.78},
    {"qwen3next", "bf16", 0.15},
    {"qwen3next", "q8_0", 0.4},
    {"qwen35", "f16", 8e-3},
    {"qwen35-uneven-bf16", "q4_k_m", 0.5},
    {"qwen35moe-vision", "q8_0", 0.5},
    {"granite-hybrid", "q8_0", 0.28},
    {"granite-hybrid-dense", "q4_0", 0.85},
    {"falcon-h1-gate", "f16", 3e-3},
    {"falcon-h1", "q4_k_m", 0.3},
    {"nemotron-h", "q8_0", 0.06},
    {"nemotron-h-moe", "bf16", 0.2},
    {"bamba", "q8_0", 0.16},
    {"bamba-groups-bf16", "q4_k_m", 0.47},
    {"llama4-plain-bf16", "bf16", 1e-5},
    {"llama4-plain-bf16", "q8_0", 0.3},
    {"llama4-plain-bf16", "q4_k", 0.9},
};

ParameterizedTestParameters(foreign_gguf, typed_and_divided)
{
    static size_t index[ARRAY_LEN(typed)];
    for (size_t i = 0; i < ARRAY_LEN(typed); i++)
        index[i] = i;
    return cr_make_param_array(size_t, index, ARRAY_LEN(typed));
}

/* Other types stay near the folder's logits, and 1, 2 and 4 ranks give the same bytes. */
ParameterizedTest(size_t *i, foreign_gguf, typed_and_divided)
{
    const struct typed *t = &typed[*i];
    char dir[64], out[128], err[2000];
    double diff = 0, all = 0;
    struct run r;
    temp_dir_make(dir);
    snprintf(out, sizeof out, "%s/out.gguf", dir);
    int rc = quantize(golden_dir(t->name), out, t->type, err, sizeof err);
    cr_assert_eq(rc, 0, "%s as %s: %d %s", t->name, t->type, rc, err);
    golden_open(&r.g, golden_dir(t->name));
    size_t n = (size_t)r.g.n * (size_t)r.g.vocab;
    float *one = malloc(n * sizeof *one), *other = malloc(n * sizeof *other);
    cr_assert(one && other);
    r.logits = one;
    rig_group(out, (struct rig_config){0}, 1, run_rank, &r);
    for (size_t k = 0; k < n; k++) {
        double e = (double)one[k] - (double)r.g.logits[k];
        diff += e * e;
        all += (double)r.g.logits[k] * (double)r.g.logits[k];
    }
    diff = sqrt(diff / all);
    cr_expect(diff > 0 && diff <= t->limit, "%s as %s: relative difference %g", t->name, t->type,
              diff);
    r.logits = other;
    for (int world = 2; world <= 4; world *= 2) {
        rig_group(out, (struct rig_config){0}, world, run_rank, &r);
        cr_expect(memcmp(one, other, n * sizeof *one) == 0, "%s as %s: %d ranks differ", t->name,
                  t->type, world);
    }
    free(one);
    free(other);
    golden_close(&r.g);
    temp_dir_remove(dir);
}

/* A copy dir/m whose config.json is changed by a script of sed; "": it is not. */
static void changed_copy(const char *name, const char *dir, const char *script)
{
    char cmd[3000];
    snprintf(cmd, sizeof cmd,
             "cp -r '%s' '%s/m' && sed '%s' '%s/config.json' > '%s/m/config.json' && "
             "%s cmp -s '%s/config.json' '%s/m/config.json'",
             golden_dir(name), dir, script, golden_dir(name), dir, *script ? "!" : "",
             golden_dir(name), dir);
    cr_assert_eq(system(cmd), 0, "%s", cmd);
}

/* Fixtures with options that GGUF cannot say: copies with the usual ones.  The file gives the copy's logits: MXFP4 stays as it
 * is, and floats are f32.  most: ranks; a block of 32 of down's rows stays on one. */
static void of_copy(const char *name, const char *script, const char *type, int most, double limit)
{
    char dir[64], folder[128], out[128], err[2000];
    double diff = 0, all = 0;
    struct run r;
    temp_dir_make(dir);
    changed_copy(name, dir, script);
    snprintf(folder, sizeof folder, "%s/m", dir);
    snprintf(out, sizeof out, "%s/out.gguf", dir);
    int rc = quantize(folder, out, type, err, sizeof err);
    cr_assert_eq(rc, 0, "%s as %s: %d %s", name, type, rc, err);
    golden_open(&r.g, golden_dir(name));
    size_t n = (size_t)r.g.n * (size_t)r.g.vocab;
    float *one = malloc(n * sizeof *one), *other = malloc(n * sizeof *other);
    cr_assert(one && other);
    r.logits = one;
    rig_group(folder, (struct rig_config){0}, 1, run_rank, &r);
    r.logits = other;
    rig_group(out, (struct rig_config){0}, 1, run_rank, &r);
    for (size_t k = 0; k < n; k++) {
        double e = (double)one[k] - (double)other[k];
        diff += e * e;
        all += (double)one[k] * (double)one[k];
    }
    cr_expect(sqrt(diff / all) <= limit, "%s as %s: relative difference %g", name, type,
              sqrt(diff / all));
    memcpy(one, other, n * sizeof *one);
    for (int world = 2; world <= most; world *= 2) {
        rig_group(out, (struct rig_config){0}, world, run_rank, &r);
        cr_expect(memcmp(one, other, n * sizeof *one) == 0, "%s as %s: %d ranks differ", name, type,
                  world);
    }
    free(one);
    free(other);
    golden_close(&r.g);
    temp_dir_remove(dir);
}

Test(foreign_gguf, gpt_oss_of_ingot_quantize)
{
    static const char usual[] = "s/\"swiglu_limit\": 1.5/\"swiglu_limit\": 7.0/";
    of_copy("gpt-oss", usual, "f32", 4, 1e-6);
    of_copy("gpt-oss-bf16", "", "f32", 4, 1e-6);
    of_copy("gpt-oss-mxfp4", usual, "f32", 4, 1e-6);
    of_copy("gpt-oss", usual, "q8_0", 1, 0.15);
}

#define USUAL                                                                                      \
    "s/\"attention_chunk_size\": 16/\"attention_chunk_size\": 8192/; s/\"attn_scale\": 0.5/"       \
    "\"attn_scale\": 0.1/; s/\"floor_scale\": 8,/\"floor_scale\": 8192,/"

/* Experts in every layer, one a token; the text part of a folder with images. */
Test(foreign_gguf, llama4_of_ingot_quantize)
{
    of_copy("llama4-vision", USUAL, "f32", 4, 1e-6);
}

Test(foreign_gguf, llama4_that_cannot_be_said)
{
    static const char *const rows[][2] = {
        {"s/\"attn_scale\": 0.1/\"attn_scale\": 0.5/",
         "attn_scale 0.5 and floor_scale 8192 cannot be said in GGUF's llama4, which has 0.1 and "
         "8192"},
        {"s/\"floor_scale\": 8192/\"floor_scale\": 64/", "attn_scale 0.1 and floor_scale 64"},
        {"s/\"use_qk_norm\": true/\"use_qk_norm\": false/",
         "use_qk_norm false beside 5 experts cannot be said"},
        {"s/\"no_rope_layers\": \\[\\]/\"no_rope_layers\": [1, 1, 1, 1]/",
         "GGUF's llama4 has other layers without RoPE"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char dir[64], folder[128], out[128], err[2000];
        temp_dir_make(dir);
        changed_copy("llama4-plain-bf16", dir, rows[i][0]);
        snprintf(folder, sizeof folder, "%s/m", dir);
        snprintf(out, sizeof out, "%s/out.gguf", dir);
        int rc = quantize(folder, out, "f32", err, sizeof err);
        cr_expect(rc == 3 && strstr(err, rows[i][1]), "%s: %d %s", rows[i][0], rc, err);
        temp_dir_remove(dir);
    }
}
