#include "common/formats/config_fields.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIELD(member, kind, n, changes)                                                            \
    {                                                                                              \
#member, offsetof(struct model_config, member), kind, n, changes                           \
    }
#define NUMBERS(member, kind) FIELD(member, kind, 1, true)
#define SILENT(member, kind, n) FIELD(member, kind, n, false)

/* clang-format off */
#define ROPE(r)                                                                                    \
    NUMBERS(r.type, FIELD_INT),                                                                    \
    NUMBERS(r.interleaved, FIELD_BOOL),                                                            \
    NUMBERS(r.rot_dim, FIELD_INT),                                                                 \
    NUMBERS(r.theta, FIELD_F64),                                                                   \
    NUMBERS(r.factor, FIELD_F64),                                                                  \
    NUMBERS(r.attention_factor, FIELD_F64),                                                        \
    NUMBERS(r.original_ctx, FIELD_F64),                                                            \
    NUMBERS(r.q_beta, FIELD_F64),                                                                  \
    NUMBERS(r.q_floor, FIELD_F64),                                                                 \
    NUMBERS(r.q_first, FIELD_INT),                                                                 \
    NUMBERS(r.low_freq_factor, FIELD_F64),                                                         \
    NUMBERS(r.high_freq_factor, FIELD_F64),                                                        \
    NUMBERS(r.beta_fast, FIELD_F64),                                                               \
    NUMBERS(r.beta_slow, FIELD_F64),                                                               \
    NUMBERS(r.truncate, FIELD_BOOL),                                                               \
    FIELD(r.divisor, FIELD_F32, MAX_ROPE_PAIRS, true),                                             \
    FIELD(r.long_divisor, FIELD_F32, MAX_ROPE_PAIRS, true)
/* clang-format on */

static_assert(sizeof(enum model_act) == 4 && sizeof(enum rope_type) == 4 &&
                  sizeof(enum dtype) == 4 && sizeof(enum int_storage) == 4 &&
                  sizeof(enum fp4_storage) == 4 && sizeof(enum input_rounding) == 4,
              "enums are read as 32-bit integers");

const struct config_field config_fields[] = {
    NUMBERS(arch, FIELD_ARCH),
    NUMBERS(n_layers, FIELD_INT),
    NUMBERS(hidden, FIELD_INT),
    NUMBERS(ffn, FIELD_INT),
    NUMBERS(vocab, FIELD_INT),
    FIELD(layer_ffn, FIELD_INT, MAX_LAYERS, true),
    NUMBERS(ffn_unit, FIELD_INT),
    NUMBERS(n_experts, FIELD_INT),
    NUMBERS(top_k, FIELD_INT),
    NUMBERS(expert_ffn, FIELD_INT),
    NUMBERS(expert_unit, FIELD_INT),
    NUMBERS(shared_ffn, FIELD_INT),
    NUMBERS(shared_unit, FIELD_INT),
    NUMBERS(n_groups, FIELD_INT),
    NUMBERS(top_groups, FIELD_INT),
    NUMBERS(sigmoid_scores, FIELD_BOOL),
    NUMBERS(glu_limit, FIELD_F64),
    NUMBERS(glu_alpha, FIELD_F64),
    SILENT(mxfp4, FIELD_BOOL, 1), /* names of tensors */
    SILENT(fp8, FIELD_BOOL, 1),   /* names of tensors */
    NUMBERS(fp8_rows, FIELD_INT),
    NUMBERS(fp8_cols, FIELD_INT),
    NUMBERS(ints, FIELD_INT),
    NUMBERS(int_bits, FIELD_INT),
    NUMBERS(int_group, FIELD_INT),
    NUMBERS(int_zeros, FIELD_BOOL),
    NUMBERS(int_zeros_less_one, FIELD_BOOL),
    NUMBERS(int_order, FIELD_BOOL),
    SILENT(fp4, FIELD_INT, 1), /* names of tensors */
    NUMBERS(exact_inputs, FIELD_BOOL),
    NUMBERS(inputs, FIELD_INT),
    NUMBERS(input_group, FIELD_INT),
    NUMBERS(input_scales, FIELD_BOOL),
    NUMBERS(int_sorted, FIELD_BOOL),
    NUMBERS(route_scale, FIELD_F64),
    NUMBERS(renormalise, FIELD_BOOL),
    FIELD(sparse, FIELD_BOOL, MAX_LAYERS, true),
    NUMBERS(n_q, FIELD_INT),
    NUMBERS(n_kv, FIELD_INT),
    NUMBERS(d_head, FIELD_INT),
    NUMBERS(global_n_kv, FIELD_INT),
    NUMBERS(global_d_head, FIELD_INT),
    NUMBERS(k_eq_v, FIELD_BOOL),
    NUMBERS(n_kv_shared, FIELD_INT),
    NUMBERS(d_input, FIELD_INT),
    NUMBERS(input_vocab, FIELD_INT),
    NUMBERS(n_streams, FIELD_INT),
    NUMBERS(active_stream, FIELD_INT),
    NUMBERS(scale_active, FIELD_BOOL),
    NUMBERS(laurel_rank, FIELD_INT),
    FIELD(gate_cut, FIELD_F32, MAX_LAYERS, true),
    NUMBERS(kv_rank, FIELD_INT),
    NUMBERS(q_rank, FIELD_INT),
    NUMBERS(d_nope, FIELD_INT),
    NUMBERS(d_rope, FIELD_INT),
    NUMBERS(d_value, FIELD_INT),
    FIELD(delta, FIELD_BOOL, MAX_LAYERS, true),
    FIELD(feeds, FIELD_BOOL, MAX_LAYERS, true),
    NUMBERS(n_delta_k, FIELD_INT),
    NUMBERS(n_delta_v, FIELD_INT),
    NUMBERS(d_delta_k, FIELD_INT),
    NUMBERS(d_delta_v, FIELD_INT),
    NUMBERS(delta_taps, FIELD_INT),
    NUMBERS(conv_bias, FIELD_BOOL),
    NUMBERS(dt_min, FIELD_F64),
    NUMBERS(dt_max, FIELD_F64),
    NUMBERS(state_norm, FIELD_BOOL),
    NUMBERS(norm_first, FIELD_BOOL),
    NUMBERS(factors.qv, FIELD_F64),
    NUMBERS(factors.k, FIELD_F64),
    NUMBERS(factors.o, FIELD_F64),
    NUMBERS(factors.z, FIELD_F64),
    NUMBERS(factors.x, FIELD_F64),
    NUMBERS(factors.b, FIELD_F64),
    NUMBERS(factors.c, FIELD_F64),
    NUMBERS(factors.dt, FIELD_F64),
    NUMBERS(factors.ssm, FIELD_F64),
    NUMBERS(factors.gate, FIELD_F64),
    NUMBERS(factors.down, FIELD_F64),
    SILENT(max_ctx, FIELD_INT, 1), /* a limit; a worker's Hello says it */
    NUMBERS(eps, FIELD_F64),
    NUMBERS(act, FIELD_INT),
    NUMBERS(tied, FIELD_BOOL),
    SILENT(headless, FIELD_BOOL, 1), /* a tensor that is not there */
    SILENT(wrapped, FIELD_BOOL, 1),  /* names of tensors */
    NUMBERS(classifier, FIELD_BOOL),
    NUMBERS(n_labels, FIELD_INT),
    NUMBERS(head_mean, FIELD_BOOL),
    NUMBERS(head_bias, FIELD_BOOL),
    NUMBERS(n_types, FIELD_INT),
    NUMBERS(n_positions, FIELD_INT),
    NUMBERS(first_position, FIELD_INT),
    NUMBERS(pad_id, FIELD_INT),
    NUMBERS(qkv_bias, FIELD_BOOL),
    NUMBERS(o_bias, FIELD_BOOL),
    NUMBERS(mlp_bias, FIELD_BOOL),
    NUMBERS(qk_norm, FIELD_BOOL),
    NUMBERS(parallel, FIELD_BOOL),
    SILENT(n_mtp, FIELD_INT, 1), /* layers that are not read */
    NUMBERS(attn_scale, FIELD_F64),
    NUMBERS(attn_cap, FIELD_F64),
    NUMBERS(logit_cap, FIELD_F64),
    NUMBERS(embed_scale, FIELD_F64),
    NUMBERS(residual_scale, FIELD_F64),
    NUMBERS(logit_scale, FIELD_F64),
    FIELD(nope, FIELD_BOOL, MAX_LAYERS, true),
    ROPE(rope),
    ROPE(local_rope),
    NUMBERS(window, FIELD_INT),
    FIELD(windowed, FIELD_BOOL, MAX_LAYERS, true),
    SILENT(dtype, FIELD_INT, 1),         /* chooses the KV type, which the numerics id says */
    SILENT(mrope_section, FIELD_INT, 3), /* of images */
    /* the text digest covers these */
    SILENT(bos_id, FIELD_INT, 1),
    SILENT(eos_id, FIELD_INT, MAX_STOP_IDS),
    SILENT(n_eos, FIELD_INT, 1),
};

const size_t n_config_fields = ARRAY_LEN(config_fields);

static size_t element_size(enum field_kind kind)
{
    switch (kind) {
    case FIELD_BOOL:
        return sizeof(bool);
    case FIELD_F64:
        return sizeof(double);
    case FIELD_ARCH:
        return sizeof(const struct arch *);
    case FIELD_INT:
    case FIELD_F32:
        break;
    }
    return 4;
}

size_t config_field_size(const struct config_field *f)
{
    return element_size(f->kind) * (size_t)f->n;
}

/* Elements of the member that the configuration uses. */
static int32_t n_used(const struct model_config *mc, const struct config_field *f)
{
    int32_t used = f->n == MAX_LAYERS ? mc->n_layers : mc->rope.rot_dim / 2;
    return f->n == 1 || used > f->n ? f->n : used;
}

static int put_element(char *out, size_t size, const struct config_field *f, const char *p)
{
    const char *end = f->n > 1 ? "," : "";
    union {
        bool yes;
        int32_t i;
        uint32_t f32;
        uint64_t f64;
        const struct arch *arch;
    } v;
    memcpy(&v, p, element_size(f->kind));
    switch (f->kind) {
    case FIELD_BOOL:
        return snprintf(out, size, "%d", v.yes);
    case FIELD_INT:
        return snprintf(out, size, "%" PRId32 "%s", v.i, end);
    case FIELD_F32:
        return snprintf(out, size, "%08" PRIx32, v.f32);
    case FIELD_F64:
        return snprintf(out, size, "%016" PRIx64, v.f64);
    case FIELD_ARCH:
        break;
    }
    return snprintf(out, size, "%s", v.arch ? v.arch->name : "");
}

size_t config_text(const struct model_config *mc, char out[CONFIG_TEXT_SIZE])
{
    size_t at = 0;
    for (size_t i = 0; i < n_config_fields; i++) {
        const struct config_field *f = &config_fields[i];
        if (!f->changes_numbers)
            continue;
        at += (size_t)snprintf(out + at, CONFIG_TEXT_SIZE - at, "%s=", f->name);
        for (int32_t k = 0, n = n_used(mc, f); k < n; k++)
            at += (size_t)put_element(out + at, CONFIG_TEXT_SIZE - at, f,
                                      (const char *)mc + f->at + (size_t)k * element_size(f->kind));
        at += (size_t)snprintf(out + at, CONFIG_TEXT_SIZE - at, "\n");
        assert(at < CONFIG_TEXT_SIZE);
    }
    return at;
}
