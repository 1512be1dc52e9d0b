/* Where each slice of a row is stored, and its segments. */
#include "backends/cuda/k_layout.h"

static int32_t divide_up(int32_t n, int32_t by)
{
    return n / by + (n % by != 0);
}

struct k_layout k_layout_of(const struct weight_src *src, bool stacked)
{
    struct k_layout k = {.n_slices = src->n_slices};
    int32_t unit = stacked ? K_CHUNK : K_STEP;
    for (int i = 0; i < k.n_slices; i++) {
        int32_t cols = src->slice_end[i] - k.col[i];
        k.col[i + 1] = src->slice_end[i];
        k.at[i + 1] = k.at[i] + divide_up(cols, unit) * unit;
        k.seg[i + 1] = k.seg[i] + divide_up(cols, K_SEGMENT);
    }
    k.at[k.n_slices] = divide_up(k.at[k.n_slices], K_STEP) * K_STEP;
    return k;
}
