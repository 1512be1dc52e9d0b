/* What each architecture's class calls the keys of config.json that every decoder has.  Called by the readers of this
 * folder. */
#include <string.h>

#include "common/formats/config_json.h"

const char *config_eps_name(const struct arch *arch)
{
    if (arch->names)
        return arch->names->eps;
    return !arch->layer_norm ? "rms_norm_eps" : arch->norm_bias ? "norm_epsilon" : "layer_norm_eps";
}

const struct config_names *config_names_of(const struct arch *arch)
{
    static const struct config_names usual = {.hidden = "hidden_size",
                                              .ffn = "intermediate_size",
                                              .layers = "num_hidden_layers",
                                              .heads = "num_attention_heads",
                                              .positions = "max_position_embeddings",
                                              .act = "hidden_act",
                                              .act_default = "silu"};
    return arch->names ? arch->names : &usual;
}

bool config_is_named(const char *key, const struct arch *arch)
{
    const struct config_names *n = config_names_of(arch);
    const char *const names[] = {n->hidden,    n->ffn, n->layers, n->heads,
                                 n->positions, n->act, n->embed,  config_eps_name(arch)};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i] && strcmp(names[i], key) == 0)
            return true;
    return false;
}
