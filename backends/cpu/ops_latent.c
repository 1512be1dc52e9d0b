/* Latent attention: latent_to_cache, and heads_linear with its work shared by heads and strips of
 * rows, which one thread each packs and multiplies with all panels of the head's matrix. */
#include <string.h>

#include "backends/cpu/cpu_backend.h"

struct latent_job {
    const struct kernels *kernels;
    const struct attn_layer *al;
    const struct step_dev *st;
    struct view latent, q_heads, q;
    struct kv_layer kv;
};

static void latent_token(const struct latent_job *j, int32_t t)
{
    const struct attn_layer *al = j->al;
    int32_t pos = col_i32(j->st->pos, t), slot = col_i32(j->st->slot, t), d = al->d_head;
    int32_t rot = al->rot_dim, r = al->d_value, head = j->q_heads.cols / al->n_q;
    assert(slot >= 0 && slot < j->kv.k.rows && pos >= 0 && pos < al->cos.rows);
    float key[HEAD_MAX], *q = view_f32(j->q, t);
    const float *from = view_f32(j->q_heads, t);
    struct head_rot norm = {.norm = vector_of(al->k_norm), .eps = al->eps, .d = r};
    struct head_rot rope = {.cos = view_f32(al->cos, pos),
                            .sin = view_f32(al->sin, pos),
                            .d = rot,
                            .rot = rot,
                            .interleaved = al->rope_interleaved};
    memcpy(key, view_f32(j->latent, t), (size_t)d * sizeof *key);
    j->kernels->rotate_head(&norm, key);
    if (al->round_latent.grid != GRID_NONE)
        round_row(&al->round_latent, key, NULL, key, r);
    j->kernels->rotate_head(&rope, key + r);
    j->kernels->kv_store(j->kv.k.dtype, key, d, view_at(j->kv.k, slot, j->kv.k.dtype),
                         j->kv.k_scale.buf ? view_f32(j->kv.k_scale, slot) : NULL);
    for (int32_t h = 0; h < al->n_q; h++) {
        float *to = q + (size_t)h * (size_t)d + r;
        memcpy(to, from + (size_t)(h + 1) * (size_t)head - rot, (size_t)rot * sizeof *to);
        j->kernels->rotate_head(&rope, to);
    }
}

static void latent_part(void *ctx, int part, int n_parts)
{
    const struct latent_job *j = ctx;
    long from, to;
    pool_share(j->latent.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        latent_token(j, t);
}

enum status cpu_latent_to_cache(struct backend *be, const struct attn_layer *al,
                                const struct step_dev *st, struct view latent, struct view q_heads,
                                struct kv_layer kv, struct view q)
{
    TRY(attn_check_cache(al, kv));
    assert(al->n_q > 0 && al->n_kv == 1 && al->d_value + al->rot_dim == al->d_head);
    assert(latent.cols == al->d_head && q.cols == al->n_q * al->d_head && !al->q_scale.buf);
    assert(q_heads.cols % al->n_q == 0 && q_heads.cols / al->n_q >= al->rot_dim);
    assert(latent.rows == st->n_tokens && q.rows == latent.rows && q_heads.rows == latent.rows);
    struct latent_job j = {be->kernels, al, st, latent, q_heads, q, kv};
    rows_run(be, latent_part, &j, latent.rows, latent.cols + q_heads.cols);
    return ST_OK;
}

/* Strip i of n_strips of head h is item h * n_strips + i. */
struct heads_job {
    struct backend *be;
    const struct weight *w;
    struct view x, out;
    int32_t n_heads, n_strips;
};

static void heads_item(void *ctx, long u, int part)
{
    const struct heads_job *j = ctx;
    int32_t h = (int32_t)(u / j->n_strips), i = (int32_t)(u % j->n_strips);
    int32_t first = cut_start(j->x.rows, j->n_strips, i);
    int32_t rows = cut_start(j->x.rows, j->n_strips, i + 1) - first;
    const struct weight *w = &j->w->mat[h];
    float *strip = j->be->heads_thread + (size_t)part * HEADS_STRIP;
    size_t a = (size_t)h * (size_t)(j->x.cols / j->n_heads);
    size_t b = (size_t)h * (size_t)(j->out.cols / j->n_heads);
    for (int32_t r = 0; r < rows; r++)
        strip_put(j->be, w, w->panels, view_f32(j->x, first + r) + a, r, rows, strip);
    for (int32_t p = 0; p < panel_count(w->panels); p++)
        panel_product(j->be, w, w->panels, p, strip, rows,
                      view_f32(j->out, first) + b + (size_t)p * PANEL, (size_t)j->out.stride, part);
}

enum status cpu_heads_linear(struct backend *be, const struct weight *w, struct view x,
                             struct view out)
{
    const struct weight *one = w->mat;
    assert(one && w->n_slices == 1 && one->n_types == 1 && x.rows == out.rows);
    struct heads_job j = {.be = be, .w = w, .x = x, .out = out, .n_heads = w->n_mat};
    assert(x.cols % j.n_heads == 0 && x.cols / j.n_heads >= one->k);
    assert(out.cols % j.n_heads == 0 && out.cols / j.n_heads >= one->n);
    size_t fit = HEADS_STRIP * sizeof(float) / (strip_row_bytes(one, one->panels) + 1);
    if (fit == 0)
        FAIL(ST_UNSUPPORTED, "a matrix of %d columns for each head: too many", one->k);
    int32_t most = strip_rows(be, one->panels);
    most = fit < (size_t)most ? (int32_t)fit : most;
    j.n_strips = (x.rows + most - 1) / most;
    long items = (long)j.n_heads * j.n_strips;
    if ((int64_t)one->k * one->n * j.n_heads * x.rows > PRODUCT_GRAIN)
        pool_run_items(be->pool, items, heads_item, &j);
    else
        for (long u = 0; u < items; u++)
            heads_item(&j, u, 0);
    return ST_OK;
}
