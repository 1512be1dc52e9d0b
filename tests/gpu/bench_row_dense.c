/* A layer of a dense model in bf16, a token of each sequence, as layer_forward (worker/model/forward.c) runs it on one rank:
 * each product reads the operand that the op before it has written (backends/cuda/operand.h).  Its parts are rows too. */
#include "gpu/bench_row.h"

static int32_t qkv_cols(const struct bench_shape *s)
{
    return (s->n_q + 2 * s->n_kv) * s->d_head;
}

static bool has(const struct run *r, enum dense_part part)
{
    return r->row->variant == (int32_t)part || r->row->variant == PART_LAYER;
}

/* Weights, and the cache where it is read.  Activations are below 5 % of these. */
void dense_work(const struct row *r, const struct bench_shape *s, double *bytes, double *flops)
{
    double D = s->hidden, q = (double)s->n_q * s->d_head, kv = (double)s->n_kv * s->d_head;
    double params[] = {[PART_QKV] = D * qkv_cols(s),
                       [PART_O] = D * q,
                       [PART_FFN] = 3 * D * s->ffn,
                       [PART_LAYER] = D * (qkv_cols(s) + q + 3.0 * s->ffn)};
    bool attends = r->variant == PART_O || r->variant == PART_LAYER;
    *bytes = 2 * params[r->variant] + (attends ? 4 * kv * r->seqs * r->keys : 0);
    *flops = r->seqs * (2 * params[r->variant] + (attends ? 4 * q * r->keys : 0));
}

static enum status make_attention(struct run *r, const struct bench_shape *s)
{
    int32_t kv = s->n_kv * s->d_head;
    TRY(row_caches(r, kv, kv));
    r->al = (struct attn_layer){.n_q = s->n_q,
                                .n_kv = s->n_kv,
                                .d_head = s->d_head,
                                .rot_dim = s->d_head,
                                .q_per_kv = s->n_q / s->n_kv,
                                .scale = 0.0884f,
                                .eps = 1e-5f};
    TRY(row_take_random(r, r->step.max_ctx, s->d_head / 2, &r->al.cos));
    return row_take_random(r, r->step.max_ctx, s->d_head / 2, &r->al.sin);
}

static enum status make_views(struct run *r, const struct bench_shape *s)
{
    struct dense_run *d = &r->dense;
    int32_t T = r->row->seqs, q = s->n_q * s->d_head;
    TRY(row_take_random(r, T, s->hidden, &d->resid));
    TRY(row_take_random(r, T, s->hidden, &d->x));
    TRY(row_take(r, T, s->hidden, DT_F32, &d->h));
    TRY(row_take(r, T, s->hidden, DT_F32, &d->out));
    TRY(row_take_random(r, T, qkv_cols(s), &d->qkv));
    TRY(row_take_random(r, T, q, &d->q));
    TRY(row_take(r, T, q, DT_F32, &d->att));
    TRY(row_take(r, T, 2 * s->ffn, DT_F32, &d->mid));
    return row_take(r, T, s->ffn, DT_F32, &d->ffn);
}

enum status dense_make(struct run *r)
{
    const struct bench_shape *s = r->z->dense;
    struct dense_run *d = &r->dense;
    int32_t D = s->hidden, q = s->n_q * s->d_head;
    double bytes, flops;
    dense_work(r->row, s, &bytes, &flops);
    r->calls = row_copies(r, bytes);
    TRY(row_step(r));
    if (has(r, PART_QKV))
        TRY(row_matrices(r, DT_BF16, qkv_cols(s), D, false, d->w[DENSE_QKV]));
    if (has(r, PART_O)) {
        TRY(row_matrices(r, DT_BF16, D, q, true, d->w[DENSE_O]));
        TRY(make_attention(r, s));
    }
    if (has(r, PART_FFN)) {
        TRY(row_matrices(r, DT_BF16, 2 * s->ffn, D, false, d->w[DENSE_GATE_UP]));
        TRY(row_matrices(r, DT_BF16, D, s->ffn, true, d->w[DENSE_DOWN]));
    }
    TRY(row_vector(r, D, 1.0f, &d->norm));
    return make_views(r, s);
}

/* v as w's operand. */
static enum status operand(const struct run *r, const struct weight *w, enum operand_source from,
                           struct view *v)
{
    if (!r->op->reads_operand(r->be, w, from))
        FAIL(ST_BUG, "a product of %s does not read operands", r->row->name);
    v->reader = w;
    return ST_OK;
}

static enum status norm(struct run *r, const struct weight *w, struct view *h)
{
    const struct dense_run *d = &r->dense;
    *h = d->h;
    TRY(operand(r, w, OPERAND_NORM, h));
    return r->op->add_rms_norm(r->be, d->resid, d->x, NULL, d->norm, 1e-5f, *h);
}

enum status dense_call(struct run *r, int i)
{
    const struct backend_ops *op = r->op;
    const struct step_dev *st = &r->step.dev;
    struct dense_run *d = &r->dense;
    struct view h, att = d->att, ffn = d->ffn;
    if (has(r, PART_QKV)) {
        const struct weight *qkv = d->w[DENSE_QKV][i];
        TRY(norm(r, qkv, &h));
        TRY(op->linear(r->be, qkv, h, d->qkv));
    }
    if (r->row->variant == PART_LAYER)
        TRY(op->qkv_to_cache(r->be, &r->al, st, d->qkv, r->kv[i], d->q));
    if (has(r, PART_O)) {
        const struct weight *o = d->w[DENSE_O][i];
        TRY(operand(r, o, OPERAND_ATTENTION, &att));
        TRY(op->attention(r->be, &r->al, st, d->q, r->kv[i], att));
        TRY(op->linear(r->be, o, att, d->out));
    }
    if (has(r, PART_FFN)) {
        const struct weight *gate_up = d->w[DENSE_GATE_UP][i], *down = d->w[DENSE_DOWN][i];
        TRY(norm(r, gate_up, &h));
        TRY(operand(r, down, OPERAND_ACT_MUL, &ffn));
        TRY(op->linear_act_mul(r->be, ACT_SILU, gate_up, h, d->mid, ffn));
        TRY(op->linear(r->be, down, ffn, d->out));
    }
    return ST_OK;
}
