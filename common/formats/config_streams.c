/* The keys of config.json that tell of several residual streams and what Gemma 3n has beside them.  Called by
 * model_config.c. */
#include <cjson/cJSON.h>
#include <math.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

/* One width, or one for each layer. */
static enum status read_widths(struct model_config *mc, const cJSON *root)
{
    const cJSON *list = json_member(root, "intermediate_size"), *item;
    const int32_t big = 1 << 24;
    int32_t i = 0, width[MAX_LAYERS];
    if (!cJSON_IsArray(list))
        return json_i32(root, "intermediate_size", 1, big, &mc->ffn);
    if (cJSON_GetArraySize(list) != mc->n_layers)
        FAIL(ST_FORMAT, "intermediate_size must be a number or a list of num_hidden_layers (%d)",
             mc->n_layers);
    cJSON_ArrayForEach(item, list)
    {
        uint64_t n;
        if (!json_is_u53(item, &n) || n < 1 || n > (uint64_t)big)
            FAIL(ST_RANGE, "intermediate_size[%d] is no number of 1 to %d", i, big);
        width[i++] = (int32_t)n;
    }
    model_set_widths(mc, width);
    return ST_OK;
}

/* The z of which the normal distribution has that share below it, by Newton's method from its middle, which
 * never leaves the half that z is in. */
static double quantile(double share)
{
    double z = 0, step = 1;
    for (int i = 0; i < 200 && fabs(step) > 1e-15; i++) {
        double below = 0.5 * erfc(-z / sqrt(2)), density = exp(-z * z / 2) / sqrt(2 * acos(-1));
        step = (share - below) / density;
        z += step;
    }
    return z;
}

/* The share of gates that become 0, which are taken to be distributed normally; 0: the layer has no cut. */
static enum status read_cuts(struct model_config *mc, const cJSON *root)
{
    const cJSON *list = json_member(root, "activation_sparsity_pattern"), *item;
    int32_t i = 0, n_default = mc->n_layers > 10 ? 10 : 0; /* as transformers' class */
    for (i = 0; !list && i < n_default; i++)
        mc->gate_cut[i] = (float)quantile((double)0.95f);
    if (!list)
        return ST_OK;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != mc->n_layers)
        FAIL(ST_FORMAT,
             "activation_sparsity_pattern must be a list of num_hidden_layers (%d) numbers",
             mc->n_layers);
    i = 0;
    cJSON_ArrayForEach(item, list)
    {
        double share = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (share != 0 && !(share >= 1e-4 && share <= 1 - 1e-4))
            FAIL(ST_RANGE,
                 "activation_sparsity_pattern[%d] is neither 0 nor a number of 0.0001 to 0.9999",
                 i);
        if (share > 0)
            mc->gate_cut[i] = (float)quantile((double)(float)share);
        i++;
    }
    return ST_OK;
}

enum status config_streams_check(const struct model_config *mc)
{
    if (mc->n_streams < 1 || mc->n_streams > MAX_STREAMS)
        FAIL(ST_RANGE, "%d residual streams: 1 to %d are supported", mc->n_streams, MAX_STREAMS);
    if (mc->active_stream < 0 || mc->active_stream >= mc->n_streams)
        FAIL(ST_RANGE, "the active residual stream is %d of %d", mc->active_stream, mc->n_streams);
    if (mc->laurel_rank < 1 || mc->laurel_rank > 1 << 16)
        FAIL(ST_RANGE, "LAuReL's rank is %d: it must be 1 to %d", mc->laurel_rank, 1 << 16);
    if (mc->d_input < 1)
        FAIL(ST_RANGE, "the inputs of the layers have %d elements: there must be at least 1",
             mc->d_input);
    if ((int64_t)mc->n_streams * mc->hidden > 1 << 24)
        FAIL(ST_RANGE, "%d residual streams of %d are too many", mc->n_streams, mc->hidden);
    return ST_OK;
}

enum status config_streams_read(struct model_config *mc, const cJSON *root)
{
    enum { DEFAULT_SHARED = 15 };
    mc->n_streams = 4;
    mc->laurel_rank = 64;
    mc->scale_active = true;
    TRY(json_i32(root, "altup_num_inputs", 1, MAX_STREAMS, &mc->n_streams));
    TRY(json_i32(root, "altup_active_idx", 0, MAX_STREAMS, &mc->active_stream));
    TRY(json_bool(root, "altup_correct_scale", &mc->scale_active));
    TRY(json_i32(root, "laurel_rank", 1, 1 << 16, &mc->laurel_rank));
    TRY(read_widths(mc, root));
    TRY(read_cuts(mc, root));
    TRY(config_inputs_read(mc, root));
    TRY(config_kv_shared_read(mc, root, DEFAULT_SHARED));
    return config_streams_check(mc);
}
