#include "worker/rank_loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control.h"
#include "common/clock.h"
#include "common/log.h"
#include "worker/rank_figures.h"
#include "worker/rank_weights.h"

/* A broadcast of rank 0: a head, then its payload. */
enum kind {
    KIND_RELAY,
    KIND_ROWS,
    KIND_TICK,
    KIND_WEIGHTS,
    KIND_FIGURES,
    KIND_GRAMMAR, /* payload: a grammar's id */
    KIND_END,
};

struct head {
    uint32_t kind, n; /* n: bytes of the payload; ROWS: rows; END: the enum loop_end */
};

enum { TICK_MS = 500 };     /* period of the ticks that rank 0 sends to the other ranks */
enum { WEIGHTS_MS = 1000 }; /* least time between two gathers of the ranks' weights digests */
enum { FIGURES_MS = 1000 }; /* least time between two gathers of the ranks' figures */
enum { GRAMMARS_MS = 2 };   /* time between two looks whether a grammar is compiled */
enum { PEEK_US = 50 };      /* wait for the device when the next plan may arrive meanwhile */
enum { WAIT_US = 10000 };   /* wait for the device when no plan may be enqueued */
enum { MEM_BYTES = 4 * RANK_MAX_MESSAGE }; /* address space of decoded messages */

/* A step that was enqueued and whose result was not sent yet. */
struct running {
    uint64_t step_id, epoch;
    uint64_t begin_us; /* when it was enqueued */
    uint64_t comm_us;  /* time in collectives while it was enqueued */
};

struct loop {
    struct rank_loop_config cfg;
    struct wire_mem in; /* a head and RANK_MAX_MESSAGE bytes: buf */
    uint8_t *buf;
    struct wire_mem mem;
    struct worker_welcome welcome; /* epoch 0: not welcomed yet; a Reset changes the epoch */
    uint64_t last_epoch;           /* the greatest of all coordinators so far */
    uint64_t last_step;
    struct rank_figures mine;
    bool over;
    enum loop_end end;
    /* rank 0 */
    int32_t *rows;                               /* [max_seqs] rows whose whole logits are needed */
    struct running running[MAX_STEPS_IN_FLIGHT]; /* the oldest first */
    int n_running;
    uint64_t sent_us;                      /* when the last result was sent */
    struct rank_weights *weights;          /* [world] */
    bool weights_reported;                 /* the coordinator has the digest, or there is none */
    uint64_t weights_us;                   /* when the digests were gathered last */
    struct rank_figures *figures;          /* [world] */
    uint64_t figures_us;                   /* when they were gathered last */
    uint64_t figures_steps;                /* of them then */
    uint64_t grammars[MASKS_MAX_GRAMMARS]; /* that are being compiled, in the order they came */
    int n_grammars;
    uint64_t grammars_us; /* when they were looked at last */
    uint32_t *compiled;   /* [world] */
};

static void finish(struct loop *l, enum loop_end end)
{
    l->over = true;
    l->end = end;
}

/* ---- between ranks ---- */

/* Rank 0: sends a head and the payload, which is in buf already. */
static enum status broadcast(struct loop *l, enum kind kind, uint32_t n, size_t payload)
{
    struct head h = {(uint32_t)kind, n};
    size_t len = sizeof h + payload;
    memcpy(l->buf, &h, sizeof h);
    return control_bcast(l->buf, sizeof h + RANK_MAX_MESSAGE, &len, l->cfg.peer_ms);
}

/* Other ranks: receives the next broadcast of rank 0. */
static enum status await_broadcast(struct loop *l, struct head *h, const uint8_t **payload,
                                   size_t *n)
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

/* Rank 0: gathers whole rows of logits, FULL_ROWS at a time. */
static enum status full_rows(struct loop *l, int32_t n_rows)
{
    for (int32_t at = 0; at < n_rows; at += FULL_ROWS) {
        int32_t n = n_rows - at < FULL_ROWS ? n_rows - at : FULL_ROWS;
        memcpy(l->buf + sizeof(struct head), l->rows + at, (size_t)n * sizeof *l->rows);
        TRY(broadcast(l, KIND_ROWS, (uint32_t)n, (size_t)n * sizeof *l->rows));
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
    uint64_t begin = clock_us(), comm = *l->cfg.comm_us;
    TRY(rank_step_run(l->cfg.step, p));
    if (l->cfg.rank != 0)
        rank_figures_add(&l->mine, 1, clock_us() - begin, *l->cfg.comm_us - comm);
    else
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
    /* a step that was enqueued behind another one begins when the other one ends */
    uint64_t begin = step.begin_us > l->sent_us ? step.begin_us : l->sent_us;
    *r = (struct step_result){.step_id = step.step_id,
                              .epoch = step.epoch,
                              .comm_us = step.comm_us + *l->cfg.comm_us - comm};
    l->sent_us = clock_us();
    r->compute_us = l->sent_us - begin > r->comm_us ? l->sent_us - begin - r->comm_us : 0;
    rank_figures_add(&l->mine, 1, l->sent_us - begin, r->comm_us);
    r->tokens = rank_step_tokens(l->cfg.step, &r->n);
    r->embeddings = rank_step_embeddings(l->cfg.step, &r->n_embeddings, &r->dim);
    if (rank_step_masks(l->cfg.step)) {
        struct masks_stats s = masks_take_stats(rank_step_masks(l->cfg.step));
        r->masks = s.masks;
        r->masks_cached = s.cached;
        r->mask_us = s.us;
        r->mask_wait_us = s.wait_us;
    }
    l->last_step = step.step_id;
    return coordinator_port_send(l->cfg.port, &reply);
}

/* ---- the weights digest ---- */

/* Every rank: sends its digest to rank 0. */
static enum status gather_weights(struct loop *l)
{
    struct rank_weights mine = rank_weights_of(l->cfg.weights, l->cfg.first_on_host);
    return control_gather(&mine, sizeof mine, l->weights);
}

/* Rank 0: gathers the digests of all ranks and compares them. */
static enum status compare_weights(struct loop *l, enum rank_agreement *agreement)
{
    coordinator_port_lend(l->cfg.port);
    enum status st = broadcast(l, KIND_WEIGHTS, 0, 0);
    if (st == ST_OK)
        st = gather_weights(l);
    coordinator_port_take(l->cfg.port, l->last_step);
    TRY(st);
    return rank_weights_compare(l->weights, l->cfg.world, agreement);
}

/* Rank 0: sends the digest to the coordinator once all ranks know theirs and these are equal. */
static enum status report_weights(struct loop *l)
{
    struct worker_msg m = {.type = WMSG_WEIGHTS, .u.weights.epoch = l->welcome.epoch};
    enum rank_agreement agreement = RANKS_AGREE;
    if (l->weights_reported || l->welcome.epoch == 0)
        return ST_OK;
    enum digest_state state = weights_digest_get(l->cfg.weights, m.u.weights.digest);
    l->weights_reported = state == DIGEST_NONE;
    if (state != DIGEST_KNOWN || clock_us() - l->weights_us < WEIGHTS_MS * 1000U)
        return ST_OK;
    if (l->cfg.world > 1)
        TRY(compare_weights(l, &agreement));
    l->weights_us = clock_us();
    if (agreement == RANKS_NEVER)
        log_line(LOG_WARN, "a host of this group has no weights digest");
    l->weights_reported = agreement != RANKS_WAIT;
    return agreement == RANKS_AGREE ? coordinator_port_send(l->cfg.port, &m) : ST_OK;
}

/* ---- figures ---- */

/* Rank 0: sends the figures of all ranks to the coordinator, when steps have run since the last time. */
static enum status report_figures(struct loop *l)
{
    uint64_t now = clock_us();
    if (l->welcome.epoch == 0 || l->mine.steps == l->figures_steps ||
        now - l->figures_us < FIGURES_MS * 1000U)
        return ST_OK;
    l->figures_us = now;
    l->figures_steps = l->mine.steps;
    coordinator_port_lend(l->cfg.port);
    enum status st = l->cfg.world > 1 ? broadcast(l, KIND_FIGURES, 0, 0) : ST_OK;
    if (st == ST_OK)
        st = rank_figures_gather(&l->mine, l->figures);
    coordinator_port_take(l->cfg.port, l->last_step);
    TRY(st);
    return rank_figures_send(l->cfg.port, l->welcome.epoch, l->figures, l->cfg.world);
}

/* ---- grammars ---- */

/* Every rank: tells rank 0 whether it has compiled the grammar. */
static enum status gather_compiled(struct loop *l, uint64_t id)
{
    uint32_t mine = masks_compiled(rank_step_masks(l->cfg.step), id);
    return control_gather(&mine, sizeof mine, l->compiled);
}

static enum status all_compiled(struct loop *l, uint64_t id, bool *all)
{
    *all = masks_compiled(rank_step_masks(l->cfg.step), id);
    if (!*all || l->cfg.world == 1)
        return ST_OK;
    memcpy(l->buf + sizeof(struct head), &id, sizeof id);
    coordinator_port_lend(l->cfg.port);
    enum status st = broadcast(l, KIND_GRAMMAR, 1, sizeof id);
    if (st == ST_OK)
        st = gather_compiled(l, id);
    coordinator_port_take(l->cfg.port, l->last_step);
    TRY(st);
    for (int r = 0; r < l->cfg.world; r++)
        *all = *all && l->compiled[r];
    return ST_OK;
}

static void forget_grammar(struct loop *l, uint64_t id)
{
    int n = 0;
    for (int i = 0; i < l->n_grammars; i++)
        if (l->grammars[i] != id)
            l->grammars[n++] = l->grammars[i];
    l->n_grammars = n;
}

/* Rank 0: tells the coordinator when all ranks have compiled the next grammar. */
static enum status report_grammars(struct loop *l)
{
    uint64_t now = clock_us();
    bool all;
    if (l->n_grammars == 0 || now - l->grammars_us < GRAMMARS_MS * 1000U)
        return ST_OK;
    l->grammars_us = now;
    struct worker_msg m = {.type = WMSG_GRAMMAR_READY,
                           .u.ready = {l->welcome.epoch, l->grammars[0]}};
    TRY(all_compiled(l, m.u.ready.id, &all));
    if (!all)
        return ST_OK;
    forget_grammar(l, m.u.ready.id);
    return coordinator_port_send(l->cfg.port, &m);
}

/* ---- messages ---- */

static enum status on_welcome(struct loop *l, const struct worker_welcome *w)
{
    if (l->welcome.epoch != 0 || w->epoch == 0)
        FAIL(ST_PEER, "a Welcome to epoch %llu in epoch %llu", (unsigned long long)w->epoch,
             (unsigned long long)l->welcome.epoch);
    if (w->epoch <= l->last_epoch)
        FAIL(ST_PEER, "a Welcome to epoch %llu, but this group has obeyed epoch %llu",
             (unsigned long long)w->epoch, (unsigned long long)l->last_epoch);
    l->last_epoch = w->epoch;
    l->mine = (struct rank_figures){.kv_bytes = l->cfg.kv_bytes};
    l->figures_steps = 0;
    l->welcome = *w;
    if (w->lease_ms == 0)
        l->welcome.lease_ms = l->cfg.lease_ms;
    if (l->cfg.rank == 0)
        log_line(LOG_INFO,
                 "welcomed by the coordinator at %s: epoch %llu, heartbeat %u ms, lease %u ms",
                 coordinator_port_endpoint(l->cfg.port), (unsigned long long)w->epoch,
                 w->heartbeat_ms, l->welcome.lease_ms);
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

static enum status masks_of(const struct loop *l, struct masks **masks)
{
    *masks = rank_step_masks(l->cfg.step);
    if (!*masks)
        FAIL(ST_PEER, "a grammar came: this backend cannot mask logits");
    return ST_OK;
}

static enum status on_vocabulary(struct loop *l, const struct worker_vocabulary *v)
{
    struct masks *masks;
    TRY(masks_of(l, &masks));
    l->n_grammars = 0;
    return masks_set_vocabulary(masks, v->bytes, v->n_bytes, v->n_tokens, v->end_ids, v->n_end_ids);
}

static enum status on_grammar(struct loop *l, const struct worker_grammar *g)
{
    struct grammar_source source = {(enum grammar_kind)g->kind, g->source, g->n_source};
    struct masks *masks;
    TRY(masks_of(l, &masks));
    forget_grammar(l, g->id);
    if (g->kind == GRAMMAR_NONE) {
        masks_remove(masks, g->id);
        return ST_OK;
    }
    TRY(masks_add(masks, g->id, &source)); /* at most MASKS_MAX_GRAMMARS */
    l->grammars[l->n_grammars++] = g->id;
    return ST_OK;
}

/* Carries out a coordinator message.  Every rank, with the same bytes. */
static enum status on_message(struct loop *l, const void *data, size_t n)
{
    struct worker_msg m;
    wire_mem_reset(&l->mem);
    TRY(worker_msg_decode(&m, data, n, &l->mem));
    switch (m.type) {
    case WMSG_STEP_PLAN:
        return run_plan(l, &m.u.plan);
    case WMSG_VOCABULARY:
        return on_vocabulary(l, &m.u.vocabulary);
    case WMSG_GRAMMAR:
        return on_grammar(l, &m.u.grammar);
    case WMSG_WELCOME:
        return on_welcome(l, &m.u.welcome);
    case WMSG_RESET:
        l->welcome.epoch = m.u.beat.epoch;
        rank_step_reset(l->cfg.step);
        l->n_running = l->n_grammars = 0;
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

/* A heartbeat of the coordinator is not relayed: it renews rank 0's lease, and the other ranks get
 * ticks. */
static bool is_heartbeat(const void *data, size_t n)
{
    struct frame f;
    return frame_parse(&f, data, n) == ST_OK && f.type == WMSG_HEARTBEAT;
}

/* ---- rank 0 ---- */

/* Relays a message and carries it out.  Meanwhile the thread of coordinator_port has the socket. */
static enum status handle(struct loop *l, size_t n)
{
    const uint8_t *data = l->buf + sizeof(struct head);
    uint64_t epoch = l->welcome.epoch;
    if (is_heartbeat(data, n))
        return ST_OK;
    coordinator_port_lend(l->cfg.port);
    enum status st = broadcast(l, KIND_RELAY, (uint32_t)n, n);
    if (st == ST_OK)
        st = on_message(l, data, n);
    coordinator_port_take(l->cfg.port, l->last_step);
    TRY(st);
    if (l->welcome.epoch != epoch)
        coordinator_port_welcome(l->cfg.port, &l->welcome);
    return ST_OK;
}

static enum status say_hello(struct loop *l)
{
    struct worker_msg m = {.type = WMSG_HELLO, .u.hello = *l->cfg.hello};
    m.u.hello.last_epoch = l->last_epoch;
    return coordinator_port_send(l->cfg.port, &m);
}

/* Every rank removes its sequences and waits for a Welcome. */
static enum status reset_ranks(struct loop *l)
{
    struct worker_msg m = {.type = WMSG_RESET};
    struct wire_bytes b;
    wire_mem_reset(&l->mem);
    TRY(worker_msg_encode(&b, &m, &l->mem));
    memcpy(l->buf + sizeof(struct head), b.data, b.n);
    TRY(broadcast(l, KIND_RELAY, (uint32_t)b.n, b.n));
    return on_message(l, l->buf + sizeof(struct head), b.n);
}

/* The coordinator is gone.  The ranks finish the steps that they run, remove all sequences, keep their weights, and
 * offer themselves to the next coordinator. */
static enum status rejoin(struct loop *l)
{
    if (l->welcome.epoch != 0)
        log_line(LOG_WARN, "%s: this group looks for a coordinator", status_text());
    while (l->n_running > 0) {
        bool done;
        TRY(rank_step_done(l->cfg.step, WAIT_US, &done));
        if (done)
            TRY(send_result(l)); /* it is not read */
    }
    if (l->welcome.epoch != 0)
        TRY(reset_ranks(l));
    l->weights_reported = false;
    l->weights_us = 0;
    TRY(coordinator_port_again(l->cfg.port));
    return say_hello(l);
}

/* Handles the next message, if one arrives within wait_ms. */
static enum status receive(struct loop *l, uint32_t wait_ms)
{
    size_t n;
    enum status st = coordinator_port_recv(l->cfg.port, l->buf + sizeof(struct head),
                                           RANK_MAX_MESSAGE, &n, wait_ms);
    if (st == ST_CANCELED)
        return rejoin(l);
    if (st == ST_TIMEOUT)
        finish(l, LOOP_ORPHAN);
    TRY(st);
    return n > 0 ? handle(l, n) : ST_OK;
}

/* While the device computes: sends the result of the oldest step when it is done.  Until then takes
 * the next plan and enqueues it, so that the device starts the next step without waiting for the
 * host. */
static enum status serve_device(struct loop *l)
{
    bool ahead = !*l->cfg.stop && rank_step_may_run(l->cfg.step), done;
    TRY(rank_step_done(l->cfg.step, 0, &done));
    if (!done && ahead)
        TRY(receive(l, 0));
    if (!done && l->n_running > 0 && !l->over)
        TRY(rank_step_done(l->cfg.step, ahead ? PEEK_US : WAIT_US, &done));
    return done && l->n_running > 0 ? send_result(l) : ST_OK;
}

/* Shows the other ranks that this one lives. */
static enum status tick(struct loop *l)
{
    coordinator_port_lend(l->cfg.port);
    enum status st = broadcast(l, KIND_TICK, 0, 0);
    coordinator_port_take(l->cfg.port, l->last_step);
    return st;
}

static enum status rank_0(struct loop *l)
{
    const struct rank_loop_config *cfg = &l->cfg;
    uint64_t ticked = clock_us();
    TRY(say_hello(l));
    while (!l->over) {
        if (*cfg->stop && l->n_running == 0) {
            finish(l, LOOP_SIGNAL);
            break;
        }
        uint32_t idle_ms = l->n_grammars ? GRAMMARS_MS : TICK_MS;
        TRY(l->n_running > 0 ? serve_device(l) : receive(l, idle_ms));
        TRY(report_weights(l));
        TRY(report_figures(l));
        TRY(report_grammars(l));
        if (cfg->world > 1 && clock_us() - ticked >= TICK_MS * 1000U) {
            ticked = clock_us();
            TRY(tick(l));
        }
    }
    return ST_OK;
}

/* Rank 0 at the end: sends Goodbye or Fault to the coordinator, and END to the other ranks. */
static void say_goodbye(struct loop *l, enum status st)
{
    struct worker_msg m = {.type = WMSG_GOODBYE, .u.beat.epoch = l->welcome.epoch};
    bool tells = l->end == LOOP_SIGNAL;
    char detail[900]; /* the text of st, which a failure of the calls below would replace */
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
        log_line(LOG_WARN, "the coordinator could not be informed: %s", status_text());
    /* The other ranks have received a Shutdown or a refusal themselves.  After a fault the ranks
     * are no longer in step, and the caller aborts the job. */
    if ((l->end == LOOP_SIGNAL || l->end == LOOP_ORPHAN) &&
        broadcast(l, KIND_END, (uint32_t)l->end, 0) != ST_OK)
        log_line(LOG_WARN, "the other ranks could not be informed: %s", status_text());
}

/* ---- the others ---- */

static enum status on_rows(struct loop *l, const uint8_t *payload, size_t n)
{
    int32_t rows[FULL_ROWS];
    if (n == 0 || n > sizeof rows || n % sizeof rows[0] != 0)
        FAIL(ST_PEER, "rank 0 asked for %zu bytes of rows", n);
    memcpy(rows, payload, n);
    uint64_t begin = clock_us(), comm = *l->cfg.comm_us;
    TRY(rank_step_full(l->cfg.step, rows, (int32_t)(n / sizeof rows[0])));
    rank_figures_add(&l->mine, 0, clock_us() - begin, *l->cfg.comm_us - comm);
    return ST_OK;
}

static enum status on_compiled(struct loop *l, const uint8_t *payload, size_t n)
{
    uint64_t id;
    if (n != sizeof id || !rank_step_masks(l->cfg.step))
        FAIL(ST_PEER, "rank 0 asked for a grammar with %zu bytes", n);
    memcpy(&id, payload, sizeof id);
    return gather_compiled(l, id);
}

static enum status other_rank(struct loop *l)
{
    while (!l->over) {
        struct head h = {0};
        const uint8_t *payload = NULL;
        size_t n = 0;
        TRY(await_broadcast(l, &h, &payload, &n));
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
            TRY(gather_weights(l));
            break;
        case KIND_FIGURES:
            TRY(rank_figures_gather(&l->mine, l->figures));
            break;
        case KIND_GRAMMAR:
            TRY(on_compiled(l, payload, n));
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
    TRY(wire_mem_init(&l->in, sizeof(struct head) + RANK_MAX_MESSAGE));
    l->buf = l->in.base;
    l->rows = calloc(max_seqs, sizeof *l->rows);
    l->weights = calloc((size_t)l->cfg.world, sizeof *l->weights);
    l->figures = calloc((size_t)l->cfg.world, sizeof *l->figures);
    l->compiled = calloc((size_t)l->cfg.world, sizeof *l->compiled);
    l->weights_reported = l->cfg.hello && l->cfg.hello->has_weights;
    if (!l->rows || !l->weights || !l->figures || !l->compiled)
        FAIL(ST_NOMEM, "no memory for %u sequences", max_seqs);
    return l->cfg.rank == 0 ? rank_0(l) : other_rank(l);
}

enum status rank_loop_run(const struct rank_loop_config *cfg, enum loop_end *end)
{
    struct loop l = {.cfg = *cfg, .welcome.lease_ms = cfg->lease_ms, .end = LOOP_FAULT};
    enum status st = run(&l);
    if (st != ST_OK && !l.over)
        l.end = LOOP_FAULT;
    if (cfg->rank == 0 && l.buf)
        say_goodbye(&l, st);
    *end = l.end;
    wire_mem_fini(&l.in);
    free(l.rows);
    free(l.weights);
    free(l.figures);
    free(l.compiled);
    wire_mem_fini(&l.mem);
    return st;
}
