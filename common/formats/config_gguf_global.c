/* Heads of global layers in GGUF (gemma4): their sizes and numbers beside those of the layers with a window.  The keys
 * are those of llama.cpp's converter (conversion/gemma.py). */
#include <stdio.h>

#include "common/formats/config_gguf_meta.h"
#include "common/formats/config_json.h"

/* One number, or one for each layer: those of one kind must be alike. */
static enum status read_kv(struct model_config *mc, const struct meta *m)
{
    static const char name[] = "attention.head_count_kv";
    const struct meta_name k = meta_key(m, name);
    struct gguf_array list;
    mc->n_kv = mc->n_q;
    if (!gguf_is_array(m->g, k.text)) {
        TRY(meta_i32(m, name, 1, 1 << 16, &mc->n_kv));
        mc->global_n_kv = mc->n_kv;
        return ST_OK;
    }
    TRY(gguf_get_array(m->g, k.text, GGUF_I32, &list));
    if (list.n < (uint64_t)mc->n_layers)
        FAIL(ST_FORMAT, "gguf: %s has %llu elements for %d layers", k.text,
             (unsigned long long)list.n, mc->n_layers);
    bool known[2] = {false, false};
    for (int32_t i = 0; i < mc->n_layers; i++) {
        int32_t *to = mc->windowed[i] ? &mc->n_kv : &mc->global_n_kv;
        int64_t n = gguf_array_int(&list, (uint64_t)i);
        if (n < 1 || n > 1 << 16)
            FAIL(ST_RANGE, "gguf: %s[%d] is %lld, not in 1 .. %d", k.text, i, (long long)n,
                 1 << 16);
        if (known[mc->windowed[i]] && n != *to)
            FAIL(ST_UNSUPPORTED, "gguf: %s[%d] is %lld, another layer of its kind has %d", k.text,
                 i, (long long)n, *to);
        *to = (int32_t)n;
        known[mc->windowed[i]] = true;
    }
    if (!known[0])
        mc->global_n_kv = mc->n_kv;
    return ST_OK;
}

static enum status read_size(const struct meta *m, const char *keys, const char *values,
                             int32_t *out)
{
    int32_t value;
    TRY(meta_need(m, keys));
    TRY(meta_i32(m, keys, 1, 1 << 16, out));
    value = *out;
    TRY(meta_i32(m, values, 1, 1 << 16, &value));
    if (value != *out)
        FAIL(ST_UNSUPPORTED, "gguf: heads with keys of %d and values of %d are not supported", *out,
             value);
    return ST_OK;
}

/* One width, or one for each layer. */
static enum status read_ffn(struct model_config *mc, const struct meta *m)
{
    static const char name[] = "feed_forward_length";
    const struct meta_name k = meta_key(m, name);
    const int32_t big = 1 << 24;
    struct gguf_array list;
    int32_t width[MAX_LAYERS];
    if (!gguf_is_array(m->g, k.text))
        return meta_i32(m, name, 1, big, &mc->ffn);
    TRY(gguf_get_array(m->g, k.text, GGUF_I32, &list));
    if (list.n < (uint64_t)mc->n_layers)
        FAIL(ST_FORMAT, "gguf: %s has %llu elements for %d layers", k.text,
             (unsigned long long)list.n, mc->n_layers);
    for (int32_t i = 0; i < mc->n_layers; i++) {
        int64_t n = gguf_array_int(&list, (uint64_t)i);
        if (n < 1 || n > big)
            FAIL(ST_RANGE, "gguf: %s[%d] is %lld, not in 1 .. %d", k.text, i, (long long)n, big);
        width[i] = (int32_t)n;
    }
    model_set_widths(mc, width);
    return ST_OK;
}

/* A layer without values has its keys in place of them. */
static void find_values(struct model_config *mc, const struct meta *m)
{
    for (int32_t i = 0; i < mc->n_layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_v.weight", i);
        if (model_is_global(mc, i) && model_kv_layer(mc, i) == i && !gguf_find_tensor(m->g, name))
            mc->k_eq_v = true;
    }
}

enum status config_gguf_inputs(struct model_config *mc, const struct meta *m)
{
    TRY(meta_i32(m, "attention.shared_kv_layers", 0, mc->n_layers - 1, &mc->n_kv_shared));
    TRY(meta_i32(m, "embedding_length_per_layer_input", 0, 1 << 16, &mc->d_input));
    mc->input_vocab = mc->d_input ? mc->vocab : 0;
    TRY(config_kv_shared_check(mc, meta_key(m, "attention.shared_kv_layers").text));
    return read_ffn(mc, m);
}

enum status config_gguf_global(struct model_config *mc, const struct meta *m)
{
    TRY(config_gguf_inputs(mc, m));
    TRY(read_kv(mc, m));
    TRY(read_size(m, "attention.key_length", "attention.value_length", &mc->global_d_head));
    TRY(read_size(m, "attention.key_length_swa", "attention.value_length_swa", &mc->d_head));
    find_values(mc, m);
    return ST_OK;
}
