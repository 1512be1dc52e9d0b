/* Llama 4 in GGUF files. */
#include "common/formats/config_gguf_meta.h"

void gguf_arch_chunks(struct model_config *mc)
{
    enum { CHUNK = 8192, NO_NORM = 128 };
    mc->window = CHUNK;
    for (int32_t i = 0; i < mc->n_layers; i++)
        mc->windowed[i] = !mc->nope[i];
    mc->rope.q_beta = 0.1;
    mc->rope.q_floor = CHUNK;
    mc->rope.q_first = 1;
    mc->qk_norm = mc->n_experts != NO_NORM;
}

enum status config_gguf_step(const struct model_config *mc, const struct meta *m)
{
    static const char key[] = "interleave_moe_layer_step";
    int32_t step = 1;
    TRY(meta_need(m, key));
    TRY(meta_i32(m, key, 1, MAX_LAYERS, &step));
    for (int32_t i = 0; i < mc->n_layers; i++)
        if (mc->sparse[i] != ((i + 1) % step == 0))
            FAIL(ST_FORMAT, "gguf: %s is %d, but layer %d has %s tensor ffn_gate_inp.weight",
                 meta_key(m, key).text, step, i, mc->sparse[i] ? "a" : "no");
    return ST_OK;
}
