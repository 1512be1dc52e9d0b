/* What the KV cache stores, from its definition (backends/cpu/kernels.h, kv_store) and in other
 * arithmetic than the backends': doubles, frexp and rint, nothing of common/dtype.h. */
#ifndef TESTS_OPS_KV_SPEC_H
#define TESTS_OPS_KV_SPEC_H

#include "common/dtype.h"

/* x [n], finite, as elements of type t; *scale is set for DT_I8 and DT_E4M3. */
void spec_store(enum dtype t, const float *x, int n, void *dst, float *scale);

/* What attention reads of element i (a finite one). */
float spec_value(enum dtype t, const void *src, int i, float scale);

#endif
