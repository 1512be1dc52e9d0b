/* Four ranks as threads, each with two compute threads of its own, against one rank: for
 * ThreadSanitizer.  A plain program, because Criterion's own memory collides with
 * ThreadSanitizer's. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/engine/engine.h"

enum { MAX_WORLD = 4, N = 40, MAX_VOCAB = 512 };

struct rank {
    int rank, world;
    enum status st;
    char detail[600];
    float logits[N * MAX_VOCAB]; /* [N, vocab] */
    pthread_t thread;
};

static struct rank one[1], four[MAX_WORLD];

static enum status run(struct rank *r, struct backend *be, struct loader *ld, struct coll **co)
{
    struct decoder_config cfg = {.rank = r->rank,
                                 .world = r->world,
                                 .max_tokens = 16,
                                 .max_seqs = 2,
                                 .max_out = 16,
                                 .n_blocks = 12,
                                 .block_len = 8,
                                 .max_ctx = 64};
    struct coll_config cc = {.rank = r->rank,
                             .world = r->world,
                             .be = be,
                             .deadline_ms = 240000,
                             .session = (uint64_t)getpid(),
                             .one_host = true};
    const struct model_config *mc = loader_config(ld);
    struct engine *e;
    int32_t ids[N];
    if (mc->vocab > MAX_VOCAB)
        FAIL(ST_RANGE, "a vocabulary of %d", mc->vocab);
    for (int32_t i = 0; i < N; i++)
        ids[i] = (i * 3 + 1) % mc->vocab;
    TRY(engine_coll_bytes(&cc.max_bytes, mc, &cfg));
    if (r->world > 1)
        TRY(coll_open(co, "shm", &cc));
    TRY(engine_create(&e, ld, be, *co, &cfg));
    enum status st = engine_prepare(e, 1, 0);
    if (st == ST_OK)
        st = engine_forward_verify(e, 1, ids, N, r->logits);
    engine_destroy(e);
    return st;
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct backend_config bc = {.threads = 2};
    struct backend *be = NULL;
    struct loader *ld = NULL;
    struct coll *co = NULL;
    r->st = backend_open(&be, "cpu", &bc);
    if (r->st == ST_OK)
        r->st = loader_open(&ld, INGOT_SOURCE_DIR "/tests/golden/models/llama-gqa");
    if (r->st == ST_OK)
        r->st = run(r, be, ld, &co);
    snprintf(r->detail, sizeof r->detail, "%s", r->st == ST_OK ? "" : status_detail());
    if (co)
        co->ops->close(co);
    loader_close(ld);
    if (be)
        backend_ops_of(be)->close(be);
    return NULL;
}

static int run_group(struct rank *group, int world)
{
    int failed = 0;
    for (int i = 0; i < world; i++) {
        group[i].rank = i;
        group[i].world = world;
        if (pthread_create(&group[i].thread, NULL, rank_main, &group[i]) != 0)
            abort();
    }
    for (int i = 0; i < world; i++) {
        pthread_join(group[i].thread, NULL);
        if (group[i].st != ST_OK) {
            fprintf(stderr, "rank %d of %d: %s\n", i, world, group[i].detail);
            failed = 1;
        }
    }
    return failed;
}

int main(void)
{
    int failed = run_group(one, 1) | run_group(four, MAX_WORLD);
    for (int i = 0; i < MAX_WORLD && !failed; i++)
        failed = memcmp(one[0].logits, four[i].logits, sizeof one[0].logits) != 0;
    puts(failed ? "not the same bits" : "the same bits");
    return failed;
}
