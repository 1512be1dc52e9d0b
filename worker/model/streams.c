#include "worker/model/streams.h"

/* Stream j, [T,D] of wider rows. */
static struct view stream(const struct decoder *m, const struct scratch *s, int32_t j)
{
    return view_columns(s->streams, j * m->mc.hidden, m->mc.hidden);
}

/* All but the first, [T, (n - 1) D]. */
static struct view others(const struct decoder *m, const struct scratch *s)
{
    return view_columns(s->streams, m->mc.hidden, s->others.cols);
}

enum status streams_begin(struct decoder *m, const struct scratch *s)
{
    int32_t D = m->mc.hidden, n = m->mc.n_streams;
    TRY(m->op->copy(m->be, stream(m, s, 0), s->resid));
    if (n == 1)
        return ST_OK;
    for (int32_t j = 1; j < n; j++)
        TRY(m->op->copy(m->be, view_columns(s->others, (j - 1) * D, D), s->resid));
    TRY(m->op->heads_linear(m->be, m->w[W_STREAM_IN], s->others, others(m, s)));
    for (int32_t j = 1; j < n; j++)
        TRY(m->op->match_rms(m->be, stream(m, s, j), s->resid));
    return ST_OK;
}

/* s->modes: [T, n], tanh(router norm(x) / D) */
static enum status route(struct decoder *m, const struct layer *l, struct view x,
                         const struct scratch *s)
{
    const struct backend_ops *op = m->op;
    struct view none = {0};
    TRY(op->add_rms_norm(m->be, x, none, NULL, l->w[W_STREAM_NORM], m->eps, s->h));
    TRY(op->linear(m->be, l->w[W_STREAM_ROUTER], s->h, s->modes));
    TRY(op->scale(m->be, s->modes, 1.0f / (float)m->mc.hidden));
    return op->soft_cap(m->be, s->modes, 1.0f);
}

enum status streams_predict(struct decoder *m, const struct layer *l, const struct scratch *s)
{
    struct view active = stream(m, s, m->mc.active_stream);
    TRY(route(m, l, active, s));
    TRY(m->op->linear(m->be, l->w[W_STREAM_PREDICT], s->modes, s->coefs));
    TRY(m->op->predict_streams(m->be, s->streams, s->coefs));
    return m->op->copy(m->be, s->resid, active);
}

enum status streams_laurel(struct decoder *m, const struct layer *l, struct view in,
                           const struct scratch *s)
{
    const struct backend_ops *op = m->op;
    struct view none = {0};
    TRY(op->linear(m->be, l->w[W_LAUREL_LEFT], in, s->laurel_low));
    TRY(op->linear(m->be, l->w[W_LAUREL_RIGHT], s->laurel_low, s->out));
    TRY(op->add_rms_norm(m->be, s->out, none, NULL, l->w[W_LAUREL_NORM], m->eps, s->laurel));
    return op->add(m->be, s->laurel, in, 1.0f);
}

enum status streams_correct(struct decoder *m, const struct layer *l, const struct scratch *s)
{
    struct view coefs = view_columns(s->coefs, 0, s->modes.cols);
    const struct weight *scale = m->mc.scale_active ? l->w[W_STREAM_SCALE] : NULL;
    TRY(route(m, l, s->resid, s));
    TRY(m->op->linear(m->be, l->w[W_STREAM_CORRECT], s->modes, coefs));
    return m->op->correct_streams(m->be, s->streams, coefs, m->mc.active_stream, scale, s->resid);
}

enum status streams_add(struct decoder *m, struct view x, const struct scratch *s)
{
    for (int32_t j = 1; j < m->mc.n_streams; j++)
        TRY(m->op->add(m->be, stream(m, s, j), x, 1.0f));
    return ST_OK;
}

enum status streams_end(struct decoder *m, const struct scratch *s)
{
    int32_t D = m->mc.hidden, n = m->mc.n_streams;
    TRY(m->op->copy(m->be, s->resid, stream(m, s, 0)));
    if (n == 1)
        return ST_OK;
    TRY(m->op->heads_linear(m->be, m->w[W_STREAM_OUT], others(m, s), s->others));
    for (int32_t j = 1; j < n; j++) {
        struct view x = view_columns(s->others, (j - 1) * D, D);
        TRY(m->op->match_rms(m->be, x, stream(m, s, 0)));
        TRY(m->op->add(m->be, s->resid, x, 1.0f));
    }
    return m->op->scale(m->be, s->resid, 1.0f / (float)n);
}
