/* config.json and generation_config.json, divided by the first NUL. */
#include <stdlib.h>
#include <string.h>

#include "common/formats/generation.h"
#include "common/formats/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_config mc;
    struct generation_defaults defaults;
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t len = nul ? (size_t)(nul - data) : size;
    if (nul && generation_parse(&defaults, nul + 1, size - len - 1) == ST_OK &&
        !(defaults.temperature >= 0 && defaults.top_p <= 1 && defaults.repetition_penalty <= 100))
        abort();
    if (model_config_parse(&mc, data, len, nul ? nul + 1 : NULL, nul ? size - len - 1 : 0) != ST_OK)
        return 0;
    int32_t d = mc.global_d_head ? mc.global_d_head : mc.d_head; /* of the layers with mc.rope */
    if (mc.n_layers < 1 || mc.n_layers > MAX_LAYERS || mc.n_q % mc.n_kv || mc.d_head % 2 ||
        mc.n_eos > MAX_STOP_IDS || mc.rope.rot_dim > d || model_axis(&mc, AX_Q) < 1 ||
        model_axis(&mc, AX_INPUTS) < 0 || mc.n_streams > MAX_STREAMS ||
        (mc.n_streams && mc.active_stream >= mc.n_streams) || mc.input_vocab > mc.vocab ||
        mc.n_kv_shared < 0 || mc.n_kv_shared >= mc.n_layers)
        abort();
    return 0;
}
