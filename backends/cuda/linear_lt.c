/* Products by cuBLASLt (--numerics fast): descriptors, and the algorithm chosen for each shape. */
#include "backends/cuda/linear_lt.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/lt_api.h"

enum { N_ALGOS = 256 }; /* a power of two */

/* What an algorithm was asked for. */
struct algo_key {
    int32_t n, k, max_tokens; /* max_tokens: T rounded up to a power of two */
    uint32_t align;           /* bytes, of each row of out */
    uint32_t bias;            /* 0 or 1 */
};

struct algo {
    struct algo_key key; /* n = 0: free */
    cublasLtMatmulAlgo_t algo;
};

/* In cuBLASLt's words, where matrices are column-major: D [N, T] = A^T B, A = w [K, N],
 * B = packed [K, T], D = out. */
struct lt {
    struct lt_api api;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc[2]; /* without and with bias */
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulPreference_t pref;
    struct buf *workspace;
    struct algo algos[N_ALGOS]; /* by hash; a collision is asked for again */
};

static enum status failed(const struct lt *lt, const char *what, cublasStatus_t e)
{
    FAIL(ST_DEVICE, "%s: %s", what, lt->api.GetStatusString(e));
}

#define LT_TRY(lt, call)                                                                           \
    do {                                                                                           \
        cublasStatus_t e_ = (lt)->api.call;                                                        \
        if (e_ != CUBLAS_STATUS_SUCCESS)                                                           \
            return failed(lt, "cublasLt" #call, e_);                                               \
    } while (0)

static enum status create_desc(struct lt *lt, bool bias)
{
    const int32_t trans = CUBLAS_OP_T;
    const uint32_t epilogue = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    LT_TRY(lt, MatmulDescCreate(&lt->desc[bias], CUBLAS_COMPUTE_32F, CUDA_R_32F));
    LT_TRY(lt, MatmulDescSetAttribute(lt->desc[bias], CUBLASLT_MATMUL_DESC_TRANSA, &trans,
                                      sizeof trans));
    LT_TRY(lt, MatmulDescSetAttribute(lt->desc[bias], CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                      sizeof epilogue));
    return ST_OK;
}

static enum status create(struct lt *lt)
{
    const uint64_t workspace = LT_WORKSPACE;
    TRY(lt_load(&lt->api));
    LT_TRY(lt, Create(&lt->handle));
    TRY(create_desc(lt, false));
    TRY(create_desc(lt, true));
    LT_TRY(lt, MatrixLayoutCreate(&lt->a, CUDA_R_16BF, 1, 1, 1));
    LT_TRY(lt, MatrixLayoutCreate(&lt->b, CUDA_R_16BF, 1, 1, 1));
    LT_TRY(lt, MatrixLayoutCreate(&lt->d, CUDA_R_32F, 1, 1, 1));
    LT_TRY(lt, MatmulPreferenceCreate(&lt->pref));
    LT_TRY(lt, MatmulPreferenceSetAttribute(lt->pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &workspace, sizeof workspace));
    return ST_OK;
}

enum status lt_open(struct lt **out, struct backend *be)
{
    struct lt *lt = calloc(1, sizeof *lt);
    if (!lt)
        FAIL(ST_NOMEM, "no memory for cuBLASLt's settings");
    enum status st = create(lt);
    if (st != ST_OK) {
        lt_close(lt, be);
        return st;
    }
    *out = lt;
    return ST_OK;
}

enum status lt_take_workspace(struct lt *lt, struct backend *be)
{
    return cuda_alloc(be, LT_WORKSPACE, MEM_DEVICE, &lt->workspace);
}

void lt_close(struct lt *lt, struct backend *be)
{
    if (!lt)
        return;
    cuda_free(be, lt->workspace);
    if (lt->pref)
        lt->api.MatmulPreferenceDestroy(lt->pref);
    if (lt->a)
        lt->api.MatrixLayoutDestroy(lt->a);
    if (lt->b)
        lt->api.MatrixLayoutDestroy(lt->b);
    if (lt->d)
        lt->api.MatrixLayoutDestroy(lt->d);
    for (int i = 0; i < 2; i++)
        if (lt->desc[i])
            lt->api.MatmulDescDestroy(lt->desc[i]);
    if (lt->handle)
        lt->api.Destroy(lt->handle);
    free(lt);
}

static enum status set_layout(struct lt *lt, cublasLtMatrixLayout_t m, int32_t rows, int32_t cols,
                              size_t ld)
{
    const uint64_t r = (uint64_t)rows, c = (uint64_t)cols;
    const int64_t l = (int64_t)ld;
    LT_TRY(lt, MatrixLayoutSetAttribute(m, CUBLASLT_MATRIX_LAYOUT_ROWS, &r, sizeof r));
    LT_TRY(lt, MatrixLayoutSetAttribute(m, CUBLASLT_MATRIX_LAYOUT_COLS, &c, sizeof c));
    LT_TRY(lt, MatrixLayoutSetAttribute(m, CUBLASLT_MATRIX_LAYOUT_LD, &l, sizeof l));
    return ST_OK;
}

/* Describes the product for n_tokens tokens. */
static enum status set_layouts(struct lt *lt, const struct linear_job *job, int32_t n_tokens)
{
    int32_t k = job->k.at[job->k.n_slices];
    TRY(set_layout(lt, lt->a, k, job->n, (size_t)k));
    TRY(set_layout(lt, lt->b, k, n_tokens, (size_t)k));
    return set_layout(lt, lt->d, job->n, n_tokens, job->out_stride);
}

static enum status ask(struct lt *lt, cublasLtMatmulDesc_t desc, const struct linear_job *job,
                       struct algo *a)
{
    cublasLtMatmulHeuristicResult_t best;
    int n = 0;
    TRY(set_layouts(lt, job, a->key.max_tokens));
    LT_TRY(lt, MatmulPreferenceSetAttribute(lt->pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                            &a->key.align, sizeof a->key.align));
    LT_TRY(lt, MatmulPreferenceSetAttribute(lt->pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                                            &a->key.align, sizeof a->key.align));
    LT_TRY(lt, MatmulAlgoGetHeuristic(lt->handle, desc, lt->a, lt->b, lt->d, lt->d, lt->pref, 1,
                                      &best, &n));
    if (n < 1 || best.state != CUBLAS_STATUS_SUCCESS)
        FAIL(ST_DEVICE, "cuBLASLt has no algorithm for a product of %d x %d with %d tokens",
             a->key.n, a->key.k, a->key.max_tokens);
    a->algo = best.algo;
    return ST_OK;
}

static struct algo_key key_of(const struct linear_job *job)
{
    bool aligned = (uintptr_t)job->out % 16 == 0 && job->out_stride % 4 == 0;
    struct algo_key key = {job->n, job->k.at[job->k.n_slices], 1, aligned ? 16 : 4,
                           job->bias != NULL};
    while (key.max_tokens < job->n_tokens)
        key.max_tokens *= 2;
    return key;
}

/* The key's place: FNV-1a over its words. */
static struct algo *place_of(struct lt *lt, const struct algo_key *key)
{
    uint32_t words[sizeof *key / sizeof(uint32_t)], h = 2166136261U;
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        h = (h ^ words[i]) * 16777619U;
    return &lt->algos[(h ^ h >> 16) % N_ALGOS];
}

static enum status find_algo(struct lt *lt, cublasLtMatmulDesc_t desc, const struct linear_job *job,
                             const cublasLtMatmulAlgo_t **out)
{
    struct algo_key key = key_of(job);
    struct algo *a = place_of(lt, &key);
    if (memcmp(&a->key, &key, sizeof key) != 0) {
        struct algo fresh = {.key = key};
        TRY(ask(lt, desc, job, &fresh));
        *a = fresh;
    }
    *out = &a->algo;
    return ST_OK;
}

enum status lt_linear(struct backend *be, struct lt *lt, const struct linear_job *job)
{
    cublasLtMatmulDesc_t desc = lt->desc[job->bias != NULL];
    const cublasLtMatmulAlgo_t *algo;
    const float one = 1.0f, zero = 0.0f;
    if (job->bias)
        LT_TRY(lt, MatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &job->bias,
                                          sizeof job->bias));
    TRY(find_algo(lt, desc, job, &algo));
    TRY(set_layouts(lt, job, job->n_tokens));
    LT_TRY(lt, Matmul(lt->handle, desc, &one, job->w, lt->a, job->packed, lt->b, &zero, job->out,
                      lt->d, job->out, lt->d, algo, lt->workspace->data, LT_WORKSPACE, be->stream));
    return ST_OK;
}
