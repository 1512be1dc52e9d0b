#include "worker/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/digest/text_digest.h"
#include "common/log.h"
#include "common/random.h"
#include "worker/host_share.h"
#include "worker/load/pack_cache.h"
#include "worker/numerics.h"
#include "worker/rank_devices.h"
#include "worker/rank_warm.h"
#include "worker/rank_weights.h"

/* ---- agreement ---- */

/* What must be equal on all ranks. */
struct agreed {
    uint64_t digest;
    int64_t max_tokens, max_seqs, n_snapshots, max_ctx, block_len, kv_dtype, coll, graphs;
    char numerics[NUMERICS_ID_SIZE];
};

/* Rank 0 finds the first rank that differs from it. */
static enum status compare(const struct agreed *all, int world)
{
    static const struct {
        const char *name;
        size_t at;
    } fields[] = {
        {"--max-step-tokens", offsetof(struct agreed, max_tokens)},
        {"--max-seqs", offsetof(struct agreed, max_seqs)},
        {"--state-snapshots", offsetof(struct agreed, n_snapshots)},
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
        if (strcmp(all[r].numerics, all[0].numerics) != 0)
            FAIL(ST_RANGE, "rank %d has the numerics %s, rank 0 has %s", r, all[r].numerics,
                 all[0].numerics);
    }
    return ST_OK;
}

/* The weights digests, as far as they are known. */
static enum status agree_on_weights(struct rank *g)
{
    struct rank_weights mine = rank_weights_of(g->weights, g->ci.local_rank == 0);
    struct rank_weights *all = calloc((size_t)g->ci.world, sizeof *all);
    enum rank_agreement agreement = RANKS_WAIT;
    if (!all)
        FAIL(ST_NOMEM, "no memory for %d ranks", g->ci.world);
    enum status st = control_gather(&mine, sizeof mine, all);
    if (st == ST_OK && g->ci.rank == 0)
        st = rank_weights_compare(all, g->ci.world, &agreement);
    free(all);
    g->weights_agreed = agreement == RANKS_AGREE;
    return st;
}

static enum status agree(struct rank *g)
{
    struct agreed mine = {.digest = g->digest,
                          .max_tokens = g->plan.dc.max_tokens,
                          .max_seqs = g->plan.dc.max_seqs,
                          .n_snapshots = g->plan.dc.n_snapshots,
                          .max_ctx = g->plan.dc.max_ctx,
                          .block_len = g->plan.dc.block_len,
                          .kv_dtype = (int64_t)g->plan.dc.kv_dtype,
                          .coll = g->opt->coll,
                          .graphs = g->opt->graphs};
    struct agreed *all = calloc((size_t)g->ci.world, sizeof *all);
    size_t len = sizeof g->launch;
    if (!all)
        FAIL(ST_NOMEM, "no memory for %d ranks", g->ci.world);
    memcpy(mine.numerics, g->numerics, sizeof mine.numerics);
    enum status st = control_gather(&mine, sizeof mine, all);
    if (st == ST_OK && g->ci.rank == 0)
        st = compare(all, g->ci.world);
    free(all);
    TRY(st); /* on rank 0 alone: the caller ends the job */
    TRY(agree_on_weights(g));
    if (g->ci.rank == 0)
        g->launch = g->opt->launch ? (uint64_t)g->opt->launch : random_u64();
    return control_bcast(&g->launch, sizeof g->launch, &len, 0);
}

/* ---- identity ---- */

/* Every rank may hash its files, but a host's ranks take turns through the cache: one does. */
static enum status open_digests(struct rank *g, const struct digest_cache *cache)
{
    struct weights_digest_config cfg = {
        .model = g->opt->model, .cache = cache, .shares = g->ci.local_rank != 0};
    TRY(weights_digest_open(&g->weights, &cfg));
    return g->ci.rank == 0 ? text_digest(g->opt->model, &g->has_text, g->text) : ST_OK;
}

static bool has_bf16_matrix(const struct loader *ld)
{
    struct stored_tensor t;
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        if (t.dtype == DT_BF16 && t.n_dims > 1)
            return true;
    }
    return false;
}

static void set_numerics(struct rank *g)
{
    const struct model_config *mc = loader_config(g->ld);
    bool rounds = has_bf16_matrix(g->ld);         /* nothing else is computed differently, */
    bool scaled = mc->fp8 || mc->fp4 != FP4_NONE; /* by CUDA nothing but these */
    bool f32 = g->plan.info.activations == ACTIVATIONS_F32;
    struct numerics_facts n = {.backend = worker_backend_name(g->opt),
                               .fast = g->opt->numerics != 0,
                               .checkpoint = worker_rounds_inputs(g->opt),
                               .sorted = mc->int_sorted,
                               .activations = rounds ? g->plan.info.activations : ACTIVATIONS_F32,
                               .scaled_f32 = scaled && f32,
                               .kv = g->plan.dc.kv_dtype,
                               .world = g->ci.world,
                               .matrix = g->plan.info.matrix};
    numerics_id(&n, g->numerics);
    if (g->ci.rank == 0)
        log_line(LOG_INFO, "numerics %s", g->numerics);
}

/* ---- sizes ---- */

static double mib(size_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* Before the memory is planned: what its library takes is known afterwards. */
static enum status open_coll(struct rank *g)
{
    TRY(rank_plan_set_blocks(&g->plan, 1)); /* the collective's sizes do not depend on the number */
    struct coll_config cc = rank_plan_coll(&g->plan, g->launch);
    TRY(rank_plan_reserve_coll(&g->plan));
    backend_part(g->be, PART_COLL);
    TRY(timed_coll_open(&g->co, worker_coll_name(g->opt), &cc));
    TRY(control_barrier()); /* ranks that share a device measure what all of them took */
    rank_plan_measure_coll(&g->plan);
    if (g->plan.library)
        log_line(LOG_INFO,
                 "collective %s: its library took %.1f MiB of %s, which are not planned with",
                 g->co->ops.name, mib(g->plan.library), g->plan.info.device);
    return control_barrier(); /* before any of them takes more */
}

static enum status plan_memory(struct rank *g)
{
    struct rank_plan *p = &g->plan;
    const struct decoder_memory *m = &p->memory;
    uint64_t blocks;
    TRY(rank_plan_blocks(p, &blocks));
    TRY(control_min_u64(&blocks));
    TRY(rank_plan_set_blocks(p, blocks));
    log_line(
        LOG_INFO,
        "memory plan: %.1f MiB = weights %.1f + KV %.1f (%d blocks of %d tokens, %s) + scratch "
        "%.1f + tables %.1f + step %.1f + backend %.1f + graphs %.1f + collective %.1f; %.0f of "
        "%.0f MiB free on %s; pinned %.1f MiB; before it the process had %.1f MiB and %.1f of "
        "files",
        mib(p->total), mib(m->weights), mib(m->kv), p->dc.n_blocks, p->dc.block_len,
        dtype_name(p->dc.kv_dtype), mib(m->scratch), mib(m->tables), mib(p->step), mib(p->own),
        mib(p->graph), mib(p->coll), mib(p->free), mib(p->info.mem_total), p->info.device,
        mib(p->pinned), mib(p->place.base.memory), mib(p->place.base.files));
    return rank_plan_fits(p) ? ST_OK : rank_plan_no_room(p, p->free);
}

/* Ranks on one GPU are possible, slow, and have to be asked for. */
static enum status take_place(const struct rank *g, struct rank_place *place)
{
    struct backend_info info;
    struct rank_sharing s;
    backend_ops_of(g->be)->info(g->be, &info);
    TRY(rank_devices(&g->ci, &info, &s));
    if (s.n_memory > 1 && g->opt->device < 0)
        FAIL(ST_RANGE,
             "ranks %d and %d have the same GPU (%s, %s): give each rank one of its own, or let "
             "them share "
             "it with --device N (slow, for tests)",
             g->ci.rank, s.other, info.bus, info.uuid);
    place->n_memory = s.n_memory;
    place->n_device = s.n_device;
    return ST_OK;
}

enum status rank_prepare(struct rank *g, const struct shared_options *opt,
                         const struct control_info *ci, const struct digest_cache *cache)
{
    *g = (struct rank){.opt = opt, .ci = *ci, .threads = (int)opt->threads};
    struct host_taken base = host_taken();
    struct host_share share;
    TRY(loader_open(&g->ld, opt->model));
    if (worker_rounds_inputs(opt))
        TRY(loader_round_inputs(g->ld));
    TRY(open_digests(g, cache)); /* before the rank is bound: all cores may hash */
    TRY(host_share_take(ci, worker_wants_binding(opt), &share));
    if (g->threads == 0)
        g->threads = share.threads;
    log_line(LOG_INFO, "rank %d: cores %s%s, %d thread%s", ci->rank,
             share.cores[0] ? share.cores : "not known", share.bound ? " (bound)" : "", g->threads,
             g->threads == 1 ? "" : "s");
    struct backend_config bc = worker_backend_config(opt, g->threads, ci->local_rank);
    if (loader_config(g->ld)->arch->encoder && bc.activations == ACTIVATIONS_AUTO)
        bc.activations = ACTIVATIONS_F32; /* nearer to what its scores are compared with */
    bc.pin = share.bound && g->threads == share.threads;
    TRY(backend_open(&g->be, worker_backend_name(opt), &bc));
    struct rank_place place = {.rank = ci->rank,
                               .world = ci->world,
                               .n_on_host = ci->local_world,
                               .one_host = ci->one_host,
                               .base = base};
    TRY(take_place(g, &place));
    struct backend_info info;
    backend_ops_of(g->be)->info(g->be, &info);
    loader_sort_columns(g->ld, info.features);
    g->digest = loader_digest(g->ld);
    TRY(rank_plan_init(&g->plan, opt, &place, g->be, g->ld));
    set_numerics(g);
    TRY(agree(g));
    TRY(open_coll(g));
    return plan_memory(g);
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

/* --pack-cache; NULL: none. */
static struct pack_cache *open_cache(struct rank *g)
{
    const char *dir = g->opt->pack_cache;
    if (strcmp(dir, "off") == 0)
        return NULL;
    return pack_cache_attach(g->ld, g->opt->model, strcmp(dir, "auto") == 0 ? NULL : dir, g->be,
                             g->ci.rank, g->ci.world);
}

static enum status load_model(struct rank *g, const struct model_config *mc)
{
    struct pack_cache *cache = open_cache(g);
    enum status st = decoder_open(&g->model, mc, g->ld, g->be, &g->co->head, &g->plan.dc);
    if (st == ST_OK && cache && pack_cache_is_hit(cache))
        log_line(LOG_INFO, "weights were read packed");
    loader_set_cache(g->ld, NULL);
    pack_cache_close(cache, st == ST_OK);
    return st;
}

enum status rank_load(struct rank *g, bool warm_up)
{
    const struct model_config *mc = loader_config(g->ld);
    uint64_t begin = clock_us();
    int percent = -1;
    TRY(rank_plan_reserve(&g->plan));
    if (g->ci.rank == 0 && isatty(STDERR_FILENO))
        loader_on_progress(g->ld, show_progress, &percent);
    TRY(load_model(g, mc));
    g->plan.rc.co = &g->co->head;
    g->plan.rc.model = g->model;
    backend_part(g->be, PART_STEP);
    TRY(rank_step_create(&g->step, &g->plan.rc));
    TRY(control_barrier());
    uint64_t loaded = clock_us();
    char first[64] = "no first steps";
    if (warm_up) {
        TRY(rank_warm_up(g->step)); /* before files are hashed beside it */
        snprintf(first, sizeof first, "first steps in %.0f ms",
                 (double)(clock_us() - loaded) * 1e-3);
    }
    weights_digest_begin(g->weights);
    if (g->ci.rank == 0)
        log_line(LOG_INFO,
                 "loaded %s in %.2f s, %s: %d ranks, collective %s, %d thread%s each, %d graphs",
                 g->opt->model, (double)(loaded - begin) * 1e-6, first, g->ci.world,
                 g->co->ops.name, g->threads, g->threads == 1 ? "" : "s",
                 rank_step_n_graphs(g->step));
    return ST_OK;
}

void rank_close(struct rank *g)
{
    rank_step_destroy(g->step);
    decoder_close(g->model);
    timed_coll_close(g->co);
    weights_digest_close(g->weights);
    loader_close(g->ld);
    if (g->be)
        backend_ops_of(g->be)->close(g->be);
    rank_plan_fini(&g->plan);
    *g = (struct rank){0};
}
