#include "worker/rank_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/formats/sentence_folder.h"
#include "worker/graphs.h"

enum { MAX_EDITS = 16384 }; /* of a step; one with more is run in parts, not as a graph */

static enum status set_sizes(struct rank_plan *p, const struct model_config *mc)
{
    const struct shared_options *o = p->opt;
    if (o->max_ctx > mc->max_ctx)
        FAIL(ST_RANGE, "--max-ctx %lld: this model was made for %d tokens", (long long)o->max_ctx,
             mc->max_ctx);
    p->dc = worker_decoder_config(o, mc->dtype, p->place.world);
    if (mc->arch->encoder && o->kv_dtype == 0)
        p->dc.kv_dtype = DT_F32; /* it is of one layer, and read once */
    p->dc.rank = p->place.rank;
    if (!model_n_delta(mc))
        p->dc.n_snapshots = 0;
    p->dc.n_blocks = 1; /* decided when the memory is planned */
    if (p->dc.max_ctx == 0)
        p->dc.max_ctx = mc->max_ctx;
    if (mc->arch->encoder && p->dc.max_tokens < p->dc.max_ctx)
        p->dc.max_tokens = p->dc.max_ctx; /* a text is one step */
    if (p->place.world > 1 && strcmp(worker_backend_name(o), "metal") == 0)
        FAIL(ST_UNSUPPORTED, "--tp %d: the backend metal runs on one rank alone (--tp 1)",
             p->place.world);
    if (!worker_has_activations(o))
        FAIL(ST_UNSUPPORTED,
             "--activations bf16 and bf16-tiles are the CPU backend's, f32 that one's and CUDA's: "
             "backend %s has one way for these weights",
             worker_backend_name(o));
    if (!(p->info.kv_types & 1U << p->dc.kv_dtype))
        FAIL(ST_UNSUPPORTED, "--kv-dtype %s: backend %s cannot do that", dtype_name(p->dc.kv_dtype),
             worker_backend_name(o));
    return ST_OK;
}

static enum status set_parts(struct rank_plan *p, const struct model_config *mc)
{
    p->parts = calloc((size_t)p->place.world, sizeof *p->parts);
    if (!p->parts)
        FAIL(ST_NOMEM, "no memory for %d ranks", p->place.world);
    for (int r = 0; r < p->place.world; r++) {
        struct shard sh;
        TRY(shard_plan(&sh, mc, r, p->place.world));
        p->parts[r] = sh.vocab;
    }
    return ST_OK;
}

/* Whether decodes are recorded; the pads of their batches want a KV block of their own.  What gives
 * embeddings alone has none. */
static void set_graphs(struct rank_plan *p, const struct model_config *mc)
{
    bool decodes = !mc->headless && !mc->arch->encoder;
    struct coll_config cc = {.world = p->place.world, .be = p->be, .one_host = p->place.one_host};
    p->graphs = decodes && worker_wants_graphs(p->opt) && p->info.graphs &&
                coll_in_graph(worker_coll_name(p->opt), &cc);
    p->dc.n_pad_blocks = p->graphs;
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static void set_step(struct rank_plan *p, const struct model_config *mc)
{
    p->rc = (struct rank_step_config){
        .rank = p->place.rank,
        .world = p->place.world,
        .be = p->be,
        .parts = p->parts,
        .deadline_ms = (uint32_t)p->opt->peer_ms,
        .masks = backend_ops_of(p->be)->mask_logits != NULL,
        .forced_tokens = p->opt->forced_tokens,
        .pool = p->modules.present ? &p->pool : NULL,
        .headless = mc->headless,
        .encoder = mc->arch->encoder != NULL,
        .graphs = p->graphs,
        .step = {.max_tokens = p->dc.max_tokens,
                 .max_seqs = p->dc.max_seqs,
                 .max_open = p->dc.max_seqs,
                 .max_ctx = p->dc.max_ctx,
                 .n_blocks = p->dc.n_blocks,
                 .block_len = p->dc.block_len,
                 .vocab = mc->vocab,
                 .n_types = mc->arch->encoder ? (mc->n_types > 0 ? mc->n_types : 1) : 0,
                 .states = model_n_delta(mc) > 0,
                 .n_snapshots = p->dc.n_snapshots,
                 .max_edits = MAX_EDITS,
                 .max_scored = MAX_SCORED_ROWS,
                 .pad = p->graphs,
                 .land = backend_ops_of(p->be)->upload != NULL},
    };
}

static bool is_gpu(const struct rank_plan *p)
{
    return strcmp(worker_backend_name(p->opt), "cpu") != 0;
}

/* Ranks that share the memory: of a GPU, or of the host. */
static int n_sharing(const struct rank_plan *p)
{
    return is_gpu(p) ? p->place.n_memory : p->place.n_on_host;
}

static enum status init_parts(struct rank_plan *p)
{
    const struct model_config *mc = loader_config(p->ld);
    TRY(set_sizes(p, mc));
    TRY(set_parts(p, mc));
    set_graphs(p, mc);
    TRY(sentence_modules_load(&p->modules, p->opt->model, mc,
                              (struct modules_asked){p->opt->embed, p->opt->rerank}));
    if (mc->headless && !p->modules.present)
        FAIL(ST_UNSUPPORTED, "the model's files have no head and no modules.json: with --embed it "
                             "gives embeddings of the last token's state");
    p->pool = (struct pooler_config){.modules = &p->modules,
                                     .model = p->opt->model,
                                     .hidden = mc->hidden,
                                     .max_open = p->dc.max_seqs};
    return ST_OK;
}

enum status rank_plan_init(struct rank_plan *p, const struct shared_options *opt,
                           const struct rank_place *place, struct backend *be, struct loader *ld)
{
    *p = (struct rank_plan){.opt = opt, .place = *place, .be = be, .ld = ld};
    backend_ops_of(be)->info(be, &p->info);
    p->free = p->info.mem_free / (size_t)n_sharing(p);
    enum status st = init_parts(p);
    if (st != ST_OK)
        rank_plan_fini(p);
    return st;
}

void rank_plan_fini(struct rank_plan *p)
{
    free(p->parts);
    sentence_modules_free(&p->modules);
    *p = (struct rank_plan){0};
}

static size_t coll_pinned(const struct rank_plan *p)
{
    return p->coll ? alloc_bytes(COLL_PINNED_BYTES) : 0;
}

enum status rank_plan_set_blocks(struct rank_plan *p, uint64_t blocks)
{
    const struct model_config *mc = loader_config(p->ld);
    p->dc.n_blocks = (int32_t)blocks;
    set_step(p, mc);
    TRY(decoder_plan_memory(&p->memory, mc, p->ld, p->be, &p->dc));
    struct coll_config cc = rank_plan_coll(p, 0);
    p->own = p->info.mem_own + p->memory.linear;
    struct mem_bytes step = rank_step_bytes(&p->rc);
    p->step = step.device;
    p->pinned = step.pinned;
    if (backend_ops_of(p->be)->host_ptr) { /* the device's memory is the host's */
        p->step += step.pinned + rank_step_host_bytes(&p->rc);
        p->pinned = 0;
    }
    p->graph = p->graphs ? graphs_bytes(mc, smaller(p->dc.max_seqs, p->dc.max_tokens)) : 0;
    if (p->rc.masks)
        p->graph *= 2; /* of whole steps, and of the fronts of those with grammars */
    p->coll = coll_device_bytes(worker_coll_name(p->opt), &cc);
    if (backend_ops_of(p->be)->host_ptr)
        p->coll += coll_host_bytes(worker_coll_name(p->opt), &cc);
    else
        p->pinned += coll_pinned(p);
    p->total = p->own + p->memory.weights + p->memory.kv + p->memory.states + p->memory.scratch +
               p->memory.tables + p->step + p->graph + p->coll;
    return ST_OK;
}

enum status rank_plan_blocks(struct rank_plan *p, uint64_t *blocks)
{
    const struct shared_options *o = p->opt;
    TRY(rank_plan_set_blocks(p, 1));
    size_t per = p->memory.kv_per_block ? p->memory.kv_per_block : 1;
    size_t fixed = p->total - per; /* all but the one block; a block for pads is in it */
    uint64_t countable = (uint64_t)(INT32_MAX / p->dc.block_len - p->dc.n_pad_blocks);
    uint64_t per_seq = (uint64_t)((p->dc.max_ctx - 1) / p->dc.block_len + 1);
    *blocks = (uint64_t)o->kv_blocks;
    if (o->kv_memory)
        *blocks = o->kv_memory / per;
    if (*blocks == 0 && o->kv_memory)
        FAIL(ST_RANGE, "--kv-memory %llu: one block of %d tokens needs %zu bytes",
             (unsigned long long)o->kv_memory, p->dc.block_len, per);
    if (*blocks == 0) {
        *blocks = per_seq * (uint64_t)p->dc.max_seqs;
        if (p->free && fixed >= p->free)
            return rank_plan_no_room(p, p->free);
        uint64_t most = p->free ? (uint64_t)((double)(p->free - fixed) * 0.7) / per : *blocks;
        *blocks = most < *blocks ? most : *blocks;
    }
    if (*blocks == 0)
        return rank_plan_no_room(p, p->free);
    if (*blocks > countable)
        *blocks = countable;
    return ST_OK;
}

bool rank_plan_fits(const struct rank_plan *p)
{
    return p->free == 0 || p->total <= p->free;
}

enum status rank_plan_no_room(const struct rank_plan *p, size_t mem_free)
{
    FAIL(ST_NOMEM,
         "no room on %s: wanted are %zu bytes (weights %zu, KV cache of %d blocks %zu, states of "
         "sequences %zu, scratch %zu, "
         "tables %zu, step %zu, backend %zu, graphs %zu, collective %zu), %zu of %zu are free for "
         "this rank; smaller: --kv-memory or --kv-blocks (KV cache), --max-step-tokens (scratch), "
         "--max-seqs (states, scratch, step), --state-snapshots (states), --max-ctx (tables, "
         "step), --graphs off; or more ranks",
         p->info.device, p->total, p->memory.weights, p->dc.n_blocks, p->memory.kv,
         p->memory.states, p->memory.scratch, p->memory.tables, p->step, p->own, p->graph, p->coll,
         mem_free, p->info.mem_total);
}

enum status rank_plan_reserve_coll(const struct rank_plan *p)
{
    const struct backend_ops *ops = backend_ops_of(p->be);
    const struct mem_plan plan = {.part = {[PART_COLL] = p->coll}, .pinned = coll_pinned(p)};
    return ops->reserve && p->coll ? ops->reserve(p->be, &plan) : ST_OK;
}

void rank_plan_measure_coll(struct rank_plan *p)
{
    const struct backend_ops *ops = backend_ops_of(p->be);
    struct backend_info now;
    if (!ops->reserve)
        return;
    ops->info(p->be, &now);
    size_t n = (size_t)n_sharing(p), rest = now.mem_free + n * p->coll;
    p->library = rest < p->info.mem_free ? (p->info.mem_free - rest) / n : 0;
    p->free = rest / n;
}

enum status rank_plan_reserve(const struct rank_plan *p)
{
    const struct backend_ops *ops = backend_ops_of(p->be);
    const struct mem_plan plan = {.part = {[PART_OWN] = p->own,
                                           [PART_WEIGHTS] = p->memory.weights,
                                           [PART_SCRATCH] = p->memory.scratch,
                                           [PART_KV] = p->memory.kv + p->memory.states,
                                           [PART_TABLES] = p->memory.tables,
                                           [PART_STEP] = p->step},
                                  .pinned = p->pinned - coll_pinned(p),
                                  .driver = p->graph};
    if (!ops->reserve)
        return ST_OK;
    struct backend_info now;
    ops->info(p->be, &now); /* others may have taken memory since the plan was made */
    if (p->total - p->coll > now.mem_free)
        return rank_plan_no_room(p, now.mem_free + p->coll);
    return ops->reserve(p->be, &plan);
}

struct coll_config rank_plan_coll(const struct rank_plan *p, uint64_t session)
{
    size_t layers = decoder_coll_bytes(loader_config(p->ld), &p->dc);
    size_t after = rank_step_coll_bytes(&p->rc);
    return (struct coll_config){.rank = p->place.rank,
                                .world = p->place.world,
                                .be = p->be,
                                .max_bytes = layers > after ? layers : after,
                                .deadline_ms = (uint32_t)p->opt->peer_ms,
                                .session = session,
                                .any_order = p->opt->numerics != 0,
                                .one_host = p->place.one_host,
                                .share_device = is_gpu(p) && p->place.n_device > 1};
}
