#include "make_gguf.h"
#include "temp_dir.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quant_blocks.h"
#include "rig.h"
#include "worker/model/rope.h"

struct bytes {
    unsigned char *p;
    size_t n, cap;
};

struct writer {
    const struct gguf_recipe *r;
    const struct model_config *mc;
    const char *arch;
    struct bytes keys, table, data;
    uint64_t n_keys, n_tensors;
    bool last; /* the recipe's own key is being written */
};

static void put(struct bytes *b, const void *p, size_t n)
{
    while (b->n + n > b->cap) {
        b->cap = b->cap ? 2 * b->cap : 4096;
        b->p = realloc(b->p, b->cap);
        cr_assert_not_null(b->p);
    }
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void put_int(struct bytes *b, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(b, &(unsigned char){(unsigned char)(v >> 8 * i)}, 1);
}

static void put_str(struct bytes *b, const char *s)
{
    put_int(b, strlen(s), 8);
    put(b, s, strlen(s));
}

static bool left_out(const struct writer *w, const char *name)
{
    return w->r->without && strcmp(w->r->without, name) == 0;
}

/* false: the key is not written.  '*' at the start stands for the architecture. */
static bool begin_key(struct writer *w, const char *key, enum gguf_type type)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", *key == '*' ? w->arch : "", key + (*key == '*'));
    bool replaced = w->r->key && strcmp(w->r->key, full) == 0;
    if (left_out(w, full) || (replaced && !w->last))
        return false;
    put_str(&w->keys, full);
    put_int(&w->keys, type, 4);
    w->n_keys++;
    return true;
}

static void key_u32(struct writer *w, const char *key, int64_t v)
{
    if (begin_key(w, key, GGUF_U32))
        put_int(&w->keys, (uint64_t)v, 4);
}

static void key_f32(struct writer *w, const char *key, double v)
{
    if (begin_key(w, key, GGUF_F32))
        put_int(&w->keys, bits_of_f32((float)v), 4);
}

static void key_str(struct writer *w, const char *key, const char *v)
{
    if (begin_key(w, key, GGUF_STRING))
        put_str(&w->keys, v);
}

static void put_tensor(struct writer *w, const char *name, enum ggml_type type, int32_t n_dims,
                       const uint64_t *shape, const void *data, size_t n_bytes)
{
    if (left_out(w, name))
        return;
    while (w->data.n % 32)
        put_int(&w->data, 0, 1);
    put_str(&w->table, name);
    put_int(&w->table, (uint64_t)n_dims, 4);
    for (int32_t i = n_dims; i-- > 0;)
        put_int(&w->table, shape[i], 8);
    put_int(&w->table, type, 4);
    put_int(&w->table, w->data.n, 8);
    put(&w->data, data, n_bytes);
    w->n_tensors++;
}

/* ---- what the converters do ---- */

static const struct {
    const char *from, *to;
} names[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"}, /* of Gemma another, see rename */
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
    {"post_mlp_layernorm.weight", "post_ffw_norm.weight"},
    {"self_attn.qkv_proj.", "attn_qkv."},
    {"mlp.gate_up_proj.", "ffn_up."},
    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.q_a_proj.", "attn_q_a."},
    {"self_attn.q_a_layernorm.", "attn_q_a_norm."},
    {"self_attn.q_b_proj.", "attn_q_b."},
    {"self_attn.kv_a_proj_with_mqa.", "attn_kv_a_mqa."},
    {"self_attn.kv_a_layernorm.", "attn_kv_a_norm."},
    {"self_attn.kv_b_proj.", "attn_kv_b."}, /* whole, as files of before April 2025 */
    {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."},
    {"self_attn.q_norm.", "attn_q_norm."},
    {"self_attn.k_norm.", "attn_k_norm."},
    {"mlp.gate_proj.", "ffn_gate."},
    {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.gate.", "ffn_gate_inp."},
    {"mlp.router.", "ffn_gate_inp."},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.shared_expert_gate.", "ffn_gate_inp_shexp."},
    {"mlp.shared_expert.gate_proj.", "ffn_gate_shexp."},
    {"mlp.shared_expert.up_proj.", "ffn_up_shexp."},
    {"mlp.shared_expert.down_proj.", "ffn_down_shexp."},
    {"mlp.shared_experts.gate_proj.", "ffn_gate_shexp."},
    {"mlp.shared_experts.up_proj.", "ffn_up_shexp."},
    {"mlp.shared_experts.down_proj.", "ffn_down_shexp."},
    {"mlp.c_fc.", "ffn_up."},
    {"mlp.c_proj.", "ffn_down."},
    {"input_layernorm.bias", "attn_norm.bias"},
    {"post_attention_layernorm.bias", "ffn_norm.bias"},
    {"model.norm.bias", "output_norm.bias"},
    {"mlp.experts.0.gate_proj.", "ffn_gate_exps."},
    {"mlp.experts.0.up_proj.", "ffn_up_exps."},
    {"mlp.experts.0.down_proj.", "ffn_down_exps."},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    {"block_sparse_moe.gate.", "ffn_gate_inp."},
    {"block_sparse_moe.router.layer.", "ffn_gate_inp."},
    {"block_sparse_moe.output_linear.", "ffn_down_exps."},
    {"block_sparse_moe.experts.0.w1.", "ffn_gate_exps."},
    {"block_sparse_moe.experts.0.w3.", "ffn_up_exps."},
    {"block_sparse_moe.experts.0.w2.", "ffn_down_exps."},
};

static void rename_tensor(char *out, size_t size, const struct model_config *mc, const char *name)
{
    char layer[32] = "";
    if (strncmp(name, "model.layers.", 13) == 0) {
        int end = 0, i = 0;
        cr_assert_eq(sscanf(name, "model.layers.%d.%n", &i, &end), 1);
        snprintf(layer, sizeof layer, "blk.%d.", i);
        name += end;
    }
    const char *post = mc->arch->tensor[TN_POST_ATTN_NORM].name;
    if (strcmp(mc->arch->model_type, "glm4_moe") == 0 ||
        strcmp(mc->arch->model_type, "seed_oss") == 0 || mc->arch->sinks)
        post = mc->arch->tensor[TN_FFN_NORM].name;
    if (post && strcmp(name, post + strlen("model.layers.#.")) == 0) {
        snprintf(out, size, "%spost_attention_norm.weight", layer);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t n = strlen(names[i].from);
        if (strncmp(name, names[i].from, n) == 0) {
            snprintf(out, size, "%s%s%s", layer, names[i].to, name + n);
            return;
        }
    }
    cr_assert_fail("no GGUF name for %s", name);
}

/* Rows (head, half, i) become (head, i, half). */
static unsigned char *reorder(const struct stored_tensor *t, int32_t heads)
{
    unsigned char *out = malloc(t->n_bytes);
    size_t rows = (size_t)t->shape[0], d = rows / (size_t)heads, row_bytes = t->n_bytes / rows;
    cr_assert_not_null(out);
    for (size_t r = 0; r < rows; r++) {
        size_t at = r % d, half = at / (d / 2), i = at % (d / 2);
        memcpy(out + (r - at + 2 * i + half) * row_bytes, t->data + r * row_bytes, row_bytes);
    }
    return out;
}

static enum ggml_type type_of(enum dtype t)
{
    for (uint32_t g = 0; g < 64; g++)
        if (ggml_type_info(g) && gguf_dtype((enum ggml_type)g) == t)
            return (enum ggml_type)g;
    cr_assert_fail("no GGUF type for %s", dtype_name(t));
    return GGML_F32;
}

/* Random blocks in place of the matrix, or their values. */
static void quant_tensor(struct writer *w, const char *name, enum dtype t, int32_t n_dims,
                         const uint64_t *shape)
{
    const struct quant_form *f = quant_form(t);
    size_t n = 1;
    for (int32_t i = 0; i < n_dims; i++)
        n *= (size_t)shape[i];
    float scale = f->block == QUANT_BLOCK_MAX ? 3e-4f : 0.01f;
    unsigned char *blocks = quant_random_blocks(t, n, scale, (uint32_t)w->n_tensors);
    float *values = malloc(n * sizeof *values);
    cr_assert(blocks && values);
    quant_expand(t, blocks, n, values);
    if (w->r->expand)
        put_tensor(w, name, GGML_F32, n_dims, shape, values, n * sizeof *values);
    else
        put_tensor(w, name, type_of(t), n_dims, shape, blocks,
                   n / (size_t)f->block * (size_t)f->n_bytes);
    free(blocks);
    free(values);
}

/* A norm's weights with the 1, in f32. */
static void put_norm(struct writer *w, const char *name, const struct stored_tensor *t)
{
    size_t n = (size_t)t->shape[0];
    float *values = malloc(n * sizeof *values);
    cr_assert_not_null(values);
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&values[i], t->data + i * dtype_size(t->dtype), dtype_size(t->dtype));
        memcpy(&h, &values[i], sizeof h);
        values[i] = (t->dtype == DT_BF16 ? f32_of_bf16(h) : values[i]) + 1.0f;
    }
    cr_assert(t->dtype == DT_BF16 || t->dtype == DT_F32);
    put_tensor(w, name, GGML_F32, 1, t->shape, values, n * sizeof *values);
    free(values);
}

static void copy_tensor(struct writer *w, const struct stored_tensor *t)
{
    char name[128];
    rename_tensor(name, sizeof name, w->mc, t->name);
    bool q = strstr(name, "attn_q.") != NULL, k = strstr(name, "attn_k.") != NULL;
    unsigned char *data = NULL;
    if (w->r->as && strcmp(w->r->as, name) == 0) {
        const struct ggml_type_info *info = ggml_type_info(w->r->as_type);
        size_t n = t->n_bytes / dtype_size(t->dtype) / info->block * info->bytes;
        data = calloc(1, n + 1);
        cr_assert_not_null(data);
        put_tensor(w, name, w->r->as_type, t->n_dims, t->shape, data, n);
        free(data);
        return;
    }
    enum dtype quant = strstr(name, "attn_v.") ? w->r->quant_v : w->r->quant;
    if (quant != DT_F32 && t->n_dims >= 2 && !strstr(name, "ffn_gate_inp")) {
        quant_tensor(w, name, quant, t->n_dims, t->shape);
        return;
    }
    if (t->n_dims == 1 && w->mc->arch->norm_plus_one) {
        put_norm(w, name, t);
        return;
    }
    if (strstr(name, "ffn_gate_inp_shexp")) { /* [1, D] as a vector */
        put_tensor(w, name, type_of(t->dtype), 1, t->shape + 1, t->data, t->n_bytes);
        return;
    }
    bool neighbours = strcmp(w->arch, "llama") == 0 || strcmp(w->arch, "mistral3") == 0 ||
                      strcmp(w->arch, "smollm3") == 0 || strncmp(w->arch, "granite", 7) == 0;
    if (neighbours && (q || k))
        data = reorder(t, q ? w->mc->n_q : w->mc->n_kv);
    put_tensor(w, name, type_of(t->dtype), t->n_dims, t->shape, data ? data : t->data, t->n_bytes);
    free(data);
}

/* Gate and up of all experts, [E, 2 F, D], as two tensors. */
static void split_experts(struct writer *w, const struct stored_tensor *t)
{
    int layer;
    uint64_t shape[3] = {t->shape[0], t->shape[1] / 2, t->shape[2]};
    size_t half = t->n_bytes / (size_t)t->shape[0] / 2;
    unsigned char *data = malloc(t->n_bytes / 2);
    cr_assert(data && sscanf(t->name, "model.layers.%d.", &layer) == 1);
    for (size_t part = 0; part < 2; part++) {
        char name[64];
        for (size_t e = 0; e < t->shape[0]; e++)
            memcpy(data + e * half, t->data + (2 * e + part) * half, half);
        snprintf(name, sizeof name, "blk.%d.ffn_%s_exps.weight", layer, part ? "up" : "gate");
        put_tensor(w, name, type_of(t->dtype), 3, shape, data, t->n_bytes / 2);
    }
    free(data);
}

/* Rows first, first + step, ... of [E, cols, rows], in rows: [E, n, cols]; cols 0: biases [E, rows]. */
static void put_turned(struct writer *w, const struct stored_tensor *t, const char *name,
                       size_t first, size_t step)
{
    bool biases = t->n_dims == 2;
    size_t E = t->shape[0], cols = biases ? 1 : t->shape[1], rows = t->shape[biases ? 1 : 2];
    size_t n = rows / step, size = dtype_size(t->dtype);
    uint64_t shape[3] = {E, n, cols};
    unsigned char *data = malloc(E * n * cols * size);
    cr_assert_not_null(data);
    for (size_t e = 0; e < E; e++)
        for (size_t r = 0; r < n; r++)
            for (size_t c = 0; c < cols; c++)
                memcpy(data + ((e * n + r) * cols + c) * size,
                       t->data + ((e * cols + c) * rows + first + r * step) * size, size);
    if (w->r->quant != DT_F32 && !biases)
        quant_tensor(w, name, w->r->quant, 3, shape);
    else
        put_tensor(w, name, type_of(t->dtype), biases ? 2 : 3, shape, data, E * n * cols * size);
    free(data);
}

/* gpt-oss: gate and up in turn, all transposed. */
static void turn_experts(struct writer *w, const struct stored_tensor *t)
{
    char name[64];
    int layer;
    const char *end = strstr(t->name, "_bias") ? "bias" : "weight";
    cr_assert_eq(sscanf(t->name, "model.layers.%d.", &layer), 1);
    bool down = strstr(t->name, "down_proj") != NULL;
    snprintf(name, sizeof name, "blk.%d.ffn_%s_exps.%s", layer, down ? "down" : "gate", end);
    put_turned(w, t, name, 0, down ? 1 : 2);
    snprintf(name, sizeof name, "blk.%d.ffn_up_exps.%s", layer, end);
    if (!down)
        put_turned(w, t, name, 1, 2);
}

/* The tensors of a layer's experts as one [E, rows, cols]; t is the first expert's. */
static void join_experts(struct writer *w, struct loader *ld, const struct stored_tensor *t)
{
    struct stored_tensor all = *t, one;
    int32_t n = w->mc->n_experts;
    char pattern[256];
    const char *number = strstr(t->name, "experts.0.") + strlen("experts.");
    unsigned char *data = malloc((size_t)n * t->n_bytes);
    cr_assert_not_null(data);
    snprintf(pattern, sizeof pattern, "%.*s@%s", (int)(number - t->name), t->name, number + 1);
    for (int32_t e = 0; e < n; e++) {
        must(loader_tensor(ld, pattern, 0, e, 2, t->shape, &one), pattern);
        cr_assert_eq(one.n_bytes, t->n_bytes);
        memcpy(data + (size_t)e * t->n_bytes, one.data, one.n_bytes);
    }
    all.data = data;
    all.n_bytes = (size_t)n * t->n_bytes;
    all.n_dims = 3;
    all.shape[0] = (uint64_t)n;
    memcpy(all.shape + 1, t->shape, 2 * sizeof *t->shape);
    copy_tensor(w, &all);
    free(data);
}

static void put_divisors(struct writer *w)
{
    double f[512];
    float divisor[512];
    uint64_t n = (uint64_t)w->mc->rope.rot_dim / 2;
    rope_frequencies(&w->mc->rope, 0, f);
    for (uint64_t i = 0; i < n; i++)
        divisor[i] = (float)(pow(w->mc->rope.theta, -2.0 * (double)i / w->mc->rope.rot_dim) / f[i]);
    put_tensor(w, "rope_freqs.weight", GGML_F32, 1, &n, divisor, (size_t)n * 4);
}

static void put_rope(struct writer *w)
{
    const struct rope_config *rope = &w->mc->rope;
    key_u32(w, "*.rope.dimension_count", rope->rot_dim);
    key_f32(w, "*.rope.freq_base", rope->theta);
    if (rope->type == ROPE_LLAMA3)
        put_divisors(w);
    if (rope->type == ROPE_LONGROPE) {
        uint64_t n = (uint64_t)rope->rot_dim / 2;
        put_tensor(w, "rope_factors_short.weight", GGML_F32, 1, &n, rope->divisor, n * 4);
        put_tensor(w, "rope_factors_long.weight", GGML_F32, 1, &n, rope->long_divisor, n * 4);
        key_u32(w, "*.rope.scaling.original_context_length", (int64_t)rope->original_ctx);
        key_f32(w, "*.rope.scaling.attn_factor", rope->attention_factor);
    }
    if (w->mc->arch->local_rope && !w->mc->arch->wide_qk_norm)
        key_f32(w, "*.rope.freq_base_swa", w->mc->local_rope.theta);
    if (rope->q_beta != 0)
        key_f32(w, "*.attention.temperature_scale", rope->q_beta);
    if (rope->type == ROPE_LINEAR || rope->type == ROPE_YARN) {
        key_str(w, "*.rope.scaling.type", rope_type_name(rope->type));
        key_f32(w, "*.rope.scaling.factor", rope->factor);
    }
    if (rope->type == ROPE_YARN) {
        key_u32(w, "*.rope.scaling.original_context_length", (int64_t)rope->original_ctx);
        double m = sqrt(w->mc->attn_scale * sqrt(w->mc->d_nope + w->mc->d_rope));
        if (w->mc->kv_rank) /* a tenth of mscale_all_dim */
            key_f32(w, "*.rope.scaling.yarn_log_multiplier", (m - 1) / log(rope->factor));
        else if (rope->q_beta != 0) /* mscale and mscale_all_dim are 1 */
            key_f32(w, "*.rope.scaling.yarn_log_multiplier", 1);
        else
            key_f32(w, "*.rope.scaling.attn_factor",
                    rope->attention_factor / (0.1 * log(rope->factor) + 1));
        key_f32(w, "*.rope.scaling.yarn_beta_fast", rope->beta_fast);
        key_f32(w, "*.rope.scaling.yarn_beta_slow", rope->beta_slow);
    }
}

static void key_bool(struct writer *w, const char *key, bool v)
{
    if (begin_key(w, key, GGUF_BOOL))
        put_int(&w->keys, v, 1);
}

/* How experts are chosen in groups. */
static void put_groups(struct writer *w)
{
    const struct model_config *mc = w->mc;
    int32_t dense = 0;
    while (dense < mc->n_layers && !mc->sparse[dense])
        dense++;
    key_u32(w, "*.leading_dense_block_count", dense);
    key_u32(w, "*.expert_shared_count", mc->shared_ffn / mc->expert_ffn);
    key_u32(w, "*.expert_gating_func", mc->sigmoid_scores ? 2 : 1);
    key_u32(w, "*.expert_group_count", mc->n_groups);
    key_u32(w, "*.expert_group_used_count", mc->top_groups);
    key_f32(w, "*.expert_weights_scale", mc->route_scale);
    key_bool(w, "*.expert_weights_norm", mc->renormalise);
    if (mc->n_mtp)
        key_u32(w, "*.nextn_predict_layers", mc->n_mtp);
}

/* One boolean for each layer. */
static void put_windowed(struct writer *w)
{
    if (!begin_key(w, "*.attention.sliding_window_pattern", GGUF_ARRAY))
        return;
    put_int(&w->keys, GGUF_BOOL, 4);
    put_int(&w->keys, (uint64_t)w->mc->n_layers, 8);
    for (int32_t i = 0; i < w->mc->n_layers; i++)
        put_int(&w->keys, w->mc->windowed[i], 1);
}

static void put_keys(struct writer *w)
{
    const struct model_config *mc = w->mc;
    key_str(w, "general.architecture", w->arch);
    key_u32(w, "*.context_length", mc->max_ctx);
    key_u32(w, "*.embedding_length", mc->hidden);
    key_u32(w, "*.block_count", mc->n_layers + mc->n_mtp);
    key_u32(w, "*.feed_forward_length", mc->ffn);
    key_u32(w, "*.attention.head_count", mc->n_q);
    key_u32(w, "*.attention.head_count_kv", mc->kv_rank ? mc->n_q : mc->n_kv);
    key_u32(w, "*.attention.key_length", mc->kv_rank ? mc->d_nope + mc->d_rope : mc->d_head);
    key_u32(w, "*.attention.value_length", mc->kv_rank ? mc->d_value : mc->d_head);
    if (mc->kv_rank)
        key_u32(w, "*.attention.kv_lora_rank", mc->kv_rank);
    if (mc->q_rank)
        key_u32(w, "*.attention.q_lora_rank", mc->q_rank);
    key_f32(w,
            mc->arch->layer_norm ? "*.attention.layer_norm_epsilon"
                                 : "*.attention.layer_norm_rms_epsilon",
            mc->eps);
    if (mc->n_experts) {
        key_u32(w, "*.expert_count", mc->n_experts);
        key_u32(w, "*.expert_used_count", mc->top_k);
        key_u32(w, "*.expert_feed_forward_length", mc->expert_ffn);
    }
    if (mc->arch->shared_option)
        key_u32(w, "*.expert_shared_feed_forward_length", mc->shared_ffn);
    if (mc->arch->experts == EXPERTS_GROUPS || mc->arch->experts == EXPERTS_METHOD)
        put_groups(w);
    if (mc->window)
        key_u32(w, "*.attention.sliding_window", mc->window);
    if (mc->arch->logit_factor)
        key_f32(w, "*.logit_scale", mc->logit_scale);
    if (mc->arch->wide_qk_norm && mc->window)
        put_windowed(w);
    else if (mc->arch->window == WINDOW_PATTERN && mc->window && mc->arch->nope != NOPE_UNWINDOWED)
        key_u32(w, "*.attention.sliding_window_pattern", mc->arch->local_rope ? 3 : 2);
    if (mc->arch->multipliers) {
        key_f32(w, "*.attention.scale", mc->attn_scale);
        key_f32(w, "*.embedding_scale", mc->embed_scale);
        key_f32(w, "*.residual_scale", mc->residual_scale);
        key_f32(w, "*.logit_scale", 1 / mc->logit_scale);
    }
    if (mc->attn_cap > 0)
        key_f32(w, "*.attn_logit_softcapping", mc->attn_cap);
    if (mc->logit_cap > 0)
        key_f32(w, "*.final_logit_softcapping", mc->logit_cap);
    key_u32(w, "tokenizer.ggml.bos_token_id", 1);
    key_u32(w, "tokenizer.ggml.eos_token_id", 2);
    key_u32(w, "tokenizer.ggml.eot_token_id", 3);
    put_rope(w);
    w->last = true;
    if (w->r->key && begin_key(w, w->r->key, GGUF_U32))
        put_int(&w->keys, w->r->value, 4);
}

static void write_file(const char *path, struct writer *w)
{
    struct bytes head = {0};
    put(&head, "GGUF", 4);
    put_int(&head, 3, 4);
    put_int(&head, w->n_tensors, 8);
    put_int(&head, w->n_keys, 8);
    put(&head, w->keys.p, w->keys.n);
    put(&head, w->table.p, w->table.n);
    while (head.n % 32)
        put_int(&head, 0, 1);
    put(&head, w->data.p, w->data.n);
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(head.p, 1, head.n, f), head.n);
    cr_assert_eq(fclose(f), 0);
    free(head.p);
}

const char *gguf_make(const char *dir, const struct gguf_recipe *recipe)
{
    static _Thread_local char paths[2][64];
    static char folder[32];
    static unsigned n_made;
    static _Thread_local int next;
    char *path = paths[next++ % 2];
    struct loader *ld;
    struct stored_tensor t;
    must(loader_open(&ld, dir), dir);
    struct writer w = {
        .r = recipe, .mc = loader_config(ld), .arch = loader_config(ld)->arch->model_type};
    if (strcmp(w.arch, "mistral") == 0 || strcmp(w.arch, "mixtral") == 0)
        w.arch = "llama";
    if (strcmp(w.arch, "qwen3_moe") == 0)
        w.arch = "qwen3moe";
    if (strcmp(w.arch, "qwen2_moe") == 0)
        w.arch = "qwen2moe";
    if (strcmp(w.arch, "glm4_moe") == 0)
        w.arch = "glm4moe";
    if (strcmp(w.arch, "minimax_m2") == 0)
        w.arch = "minimax-m2";
    if (w.mc->kv_rank && !w.mc->arch->depth_scales)
        w.arch = "deepseek2";
    if (strcmp(w.arch, "gpt_oss") == 0)
        w.arch = "gpt-oss";
    if (strcmp(w.arch, "olmo3") == 0)
        w.arch = "olmo2";
    if (strcmp(w.arch, "cohere") == 0)
        w.arch = "command-r";
    if (strcmp(w.arch, "gemma3_text") == 0)
        w.arch = "gemma3";
    if (strcmp(w.arch, "ministral3") == 0)
        w.arch = "mistral3";
    put_keys(&w);
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        const char *experts = strstr(t.name, ".experts.");
        if (w.mc->arch->expert_bias && experts)
            turn_experts(&w, &t);
        else if (strstr(t.name, "block_sparse_moe.input_linear."))
            split_experts(&w, &t);
        else if (!experts)
            copy_tensor(&w, &t);
        else if (strncmp(experts, ".experts.0.", 11) == 0)
            join_experts(&w, ld, &t);
    }
    if (recipe->tensor)
        put_tensor(&w, recipe->tensor, GGML_F32, 1, (uint64_t[]){1}, (float[]){1}, 4);
    loader_close(ld);
    if (!folder[0])
        temp_dir_make(folder);
    snprintf(path, sizeof paths[0], "%s/%u.gguf", folder, n_made++);
    write_file(path, &w);
    free(w.keys.p);
    free(w.table.p);
    free(w.data.p);
    return path;
}
