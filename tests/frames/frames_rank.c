/* A worker group of one rank that goes on after a bad message: the loop of ingot-worker with a tiny model, started again
 * whenever it has ended (tests/cluster/test_mutated.py is its coordinator).
 *
 *   frames_rank ENDPOINT MODEL
 *
 * Ends on SIGTERM with 0, and with 1 when there is no coordinator. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend.h"
#include "collectives/coll.h"
#include "collectives/control.h"
#include "common/log.h"
#include "worker/load/loader.h"
#include "worker/model/decoder.h"
#include "worker/rank_loop.h"

/* As the options of RANK in tests/cluster/test_mutated.py. */
enum { SEQS = 8, TOKENS = 64, BLOCK = 16, BLOCKS = 64, MAX_CTX = 256, LEASE_MS = 300000 };

struct rig {
    struct backend *be;
    struct loader *ld;
    struct coll *co;
    struct decoder *model;
    struct rank_step *step;
    struct coordinator_port *port;
    struct vocab_part part;
};

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
    (void)sig;
    stop = 1;
}

static enum status open_rig(struct rig *r, const char *endpoint, const char *path)
{
    struct backend_config bc = {.threads = 1};
    struct decoder_config dc = {.world = 1,
                                .max_tokens = TOKENS,
                                .max_seqs = SEQS,
                                .max_out = SEQS,
                                .n_blocks = BLOCKS,
                                .block_len = BLOCK,
                                .max_ctx = MAX_CTX,
                                .kv_dtype = DT_F16};
    struct control_info ci;
    TRY(control_open(&ci));
    TRY(backend_open(&r->be, "cpu", &bc));
    TRY(loader_open(&r->ld, path));
    const struct model_config *mc = loader_config(r->ld);
    struct coll_config cc = {.world = 1,
                             .be = r->be,
                             .max_bytes = decoder_coll_bytes(mc, &dc),
                             .deadline_ms = 1000,
                             .one_host = true};
    TRY(coll_open(&r->co, NULL, &cc));
    TRY(decoder_open(&r->model, mc, r->ld, r->be, r->co, &dc));
    r->part = decoder_shard(r->model)->vocab;
    struct rank_step_config rc = {.world = 1,
                                  .be = r->be,
                                  .co = r->co,
                                  .model = r->model,
                                  .parts = &r->part,
                                  .deadline_ms = LEASE_MS,
                                  .masks = backend_ops_of(r->be)->mask_logits != NULL,
                                  .forced_tokens = true,
                                  .step = {.max_tokens = TOKENS,
                                           .max_seqs = SEQS,
                                           .max_open = SEQS,
                                           .max_ctx = MAX_CTX,
                                           .n_blocks = BLOCKS,
                                           .block_len = BLOCK,
                                           .vocab = mc->vocab,
                                           .max_edits = 256}};
    TRY(rank_step_create(&r->step, &rc));
    struct coordinator_port_config pc = {.endpoint = endpoint,
                                         .lease_ms = LEASE_MS,
                                         .rejoin_ms = LEASE_MS,
                                         .max_message = RANK_MAX_MESSAGE,
                                         .refused_exit = 5};
    return coordinator_port_open(&r->port, &pc);
}

static void close_rig(struct rig *r)
{
    coordinator_port_close(r->port);
    rank_step_destroy(r->step);
    decoder_close(r->model);
    if (r->co)
        r->co->ops->close(r->co);
    loader_close(r->ld);
    if (r->be)
        backend_ops_of(r->be)->close(r->be);
    control_close();
}

/* A new connection, without the messages that this one has brought already. */
static enum status join_again(struct rig *r, uint8_t *buf)
{
    size_t n;
    do {
        n = 0;
        enum status st = coordinator_port_recv(r->port, buf, RANK_MAX_MESSAGE, &n, 0);
        if (st != ST_OK && st != ST_CANCELED)
            return st;
    } while (n > 0);
    rank_step_reset(r->step);
    return coordinator_port_again(r->port);
}

static enum status run(struct rig *r, uint8_t *buf)
{
    static uint64_t comm_us;
    const struct model_config *mc = loader_config(r->ld);
    struct worker_hello hello = {.wire_version = WORKER_WIRE_VERSION,
                                 .model = "frames",
                                 .world = 1,
                                 .backend = "cpu",
                                 .coll = "local",
                                 .vocab = (uint32_t)mc->vocab,
                                 .max_ctx = MAX_CTX,
                                 .block_len = BLOCK,
                                 .n_blocks = BLOCKS,
                                 .max_step_tokens = TOKENS,
                                 .max_seqs = SEQS,
                                 .launch = 1,
                                 .pid = (uint64_t)getpid(),
                                 .numerics = "frames"};
    struct rank_loop_config cfg = {.world = 1,
                                   .step = r->step,
                                   .comm_us = &comm_us,
                                   .port = r->port,
                                   .hello = &hello,
                                   .first_on_host = true,
                                   .lease_ms = LEASE_MS,
                                   .peer_ms = LEASE_MS,
                                   .stop = &stop};
    while (!stop) {
        enum loop_end end;
        enum status st = rank_loop_run(&cfg, &end);
        if (end == LOOP_ORPHAN)
            return st;
        TRY(join_again(r, buf));
    }
    return ST_OK;
}

int main(int argc, char **argv)
{
    struct rig r = {0};
    struct sigaction term = {.sa_handler = on_term};
    if (argc != 3)
        return 2;
    sigaction(SIGTERM, &term, NULL);
    log_init("frames_rank", LOG_ERROR);
    uint8_t *buf = malloc(RANK_MAX_MESSAGE);
    enum status st = buf ? open_rig(&r, argv[1], argv[2]) : ST_NOMEM;
    if (st == ST_OK)
        st = run(&r, buf);
    if (st != ST_OK)
        fprintf(stderr, "frames_rank: %s\n", status_text());
    close_rig(&r);
    free(buf);
    return st == ST_OK ? 0 : 1;
}
