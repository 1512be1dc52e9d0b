/* The CPU backend's interface beside the ops: opening, memory, weights, refusals. */
#include <criterion/criterion.h>
#include <string.h>

#include "backends/backend.h"

static struct backend *open_auto(void)
{
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, "cpu", &(struct backend_config){.threads = 2}), ST_OK);
    return be;
}

static void check_refused(const char *name, struct backend_config cfg, enum status st,
                          const char *word)
{
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, name, &cfg), st);
    cr_assert_null(be);
    cr_assert_not_null(strstr(status_text(), word), "'%s' does not name '%s'", status_text(), word);
}

Test(backend, impossible_settings_are_refused_by_name)
{
    check_refused("gpu9", (struct backend_config){0}, ST_UNSUPPORTED, "gpu9");
    check_refused("cpu", (struct backend_config){.isa = "mmx"}, ST_UNSUPPORTED, "mmx");
    check_refused("cpu", (struct backend_config){.threads = -1}, ST_RANGE, "-1");
    check_refused("cpu", (struct backend_config){.threads = 5000}, ST_RANGE, "5000");
}

Test(backend, info_names_the_device)
{
    struct backend *be = open_auto();
    struct backend_info info;
    backend_ops_of(be)->info(be, &info);
    cr_assert_not_null(strstr(info.device, "CPU "));
    cr_assert_not_null(strstr(info.device, " thread"));
    cr_assert(info.mem_free > 0 && info.mem_total >= info.mem_free);
    cr_assert(info.kv_types & 1U << DT_F16);
    cr_assert(!info.graphs);
    backend_ops_of(be)->close(be);
}

Test(backend, never_more_threads_than_allowed)
{
    struct backend *be = NULL;
    struct backend_info all, many;
    cr_assert_eq(backend_open(&be, "cpu", &(struct backend_config){0}), ST_OK);
    backend_ops_of(be)->info(be, &all);
    backend_ops_of(be)->close(be);
    cr_assert_eq(backend_open(&be, "cpu", &(struct backend_config){.threads = 1000}), ST_OK);
    backend_ops_of(be)->info(be, &many);
    backend_ops_of(be)->close(be);
    cr_assert_str_eq(all.device, many.device);
}

Test(backend, memory_is_zero_aligned_and_moves_by_rows)
{
    struct backend *be = open_auto();
    const struct backend_ops *ops = backend_ops_of(be);
    const size_t sizes[] = {0, 1, 100, 4096, (1 << 20) - 1, 1 << 20, (5 << 20) + 13};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct buf *b = NULL;
        cr_assert_eq(ops->alloc(be, sizes[i], MEM_PINNED, &b), ST_OK);
        struct view v = {.buf = b,
                         .rows = 1,
                         .cols = (int32_t)sizes[i],
                         .stride = (int32_t)sizes[i],
                         .dtype = DT_I8};
        const char *p = ops->host_ptr(be, v);
        cr_assert_eq((uintptr_t)p % 64, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            if (p[j] != 0)
                cr_assert_fail("byte %zu of %zu is %d", j, sizes[i], p[j]);
        ops->free(be, b);
    }
    struct buf *b = NULL;
    cr_assert_eq(ops->alloc(be, SIZE_MAX - 100, MEM_DEVICE, &b), ST_NOMEM);
    cr_assert_null(b);
    ops->free(be, NULL);
    ops->close(be);
}

Test(backend, write_read_copy_zero_touch_their_window_only)
{
    struct backend *be = open_auto();
    const struct backend_ops *ops = backend_ops_of(be);
    float in[6] = {1, 2, 3, 4, 5, 6}, out[6], all[4 * 5];
    struct buf *b = NULL;
    cr_assert_eq(ops->alloc(be, sizeof all, MEM_DEVICE, &b), ST_OK);
    struct view whole = {.buf = b, .rows = 4, .cols = 5, .stride = 5, .dtype = DT_F32};
    struct view win = {
        .buf = b, .off = 6 * sizeof(float), .rows = 3, .cols = 2, .stride = 5, .dtype = DT_F32};
    struct view other = {
        .buf = b, .off = 8 * sizeof(float), .rows = 3, .cols = 2, .stride = 5, .dtype = DT_F32};
    cr_assert_eq(ops->write(be, win, in), ST_OK);
    cr_assert_eq(ops->copy(be, other, win), ST_OK);
    cr_assert_eq(ops->read(be, out, other), ST_OK);
    cr_assert_arr_eq(in, out, sizeof in);
    other.rows = 1;
    cr_assert_eq(ops->zero(be, other), ST_OK);
    cr_assert_eq(ops->read(be, all, whole), ST_OK);
    const float want[] = {0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 4, 3, 4, 0, 5, 6, 5, 6};
    cr_assert_arr_eq(all, want, sizeof want);
    ops->free(be, b);
    ops->close(be);
}

static void check_bad_weight(struct backend *be, struct weight_src src, enum status st,
                             const char *word)
{
    struct weight *w = NULL;
    src.name = "blk.7.bad";
    cr_assert_eq(backend_ops_of(be)->load_weight(be, &src, &w), st);
    cr_assert_null(w);
    cr_assert_not_null(strstr(status_text(), "blk.7.bad"), "%s", status_text());
    cr_assert_not_null(strstr(status_text(), word), "%s", status_text());
}

Test(backend, bad_weights_are_refused_by_name)
{
    struct backend *be = open_auto();
    static const float data[64];
    struct weight_src good = {
        .cols = 8,
        .n_parts = 1,
        .n_slices = 1,
        .slice_end = {8},
        .part = {{.data = data, .row_bytes = 32, .dtype = DT_F32, .rows = 8}}};
    struct weight_src bad = good;
    bad.part[0].dtype = DT_I32;
    check_bad_weight(be, bad, ST_UNSUPPORTED, "i32");
    bad = good;
    bad.part[0].bias = data;
    bad.part[0].bias_dtype = DT_E4M3;
    check_bad_weight(be, bad, ST_UNSUPPORTED, "e4m3");
    bad = good;
    bad.n_slices = 3;
    check_bad_weight(be, bad, ST_RANGE, "3 slices");
    bad = good;
    bad.n_slices = 2;
    bad.slice_end[1] = 7;
    check_bad_weight(be, bad, ST_RANGE, "slice 1");
    bad = good;
    bad.n_parts = 4;
    check_bad_weight(be, bad, ST_RANGE, "4 parts");
    bad = good;
    bad.cols = -1;
    check_bad_weight(be, bad, ST_RANGE, "-1 columns");
    bad = good;
    bad.cols = bad.slice_end[0] = 100 << 20;
    check_bad_weight(be, bad, ST_UNSUPPORTED, "104857600 columns");
    backend_ops_of(be)->close(be);
}

Test(backend, weight_bytes_grow_with_whole_panels)
{
    struct backend *be = open_auto();
    const struct backend_ops *ops = backend_ops_of(be);
    struct weight_src src = {.name = "w",
                             .cols = 64,
                             .n_parts = 1,
                             .n_slices = 1,
                             .slice_end = {64},
                             .part = {{.row_bytes = 128, .dtype = DT_BF16, .rows = 32}}};
    size_t one = ops->weight_bytes(be, &src);
    src.part[0].rows = 33;
    cr_assert_eq(ops->weight_bytes(be, &src) - one, 64 * 32 * 2);
    src.part[0].rows = 64;
    cr_assert_eq(ops->weight_bytes(be, &src) - one, 64 * 32 * 2);
    src.cols = src.slice_end[0] = 1 << 20;
    cr_assert_geq(ops->weight_bytes(be, &src), (size_t)64 * 2 << 20);
    cr_assert_leq(ops->weight_bytes(be, &src), ((size_t)64 * 2 << 20) + 8192);
    ops->close(be);
}

Test(backend, limits_that_ops_state)
{
    struct backend *be = open_auto();
    const struct backend_ops *ops = backend_ops_of(be);
    struct attn_layer al = {.n_q = 1, .n_kv = 1, .d_head = 100000, .q_per_kv = 1};
    struct step_dev st = {0};
    struct view none = {0};
    cr_assert_eq(ops->attention(be, &al, &st, none, (struct kv_layer){0}, none), ST_UNSUPPORTED);
    cr_assert_not_null(strstr(status_text(), "100000"));
    ops->close(be);
}

Test(backend, events_measure_forward)
{
    struct backend *be = open_auto();
    const struct backend_ops *ops = backend_ops_of(be);
    uint64_t ns = UINT64_MAX;
    cr_assert_eq(ops->event_mark(be, 0), ST_OK);
    cr_assert_eq(ops->event_mark(be, 15), ST_OK);
    cr_assert_eq(ops->sync(be), ST_OK);
    cr_assert_eq(ops->event_elapsed(be, 0, 15, &ns), ST_OK);
    cr_assert_lt(ns, UINT64_C(1000000000) * 60);
    ops->close(be);
}
