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

/* A warp's 32 columns of x, a lane's of which is x, to a record. */
DEVICE void store_record(unsigned char *record, float x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, nearest even */
    const int lane = lane_id();
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
    record[lane] = (unsigned char)n;
    if (lane == 0)
        st_128(record + QUANT_GROUP, {bits_of_f32(d), bits_of_f32(d * (float)(sum + other)),
                                      (uint32_t)sum, (uint32_t)other});
}

DEVICE unsigned char *record_at(const struct quant_job &a, int32_t group, int64_t token)
{
    return a.packed + ((size_t)group * (size_t)a.n_tokens + (size_t)token) * QUANT_RECORD;
}

/* Grid: T * groups warps, one for each group of a token; a lane has one column.  Bytes: T K (4 +
 * 1.5).  Bound by the launch where T is small, else by memory. */
KERNEL(THREADS) quant_pack_kernel(struct quant_job a)
{
    pdl_wait();
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
    store_record(record_at(a, group, token), x);
}

/* start: of experts, whose matrices have their own order, else NULL. */
struct sorted_pack_args {
    struct quant_job job;
    const int32_t *start; /* [n_experts + 1] */
    int32_t n_experts;
    size_t expert_bytes;
};

/* The expert that has row `row`. */
DEVICE int32_t expert_of(const int32_t *start, int32_t n, int32_t row)
{
    int32_t low = 0, high = n; /* start[low] <= row < start[high] */
    while (high - low > 1) {
        const int32_t middle = (low + high) / 2;
        if (start[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The column of x that a lane has of a chunk; -1: none. */
DEVICE int32_t sorted_column(const struct quant_matrix &m, const unsigned char *head, int32_t c,
                             int element)
{
    const uint32_t chunk = chunks_of(m, head)[c];
    const int32_t first = ((const int32_t *)(head + m.sorted.quad_at))[c];
    const int quads = chunk_quads(chunk), quad = sorted_quad_of(quads, element / 4);
    if (quad < 0 || 4 * quad + element % 4 >= 4 * quads - (int)(chunk >> 24))
        return -1;
    return ((const int32_t *)(head + SORTED_HEAD))[4 * (first + quad) + element % 4];
}

/* As quant_pack_kernel, a warp for each chunk that there may be.  x is gathered from L2. */
KERNEL(THREADS) sorted_pack_kernel(struct sorted_pack_args p)
{
    pdl_wait();
    const struct quant_job &a = p.job;
    const int n_chunks = a.m.sorted.n_chunks;
    const int64_t i = (int64_t)blockIdx.x * (THREADS / 32) + warp_id();
    const int64_t token = i / n_chunks;
    if (token >= a.n_tokens)
        return;
    const int32_t c = (int32_t)(i % n_chunks);
    const unsigned char *head = a.m.head;
    if (p.start)
        head += (size_t)expert_of(p.start, p.n_experts, (int32_t)token) * p.expert_bytes;
    if (c >= ((const int32_t *)head)[N_SLICES])
        return;
    const int32_t col = sorted_column(a.m, head, c, lane_id());
    const float *x = a.x + (size_t)(a.rows ? a.rows[token] : token) * a.x_stride;
    store_record(record_at(a, c, token), col >= 0 ? x[col] : 0.0f);
}

static enum status pack_sorted(struct backend *be, const struct sorted_pack_args *p)
{
    const int64_t warps = (int64_t)p->job.n_tokens * p->job.m.sorted.n_chunks;
    if (warps == 0)
        return ST_OK;
    return LAUNCH_DEPENDENT(be, sorted_pack_kernel, (unsigned)blocks_for(warps, THREADS / 32),
                            THREADS, 0, *p);
}

extern "C" enum status quant_pack(struct backend *be, const struct quant_job *job)
{
    const int64_t warps = (int64_t)job->n_tokens * job->s.x_at[job->s.n_slices];
    const struct sorted_pack_args sorted = {*job, NULL, 0, 0};
    if (job->m.head)
        return pack_sorted(be, &sorted);
    if (warps == 0)
        return ST_OK;
    return LAUNCH_DEPENDENT(be, quant_pack_kernel, (unsigned)blocks_for(warps, THREADS / 32),
                            THREADS, 0, *job);
}

extern "C" enum status quant_pack_experts(struct backend *be, const struct quant_experts *e)
{
    const struct sorted_pack_args sorted = {e->job, e->groups.start, e->groups.n_experts,
                                            e->expert_bytes};
    return e->job.m.head ? pack_sorted(be, &sorted) : quant_pack(be, &e->job);
}

struct embed_args {
    struct quant_matrix m;
    int32_t skip, first_id, id_stride, out_stride;
    const int32_t *ids;
    float *out;
};

/* grid (T, groups / THREADS): a thread has one group of a row.  Bytes: the row's codes + 4 K. */
template <int FORM> KERNEL(THREADS) quant_embed_kernel(struct embed_args a)
{
    pdl_wait();
    const int32_t g = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    const int64_t row = (int64_t)a.ids[(int64_t)blockIdx.x * a.id_stride] - a.first_id;
    const bool mine = row >= 0 && row < a.m.n;
    float *out = a.out + (int64_t)blockIdx.x * a.out_stride;
    if (g >=
        (quant_form_of<FORM>::sorted ? ((const int32_t *)a.m.head)[N_SLICES] : a.m.at.n_groups))
        return;
    struct quant_group<FORM> q = {
    };
    uint32_t v[QUADS] = {};
    float scale[2] = {}, minimum[2] = {};
    if (mine) {
        load_group<FORM>(q, a.m, a.m.head, a.m.w + (size_t)(row / QUANT_PANEL) * a.m.panel_bytes, g,
                         (int)(row % QUANT_PANEL));
        unpack_group(v, q, a.m);
        for (int h = 0; h < quant_form_of<FORM>::halves; h++)
            scale[h] = scale_of(q, a.m, h, minimum[h]);
    }
    UNROLL
    for (int e = 0; e < QUANT_GROUP; e++) {
        const int h = e / (QUANT_GROUP / quant_form_of<FORM>::halves);
        const int32_t col = quant_form_of<FORM>::sorted ? sorted_column(a.m, a.m.head, g, e)
                                                        : g * QUANT_GROUP - a.skip + e;
        const int32_t code = (int8_t)(v[e / 4] >> (e % 4 * 8));
        const float value = (float)(code + low_of<FORM>(q, a.m));
        const float f =
            a.m.minimum == MINIMUM_NONE ? value * scale[h] : fmaf(value, scale[h], minimum[h]);
        if (col >= 0 && col < a.m.k)
            out[col] = mine ? f + 0.0f : 0.0f;
    }
}

template <int FORM>
static enum status launch_embed(struct backend *be, const struct embed_args *a, int32_t n_tokens)
{
    const int32_t n_groups = a->m.head ? a->m.sorted.n_chunks : a->m.at.n_groups;
    return LAUNCH_DEPENDENT(be, quant_embed_kernel<FORM>,
                            dim3((unsigned)n_tokens, (unsigned)blocks_for(n_groups, THREADS)),
                            THREADS, 0, *a);
}

extern "C" enum status quant_embed(struct backend *be, const struct quant_matrix *m, int32_t skip,
                                   int32_t first_id, struct view ids, struct view out)
{
    const struct embed_args a = {*m,         skip,          first_id,     ids.stride,
                                 out.stride, view_i32(ids), view_f32(out)};
    switch (m->form) {
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
    case 4 + QUANT_SORTED:
        return launch_embed<4 + QUANT_SORTED>(be, &a, out.rows);
    case 8 + QUANT_SORTED:
        return launch_embed<8 + QUANT_SORTED>(be, &a, out.rows);
    default:
        return launch_embed<8>(be, &a, out.rows);
    }
}
