/* Matrices of simdgroups as no one has specified them, for the shader text as C++: which lane has which
 * element and in which order a product's terms are added is decided by a seed of the double's. */
#ifndef TESTS_METAL_MATRIX_CXX_H
#define TESTS_METAL_MATRIX_CXX_H

#include "double.h"
#include "shader_cxx.h"

/* Element i of a lane is that of row place / 8, column place % 8. */
static inline int place_of(int lane, int i)
{
    int seed = (int)(metal_double_matrices_seed() % 64);
    return ((2 * lane + i) * (2 * seed + 1) + seed) % 64;
}

struct simdgroup_float8x8 {
    float e[2];
    float *thread_elements()
    {
        return e;
    }
};

template <typename T, int R, int C>
static inline simdgroup_float8x8 make_filled_simdgroup_matrix(T v)
{
    static_assert(R == 8 && C == 8, "matrices of 8x8");
    return {{v, v}};
}

static inline void simdgroup_load(simdgroup_float8x8 &m, const float *p, int step)
{
    for (int i = 0; i < 2; i++) {
        int at = place_of(emulated_now->lane, i);
        m.e[i] = p[at / 8 * step + at % 8];
    }
}

static inline void simdgroup_store(const simdgroup_float8x8 &m, float *p, int step)
{
    for (int i = 0; i < 2; i++) {
        int at = place_of(emulated_now->lane, i);
        p[at / 8 * step + at % 8] = m.e[i];
    }
}

/* Factors and sum of a lane. */
struct matrix_operands {
    float a[2], b[2], c[2];
};

/* c plus the 8 products of a row and a column, in one of the orders that hardware might have. */
static inline float add_products(float c, const float *row, const float *column, int order,
                                 int from)
{
    float sum = c, part[8];
    double whole = (double)c;
    for (int k = 0; k < 8; k++) {
        int j = (k + from) % 8;
        part[k] = row[j] * column[8 * j];
        whole += (double)row[j] * (double)column[8 * j];
        sum = fmaf(row[j], column[8 * j], sum);
    }
    for (int apart = 1; apart < 8; apart *= 2)
        for (int k = 0; k + apart < 8; k += 2 * apart)
            part[k] += part[k + apart];
    return order == 0 ? sum : order == 1 ? c + part[0] : (float)whole;
}

static inline void multiply_lanes(const void *const *in, void *const *out)
{
    float left[64], right[64];
    int seed = (int)(metal_double_matrices_seed() % 64);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 2; i++) {
            const matrix_operands *m = (const matrix_operands *)in[lane];
            left[place_of(lane, i)] = m->a[i];
            right[place_of(lane, i)] = m->b[i];
        }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 2; i++) {
            int at = place_of(lane, i), order = seed % 3, from = seed % 8;
            enum metal_double_break broken = metal_double_matrices_broken();
            if (broken == MATRICES_BY_ROW)
                order = 0, from = at / 8;
            else if (broken == MATRICES_BY_COLUMN)
                order = 0, from = fabsf(right[(at + 1) % 8]) > 1.0f ? 1 : 0;
            ((float *)out[lane])[i] = add_products(((const matrix_operands *)in[lane])->c[i],
                                                   left + at / 8 * 8, right + at % 8, order, from);
        }
}

static inline void simdgroup_multiply_accumulate(simdgroup_float8x8 &out,
                                                 const simdgroup_float8x8 &a,
                                                 const simdgroup_float8x8 &b,
                                                 const simdgroup_float8x8 &c)
{
    matrix_operands m = {{a.e[0], a.e[1]}, {b.e[0], b.e[1]}, {c.e[0], c.e[1]}};
    emulated_warp("simdgroup_multiply_accumulate", &m, out.e, multiply_lanes);
}

#endif
