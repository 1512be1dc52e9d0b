/* Gated delta-net layers in GGUF (qwen3next, qwen35, qwen35moe): their sizes and where they are.  The keys are those of
 * llama.cpp's converter (conversion/qwen.py), which has state-space models' names for them. */
#include <string.h>

#include "common/formats/config_gguf_meta.h"
#include "common/formats/config_json.h"

/* A flag for each layer (and behind them those that predict further tokens), or attention in each
 * full_attention_interval-th layer. */
static enum status read_layers(struct model_config *mc, const struct meta *m)
{
    const struct meta_name k = meta_key(m, "attention.recurrent_layers");
    bool is_list = gguf_has(m->g, k.text);
    struct gguf_array flags;
    int32_t interval = 4;
    TRY(meta_i32(m, "full_attention_interval", 1, 1 << 20, &interval));
    if (is_list)
        TRY(gguf_get_array(m->g, k.text, GGUF_BOOL, &flags));
    if (is_list && flags.n < (uint64_t)mc->n_layers)
        FAIL(ST_FORMAT, "gguf: %s has %llu elements for %d layers", k.text,
             (unsigned long long)flags.n, mc->n_layers);
    for (int32_t i = 0; i < mc->n_layers; i++)
        mc->delta[i] = is_list ? gguf_array_int(&flags, (uint64_t)i) != 0 : (i + 1) % interval != 0;
    return ST_OK;
}

enum status config_gguf_states(struct model_config *mc, const struct meta *m)
{
    static const char *const needed[] = {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count",
                                         "ssm.time_step_rank", "ssm.inner_size"};
    int32_t values = 0;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        TRY(meta_need(m, needed[i]));
    TRY(meta_i32(m, "ssm.conv_kernel", 2, DELTA_TAPS, &mc->delta_taps));
    TRY(meta_i32(m, "ssm.state_size", 1, DELTA_HEAD, &mc->d_delta_k));
    TRY(meta_i32(m, "ssm.group_count", 1, DELTA_HEADS, &mc->n_delta_k));
    TRY(meta_i32(m, "ssm.time_step_rank", 1, DELTA_HEADS, &mc->n_delta_v));
    TRY(meta_i32(m, "ssm.inner_size", 1, DELTA_HEADS * DELTA_HEAD, &values));
    if (mc->n_delta_v % mc->n_delta_k)
        FAIL(ST_RANGE, "gguf: %s %d is no multiple of ssm.group_count %d",
             meta_key(m, "ssm.time_step_rank").text, mc->n_delta_v, mc->n_delta_k);
    mc->d_delta_v = values / mc->n_delta_v;
    if (values % mc->n_delta_v || mc->d_delta_v > DELTA_HEAD)
        FAIL(ST_RANGE, "gguf: %s %d are no %d heads of up to %d elements",
             meta_key(m, "ssm.inner_size").text, values, mc->n_delta_v, DELTA_HEAD);
    return ST_OK;
}

enum status config_gguf_delta(struct model_config *mc, const struct meta *m)
{
    TRY(read_layers(mc, m));
    if (model_n_delta(mc))
        TRY(config_gguf_states(mc, m));
    return config_delta_check(mc);
}
