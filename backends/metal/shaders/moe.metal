/* Mixtures of experts: products of experts for the pairs (token, expert) of some tokens, sorted by
 * expert. */

/* One group.  A pair is token * top_k + i.
 *   start [E + 1]       first place of each expert's pairs
 *   first_tile [E + 1]  the same in tiles of a.tile pairs of one expert
 *   pair                by place: ascending in an expert
 *   place               by pair */
KERNEL moe_group(constant struct metal_group_args &a BUF(0), const device int32_t *ids BUF(1),
                 device int32_t *start BUF(2), device int32_t *first_tile BUF(3),
                 device int32_t *pair BUF(4), device int32_t *place BUF(5), GRID)
{
    SHARED(int32_t, at, [MOE_MAX_EXPERTS]);
    (void)group, (void)lane, (void)simd;
    for (int e = (int)index; e < a.n_experts; e += METAL_STRIP) {
        int n = 0;
        for (int64_t t = 0; t < a.n_tokens; t++)
            for (int i = 0; i < a.top_k; i++)
                n += ids[t * a.id_stride + i] == e ? 1 : 0;
        at[e] = n;
    }
    BARRIER(); /* pairs are counted */
    if (index == 0) {
        int first = 0, tile = 0;
        for (int e = 0; e < a.n_experts; e++) {
            int n = at[e];
            start[e] = at[e] = first;
            first_tile[e] = tile;
            first += n;
            tile += (n + a.tile - 1) / a.tile;
        }
        start[a.n_experts] = first;
        first_tile[a.n_experts] = tile;
    }
    BARRIER(); /* counts are places now */
    for (int e = (int)index; e < a.n_experts; e += METAL_STRIP) {
        int to = at[e];
        for (int64_t t = 0; t < a.n_tokens; t++)
            for (int i = 0; i < a.top_k; i++)
                if (ids[t * a.id_stride + i] == e) {
                    pair[to] = (int)t * a.top_k + i;
                    place[t * a.top_k + i] = to++;
                }
    }
}

/* The expert whose tiles include `tile`: the last one whose first is not behind it. */
static inline int expert_of(const device int32_t *first_tile, int n_experts, int tile)
{
    int lo = 0, hi = n_experts - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (first_tile[mid] <= tile)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* As linear_rows, a tile of pairs on group.y: an expert's weights are read once for a tile. */
template <int TYPE>
static inline void expert_rows(constant struct metal_experts_args &a, const device uint8_t *w,
                               const device float *x, const device int32_t *start,
                               const device int32_t *first_tile, const device int32_t *pair,
                               device float *out, uint3 group, uint lane, uint simd)
{
    int row = (int)group.x * METAL_LINEAR_SIMDS + (int)simd, tile = (int)group.y;
    float sum[METAL_LINEAR_TOKENS * METAL_MAX_SLICES];
    int64_t at[METAL_LINEAR_TOKENS];
    if (row >= a.rows || tile >= first_tile[a.n_experts])
        return; /* the whole simdgroup */
    int e = expert_of(first_tile, a.n_experts, tile);
    int first = start[e] + (tile - first_tile[e]) * METAL_LINEAR_TOKENS, n = start[e + 1] - first;
    n = n < METAL_LINEAR_TOKENS ? n : METAL_LINEAR_TOKENS;
    for (int t = 0; t < METAL_LINEAR_TOKENS; t++) {
        int i = first + (t < n ? t : 0);
        at[t] = (int64_t)(a.by_token != 0 ? pair[i] / a.top_k : i) * a.x_stride;
    }
    w += (int64_t)e * a.expert_step * 16;
    row_sums<TYPE>(a.form, w, w + a.form.head + (int64_t)(a.first + row) * a.row_bytes, x, at,
                   n, a.n_slices, a.slice_end, sum, lane);
    for (int t = 0; t < n && lane == 0; t++) {
        thread float *v = sum + t * METAL_MAX_SLICES;
        if (a.by_slice != 0)
            for (int s = 0; s < a.n_slices; s++)
                out[((int64_t)(first + t) * a.n_slices + s) * a.out_stride + row] = v[s];
        else
            out[(int64_t)(first + t) * a.out_stride + row] = slice_tree(v, a.n_slices);
    }
}

/* Groups: [rows of w / METAL_LINEAR_SIMDS, tiles at most]. */
#define EXPERTS(name, type)                                                                        \
    KERNEL name(constant struct metal_experts_args &a BUF(0), const device uint8_t *w BUF(1),      \
                const device float *x BUF(2), const device int32_t *start BUF(3),                  \
                const device int32_t *first_tile BUF(4), const device int32_t *pair BUF(5),        \
                device float *out BUF(6), GRID)                                                    \
    {                                                                                              \
        (void)index;                                                                               \
        expert_rows<type>(a, w, x, start, first_tile, pair, out, group, lane, simd);               \
    }
#define EXPERTS_OF(a, b, name, type) EXPERTS(experts_##name, type)
METAL_EACH_TYPE(EXPERTS_OF, , )

/* A row of mid, in place: gate | up, or up alone, of the pair at a place becomes the input of down.
 * Groups: [pairs, strips of columns]. */
KERNEL moe_act(constant struct metal_act_args &a BUF(0), const device int32_t *pair BUF(1),
               const device int32_t *ids BUF(2), const device float *weights BUF(3),
               const device float *bias BUF(4), device float *mid BUF(5), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index);
    if (i >= a.ffn)
        return;
    device float *m = mid + (int64_t)group.x * a.mid_stride + i;
    int token = pair[group.x] / a.top_k, at = pair[group.x] % a.top_k;
    float g = m[0], up = a.up_alone != 0 ? 1.0f : m[a.ffn];
    if (a.has_bias != 0) {
        const device float *b = bias + (int64_t)ids[(int64_t)token * a.id_stride + at] * 2 * a.ffn;
        g += b[i];
        up += b[a.ffn + i];
    }
    if (a.weigh_input != 0) {
        float weight = weights[(int64_t)token * a.weight_stride + at];
        g *= weight;
        up *= weight;
    }
    m[0] = expert_hidden((enum act)a.act, g, up, a.up_alone != 0, a.glu_limit, a.glu_alpha);
}

/* The input of the expert of the pair at a place, rounded by the scale of that expert; out may be x where rows are by
 * place.  Groups: [pairs, strips of columns]. */
KERNEL round_experts(constant struct metal_round_experts_args &a BUF(0), const device float *x BUF(1),
                     const device int32_t *pair BUF(2), const device int32_t *ids BUF(3),
                     device float *out BUF(4), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index), token = pair[group.x] / a.top_k;
    if (i >= a.n)
        return;
    int e = ids[(int64_t)token * a.id_stride + pair[group.x] % a.top_k];
    int64_t row = a.by_token != 0 ? token : (int)group.x;
    out[(int64_t)group.x * a.out_stride + i] =
        on_grid((enum input_grid)a.grid, x[row * a.x_stride + i], a.scale[e]);
}

/* A token's experts in ascending order, which is that of their places, within each slice of sums
 * [pairs, n_slices, n]; then the slices as a tree.  Groups: [tokens, strips of columns]. */
KERNEL moe_sum(constant struct metal_sum_args &a BUF(0), const device float *sums BUF(1),
               const device int32_t *place BUF(2), const device float *weights BUF(3),
               device float *out BUF(4), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index), last = -1;
    const device int32_t *mine = place + (int64_t)group.x * a.top_k;
    float acc[METAL_MAX_SLICES];
    if (i >= a.n)
        return;
    for (int s = 0; s < a.n_slices; s++)
        acc[s] = 0.0f;
    for (int j = 0; j < a.top_k; j++) {
        int which = -1;
        for (int m = 0; m < a.top_k; m++)
            if (mine[m] > last && (which < 0 || mine[m] < mine[which]))
                which = m;
        last = mine[which];
        float weight =
            a.weighs != 0 ? weights[(int64_t)group.x * a.weight_stride + which] : 1.0f;
        for (int s = 0; s < a.n_slices; s++)
            acc[s] = fmaf(weight, sums[((int64_t)last * a.n_slices + s) * a.n + i], acc[s]);
    }
    out[(int64_t)group.x * a.out_stride + i] = slice_tree(acc, a.n_slices);
}
