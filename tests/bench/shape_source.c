#include "bench/shape_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/quant.h"
#include "quant_blocks.h"

enum { UNIT_ELEMENTS = 1 << 20, MAX_NAME = 64 };

static const struct shape {
    const char *name, *config; /* config: as config.json has it */
} shapes[] = {
    {"llama-3.2-1b",
     "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":2048,\"intermediate_size\":8192,"
     "\"num_hidden_layers\":16,\"num_attention_heads\":32,\"num_key_value_heads\":8,"
     "\"head_dim\":64,\"vocab_size\":128256,\"max_position_embeddings\":131072,"
     "\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0,\"tie_word_embeddings\":true,"
     "\"hidden_act\":\"silu\"}"},
    {"qwen3-0.6b",
     "{\"architectures\":[\"Qwen3ForCausalLM\"],\"hidden_size\":1024,\"intermediate_size\":3072,"
     "\"num_hidden_layers\":28,\"num_attention_heads\":16,\"num_key_value_heads\":8,"
     "\"head_dim\":128,\"vocab_size\":151936,\"max_position_embeddings\":40960,"
     "\"rms_norm_eps\":1e-6,\"rope_theta\":1000000.0,\"tie_word_embeddings\":true,"
     "\"hidden_act\":\"silu\"}"},
    /* DeepSeek-V2-Lite's attention with a dense feed-forward block */
    {"mla-1b", "{\"architectures\":[\"DeepseekV2ForCausalLM\"],\"hidden_size\":2048,"
               "\"intermediate_size\":5632,\"num_hidden_layers\":24,\"num_attention_heads\":16,"
               "\"num_key_value_heads\":16,\"kv_lora_rank\":512,\"q_lora_rank\":null,"
               "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,"
               "\"n_routed_experts\":1,\"num_experts_per_tok\":1,\"n_shared_experts\":0,"
               "\"moe_intermediate_size\":1408,\"first_k_dense_replace\":24,"
               "\"routed_scaling_factor\":1.0,\"vocab_size\":102400,"
               "\"max_position_embeddings\":32768,\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,"
               "\"hidden_act\":\"silu\"}"},
    /* Qwen3.5's layers with a dense feed-forward block */
    {"delta-1b",
     "{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"model_type\":\"qwen3_5_text\",\"hidden_size\":"
     "2048,"
     "\"intermediate_size\":6144,\"num_hidden_layers\":20,\"num_attention_heads\":16,"
     "\"num_key_value_heads\":2,\"head_dim\":256,\"linear_num_key_heads\":16,"
     "\"linear_num_value_heads\":16,\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,"
     "\"linear_conv_kernel_dim\":4,\"full_attention_interval\":4,\"vocab_size\":151936,"
     "\"max_position_embeddings\":32768,\"rms_norm_eps\":1e-6,\"rope_theta\":1000000.0,"
     "\"partial_rotary_factor\":0.25,\"tie_word_embeddings\":true,\"hidden_act\":\"silu\"}"},
    /* Granite 4's hybrid of 1B, without the convolution's biases */
    {"mamba-1b",
     "{\"architectures\":[\"GraniteMoeHybridForCausalLM\"],\"model_type\":\"granitemoehybrid\","
     "\"hidden_size\":1536,\"intermediate_size\":4096,\"shared_intermediate_size\":4096,"
     "\"num_local_experts\":0,\"num_hidden_layers\":40,\"num_attention_heads\":12,"
     "\"num_key_value_heads\":4,\"mamba_n_heads\":48,\"mamba_d_head\":64,\"mamba_d_state\":128,"
     "\"mamba_n_groups\":1,\"mamba_conv_bias\":false,\"vocab_size\":100352,"
     "\"max_position_embeddings\":32768,\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true,"
     "\"layer_types\":["
     "\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"attention\","
     "\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\","
     "\"mamba\",\"mamba\",\"mamba\",\"attention\",\"mamba\",\"mamba\","
     "\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\","
     "\"mamba\",\"attention\",\"mamba\",\"mamba\",\"mamba\",\"mamba\","
     "\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"attention\","
     "\"mamba\",\"mamba\",\"mamba\",\"mamba\""
     "],\"hidden_act\":\"silu\"}"},
    {"200m",
     "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":768,\"intermediate_size\":2048,"
     "\"num_hidden_layers\":26,\"num_attention_heads\":12,\"num_key_value_heads\":4,"
     "\"head_dim\":64,\"vocab_size\":32000,\"max_position_embeddings\":2048,"
     "\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"tie_word_embeddings\":true,"
     "\"hidden_act\":\"silu\"}"},
    {"tiny",
     "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":256,\"intermediate_size\":768,"
     "\"num_hidden_layers\":4,\"num_attention_heads\":8,\"num_key_value_heads\":4,"
     "\"head_dim\":32,\"vocab_size\":4096,\"max_position_embeddings\":8192,"
     "\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"tie_word_embeddings\":true,"
     "\"hidden_act\":\"silu\"}"},
    /* slices of o and down are whole steps of columns, as those of large models */
    {"small",
     "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":128,\"intermediate_size\":512,"
     "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"num_key_value_heads\":2,"
     "\"head_dim\":64,\"vocab_size\":512,\"max_position_embeddings\":2048,"
     "\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"tie_word_embeddings\":true,"
     "\"hidden_act\":\"silu\"}"},
};

const char *shape_names(void)
{
    return "llama-3.2-1b qwen3-0.6b mla-1b delta-1b mamba-1b 200m tiny small";
}

struct shape_tensor {
    char name[MAX_NAME];
    enum dtype type;
    int32_t n_dims;
    uint64_t shape[3];
    size_t n_bytes;
};

struct shape_source {
    struct tensor_source base;
    struct shape_tensor *tensor; /* [n], by name */
    size_t n;
    unsigned char *data[DT_N]; /* one region a type: every tensor of the type begins at its start */
};

static void source_close(struct tensor_source *base)
{
    struct shape_source *s = (struct shape_source *)base;
    for (int t = 0; t < DT_N; t++)
        free(s->data[t]);
    free(s->tensor);
    free(s);
}

static size_t source_count(const struct tensor_source *base)
{
    return ((const struct shape_source *)base)->n;
}

static void source_get(const struct tensor_source *base, size_t i, struct stored_tensor *out)
{
    const struct shape_source *s = (const struct shape_source *)base;
    const struct shape_tensor *t = &s->tensor[i];
    *out = (struct stored_tensor){.name = t->name,
                                  .type_name = dtype_name(t->type),
                                  .dtype = t->type,
                                  .n_dims = t->n_dims,
                                  .data = s->data[t->type],
                                  .n_bytes = t->n_bytes};
    memcpy(out->shape, t->shape, sizeof t->shape);
}

static const struct tensor_source_ops ops = {
    .format = "random", .close = source_close, .count = source_count, .get = source_get};

static size_t type_bytes(enum dtype t, size_t elements)
{
    const struct quant_form *f = quant_form(t);
    return f ? elements / (size_t)f->block * (size_t)f->n_bytes : elements * dtype_size(t);
}

static enum status add_tensor(struct shape_source *s, const struct model_config *mc,
                              enum tensor_id id, int32_t layer, enum dtype type)
{
    const struct tensor_rule *rule = &mc->arch->tensor[id];
    int32_t first;
    struct shape_tensor *t = &s->tensor[s->n++];
    const char *mark = strchr(rule->name, '#');
    uint64_t rows = (uint64_t)model_layer_axis(mc, rule->rows, layer);
    uint64_t cols = (uint64_t)model_layer_axis(mc, rule->cols, layer);
    if (rule->fused != FUSED_NO)
        rows = (uint64_t)model_fused_rows(mc, id, layer, &first);
    if (rule->fused == FUSED_KV_B)
        cols = (uint64_t)mc->kv_rank;
    const struct quant_form *f = quant_form(type);
    if (mark)
        snprintf(t->name, sizeof t->name, "%.*s%d%s", (int)(mark - rule->name), rule->name, layer,
                 mark + 1);
    else
        snprintf(t->name, sizeof t->name, "%s", rule->name);
    bool vector = rule->rows == AX_ONE, conv = id == TN_DELTA_CONV;
    t->type = vector || conv ? DT_F32 : type;
    t->n_dims = vector ? 1 : conv ? 3 : 2;
    t->shape[0] = vector ? cols : rows;
    t->shape[1] = conv ? 1 : cols;
    t->shape[2] = cols;
    t->n_bytes = type_bytes(t->type, (size_t)rows * (size_t)cols);
    if (t->n_dims == 2 && f && cols % (uint64_t)f->block)
        FAIL(ST_UNSUPPORTED, "tensor %s: rows of %llu elements are not whole blocks of %s", t->name,
             (unsigned long long)cols, dtype_name(type));
    return ST_OK;
}

/* The scales of the last tensor, which is in e4m3, for blocks of FP8_BLOCK rows and columns. */
static void add_scales(struct shape_source *s)
{
    const struct shape_tensor matrix = s->tensor[s->n - 1];
    struct shape_tensor *t = &s->tensor[s->n++];
    snprintf(t->name, sizeof t->name, "%.*s_scale_inv", MAX_NAME - 12, matrix.name);
    t->type = DT_F32;
    t->n_dims = 2;
    for (int i = 0; i < 2; i++)
        t->shape[i] = (matrix.shape[i] + FP8_BLOCK - 1) / FP8_BLOCK;
    t->n_bytes = type_bytes(DT_F32, (size_t)(t->shape[0] * t->shape[1]));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct shape_tensor *)a)->name, ((const struct shape_tensor *)b)->name);
}

/* Is the tensor one that another one of the layer has listed? */
static bool is_part(const struct model_config *mc, enum tensor_id id)
{
    const char *name = mc->arch->tensor[id].name;
    for (int i = 0; i < (int)id; i++)
        if (model_has(mc, (enum tensor_id)i) && strcmp(mc->arch->tensor[i].name, name) == 0)
            return true;
    return false;
}

static enum status list_tensors(struct shape_source *s, const struct model_config *mc,
                                enum dtype type, enum dtype head_type)
{
    s->tensor = calloc((size_t)mc->n_layers * TN_N * 2, sizeof *s->tensor);
    if (!s->tensor)
        FAIL(ST_NOMEM, "no memory for the names of tensors");
    for (int32_t layer = 0; layer < mc->n_layers; layer++)
        for (int i = 0; i < TN_N; i++) {
            enum tensor_id id = (enum tensor_id)i;
            if (!model_layer_has(mc, id, layer) || is_part(mc, id))
                continue;
            const struct tensor_rule *rule = &mc->arch->tensor[id];
            if (strchr(rule->name, '#') || layer == 0)
                TRY(add_tensor(s, mc, id, layer, id == TN_EMBED ? head_type : type));
            else
                continue;
            if (s->tensor[s->n - 1].type == DT_E4M3)
                add_scales(s);
        }
    qsort(s->tensor, s->n, sizeof *s->tensor, by_name);
    return ST_OK;
}

/* Random blocks whose values have a standard deviation of about 0.02; NULL: no memory. */
static unsigned char *random_blocks(enum dtype t)
{
    static float value[4096];
    double sum = 0;
    unsigned char *p = quant_random_blocks(t, ARRAY_LEN(value), 1.0f, 1);
    if (!p)
        return NULL;
    quant_expand(t, p, ARRAY_LEN(value), value);
    free(p);
    for (size_t i = 0; i < ARRAY_LEN(value); i++)
        sum += (double)value[i] * (double)value[i];
    return quant_random_blocks(t, UNIT_ELEMENTS,
                               (float)(0.02 / sqrt(sum / (double)ARRAY_LEN(value))), 1);
}

/* Likewise in floats. */
static unsigned char *random_floats(enum dtype t)
{
    uint32_t rng = 1;
    unsigned char *p = malloc(UNIT_ELEMENTS * dtype_size(t));
    for (size_t i = 0; p && i < UNIT_ELEMENTS; i++) {
        float f = ((float)quant_draw(&rng) * 0x1p-23f - 1) * 0.035f;
        uint16_t h = t == DT_F16 ? f16_of_f32(f) : bf16_of_f32(f);
        uint8_t e = e4m3_of_f32(f * 28); /* beside scales of about 0.02 */
        memcpy(p + i * dtype_size(t),
               t == DT_F32    ? (void *)&f
               : t == DT_E4M3 ? (void *)&e
                              : (void *)&h,
               dtype_size(t));
    }
    return p;
}

/* n_bytes of one type: one unit of random elements, again and again. */
static enum status fill(unsigned char **out, enum dtype t, size_t n_bytes)
{
    size_t unit = type_bytes(t, UNIT_ELEMENTS);
    unsigned char *p = quant_form(t) ? random_blocks(t) : random_floats(t);
    *out = malloc(n_bytes);
    for (size_t at = 0; p && *out && at < n_bytes; at += unit)
        memcpy(*out + at, p, n_bytes - at < unit ? n_bytes - at : unit);
    free(p);
    if (!p || !*out)
        FAIL(ST_NOMEM, "no memory for %zu bytes of random weights", n_bytes);
    return ST_OK;
}

static enum status fill_all(struct shape_source *s)
{
    size_t most[DT_N] = {0};
    for (size_t i = 0; i < s->n; i++)
        if (s->tensor[i].n_bytes > most[s->tensor[i].type])
            most[s->tensor[i].type] = s->tensor[i].n_bytes;
    for (int t = 0; t < DT_N; t++)
        if (most[t])
            TRY(fill(&s->data[t], (enum dtype)t, most[t]));
    return ST_OK;
}

static enum status find_shape(struct model_config *mc, const char *shape, enum dtype type)
{
    const struct quant_form *f = quant_form(type);
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        if (strcmp(shapes[i].name, shape) == 0) {
            const char *text = shapes[i].config;
            TRY(model_config_parse(mc, text, strlen(text), NULL, 0));
            mc->dtype = type;
            mc->ffn_unit = f ? f->block : 1;
            mc->fp8 = type == DT_E4M3;
            mc->fp8_rows = mc->fp8_cols = mc->fp8 ? FP8_BLOCK : 0;
            return ST_OK;
        }
    FAIL(ST_NOT_FOUND, "there is no shape '%s' (there are %s)", shape, shape_names());
}

enum status shape_loader_open(struct loader **out, const char *shape, enum dtype type,
                              enum dtype head_type)
{
    struct model_config mc;
    *out = NULL;
    TRY(find_shape(&mc, shape, type));
    struct shape_source *s = calloc(1, sizeof *s);
    if (!s)
        FAIL(ST_NOMEM, "no memory");
    s->base.ops = &ops;
    enum status st = list_tensors(s, &mc, type, head_type);
    if (st == ST_OK)
        st = fill_all(s);
    if (st != ST_OK) {
        source_close(&s->base);
        return st;
    }
    struct tensor_source *src = &s->base;
    return loader_open_source(out, &mc, &src);
}
