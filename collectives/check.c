#include "collectives/check.h"

enum status coll_check_config(const struct coll_config *cfg, const char *name)
{
    if (cfg->world < 1 || cfg->world > COLL_MAX_WORLD)
        FAIL(ST_RANGE, "%s: a world of %d ranks (1 to %d are possible)", name, cfg->world,
             (int)COLL_MAX_WORLD);
    if (cfg->rank < 0 || cfg->rank >= cfg->world)
        FAIL(ST_RANGE, "%s: rank %d in a world of %d", name, cfg->rank, cfg->world);
    if (!cfg->be)
        FAIL(ST_RANGE, "%s: no backend", name);
    if (cfg->max_bytes > SIZE_MAX / 2)
        FAIL(ST_RANGE, "%s: max_bytes %zu is too large", name, cfg->max_bytes);
    if (cfg->deadline_ms == 0)
        FAIL(ST_RANGE, "%s: a deadline of 0 ms", name);
    return ST_OK;
}

enum status coll_check_view(const struct coll_config *cfg, struct view v, int n_copies,
                            size_t *bytes)
{
    size_t elem = dtype_size(v.dtype), n;
    if (v.rows < 0 || v.cols < 0 || v.stride != v.cols || elem == 0)
        FAIL(ST_RANGE, "collective over [%d, %d] with stride %d of type %s: must be packed",
             (int)v.rows, (int)v.cols, (int)v.stride, dtype_name(v.dtype));
    if (__builtin_mul_overflow((size_t)v.rows * elem, (size_t)v.cols, bytes) ||
        __builtin_mul_overflow(*bytes, (size_t)n_copies, &n) || n > cfg->max_bytes)
        FAIL(ST_RANGE,
             "collective over %d x [%d, %d] %s: more than the %zu bytes it was opened for",
             n_copies, (int)v.rows, (int)v.cols, dtype_name(v.dtype), cfg->max_bytes);
    return ST_OK;
}

enum status coll_check_reduce(const struct coll_config *cfg, struct view x, enum reduce_op op,
                              size_t *n)
{
    size_t bytes;
    if (x.dtype != DT_F32)
        FAIL(ST_UNSUPPORTED, "all_reduce of %s: only f32", dtype_name(x.dtype));
    if (op != REDUCE_SUM && op != REDUCE_MAX && op != REDUCE_MIN)
        FAIL(ST_UNSUPPORTED, "all_reduce with unknown operation %d", (int)op);
    TRY(coll_check_view(cfg, x, 1, &bytes));
    *n = bytes / sizeof(float);
    return ST_OK;
}

enum status coll_check_gather(const struct coll_config *cfg, struct view src, struct view dst,
                              size_t *bytes)
{
    size_t dst_bytes;
    TRY(coll_check_view(cfg, src, cfg->world, bytes));
    TRY(coll_check_view(cfg, dst, 1, &dst_bytes));
    if (src.dtype != dst.dtype || src.cols != dst.cols ||
        (int64_t)dst.rows != (int64_t)src.rows * cfg->world)
        FAIL(ST_RANGE, "all_gather of [%d, %d] %s from %d ranks into [%d, %d] %s", (int)src.rows,
             (int)src.cols, dtype_name(src.dtype), cfg->world, (int)dst.rows, (int)dst.cols,
             dtype_name(dst.dtype));
    return ST_OK;
}

enum status coll_check_broadcast(const struct coll_config *cfg, struct view x, int root,
                                 size_t *bytes)
{
    if (root < 0 || root >= cfg->world)
        FAIL(ST_RANGE, "broadcast from rank %d in a world of %d", root, cfg->world);
    return coll_check_view(cfg, x, 1, bytes);
}
