#include "client/cli/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/group_job.h"
#include "client/cli/private_dir.h"
#include "client/cli/private_network.h"
#include "common/clock.h"
#include "common/failure_file.h"
#include "common/host.h"
#include "common/log.h"
#include "common/random.h"

enum { MPI_MIB = 12, MPI_RANK_MIB = 4 }; /* files of Open MPI 4: for a job, and for a rank of it */
enum {
    QUICK_US = 5 * 1000 * 1000, /* a group that lived shorter died at once */
    FIRST_BACKOFF_MS = 100,
    LONGEST_BACKOFF_MS = 5000,
    MAX_QUICK_DEATHS = 10,
    WORKER_EXIT_USAGE = 2,        /* of ingot-worker: these cannot be cured by starting again */
    WORKER_EXIT_MODEL = 3,        /* unless a group has served: memory or files may come back */
    MEMORY_US = 10 * 1000 * 1000, /* how long the memory of ended ranks is waited for */
};

struct supervisor {
    struct supervisor_config cfg;
    struct private_dir dir;
    char workers[96]; /* their endpoint */
    char coordinator_path[MAX_PATH_LEN], worker_path[MAX_PATH_LEN];
    pid_t coordinator;
    uint64_t coordinator_start_us; /* when it was started, or, if that is to come, will be */
    uint32_t coordinator_deaths;   /* in a row, each at once after the start */
    bool coordinator_served;       /* since its last start a group was active */
    bool groups_served;            /* a group has joined: model and options are right */
    int notify_fd;
    char line[2048]; /* of the coordinator's events */
    size_t n_line;
    char endpoint[256], local[96];
    struct group_job groups[MAX_GROUPS];
    int n_groups;
    bool private_network; /* of each group with mpirun */
    bool listening, ready, ended, draining;
    unsigned gives; /* bits of enum supervisor_gives */
    int exit_code;
    char failure_path[PRIVATE_PATH]; /* where children write why they could not start */
    char why[1024];                  /* what the coordinator wrote there */
};

#define SAY(s, ...)                                                                                \
    do {                                                                                           \
        if (!(s)->cfg.quiet)                                                                       \
            log_line(LOG_INFO, __VA_ARGS__);                                                       \
    } while (0)

/* ---- command lines ---- */

/* Where TCP needs keys, the processes of this server have an endpoint of their own in the private folder. */
static bool has_local(const struct supervisor *s)
{
    return s->cfg.command == FOR_SERVE && s->cfg.args.shared.key;
}

static enum status start_coordinator(struct supervisor *s)
{
    const struct supervisor_config *c = &s->cfg;
    struct child_args a = {.n = 0};
    int fd[2];
    if (pipe(fd) != 0)
        FAIL(ST_IO, "cannot make a pipe: %s", strerror(errno));
    fcntl(fd[0], F_SETFD, FD_CLOEXEC);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    fcntl(fd[1], F_SETFD, FD_CLOEXEC);
    child_arg(&a, s->coordinator_path);
    child_argf(&a, "--model=%s", c->model);
    child_argf(&a, "--workers=%s", s->workers);
    if (c->command != FOR_SERVE) {
        child_argf(&a, "--listen=ipc://%s/clients", s->dir.path);
        if (c->args.shared.name)
            child_argf(&a, "--name=%s", c->args.shared.name);
    }
    struct shared_options o = c->args.shared;
    if (s->listening && strchr(o.listen, '*')) /* again: at the port that clients know */
        o.listen = s->endpoint;
    serve_pass_options(&a, &o, c->command, FOR_COORDINATOR);
    if (has_local(s)) /* later than the --listen that was passed on: it holds */
        child_argf(&a, "--listen=%s,ipc://%s/clients", o.listen, s->dir.path);
    child_arg(&a, "--die-with-parent");
    child_argf(&a, "--failure-file=%s", s->failure_path);
    child_argf(&a, "--notify-fd=%d", fd[1]);
    enum status st = child_start(&s->coordinator, &a, fd[1]);
    close(fd[1]);
    s->notify_fd = fd[0];
    s->n_line = 0;
    s->coordinator_served = false;
    s->coordinator_start_us = clock_us();
    return st;
}

/* The ranks of one host talk through shared memory alone and listen nowhere.  mpirun listens on all
 * interfaces, whatever its parameters are: it gets a network of its own where that is possible.  When
 * a rank has ended mpirun kills the others at once.  What MPI keeps in files goes to our folder, so
 * that nothing stays behind when a rank is killed: session folders follow TMPDIR; shared memory
 * segments have a parameter in Open MPI 4 (vader) and 5 (sm). */
static void mpirun_args(struct child_args *a, int64_t n_ranks, const char *dir)
{
    child_arg(a, "env");
    child_argf(a, "TMPDIR=%s", dir);
    child_argf(a, "OMPI_MCA_btl_vader_backing_directory=%s", dir);
    child_argf(a, "OMPI_MCA_btl_sm_backing_directory=%s", dir);
    child_arg(a, "OMPI_MCA_pml=ob1");
    child_arg(a, "OMPI_MCA_btl=^tcp,ofi,openib,usnic");
    child_arg(a, "OMPI_MCA_oob_tcp_if_include=lo");
    child_arg(a, "OMPI_MCA_odls_base_sigkill_timeout=0");
    child_arg(a, "mpirun");
    if (getuid() == 0)
        child_arg(a, "--allow-run-as-root");
    child_arg(a, "--oversubscribe");
    child_arg(a, "--bind-to");
    child_arg(a, "none"); /* ranks bind themselves, knowing their threads */
    child_arg(a, "-np");
    child_argf(a, "%" PRId64, n_ranks);
}

/* Each rank's share of the cores. */
static int64_t threads_of(const struct supervisor *s)
{
    int64_t n = host_cpus() / (s->cfg.args.shared.tp * s->n_groups);
    return n < 1 ? 1 : n;
}

static enum status start_group(struct supervisor *s, struct group_job *g)
{
    const struct supervisor_config *c = &s->cfg;
    const struct shared_options *o = &c->args.shared;
    struct child_args a = {.n = 0};
    char name[16], dir[PRIVATE_PATH];
    uint64_t launch = random_u64() >> 12 | 1; /* fits an option; 0 would be none */
    snprintf(name, sizeof name, "g%d", (int)(g - s->groups));
    TRY(private_dir_fresh(&s->dir, name, dir)); /* a group that was killed left its files in it */
    a.private_network = o->tp > 1 && s->private_network;
    if (o->tp > 1)
        mpirun_args(&a, o->tp, dir);
    child_arg(&a, s->worker_path);
    child_argf(&a, "--model=%s", c->model);
    child_argf(&a, "--connect=%s", s->workers);
    serve_pass_options(&a, o, c->command, FOR_WORKER);
    if (s->n_groups > 1 && o->threads == 0) /* a group does not know of the others */
        child_argf(&a, "--threads=%" PRId64, threads_of(s));
    if (c->args.one_request)
        child_arg(&a, "--no-warm-up");
    child_arg(&a, "--die-with-parent");
    child_argf(&a, "--failure-file=%s", s->failure_path);
    child_argf(&a, "--launch=%" PRIu64, launch);
    return group_job_start(g, &a, launch);
}

/* ---- start ---- */

static enum status prepare(struct supervisor *s, const struct supervisor_config *cfg)
{
    s->cfg = *cfg;
    s->n_groups =
        cfg->args.groups ? (int)cfg->args.groups : 1; /* 0: a command without the option */
    TRY(child_find("ingot-coordinator", s->coordinator_path));
    TRY(child_find("ingot-worker", s->worker_path));
    int64_t tp = cfg->args.shared.tp;
    if (tp > 1) {
        char mpirun[MAX_PATH_LEN];
        if (child_find("mpirun", mpirun) != ST_OK)
            FAIL(ST_NOT_FOUND, "--tp %" PRId64 " needs mpirun (apt: openmpi-bin)", tp);
    }
    s->private_network = tp > 1 && private_network_possible();
    if (tp > 1 && !s->private_network && !cfg->quiet)
        log_line(LOG_WARN, "mpirun listens on all interfaces: this user may not make network "
                           "namespaces (docs/security.md)");
    uint64_t need = tp > 1 ? (uint64_t)(MPI_MIB + MPI_RANK_MIB * tp * s->n_groups) << 20 : 0;
    TRY(private_dir_open(&s->dir, need));
    snprintf(s->workers, sizeof s->workers, "ipc://%s/workers", s->dir.path);
    snprintf(s->local, sizeof s->local, "ipc://%s/clients", s->dir.path);
    snprintf(s->failure_path, sizeof s->failure_path, "%s/failure", s->dir.path);
    return ST_OK;
}

enum status supervisor_start(struct supervisor **out, const struct supervisor_config *cfg)
{
    struct supervisor *s = calloc(1, sizeof *s);
    if (!s)
        FAIL(ST_NOMEM, "no memory for the supervisor");
    s->notify_fd = s->dir.lock_fd = -1;
    enum status st = prepare(s, cfg);
    if (st == ST_OK)
        st = start_coordinator(s);
    if (st != ST_OK) {
        supervisor_stop(s);
        return st;
    }
    /* groups start when the coordinator listens: see on_event */
    *out = s;
    return ST_OK;
}

/* ---- events ---- */

/* The running job that the coordinator names so, or NULL: it has ended already. */
static struct group_job *job_of(struct supervisor *s, const char *launch)
{
    uint64_t id = strtoull(launch, NULL, 10);
    for (int i = 0; i < s->n_groups; i++)
        if (s->groups[i].pid && s->groups[i].launch == id)
            return &s->groups[i];
    return NULL;
}

/* The words of a group-up. */
static unsigned gives_of(const char *line)
{
    return (strstr(line, " answers") ? GIVES_ANSWERS : 0U) |
           (strstr(line, " embeddings") ? GIVES_EMBEDDINGS : 0U) |
           (strstr(line, " scores") ? GIVES_SCORES : 0U);
}

static void on_event(struct supervisor *s, const char *line)
{
    struct group_job *g;
    if (strncmp(line, "listening ", 10) == 0) {
        sscanf(line + 10, "%255s", s->endpoint);
        for (int i = 0; i < s->n_groups && !s->listening; i++)
            s->groups[i].start_at_us = 1;
        s->listening = true;
    } else if (strncmp(line, "group-up ", 9) == 0) {
        s->ready = s->coordinator_served = true;
        s->gives = gives_of(line);
    } else if (strncmp(line, "group-joined ", 13) == 0) {
        if ((g = job_of(s, line + 13)))
            g->joined = s->groups_served = true;
    } else if (strncmp(line, "group-lost ", 11) == 0) {
        if ((g = job_of(s, line + 11)))
            group_job_kill(g);
    }
}

static void read_events(struct supervisor *s)
{
    for (;;) {
        ssize_t n = read(s->notify_fd, s->line + s->n_line, sizeof s->line - 1 - s->n_line);
        if (n <= 0)
            return;
        s->n_line += (size_t)n;
        s->line[s->n_line] = '\0';
        char *at = s->line, *end;
        while ((end = strchr(at, '\n'))) {
            *end = '\0';
            on_event(s, at);
            at = end + 1;
        }
        s->n_line -= (size_t)(at - s->line);
        memmove(s->line, at, s->n_line);
        if (s->n_line == sizeof s->line - 1)
            s->n_line = 0; /* a line that long is not ours */
    }
}

/* After so many ends at once in a row. */
static uint64_t backoff_ms(uint32_t quick_deaths)
{
    if (quick_deaths < 2)
        return 0;
    uint64_t ms = (uint64_t)FIRST_BACKOFF_MS << (quick_deaths - 2);
    return ms < LONGEST_BACKOFF_MS ? ms : LONGEST_BACKOFF_MS;
}

/* when to start the group again, or a failure when that cannot help */
static enum status plan_restart(struct supervisor *s, struct group_job *g, int wait_status)
{
    char why[64], reason[1024];
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    child_end_text(wait_status, why, sizeof why);
    failure_file_read(s->failure_path, reason, sizeof reason);
    bool refused = (code == WORKER_EXIT_USAGE || code == WORKER_EXIT_MODEL) && !s->groups_served;
    if (refused && *reason)
        FAIL(ST_RANGE, "the workers cannot serve this: %s", reason);
    if (refused)
        FAIL(ST_RANGE, "the workers cannot serve this (%s): see their message above", why);
    if (code == 127)
        FAIL(ST_IO, "the workers could not be started");
    if (g->joined)
        g->quick_deaths = 0;
    if (clock_us() - g->started_us < QUICK_US)
        g->quick_deaths++;
    if (g->quick_deaths > MAX_QUICK_DEATHS)
        FAIL(ST_PEER, "the workers died %u times in a row at once (last: %s)", g->quick_deaths,
             why);
    uint64_t wait_ms = backoff_ms(g->quick_deaths);
    unlink(s->failure_path); /* for the next reason */
    SAY(s, "worker group ended with %s%s%s: starting it again%s", why, *reason ? ": " : "", reason,
        wait_ms ? " in a moment" : "");
    g->start_at_us = clock_us() + 1000U * wait_ms;
    return ST_OK;
}

/* Clients and worker groups wait for the next coordinator: they connect again by themselves. */
static enum status restart_coordinator(struct supervisor *s, int wait_status)
{
    char why[64];
    uint64_t now = clock_us();
    child_end_text(wait_status, why, sizeof why);
    bool quick = !s->coordinator_served && now - s->coordinator_start_us < QUICK_US;
    s->coordinator_deaths = quick ? s->coordinator_deaths + 1 : 0;
    if (s->cfg.command != FOR_SERVE || s->coordinator_deaths > MAX_QUICK_DEATHS) {
        s->ended = true;
        FAIL(ST_PEER, "the coordinator ended with %s: running requests are lost", why);
    }
    SAY(s, "the coordinator ended with %s: starting it again", why);
    close(s->notify_fd);
    s->notify_fd = -1;
    s->coordinator_start_us = now + 1000U * backoff_ms(s->coordinator_deaths);
    return ST_OK;
}

static enum status reap_coordinator(struct supervisor *s)
{
    int ws;
    if (!s->coordinator || waitpid(s->coordinator, &ws, WNOHANG) != s->coordinator)
        return ST_OK;
    s->coordinator = 0;
    s->exit_code = WIFEXITED(ws) ? WEXITSTATUS(ws) : 1;
    read_events(s);
    if (s->listening && s->exit_code && !s->draining)
        return restart_coordinator(s, ws);
    s->ended = true;
    failure_file_read(s->failure_path, s->why, sizeof s->why);
    return ST_OK;
}

static enum status reap(struct supervisor *s)
{
    int ws;
    TRY(reap_coordinator(s));
    for (int i = 0; i < s->n_groups; i++) {
        struct group_job *g = &s->groups[i];
        if (!g->pid || waitpid(g->pid, &ws, WNOHANG) != g->pid)
            continue;
        g->pid = 0;
        g->ended_us = clock_us();
        if (!s->draining && !s->ended)
            TRY(plan_restart(s, g, ws));
    }
    return ST_OK;
}

/* A rank that is stopped holds up its group for ever, also one that loads or stands by. */
static void end_stopped(struct supervisor *s)
{
    uint64_t now = clock_us(), most = 1000U * (uint64_t)s->cfg.args.shared.step_deadline_ms;
    for (int i = 0; i < s->n_groups; i++) {
        struct group_job *g = &s->groups[i];
        uint64_t since = g->pid && !g->ending ? group_job_stopped_since(g, now) : 0;
        if (!since || now - since < most)
            continue;
        SAY(s, "a process of a worker group has been stopped for %" PRIu64 " ms: ending the group",
            (now - since) / 1000);
        group_job_kill(g);
    }
}

/* Two groups may not fit into the memory: the new one waits for the end of the old one's ranks. */
static bool has_room(const struct group_job *g, uint64_t now)
{
    return group_job_is_gone(g) || now - g->ended_us > MEMORY_US;
}

static enum status start_due(struct supervisor *s)
{
    uint64_t now = clock_us();
    if (!s->coordinator && !s->ended && !s->draining && s->coordinator_start_us <= now)
        TRY(start_coordinator(s));
    for (int i = 0; i < s->n_groups; i++) {
        struct group_job *g = &s->groups[i];
        if (!g->pid && g->start_at_us && g->start_at_us <= now && !s->draining && !s->ended &&
            has_room(g, now))
            TRY(start_group(s, g));
    }
    return ST_OK;
}

/* Children are looked for at least that often: their end gives no event of its own. */
static int look_ms(const struct supervisor *s)
{
    uint64_t now = clock_us();
    for (int i = 0; i < s->n_groups; i++) {
        const struct group_job *g = &s->groups[i];
        if (g->pid ? g->ending : g->start_at_us && g->start_at_us <= now)
            return 2;
    }
    return 20;
}

enum status supervisor_poll(struct supervisor *s, int timeout_ms, enum supervisor_state *state)
{
    struct pollfd p = {.fd = s->ended ? -1 : s->notify_fd, .events = POLLIN};
    uint64_t end = clock_us() + 1000U * (uint64_t)(timeout_ms > 0 ? timeout_ms : 0);
    do {
        int most = look_ms(s);
        if (poll(&p, 1, timeout_ms > most ? most : timeout_ms) > 0) {
            read_events(s);
            if (p.revents & POLLHUP)
                p.fd = -1;
        }
        TRY(reap(s));
        end_stopped(s);
        TRY(start_due(s));
        if (s->draining && !s->coordinator)
            s->ended = true; /* it died, and nothing is left to drain */
        *state = s->ended ? SUP_ENDED : s->ready ? SUP_READY : SUP_STARTING;
    } while (*state == SUP_STARTING && clock_us() < end);
    return ST_OK;
}

const char *supervisor_endpoint(const struct supervisor *s)
{
    return s->listening ? s->endpoint : NULL;
}

const char *supervisor_local_endpoint(const struct supervisor *s)
{
    return !s->listening ? NULL : has_local(s) ? s->local : s->endpoint;
}

unsigned supervisor_gives(const struct supervisor *s)
{
    return s->gives;
}

int supervisor_exit_code(const struct supervisor *s)
{
    return s->exit_code;
}

const char *supervisor_why(const struct supervisor *s)
{
    return s->why;
}

/* ---- end ---- */

void supervisor_drain(struct supervisor *s)
{
    s->draining = true;
    if (s->coordinator)
        kill(s->coordinator, SIGTERM);
}

static void wait_or_kill(pid_t *pid, uint64_t until_us)
{
    while (*pid && waitpid(*pid, NULL, WNOHANG) == 0) {
        if (clock_us() > until_us) {
            kill(*pid, SIGKILL);
            waitpid(*pid, NULL, 0);
            break;
        }
        usleep(1000);
    }
    *pid = 0;
}

void supervisor_stop(struct supervisor *s)
{
    if (!s)
        return;
    if (s->coordinator) {
        kill(s->coordinator, SIGTERM);
        kill(s->coordinator, SIGINT); /* the second one: now, not when everything is answered */
    }
    bool told =
        s->coordinator || (s->ended && s->exit_code == 0); /* the groups, by the coordinator */
    uint64_t until = clock_us() + 2 * 1000 * 1000;
    wait_or_kill(&s->coordinator, until);
    for (int i = 0; i < s->n_groups; i++) {
        if (!told || !s->groups[i].joined)
            group_job_kill(&s->groups[i]);
        wait_or_kill(&s->groups[i].pid, until);
    }
    if (s->notify_fd >= 0)
        close(s->notify_fd);
    private_dir_close(&s->dir);
    free(s);
}
