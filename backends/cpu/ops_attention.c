/* qkv_to_cache and attention: the work of the pool; kernels->attn_split computes. */
#include <string.h>

#include "backends/cpu/cpu_backend.h"

enum {
    ITEM_ROWS = 196, /* about the most rows of an item: they share one reading of its keys */
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

static void store_value(const struct qkv_job *j, int32_t slot, int32_t g, const float *x)
{
    const struct head_rot norm = {.unit = true, .eps = j->al->eps, .d = j->al->d_head};
    float v[HEAD_MAX];
    if (j->al->v_norm) {
        memcpy(v, x, (size_t)j->al->d_head * sizeof *v);
        j->kernels->rotate_head(&norm, v);
        x = v;
    }
    store_head(j, j->kv.v, j->kv.v_scale, slot, g, x);
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
    const struct head_rot unit = {.unit = true, .eps = al->eps, .d = d};
    assert(slot >= 0 && slot < j->kv.k.rows && pos >= 0);
    if (al->rot_dim > 0) {
        assert(pos < al->cos.rows);
        rot.cos = view_f32(al->cos, pos);
        rot.sin = view_f32(al->sin, pos);
    }
    memcpy(q, src, (size_t)(al->n_q * d) * sizeof *q);
    for (int32_t h = 0; h < al->n_q; h++) {
        j->kernels->rotate_head(&rot, q + h * d);
        if (al->qk_unit)
            j->kernels->rotate_head(&unit, q + h * d);
    }
    if (al->q_scale.buf)
        for (int32_t i = 0; i < al->n_q * d; i++)
            q[i] *= view_f32(al->q_scale, pos)[0];
    src += al->n_q * d;
    rot.norm = vector_of(al->k_norm);
    for (int32_t g = 0; !al->q_alone && g < al->n_kv; g++) {
        memcpy(k, src + g * d, (size_t)d * sizeof *k);
        j->kernels->rotate_head(&rot, k);
        if (al->qk_unit)
            j->kernels->rotate_head(&unit, k);
        store_head(j, j->kv.k, j->kv.k_scale, slot, g, k);
        store_value(j, slot, g, src + (al->v_is_k ? g : al->n_kv + g) * d);
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

enum status attn_check_cache(const struct attn_layer *al, struct kv_layer kv)
{
    if (al->d_head > HEAD_MAX)
        FAIL(ST_UNSUPPORTED, "head size %d, the CPU backend takes up to %d", al->d_head, HEAD_MAX);
    assert(kv.k.dtype == kv.v.dtype);
    for (int i = 0; i < 2; i++) {
        struct view v = i ? kv.v : kv.k, scale = i ? kv.v_scale : kv.k_scale;
        bool scaled = v.dtype == DT_I8 || v.dtype == DT_E4M3;
        if (!scaled && v.dtype != DT_F32 && v.dtype != DT_F16 && v.dtype != DT_BF16)
            FAIL(ST_UNSUPPORTED, "KV entries of type %s", dtype_name(v.dtype));
        int32_t d = i ? attn_d_value(al) : al->d_head;
        assert(v.cols == al->n_kv * d && (!scaled || scale.cols == al->n_kv));
        (void)scale;
    }
    return ST_OK;
}

enum status cpu_qkv_to_cache(struct backend *be, const struct attn_layer *al,
                             const struct step_dev *st, struct view qkv, struct kv_layer kv,
                             struct view q)
{
    TRY(attn_check_cache(al, kv));
    assert(qkv.cols == attn_qkv_cols(al) && q.cols == al->n_q * al->d_head);
    assert(qkv.rows == st->n_tokens && q.rows == st->n_tokens && al->rot_dim <= al->d_head);
    assert(!al->qk_unit || (!al->q_norm && !al->k_norm));
    struct qkv_job j = {be->kernels, al, st, qkv, q, kv};
    rows_run(be, qkv_part, &j, qkv.rows, qkv.cols);
    return ST_OK;
}

/* Attention is computed in items: the rows (some tokens of one sequence x query heads) that read one
 * KV head, or, where they are few, several, over one split.  Items are ordered (tokens, split, KV
 * head), so that the heads of a cache row are read together.  As many items of whole splits as there
 * is room for partial results are computed in parallel, then the items of the same rows are merged
 * in ascending order of their splits.  Where the room ends before the splits of some tokens do, the
 * states of their rows are kept in `carry` for the next items. */
struct attn_item {
    struct attn_split split;
    bool first, last;  /* of the rows' splits */
    bool lead;         /* the first item of these rows at this time */
    int stride;        /* to the item of the same rows in the next split */
    int n_splits;      /* a lead: items of these rows at this time */
    size_t at;         /* of the rows' state in carry, floats */
    const float *sink; /* of the first query head, or NULL */
    float *out;        /* of the first row */
    size_t out_stride;
};

/* The items in be->attn_items, which are computed at one time. */
struct attn_job {
    struct backend *be;
    const struct attn_layer *al;
    const struct step_dev *st;
    struct view q, out;
    struct kv_layer kv;
    int n_items;
    long n_rows;  /* of the leads */
    int most_kv;  /* most KV heads of an item */
    int lead;     /* first item of the present tokens, -1: none */
    size_t used;  /* floats of attn_partial, carry included */
    int64_t work; /* multiply-adds */
    float *carry; /* a quarter of attn_partial */
};

size_t attn_items_bytes(void)
{
    return ATTN_ITEMS * sizeof(struct attn_item);
}

static size_t carry_floats(const struct backend *be)
{
    return be->attn_partial_floats / 4;
}

static void split_part(void *ctx, int part, int n_parts)
{
    struct attn_job *j = ctx;
    struct attn_item *items = j->be->attn_items;
    float *scratch = j->be->attn_thread + (size_t)part * j->be->kernels->attn_scratch;
    long from, to;
    pool_share(j->n_items, part, n_parts, &from, &to);
    for (long i = from; i < to; i++) {
        items[i].split.next = i + 1 < to ? &items[i + 1].split : NULL;
        j->be->kernels->attn_split(&items[i].split, scratch);
    }
}

static int item_rows(const struct attn_item *it)
{
    return it->split.n_kv * it->split.rows;
}

/* Merges and finishes rows [from, to) of a lead, counted over its KV heads. */
static void merge_rows(struct attn_job *j, const struct attn_item *lead, int from, int to)
{
    const struct kernels *ker = j->be->kernels;
    const struct attn_item *it = lead;
    const struct attn_split *s = &lead->split;
    size_t d = (size_t)s->d_value, n = d + 2;
    float *state = lead->first ? s->partial : j->carry + lead->at;
    for (int i = 0; i < lead->n_splits; i++) {
        it = lead + (ptrdiff_t)i * lead->stride;
        for (int r = from; it->split.partial != state && r < to; r++)
            ker->attn_merge(state + (size_t)r * n, it->split.partial + (size_t)r * n, s->d_value);
    }
    float one[HEAD_MAX + 2] = {0}; /* a split of one key, whose value is 0 */
    one[d + 1] = 1.0f;
    for (int r = from; it->last && it->sink && r < to; r++) {
        one[d] = it->sink[r / s->rows * s->n_heads + r % s->rows % s->n_heads];
        ker->attn_merge(state + (size_t)r * n, one, s->d_value);
    }
    for (int r = from; it->last && r < to; r++) {
        int g = r / s->rows, row = r % s->rows, head = g * s->n_heads + row % s->n_heads;
        ker->attn_finish(state + (size_t)r * n,
                         it->out + (size_t)(row / s->n_heads) * it->out_stride + (size_t)head * d,
                         s->d_value);
    }
}

/* Threads share the rows of all leads. */
static void merge_part(void *ctx, int part, int n_parts)
{
    struct attn_job *j = ctx;
    const struct attn_item *items = j->be->attn_items;
    long from, to, at = 0;
    pool_share(j->n_rows, part, n_parts, &from, &to);
    for (int i = 0; i < j->n_items && at < to; i++) {
        long n = items[i].lead ? item_rows(&items[i]) : 0;
        if (at < to && at + n > from)
            merge_rows(j, &items[i], (int)(from > at ? from - at : 0),
                       (int)(to - at < n ? to - at : n));
        at += n;
    }
}

/* The states of the last tokens, if they are unfinished, go to carry unless they are there. */
static void keep_carry(struct attn_job *j)
{
    if (j->be->attn_items[j->n_items - 1].last)
        return;
    const struct attn_item *lead = &j->be->attn_items[j->lead];
    if (!lead->first)
        return;
    for (int u = 0; u < lead->stride; u++)
        memcpy(j->carry + lead[u].at, lead[u].split.partial,
               (size_t)item_rows(&lead[u]) * (size_t)(lead[u].split.d_value + 2) * sizeof(float));
}

static void run_items(struct attn_job *j)
{
    if (j->n_items > 0 && j->work <= PRODUCT_GRAIN) {
        split_part(j, 0, 1);
        merge_part(j, 0, 1);
    } else if (j->n_items > 0) {
        pool_run(j->be->pool, split_part, j);
        pool_run(j->be->pool, merge_part, j);
    }
    if (j->n_items > 0)
        keep_carry(j);
    j->n_items = 0;
    j->n_rows = 0;
    j->lead = -1;
    j->work = 0;
    j->used = carry_floats(j->be);
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
struct attn_tokens {
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
static int item_heads(const struct attn_job *j, const struct attn_tokens *t, int32_t g, int32_t end)
{
    int32_t h0, h1, first, last, most, n = 1;
    query_heads(j->al, g, &h0, &h1);
    int rows = t->n * (h1 - h0);
    if (rows > j->be->kernels->tile_rows)
        return 1;
    most = ATTN_ROWS / rows < j->most_kv ? ATTN_ROWS / rows : j->most_kv;
    for (first = h1 - h0; n < most && g + n < end; n++) {
        query_heads(j->al, g + n, &h0, &last);
        if (last - h0 != first)
            break;
    }
    return n;
}

/* The item of n KV heads from g on in split i. */
static struct attn_item item_of(const struct attn_job *j, const struct attn_tokens *t, int32_t i,
                                int32_t g, int32_t n)
{
    const struct attn_layer *al = j->al;
    int32_t h0, h1, d = al->d_head, n_value = attn_d_value(al), first = i * SPLIT;
    query_heads(al, g, &h0, &h1);
    return (struct attn_item){
        .split = {.q = view_f32(j->q, t->t0) + h0 * d,
                  .q_stride = (size_t)j->q.stride,
                  .n_kv = n,
                  .rows = t->n * (h1 - h0),
                  .n_heads = h1 - h0,
                  .d = d,
                  .d_value = n_value,
                  .scale = al->scale,
                  .cap = al->cap,
                  .rel_bias = al->rel_bias ? vector_of(al->rel_bias) + (size_t)h0 * REL_COLS : NULL,
                  .pos = view_i32(j->st->pos, t->t0),
                  .window = al->window,
                  .chunk = al->chunk,
                  .n_keys = al->full ? col_i32(j->st->kv_len, t->s) : 0,
                  .first_key = first,
                  .lo = t->from > first ? t->from - first : 0,
                  .hi = t->to - first < SPLIT ? t->to - first : SPLIT,
                  .blocks = view_i32(j->st->block_table, t->s),
                  .block_len = j->st->block_len,
                  .k = operand_of(j->kv.k, j->kv.k_scale, g, d),
                  .v = operand_of(j->kv.v, j->kv.v_scale, g, n_value),
                  .page_ahead = READ_AHEAD_PAGE / 8 * j->be->read.kv_eighths},
        .first = i == t->from / SPLIT,
        .last = i == (t->to - 1) / SPLIT,
        .sink = al->sinks ? vector_of(al->sinks) + h0 : NULL,
        .out = view_f32(j->out, t->t0) + h0 * n_value,
        .out_stride = (size_t)j->out.stride,
    };
}

/* The items of all KV heads over split i. */
static void add_split(struct attn_job *j, const struct attn_tokens *t, int32_t i)
{
    int32_t g, heads = kv_heads(j->al, &g), end = g + heads;
    struct attn_item *items = j->be->attn_items + j->n_items;
    bool lead = j->lead < 0;
    size_t at = 0;
    int n = 0;
    if (lead)
        j->lead = j->n_items;
    for (; g < end; g += items[n++].split.n_kv) {
        struct attn_item *it = &items[n];
        *it = item_of(j, t, i, g, item_heads(j, t, g, end));
        it->at = at;
        it->lead = lead;
        it->split.partial = j->be->attn_partial + j->used + at;
        j->be->attn_items[j->lead + n].n_splits++;
        j->n_rows += lead ? item_rows(it) : 0;
        j->work += (int64_t)item_rows(it) * (it->split.d + 2) * it->split.hi;
        at += (size_t)item_rows(it) * (size_t)(it->split.d_value + 2);
    }
    for (int u = 0; u < n; u++)
        items[u].stride = n;
    j->n_items += n;
    j->used += at;
}

static void add_tokens(struct attn_job *j, int32_t s, int32_t t0, int32_t n)
{
    const struct attn_layer *al = j->al;
    const int32_t *pos = view_i32(j->st->pos, t0);
    int32_t least = pos[0], most = pos[0], g0;
    for (int32_t i = 1; i < n; i++) {
        least = pos[i] < least ? pos[i] : least;
        most = pos[i] > most ? pos[i] : most;
    }
    assert(least >= 0 && most < col_i32(j->st->kv_len, s));
    struct attn_tokens t = {s, t0, n, 0, most + 1};
    if (al->window > 0 && least >= al->window)
        t.from = least - al->window + 1;
    if (al->chunk > 0)
        t.from = least / al->chunk * al->chunk;
    if (al->full) {
        int32_t n_keys = col_i32(j->st->kv_len, s);
        t.to = al->window > 0 && most < n_keys - al->window ? most + al->window : n_keys;
    }
    size_t floats = (size_t)n * (size_t)al->n_q * (size_t)(attn_d_value(al) + 2);
    j->lead = -1;
    for (int32_t i = t.from / SPLIT; i <= (t.to - 1) / SPLIT; i++) {
        if (j->n_items + kv_heads(al, &g0) > ATTN_ITEMS ||
            j->used + floats > j->be->attn_partial_floats)
            run_items(j);
        add_split(j, &t, i);
    }
}

/* Tokens whose items have about ITEM_ROWS rows, and whose states fit into carry. */
static int32_t tokens_at_once(const struct backend *be, const struct attn_layer *al)
{
    int32_t heads = al->q_per_kv < al->n_q ? al->q_per_kv : al->n_q;
    int32_t n = ITEM_ROWS / heads > 0 ? ITEM_ROWS / heads : 1;
    size_t most = carry_floats(be) / ((size_t)al->n_q * (size_t)(attn_d_value(al) + 2));
    return (size_t)n < most ? n : (int32_t)most;
}

/* Most KV heads of an item: all of a cache row, which reads fastest, when one thread does all items
 * or enough remain for the threads to share evenly. */
static int most_kv_heads(const struct backend *be, const struct attn_layer *al,
                         const struct step_dev *st)
{
    int32_t g0, n = kv_heads(al, &g0), threads = pool_parts(be->pool);
    int64_t splits = 0;
    for (int32_t s = 0; s < st->n_seqs; s++)
        splits += (col_i32(st->kv_len, s) + SPLIT - 1) / SPLIT;
    int64_t heads = splits * n / (ITEMS_PER_THREAD * threads);
    if (threads == 1 || splits * SPLIT * al->n_q * al->d_head <= PRODUCT_GRAIN)
        return n;
    return heads < 1 ? 1 : heads < n ? (int)heads : n;
}

enum status cpu_attention(struct backend *be, const struct attn_layer *al,
                          const struct step_dev *st, struct view q, struct kv_layer kv,
                          struct view out)
{
    TRY(attn_check_cache(al, kv));
    assert(q.cols == al->n_q * al->d_head && q.rows == st->n_tokens);
    assert(out.cols == al->n_q * attn_d_value(al) && al->d_value <= al->d_head);
    assert(al->n_q == 0 || (al->n_q - 1 + al->q_offset) / al->q_per_kv < al->n_kv);
    if (al->n_q > MAX_HEADS || (size_t)al->n_q * (size_t)(attn_d_value(al) + 2) > carry_floats(be))
        FAIL(ST_UNSUPPORTED, "%d query heads of %d: more than the CPU backend takes", al->n_q,
             al->d_head);
    struct attn_job j = {.be = be,
                         .al = al,
                         .st = st,
                         .q = q,
                         .out = out,
                         .kv = kv,
                         .most_kv = al->n_q > 0 ? most_kv_heads(be, al, st) : 1,
                         .lead = -1,
                         .carry = be->attn_partial,
                         .used = carry_floats(be)};
    for (int32_t s = 0; s < st->n_seqs && al->n_q > 0; s++) {
        int32_t end = col_i32(st->q_start, s + 1), step = tokens_at_once(be, al);
        for (int32_t t = col_i32(st->q_start, s); t < end; t += step)
            add_tokens(&j, s, t, end - t < step ? end - t : step);
    }
    run_items(&j);
    return ST_OK;
}
