#include "worker/rank_loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control.h"
#include "common/clock.h"
#include "common/log.h"
#include "worker/rank_weights.h"

/* What rank 0 broadcasts: a head, then n bytes. */
enum kind { KIND_RELAY, KIND_ROWS, KIND_TICK, KIND_WEIGHTS, KIND_END };

struct head {
    uint32_t kind, n; /* END: n is the enum loop_end */
};

enum { TICK_MS = 500 };                 /* an idle rank 0 tells the others that it lives */
enum { WEIGHTS_MS = 1000 };             /* between two questions for the ranks' weights digests */
enum { PEEK_US = 50, WAIT_US = 10000 }; /* for the device: with and without an eye on messages */
enum { MEM_BYTES = 4 * RANK_MAX_MESSAGE }; /* address space of decoded messages */

/* A step that the device computes or has computed, and whose result was not sent. */
struct running {
    uint64_t step_id, epoch;
    uint64_t begin_us, comm_us; /* comm_us: while it was enqueued */
};

struct loop {
    struct rank_loop_config cfg;
    uint8_t *buf; /* head, then RANK_MAX_MESSAGE bytes; pages are used as messages need them */
    struct wire_mem mem;
    struct worker_welcome welcome; /* epoch 0: not welcomed yet; a Reset changes the epoch */
    uint64_t last_step;
    bool over;
    enum loop_end end;
    /* rank 0 */
    int32_t *rows;                               /* [max_seqs] rows that want all logits */
    struct running running[MAX_STEPS_IN_FLIGHT]; /* the oldest first */
    int n_running;
    uint64_t sent_us;             /* when the last result was sent */
    struct rank_weights *weights; /* [world] */
    bool weights_told;            /* to the coordinator, or there is nothing to tell */
    uint64_t weights_us;          /* when the ranks were asked last */
};

static void finish(struct loop *l, enum loop_end end)
{
    l->over = true;
    l->end = end;
}

/* ---- between ranks ---- */

/* Rank 0: sends head and payload, which stands in buf already. */
static enum status tell(struct loop *l, enum kind kind, uint32_t n, size_t payload)
{
    struct head h = {(uint32_t)kind, n};
    size_t len = sizeof h + payload;
    memcpy(l->buf, &h, sizeof h);
    return control_bcast(l->buf, sizeof h + RANK_MAX_MESSAGE, &len, l->cfg.peer_ms);
}

/* The others: waits for rank 0. */
static enum status listen(struct loop *l, struct head *h, const uint8_t **payload, size_t *n)
{
    size_t len = 0;
    enum status st = control_bcast(l->buf, sizeof *h + RANK_MAX_MESSAGE, &len, l->welcome.lease_ms);
    if (st == ST_TIMEOUT)
        finish(l, LOOP_ORPHAN);
    TRY(st);
    if (len < sizeof *h)
        FAIL(ST_PEER, "rank 0 sent %zu bytes", len);
    memcpy(h, l->buf, sizeof *h);
    *payload = l->buf + sizeof *h;
    *n = len - sizeof *h;
    return ST_OK;
}

/* ---- the step ---- */

/* Rank 0: whole rows, FULL_ROWS at a time. */
static enum status full_rows(struct loop *l, int32_t n_rows)
{
    for (int32_t at = 0; at < n_rows; at += FULL_ROWS) {
        int32_t n = n_rows - at < FULL_ROWS ? n_rows - at : FULL_ROWS;
        memcpy(l->buf + sizeof(struct head), l->rows + at, (size_t)n * sizeof *l->rows);
        TRY(tell(l, KIND_ROWS, (uint32_t)n, (size_t)n * sizeof *l->rows));
        TRY(rank_step_full(l->cfg.step, l->rows + at, n));
    }
    return ST_OK;
}

static enum status run_plan(struct loop *l, const struct step_plan *p)
{
    if (p->epoch != l->welcome.epoch) {
        log_line(LOG_WARN, "step %llu of epoch %llu dropped: this group's epoch is %llu",
                 (unsigned long long)p->step_id, (unsigned long long)p->epoch,
                 (unsigned long long)l->welcome.epoch);
        return ST_OK;
    }
    uint64_t begin = clock_us(), comm = l->cfg.rank == 0 ? *l->cfg.comm_us : 0;
    TRY(rank_step_run(l->cfg.step, p));
    if (l->cfg.rank == 0)
        l->running[l->n_running++] = (struct running){.step_id = p->step_id,
                                                      .epoch = p->epoch,
                                                      .begin_us = begin,
                                                      .comm_us = *l->cfg.comm_us - comm};
    return ST_OK;
}

/* Rank 0: takes the results of the oldest running step and sends them. */
static enum status send_result(struct loop *l)
{
    struct running step = l->running[0];
    struct worker_msg reply = {.type = WMSG_STEP_RESULT};
    struct step_result *r = &reply.u.result;
    uint64_t comm = *l->cfg.comm_us;
    int32_t n_rows;
    coordinator_port_lend(l->cfg.port);
    enum status st = rank_step_sample(l->cfg.step, l->rows, &n_rows);
    if (st == ST_OK)
        st = full_rows(l, n_rows);
    coordinator_port_take(l->cfg.port, step.step_id);
    TRY(st);
    memmove(l->running, l->running + 1, (size_t)--l->n_running * sizeof *l->running);
    /* a step that was enqueued behind another one begins when that one ends */
    uint64_t begin = step.begin_us > l->sent_us ? step.begin_us : l->sent_us;
    *r = (struct step_result){.step_id = step.step_id,
                              .epoch = step.epoch,
                              .comm_us = step.comm_us + *l->cfg.comm_us - comm};
    l->sent_us = clock_us();
    r->compute_us = l->sent_us - begin > r->comm_us ? l->sent_us - begin - r->comm_us : 0;
    r->tokens = rank_step_tokens(l->cfg.step, &r->n);
    l->last_step = step.step_id;
    return coordinator_port_send(l->cfg.port, &reply);
}

/* ---- the weights digest ---- */

/* Every rank. */
static enum status give_weights(struct loop *l)
{
    struct rank_weights mine = rank_weights_of(l->cfg.weights, l->cfg.first_on_host);
    return control_gather(&mine, sizeof mine, l->weights);
}

/* Rank 0: asks all ranks. */
static enum status compare_weights(struct loop *l, enum rank_agreement *agreement)
{
    TRY(tell(l, KIND_WEIGHTS, 0, 0));
    coordinator_port_lend(l->cfg.port);
    enum status st = give_weights(l);
    coordinator_port_take(l->cfg.port, l->last_step);
    TRY(st);
    return rank_weights_compare(l->weights, l->cfg.world, agreement);
}

/* Rank 0: tells the coordinator once all ranks know their digests and these are equal. */
static enum status tell_weights(struct loop *l)
{
    struct worker_msg m = {.type = WMSG_WEIGHTS, .u.weights.epoch = l->welcome.epoch};
    enum rank_agreement agreement = RANKS_AGREE;
    if (l->weights_told || l->welcome.epoch == 0)
        return ST_OK;
    enum digest_state state = weights_digest_get(l->cfg.weights, m.u.weights.digest);
    l->weights_told = state == DIGEST_NONE;
    if (state != DIGEST_KNOWN || clock_us() - l->weights_us < WEIGHTS_MS * 1000U)
        return ST_OK;
    if (l->cfg.world > 1)
        TRY(compare_weights(l, &agreement));
    l->weights_us = clock_us();
    if (agreement == RANKS_NEVER)
        log_line(LOG_WARN, "a host of this group has no weights digest");
    l->weights_told = agreement != RANKS_WAIT;
    return agreement == RANKS_AGREE ? coordinator_port_send(l->cfg.port, &m) : ST_OK;
}

/* ---- messages ---- */

static enum status on_welcome(struct loop *l, const struct worker_welcome *w)
{
    if (l->welcome.epoch != 0 || w->epoch == 0)
        FAIL(ST_PEER, "a Welcome to epoch %llu in epoch %llu", (unsigned long long)w->epoch,
             (unsigned long long)l->welcome.epoch);
    l->welcome = *w;
    if (w->lease_ms == 0)
        l->welcome.lease_ms = l->cfg.lease_ms;
    if (l->cfg.rank == 0)
        log_line(LOG_INFO, "welcomed by the coordinator: epoch %llu, heartbeat %u ms, lease %u ms",
                 (unsigned long long)w->epoch, w->heartbeat_ms, l->welcome.lease_ms);
    return ST_OK;
}

static enum status on_shutdown(struct loop *l, uint64_t epoch)
{
    if (epoch != 0 && epoch == l->welcome.epoch) {
        if (l->cfg.rank == 0)
            log_line(LOG_INFO, "the coordinator asks this group to end");
        finish(l, LOOP_SHUTDOWN);
        return ST_OK;
    }
    finish(l, LOOP_REFUSED);
    FAIL(ST_PEER, "the coordinator does not know this group (any more)");
}

/* Every rank, with the same bytes. */
static enum status on_message(struct loop *l, const void *data, size_t n)
{
    struct worker_msg m;
    wire_mem_reset(&l->mem);
    TRY(worker_msg_decode(&m, data, n, &l->mem));
    switch (m.type) {
    case WMSG_STEP_PLAN:
        return run_plan(l, &m.u.plan);
    case WMSG_WELCOME:
        return on_welcome(l, &m.u.welcome);
    case WMSG_RESET:
        l->welcome.epoch = m.u.beat.epoch;
        rank_step_reset(l->cfg.step);
        l->n_running = 0;
        return ST_OK;
    case WMSG_SHUTDOWN:
        return on_shutdown(l, m.u.beat.epoch);
    case WMSG_REFUSED:
        finish(l, LOOP_REFUSED);
        FAIL(ST_PEER, "the coordinator refuses this group: %s", m.u.refused);
    default:
        FAIL(ST_PEER, "message type %d is not for workers", (int)m.type);
    }
}

/* A heartbeat of the coordinator is for rank 0 alone: the lease counts it, the others get ticks. */
static bool is_heartbeat(const void *data, size_t n)
{
    struct frame f;
    return frame_parse(&f, data, n) == ST_OK && f.type == WMSG_HEARTBEAT;
}

/* ---- rank 0 ---- */

/* Relays a message and carries it out; the link's thread has the socket meanwhile. */
static enum status handle(struct loop *l, size_t n)
{
    const uint8_t *data = l->buf + sizeof(struct head);
    uint64_t epoch = l->welcome.epoch;
    if (is_heartbeat(data, n))
        return ST_OK;
    TRY(tell(l, KIND_RELAY, (uint32_t)n, n));
    coordinator_port_lend(l->cfg.port);
    enum status st = on_message(l, data, n);
    coordinator_port_take(l->cfg.port, l->last_step);
    TRY(st);
    if (l->welcome.epoch != epoch)
        coordinator_port_welcome(l->cfg.port, &l->welcome);
    return ST_OK;
}

/* The next message, when one comes within wait_ms. */
static enum status receive(struct loop *l, uint32_t wait_ms)
{
    size_t n;
    enum status st = coordinator_port_recv(l->cfg.port, l->buf + sizeof(struct head),
                                           RANK_MAX_MESSAGE, &n, wait_ms);
    if (st == ST_TIMEOUT)
        finish(l, LOOP_ORPHAN);
    TRY(st);
    return n > 0 ? handle(l, n) : ST_OK;
}

/* While the device computes: its result as soon as there is one, and meanwhile the next plan behind
 * it, so that the device goes from one to the other without waiting for the host. */
static enum status attend(struct loop *l)
{
    bool ahead = !*l->cfg.stop && rank_step_may_run(l->cfg.step), done;
    TRY(rank_step_done(l->cfg.step, 0, &done));
    if (!done && ahead)
        TRY(receive(l, 0));
    if (!done && l->n_running > 0 && !l->over)
        TRY(rank_step_done(l->cfg.step, ahead ? PEEK_US : WAIT_US, &done));
    return done && l->n_running > 0 ? send_result(l) : ST_OK;
}

static enum status rank_0(struct loop *l)
{
    const struct rank_loop_config *cfg = &l->cfg;
    struct worker_msg hello = {.type = WMSG_HELLO, .u.hello = *cfg->hello};
    uint64_t ticked = clock_us();
    TRY(coordinator_port_send(cfg->port, &hello));
    while (!l->over) {
        if (*cfg->stop && l->n_running == 0) {
            finish(l, LOOP_SIGNAL);
            break;
        }
        TRY(l->n_running > 0 ? attend(l) : receive(l, TICK_MS));
        TRY(tell_weights(l));
        if (cfg->world > 1 && clock_us() - ticked >= TICK_MS * 1000U) {
            ticked = clock_us();
            TRY(tell(l, KIND_TICK, 0, 0));
        }
    }
    return ST_OK;
}

/* Rank 0 at the end: the coordinator hears why, the other ranks end too. */
static void part(struct loop *l, enum status st)
{
    struct worker_msg m = {.type = WMSG_GOODBYE, .u.beat.epoch = l->welcome.epoch};
    bool tells = l->end == LOOP_SIGNAL;
    char detail[900]; /* what st came with: the calls below may fail too */
    snprintf(detail, sizeof detail, "%s", status_text());
    if (l->end == LOOP_FAULT) {
        m.type = WMSG_FAULT;
        m.u.fault = (struct worker_fault){.epoch = l->welcome.epoch,
                                          .rank = (uint32_t)l->cfg.rank,
                                          .status = st,
                                          .detail = detail};
        tells = true;
    }
    if (tells && coordinator_port_send(l->cfg.port, &m) != ST_OK)
        log_line(LOG_WARN, "the coordinator could not be told: %s", status_text());
    /* a Shutdown or a refusal the others have heard themselves; after a fault the ranks are no
     * longer in step: the caller aborts the job */
    if ((l->end == LOOP_SIGNAL || l->end == LOOP_ORPHAN) &&
        tell(l, KIND_END, (uint32_t)l->end, 0) != ST_OK)
        log_line(LOG_WARN, "the other ranks could not be told: %s", status_text());
}

/* ---- the others ---- */

static enum status on_rows(struct loop *l, const uint8_t *payload, size_t n)
{
    int32_t rows[FULL_ROWS];
    if (n == 0 || n > sizeof rows || n % sizeof rows[0] != 0)
        FAIL(ST_PEER, "rank 0 asked for %zu bytes of rows", n);
    memcpy(rows, payload, n);
    return rank_step_full(l->cfg.step, rows, (int32_t)(n / sizeof rows[0]));
}

static enum status other_rank(struct loop *l)
{
    while (!l->over) {
        struct head h = {0};
        const uint8_t *payload = NULL;
        size_t n = 0;
        TRY(listen(l, &h, &payload, &n));
        switch (h.kind) {
        case KIND_RELAY:
            TRY(on_message(l, payload, n));
            break;
        case KIND_ROWS:
            TRY(on_rows(l, payload, n));
            break;
        case KIND_TICK:
            break;
        case KIND_WEIGHTS:
            TRY(give_weights(l));
            break;
        case KIND_END:
            finish(l, h.n <= LOOP_FAULT ? (enum loop_end)h.n : LOOP_FAULT);
            break;
        default:
            FAIL(ST_PEER, "rank 0 sent kind %u", h.kind);
        }
    }
    return ST_OK;
}

/* ---- */

static enum status run(struct loop *l)
{
    uint32_t max_seqs = l->cfg.hello ? l->cfg.hello->max_seqs : 1;
    TRY(wire_mem_init(&l->mem, MEM_BYTES));
    l->buf = calloc(1, sizeof(struct head) + RANK_MAX_MESSAGE);
    l->rows = calloc(max_seqs, sizeof *l->rows);
    l->weights = calloc((size_t)l->cfg.world, sizeof *l->weights);
    l->weights_told = l->cfg.hello && l->cfg.hello->has_weights;
    if (!l->buf || !l->rows || !l->weights)
        FAIL(ST_NOMEM, "no memory for messages of %d bytes", (int)RANK_MAX_MESSAGE);
    return l->cfg.rank == 0 ? rank_0(l) : other_rank(l);
}

enum status rank_loop_run(const struct rank_loop_config *cfg, enum loop_end *end)
{
    struct loop l = {.cfg = *cfg, .welcome.lease_ms = cfg->lease_ms, .end = LOOP_FAULT};
    enum status st = run(&l);
    if (st != ST_OK && !l.over)
        l.end = LOOP_FAULT;
    if (cfg->rank == 0 && l.buf)
        part(&l, st);
    *end = l.end;
    free(l.buf);
    free(l.rows);
    free(l.weights);
    wire_mem_fini(&l.mem);
    return st;
}
