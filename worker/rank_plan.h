/* Sizes of everything that one rank takes, computed before anything is loaded: by a rank that
 * starts (group.h) and by `ingot inspect`, which plans for ranks that are not there.  init, then
 * blocks, then set_blocks with the least number of all ranks.  A rank opens its collective before
 * blocks. */
#ifndef WORKER_RANK_PLAN_H
#define WORKER_RANK_PLAN_H

#include "common/host.h"
#include "worker/model/decoder.h"
#include "worker/options.h"
#include "worker/rank_step.h"

struct rank_place {
    int rank, world;
    int n_on_host;          /* ranks of the group on this rank's host */
    int n_memory, n_device; /* GPU: ranks that share its memory, and the device (rank_devices.h) */
    bool one_host;          /* all of the group's ranks are on it */
    struct host_taken base; /* that the process had before the backend was opened: the program, its
                               libraries, MPI; not part of the plan */
};

struct rank_plan {
    const struct shared_options *opt;
    struct rank_place place;
    struct backend *be;
    struct loader *ld;
    struct backend_info info;
    struct vocab_part *parts; /* [world] */
    struct decoder_config dc;
    struct rank_step_config rc;      /* co and model are the caller's to set */
    bool graphs;                     /* decodes are recorded */
    struct sentence_modules modules; /* how the model's embeddings are made */
    struct pooler_config pool;

    /* bytes; final after set_blocks */
    size_t free; /* that this rank may plan with, what it has taken for the collective included; 0:
                    not known */
    size_t library; /* that opening the collective took besides `coll`: measured, not in total */
    size_t own;     /* working memory of the backend, memory.linear included */
    struct decoder_memory memory;
    size_t step, graph;
    size_t coll;   /* of the collective: on the device, and where that is the host, the host's */
    size_t total;  /* of all these */
    size_t pinned; /* memory of the host besides, where the device has its own */
};

/* opt, be and ld are borrowed.  ST_RANGE and ST_UNSUPPORTED name the option that cannot be. */
MUST_CHECK enum status rank_plan_init(struct rank_plan *p, const struct shared_options *opt,
                                      const struct rank_place *place, struct backend *be,
                                      struct loader *ld);
void rank_plan_fini(struct rank_plan *p);

/* KV blocks that this rank has room for.  ST_NOMEM: not even one. */
MUST_CHECK enum status rank_plan_blocks(struct rank_plan *p, uint64_t *blocks);

/* Sets dc, rc and all figures for that many blocks. */
MUST_CHECK enum status rank_plan_set_blocks(struct rank_plan *p, uint64_t blocks);

/* Does all of it fit into what is free? */
bool rank_plan_fits(const struct rank_plan *p);

/* The device has `mem_free` bytes, less than the plan: ST_NOMEM, with all figures and the options
 * that change them. */
MUST_CHECK enum status rank_plan_no_room(const struct rank_plan *p, size_t mem_free);

/* These three where the backend can (`planned`, and reserve is there).  The memory of the collective:
 * after set_blocks with any number, before it is opened. */
MUST_CHECK enum status rank_plan_reserve_coll(const struct rank_plan *p);
/* The collective is open and warm on all ranks: what its library took besides (NCCL: its channels'
 * buffers) cannot be planned with any more.  Sets free and library; before blocks. */
void rank_plan_measure_coll(struct rank_plan *p);
/* All other memory at once; before it is alloc'ed. */
MUST_CHECK enum status rank_plan_reserve(const struct rank_plan *p);

/* For coll_open; rc says who takes part.  session is the caller's. */
struct coll_config rank_plan_coll(const struct rank_plan *p, uint64_t session);

#endif
