/* Mamba-2 layers in GGUF (granitehybrid): their sizes and where they are.  The keys are those of llama.cpp's converter
 * (conversion/granite.py, conversion/mamba.py). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/config_gguf_meta.h"
#include "common/formats/config_json.h"

/* A layer without key/value heads is of Mamba-2; granite and granitemoe have none. */
enum status config_gguf_mamba_layers(struct model_config *mc, const struct meta *m)
{
    static const char name[] = "attention.head_count_kv";
    const struct meta_name k = meta_key(m, name);
    struct gguf_array list;
    TRY(gguf_get_array(m->g, k.text, GGUF_I32, &list));
    if (list.n < (uint64_t)mc->n_layers)
        FAIL(ST_FORMAT, "gguf: %s has %llu elements for %d layers", k.text,
             (unsigned long long)list.n, mc->n_layers);
    mc->n_kv = 0;
    for (int32_t i = 0; i < mc->n_layers; i++) {
        int64_t n = gguf_array_int(&list, (uint64_t)i);
        if (n < !mc->arch->mamba || n > 1 << 16)
            FAIL(ST_RANGE, "gguf: %s[%d] is %lld, not in %d .. %d", k.text, i, (long long)n,
                 !mc->arch->mamba, 1 << 16);
        mc->delta[i] = n == 0;
        if (n && mc->n_kv && n != mc->n_kv)
            FAIL(ST_UNSUPPORTED, "gguf: %s[%d] is %lld, another layer has %d", k.text, i,
                 (long long)n, mc->n_kv);
        mc->n_kv = n ? (int32_t)n : mc->n_kv;
    }
    if (mc->n_kv == 0)
        FAIL(ST_UNSUPPORTED, "gguf: no layer of %s has attention (%s)", mc->arch->name, k.text);
    return ST_OK;
}

/* A layer without key/value heads and with a feed-forward is that alone. */
enum status config_gguf_blocks(struct model_config *mc, const struct meta *m)
{
    static const char name[] = "feed_forward_length";
    const struct meta_name k = meta_key(m, name);
    struct gguf_array list;
    TRY(config_gguf_mamba_layers(mc, m));
    TRY(gguf_get_array(m->g, k.text, GGUF_I32, &list));
    if (list.n < (uint64_t)mc->n_layers)
        FAIL(ST_FORMAT, "gguf: %s has %llu elements for %d layers", k.text,
             (unsigned long long)list.n, mc->n_layers);
    for (int32_t i = 0; i < mc->n_layers; i++) {
        int64_t n = gguf_array_int(&list, (uint64_t)i);
        if (n < 0 || n > 1 << 24)
            FAIL(ST_RANGE, "gguf: %s[%d] is %lld, not in 0 .. %d", k.text, i, (long long)n,
                 1 << 24);
        if (n && !mc->delta[i])
            FAIL(ST_FORMAT, "gguf: layer %d has attention and a feed-forward of %lld", i,
                 (long long)n);
        if (n && mc->ffn && n != mc->ffn)
            FAIL(ST_UNSUPPORTED, "gguf: %s[%d] is %lld, another layer has %d", k.text, i,
                 (long long)n, mc->ffn);
        mc->feeds[i] = n != 0;
        mc->delta[i] = mc->delta[i] && !n;
        mc->ffn = n ? (int32_t)n : mc->ffn;
    }
    return ST_OK;
}

/* Files say with rope.scaling.finetuned whether attention has RoPE. */
static enum status read_positions(struct model_config *mc, const struct meta *m)
{
    const struct meta_name k = meta_key(m, "rope.scaling.finetuned");
    bool rope = true;
    if (gguf_has(m->g, k.text))
        TRY(gguf_get_bool(m->g, k.text, &rope));
    memset(mc->nope, !rope, (size_t)mc->n_layers * sizeof *mc->nope);
    return ST_OK;
}

enum status config_gguf_mamba(struct model_config *mc, const struct meta *m)
{
    mc->dt_max = (double)INFINITY;
    mc->state_norm = !mc->arch->beside || gguf_find_tensor(m->g, "blk.0.ssm_norm.weight") != NULL;
    if (mc->arch->beside)
        memset(mc->delta, true, (size_t)mc->n_layers * sizeof *mc->delta);
    TRY(read_positions(mc, m));
    if (!model_n_delta(mc))
        return config_delta_check(mc);
    TRY(config_gguf_states(mc, m));
    for (int32_t i = 0; i < mc->n_layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ssm_conv1d.bias", i);
        mc->conv_bias = mc->conv_bias || gguf_find_tensor(m->g, name) != NULL;
    }
    return config_delta_check(mc);
}
