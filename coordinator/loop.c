#include "coordinator/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "coordinator/admissions.h"
#include "coordinator/answers.h"
#include "coordinator/clients.h"
#include "coordinator/grammar_wait.h"
#include "coordinator/grammars.h"
#include "coordinator/groups.h"
#include "coordinator/notify.h"
#include "coordinator/recovery.h"

enum { TEND_US = 50 * 1000 };
enum { SMALL_MESSAGE_MEM = 64 << 10 }; /* bytes; the loop decodes no message that needs more */

enum status coordinator_open(struct coordinator *co, const struct coordinator_config *cfg)
{
    *co = (struct coordinator){.cfg = *cfg};
    co->started_us = clock_us();
    co->epoch = random_u64();
    metrics_init(&co->metrics);
    random_bytes(co->salt_key, sizeof co->salt_key);
    co->zmq_ctx = zmq_ctx_new();
    if (!co->zmq_ctx)
        FAIL(ST_IO, "cannot start ZeroMQ: %s", zmq_strerror(errno));
    TRY(model_text_open(&co->mt, cfg->model_path, cfg->model_name, cfg->asked));
    co->mt.plain_content = cfg->plain_content;
    if (cfg->generation_config)
        TRY(generation_load(&co->mt.generation, cfg->model_path));
    if (!co->mt.chat)
        log_line(LOG_INFO, "no chat: %s", co->mt.no_chat);
    TRY(model_identity_open(&co->identity, cfg->model_path, cfg->weights_digest, &cfg->digests));
    TRY(wire_mem_init(&co->rx, SMALL_MESSAGE_MEM));
    TRY(request_table_create(&co->requests, 2 * (cfg->max_waiting + SPARE_REQUESTS)));
    TRY(tenant_table_create(&co->tenants, MAX_TENANT_ACCOUNTS, &cfg->tenant_bounds));
    TRY(grammars_create(&co->grammars, &co->mt));
    TRY(text_service_start(&co->text, &co->mt, cfg->client_port.max_message));
    TRY(gatekeeper_open(&co->keys, co->zmq_ctx, cfg->key, cfg->allowed_keys));
    co->cfg.client_port.keys = co->cfg.worker_port.keys = co->keys;
    TRY(client_port_open(&co->client_port, co->zmq_ctx, &co->cfg.client_port));
    TRY(worker_port_open(&co->worker_port, co->zmq_ctx, &co->cfg.worker_port));
    TRY(admissions_open(co)); /* after the ports: an address in use is told as that */
    groups_require(co);
    log_line(LOG_INFO, "serving %s on %s, workers on %s", cfg->model_name,
             client_port_endpoint(co->client_port), worker_port_endpoint(co->worker_port));
    coordinator_notify(co, "listening %s %s", client_port_endpoint(co->client_port),
                       worker_port_endpoint(co->worker_port));
    return ST_OK;
}

void coordinator_close(struct coordinator *co)
{
    text_service_stop(co->text);
    client_port_close(co->client_port);
    worker_port_close(co->worker_port);
    gatekeeper_close(co->keys);
    if (co->zmq_ctx)
        zmq_ctx_term(co->zmq_ctx);
    request_table_destroy(co->requests);
    tenant_table_destroy(co->tenants);
    grammar_wait_end(co);
    grammars_destroy(co->grammars);
    admissions_close(co);
    fleet_destroy(co->fleet);
    free(co->fx);
    wire_mem_fini(&co->rx);
    model_text_close(&co->mt);
    model_identity_close(&co->identity);
}

/* The running requests will fail. */
static void note_unfinished(struct coordinator *co)
{
    if (!co->live)
        return;
    log_line(LOG_WARN, "%u requests had not ended when the server had to", co->live);
    co->exit_code = COORDINATOR_UNFINISHED;
}

static void on_signal(struct coordinator *co, int stop_fd, uint64_t now_us)
{
    char bytes[16];
    ssize_t n = read(stop_fd, bytes, sizeof bytes);
    if (n <= 0)
        return;
    if (co->draining || n > 1) {
        note_unfinished(co);
        answer_fail_all(co, ST_CANCELED, "the server was told to end at once", now_us);
        co->drain_deadline_us = now_us;
    }
    clients_drain(co, 0, now_us);
}

static void check_drained(struct coordinator *co, uint64_t now_us)
{
    if (!co->draining)
        return;
    if (now_us > co->drain_deadline_us && co->live) {
        note_unfinished(co);
        answer_fail_all(co, ST_CANCELED, "the server ended before the answer did", now_us);
    }
    answer_flush(co, now_us);
    if (co->live == 0)
        co->done = true;
}

static long poll_ms(const struct coordinator *co)
{
    if (worker_port_urgent(co->worker_port))
        return 1;
    return co->live || co->draining ? TEND_US / 1000 : 4 * TEND_US / 1000;
}

int coordinator_run(struct coordinator *co, int stop_fd)
{
    uint64_t tended_us = 0;
    zmq_pollitem_t items[] = {
        {.socket = client_port_socket(co->client_port), .events = ZMQ_POLLIN},
        {.socket = worker_port_socket(co->worker_port), .events = ZMQ_POLLIN},
        {.fd = text_service_fd(co->text), .events = ZMQ_POLLIN},
        {.fd = stop_fd, .events = ZMQ_POLLIN},
        {.socket = worker_port_monitor(co->worker_port), .events = ZMQ_POLLIN},
        {.socket = NULL},
        {.socket = NULL},
    };
    void *const optional[] = {client_port_guard(co->client_port), gatekeeper_socket(co->keys)};
    int n_items = (int)(ARRAY_LEN(items) - ARRAY_LEN(optional));
    for (size_t i = 0; i < ARRAY_LEN(optional); i++)
        if (optional[i])
            items[n_items++] = (zmq_pollitem_t){.socket = optional[i], .events = ZMQ_POLLIN};
    while (!co->done) {
        if (zmq_poll(items, n_items, poll_ms(co)) < 0 && errno != EINTR) {
            log_line(LOG_ERROR, "waiting for messages: %s", zmq_strerror(errno));
            return 1;
        }
        uint64_t now_us = clock_us();
        co->turn++;
        if (items[3].revents)
            on_signal(co, stop_fd, now_us);
        client_port_shed(co->client_port, now_us);
        gatekeeper_answer(co->keys, now_us);
        groups_receive(co, now_us);
        clients_text_results(co, now_us);
        groups_plan(co,
                    now_us); /* first give the ranks their next step, then speak to the clients */
        clients_receive(co, now_us);
        if (co->fleet &&
            !journal_flush(co->journal, &(struct journal_source){.fleet = co->fleet}, now_us))
            admissions_refuse(co, now_us);
        answer_flush(co, now_us); /* the journal has what clients are told */
        if (now_us - tended_us > TEND_US) {
            tended_us = now_us;
            groups_tend(co, now_us);
            recovery_tend(co, now_us);
            clients_tend(co, now_us);
        }
        groups_plan(co, now_us);
        check_drained(co, now_us);
    }
    worker_port_shutdown(co->worker_port);
    log_line(LOG_INFO, "drained: nothing is left to do");
    coordinator_notify(co, "drained");
    return co->exit_code;
}
