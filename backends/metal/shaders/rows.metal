/* Ops over rows.  Rows are on group.x, strips of METAL_STRIP elements on group.y. */

static inline int strip_at(uint3 group, uint index)
{
    return (int)group.y * METAL_STRIP + (int)index;
}

static inline device uint8_t *byte_row(device uint8_t *p, uint row, int step)
{
    return p + (int64_t)row * step;
}

KERNEL copy_bytes(constant struct metal_move_args &a BUF(0), const device uint8_t *src BUF(1),
                  device uint8_t *dst BUF(2), GRID)
{
    (void)lane, (void)simd;
    const device uint8_t *from = src + (int64_t)group.x * a.src_step;
    device uint8_t *to = byte_row(dst, group.x, a.dst_step);
    int at = METAL_BYTES_OF_THREAD * strip_at(group, index);
    for (int i = at; i < at + METAL_BYTES_OF_THREAD && i < a.n_bytes; i++)
        to[i] = from[i];
}

KERNEL zero_bytes(constant struct metal_move_args &a BUF(0), device uint8_t *dst BUF(1), GRID)
{
    (void)lane, (void)simd;
    device uint8_t *to = byte_row(dst, group.x, a.dst_step);
    int at = METAL_BYTES_OF_THREAD * strip_at(group, index);
    for (int i = at; i < at + METAL_BYTES_OF_THREAD && i < a.n_bytes; i++)
        to[i] = 0;
}

/* A row's sum: thread j adds elements j, j + 256, ... in one chain; then block_sum. */

KERNEL add_rms_norm(constant struct metal_norm_args &a BUF(0), device float *resid BUF(1),
                    const device float *x BUF(2), const device float *x_bias BUF(3),
                    const device float *w BUF(4), device float *out BUF(5), GRID)
{
    SHARED(float, part, [32]);
    device float *r = resid + (int64_t)group.x * a.resid_stride;
    const device float *add = x + (int64_t)group.x * a.x_stride;
    device float *o = out + (int64_t)group.x * a.out_stride;
    float sum = 0.0f;
    for (int i = (int)index; i < a.d; i += METAL_NORM_THREADS) {
        float v = r[i];
        if (a.has_x != 0) {
            v = v + (a.has_bias != 0 ? add[i] + x_bias[i] : add[i]);
            r[i] = v;
        }
        sum = fmaf(v, v, sum);
    }
    sum = block_sum(sum, part, lane, simd, METAL_NORM_THREADS / 32);
    float scale = 1.0f / sqrtf(sum / (float)a.d + a.eps);
    for (int i = (int)index; i < a.d; i += METAL_NORM_THREADS)
        o[i] = r[i] * scale * w[i];
}

/* Three times over the row: mean, variance, output. */
KERNEL layer_norm(constant struct metal_norm_args &a BUF(0), const device float *x BUF(1),
                  const device float *w BUF(2), const device float *b BUF(3),
                  device float *out BUF(4), GRID)
{
    SHARED(float, part, [32]);
    const device float *r = x + (int64_t)group.x * a.x_stride;
    device float *o = out + (int64_t)group.x * a.out_stride;
    float sum = 0.0f, squares = 0.0f;
    for (int i = (int)index; i < a.d; i += METAL_NORM_THREADS)
        sum += r[i];
    float mean = block_sum(sum, part, lane, simd, METAL_NORM_THREADS / 32) / (float)a.d;
    for (int i = (int)index; i < a.d; i += METAL_NORM_THREADS)
        squares = fmaf(r[i] - mean, r[i] - mean, squares);
    squares = block_sum(squares, part, lane, simd, METAL_NORM_THREADS / 32);
    float scale = 1.0f / sqrtf(squares / (float)a.d + a.eps);
    for (int i = (int)index; i < a.d; i += METAL_NORM_THREADS) {
        float v = (r[i] - mean) * scale;
        o[i] = a.has_bias != 0 ? fmaf(v, w[i], b[i]) : v * w[i];
    }
}

KERNEL act_mul(constant struct metal_rows_args &a BUF(0), const device float *gate_up BUF(1),
               device float *out BUF(2), GRID)
{
    (void)lane, (void)simd;
    const device float *g = gate_up + (int64_t)group.x * a.in_stride;
    int i = strip_at(group, index);
    if (i < a.n)
        out[(int64_t)group.x * a.out_stride + i] = activated((enum act)a.act, g[i]) * g[a.n + i];
}

KERNEL activate(constant struct metal_rows_args &a BUF(0), const device float *x BUF(1),
                device float *out BUF(2), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index);
    if (i < a.n)
        out[(int64_t)group.x * a.out_stride + i] =
            activated((enum act)a.act, x[(int64_t)group.x * a.in_stride + i]);
}

KERNEL scale(constant struct metal_rows_args &a BUF(0), device float *x BUF(1), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index);
    if (i < a.n) {
        device float *v = x + (int64_t)group.x * a.out_stride + i;
        *v = a.factor * *v;
    }
}

KERNEL soft_cap(constant struct metal_rows_args &a BUF(0), device float *x BUF(1), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index);
    if (i < a.n) {
        device float *v = x + (int64_t)group.x * a.out_stride + i;
        *v = exact_soft_cap(*v, a.factor);
    }
}

KERNEL add(constant struct metal_rows_args &a BUF(0), const device float *src BUF(1),
           device float *dst BUF(2), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index);
    if (i < a.n) {
        device float *v = dst + (int64_t)group.x * a.out_stride + i;
        *v = fmaf(a.factor, src[(int64_t)group.x * a.in_stride + i], *v);
    }
}

KERNEL gather(constant struct metal_rows_args &a BUF(0), const device float *x BUF(1),
              const device int32_t *row BUF(2), device float *out BUF(3), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index);
    int64_t from = row[(int64_t)group.x * a.index_stride];
    if (i < a.n)
        out[(int64_t)group.x * a.out_stride + i] = x[from * a.in_stride + i];
}
