/* The CUDA backend beside its ops, on the emulated device: opening, memory, weights, errors. */
#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/oneshot.h"

static struct backend *open_gpu(void)
{
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, "cuda", &(struct backend_config){0}), ST_OK, "%s",
                 status_detail());
    return be;
}

static struct mem_plan plan_of(struct backend *be, size_t kv, size_t weights)
{
    struct backend_info info;
    backend_ops_of(be)->info(be, &info);
    return (struct mem_plan){
        .part = {[PART_OWN] = info.mem_own, [PART_KV] = kv, [PART_WEIGHTS] = weights},
        .pinned = 512};
}

/* Opened for a plan, which has been taken. */
static struct backend *open_planned(size_t kv, size_t weights)
{
    struct backend *be = NULL;
    struct backend_config cfg = {.planned = true};
    cr_assert_eq(backend_open(&be, "cuda", &cfg), ST_OK, "%s", status_detail());
    struct mem_plan plan = plan_of(be, kv, weights);
    cr_assert_eq(backend_ops_of(be)->reserve(be, &plan), ST_OK, "%s", status_detail());
    backend_part(be, PART_KV);
    return be;
}

static void check_says(const char *word)
{
    cr_assert_not_null(strstr(status_text(), word), "'%s' does not name '%s'", status_text(), word);
}

static void check_refused(struct backend_config cfg, enum status st, const char *word)
{
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, "cuda", &cfg), st);
    cr_assert_null(be);
    check_says(word);
}

Test(cuda, opening)
{
    struct backend_info info;
    struct backend *be = open_gpu();
    backend_ops_of(be)->info(be, &info);
    cr_assert_eq(info.mem_own, 0);
    cr_assert_not_null(strstr(info.device, "emulated GPU, sm_90"), "%s", info.device);
    cr_assert(info.graphs && info.mem_free > 0 && info.mem_free < info.mem_total);
    cr_assert(cuda_is(be) && cuda_ordinal(be) == 0 && cuda_stream(be));
    cr_assert_eq(cuda_use(be), ST_OK);
    const struct backend_ops *op = backend_ops_of(be);
    op->close(be);
    op->close(NULL);
    cr_assert_not_null(strstr(backend_names(), "cuda"));
}

static void check_device(struct backend_config cfg, int ordinal, const char *bus, const char *uuid)
{
    struct backend_info info;
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, "cuda", &cfg), ST_OK, "%s", status_detail());
    backend_ops_of(be)->info(be, &info);
    cr_assert_eq(cuda_ordinal(be), ordinal);
    cr_assert_str_eq(info.bus, bus);
    cr_assert_str_eq(info.uuid, uuid);
    backend_ops_of(be)->close(be);
}

/* A launcher may show each rank its own GPU only, as number 0. */
Test(cuda, a_device_is_known_by_its_place)
{
    struct backend_config third = {.device = 2, .by_rank = true}, second = {.device = 1};
    unsetenv("CUDA_VISIBLE_DEVICES");
    check_device((struct backend_config){0}, 0, "0000:01:00.0",
                 "GPU-00000000-0000-0000-0000-000000000000");
    setenv("CUDA_VISIBLE_DEVICES", "5", 1);
    check_device(third, 0, "0000:06:00.0", "GPU-00000000-0000-0000-0000-000000000005");
    check_refused(second, ST_RANGE, "device 1, there is 1"); /* asked for by number */
    setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
    check_refused(third, ST_RANGE, "device 2, there are 2");
    check_device(second, 1, "0000:02:00.0", "GPU-00000000-0000-0000-0000-000000000001");
}

Test(cuda, what_cannot_be_opened)
{
    size_t before, after, total;
    emulator_memory(32 << 20);
    cr_assert_eq(cudaMemGetInfo(&before, &total), cudaSuccess);
    check_refused((struct backend_config){.device = 1}, ST_RANGE, "device 1, there is 1");
    check_refused((struct backend_config){.device = -1}, ST_RANGE, "device -1");
    check_refused((struct backend_config){0}, ST_NOMEM, "out of memory"); /* its own 96 MiB */
    cr_assert_eq(cudaMemGetInfo(&after, &total), cudaSuccess);
    cr_assert_eq(before, after); /* nothing is left behind */
    emulator_devices(0);
    check_refused((struct backend_config){0}, ST_DEVICE, "no CUDA driver on this machine");
}

static struct view f32_view(struct buf *b, size_t off, int32_t rows, int32_t cols, int32_t stride)
{
    return (struct view){
        .buf = b, .off = off, .rows = rows, .cols = cols, .stride = stride, .dtype = DT_F32};
}

static void check_moves(struct backend *be, int32_t rows, int32_t cols)
{
    const struct backend_ops *op = backend_ops_of(be);
    int32_t stride = cols + 5;
    size_t n = (size_t)rows * (size_t)cols, bytes = (size_t)rows * (size_t)stride * 4 + 64;
    float *in = malloc(n * sizeof *in + 1), *out = malloc(n * sizeof *out + 1);
    struct buf *a, *b;
    for (size_t i = 0; i < n; i++)
        in[i] = (float)i;
    cr_assert_eq(op->alloc(be, bytes, MEM_DEVICE, &a), ST_OK, "%s", status_detail());
    cr_assert_eq(op->alloc(be, bytes, MEM_DEVICE, &b), ST_OK, "%s", status_detail());
    struct view va = f32_view(a, 64, rows, cols, stride), vb = f32_view(b, 0, rows, cols, cols + 1);
    cr_assert_eq((uintptr_t)cuda_device_ptr(va) % 64, 0);
    cr_assert_eq(op->read(be, out, va), ST_OK);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(bits_of_f32(out[i]), 0); /* memory comes zeroed */
    cr_assert_eq(op->write(be, va, in), ST_OK, "%s", status_detail());
    cr_assert_eq(op->copy(be, vb, va), ST_OK);
    cr_assert_eq(op->zero(be, va), ST_OK);
    memset(out, 0xff, n * sizeof *out);
    cr_assert_eq(op->read(be, out, vb), ST_OK);
    cr_assert_arr_eq(out, in, n * sizeof *out);
    cr_assert_eq(op->read(be, out, va), ST_OK);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(bits_of_f32(out[i]), 0);
    op->free(be, b);
    op->free(be, a);
    free(in);
    free(out);
}

Test(cuda, memory)
{
    for (int planned = 0; planned < 2; planned++) {
        struct backend *be = planned ? open_planned(256 << 20, 0) : open_gpu();
        check_moves(be, 0, 7);
        check_moves(be, 1, 1);
        check_moves(be, 3, 0);
        check_moves(be, 13, 37);
        check_moves(be, 3000, 1500); /* more than the staging memory */
        check_moves(be, 2, 3 << 20); /* rows larger than half of it */
        backend_ops_of(be)->close(be);
    }
}

Test(cuda, pinned_memory_and_copies)
{
    struct backend *be = open_gpu();
    const struct backend_ops *op = backend_ops_of(be);
    struct buf *host, *dev;
    bool passed = false;
    uint64_t ns = 0;
    cr_assert_eq(op->alloc(be, 64, MEM_PINNED, &host), ST_OK);
    cr_assert_eq(op->alloc(be, 64, MEM_DEVICE, &dev), ST_OK);
    float *p = op->pinned_ptr(be, host), back[16];
    for (int i = 0; i < 16; i++)
        p[i] = (float)i;
    cr_assert_eq(op->event_mark(be, 3), ST_OK);
    cr_assert_eq(op->copy(be, f32_view(dev, 0, 1, 16, 16), f32_view(host, 0, 1, 16, 16)), ST_OK);
    cr_assert_eq(op->event_mark(be, 4), ST_OK);
    cr_assert_eq(op->event_wait(be, 4, 1000000, &passed), ST_OK);
    cr_assert(passed);
    cr_assert_eq(op->event_elapsed(be, 3, 4, &ns), ST_OK);
    cr_assert_eq(op->read(be, back, f32_view(dev, 0, 1, 16, 16)), ST_OK);
    cr_assert_arr_eq(back, p, sizeof back);
    op->free(be, host);
    op->free(be, dev);
    op->close(be);
}

Test(cuda, memory_that_is_not_there)
{
    struct backend *be = open_gpu();
    const struct backend_ops *op = backend_ops_of(be);
    struct buf *b = NULL;
    cr_assert_eq(op->alloc(be, (size_t)1 << 60, MEM_DEVICE, &b), ST_NOMEM);
    emulator_memory(0);
    cr_assert_eq(op->alloc(be, 1000, MEM_DEVICE, &b), ST_NOMEM);
    check_says("out of memory");
    cr_assert_null(b);
    emulator_memory((size_t)8 << 30);
    cr_assert_eq(op->alloc(be, 1000, MEM_DEVICE, &b), ST_OK); /* the failure is not sticky */
    op->free(be, b);
    op->close(be);
}

static void check_reserve(struct backend *be, struct mem_plan plan, enum status st,
                          const char *word)
{
    cr_assert_eq(backend_ops_of(be)->reserve(be, &plan), st);
    check_says(word);
}

/* One block of the device and one of the host, whatever is taken of them. */
Test(cuda, memory_of_a_plan_is_one_block)
{
    struct backend *be = NULL;
    struct backend_config cfg = {.planned = true};
    struct buf *b = NULL;
    struct emulator_calls before = emulator_counts();
    size_t n_blocks, in_use;
    cr_assert_eq(backend_open(&be, "cuda", &cfg), ST_OK, "%s", status_detail());
    const struct backend_ops *op = backend_ops_of(be);
    cr_assert_eq(op->alloc(be, 8, MEM_DEVICE, &b), ST_BUG);
    check_says("before memory is reserved");
    cr_assert_eq(emulator_counts().allocations, before.allocations, "opening takes memory");
    struct mem_plan plan = plan_of(be, 4096, 1024), used;
    cr_assert_eq(op->reserve(be, &plan), ST_OK, "%s", status_detail());
    cr_assert_eq(emulator_counts().allocations, before.allocations + 2);
    in_use = emulator_in_use(&n_blocks);
    cr_assert_eq(n_blocks, 1);
    cr_assert_eq(in_use, plan.part[PART_OWN] + 4096 + 1024);
    op->used(be, &used);
    cr_assert_eq(used.part[PART_OWN], plan.part[PART_OWN]);
    cr_assert_eq(used.part[PART_KV] + used.part[PART_WEIGHTS] + used.pinned, 0);
    cr_assert_eq(op->reserve(be, &plan), ST_BUG);
    check_says("once");
    op->close(be);
    emulator_in_use(&n_blocks);
    cr_assert_eq(n_blocks, 0);
}

/* The collective's memory is there, and used, before the rest is planned. */
Test(cuda, memory_of_the_collective_is_a_block_of_its_own)
{
    struct backend *be = NULL;
    struct backend_config cfg = {.planned = true};
    struct backend_info info;
    struct mem_plan used, coll = {.part = {[PART_COLL] = 512}, .pinned = 256};
    struct buf *area, *word, *kv, *none = NULL;
    size_t n_blocks, before = emulator_in_use(&n_blocks);
    cr_assert_eq(backend_open(&be, "cuda", &cfg), ST_OK, "%s", status_detail());
    const struct backend_ops *op = backend_ops_of(be);
    cr_assert_eq(op->reserve(be, &coll), ST_OK, "%s", status_detail());
    cr_assert_eq(emulator_in_use(&n_blocks), before + 512);
    backend_part(be, PART_COLL);
    cr_assert_eq(op->alloc(be, 512, MEM_DEVICE, &area), ST_OK, "%s", status_detail());
    cr_assert_eq(op->alloc(be, 64, MEM_PINNED, &word), ST_OK, "%s", status_detail());
    op->info(be, &info);
    cr_assert_gt(info.mem_own, 0u, "the backend's own memory is still to be taken");
    check_reserve(be, coll, ST_BUG, "once");
    backend_part(be, PART_KV);
    cr_assert_eq(op->alloc(be, 8, MEM_DEVICE, &none), ST_BUG);
    struct mem_plan plan = plan_of(be, 4096, 1024);
    cr_assert_eq(op->reserve(be, &plan), ST_OK, "%s", status_detail());
    backend_part(be, PART_KV);
    cr_assert_eq(op->alloc(be, 4096, MEM_DEVICE, &kv), ST_OK, "%s", status_detail());
    op->used(be, &used);
    cr_assert_eq(used.part[PART_COLL], 512);
    cr_assert_eq(used.part[PART_KV], 4096);
    cr_assert_eq(used.pinned, 256);
    op->free(be, kv);
    op->free(be, word);
    op->free(be, area);
    op->close(be);
    cr_assert_eq(emulator_in_use(&n_blocks), before);
}

/* A part that is larger than planned is named, and nothing is taken elsewhere. */
Test(cuda, a_plan_is_given_out_to_its_end)
{
    struct backend *be = open_planned(1024 + 256, 512);
    const struct backend_ops *op = backend_ops_of(be);
    struct emulator_calls before = emulator_counts();
    struct mem_plan used;
    struct buf *a, *b, *c = NULL, *pinned;
    cr_assert_eq(op->alloc(be, 1000, MEM_DEVICE, &a), ST_OK);
    cr_assert_eq(op->alloc(be, 256, MEM_DEVICE, &b), ST_OK);
    cr_assert_eq(op->alloc(be, 1, MEM_DEVICE, &c), ST_BUG);
    check_says("1280 bytes for the KV cache, of which 1280 are taken");
    op->free(be, b);
    cr_assert_eq(op->alloc(be, 200, MEM_DEVICE, &b), ST_OK); /* what was last comes back */
    backend_part(be, PART_SCRATCH);
    cr_assert_eq(op->alloc(be, 1, MEM_DEVICE, &c), ST_BUG);
    check_says("0 bytes for scratch");
    backend_part(be, PART_WEIGHTS);
    cr_assert_eq(op->alloc(be, SIZE_MAX - 5, MEM_DEVICE, &c), ST_BUG);
    check_says("weights");
    cr_assert_eq(op->alloc(be, 500, MEM_PINNED, &pinned), ST_OK);
    cr_assert_eq(op->alloc(be, 1, MEM_PINNED, &c), ST_BUG);
    check_says("pinned memory");
    op->used(be, &used);
    cr_assert_eq(used.part[PART_KV], 1280);
    cr_assert_eq(used.part[PART_WEIGHTS], 0);
    cr_assert_eq(used.pinned, 512);
    cr_assert_null(c);
    cr_assert_eq(emulator_counts().allocations, before.allocations);
    op->free(be, pinned);
    op->free(be, b);
    op->free(be, a);
    op->close(be);
}

/* Another process maps the whole block: the handle says where in it the area is. */
static void check_area(struct backend *be)
{
    struct oneshot mine = {.world = 2, .piece_bytes = 1024}, other = {.rank = 1, .world = 2};
    unsigned char handle[ONESHOT_HANDLE_BYTES];
    struct buf *before, *area = NULL;
    backend_part(be, PART_COLL);
    cr_assert_eq(backend_ops_of(be)->alloc(be, 100, MEM_DEVICE, &before), ST_OK);
    cr_assert_eq(oneshot_make_area(be, &mine, &area, handle), ST_OK, "%s", status_detail());
    cr_assert_eq(oneshot_map_area(&other, 0, handle), ST_OK, "%s", status_detail());
    cr_assert_eq(mine.area[0], cuda_device_ptr((struct view){.buf = area}));
    cr_assert_eq(other.area[0], mine.area[0]);
    oneshot_unmap_areas(&other);
    backend_ops_of(be)->free(be, area);
    backend_ops_of(be)->free(be, before);
}

Test(cuda, areas_of_collectives_are_shared_with_their_block)
{
    struct backend *own = open_gpu(), *planned = NULL;
    struct backend_config cfg = {.planned = true};
    check_area(own);
    cr_assert_eq(backend_open(&planned, "cuda", &cfg), ST_OK);
    size_t coll = 256 + alloc_bytes(oneshot_area_bytes(1024));
    struct mem_plan plan = {.part = {[PART_COLL] = coll}};
    cr_assert_eq(backend_ops_of(planned)->reserve(planned, &plan), ST_OK);
    check_area(planned);
    backend_ops_of(planned)->close(planned);
    backend_ops_of(own)->close(own);
}

Test(cuda, plans_that_cannot_be)
{
    struct backend *be = NULL, *free_one = open_gpu();
    struct backend_config cfg = {.planned = true};
    size_t n_blocks, before = emulator_in_use(&n_blocks), mem_free, total;
    char numbers[64];
    cr_assert_eq(backend_open(&be, "cuda", &cfg), ST_OK, "%s", status_detail());
    struct mem_plan plan = plan_of(be, 1 << 20, 0);
    check_reserve(free_one, plan, ST_BUG, "opened for it");
    plan.part[PART_OWN]--;
    check_reserve(be, plan, ST_BUG, "for the backend, which wants");
    plan.part[PART_OWN]++;
    plan.part[PART_COLL] = 256;
    check_reserve(be, plan, ST_BUG, "a call of its own");
    plan.part[PART_COLL] = 0;
    cr_assert_eq(cudaMemGetInfo(&mem_free, &total), cudaSuccess);
    snprintf(numbers, sizeof numbers, "%zu of its %zu bytes free", mem_free, total);
    plan.part[PART_KV] = mem_free - plan.part[PART_OWN] + 1;
    check_reserve(be, plan, ST_NOMEM, numbers);
    plan.part[PART_KV]--;
    plan.driver = 1; /* the graphs would not fit */
    check_reserve(be, plan, ST_NOMEM, "and 1 for the driver");
    plan.part[PART_KV] = SIZE_MAX;
    check_reserve(be, plan, ST_NOMEM, "larger than any device");
    cr_assert_eq(emulator_in_use(&n_blocks), before);
    backend_ops_of(be)->close(be);
    backend_ops_of(free_one)->close(free_one);
}

/* What load_weight takes is what weight_bytes says. */
static void check_weight(struct backend *be, const struct weight_src *src)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct mem_plan used;
    struct weight *w;
    cr_assert_eq(op->load_weight(be, src, &w), ST_OK, "%s", status_detail());
    op->used(be, &used);
    cr_assert_eq(used.part[PART_KV], op->weight_bytes(be, src), "%s", src->name);
    op->free_weight(be, w);
    op->used(be, &used);
    cr_assert_eq(used.part[PART_KV], 0);
}

Test(cuda, weight_bytes_are_exact)
{
    struct backend *be = open_planned(1 << 20, 0);
    static float data[200 * 300];
    struct weight_src src = {.name = "norm", .vector = true, .cols = 77, .n_parts = 1};
    src.part[0] = (struct weight_part){.data = data, .dtype = DT_BF16, .rows = 1};
    check_weight(be, &src);
    src = (struct weight_src){.name = "one", .cols = 100, .n_parts = 1, .n_slices = 1};
    src.slice_end[0] = 100;
    src.part[0] = (struct weight_part){.data = data, .row_bytes = 200, .dtype = DT_F16, .rows = 33};
    check_weight(be, &src);
    src.name = "mixed, with a bias";
    src.n_parts = 3;
    src.part[1] = (struct weight_part){.data = data,
                                       .row_bytes = 400,
                                       .dtype = DT_F32,
                                       .rows = 50,
                                       .bias = data,
                                       .bias_dtype = DT_F32};
    src.part[2] = (struct weight_part){.data = data, .row_bytes = 200, .dtype = DT_BF16, .rows = 0};
    check_weight(be, &src);
    src = (struct weight_src){.name = "empty", .cols = 0, .n_parts = 1, .n_slices = 1};
    src.part[0] = (struct weight_part){.data = data, .dtype = DT_F16, .rows = 5};
    check_weight(be, &src);
    backend_ops_of(be)->close(be);
}

Test(cuda, weights_that_cannot_be_loaded)
{
    struct backend *be = open_gpu();
    const struct backend_ops *op = backend_ops_of(be);
    struct weight *w = NULL;
    float data[64] = {0};
    struct weight_src src = {.name = "w1", .cols = 32, .n_parts = 1, .n_slices = 1};
    src.slice_end[0] = 32;
    src.part[0] = (struct weight_part){.data = data, .row_bytes = 64, .dtype = DT_BF16, .rows = 2};
    src.slice_end[0] = 31;
    cr_assert_eq(op->load_weight(be, &src, &w), ST_RANGE);
    check_says("w1");
    src.slice_end[0] = 32;
    src.n_parts = 4;
    cr_assert_eq(op->load_weight(be, &src, &w), ST_RANGE);
    src.n_parts = 1;
    src.part[0].rows = -1;
    cr_assert_eq(op->load_weight(be, &src, &w), ST_RANGE);
    src.part[0].rows = 2;
    src.part[0].dtype = DT_I8;
    cr_assert_eq(op->load_weight(be, &src, &w), ST_UNSUPPORTED);
    check_says("i8");
    src.part[0].dtype = DT_BF16;
    emulator_memory(0);
    cr_assert_eq(op->load_weight(be, &src, &w), ST_NOMEM);
    cr_assert_null(w);
    op->close(be);
}

Test(cuda, a_failed_kernel_is_named_and_stays)
{
    struct backend *be = open_gpu();
    const struct backend_ops *op = backend_ops_of(be);
    struct buf *b;
    cr_assert_eq(op->alloc(be, 4096, MEM_DEVICE, &b), ST_OK);
    struct view v = f32_view(b, 0, 4, 16, 16);
    emulator_fail_launch(2);
    cr_assert_eq(op->add(be, v, v, 1.0f), ST_OK);
    cr_assert_eq(op->add(be, v, v, 1.0f), ST_DEVICE);
    check_says("add_kernel");
    check_says("told to fail");
    cr_assert_eq(op->add(be, v, v, 1.0f), ST_DEVICE); /* as after a real fault: until the end */
    cr_assert_eq(op->sync(be), ST_DEVICE);
    op->free(be, b);
    op->close(be);
}

/* Programmatic launch is for code that waits: PTX for compute_80 has no griddepcontrol, also when it was
 * translated for a newer device. */
Test(cuda, only_code_that_waits_begins_early)
{
    static const struct {
        int ptx;
        bool early;
    } rows[] = {{80, false}, {89, false}, {90, true}, {100, true}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        emulator_ptx(rows[i].ptx);
        struct backend *be = open_gpu();
        const struct backend_ops *op = backend_ops_of(be);
        struct graph *g = NULL;
        struct buf *b;
        cr_assert_eq(op->alloc(be, 4096, MEM_DEVICE, &b), ST_OK);
        struct view v = f32_view(b, 0, 4, 16, 16);
        struct emulator_calls before = emulator_counts();
        cr_assert_eq(op->add(be, v, v, 1.0f), ST_OK, "%s", status_detail());
        cr_assert_eq(op->add(be, v, v, 1.0f), ST_OK);
        cr_assert_eq(op->graph_begin(be), ST_OK);
        cr_assert_eq(op->add(be, v, v, 1.0f), ST_OK);
        cr_assert_eq(op->graph_end(be, &g), ST_OK);
        cr_assert_eq(emulator_counts().early - before.early, rows[i].early ? 3 : 0, "PTX %d",
                     rows[i].ptx);
        op->graph_free(be, g);
        op->free(be, b);
        op->close(be);
    }
}

/* The fault of a kernel arrives at a wait, behind launches that were accepted. */
Test(cuda, a_late_fault_names_the_kernels_under_way)
{
    struct backend *be = open_gpu();
    const struct backend_ops *op = backend_ops_of(be);
    struct buf *b;
    bool passed = false;
    cr_assert_eq(op->alloc(be, 4096, MEM_DEVICE, &b), ST_OK);
    struct view v = f32_view(b, 0, 4, 16, 16);
    emulator_defer(true);
    cr_assert_eq(op->soft_cap(be, v, 3.0f), ST_OK); /* ended, and not named below */
    cr_assert_eq(op->event_mark(be, 2), ST_OK);
    cr_assert_eq(op->event_wait(be, 2, 1000000, &passed), ST_OK);
    cr_assert(passed);
    emulator_fail_launch(2);
    cr_assert_eq(op->add(be, v, v, 1.0f), ST_OK);
    cr_assert_eq(op->scale(be, v, 2.0f), ST_OK);
    cr_assert_eq(op->scale(be, v, 2.0f), ST_OK);
    cr_assert_eq(op->sync(be), ST_DEVICE);
    check_says("told to fail");
    check_says("under way: 3 kernels, from add_kernel to scale_kernel");
    cr_assert_eq(op->add(be, v, v, 1.0f), ST_DEVICE);
    check_says("under way: 3 kernels");
    emulator_defer(false);
    op->free(be, b);
    op->close(be);
}

Test(cuda, events_that_were_never_marked)
{
    struct backend *be = open_gpu();
    uint64_t ns;
    cr_assert_eq(backend_ops_of(be)->event_elapsed(be, 0, 1, &ns), ST_DEVICE);
    backend_ops_of(be)->close(be);
}
