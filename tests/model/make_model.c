#include "make_model.h"
#include "temp_dir.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct writer {
    char *header;
    size_t header_at, header_cap;
    float *data;
    size_t n, cap; /* floats */
    uint32_t rng;
};

/* Uniform in [-0.5, 0.5): xorshift32 (Marsaglia 2003). */
static float draw(struct writer *w)
{
    w->rng ^= w->rng << 13;
    w->rng ^= w->rng >> 17;
    w->rng ^= w->rng << 5;
    return (float)(w->rng >> 8) * 0x1p-24f - 0.5f;
}

/* rows 0: a vector.  Norm weights (mean 1) and biases are random too, so that none can be left
 * out. */
static void tensor(struct writer *w, const char *name, int32_t rows, int32_t cols, float mean)
{
    size_t n = (size_t)(rows ? rows : 1) * (size_t)cols;
    char shape[64];
    if (rows)
        snprintf(shape, sizeof shape, "[%d,%d]", rows, cols);
    else
        snprintf(shape, sizeof shape, "[%d]", cols);
    while (w->n + n > w->cap) {
        w->cap = w->cap ? 2 * w->cap : 4096;
        w->data = realloc(w->data, w->cap * sizeof *w->data);
        cr_assert_not_null(w->data);
    }
    if (w->header_at + 400 > w->header_cap) {
        w->header_cap = w->header_cap ? 2 * w->header_cap : 4096;
        w->header = realloc(w->header, w->header_cap);
        cr_assert_not_null(w->header);
    }
    w->header_at +=
        (size_t)snprintf(w->header + w->header_at, w->header_cap - w->header_at,
                         "%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                         w->header_at ? "," : "{", name, shape, 4 * w->n, 4 * (w->n + n));
    for (size_t i = 0; i < n; i++)
        w->data[w->n++] = mean + 0.6f * draw(w);
}

static void layer_tensor(struct writer *w, int32_t layer, const char *name, int32_t rows,
                         int32_t cols, float mean)
{
    char full[128];
    snprintf(full, sizeof full, "model.layers.%d.%s", layer, name);
    tensor(w, full, rows, cols, mean);
}

static void experts(struct writer *w, const struct toy *t, int32_t layer)
{
    layer_tensor(w, layer, "mlp.gate.weight", t->n_experts, t->hidden, 0);
    for (int32_t e = 0; e < t->n_experts; e++) {
        char name[64];
        snprintf(name, sizeof name, "mlp.experts.%d.gate_proj.weight", e);
        layer_tensor(w, layer, name, t->expert_ffn, t->hidden, 0);
        snprintf(name, sizeof name, "mlp.experts.%d.up_proj.weight", e);
        layer_tensor(w, layer, name, t->expert_ffn, t->hidden, 0);
        snprintf(name, sizeof name, "mlp.experts.%d.down_proj.weight", e);
        layer_tensor(w, layer, name, t->hidden, t->expert_ffn, 0);
    }
}

static void layer(struct writer *w, const struct toy *t, int32_t i)
{
    int32_t q = t->n_q * t->d_head, kv = t->n_kv * t->d_head;
    bool qkv_bias = t->attention_bias || t->qkv_bias;
    layer_tensor(w, i, "input_layernorm.weight", 0, t->hidden, 1);
    layer_tensor(w, i, "self_attn.q_proj.weight", q, t->hidden, 0);
    layer_tensor(w, i, "self_attn.k_proj.weight", kv, t->hidden, 0);
    layer_tensor(w, i, "self_attn.v_proj.weight", kv, t->hidden, 0);
    layer_tensor(w, i, "self_attn.o_proj.weight", t->hidden, q, 0);
    if (qkv_bias) {
        layer_tensor(w, i, "self_attn.q_proj.bias", 0, q, 0);
        layer_tensor(w, i, "self_attn.k_proj.bias", 0, kv, 0);
        layer_tensor(w, i, "self_attn.v_proj.bias", 0, kv, 0);
    }
    if (t->attention_bias)
        layer_tensor(w, i, "self_attn.o_proj.bias", 0, t->hidden, 0);
    if (t->qk_norm) {
        layer_tensor(w, i, "self_attn.q_norm.weight", 0, t->d_head, 1);
        layer_tensor(w, i, "self_attn.k_norm.weight", 0, t->d_head, 1);
    }
    layer_tensor(w, i, "post_attention_layernorm.weight", 0, t->hidden, 1);
    if (t->n_experts) {
        experts(w, t, i);
        return;
    }
    layer_tensor(w, i, "mlp.gate_proj.weight", t->ffn, t->hidden, 0);
    layer_tensor(w, i, "mlp.up_proj.weight", t->ffn, t->hidden, 0);
    layer_tensor(w, i, "mlp.down_proj.weight", t->hidden, t->ffn, 0);
    if (t->mlp_bias) {
        layer_tensor(w, i, "mlp.gate_proj.bias", 0, t->ffn, 0);
        layer_tensor(w, i, "mlp.up_proj.bias", 0, t->ffn, 0);
        layer_tensor(w, i, "mlp.down_proj.bias", 0, t->hidden, 0);
    }
}

static void write_weights(const char *dir, const struct toy *t)
{
    struct writer w = {.rng = 2463534242U};
    char path[256];
    tensor(&w, "model.embed_tokens.weight", t->vocab, t->hidden, 0);
    for (int32_t i = 0; i < t->n_layers; i++)
        layer(&w, t, i);
    tensor(&w, "model.norm.weight", 0, t->hidden, 1);
    if (!t->tied)
        tensor(&w, "lm_head.weight", t->vocab, t->hidden, 0);
    w.header[w.header_at++] = '}';
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    for (int i = 0; i < 8; i++)
        fputc((int)(w.header_at >> (8 * i) & 255), f);
    cr_assert_eq(fwrite(w.header, 1, w.header_at, f), w.header_at);
    cr_assert_eq(fwrite(w.data, sizeof *w.data, w.n, f), w.n);
    cr_assert_eq(fclose(f), 0);
    free(w.header);
    free(w.data);
}

static void write_config(const char *dir, const struct toy *t)
{
    char path[256];
    snprintf(path, sizeof path, "%s/config.json", dir);
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fprintf(
        f,
        "{\"architectures\":[\"%s\"],\"model_type\":\"%s\",\"num_hidden_layers\":%d,"
        "\"hidden_size\":%d,\"intermediate_size\":%d,\"vocab_size\":%d,"
        "\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"head_dim\":%d,"
        "\"max_position_embeddings\":512,\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":%s%s%s%s}",
        t->arch ? t->arch : "LlamaForCausalLM", t->model_type ? t->model_type : "llama",
        t->n_layers, t->hidden, t->ffn, t->vocab, t->n_q, t->n_kv, t->d_head,
        t->tied ? "true" : "false", t->attention_bias ? ",\"attention_bias\":true" : "",
        t->mlp_bias ? ",\"mlp_bias\":true" : "", t->more ? t->more : "");
    cr_assert_eq(fclose(f), 0);
}

const char *toy_make(const struct toy *t)
{
    static char dir[64];
    temp_dir_make(dir);
    write_weights(dir, t);
    write_config(dir, t);
    return dir;
}

void toy_remove(const char *dir)
{
    temp_dir_remove(dir);
}
