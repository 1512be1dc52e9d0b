/* Rows of x in 8 bits, and rows of a quantised matrix in f32. */
#include "backends/cuda/quant_device.h"

enum { THREADS = 256 };

DEVICE uint32_t warp_max_u32(uint32_t v)
{
    UNROLL
    for (int apart = 16; apart > 0; apart /= 2) {
        const uint32_t o = shfl_xor(v, apart);
        v = o > v ? o : v;
    }
    return v;
}

/* Grid: T * groups warps, one for each group of a token; a lane has one column.  Bytes: T K (4 +
 * 1.5).  Bound by the launch where T is small, else by memory. */
KERNEL(THREADS) quant_pack_kernel(struct quant_job a)
{
    pdl_wait();
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, nearest even */
    const int n_groups = a.s.x_at[a.s.n_slices], lane = lane_id();
    const int64_t i = (int64_t)blockIdx.x * (THREADS / 32) + warp_id();
    const int64_t token = i / n_groups;
    if (token >= a.n_tokens)
        return;
    const int32_t group = (int32_t)(i % n_groups);
    int slice = 0;
    while (group >= a.s.x_at[slice + 1])
        slice++;
    const int32_t begin = slice > 0 ? a.s.end[slice - 1] : 0;
    const int32_t col =
        (a.s.first[slice] + group - a.s.x_at[slice]) * QUANT_GROUP - a.s.skip + lane;
    float x = 0.0f;
    if (col >= begin && col < a.s.end[slice])
        x = a.x[(size_t)(a.rows ? a.rows[token] : token) * a.x_stride + (size_t)col];
    const uint32_t most = warp_max_u32(bits_of_f32(x) & 0x7fffffffU); /* as the magnitudes */
    const float amax = f32_of_bits(most), inverse = 127.0f / amax;
    float d = amax / 127.0f;
    int32_t n = (int32_t)(bits_of_f32(x * inverse + magic) - bits_of_f32(magic));
    if (most >= 0x7f800000U || bits_of_f32(inverse) >= 0x7f800000U) { /* also amax = 0 */
        d = most < 0x7f800000U ? 0.0f : f32_of_bits(0x7fc00000U);
        n = 0;
    }
    int32_t sum = n; /* of the lane's half */
    UNROLL
    for (int apart = 8; apart > 0; apart /= 2)
        sum += shfl_xor(sum, apart);
    const int32_t other = shfl_xor(sum, 16);
    unsigned char *record =
        a.packed + ((size_t)group * (size_t)a.n_tokens + (size_t)token) * QUANT_RECORD;
    record[lane] = (unsigned char)n;
    if (lane == 0)
        st_128(record + QUANT_GROUP, {bits_of_f32(d), bits_of_f32(d * (float)(sum + other)),
                                      (uint32_t)sum, (uint32_t)other});
}

extern "C" enum status quant_pack(struct backend *be, const struct quant_job *job)
{
    const int64_t warps = (int64_t)job->n_tokens * job->s.x_at[job->s.n_slices];
    if (warps == 0)
        return ST_OK;
    return LAUNCH_DEPENDENT(be, quant_pack_kernel, (unsigned)blocks_for(warps, THREADS / 32),
                            THREADS, 0, *job);
}

struct embed_args {
    struct quant_matrix m;
    int32_t skip, first_id, id_stride, out_stride;
    const int32_t *ids;
    float *out;
};

/* grid (T, groups / THREADS): a thread has one group of a row.  Bytes: the row's codes + 4 K. */
template <int BITS> KERNEL(THREADS) quant_embed_kernel(struct embed_args a)
{
    pdl_wait();
    const int32_t g = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    const int64_t row = (int64_t)a.ids[(int64_t)blockIdx.x * a.id_stride] - a.first_id;
    const bool mine = row >= 0 && row < a.m.n;
    float *out = a.out + (int64_t)blockIdx.x * a.out_stride;
    if (g >= a.m.at.n_groups)
        return;
    struct quant_group<BITS> q = {
    };
    uint32_t v[QUADS] = {};
    float scale[2] = {}, minimum[2] = {};
    if (mine) {
        load_group(q, a.m, a.m.w + (size_t)(row / QUANT_PANEL) * a.m.at.panel_bytes, g,
                   (int)(row % QUANT_PANEL));
        unpack_group(v, q, a.m);
        for (int h = 0; h < quant_bits<BITS>::halves; h++)
            scale[h] = scale_of(q, a.m, h, minimum[h]);
    }
    UNROLL
    for (int e = 0; e < QUANT_GROUP; e++) {
        const int h = e / (QUANT_GROUP / quant_bits<BITS>::halves);
        const int32_t col = g * QUANT_GROUP - a.skip + e;
        const int32_t code = (int8_t)(v[e / 4] >> (e % 4 * 8));
        const float value = (float)(code + a.m.low);
        const float f =
            a.m.minimum == MINIMUM_NONE ? value * scale[h] : fmaf(value, scale[h], minimum[h]);
        if (col >= 0 && col < a.m.k)
            out[col] = mine ? f + 0.0f : 0.0f;
    }
}

template <int BITS>
static enum status launch_embed(struct backend *be, const struct embed_args *a, int32_t n_tokens)
{
    return LAUNCH_DEPENDENT(
        be, quant_embed_kernel<BITS>,
        dim3((unsigned)n_tokens, (unsigned)blocks_for(a->m.at.n_groups, THREADS)), THREADS, 0, *a);
}

extern "C" enum status quant_embed(struct backend *be, const struct quant_matrix *m, int32_t skip,
                                   int32_t first_id, struct view ids, struct view out)
{
    const struct embed_args a = {*m,         skip,          first_id,     ids.stride,
                                 out.stride, view_i32(ids), view_f32(out)};
    switch (m->bits) {
    case 2:
        return launch_embed<2>(be, &a, out.rows);
    case 3:
        return launch_embed<3>(be, &a, out.rows);
    case 4:
        return launch_embed<4>(be, &a, out.rows);
    case 5:
        return launch_embed<5>(be, &a, out.rows);
    case 6:
        return launch_embed<6>(be, &a, out.rows);
    default:
        return launch_embed<8>(be, &a, out.rows);
    }
}
