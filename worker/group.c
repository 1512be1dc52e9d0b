#include "worker/group.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "worker/graphs.h"
#include "worker/host_share.h"
#include "worker/load/pack_cache.h"

/* ---- agreement ---- */

/* What must be equal on all ranks. */
struct agreed {
    uint64_t digest;
    int64_t max_tokens, max_seqs, max_ctx, block_len, kv_dtype, coll, graphs;
};

static enum status random_u64(uint64_t *out)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, sizeof *out) : -1;
    if (fd >= 0)
        close(fd);
    if (n != (ssize_t)sizeof *out)
        FAIL(ST_IO, "cannot read /dev/urandom");
    return ST_OK;
}

/* Rank 0 finds the first rank that differs from it. */
static enum status compare(const struct agreed *all, int world)
{
    static const struct {
        const char *name;
        size_t at;
    } fields[] = {
        {"--max-step-tokens", offsetof(struct agreed, max_tokens)},
        {"--max-seqs", offsetof(struct agreed, max_seqs)},
        {"--max-ctx", offsetof(struct agreed, max_ctx)},
        {"--block-len", offsetof(struct agreed, block_len)},
        {"--kv-dtype", offsetof(struct agreed, kv_dtype)},
        {"--coll", offsetof(struct agreed, coll)},
        {"--graphs", offsetof(struct agreed, graphs)},
    };
    for (int r = 1; r < world; r++) {
        if (all[r].digest != all[0].digest)
            FAIL(ST_RANGE, "rank %d has another model than rank 0 (digests %016llx, %016llx)", r,
                 (unsigned long long)all[r].digest, (unsigned long long)all[0].digest);
        for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
            int64_t a, b;
            memcpy(&a, (const char *)&all[0] + fields[i].at, sizeof a);
            memcpy(&b, (const char *)&all[r] + fields[i].at, sizeof b);
            if (a != b)
                FAIL(ST_RANGE, "rank %d has %s %lld, rank 0 has %lld", r, fields[i].name,
                     (long long)b, (long long)a);
        }
    }
    return ST_OK;
}

static enum status agree(struct group *g)
{
    struct agreed mine = {.digest = g->digest,
                          .max_tokens = g->dc.max_tokens,
                          .max_seqs = g->dc.max_seqs,
                          .max_ctx = g->dc.max_ctx,
                          .block_len = g->dc.block_len,
                          .kv_dtype = (int64_t)g->dc.kv_dtype,
                          .coll = g->opt->coll,
                          .graphs = g->opt->graphs};
    struct agreed *all = calloc((size_t)g->ci.world, sizeof *all);
    size_t len = sizeof g->launch;
    if (!all)
        FAIL(ST_NOMEM, "no memory for %d ranks", g->ci.world);
    enum status st = control_gather(&mine, sizeof mine, all);
    if (st == ST_OK && g->ci.rank == 0)
        st = compare(all, g->ci.world);
    free(all);
    TRY(st); /* on rank 0 alone: the caller ends the job */
    if (g->ci.rank == 0)
        TRY(random_u64(&g->launch));
    return control_bcast(&g->launch, sizeof g->launch, &len, 0);
}

/* ---- sizes ---- */

static enum status set_sizes(struct group *g, const struct model_config *mc)
{
    const struct worker_options *o = g->opt;
    if (o->max_ctx > mc->max_ctx)
        FAIL(ST_RANGE, "--max-ctx %lld: this model was made for %d tokens", (long long)o->max_ctx,
             mc->max_ctx);
    g->dc = worker_decoder_config(o, mc->dtype, g->ci.world);
    g->dc.rank = g->ci.rank;
    g->dc.n_blocks = 1; /* decided when the memory is planned */
    if (g->dc.max_ctx == 0)
        g->dc.max_ctx = mc->max_ctx;
    return ST_OK;
}

static void set_step(struct group *g, const struct model_config *mc)
{
    g->rc = (struct rank_step_config){
        .rank = g->ci.rank,
        .world = g->ci.world,
        .be = g->be,
        .parts = g->parts,
        .deadline_ms = (uint32_t)g->opt->peer_ms,
        .graphs = g->graphs,
        .step = {.max_tokens = g->dc.max_tokens,
                 .max_seqs = g->dc.max_seqs,
                 .max_open = g->dc.max_seqs,
                 .max_ctx = g->dc.max_ctx,
                 .n_blocks = g->dc.n_blocks,
                 .block_len = g->dc.block_len,
                 .vocab = mc->vocab,
                 .pad = g->graphs},
    };
}

static enum status set_parts(struct group *g, const struct model_config *mc)
{
    g->parts = calloc((size_t)g->ci.world, sizeof *g->parts);
    if (!g->parts)
        FAIL(ST_NOMEM, "no memory for %d ranks", g->ci.world);
    for (int r = 0; r < g->ci.world; r++) {
        struct shard sh;
        TRY(shard_plan(&sh, mc, r, g->ci.world));
        g->parts[r] = sh.vocab;
    }
    return ST_OK;
}

static struct coll_config coll_config_of(const struct group *g, const struct model_config *mc)
{
    size_t layers = decoder_coll_bytes(mc, &g->dc), after = rank_step_coll_bytes(&g->rc);
    return (struct coll_config){.rank = g->ci.rank,
                                .world = g->ci.world,
                                .be = g->be,
                                .max_bytes = layers > after ? layers : after,
                                .deadline_ms = (uint32_t)g->opt->peer_ms,
                                .session = g->launch,
                                .any_order = g->opt->numerics != 0,
                                .one_host = g->ci.one_host};
}

/* Whether decodes are recorded; the pads of their batches want a KV block of their own. */
static void set_graphs(struct group *g, const struct backend_info *info)
{
    struct coll_config cc = {.world = g->ci.world, .be = g->be, .one_host = g->ci.one_host};
    g->graphs =
        worker_wants_graphs(g->opt) && info->graphs && coll_in_graph(worker_coll_name(g->opt), &cc);
    g->dc.n_pad_blocks = g->graphs;
}

static size_t graph_memory(const struct group *g)
{
    return g->graphs ? graphs_bytes(loader_config(g->ld), g->dc.max_out) : 0;
}

static size_t coll_memory(const struct group *g)
{
    struct coll_config cc = coll_config_of(g, loader_config(g->ld));
    return coll_device_bytes(worker_coll_name(g->opt), &cc);
}

static size_t fixed_bytes(const struct group *g, const struct decoder_memory *m)
{
    return m->weights + m->scratch + m->tables + rank_step_bytes(&g->rc) + graph_memory(g) +
           coll_memory(g);
}

/* Blocks that this rank has room for; free: bytes that this rank may plan with, 0 = not known. */
static enum status blocks_here(const struct group *g, const struct decoder_memory *m, size_t free,
                               uint64_t *blocks)
{
    const struct worker_options *o = g->opt;
    size_t per = m->kv_per_block ? m->kv_per_block : 1;
    size_t fixed = fixed_bytes(g, m) + (size_t)g->dc.n_pad_blocks * per;
    uint64_t countable = (uint64_t)(INT32_MAX / g->dc.block_len - g->dc.n_pad_blocks);
    uint64_t per_seq = (uint64_t)((g->dc.max_ctx - 1) / g->dc.block_len + 1);
    *blocks = (uint64_t)o->kv_blocks;
    if (o->kv_memory)
        *blocks = o->kv_memory / per;
    if (*blocks == 0 && o->kv_memory)
        FAIL(ST_RANGE, "--kv-memory %llu: one block of %d tokens needs %zu bytes",
             (unsigned long long)o->kv_memory, g->dc.block_len, per);
    if (*blocks == 0) {
        *blocks = per_seq * (uint64_t)g->dc.max_seqs;
        if (free && fixed >= free)
            FAIL(ST_NOMEM, "the model needs %zu bytes on this rank, %zu are free", fixed, free);
        uint64_t most = free ? (uint64_t)((double)(free - fixed) * 0.7) / per : *blocks;
        *blocks = most < *blocks ? most : *blocks;
    }
    if (*blocks == 0)
        FAIL(ST_NOMEM, "no room for the KV cache: %zu bytes are free, the model needs %zu", free,
             fixed);
    if (*blocks > countable)
        *blocks = countable;
    return ST_OK;
}

/* Ranks that share the memory: those of a host, or the one that has a GPU for itself. */
static int ranks_on_device(const struct group *g)
{
    bool own = strcmp(worker_backend_name(g->opt), "cpu") != 0 && g->opt->device < 0;
    return own ? 1 : g->ci.local_world;
}

static enum status plan_memory(struct group *g, const struct model_config *mc)
{
    struct decoder_memory m;
    struct backend_info info;
    uint64_t blocks;
    backend_ops_of(g->be)->info(g->be, &info);
    size_t free = info.mem_free / (size_t)ranks_on_device(g);
    if (!(info.kv_types & 1U << g->dc.kv_dtype))
        FAIL(ST_UNSUPPORTED, "--kv-dtype %s: backend %s cannot do that", dtype_name(g->dc.kv_dtype),
             worker_backend_name(g->opt));
    set_graphs(g, &info);
    set_step(g, mc);
    TRY(decoder_plan_memory(&m, mc, g->ld, g->be, &g->dc));
    TRY(blocks_here(g, &m, free, &blocks));
    TRY(control_min_u64(&blocks));
    g->dc.n_blocks = (int32_t)blocks;
    set_step(g, mc);
    TRY(decoder_plan_memory(&m, mc, g->ld, g->be, &g->dc));
    size_t total = fixed_bytes(g, &m) + m.kv;
    log_line(LOG_INFO,
             "memory plan: weights %zu + KV %zu (%d blocks of %d tokens, %zu bytes each, %s) + "
             "scratch %zu + tables %zu + step %zu + graphs %zu + collective %zu = %zu bytes; %zu "
             "of %zu free on %s",
             m.weights, m.kv, g->dc.n_blocks, g->dc.block_len, m.kv_per_block,
             dtype_name(g->dc.kv_dtype), m.scratch, m.tables, rank_step_bytes(&g->rc),
             graph_memory(g), coll_memory(g), total, free, info.mem_total, info.device);
    if (free && total > free)
        FAIL(ST_NOMEM, "the memory plan of %zu bytes does not fit into the %zu free ones", total,
             free);
    return ST_OK;
}

enum status group_plan(struct group *g, const struct worker_options *opt,
                       const struct control_info *ci)
{
    *g = (struct group){.opt = opt, .ci = *ci, .threads = (int)opt->threads};
    struct host_share share;
    TRY(host_share_take(ci, worker_wants_binding(opt), &share));
    if (g->threads == 0)
        g->threads = share.threads;
    log_line(LOG_INFO, "rank %d: cores %s%s, %d thread%s", ci->rank,
             share.cores[0] ? share.cores : "not known", share.bound ? " of its own" : "",
             g->threads, g->threads == 1 ? "" : "s");
    struct backend_config bc = worker_backend_config(opt, g->threads, ci->local_rank);
    bc.pin = share.bound && g->threads == share.threads;
    TRY(backend_open(&g->be, worker_backend_name(opt), &bc));
    TRY(loader_open(&g->ld, opt->model));
    const struct model_config *mc = loader_config(g->ld);
    g->digest = loader_digest(g->ld);
    TRY(set_sizes(g, mc));
    TRY(set_parts(g, mc));
    TRY(agree(g));
    return plan_memory(g, mc);
}

/* ---- loading ---- */

/* Rank 0 on a terminal: a line that is written over. */
static void show_progress(void *ctx, size_t done, size_t total)
{
    int *percent = ctx;
    int now = total ? (int)((double)done / (double)total * 100.0) : 100;
    if (now == *percent)
        return;
    *percent = now;
    fprintf(stderr, "\rloading %zu of %zu bytes (%d %%)%s", done, total, now,
            done == total ? "\n" : "");
    fflush(stderr);
}

static enum status open_coll(struct group *g, const struct model_config *mc)
{
    struct coll_config cc = coll_config_of(g, mc);
    return timed_coll_open(&g->co, worker_coll_name(g->opt), &cc);
}

/* --pack-cache; NULL: none. */
static struct pack_cache *open_cache(struct group *g)
{
    const char *dir = g->opt->pack_cache;
    if (strcmp(dir, "off") == 0)
        return NULL;
    return pack_cache_attach(g->ld, g->opt->model, strcmp(dir, "auto") == 0 ? NULL : dir, g->be,
                             g->ci.rank, g->ci.world);
}

static enum status load_model(struct group *g, const struct model_config *mc)
{
    struct pack_cache *cache = open_cache(g);
    enum status st = decoder_open(&g->model, mc, g->ld, g->be, &g->co->head, &g->dc);
    if (st == ST_OK && cache && pack_cache_is_hit(cache))
        log_line(LOG_INFO, "weights were read packed");
    loader_set_cache(g->ld, NULL);
    pack_cache_close(cache, st == ST_OK);
    return st;
}

enum status group_load(struct group *g)
{
    const struct model_config *mc = loader_config(g->ld);
    uint64_t begin = clock_us();
    int percent = -1;
    TRY(open_coll(g, mc));
    if (g->ci.rank == 0 && isatty(STDERR_FILENO))
        loader_on_progress(g->ld, show_progress, &percent);
    TRY(load_model(g, mc));
    g->rc.co = &g->co->head;
    g->rc.model = g->model;
    TRY(rank_step_create(&g->step, &g->rc));
    TRY(control_barrier());
    if (g->ci.rank == 0)
        log_line(LOG_INFO,
                 "loaded %s in %.2f s: %d ranks, collective %s, %d threads each, %d graphs",
                 g->opt->model, (double)(clock_us() - begin) * 1e-6, g->ci.world, g->co->ops.name,
                 g->threads, rank_step_n_graphs(g->step));
    return ST_OK;
}

void group_close(struct group *g)
{
    rank_step_destroy(g->step);
    decoder_close(g->model);
    timed_coll_close(g->co);
    loader_close(g->ld);
    if (g->be)
        backend_ops_of(g->be)->close(g->be);
    free(g->parts);
    *g = (struct group){0};
}
