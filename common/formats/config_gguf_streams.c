/* Several residual streams in GGUF (gemma3n): names of tensors and sizes.  The keys are those of llama.cpp's converter
 * (conversion/gemma.py). */
#include <math.h>

#include "common/formats/config_gguf_meta.h"
#include "common/formats/config_json.h"

#define L "blk.#."

const struct tensor_rule gguf_gemma3n_tensors[TN_N] = {
    [TN_EMBED] = {"token_embd.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_INPUT_EMBED] = {"per_layer_token_embd.weight", NULL, AX_INPUT_VOCAB, AX_INPUTS, FUSED_NO},
    [TN_INPUT_PROJ] = {"per_layer_model_proj.weight", NULL, AX_INPUTS, AX_HIDDEN, FUSED_NO},
    [TN_INPUT_PROJ_NORM] = {"per_layer_proj_norm.weight", NULL, AX_ONE, AX_INPUT, FUSED_NO},
    [TN_STREAM_IN] = {"altup_proj.weight", NULL, AX_HIDDEN, AX_HIDDEN, FUSED_NO},
    [TN_STREAM_NORM] = {L "altup_router_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_STREAM_ROUTER] = {L "altup_router.weight", NULL, AX_STREAMS, AX_HIDDEN, FUSED_NO},
    [TN_STREAM_PREDICT] = {L "altup_predict_coef.weight", NULL, AX_STREAM_PAIRS, AX_STREAMS,
                           FUSED_NO},
    [TN_STREAM_CORRECT] = {L "altup_correct_coef.weight", NULL, AX_STREAMS, AX_STREAMS, FUSED_NO},
    [TN_STREAM_SCALE] = {L "altup_correct_scale.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_LAUREL_LEFT] = {L "laurel_l.weight", NULL, AX_LAUREL, AX_HIDDEN, FUSED_NO},
    [TN_LAUREL_RIGHT] = {L "laurel_r.weight", NULL, AX_HIDDEN, AX_LAUREL, FUSED_NO},
    [TN_LAUREL_NORM] = {L "laurel_post_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_ATTN_NORM] = {L "attn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_Q] = {L "attn_q.weight", NULL, AX_Q, AX_HIDDEN, FUSED_NO},
    [TN_K] = {L "attn_k.weight", NULL, AX_KV, AX_HIDDEN, FUSED_NO},
    [TN_V] = {L "attn_v.weight", NULL, AX_KV, AX_HIDDEN, FUSED_NO},
    [TN_Q_NORM] = {L "attn_q_norm.weight", NULL, AX_ONE, AX_DHEAD, FUSED_NO},
    [TN_K_NORM] = {L "attn_k_norm.weight", NULL, AX_ONE, AX_DHEAD, FUSED_NO},
    [TN_O] = {L "attn_output.weight", NULL, AX_HIDDEN, AX_Q, FUSED_NO},
    [TN_POST_ATTN_NORM] = {L "post_attention_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_FFN_NORM] = {L "ffn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_GATE] = {L "ffn_gate.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_UP] = {L "ffn_up.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_DOWN] = {L "ffn_down.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_POST_FFN_NORM] = {L "post_ffw_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_INPUT_GATE] = {L "inp_gate.weight", NULL, AX_INPUT, AX_HIDDEN, FUSED_NO},
    [TN_INPUT_OUT] = {L "proj.weight", NULL, AX_HIDDEN, AX_INPUT, FUSED_NO},
    [TN_INPUT_NORM] = {L "post_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_STREAM_OUT] = {"altup_unembd_proj.weight", NULL, AX_HIDDEN, AX_HIDDEN, FUSED_NO},
    [TN_FINAL_NORM] = {"output_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_HEAD] = {"output.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
};

/* Of each layer gate_cut as it is. */
static enum status read_cuts(struct model_config *mc, const struct meta *m)
{
    const struct meta_name k = meta_key(m, "activation_sparsity_scale");
    struct gguf_array list;
    TRY(meta_need(m, "activation_sparsity_scale"));
    TRY(gguf_get_array(m->g, k.text, GGUF_F32, &list));
    if (list.n != (uint64_t)mc->n_layers)
        FAIL(ST_FORMAT, "gguf: %s has %llu elements for %d layers", k.text,
             (unsigned long long)list.n, mc->n_layers);
    for (int32_t i = 0; i < mc->n_layers; i++) {
        double cut = gguf_array_float(&list, (uint64_t)i);
        bool none = isinf(cut) && cut < 0;
        if (!none && !(fabs(cut) <= MAX_GATE_CUT))
            FAIL(ST_RANGE, "gguf: %s[%d] is %g, neither -inf nor at most %g in size", k.text, i,
                 cut, MAX_GATE_CUT);
        mc->gate_cut[i] = (float)cut;
    }
    return ST_OK;
}

/* llama.cpp takes 64, whatever the file has. */
static enum status find_rank(struct model_config *mc, const struct meta *m)
{
    static const char name[] = "blk.0.laurel_l.weight";
    const struct gguf_tensor *t = gguf_find_tensor(m->g, name);
    if (!t || t->n_dims != 2 || t->ne[1] > 1 << 16)
        FAIL(ST_FORMAT, "gguf: there is no matrix %s of up to %d rows", name, 1 << 16);
    mc->laurel_rank = (int32_t)t->ne[1];
    return ST_OK;
}

enum status config_gguf_streams(struct model_config *mc, const struct meta *m)
{
    static const char *const needed[] = {"altup.num_inputs", "altup.active_idx",
                                         "embedding_length_per_layer_input",
                                         "attention.shared_kv_layers"};
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        TRY(meta_need(m, needed[i]));
    TRY(meta_i32(m, needed[0], 1, MAX_STREAMS, &mc->n_streams));
    TRY(meta_i32(m, needed[1], 0, MAX_STREAMS, &mc->active_stream));
    mc->scale_active = true;
    TRY(config_gguf_inputs(mc, m));
    TRY(find_rank(mc, m));
    TRY(read_cuts(mc, m));
    return config_streams_check(mc);
}
