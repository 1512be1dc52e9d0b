/* The functions of cuBLASLt that are used, found at run time; names without their prefix. */
#ifndef BACKENDS_CUDA_LT_API_H
#define BACKENDS_CUDA_LT_API_H

#include <cublasLt.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "common/status.h"

#define LT_FUNCTIONS(X)                                                                            \
    X(Create)                                                                                      \
    X(Destroy)                                                                                     \
    X(GetVersion)                                                                                  \
    X(GetStatusString)                                                                             \
    X(MatmulDescCreate)                                                                            \
    X(MatmulDescDestroy)                                                                           \
    X(MatmulDescSetAttribute)                                                                      \
    X(MatrixLayoutCreate)                                                                          \
    X(MatrixLayoutDestroy)                                                                         \
    X(MatrixLayoutSetAttribute)                                                                    \
    X(MatmulPreferenceCreate)                                                                      \
    X(MatmulPreferenceDestroy)                                                                     \
    X(MatmulPreferenceSetAttribute)                                                                \
    X(MatmulAlgoGetHeuristic)                                                                      \
    X(Matmul)

struct lt_api {
#define LT_MEMBER(name) __typeof__(cublasLt##name) *name;
    LT_FUNCTIONS(LT_MEMBER)
#undef LT_MEMBER
};

/* ST_UNSUPPORTED with the name of the library or function that is missing.  The library stays
 * loaded for as long as the process lives. */
MUST_CHECK enum status lt_load(struct lt_api *out);

#ifdef __cplusplus
}
#endif

#endif
