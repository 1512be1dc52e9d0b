#include "common/dtype.h"

static const struct {
    const char *name;
    size_t size;
} types[DT_N] = {
    [DT_F32] = {"f32", 4},
    [DT_F16] = {"f16", 2},
    [DT_BF16] = {"bf16", 2},
    [DT_I32] = {"i32", 4},
    [DT_I8] = {"i8", 1},
    [DT_E4M3] = {"e4m3", 1},
    [DT_Q4_0] = {"q4_0", 0},
    [DT_Q4_1] = {"q4_1", 0},
    [DT_Q5_0] = {"q5_0", 0},
    [DT_Q5_1] = {"q5_1", 0},
    [DT_Q8_0] = {"q8_0", 0},
    [DT_Q4_K] = {"q4_k", 0},
    [DT_Q5_K] = {"q5_k", 0},
    [DT_Q6_K] = {"q6_k", 0},
    [DT_Q2_K] = {"q2_k", 0},
    [DT_Q3_K] = {"q3_k", 0},
    [DT_IQ4_NL] = {"iq4_nl", 0},
    [DT_IQ4_XS] = {"iq4_xs", 0},
    [DT_MXFP4] = {"mxfp4", 0},
    [DT_INT4_BF16] = {"int4-bf16", 0},
    [DT_INT4_ZERO_F16] = {"int4-zero-f16", 0},
    [DT_INT4_ZERO_BF16] = {"int4-zero-bf16", 0},
    [DT_INT8_BF16] = {"int8-bf16", 0},
    [DT_INT8_ZERO_F16] = {"int8-zero-f16", 0},
    [DT_INT8_ZERO_BF16] = {"int8-zero-bf16", 0},
    [DT_INT4_INDEX] = {"int4-index", 0},
    [DT_INT8_INDEX] = {"int8-index", 0},
    [DT_INT4_SORTED] = {"int4-sorted", 0},
    [DT_INT8_SORTED] = {"int8-sorted", 0},
    [DT_NF4] = {"nf4", 0},
    [DT_FP4] = {"fp4", 0},
    [DT_NVFP4] = {"nvfp4", 0},
};

static const float levels_nf4[16] = {
    -0x1p+0f,        -0x1.647362p-1f, -0x1.0cd66p-1f,  -0x1.94654p-2f,
    -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0x0p+0f,
    0x1.45f5fep-4f,  0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,
    0x1.c3497p-2f,   0x1.200f56p-1f,  0x1.722766p-1f,  0x1p+0f};
static const float levels_fp4[16] = {0x0p+0f,         0x1.555556p-8f,  0x1.555556p-1f,  0x1p+0f,
                                     0x1.555556p-2f,  0x1p-1f,         0x1.555556p-3f,  0x1p-2f,
                                     0x0p+0f,         -0x1.555556p-8f, -0x1.555556p-1f, -0x1p+0f,
                                     -0x1.555556p-2f, -0x1p-1f,        -0x1.555556p-3f, -0x1p-2f};
static const float levels_e2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

const float *dtype_levels(enum dtype t)
{
    return t == DT_NF4 ? levels_nf4 : t == DT_FP4 ? levels_fp4 : t == DT_NVFP4 ? levels_e2m1 : NULL;
}

const char *dtype_name(enum dtype t)
{
    return t >= 0 && t < DT_N ? types[t].name : "unknown";
}

size_t dtype_size(enum dtype t)
{
    return t >= 0 && t < DT_N ? types[t].size : 0;
}
