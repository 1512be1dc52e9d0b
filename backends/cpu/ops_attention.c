#include <string.h>

#include "backends/cpu/cpu_backend.h"

enum {
    GROUP_ROWS = 196,       /* rows that share one reading of a split's keys and values */
    ATTN_GRAIN = 32 * 1024, /* multiply-adds below which one thread does a wave */
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
    struct head_rot rot = {.norm = vector_of(al->q_norm), .eps = al->eps, .d = d, .rot = al->rot_dim,
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

/* Attention runs in waves.  A unit is up to GROUP_ROWS rows (tokens of one sequence x heads of one KV
 * head); an item is a unit over one split.  A wave takes items in order until its room for partial results
 * is full, computes them in parallel, then merges each unit's partial results in ascending order.  A unit
 * that a wave's end cuts in two leaves its state in `carry`. */
struct attn_item {
    struct attn_split split;
    bool first, last; /* of its unit */
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
    size_t used;   /* floats of attn_part, carry included */
    int64_t work;  /* multiply-adds */
    float *carry;  /* [GROUP_ROWS, d + 2] */
};

size_t attn_items_bytes(void)
{
    return ATTN_ITEMS * sizeof(struct attn_item);
}

static void split_part(void *ctx, int part, int n_parts)
{
    struct attn_wave *w = ctx;
    float *scratch = w->be->attn_thread + (size_t)part * w->be->kernels->attn_scratch;
    for (int i = part; i < w->n_items; i += n_parts)
        w->be->kernels->attn_split(&w->be->attn_items[i].split, scratch);
}

/* Merges the items of one unit, from item i on; returns the item after them. */
static int merge_unit(struct attn_wave *w, int i)
{
    const struct kernels *ker = w->be->kernels;
    struct attn_item *items = w->be->attn_items;
    struct attn_item *it = &items[i];
    int d = it->split.d, rows = it->split.rows;
    size_t n = (size_t)d + 2;
    float *state = it->first ? it->split.part : w->carry;
    if (it->first)
        i++;
    for (; i < w->n_items && !items[i].first; i++)
        for (int r = 0; r < rows; r++)
            ker->attn_merge(state + (size_t)r * n, items[i].split.part + (size_t)r * n, d);
    it = &items[i - 1];
    for (int r = 0; it->last && r < rows; r++)
        ker->attn_finish(state + (size_t)r * n,
                         it->out + (size_t)(r / it->split.n_heads) * it->out_stride +
                             (size_t)(r % it->split.n_heads) * (size_t)d,
                         d);
    return i;
}

static void merge_part(void *ctx, int part, int n_parts)
{
    struct attn_wave *w = ctx;
    long from, to;
    pool_share(w->n_items, part, n_parts, &from, &to);
    for (int i = (int)from; i < to; i++)
        if (i == 0 || w->be->attn_items[i].first)
            merge_unit(w, i);
}

/* The unfinished last unit's state goes to carry, unless it is there already. */
static void keep_carry(struct attn_wave *w)
{
    const struct attn_item *items = w->be->attn_items;
    int i = w->n_items - 1;
    if (items[i].last)
        return;
    while (i > 0 && !items[i].first)
        i--;
    if (items[i].first)
        memcpy(w->carry, items[i].split.part,
               (size_t)items[i].split.rows * (size_t)(items[i].split.d + 2) * sizeof(float));
}

static void flush_wave(struct attn_wave *w)
{
    if (w->n_items == 0)
        return;
    if (w->work < ATTN_GRAIN) {
        split_part(w, 0, 1);
        merge_part(w, 0, 1);
    } else {
        pool_run(w->be->pool, split_part, w);
        pool_run(w->be->pool, merge_part, w);
    }
    keep_carry(w);
    w->n_items = 0;
    w->work = 0;
    w->used = (size_t)GROUP_ROWS * (size_t)(w->al->d_head + 2);
}

static void put_item(struct attn_wave *w, const struct attn_item *item)
{
    size_t n = (size_t)item->split.rows * (size_t)(item->split.d + 2);
    if (w->n_items == ATTN_ITEMS || w->used + n > w->be->attn_part_floats)
        flush_wave(w);
    struct attn_item *it = &w->be->attn_items[w->n_items++];
    *it = *item;
    it->split.part = w->be->attn_part + w->used;
    w->used += n;
    w->work += (int64_t)n * SPLIT;
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

/* The items of one unit: tokens [t0, t0 + n) of sequence s, heads [h0, h0 + n_heads) on KV head g. */
static void put_unit(struct attn_wave *w, int32_t s, int32_t t0, int32_t n, int32_t h0,
                     int32_t n_heads, int32_t g)
{
    const struct attn_layer *al = w->al;
    const int32_t *pos = view_i32(w->st->pos, t0);
    int32_t least = pos[0], most = pos[0];
    for (int32_t i = 1; i < n; i++) {
        least = pos[i] < least ? pos[i] : least;
        most = pos[i] > most ? pos[i] : most;
    }
    int32_t from = al->window > 0 && least >= al->window ? least - al->window + 1 : 0;
    assert(least >= 0 && most < col_i32(w->st->kv_len, s));
    struct attn_item item = {
        .split = {.q = view_f32(w->q, t0) + h0 * al->d_head,
                  .q_stride = (size_t)w->q.stride,
                  .rows = n * n_heads,
                  .n_heads = n_heads,
                  .d = al->d_head,
                  .scale = al->scale,
                  .pos = pos,
                  .window = al->window,
                  .blocks = view_i32(w->st->block_table, s),
                  .block_len = w->st->block_len,
                  .k = operand_of(w->kv.k, w->kv.k_scale, g, al->d_head),
                  .v = operand_of(w->kv.v, w->kv.v_scale, g, al->d_head)},
        .out = view_f32(w->out, t0) + h0 * al->d_head,
        .out_stride = (size_t)w->out.stride,
    };
    for (int32_t i = from / SPLIT; i <= most / SPLIT; i++) {
        item.split.first_key = i * SPLIT;
        item.first = i == from / SPLIT;
        item.last = i == most / SPLIT;
        put_item(w, &item);
    }
}

static void put_sequence(struct attn_wave *w, int32_t s)
{
    const struct attn_layer *al = w->al;
    int32_t begin = col_i32(w->st->q_start, s), end = col_i32(w->st->q_start, s + 1);
    for (int32_t g = 0; g < al->n_kv; g++) {
        int32_t h0 = g * al->q_per_kv - al->q_offset, h1 = h0 + al->q_per_kv;
        h0 = h0 > 0 ? h0 : 0;
        h1 = h1 < al->n_q ? h1 : al->n_q;
        for (int32_t n_heads; h0 < h1; h0 += n_heads) {
            n_heads = h1 - h0 < GROUP_ROWS ? h1 - h0 : GROUP_ROWS;
            int32_t step = GROUP_ROWS / n_heads;
            for (int32_t t = begin; t < end; t += step)
                put_unit(w, s, t, end - t < step ? end - t : step, h0, n_heads, g);
        }
    }
}

enum status cpu_attention(struct backend *be, const struct attn_layer *al,
                          const struct step_dev *st, struct view q, struct kv_layer kv,
                          struct view out)
{
    TRY(check_cache(al, kv));
    assert(q.cols == al->n_q * al->d_head && out.cols == q.cols && q.rows == st->n_tokens);
    assert(al->n_q == 0 || (al->n_q - 1 + al->q_offset) / al->q_per_kv < al->n_kv);
    struct attn_wave w = {.be = be, .al = al, .st = st, .q = q, .out = out, .kv = kv,
                          .carry = be->attn_part,
                          .used = (size_t)GROUP_ROWS * (size_t)(al->d_head + 2)};
    for (int32_t s = 0; s < st->n_seqs && al->n_q > 0; s++)
        put_sequence(&w, s);
    flush_wave(&w);
    return ST_OK;
}
