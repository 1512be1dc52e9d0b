/* The emulator itself: kernels written against gpu.h whose results are known, and kernels with a
 * mistake that must be found. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/gpu.h"

static const uint64_t seeds[] = {0, 1, 77, 123456789};

static struct backend *open_gpu()
{
    struct backend *be = nullptr;
    struct backend_config cfg = {};
    cr_assert_eq(backend_open(&be, "cuda", &cfg), ST_OK, "%s", status_detail());
    return be;
}

static void close_gpu(struct backend *be)
{
    backend_ops_of(be)->close(be);
}

/* A kernel that fails with `word` in its text. */
static void check_fails(enum status st, const char *word)
{
    cr_assert_eq(st, ST_DEVICE);
    cr_assert_not_null(strstr(status_text(), word), "'%s' does not name '%s'", status_text(), word);
    emulator_reset_error();
}

KERNEL(256)
index_kernel(int *out)
{
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] += (int)(block * 1000 + thread) + 1;
}

Test(emulator, every_thread_runs_once)
{
    struct backend *be = open_gpu();
    enum { BLOCKS = 3 * 2 * 5, THREADS = 64 };
    for (uint64_t seed : seeds) {
        int out[BLOCKS * THREADS] = {0};
        emulator_seed(seed);
        cr_assert_eq(LAUNCH(be, index_kernel, dim3(3, 2, 5), dim3(32, 2), 0, out), ST_OK);
        for (int i = 0; i < BLOCKS * THREADS; i++)
            cr_assert_eq(out[i], i / THREADS * 1000 + i % THREADS + 1);
    }
    close_gpu(be);
}

/* Each thread reads what the thread opposite wrote, three times over. */
template <bool BARRIER> KERNEL(256) opposite_kernel(int *out)
{
    SHARED(int, box, [256]);
    int me = (int)threadIdx.x, v = me;
    for (int round = 0; round < 3; round++) {
        box[me] = v;
        if (BARRIER)
            SYNC_THREADS(); /* box is written */
        v = box[255 - me] + 1;
        if (BARRIER)
            SYNC_THREADS(); /* box is read */
    }
    out[me] = v;
}

static int opposite_wrong(struct backend *be, bool barrier, uint64_t seed)
{
    int out[256], wrong = 0;
    emulator_seed(seed);
    enum status st = barrier ? LAUNCH(be, opposite_kernel<true>, 1, 256, 0, out)
                             : LAUNCH(be, opposite_kernel<false>, 1, 256, 0, out);
    cr_assert_eq(st, ST_OK, "%s", status_detail());
    for (int i = 0; i < 256; i++)
        wrong += out[i] != 255 - i + 3;
    return wrong;
}

Test(emulator, barriers_order_shared_memory)
{
    struct backend *be = open_gpu();
    for (uint64_t seed : seeds) {
        cr_assert_eq(opposite_wrong(be, true, seed), 0);
        cr_assert_gt(opposite_wrong(be, false, seed), 0); /* a missing barrier shows */
    }
    close_gpu(be);
}

KERNEL(64)
early_end_kernel(int *out)
{
    if (threadIdx.x == 5)
        return;
    SYNC_THREADS();
    out[threadIdx.x] = 1;
}

KERNEL(64)
two_barriers_kernel(int *out)
{
    if (threadIdx.x < 32)
        SYNC_THREADS();
    else
        SYNC_THREADS();
    out[threadIdx.x] = 1;
}

KERNEL(64)
half_warp_kernel(int *out)
{
    if (threadIdx.x < 40)
        out[threadIdx.x] = shfl_xor((int)threadIdx.x, 1);
}

KERNEL(64)
two_shuffles_kernel(int *out)
{
    out[threadIdx.x] = threadIdx.x % 2 ? shfl(1, 0) : shfl_xor(2, 1);
}

KERNEL(32)
unaligned_kernel(const char *in, uint4 *out)
{
    *out = ld_128(in + 8);
}

KERNEL(32)
much_shared_kernel(int *out)
{
    SHARED(int, big, [50000]);
    out[threadIdx.x] = big[threadIdx.x];
}

Test(emulator, mistakes_are_errors_that_name_the_kernel)
{
    struct backend *be = open_gpu();
    int out[64];
    alignas(16) char in[64] = {0};
    for (uint64_t seed : seeds) {
        emulator_seed(seed);
        check_fails(LAUNCH(be, early_end_kernel, 1, 64, 0, out), "early_end_kernel");
        check_fails(LAUNCH(be, two_barriers_kernel, 1, 64, 0, out), "divergence");
        check_fails(LAUNCH(be, half_warp_kernel, 1, 64, 0, out), "shfl_xor");
        check_fails(LAUNCH_DEPENDENT(be, index_kernel, 1, 64, 0, out), "without pdl_wait");
        check_fails(LAUNCH(be, two_shuffles_kernel, 1, 64, 0, out), "different warp operations");
        check_fails(LAUNCH(be, unaligned_kernel, 1, 32, 0, in, (uint4 *)(void *)in), "aligned");
        check_fails(LAUNCH(be, much_shared_kernel, 2, 32, 40000, out), "240000 bytes");
        check_fails(LAUNCH(be, index_kernel, 1, 33, 0, out), "33 threads");
        check_fails(LAUNCH(be, index_kernel, 0, 32, 0, out), "a grid of 0");
    }
    cr_assert_eq(LAUNCH(be, half_warp_kernel, 1, 32, 0, out), ST_OK); /* and none is left over */
    close_gpu(be);
}

KERNEL(64)
warp_kernel(int *down, int *from, uint32_t *votes, float *sums, int64_t *wide)
{
    int i = (int)threadIdx.x;
    down[i] = shfl_down(i, 3);
    from[i] = shfl(i, 7);
    votes[i] = warp_ballot(i % 3 == 0);
    sums[i] = warp_sum((float)i);
    wide[i] = shfl_xor((int64_t)i << 40, 31);
    sync_warp();
}

Test(emulator, warp_operations)
{
    struct backend *be = open_gpu();
    for (uint64_t seed : seeds) {
        int down[64], from[64];
        uint32_t votes[64];
        float sums[64];
        int64_t wide[64];
        emulator_seed(seed);
        cr_assert_eq(LAUNCH(be, warp_kernel, 1, 64, 0, down, from, votes, sums, wide), ST_OK);
        for (int i = 0; i < 64; i++) {
            uint32_t want = 0;
            for (int j = 0; j < 32; j++)
                want |= (uint32_t)((i / 32 * 32 + j) % 3 == 0) << j;
            cr_assert_eq(down[i], i % 32 < 29 ? i + 3 : i);
            cr_assert_eq(from[i], i / 32 * 32 + 7);
            cr_assert_eq(votes[i], want);
            cr_assert_float_eq(sums[i], i < 32 ? 496.0f : 1520.0f, 0.0f);
            cr_assert_eq(wide[i], (int64_t)(i / 32 * 32 + 31 - i % 32) << 40);
        }
    }
    close_gpu(be);
}

KERNEL(96)
block_kernel(const float *in, float *sum, float *most)
{
    DYN_SMEM(float, copy);
    copy[threadIdx.x] = in[threadIdx.x];
    SYNC_THREADS(); /* copy is written */
    sum[threadIdx.x] = block_sum(copy[95 - threadIdx.x]);
    most[threadIdx.x] = block_max(copy[threadIdx.x]);
}

Test(emulator, block_reductions)
{
    struct backend *be = open_gpu();
    for (uint64_t seed : seeds) {
        float in[96], sum[96], most[96];
        for (int i = 0; i < 96; i++)
            in[i] = (float)(i * 37 % 91) - 45.0f;
        emulator_seed(seed);
        cr_assert_eq(LAUNCH(be, block_kernel, 1, 96, sizeof in, in, sum, most), ST_OK);
        float want = 0;
        for (float f : in)
            want += f;
        for (int i = 0; i < 96; i++) {
            cr_assert_float_eq(sum[i], want, 0.0f);
            cr_assert_float_eq(most[i], 45.0f, 0.0f);
        }
    }
    close_gpu(be);
}

/* Small integers, so that every order of the sum gives the same. */
static float element(int i, int j)
{
    return (float)((i * 7 + j * 13) % 17 - 8);
}

/* One warp multiplies A [16, K] by B [K, 8], both row-major; the fragments are read as the PTX
 * manual gives them.  type 0 bf16, 1 f16. */
KERNEL(32)
mma_kernel(int type, const float *a, const float *b, float *d)
{
    int g = lane_id() / 4, t = lane_id() % 4;
    float acc[4];
    uint32_t fa[4], fb[2];
    for (int i = 0; i < 4; i++)
        acc[i] = d[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
    for (int i = 0; i < 4; i++) {
        int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
        const float *p = a + row * 16 + k;
        fa[i] = type == 0 ? pack_bf16(p[0], p[1]) : pack_f16(p[0], p[1]);
    }
    for (int i = 0; i < 2; i++) {
        int k = 2 * t + i * 8;
        const float *p = b + k * 8 + g;
        fb[i] = type == 0 ? pack_bf16(p[0], p[8]) : pack_f16(p[0], p[8]);
    }
    if (type == 0)
        mma_m16n8k16_bf16(acc, fa, fb);
    else
        mma_m16n8k16_f16(acc, fa, fb);
    for (int i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = acc[i];
}

Test(emulator, mma_is_a_matrix_product)
{
    struct backend *be = open_gpu();
    for (int type = 0; type < 2; type++) {
        float a[16 * 16], b[16 * 8], d[16 * 8], want[16 * 8];
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 16; j++)
                a[i * 16 + j] = element(i, j);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++)
                b[i * 8 + j] = element(i + 3, j);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                d[i * 8 + j] = want[i * 8 + j] = element(j, i);
                for (int m = 0; m < 16; m++)
                    want[i * 8 + j] += element(i, m) * element(m + 3, j);
            }
        emulator_seed((uint64_t)type);
        cr_assert_eq(LAUNCH(be, mma_kernel, 1, 32, 0, type, a, b, d), ST_OK);
        for (int i = 0; i < 16 * 8; i++)
            cr_assert_float_eq(d[i], want[i], 0.0f, "type %d, element %d", type, i);
    }
    close_gpu(be);
}

/* ldmatrix brings A and B (stored [N, K], and [K, N] for .trans) into the fragments of mma. */
KERNEL(32)
ldmatrix_kernel(const float *a, const float *b, float *d)
{
    SHARED(uint16_t, sa, [16 * 16]);
    SHARED(uint16_t, sb, [16 * 8]);  /* [k][n] */
    SHARED(uint16_t, sbt, [8 * 16]); /* [n][k] */
    int lane = lane_id();
    for (int i = lane; i < 256; i += 32)
        sa[i] = bf16_of_f32(a[i]);
    for (int i = lane; i < 128; i += 32) {
        sb[i] = bf16_of_f32(b[i]);
        sbt[i % 8 * 16 + i / 8] = bf16_of_f32(b[i]);
    }
    SYNC_THREADS(); /* the matrices are written */
    uint32_t fa[4], fb[2], ft[2], half[1];
    float one[4] = {0}, two[4] = {0};
    ldmatrix(fa, sa + lane % 16 * 16 + lane / 16 * 8);
    ldmatrix(fb, sbt + lane % 8 * 16 + lane / 8 % 2 * 8);
    ldmatrix_trans(ft, sb + lane % 16 * 8);
    ldmatrix(half, sbt + lane % 8 * 16);
    mma_m16n8k16_bf16(one, fa, fb);
    mma_m16n8k16_bf16(two, fa, ft);
    for (int i = 0; i < 4; i++) {
        int at = (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2;
        d[at] = one[i] == two[i] && half[0] == fb[0] ? one[i] : NAN;
    }
}

Test(emulator, ldmatrix_fills_the_fragments)
{
    struct backend *be = open_gpu();
    float a[16 * 16], b[16 * 8], d[16 * 8];
    for (int i = 0; i < 256; i++)
        a[i] = element(i / 16, i % 16);
    for (int i = 0; i < 128; i++)
        b[i] = element(i / 8 + 5, i % 8);
    for (uint64_t seed : seeds) {
        emulator_seed(seed);
        cr_assert_eq(LAUNCH(be, ldmatrix_kernel, 1, 32, 0, a, b, d), ST_OK, "%s", status_detail());
        for (int i = 0; i < 128; i++) {
            float want = 0;
            for (int k = 0; k < 16; k++)
                want += a[i / 8 * 16 + k] * b[k * 8 + i % 8];
            cr_assert_float_eq(d[i], want, 0.0f);
        }
    }
    close_gpu(be);
}

/* Two stages; waits for both (N = 0), for the first (N = 1), or for none. */
template <int N> KERNEL(32) copy_kernel(const uint32_t *in, uint32_t *first, uint32_t *second)
{
    SHARED(uint32_t, stage, [2][128]);
    int i = lane_id() * 4;
    cp_async_16(&stage[0][i], in + i);
    cp_async_commit();
    cp_async_16(&stage[1][i], in + 128 + i, lane_id() != 3);
    cp_async_commit();
    if (N < 2)
        cp_async_wait<N>();
    SYNC_THREADS(); /* what has arrived is seen by all */
    for (int j = 0; j < 4; j++) {
        first[i + j] = stage[0][127 - i - j];
        second[i + j] = stage[1][127 - i - j];
    }
}

static void check_copies(const uint32_t *first, const uint32_t *second, bool has_1, bool has_2)
{
    for (uint32_t i = 0; i < 128; i++) {
        uint32_t at = 127 - i, want = at / 4 == 3 ? 0 : at + 129;
        cr_assert_eq(first[i], has_1 ? at + 1 : 0xffffffffU);
        cr_assert_eq(second[i], has_2 ? want : 0xffffffffU);
    }
}

Test(emulator, cp_async_arrives_when_it_is_waited_for)
{
    struct backend *be = open_gpu();
    alignas(16) uint32_t in[256];
    uint32_t first[128], second[128];
    for (uint32_t i = 0; i < 256; i++)
        in[i] = i + 1;
    cr_assert_eq(LAUNCH(be, copy_kernel<0>, 1, 32, 0, in, first, second), ST_OK);
    check_copies(first, second, true, true);
    cr_assert_eq(LAUNCH(be, copy_kernel<1>, 1, 32, 0, in, first, second), ST_OK);
    check_copies(first, second, true, false);
    cr_assert_eq(LAUNCH(be, copy_kernel<2>, 1, 32, 0, in, first, second), ST_OK);
    check_copies(first, second, false, false);
    close_gpu(be);
}

/* The last block to come adds up what all left. */
KERNEL(32)
last_block_kernel(const uint32_t *in, uint32_t *part, uint32_t *counter, uint32_t *out)
{
    SHARED(uint32_t, ticket, [1]);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = in[blockIdx.x];
        fence_device();
        ticket[0] = atomic_add_u32(counter, 1);
    }
    SYNC_THREADS(); /* the ticket is drawn */
    if (ticket[0] != gridDim.x - 1 || threadIdx.x != 0)
        return;
    fence_device();
    for (uint32_t i = 0; i < gridDim.x; i++)
        *out += part[i];
}

Test(emulator, the_last_block_sees_all)
{
    struct backend *be = open_gpu();
    for (uint64_t seed : seeds) {
        uint32_t in[50], part[50] = {0}, counter = 0, out = 0;
        for (uint32_t i = 0; i < 50; i++)
            in[i] = i * i;
        emulator_seed(seed);
        cr_assert_eq(LAUNCH(be, last_block_kernel, 50, 32, 0, in, part, &counter, &out), ST_OK);
        cr_assert_eq(out, 49 * 50 * 99 / 6);
    }
    close_gpu(be);
}

KERNEL(32)
add_one_kernel(int *p)
{
    p[threadIdx.x] += 1;
}

Test(emulator, graphs_run_what_was_recorded)
{
    struct backend *be = open_gpu();
    const struct backend_ops *op = backend_ops_of(be);
    struct graph *g = nullptr;
    struct buf *b = nullptr;
    int p[32] = {0};
    cr_assert_eq(op->graph_begin(be), ST_OK);
    cr_assert_eq(LAUNCH(be, add_one_kernel, 1, 32, 0, p), ST_OK);
    cr_assert_eq(LAUNCH(be, add_one_kernel, 1, 32, 0, p), ST_OK);
    cr_assert_eq(op->alloc(be, 64, MEM_DEVICE, &b), ST_BUG); /* nothing is taken in a step */
    cr_assert_eq(op->sync(be), ST_BUG);
    cr_assert_eq(op->graph_end(be, &g), ST_OK, "%s", status_detail());
    cr_assert_eq(p[7], 0); /* recorded, not run */
    for (int i = 1; i <= 3; i++) {
        cr_assert_eq(op->graph_launch(be, g), ST_OK);
        cr_assert_eq(op->sync(be), ST_OK);
        cr_assert_eq(p[7], 2 * i);
    }
    op->graph_free(be, g);
    close_gpu(be);
}

Test(emulator, what_capture_forbids_spoils_it)
{
    cudaStream_t s;
    cudaGraph_t g;
    void *p;
    cr_assert_eq(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
    cr_assert_eq(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    cr_assert_eq(cudaMalloc(&p, 64), cudaErrorStreamCaptureUnsupported);
    cr_assert_eq(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    cr_assert_null(g);
    cr_assert_eq(cudaStreamDestroy(s), cudaSuccess);
}

/* Every value that the small types have, and roundings between them. */
KERNEL(32)
conversion_kernel(int *wrong)
{
    for (uint32_t u = threadIdx.x; u < 65536; u += 32) {
        float h = f32_of_f16((uint16_t)u), b = f32_of_bf16((uint16_t)u);
        if (h == h && (f16_of_f32(h) != u || pack_f16(h, b) >> 16 != f16_of_f32(b)))
            atomic_add_u32((uint32_t *)wrong, 1);
        if (b == b && bf16_of_f32(b) != u)
            atomic_add_u32((uint32_t *)wrong, 1);
        if (u < 256 && (u & 0x7f) != 0x7f && e4m3_of_f32(f32_of_e4m3((uint8_t)u)) != u)
            atomic_add_u32((uint32_t *)wrong, 1);
    }
}

Test(emulator, conversions)
{
    struct backend *be = open_gpu();
    int wrong = 0;
    cr_assert_eq(LAUNCH(be, conversion_kernel, 1, 32, 0, &wrong), ST_OK);
    cr_assert_eq(wrong, 0);
    close_gpu(be);
}
