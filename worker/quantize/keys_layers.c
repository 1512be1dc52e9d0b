#include "worker/quantize/keys_layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/quantize/vocab_pre.h"

struct full_key key_of(const struct arch_keys *a, const char *key)
{
    struct full_key k;
    snprintf(k.text, sizeof k.text, "%s.%s", a->to->name, key);
    return k;
}

enum status key_put_int(const struct arch_keys *a, const char *key, int32_t v)
{
    return gguf_put_u32(a->w, key_of(a, key).text, (uint32_t)v);
}

enum status key_put_float(const struct arch_keys *a, const char *key, double v)
{
    return gguf_put_f32(a->w, key_of(a, key).text, (float)v);
}

struct row {
    const char *key;
    int32_t value;
};

static enum status put_rows(const struct arch_keys *a, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        TRY(key_put_int(a, rows[i].key, rows[i].value));
    return ST_OK;
}

/* ---- latent attention ---- */

enum status keys_latent_sizes(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    bool whole = a->to->tensor[TN_K_B].fused == FUSED_KV_B; /* minicpm3 */
    const int32_t d = mc->d_nope + mc->d_rope;
    const struct row split[] = {{"attention.head_count_kv", 1},
                                {"attention.key_length", mc->d_head},
                                {"attention.value_length", mc->kv_rank},
                                {"attention.key_length_mla", d},
                                {"attention.value_length_mla", mc->d_value}},
                     joined[] = {{"attention.head_count_kv", mc->n_q},
                                 {"attention.key_length", d},
                                 {"attention.value_length", mc->d_value}};
    TRY(key_put_int(a, "attention.kv_lora_rank", mc->kv_rank));
    if (mc->q_rank)
        TRY(key_put_int(a, "attention.q_lora_rank", mc->q_rank));
    return whole ? put_rows(a, joined, ARRAY_LEN(joined)) : put_rows(a, split, ARRAY_LEN(split));
}

/* mscale_all_dim m gives the factor (0.1 m ln(factor) + 1)^2; files have 0.1 m. */
enum status keys_latent_scale(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    const struct rope_config *rope = &mc->rope;
    double own = sqrt(mc->attn_scale * sqrt(mc->d_nope + mc->d_rope)) - 1;
    struct model_config want = *mc;
    if (a->to->depth_scales) {
        gguf_arch_depth_scales(&want);
        if (fabs(want.embed_scale / mc->embed_scale - 1) > 1e-6 ||
            fabs(want.residual_scale / mc->residual_scale - 1) > 1e-6 ||
            fabs(want.logit_scale / mc->logit_scale - 1) > 1e-6)
            FAIL(ST_UNSUPPORTED,
                 "scale_emb, scale_depth or dim_model_base other than MiniCPM3-4B's cannot be said "
                 "in GGUF's %s",
                 a->to->name);
    }
    if (fabs(own) < 1e-9)
        return ST_OK;
    if (rope->type != ROPE_YARN || rope->attention_factor != 1)
        FAIL(ST_UNSUPPORTED, "mscale_all_dim without YaRN, or beside another mscale, cannot be "
                             "said in GGUF");
    return key_put_float(a, "rope.scaling.yarn_log_multiplier", own / log(rope->factor));
}

/* ---- layers with a state ---- */

/* The smallest n of "attention in each n-th layer"; 0: it is not so. */
static int32_t interval(const struct model_config *mc)
{
    int32_t n = 1;
    while (n <= mc->n_layers && mc->delta[n - 1])
        n++;
    for (int32_t i = 0; i < mc->n_layers; i++)
        if (mc->delta[i] != ((i + 1) % n != 0))
            return 0;
    return n;
}

/* Four numbers in the file. */
static enum status put_sections(const struct arch_keys *a)
{
    const int32_t *n = a->mc->mrope_section;
    if (!a->to->mrope_text || n[0] + n[1] + n[2] == 0)
        return ST_OK;
    TRY(gguf_begin_array(a->w, key_of(a, "rope.dimension_sections").text, GGUF_I32, 4));
    for (size_t i = 0; i < ARRAY_LEN(a->mc->mrope_section); i++)
        TRY(gguf_item_32(a->w, (uint32_t)n[i]));
    return gguf_item_32(a->w, 0);
}

static enum status put_delta_layers(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    TRY(gguf_begin_array(a->w, key_of(a, "attention.recurrent_layers").text, GGUF_BOOL,
                         (size_t)mc->n_layers));
    for (int32_t i = 0; i < mc->n_layers; i++)
        TRY(gguf_item_bool(a->w, mc->delta[i]));
    if (interval(mc))
        TRY(key_put_int(a, "full_attention_interval", interval(mc)));
    return put_sections(a);
}

/* What Mamba-2 has no keys for. */
static enum status check_mamba(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    const double usual_step = 0.001; /* Nemotron-H's, which llama.cpp leaves out */
    if (mc->norm_first && mc->state_norm)
        FAIL(ST_UNSUPPORTED, "mamba_norm_before_gate true cannot be said in GGUF's %s",
             a->to->name);
    if (a->to->beside && mc->tied && mc->embed_scale != mc->logit_scale)
        FAIL(ST_UNSUPPORTED,
             "tie_word_embeddings true beside another lm_head_multiplier than "
             "embedding_multiplier cannot be said in GGUF's %s",
             a->to->name);
    if (a->to->one_part && mc->dt_min == usual_step)
        TRY(vocab_note(a->notes, "GGUF cannot say time_step_min (0.001): steps are not bounded"));
    else if (mc->dt_min > 0)
        FAIL(ST_UNSUPPORTED, "a least time step of %g cannot be said in GGUF's %s", mc->dt_min,
             a->to->name);
    if (!isinf(mc->dt_max))
        FAIL(ST_UNSUPPORTED, "a greatest time step of %g cannot be said in GGUF's %s", mc->dt_max,
             a->to->name);
    return ST_OK;
}

enum status keys_states(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    const struct row rows[] = {{"ssm.conv_kernel", mc->delta_taps},
                               {"ssm.state_size", mc->d_delta_k},
                               {"ssm.group_count", mc->n_delta_k},
                               {"ssm.time_step_rank", mc->n_delta_v},
                               {"ssm.inner_size", mc->n_delta_v * mc->d_delta_v}};
    if (a->to->mamba && model_n_delta(mc))
        TRY(check_mamba(a));
    if (a->to->mamba && !a->to->beside)
        TRY(gguf_put_bool(a->w, key_of(a, "rope.scaling.finetuned").text, !mc->nope[0]));
    if (!a->to->mamba)
        TRY(put_delta_layers(a));
    return model_n_delta(mc) ? put_rows(a, rows, ARRAY_LEN(rows)) : ST_OK;
}

enum status keys_heads_listed(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    TRY(gguf_begin_array(a->w, key_of(a, "attention.head_count_kv").text, GGUF_I32,
                         (size_t)mc->n_layers));
    for (int32_t i = 0; i < mc->n_layers; i++)
        TRY(gguf_item_32(a->w, model_attends(mc, i) ? (uint32_t)mc->n_kv : 0));
    return ST_OK;
}

/* A layer with experts has theirs. */
enum status keys_ffn_listed(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    TRY(gguf_begin_array(a->w, key_of(a, "feed_forward_length").text, GGUF_I32,
                         (size_t)mc->n_layers));
    for (int32_t i = 0; i < mc->n_layers; i++)
        TRY(gguf_item_32(a->w, !mc->feeds[i]   ? 0
                               : mc->sparse[i] ? (uint32_t)mc->expert_ffn
                                               : (uint32_t)mc->ffn));
    return ST_OK;
}

/* ---- Llama 4 ---- */

/* gguf_arch_chunks says what a reader takes for every file. */
enum status keys_check_chunks(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    struct model_config usual = *mc;
    usual.arch = a->to;
    gguf_arch_chunks(&usual);
    for (int32_t i = 0; i < mc->n_layers; i++) {
        int32_t chunk = model_chunk(mc, i), want = model_chunk(&usual, i);
        if (chunk != want)
            FAIL(ST_UNSUPPORTED,
                 "layer %d has attention in chunks of %d (0: in none): GGUF's %s has %d there", i,
                 chunk, a->to->name, want);
    }
    if (mc->rope.q_beta != usual.rope.q_beta || mc->rope.q_floor != usual.rope.q_floor)
        FAIL(ST_UNSUPPORTED,
             "attn_scale %g and floor_scale %g cannot be said in GGUF's %s, which has %g and %g",
             mc->rope.q_beta, mc->rope.q_floor, a->to->name, usual.rope.q_beta, usual.rope.q_floor);
    if (mc->qk_norm != usual.qk_norm)
        FAIL(ST_UNSUPPORTED, "use_qk_norm %s beside %d experts cannot be said in GGUF's %s",
             mc->qk_norm ? "true" : "false", mc->n_experts, a->to->name);
    return ST_OK;
}

enum status keys_expert_step(const struct arch_keys *a)
{
    const struct model_config *mc = a->mc;
    int32_t step = 1;
    while (!mc->sparse[step - 1]) /* some layer has experts */
        step++;
    for (int32_t i = 0; i < mc->n_layers; i++)
        if (mc->sparse[i] != ((i + 1) % step == 0))
            FAIL(ST_UNSUPPORTED,
                 "experts in other layers than each n-th cannot be said in GGUF's %s", a->to->name);
    return key_put_int(a, "interleave_moe_layer_step", step);
}
