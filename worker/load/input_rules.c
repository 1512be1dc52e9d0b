#include "worker/load/input_rules.h"

#include <math.h>

#include "worker/load/axis_share.h"
#include "worker/load/derive.h"
#include "worker/load/ints.h"
#include "worker/load/site.h"

/* The products that forward.c computes with rounded inputs. */
static bool is_served(enum weight_id id)
{
    static const enum weight_id ids[] = {
        W_QKV,
        W_O,
        W_GATE_UP,
        W_DOWN,
        W_UP,
        W_EXPERTS_GATE_UP,
        W_EXPERTS_UP,
        W_EXPERTS_DOWN,
        W_HEAD,
        W_SHARED_GATE_UP,
        W_SHARED_UP,
        W_SHARED_DOWN,
        W_SHARED_SCALE,
        W_ROUTER,
        W_Q,
        W_Q_A,
        W_Q_B,
        W_KV_A,
        W_Q_GATE,
        W_DELTA_QKV,
        W_DELTA_Z,
        W_DELTA_BA,
        W_DELTA_OUT,
        W_DELTA_STEP,
        W_GLOBAL_QKV,
        W_GLOBAL_QK,
        W_GLOBAL_Q,
        W_GLOBAL_O,
        W_INPUT_GATE,
        W_INPUT_OUT,
        W_K_B,
        W_V_B,
    };
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        if (ids[i] == id)
            return true;
    return false;
}

static bool is_quantised(const struct site *s)
{
    struct stored_tensor t;
    return ints_stored(s->ld, s->pattern, s->layer, s->expert) ||
           (loader_has(s->ld, s->pattern, s->layer, s->expert, &t) && t.dtype == DT_E4M3);
}

/* The scale of a matrix's input. */
static enum status read_scale(const struct site *s, float *out)
{
    struct stored_tensor t;
    const char *end = site_has(s->ld, s->pattern, s->layer, s->expert, "activation_scale", &t)
                          ? "activation_scale"
                          : "input_scale";
    TRY(site_part(s, end, "float", 0, 0, &t));
    derive_floats(t.data, t.dtype, &(struct share_cut){.step = 1, .rows = 1}, out);
    if (!isfinite(*out) || !(*out > 0))
        FAIL(ST_FORMAT, "tensor %s is %g: a scale is above 0", t.name, (double)*out);
    return ST_OK;
}

bool inputs_shared(const struct model_config *mc, int world, enum axis cols, int32_t layer)
{
    bool shared = false;
    for (int r = 1; r < world && !shared; r++) {
        struct shard other;
        int32_t first = shard_plan(&other, mc, r, world) == ST_OK
                            ? axis_share(mc, &other, cols, layer).first
                            : 0;
        shared = first > 0 && (mc->input_group == 0 || first % mc->input_group != 0);
    }
    return shared;
}

/* first: of the weight's first part */
static enum status check_stack(const struct model_config *mc, const struct input_rule *r,
                               const struct input_rule *first, const struct site *s)
{
    if (r->scale != first->scale)
        FAIL(ST_UNSUPPORTED,
             "--activations checkpoint: %s: expert %d of layer %d has scales %g and %g of one "
             "input, which is not supported",
             s->pattern, s->expert, s->layer, (double)first->scale, (double)r->scale);
    if (mc->arch->experts == EXPERTS_STEP)
        FAIL(ST_UNSUPPORTED,
             "--activations checkpoint: %s: experts whose weight is a factor on their input are "
             "not supported",
             s->pattern);
    return ST_OK;
}

static enum status rule_of(struct input_rule *out, const struct site *s, const struct shard *sh,
                           enum axis cols)
{
    const struct model_config *mc = loader_config(s->ld);
    *out = (struct input_rule){.grid = mc->inputs == INPUTS_INT8 ? GRID_INT8 : GRID_E4M3,
                               .group = mc->input_group,
                               .first = axis_share(mc, sh, cols, s->layer).first,
                               .all = model_layer_axis(mc, cols, s->layer)};
    if (mc->input_scales)
        return read_scale(s, &out->scale);
    out->shared = inputs_shared(mc, sh->world, cols, s->layer);
    return ST_OK;
}

enum status input_rules(struct weight_src *out, const struct input_site *w,
                        const enum tensor_id *part)
{
    const struct model_config *mc = loader_config(w->ld);
    bool of_latent = w->id == W_K_B || w->id == W_V_B; /* one matrix of the file, of the latent */
    for (int32_t i = 0; i < out->n_parts; i++) {
        const struct tensor_rule *rule = &mc->arch->tensor[part[i]];
        const struct site s = {w->ld, rule->name, w->layer, w->expert};
        struct input_rule *r = &out->part[i].input;
        if (is_quantised(&s) && !is_served(w->id))
            FAIL(ST_UNSUPPORTED, "--activations checkpoint: %s (%s) is not supported", s.pattern,
                 out->name);
        if (is_quantised(&s))
            TRY(rule_of(r, &s, w->sh, of_latent ? AX_KV_RANK : rule->cols));
        if (w->is_stack && r->grid != out->part[0].input.grid)
            FAIL(ST_UNSUPPORTED,
                 "--activations checkpoint: %s: experts of which one matrix is quantised are not "
                 "supported",
                 s.pattern);
        if (w->is_stack && !of_latent && r->grid != GRID_NONE)
            TRY(check_stack(mc, r, &out->part[0].input, &s));
    }
    return ST_OK;
}
