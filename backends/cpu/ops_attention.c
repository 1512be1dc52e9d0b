#include <string.h>

#include "backends/cpu/cpu_backend.h"

enum {
    GROUP_ROWS = 196, /* rows that share one reading of a split's keys and values */
    MAX_HEADS = 1024,
    ITEMS_PER_THREAD = 4,
};

struct qkv_job {
    const struct kernels *kernels;
    const struct attn_layer *al;
    const struct step_dev *st;
    struct view qkv, q;
    struct kv_layer kv;
};

/* Head g of cache row `row`. */
static void store_head(const struct qkv_job *j, struct view cache, struct view scale, int32_t row,
                       int32_t g, const float *x)
{
    int32_t d = j->al->d_head;
    char *dst = view_at(cache, row, cache.dtype);
    float *s = scale.buf ? view_f32(scale, row) + g : NULL;
    j->kernels->kv_store(cache.dtype, x, d, dst + (size_t)(g * d) * dtype_size(cache.dtype), s);
}

static void qkv_token(const struct qkv_job *j, int32_t t)
{
    const struct attn_layer *al = j->al;
    int32_t pos = col_i32(j->st->pos, t), slot = col_i32(j->st->slot, t), d = al->d_head;
    const float *src = view_f32(j->qkv, t);
    float *q = view_f32(j->q, t), k[HEAD_MAX];
    struct head_rot rot = {.norm = vector_of(al->q_norm),
                           .eps = al->eps,
                           .d = d,
                           .rot = al->rot_dim,
                           .interleaved = al->rope_interleaved};
    assert(slot >= 0 && slot < j->kv.k.rows && pos >= 0);
    if (al->rot_dim > 0) {
        assert(pos < al->cos.rows);
        rot.cos = view_f32(al->cos, pos);
        rot.sin = view_f32(al->sin, pos);
    }
    memcpy(q, src, (size_t)(al->n_q * d) * sizeof *q);
    for (int32_t h = 0; h < al->n_q; h++)
        j->kernels->rotate_head(&rot, q + h * d);
    src += al->n_q * d;
    rot.norm = vector_of(al->k_norm);
    for (int32_t g = 0; g < al->n_kv; g++) {
        memcpy(k, src + g * d, (size_t)d * sizeof *k);
        j->kernels->rotate_head(&rot, k);
        store_head(j, j->kv.k, j->kv.k_scale, slot, g, k);
        store_head(j, j->kv.v, j->kv.v_scale, slot, g, src + (al->n_kv + g) * d);
    }
}

static void qkv_part(void *ctx, int part, int n_parts)
{
    const struct qkv_job *j = ctx;
    long from, to;
    pool_share(j->qkv.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        qkv_token(j, t);
}

static enum status check_cache(const struct attn_layer *al, struct kv_layer kv)
{
    if (al->d_head > HEAD_MAX)
        FAIL(ST_UNSUPPORTED, "head size %d, the CPU backend takes up to %d", al->d_head, HEAD_MAX);
    assert(kv.k.dtype == kv.v.dtype);
    for (int i = 0; i < 2; i++) {
        struct view v = i ? kv.v : kv.k, scale = i ? kv.v_scale : kv.k_scale;
        bool scaled = v.dtype == DT_I8 || v.dtype == DT_E4M3;
        if (!scaled && v.dtype != DT_F32 && v.dtype != DT_F16 && v.dtype != DT_BF16)
            FAIL(ST_UNSUPPORTED, "KV entries of type %s", dtype_name(v.dtype));
        assert(v.cols == al->n_kv * al->d_head && (!scaled || scale.cols == al->n_kv));
        (void)scale;
    }
    return ST_OK;
}

enum status cpu_qkv_to_cache(struct backend *be, const struct attn_layer *al,
                             const struct step_dev *st, struct view qkv, struct kv_layer kv,
                             struct view q)
{
    TRY(check_cache(al, kv));
    assert(qkv.cols == (al->n_q + 2 * al->n_kv) * al->d_head && q.cols == al->n_q * al->d_head);
    assert(qkv.rows == st->n_tokens && q.rows == st->n_tokens && al->rot_dim <= al->d_head);
    struct qkv_job j = {be->kernels, al, st, qkv, q, kv};
    rows_run(be, qkv_part, &j, qkv.rows, qkv.cols);
    return ST_OK;
}

/* Attention runs in waves.  A unit is the rows (tokens of one sequence x query heads) of a block of
 * tokens that read one KV head, or, where they are few, several; an item is a unit over one split.
 * Items are ordered (block, split, unit), so that the heads of a cache row are read together.  A
 * wave takes the items of whole splits until its room for partial results is full, computes them in
 * parallel, then merges each unit's in ascending order.  A block that a wave's end cuts in two
 * leaves its units' states in `carry`. */
struct attn_item {
    struct attn_split split;
    bool first, last; /* of its unit's splits */
    bool lead;        /* the unit's first item in this wave */
    int n_units;      /* of the block's; the unit's next item is n_units further */
    int n_splits;     /* a lead: items of the unit in this wave */
    size_t at;        /* of the unit's state among the block's, floats */
    float *out;       /* of the unit's first row */
    size_t out_stride;
};

struct attn_wave {
    struct backend *be;
    const struct attn_layer *al;
    const struct step_dev *st;
    struct view q, out;
    struct kv_layer kv;
    int n_items;
    long n_rows;  /* of the wave's leads */
    int groups;   /* most KV heads of an item */
    int lead;     /* first item of the present block in this wave, -1: none */
    size_t used;  /* floats of attn_part, carry included */
    int64_t work; /* multiply-adds */
    float *carry; /* a quarter of attn_part */
};

size_t attn_items_bytes(void)
{
    return ATTN_ITEMS * sizeof(struct attn_item);
}

static size_t carry_floats(const struct backend *be)
{
    return be->attn_part_floats / 4;
}

static void split_part(void *ctx, int part, int n_parts)
{
    struct attn_wave *w = ctx;
    struct attn_item *items = w->be->attn_items;
    float *scratch = w->be->attn_thread + (size_t)part * w->be->kernels->attn_scratch;
    long from, to;
    pool_share(w->n_items, part, n_parts, &from, &to);
    for (long i = from; i < to; i++) {
        items[i].split.next = i + 1 < to ? &items[i + 1].split : NULL;
        w->be->kernels->attn_split(&items[i].split, scratch);
    }
}

static int unit_rows(const struct attn_item *it)
{
    return it->split.n_groups * it->split.rows;
}

/* Rows [from, to) of a lead's unit, counted over its groups. */
static void merge_rows(struct attn_wave *w, const struct attn_item *lead, int from, int to)
{
    const struct kernels *ker = w->be->kernels;
    const struct attn_item *it = lead;
    const struct attn_split *s = &lead->split;
    size_t d = (size_t)s->d, n = d + 2;
    float *state = lead->first ? s->part : w->carry + lead->at;
    for (int i = 0; i < lead->n_splits; i++) {
        it = lead + (ptrdiff_t)i * lead->n_units;
        for (int r = from; it->split.part != state && r < to; r++)
            ker->attn_merge(state + (size_t)r * n, it->split.part + (size_t)r * n, s->d);
    }
    for (int r = from; it->last && r < to; r++) {
        int group = r / s->rows, row = r % s->rows, head = group * s->n_heads + row % s->n_heads;
        ker->attn_finish(state + (size_t)r * n,
                         it->out + (size_t)(row / s->n_heads) * it->out_stride + (size_t)head * d,
                         s->d);
    }
}

/* Threads share the rows of all leads. */
static void merge_part(void *ctx, int part, int n_parts)
{
    struct attn_wave *w = ctx;
    const struct attn_item *items = w->be->attn_items;
    long from, to, at = 0;
    pool_share(w->n_rows, part, n_parts, &from, &to);
    for (int i = 0; i < w->n_items && at < to; i++) {
        long n = items[i].lead ? unit_rows(&items[i]) : 0;
        if (at < to && at + n > from)
            merge_rows(w, &items[i], (int)(from > at ? from - at : 0),
                       (int)(to - at < n ? to - at : n));
        at += n;
    }
}

/* The unfinished last block's states go to carry, unless they are there already. */
static void keep_carry(struct attn_wave *w)
{
    if (w->be->attn_items[w->n_items - 1].last)
        return;
    const struct attn_item *lead = &w->be->attn_items[w->lead];
    if (!lead->first)
        return;
    for (int u = 0; u < lead->n_units; u++)
        memcpy(w->carry + lead[u].at, lead[u].split.part,
               (size_t)unit_rows(&lead[u]) * (size_t)(lead[u].split.d + 2) * sizeof(float));
}

static void flush_wave(struct attn_wave *w)
{
    if (w->n_items > 0 && w->work <= PRODUCT_GRAIN) {
        split_part(w, 0, 1);
        merge_part(w, 0, 1);
    } else if (w->n_items > 0) {
        pool_run(w->be->pool, split_part, w);
        pool_run(w->be->pool, merge_part, w);
    }
    if (w->n_items > 0)
        keep_carry(w);
    w->n_items = 0;
    w->n_rows = 0;
    w->lead = -1;
    w->work = 0;
    w->used = carry_floats(w->be);
}

static struct kv_operand operand_of(struct view v, struct view scale, int32_t g, int32_t d)
{
    struct kv_operand o = {
        .base = (char *)view_at(v, 0, v.dtype) + (size_t)(g * d) * dtype_size(v.dtype),
        .row_elems = (size_t)v.stride,
        .dtype = v.dtype,
    };
    if (v.dtype == DT_I8 || v.dtype == DT_E4M3) {
        o.scale = view_f32(scale, 0) + g;
        o.scale_stride = (size_t)scale.stride;
    }
    return o;
}

/* Tokens [t0, t0 + n) of sequence s; they see keys [from, to). */
struct attn_block {
    int32_t s, t0, n, from, to;
};

/* The KV heads that query heads of this rank read: [first, first + the result). */
static int32_t kv_heads(const struct attn_layer *al, int32_t *first)
{
    *first = al->q_offset / al->q_per_kv;
    return (al->n_q - 1 + al->q_offset) / al->q_per_kv - *first + 1;
}

/* Query heads [*h0, *h1) of this rank read KV head g. */
static void query_heads(const struct attn_layer *al, int32_t g, int32_t *h0, int32_t *h1)
{
    *h0 = g * al->q_per_kv - al->q_offset;
    *h1 = *h0 + al->q_per_kv;
    *h0 = *h0 > 0 ? *h0 : 0;
    *h1 = *h1 < al->n_q ? *h1 : al->n_q;
}

/* KV heads from g on, before end, that one item takes: as many as have the same number of query
 * heads and few rows, when there is work enough for all threads. */
static int item_groups(const struct attn_wave *w, const struct attn_block *b, int32_t g,
                       int32_t end)
{
    int32_t h0, h1, first, last, most, n = 1;
    query_heads(w->al, g, &h0, &h1);
    int rows = b->n * (h1 - h0);
    if (rows > w->be->kernels->tile_rows)
        return 1;
    most = ATTN_ROWS / rows < w->groups ? ATTN_ROWS / rows : w->groups;
    for (first = h1 - h0; n < most && g + n < end; n++) {
        query_heads(w->al, g + n, &h0, &last);
        if (last - h0 != first)
            break;
    }
    return n;
}

/* The item of n KV heads from g on in split i. */
static struct attn_item item_of(const struct attn_wave *w, const struct attn_block *b, int32_t i,
                                int32_t g, int32_t n)
{
    const struct attn_layer *al = w->al;
    int32_t h0, h1, d = al->d_head, first = i * SPLIT;
    query_heads(al, g, &h0, &h1);
    return (struct attn_item){
        .split = {.q = view_f32(w->q, b->t0) + h0 * d,
                  .q_stride = (size_t)w->q.stride,
                  .n_groups = n,
                  .rows = b->n * (h1 - h0),
                  .n_heads = h1 - h0,
                  .d = d,
                  .scale = al->scale,
                  .pos = view_i32(w->st->pos, b->t0),
                  .window = al->window,
                  .first_key = first,
                  .lo = b->from > first ? b->from - first : 0,
                  .hi = b->to - first < SPLIT ? b->to - first : SPLIT,
                  .blocks = view_i32(w->st->block_table, b->s),
                  .block_len = w->st->block_len,
                  .k = operand_of(w->kv.k, w->kv.k_scale, g, d),
                  .v = operand_of(w->kv.v, w->kv.v_scale, g, d)},
        .first = i == b->from / SPLIT,
        .last = i == (b->to - 1) / SPLIT,
        .out = view_f32(w->out, b->t0) + h0 * d,
        .out_stride = (size_t)w->out.stride,
    };
}

/* All units of a block over split i. */
static void put_split(struct attn_wave *w, const struct attn_block *b, int32_t i)
{
    int32_t g, n = kv_heads(w->al, &g), end = g + n;
    struct attn_item *items = w->be->attn_items + w->n_items;
    bool lead = w->lead < 0;
    size_t at = 0;
    int n_units = 0;
    if (lead)
        w->lead = w->n_items;
    for (; g < end; g += items[n_units++].split.n_groups) {
        struct attn_item *it = &items[n_units];
        *it = item_of(w, b, i, g, item_groups(w, b, g, end));
        it->at = at;
        it->lead = lead;
        it->split.part = w->be->attn_part + w->used + at;
        w->be->attn_items[w->lead + n_units].n_splits++;
        w->n_rows += lead ? unit_rows(it) : 0;
        w->work += (int64_t)unit_rows(it) * (it->split.d + 2) * it->split.hi;
        at += (size_t)unit_rows(it) * (size_t)(it->split.d + 2);
    }
    for (int u = 0; u < n_units; u++)
        items[u].n_units = n_units;
    w->n_items += n_units;
    w->used += at;
}

static void put_block(struct attn_wave *w, int32_t s, int32_t t0, int32_t n)
{
    const struct attn_layer *al = w->al;
    const int32_t *pos = view_i32(w->st->pos, t0);
    int32_t least = pos[0], most = pos[0], g0;
    for (int32_t i = 1; i < n; i++) {
        least = pos[i] < least ? pos[i] : least;
        most = pos[i] > most ? pos[i] : most;
    }
    assert(least >= 0 && most < col_i32(w->st->kv_len, s));
    struct attn_block b = {s, t0, n, 0, most + 1};
    if (al->window > 0 && least >= al->window)
        b.from = least - al->window + 1;
    size_t floats = (size_t)n * (size_t)al->n_q * (size_t)(al->d_head + 2);
    w->lead = -1;
    for (int32_t i = b.from / SPLIT; i <= most / SPLIT; i++) {
        if (w->n_items + kv_heads(al, &g0) > ATTN_ITEMS ||
            w->used + floats > w->be->attn_part_floats)
            flush_wave(w);
        put_split(w, &b, i);
    }
}

/* Tokens of a block: about GROUP_ROWS rows a unit, and its states fit into carry. */
static int32_t block_tokens(const struct backend *be, const struct attn_layer *al)
{
    int32_t heads = al->q_per_kv < al->n_q ? al->q_per_kv : al->n_q;
    int32_t n = GROUP_ROWS / heads > 0 ? GROUP_ROWS / heads : 1;
    size_t most = carry_floats(be) / ((size_t)al->n_q * (size_t)(al->d_head + 2));
    return (size_t)n < most ? n : (int32_t)most;
}

/* Most KV heads of an item: all of a row, which are read best, when that leaves items enough for
 * the threads to share evenly, or one thread does them all. */
static int most_groups(const struct backend *be, const struct attn_layer *al,
                       const struct step_dev *st)
{
    int32_t g0, n = kv_heads(al, &g0), threads = pool_parts(be->pool);
    int64_t splits = 0;
    for (int32_t s = 0; s < st->n_seqs; s++)
        splits += (col_i32(st->kv_len, s) + SPLIT - 1) / SPLIT;
    int64_t groups = splits * n / (ITEMS_PER_THREAD * threads);
    if (threads == 1 || splits * SPLIT * al->n_q * al->d_head <= PRODUCT_GRAIN)
        return n;
    return groups < 1 ? 1 : groups < n ? (int)groups : n;
}

enum status cpu_attention(struct backend *be, const struct attn_layer *al,
                          const struct step_dev *st, struct view q, struct kv_layer kv,
                          struct view out)
{
    TRY(check_cache(al, kv));
    assert(q.cols == al->n_q * al->d_head && out.cols == q.cols && q.rows == st->n_tokens);
    assert(al->n_q == 0 || (al->n_q - 1 + al->q_offset) / al->q_per_kv < al->n_kv);
    if (al->n_q > MAX_HEADS || (size_t)al->n_q * (size_t)(al->d_head + 2) > carry_floats(be))
        FAIL(ST_UNSUPPORTED, "%d query heads of %d: more than the CPU backend takes", al->n_q,
             al->d_head);
    struct attn_wave w = {.be = be,
                          .al = al,
                          .st = st,
                          .q = q,
                          .out = out,
                          .kv = kv,
                          .groups = al->n_q > 0 ? most_groups(be, al, st) : 1,
                          .lead = -1,
                          .carry = be->attn_part,
                          .used = carry_floats(be)};
    for (int32_t s = 0; s < st->n_seqs && al->n_q > 0; s++) {
        int32_t end = col_i32(st->q_start, s + 1), step = block_tokens(be, al);
        for (int32_t t = col_i32(st->q_start, s); t < end; t += step)
            put_block(&w, s, t, end - t < step ? end - t : step);
    }
    flush_wave(&w);
    return ST_OK;
}
