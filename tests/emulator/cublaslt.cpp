/* cuBLASLt's part in the emulator: a plain matrix product on the emulated stream, for the one form
 * that Ingot uses: D [m, n] f32 = A^T B, A [k, m] and B [k, n] bf16, column-major, bias over m.
 * It refuses what the library refuses: other forms, and an algorithm that was asked for another
 * product. */
#include "backends/cuda/lt_api.h"
#include "common/dtype.h"
#include "emulator.h"

struct emulated_lt {
    int unused;
};
struct emulated_lt_desc {
    int32_t trans_a;
    uint32_t epilogue;
    const float *bias;
};
struct emulated_lt_layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
};
struct emulated_lt_pref {
    uint64_t workspace;
    uint32_t align_c, align_d;
};

static uint64_t questions;

uint64_t emulator_lt_questions(void)
{
    return questions;
}

template <typename T, typename... A> static cublasStatus_t make(T **out, A... a)
{
    *out = new T{a...};
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T> static cublasStatus_t drop(T *p)
{
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T> static cublasStatus_t set(T *to, const void *v, size_t bytes)
{
    if (bytes != sizeof *to)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, v, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    return make(out, 0);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    return drop(h);
}

size_t cublasLtGetVersion(void)
{
    return 0;
}

const char *cublasLtGetStatusString(cublasStatus_t e)
{
    return e == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "invalid value";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return make(out, CUBLAS_OP_N, (uint32_t)CUBLASLT_EPILOGUE_DEFAULT, (const float *)nullptr);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    return drop(d);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t attr, const void *v,
                                              size_t bytes)
{
    if (attr == CUBLASLT_MATMUL_DESC_TRANSA)
        return set(&d->trans_a, v, bytes);
    if (attr == CUBLASLT_MATMUL_DESC_EPILOGUE)
        return set(&d->epilogue, v, bytes);
    return set(&d->bias, v, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    return make(out, type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t m)
{
    return drop(m);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t m,
                                                cublasLtMatrixLayoutAttribute_t attr, const void *v,
                                                size_t bytes)
{
    if (attr == CUBLASLT_MATRIX_LAYOUT_ROWS)
        return set(&m->rows, v, bytes);
    if (attr == CUBLASLT_MATRIX_LAYOUT_COLS)
        return set(&m->cols, v, bytes);
    return set(&m->ld, v, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    return make(out, (uint64_t)0, 256U, 256U);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    return drop(p);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void *v, size_t bytes)
{
    if (attr == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return set(&p->workspace, v, bytes);
    if (attr == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
        return set(&p->align_c, v, bytes);
    return set(&p->align_d, v, bytes);
}

static bool fits(const emulated_lt_desc *desc, const emulated_lt_layout *a,
                 const emulated_lt_layout *b, const emulated_lt_layout *d)
{
    return desc->trans_a == CUBLAS_OP_T && a->type == CUDA_R_16BF && b->type == CUDA_R_16BF &&
           d->type == CUDA_R_32F && a->rows > 0 && a->rows == b->rows && a->cols > 0 &&
           a->cols == d->rows && b->cols > 0 && b->cols == d->cols && a->ld >= (int64_t)a->rows &&
           b->ld >= (int64_t)b->rows && d->ld >= (int64_t)d->rows;
}

/* What an algorithm remembers of its question: m, k, the most columns, the alignment, bias. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t pref, int n_wanted,
                                              cublasLtMatmulHeuristicResult_t *out, int *n_out)
{
    if (n_wanted < 1 || !fits(desc, a, b, d))
        return CUBLAS_STATUS_INVALID_VALUE;
    questions++;
    *out = {};
    out->algo = {{a->cols, a->rows, b->cols, pref->align_d, desc->epilogue, pref->workspace, 0, 0}};
    out->workspaceSize = pref->workspace;
    *n_out = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const uint64_t *asked = algo->data;
    const size_t m = ld->rows, k = la->rows;
    const bool bias = desc->epilogue == CUBLASLT_EPILOGUE_BIAS;
    if (!fits(desc, la, lb, ld) || c != d || *(const float *)alpha != 1.0f ||
        *(const float *)beta != 0.0f || (bias && !desc->bias))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (asked[0] != m || asked[1] != k || asked[2] < ld->cols || asked[4] != desc->epilogue ||
        (uintptr_t)d % asked[3] || (uint64_t)ld->ld * 4 % asked[3] || !workspace ||
        workspace_bytes < asked[5])
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint16_t *pa = (const uint16_t *)a, *pb = (const uint16_t *)b;
    const float *pbias = bias ? desc->bias : nullptr;
    const size_t lda = (size_t)la->ld, ldb = (size_t)lb->ld, ldd = (size_t)ld->ld;
    cudaError_t e = emulated_launch(
        "cublasLtMatmul", dim3((unsigned)ld->cols), dim3(32), 0, stream, false, [=] {
            const size_t col = blockIdx.x;
            for (size_t row = threadIdx.x; row < m; row += 32) {
                double sum = 0;
                for (size_t i = 0; i < k; i++)
                    sum += (double)f32_of_bf16(pa[row * lda + i]) *
                           (double)f32_of_bf16(pb[col * ldb + i]);
                ((float *)d)[col * ldd + row] = (float)(sum + (pbias ? (double)pbias[row] : 0.0));
            }
        });
    return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

enum status lt_load(struct lt_api *out)
{
#define LT_SET(name) out->name = cublasLt##name;
    LT_FUNCTIONS(LT_SET)
    return ST_OK;
}
