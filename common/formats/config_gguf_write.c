/* As which of GGUF's architectures a model is written. */
#include <string.h>

#include "common/formats/config_gguf_meta.h"

/* Model types that are written as another one. */
static const char *const as_other[][2] = {
    {"mistral", "llama"},
    {"mixtral", "llama"},
    {"olmo3", "olmo2"},
    {"bamba", "granitemoehybrid"},
};

enum status gguf_arch_for(const struct arch **out, const struct model_config *mc)
{
    const char *type = mc->arch->model_type;
    const struct gguf_arch *row = config_gguf_latent_for(mc);
    for (size_t i = 0; i < ARRAY_LEN(as_other); i++)
        if (strcmp(type, as_other[i][0]) == 0)
            type = as_other[i][1];
    if (strcmp(type, "granitemoehybrid") == 0 && !model_n_delta(mc) && !model_n_sparse(mc))
        type = "granite"; /* Granite 4 micro */
    row = row ? row : gguf_arch_of_type(type, model_n_sparse(mc) > 0);
    if (!row)
        FAIL(ST_UNSUPPORTED, "%s has no architecture in GGUF", mc->arch->name);
    *out = &row->arch;
    return ST_OK;
}
