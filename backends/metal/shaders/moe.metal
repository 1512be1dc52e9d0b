/* Mixtures of experts: the choice of experts, and their products for the pairs (token, expert) of some
 * tokens, sorted by expert. */

/* An expert's place in the order: the greatest goes first, NaN before all numbers, -0 as +0; then the
 * lower id.  No key is 0. */
static inline uint64_t route_key(float logit, uint32_t id)
{
    uint32_t u = bits_of_f32(logit + 0.0f);
    u = (u & 0x80000000U) != 0 ? ~u : u | 0x80000000U;
    return (uint64_t)(logit == logit ? u : 0xffffffffU) << 32 | (0xffffffffU - id);
}

/* In two halves: simd functions take no 64-bit numbers. */
static inline uint64_t greatest_key(uint64_t key)
{
    for (int apart = 16; apart > 0; apart /= 2) {
        uint high = simd_shuffle_xor((uint)(key >> 32), (ushort)apart);
        uint low = simd_shuffle_xor((uint)key, (ushort)apart);
        uint64_t o = (uint64_t)high << 32 | low;
        key = o > key ? o : key;
    }
    return key;
}

/* The greatest choice of `size` experts, or with `two` the sum of the two greatest. */
static inline float group_score(const threadgroup float *choice, int size, bool two)
{
    float best = choice[0], second = -INFINITY;
    for (int i = 1; i < size; i++) {
        float c = choice[i];
        bool first = route_key(c, 0) > route_key(best, 0);
        second = first ? best : i == 1 || route_key(c, 0) > route_key(second, 0) ? c : second;
        best = first ? c : best;
    }
    return two && size > 1 ? best + second : best;
}

/* open [n_groups]: may a token's experts be of the group?  score [n_groups] is room to work in.  By
 * all lanes, behind a barrier. */
static inline void choose_groups(constant struct metal_route_args &a,
                                 const threadgroup float *choice, threadgroup float *score,
                                 threadgroup int32_t *open, uint lane)
{
    int size = a.n_experts / a.n_groups;
    for (int g = (int)lane; g < a.n_groups; g += 32)
        score[g] = group_score(choice + g * size, size, a.has_bias != 0);
    SIMD_BARRIER(); /* the scores are written */
    for (int g = (int)lane; g < a.n_groups; g += 32) {
        int before = 0;
        for (int o = 0; o < a.n_groups; o++)
            before += route_key(score[o], (uint32_t)o) > route_key(score[g], (uint32_t)g) ? 1 : 0;
        open[g] = before < a.top_groups ? 1 : 0;
    }
    SIMD_BARRIER(); /* the groups are chosen, the scores are read */
}

/* Lane i gets the i-th expert of a row of choices. */
static inline int choose_experts(constant struct metal_route_args &a,
                                 const threadgroup float *choice, const threadgroup int32_t *open,
                                 uint lane)
{
    const int PER_LANE = MOE_MAX_EXPERTS / 32;
    int size = a.n_experts / a.n_groups, mine = 0;
    uint64_t key[PER_LANE];
    for (int j = 0; j < PER_LANE; j++) {
        int e = j * 32 + (int)lane;
        bool candidate = e < a.n_experts && (a.n_groups == 1 || open[e / size] != 0);
        key[j] = candidate ? route_key(choice[e], (uint32_t)e) : 0;
    }
    for (int i = 0; i < a.top_k; i++) {
        uint64_t best = 0;
        for (int j = 0; j < PER_LANE; j++)
            best = key[j] > best ? key[j] : best;
        best = greatest_key(best);
        mine = (int)lane == i ? (int)(0xffffffffU - (uint32_t)best) : mine;
        for (int j = 0; j < PER_LANE; j++)
            key[j] = key[j] == best ? 0 : key[j];
    }
    return mine;
}

/* The weight of the lane's expert with softmax scores; p [E] is room to work in. */
static inline float softmax_weight(constant struct metal_route_args &a, const device float *logit,
                                   threadgroup float *p, int id, uint lane)
{
    float most = logit[simd_shuffle(id, (ushort)0)], mine = exact_exp(logit[id] - most), sum = 0.0f;
    if (a.renormalise != 0)
        p[lane] = mine;
    else
        for (int e = (int)lane; e < a.n_experts; e += 32)
            p[e] = exact_exp(logit[e] - most);
    SIMD_BARRIER(); /* p is written */
    int n = a.renormalise != 0 ? a.top_k : a.n_experts;
    for (int i = 0; i < n; i++)
        sum += p[i];
    return mine / sum * a.scale;
}

static inline float sigmoid_weight(constant struct metal_route_args &a, const device float *logit,
                                   int id)
{
    float mine = gate(1.0f, logit[id]), sum = 0.0f;
    for (int i = 0; i < a.top_k; i++)
        sum += simd_shuffle(mine, (ushort)i);
    return (a.renormalise != 0 ? mine / (sum + 1e-20f) : mine) * a.scale;
}

/* Groups: tokens, of one simdgroup.  To the CPU's bits: sums are chains in the stated order. */
KERNEL moe_route(constant struct metal_route_args &a BUF(0), const device float *logits BUF(1),
                 const device float *bias BUF(2), const device float *expert_scale BUF(3),
                 device int32_t *ids BUF(4), device float *weights BUF(5), GRID)
{
    SHARED(float, choice, [MOE_MAX_EXPERTS]);
    SHARED(float, room, [MOE_MAX_EXPERTS]);
    SHARED(int32_t, open, [MOE_MAX_EXPERTS]);
    (void)index, (void)simd;
    const device float *logit = logits + (int64_t)group.x * a.logit_stride;
    bool scored = a.sigmoid != 0 && (a.has_bias != 0 || a.n_groups > 1);
    for (int e = (int)lane; e < a.n_experts; e += 32) {
        float c = scored ? gate(1.0f, logit[e]) : logit[e];
        choice[e] = a.has_bias != 0 ? c + bias[e] : c;
    }
    SIMD_BARRIER(); /* the choices are written */
    if (a.n_groups > 1)
        choose_groups(a, choice, room, open, lane);
    int id = choose_experts(a, choice, open, lane);
    float weight = a.sigmoid != 0 ? sigmoid_weight(a, logit, id)
                                  : softmax_weight(a, logit, room, id, lane);
    if ((int)lane < a.top_k) {
        ids[(int64_t)group.x * a.id_stride + lane] = id;
        weights[(int64_t)group.x * a.weight_stride + lane] =
            a.has_expert_scale != 0 ? weight * expert_scale[id] : weight;
    }
}

/* One group.  A pair is token * top_k + i.
 *   start [E + 1]       first place of each expert's pairs
 *   first_tile [E + 1]  the same in tiles of METAL_LINEAR_TOKENS pairs of one expert
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
            tile += (n + METAL_LINEAR_TOKENS - 1) / METAL_LINEAR_TOKENS;
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
    w += (int64_t)e * a.expert_step * 16 + (int64_t)row * a.row_bytes;
    row_sums<TYPE>(w, x, at, n, a.n_slices, a.slice_end, sum, lane);
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
EXPERTS(experts_f32, METAL_F32)
EXPERTS(experts_f16, METAL_F16)
EXPERTS(experts_bf16, METAL_BF16)
EXPERTS(experts_q8_0, METAL_Q8_0)
EXPERTS(experts_q4_0, METAL_Q4_0)
EXPERTS(experts_q4_1, METAL_Q4_1)
EXPERTS(experts_q5_0, METAL_Q5_0)
EXPERTS(experts_q5_1, METAL_Q5_1)
EXPERTS(experts_q2_k, METAL_Q2_K)
EXPERTS(experts_q3_k, METAL_Q3_K)
EXPERTS(experts_q4_k, METAL_Q4_K)
EXPERTS(experts_q5_k, METAL_Q5_K)
EXPERTS(experts_q6_k, METAL_Q6_K)
EXPERTS(experts_iq4_nl, METAL_IQ4_NL)
EXPERTS(experts_iq4_xs, METAL_IQ4_XS)
EXPERTS(experts_mxfp4, METAL_MXFP4)

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
    if (a.glu_limit > 0.0f) {
        g = g > a.glu_limit ? a.glu_limit : g;
        up = up > a.glu_limit ? a.glu_limit : up;
        up = up < -a.glu_limit ? -a.glu_limit : up;
        m[0] = (up + 1.0f) * gate(g, a.glu_alpha * g);
    } else {
        float v = activated((enum act)a.act, g);
        m[0] = a.up_alone != 0 ? v : v * up;
    }
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

/* Adds the biases [E, n] of a token's experts, in ascending order of ids.  Groups: [tokens, strips of
 * columns]. */
KERNEL moe_bias(constant struct metal_moe_bias_args &a BUF(0), const device float *bias BUF(1),
                const device int32_t *ids BUF(2), const device float *weights BUF(3),
                device float *out BUF(4), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index), last = -1;
    const device int32_t *mine = ids + (int64_t)group.x * a.id_stride;
    if (i >= a.n)
        return;
    device float *to = out + (int64_t)group.x * a.out_stride + i;
    float sum = *to;
    for (int j = 0; j < a.top_k; j++) {
        int which = -1;
        for (int m = 0; m < a.top_k; m++)
            if (mine[m] > last && (which < 0 || mine[m] < mine[which]))
                which = m;
        last = mine[which];
        sum = fmaf(weights[(int64_t)group.x * a.weight_stride + which],
                   bias[(int64_t)last * a.n + i], sum);
    }
    *to = sum;
}
