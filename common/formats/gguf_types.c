/* The types of GGUF values and tensors, and the reading of one scalar: no call into the other
 * files. */
#include <string.h>

#include "common/formats/gguf_impl.h"

size_t gguf_scalar_size(uint32_t type)
{
    static const uint8_t sizes[GGUF_TYPE_N] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    return type < GGUF_TYPE_N ? sizes[type] : 0;
}

uint64_t gguf_load(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

int gguf_str_order(struct gguf_str a, struct gguf_str b)
{
    int c = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

const struct ggml_type_info *ggml_type_info(uint32_t type)
{
    static const struct ggml_type_info rows[] = {[GGML_F32] = {"f32", 1, 4},
                                                 [GGML_F16] = {"f16", 1, 2},
                                                 [GGML_Q4_0] = {"q4_0", 32, 18},
                                                 [GGML_Q4_1] = {"q4_1", 32, 20},
                                                 [GGML_Q5_0] = {"q5_0", 32, 22},
                                                 [GGML_Q5_1] = {"q5_1", 32, 24},
                                                 [GGML_Q8_0] = {"q8_0", 32, 34},
                                                 [GGML_Q8_1] = {"q8_1", 32, 36},
                                                 [GGML_Q2_K] = {"q2_k", 256, 84},
                                                 [GGML_Q3_K] = {"q3_k", 256, 110},
                                                 [GGML_Q4_K] = {"q4_k", 256, 144},
                                                 [GGML_Q5_K] = {"q5_k", 256, 176},
                                                 [GGML_Q6_K] = {"q6_k", 256, 210},
                                                 [GGML_Q8_K] = {"q8_k", 256, 292},
                                                 [GGML_IQ4_NL] = {"iq4_nl", 32, 18},
                                                 [GGML_IQ4_XS] = {"iq4_xs", 256, 136},
                                                 [GGML_I8] = {"i8", 1, 1},
                                                 [GGML_I16] = {"i16", 1, 2},
                                                 [GGML_I32] = {"i32", 1, 4},
                                                 [GGML_I64] = {"i64", 1, 8},
                                                 [GGML_F64] = {"f64", 1, 8},
                                                 [GGML_BF16] = {"bf16", 1, 2},
                                                 [GGML_MXFP4] = {"mxfp4", 32, 17},
                                                 /* known by name alone, for the refusal */
                                                 [GGML_IQ2_XXS] = {"iq2_xxs", 256, 66},
                                                 [GGML_IQ2_XS] = {"iq2_xs", 256, 74},
                                                 [GGML_IQ2_S] = {"iq2_s", 256, 82},
                                                 [GGML_IQ3_XXS] = {"iq3_xxs", 256, 98},
                                                 [GGML_IQ3_S] = {"iq3_s", 256, 110},
                                                 [GGML_IQ1_S] = {"iq1_s", 256, 50},
                                                 [GGML_IQ1_M] = {"iq1_m", 256, 56},
                                                 [GGML_TQ1_0] = {"tq1_0", 256, 54},
                                                 [GGML_TQ2_0] = {"tq2_0", 256, 66},
                                                 [GGML_NVFP4] = {"nvfp4", 64, 36}};
    return type < sizeof rows / sizeof rows[0] && rows[type].name ? &rows[type] : NULL;
}

enum dtype gguf_dtype(enum ggml_type type)
{
    static const struct {
        enum ggml_type type;
        enum dtype dtype;
    } rows[] = {{GGML_F32, DT_F32},    {GGML_F16, DT_F16},       {GGML_BF16, DT_BF16},
                {GGML_Q4_0, DT_Q4_0},  {GGML_Q4_1, DT_Q4_1},     {GGML_Q5_0, DT_Q5_0},
                {GGML_Q5_1, DT_Q5_1},  {GGML_Q8_0, DT_Q8_0},     {GGML_Q4_K, DT_Q4_K},
                {GGML_Q5_K, DT_Q5_K},  {GGML_Q6_K, DT_Q6_K},     {GGML_Q2_K, DT_Q2_K},
                {GGML_Q3_K, DT_Q3_K},  {GGML_IQ4_NL, DT_IQ4_NL}, {GGML_IQ4_XS, DT_IQ4_XS},
                {GGML_MXFP4, DT_MXFP4}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].type == type)
            return rows[i].dtype;
    return DT_N;
}
