#include "worker/queue_backend.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/draw.h"

enum { ARGS_BYTES = 1024, N_SLOTS = 16 };

typedef enum status job_fn(struct backend *be, void *args);

struct job {
    job_fn *run;
    _Alignas(16) char args[ARGS_BYTES];
};

struct graph {
    struct job *jobs;
    size_t n, cap;
};

/* jobs of the queue: an endless array of which [n_run, n) wait */
static struct {
    struct backend_ops real, ops;
    struct graph queue;
    size_t n_run, depth, mark[N_SLOTS];
    struct graph *recording;
    int n_launches;
    bool stalled;
} q;

static enum status push(job_fn *run, const void *args, size_t n_args)
{
    struct graph *to = q.recording ? q.recording : &q.queue;
    assert(n_args <= ARGS_BYTES);
    if (to->n == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 256;
        to->jobs = realloc(to->jobs, to->cap * sizeof *to->jobs);
        assert(to->jobs);
    }
    struct job *j = &to->jobs[to->n++];
    j->run = run;
    memcpy(j->args, args, n_args);
    if (q.queue.n - q.n_run > q.depth)
        q.depth = q.queue.n - q.n_run;
    return ST_OK;
}

/* Runs the queue up to its job `end`. */
static enum status run_to(struct backend *be, size_t end)
{
    while (q.n_run < end) {
        struct job *j = &q.queue.jobs[q.n_run++];
        TRY(j->run(be, j->args));
    }
    if (q.n_run == q.queue.n) { /* empty: begin anew, with what was marked passed */
        q.queue.n = q.n_run = 0;
        memset(q.mark, 0, sizeof q.mark);
    }
    return ST_OK;
}

static enum status queue_sync(struct backend *be)
{
    return run_to(be, q.queue.n);
}

/* A queued op: its arguments are copied, its views stay views. */
#define UNPACK(...) __VA_ARGS__
#define OP(name, params, fields, args, call)                                                       \
    struct name##_args {                                                                           \
        UNPACK fields                                                                              \
    };                                                                                             \
    static enum status run_##name(struct backend *be, void *args_)                                 \
    {                                                                                              \
        struct name##_args *a = args_;                                                             \
        return q.real.name call;                                                                   \
    }                                                                                              \
    static enum status queue_##name params                                                         \
    {                                                                                              \
        struct name##_args a = {UNPACK args};                                                      \
        (void)be;                                                                                  \
        return push(run_##name, &a, sizeof a);                                                     \
    }

/* clang-format off */
OP(copy, (struct backend *be, struct view dst, struct view src),
   (struct view dst; struct view src;), (dst, src), (be, a->dst, a->src))
OP(zero, (struct backend *be, struct view dst), (struct view dst;), (dst), (be, a->dst))
OP(embed, (struct backend *be, const struct weight *table, int32_t first_id, struct view ids,
           struct view out),
   (const struct weight *table; int32_t first_id; struct view ids; struct view out;),
   (table, first_id, ids, out), (be, a->table, a->first_id, a->ids, a->out))
OP(linear, (struct backend *be, const struct weight *w, struct view x, struct view out),
   (const struct weight *w; struct view x; struct view out;), (w, x, out),
   (be, a->w, a->x, a->out))
OP(add_rms_norm, (struct backend *be, struct view resid, struct view x, const struct weight *x_bias,
                  const struct weight *w, float eps, struct view out),
   (struct view resid; struct view x; const struct weight *x_bias; const struct weight *w;
    float eps; struct view out;),
   (resid, x, x_bias, w, eps, out), (be, a->resid, a->x, a->x_bias, a->w, a->eps, a->out))
OP(qkv_to_cache, (struct backend *be, const struct attn_layer *al, const struct step_dev *st,
                  struct view qkv, struct kv_layer kv, struct view to),
   (struct attn_layer al; struct step_dev st; struct view qkv; struct kv_layer kv; struct view to;),
   (*al, *st, qkv, kv, to), (be, &a->al, &a->st, a->qkv, a->kv, a->to))
OP(attention, (struct backend *be, const struct attn_layer *al, const struct step_dev *st,
               struct view from, struct kv_layer kv, struct view out),
   (struct attn_layer al; struct step_dev st; struct view from; struct kv_layer kv;
    struct view out;),
   (*al, *st, from, kv, out), (be, &a->al, &a->st, a->from, a->kv, a->out))
OP(act_mul, (struct backend *be, enum act act, struct view gate_up, struct view out),
   (enum act act; struct view gate_up; struct view out;), (act, gate_up, out),
   (be, a->act, a->gate_up, a->out))
OP(gather, (struct backend *be, struct view x, struct view row, struct view out),
   (struct view x; struct view row; struct view out;), (x, row, out),
   (be, a->x, a->row, a->out))
OP(edit_logits, (struct backend *be, const struct vocab_part *part, struct view logits,
                 struct view start, struct view words),
   (struct vocab_part part; struct view logits; struct view start; struct view words;),
   (*part, logits, start, words), (be, &a->part, a->logits, a->start, a->words))
OP(mask_logits, (struct backend *be, const struct vocab_part *part, struct view logits,
                 struct view mask),
   (struct vocab_part part; struct view logits; struct view mask;), (*part, logits, mask),
   (be, &a->part, a->logits, a->mask))
OP(topk, (struct backend *be, const struct vocab_part *part, struct view logits,
          struct view inv_temp, struct view val, struct view id, struct view stat),
   (struct vocab_part part; struct view logits; struct view inv_temp; struct view val;
    struct view id; struct view stat;),
   (*part, logits, inv_temp, val, id, stat),
   (be, &a->part, a->logits, a->inv_temp, a->val, a->id, a->stat))
OP(sample, (struct backend *be, const struct draw_shape *shape, struct view top, struct view row,
            struct view id),
   (struct draw_shape shape; struct view top; struct view row; struct view id;),
   (*shape, top, row, id), (be, &a->shape, a->top, a->row, a->id))
OP(take_tokens, (struct backend *be, struct view token, struct view from, struct view last),
   (struct view token; struct view from; struct view last;), (token, from, last),
   (be, a->token, a->from, a->last))
/* clang-format on */

/* ---- host data ---- */

struct write_args {
    struct view dst;
    void *data;
};

static enum status run_write(struct backend *be, void *args)
{
    struct write_args *a = args;
    enum status st = q.real.write(be, a->dst, a->data);
    free(a->data);
    return st;
}

static enum status queue_write(struct backend *be, struct view dst, const void *src)
{
    size_t bytes = (size_t)dst.rows * (size_t)dst.cols * dtype_size(dst.dtype);
    struct write_args a = {dst, malloc(bytes + 1)};
    (void)be;
    if (q.recording)
        FAIL(ST_BUG, "a write of host data while ops are recorded");
    assert(a.data);
    memcpy(a.data, src, bytes);
    return push(run_write, &a, sizeof a);
}

static enum status queue_read(struct backend *be, void *dst, struct view src)
{
    if (q.recording)
        FAIL(ST_BUG, "a read of device data while ops are recorded");
    TRY(queue_sync(be));
    return q.real.read(be, dst, src);
}

static void finish_all(struct backend *be)
{
    if (queue_sync(be) != ST_OK)
        abort();
}

static void queue_free(struct backend *be, struct buf *b)
{
    finish_all(be);
    q.real.free(be, b);
}

static void queue_close(struct backend *be)
{
    finish_all(be);
    free(q.queue.jobs);
    memset(&q.queue, 0, sizeof q.queue);
    q.real.close(be);
}

/* ---- events and graphs ---- */

static enum status queue_event_mark(struct backend *be, int slot)
{
    (void)be;
    q.mark[slot] = q.queue.n;
    return ST_OK;
}

/* Only a host that is willing to wait makes the device work. */
static enum status queue_event_wait(struct backend *be, int slot, uint64_t wait_us, bool *passed)
{
    if (wait_us > 0 && !q.stalled)
        TRY(run_to(be, q.mark[slot]));
    *passed = q.n_run >= q.mark[slot];
    return ST_OK;
}

static enum status queue_graph_begin(struct backend *be)
{
    (void)be;
    assert(!q.recording);
    q.recording = calloc(1, sizeof *q.recording);
    assert(q.recording);
    return ST_OK;
}

static enum status queue_graph_end(struct backend *be, struct graph **out)
{
    (void)be;
    *out = q.recording;
    q.recording = NULL;
    return ST_OK;
}

static enum status run_graph(struct backend *be, void *args)
{
    struct graph *g;
    memcpy(&g, args, sizeof g);
    for (size_t i = 0; i < g->n; i++)
        TRY(g->jobs[i].run(be, g->jobs[i].args));
    return ST_OK;
}

static enum status queue_graph_launch(struct backend *be, struct graph *g)
{
    (void)be;
    q.n_launches++;
    return push(run_graph, &g, sizeof g);
}

static void queue_graph_free(struct backend *be, struct graph *g)
{
    finish_all(be);
    if (g)
        free(g->jobs);
    free(g);
}

static void queue_info(struct backend *be, struct backend_info *out)
{
    q.real.info(be, out);
    out->graphs = true;
}

void queue_backend_wrap(struct backend *be)
{
    memset(&q, 0, sizeof q);
    q.real = *backend_ops_of(be);
    q.ops = (struct backend_ops){
        .name = q.real.name,
        .open = q.real.open,
        .close = queue_close,
        .info = queue_info,
        .alloc = q.real.alloc,
        .free = queue_free,
        .write = queue_write,
        .read = queue_read,
        .copy = queue_copy,
        .zero = queue_zero,
        .sync = queue_sync,
        .pinned_ptr = q.real.pinned_ptr,
        .weight_bytes = q.real.weight_bytes,
        .load_weight = q.real.load_weight,
        .free_weight = q.real.free_weight,
        .embed = queue_embed,
        .linear = queue_linear,
        .add_rms_norm = queue_add_rms_norm,
        .qkv_to_cache = queue_qkv_to_cache,
        .attention = queue_attention,
        .act_mul = queue_act_mul,
        .gather = queue_gather,
        .edit_logits = queue_edit_logits,
        .mask_logits = queue_mask_logits,
        .topk = queue_topk,
        .sample = queue_sample,
        .take_tokens = queue_take_tokens,
        .event_mark = queue_event_mark,
        .event_wait = queue_event_wait,
        .graph_begin = queue_graph_begin,
        .graph_end = queue_graph_end,
        .graph_launch = queue_graph_launch,
        .graph_free = queue_graph_free,
    };
    ((struct backend_base *)(void *)be)->ops = &q.ops;
}

void queue_backend_stall(bool stall)
{
    q.stalled = stall;
}

int queue_backend_launches(void)
{
    return q.n_launches;
}

size_t queue_backend_depth(void)
{
    return q.depth;
}
