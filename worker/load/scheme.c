#include "worker/load/scheme.h"

#include <stdio.h>
#include <string.h>

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static bool is_scale(const struct model_config *mc, const struct stored_tensor *t)
{
    return mc->ints == INTS_GPTQ || mc->ints == INTS_AWQ
               ? ends_with(t->name, ".scales")
               : ends_with(t->name, ".weight_scale") || ends_with(t->name, "_proj_scale") ||
                     ends_with(t->name, ".weight_scale_inv") || ends_with(t->name, ".SCB");
}

/* Beside packed weights: scales and what goes with them. */
static bool is_detail(const struct model_config *mc, const struct stored_tensor *t)
{
    static const char *const ends[] = {".qzeros",
                                       ".g_idx",
                                       ".weight_zero_point",
                                       ".weight_g_idx",
                                       ".weight_shape",
                                       ".input_scale",
                                       ".activation_scale",
                                       "_scales",
                                       ".SCB",
                                       ".weight_format",
                                       ".absmax",
                                       ".quant_map",
                                       ".nested_absmax",
                                       ".nested_quant_map",
                                       ".bitsandbytes__nf4",
                                       ".bitsandbytes__fp4",
                                       ".weight_global_scale",
                                       ".weight_scale_2",
                                       ".input_global_scale",
                                       ".k_scale",
                                       ".v_scale"};
    if (mc->ints == INTS_NONE && mc->fp4 == FP4_NONE && !mc->fp8 && !mc->mxfp4)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (ends_with(t->name, ends[i]))
            return true;
    return is_scale(mc, t);
}

uint64_t weights_in(const struct model_config *mc, const struct stored_tensor *t)
{
    uint64_t n = 1;
    for (int32_t d = 0; d < t->n_dims; d++)
        n *= t->shape[d]; /* the parser has checked that the product fits */
    if (is_detail(mc, t))
        return 0;
    if (mc->ints != INTS_NONE && strcmp(t->type_name, "I32") == 0)
        return n * (32 / (uint64_t)mc->int_bits);
    if (mc->fp4 != FP4_NONE && strcmp(t->type_name, "U8") == 0)
        return 2 * n;
    return mc->mxfp4 && ends_with(t->name, "_blocks") ? 2 * n : n;
}

static bool has_f32_scales(const struct loader *ld)
{
    struct stored_tensor t;
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        if (t.dtype == DT_F32 && is_scale(loader_config(ld), &t))
            return true;
    }
    return false;
}

/* In what the inputs of quantised matrices are, on each backend. */
enum meets {
    MEETS_F32,    /* on all */
    MEETS_BYTES,  /* quantised weights */
    MEETS_HALVES, /* of matrix units: scaled_has_mma of backends/cuda/scaled_layout.h, */
    HALF = 64,    /* which multiply levels in blocks of multiples of these */
};

static const char *inputs_in(const struct model_config *mc, enum meets meets)
{
    static const char *const text[] = {[MEETS_F32] = "f32",
                                       [MEETS_BYTES] = "8 bits (Metal: f32)",
                                       [MEETS_HALVES] = "f32 (CUDA: f16)"};
    if (mc->inputs != INPUTS_FLOAT)
        return mc->inputs == INPUTS_INT8 ? "int8" : "e4m3";
    return text[mc->exact_inputs ? MEETS_F32 : meets];
}

static void say_integers(const struct loader *ld, char *out)
{
    static const char *const methods[] = {[INTS_GPTQ] = "gptq",
                                          [INTS_AWQ] = "awq",
                                          [INTS_PACKED] = "compressed-tensors",
                                          [INTS_BYTES] = "compressed-tensors",
                                          [INTS_SCB] = "bitsandbytes"};
    const struct model_config *mc = loader_config(ld);
    char groups[60] = "a scale for each row";
    bool floats = mc->int_order || mc->int_group % 32 || has_f32_scales(ld);
    enum meets meets = floats && !mc->int_sorted ? MEETS_F32 : MEETS_BYTES;
    if (mc->int_group)
        snprintf(groups, sizeof groups, "groups of %d columns%s", mc->int_group,
                 mc->int_sorted  ? " in any order, sorted"
                 : mc->int_order ? " in any order"
                                 : "");
    snprintf(out, SCHEME_SIZE, "%s: %d bits, %s%s; activations in %s", methods[mc->ints],
             mc->int_bits, groups, mc->int_zeros ? ", zero points" : "", inputs_in(mc, meets));
}

/* bitsandbytes' blocks are seen from a matrix: scales beside bytes of two weights each. */
static void say_bnb(const struct loader *ld, enum meets halves, char *out)
{
    struct stored_tensor t, codes;
    uint64_t weights = 0, scales = 0;
    bool nf4 = false, nested = false;
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        nf4 |= ends_with(t.name, ".bitsandbytes__nf4");
        if (i == 0 || !ends_with(t.name, ".weight.absmax"))
            continue;
        loader_get(ld, i - 1, &codes); /* by name: the weight is before it */
        weights = codes.n_dims == 2 ? 2 * codes.shape[0] * codes.shape[1] : 0;
        scales = t.n_dims == 1 && t.shape[0] ? t.shape[0] : 1;
        nested = strcmp(t.type_name, "U8") == 0;
    }
    weights /= scales ? scales : 1;
    snprintf(out, SCHEME_SIZE, "bitsandbytes: %s, a scale for %llu weights%s; activations in %s",
             nf4 ? "nf4" : "fp4", (unsigned long long)weights,
             nested ? ", themselves in 8 bits" : "",
             inputs_in(loader_config(ld), weights % HALF ? MEETS_F32 : halves));
}

static void say_fp4(const struct loader *ld, enum meets halves, char *out)
{
    const struct model_config *mc = loader_config(ld);
    enum fp4_storage s = mc->fp4;
    if (s == FP4_BNB)
        say_bnb(ld, halves, out);
    else
        snprintf(out, SCHEME_SIZE, "%s: %s weights; activations in %s",
                 s == FP4_MODELOPT ? "modelopt" : "compressed-tensors",
                 s == FP4_MX ? "mxfp4, a scale for 32" : "nvfp4, a scale for 16",
                 inputs_in(mc, s == FP4_MX ? MEETS_BYTES : halves));
}

void weights_scheme(const struct loader *ld, bool f32, char out[SCHEME_SIZE])
{
    const struct model_config *mc = loader_config(ld);
    enum meets halves = f32 ? MEETS_F32 : MEETS_HALVES;
    out[0] = 0;
    if (mc->ints != INTS_NONE)
        say_integers(ld, out);
    else if (mc->fp4 != FP4_NONE)
        say_fp4(ld, halves, out);
    else if (mc->fp8 && mc->fp8_rows)
        snprintf(out, SCHEME_SIZE,
                 "fp8: e4m3 with a scale for each block of %d x %d; activations in %s",
                 mc->fp8_rows, mc->fp8_cols, inputs_in(mc, halves));
    else if (mc->fp8)
        snprintf(out, SCHEME_SIZE,
                 "fp8: e4m3 with a scale for each row or matrix; activations in %s",
                 inputs_in(mc, halves));
    else if (mc->mxfp4)
        snprintf(out, SCHEME_SIZE,
                 "mxfp4: experts in 4 bits, a scale for 32 columns; activations in %s",
                 inputs_in(mc, MEETS_BYTES));
}
