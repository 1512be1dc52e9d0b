#include "gpu/random_weights.h"
#include "backends/cuda/cuda.h"
#include "backends/cuda/gpu.h"

enum { FILL_THREADS = 256, BLOCKS_PER_SM = 16 };

/* Bits of the n-th number (Steele, Lea, Flood: splitmix64). */
DEVICE uint64_t hash_bits(uint64_t n)
{
    n = (n + 1) * 0x9e3779b97f4a7c15ULL;
    n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9ULL;
    n = (n ^ (n >> 27)) * 0x94d049bb133111ebULL;
    return n ^ (n >> 31);
}

/* Four uniform numbers of 16 bits: variance 4 / 12. */
DEVICE float near_normal(uint64_t bits)
{
    float sum = 0.0f;
    for (int i = 0; i < 4; i++)
        sum += (float)((bits >> 16 * i) & 0xffff) * 0x1p-16f - 0.5f;
    return sum * 0.0346410f; /* 0.02 sqrt(3) */
}

/* Two elements at a time, threads in turn; bound by arithmetic. */
KERNEL(FILL_THREADS) random_kernel(uint32_t *out, size_t n_pairs, uint64_t seed)
{
    for (size_t i = (size_t)blockIdx.x * FILL_THREADS + threadIdx.x; i < n_pairs;
         i += (size_t)gridDim.x * FILL_THREADS) {
        uint64_t at = (seed << 40) + 2 * i;
        out[i] = pack_bf16(near_normal(hash_bits(at)), near_normal(hash_bits(at + 1)));
    }
}

KERNEL(FILL_THREADS) ones_kernel(float *out, size_t n)
{
    for (size_t i = (size_t)blockIdx.x * FILL_THREADS + threadIdx.x; i < n;
         i += (size_t)gridDim.x * FILL_THREADS)
        out[i] = 1.0f;
}

static enum status make_up(struct backend *be, struct weight *w, uint64_t seed)
{
    unsigned blocks = (unsigned)be->n_sm * BLOCKS_PER_SM;
    if (w->vector)
        return LAUNCH(be, ones_kernel, blocks, FILL_THREADS, 0, (float *)w->data->data,
                      (size_t)w->k);
    if (w->dtype != DT_BF16 || w->bias || w->k_pad != w->k)
        FAIL(ST_UNSUPPORTED, "random weights of type %s, %d columns in %d", dtype_name(w->dtype),
             w->k, w->k_pad);
    return LAUNCH(be, random_kernel, blocks, FILL_THREADS, 0, (uint32_t *)w->data->data,
                  (size_t)w->n * (size_t)w->k / 2, seed);
}

static enum status load_random(struct backend *be, const struct weight_src *src,
                               struct weight **out)
{
    static uint64_t seed; /* one thread */
    TRY(cuda_take_weight(be, src, out));
    enum status st = make_up(be, *out, ++seed);
    if (st != ST_OK)
        cuda_free_weight(be, *out);
    return st;
}

void random_weights(struct backend *be)
{
    static struct backend_ops ops;
    ops = cuda_ops;
    ops.load_weight = load_random;
    be->base.ops = &ops;
}
