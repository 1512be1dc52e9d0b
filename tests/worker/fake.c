#include "worker/fake.h"
#include "temp_dir.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "common/wire/sock.h"

enum { MAX_ARGS = 64 };

static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000U + (uint64_t)ts.tv_nsec / 1000000U;
}

/* ---- life ---- */

void fake_open(struct fake *f)
{
    struct sock_config sc = {.max_message = (size_t)64 << 20};
    *f = (struct fake){.alive = -1, .epoch = 41};
    temp_dir_make(f->dir);
    snprintf(f->endpoint, sizeof f->endpoint, "ipc://%s/workers", f->dir);
    snprintf(f->log, sizeof f->log, "%s/log", f->dir);
    f->ctx = zmq_ctx_new();
    cr_assert_eq(sock_bind_router(&f->router, f->ctx, f->endpoint, &sc, NULL, 0), ST_OK, "%s",
                 status_text());
    cr_assert_eq(wire_mem_init(&f->rx, (size_t)64 << 20), ST_OK);
    cr_assert_eq(wire_mem_init(&f->tx, (size_t)64 << 20), ST_OK);
}

static void exec_child(struct fake *f, const char **argv)
{
    int pipe_fds[2];
    /* Before the fork: setenv allocates, and ZeroMQ's threads may hold the allocator's lock at the fork.  For a build with
     * AddressSanitizer a leak is a failure, except those that Open MPI keeps. */
    setenv("LSAN_OPTIONS",
           "suppressions=" INGOT_SOURCE_DIR "/tests/coll/lsan.supp:print_suppressions=0", 0);
    setenv("XDG_CACHE_HOME", f->dir, 1);
    setenv("ASAN_OPTIONS", "fast_unwind_on_malloc=0:malloc_context_size=10", 0);
    cr_assert_eq(pipe(pipe_fds), 0);
    f->child = fork();
    cr_assert(f->child >= 0);
    if (f->child == 0) {
        int log = open(f->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        close(pipe_fds[0]);
        setpgid(0, 0);
        if (log < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
            _exit(126);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(pipe_fds[1]);
    f->alive = pipe_fds[0];
}

static int add(const char **argv, int n, const char *const *more)
{
    for (; more && *more; more++) {
        cr_assert(n < MAX_ARGS - 1);
        argv[n++] = *more;
    }
    argv[n] = NULL;
    return n;
}

static int add_mpirun(const char **argv, const char *count)
{
#ifdef INGOT_TEST_MPIEXEC
    const char *const common[] = {INGOT_TEST_MPIEXEC, "--oversubscribe", "--bind-to", "none", NULL};
    int n = add(argv, 0, common);
    if (geteuid() == 0)
        n = add(argv, n, (const char *const[]){"--allow-run-as-root", NULL});
    return add(argv, n, (const char *const[]){"-np", count, NULL});
#else
    (void)argv;
    (void)count;
    cr_skip_test("this build has no MPI");
    return 0;
#endif
}

static int add_worker(const struct fake *f, const char **argv, int n, const char *model)
{
    const char *const worker[] = {INGOT_WORKER, "--model",     model, "--connect",
                                  f->endpoint,  "--block-len", "8",   NULL};
    return add(argv, n, worker);
}

void fake_launch(struct fake *f, int world, const char *model, const char *const *args)
{
    const char *argv[MAX_ARGS];
    char count[16];
    int n = 0;
    snprintf(count, sizeof count, "%d", world);
    if (world > 1)
        n = add_mpirun(argv, count);
    f->world = world;
    n = add_worker(f, argv, n, model);
    add(argv, n, args);
    exec_child(f, argv);
}

void fake_launch_mixed(struct fake *f, const char *model, const char *const *args0,
                       const char *const *args1)
{
    const char *argv[MAX_ARGS];
    int n = add_mpirun(argv, "1");
    f->world = 2;
    n = add_worker(f, argv, n, model);
    n = add(argv, n, args0);
    n = add(argv, n, (const char *const[]){":", "-np", "1", NULL});
    n = add_worker(f, argv, n, model);
    add(argv, n, args1);
    exec_child(f, argv);
}

void fake_close(struct fake *f)
{
    pid_t pids[64];
    if (f->child > 0) {
        kill(-f->child, SIGKILL);
        waitpid(f->child, NULL, 0);
        int n = fake_ranks(f, pids, 64);
        for (int i = 0; i < n; i++)
            kill(pids[i], SIGKILL);
    }
    if (f->alive >= 0)
        close(f->alive);
    sock_close(f->router);
    if (f->ctx)
        zmq_ctx_term(f->ctx);
    wire_mem_fini(&f->rx);
    wire_mem_fini(&f->tx);
    char path[160];
    snprintf(path, sizeof path, "%s/workers", f->dir);
    unlink(path);
    unlink(f->log);
    temp_dir_remove(f->dir);
}

static void show_log(const struct fake *f)
{
    char line[1024];
    FILE *log = fopen(f->log, "r");
    while (log && fgets(line, sizeof line, log))
        fprintf(stderr, "  %s", line);
    if (log)
        fclose(log);
}

bool fake_logged(const struct fake *f, const char *text)
{
    char line[2048];
    bool found = false;
    FILE *log = fopen(f->log, "r");
    while (log && !found && fgets(line, sizeof line, log))
        found = strstr(line, text) != NULL;
    if (log)
        fclose(log);
    if (!found)
        show_log(f);
    return found;
}

static int exit_code(struct fake *f)
{
    struct pollfd p = {.fd = f->alive, .events = POLLIN};
    int status = 0;
    if (poll(&p, 1, FAKE_PATIENCE_MS) != 1) {
        show_log(f);
        cr_assert_fail("the group has not ended");
    }
    cr_assert_eq(waitpid(f->child, &status, 0), f->child);
    f->child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void fake_check_exit(struct fake *f, int code)
{
    int got = exit_code(f);
    if (got != code)
        show_log(f);
    cr_assert_eq(got, code, "exit code %d, expected %d", got, code);
}

void fake_check_killed(struct fake *f)
{
    cr_assert_neq(exit_code(f), 0);
}

/* ---- processes ---- */

static bool read_proc(pid_t pid, const char *file, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, buf, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    for (ssize_t i = 0; i < n; i++)
        if (!buf[i])
            buf[i] = '\n';
    buf[n] = 0;
    return true;
}

int fake_ranks(const struct fake *f, pid_t *pids, int max)
{
    static char text[65536];
    DIR *proc = opendir("/proc");
    int n = 0;
    for (struct dirent *e; proc && (e = readdir(proc)) && n < max;) {
        pid_t pid = (pid_t)atoi(e->d_name);
        if (pid > 0 && read_proc(pid, "cmdline", text, sizeof text) &&
            strncmp(text, INGOT_WORKER, strlen(INGOT_WORKER)) == 0 && strstr(text, f->endpoint))
            pids[n++] = pid;
    }
    if (proc)
        closedir(proc);
    return n;
}

int fake_rank_of(pid_t pid)
{
    static char text[65536];
    static const char name[] = "\nOMPI_COMM_WORLD_RANK=";
    if (!read_proc(pid, "environ", text, sizeof text))
        return -1;
    const char *at = strstr(text, name);
    return at ? atoi(at + sizeof name - 1) : -1;
}

void fake_all_gone(const struct fake *f)
{
    pid_t pids[64];
    uint64_t end = now_ms() + FAKE_PATIENCE_MS;
    while (fake_ranks(f, pids, 64) > 0) {
        cr_assert(now_ms() < end, "a rank is left behind");
        poll(NULL, 0, 10);
    }
}

/* ---- messages ---- */

void fake_send_bytes(struct fake *f, const void *data, size_t n)
{
    cr_assert_eq(zmq_send(f->router, f->id, f->n_id, ZMQ_SNDMORE), (int)f->n_id, "%s",
                 zmq_strerror(errno));
    cr_assert_eq(zmq_send(f->router, data, n, 0), (int)n);
}

void fake_send(struct fake *f, const struct worker_msg *m)
{
    struct wire_bytes b;
    wire_mem_reset(&f->tx);
    cr_assert_eq(worker_msg_encode(&b, m, &f->tx), ST_OK, "%s", status_text());
    fake_send_bytes(f, b.data, b.n);
}

/* Receives one message; false after wait_ms. */
static bool receive(struct fake *f, struct worker_msg *m, long wait_ms)
{
    zmq_pollitem_t item = {.socket = f->router, .events = ZMQ_POLLIN};
    zmq_msg_t body;
    if (zmq_poll(&item, 1, wait_ms) != 1)
        return false;
    int n = zmq_recv(f->router, f->id, sizeof f->id, 0);
    cr_assert(n > 0);
    f->n_id = (size_t)n;
    zmq_msg_init(&body);
    cr_assert(zmq_msg_recv(&body, f->router, 0) >= 0);
    cr_assert_not(zmq_msg_more(&body));
    wire_mem_reset(&f->rx);
    cr_assert_eq(worker_msg_decode(m, zmq_msg_data(&body), zmq_msg_size(&body), &f->rx), ST_OK,
                 "%s", status_text());
    zmq_msg_close(&body);
    return true;
}

/* true: it was a heartbeat, which is answered, or figures of the ranks, which any group may send */
static bool is_passing(struct fake *f, const struct worker_msg *m)
{
    struct worker_msg back = {.type = WMSG_HEARTBEAT, .u.beat.epoch = f->epoch};
    if (m->type == WMSG_FIGURES)
        return true;
    if (m->type != WMSG_HEARTBEAT)
        return false;
    cr_assert_eq(m->u.beat.epoch, f->epoch);
    f->n_heartbeats++;
    fake_send(f, &back);
    return true;
}

void fake_await(struct fake *f, enum worker_type type, struct worker_msg *m)
{
    uint64_t end = now_ms() + FAKE_PATIENCE_MS;
    while (now_ms() < end) {
        struct pollfd p = {.fd = f->alive, .events = POLLIN};
        bool dead = poll(&p, 1, 0) == 1;
        if (receive(f, m, 100)) {
            if (m->type == type)
                return;
            if (is_passing(f, m))
                continue;
            if (m->type == WMSG_FAULT)
                fprintf(stderr, "fault: %s\n", m->u.fault.detail);
            show_log(f);
            cr_assert_fail("message %d came instead of %d", (int)m->type, (int)type);
        } else if (dead) {
            show_log(f);
            cr_assert_fail("the group ended before it sent message %d", (int)type);
        }
    }
    show_log(f);
    cr_assert_fail("message %d has not come", (int)type);
}

void fake_heartbeats(struct fake *f, int n)
{
    uint64_t end = now_ms() + FAKE_PATIENCE_MS;
    struct worker_msg m;
    for (n += f->n_heartbeats; f->n_heartbeats < n;) {
        cr_assert(now_ms() < end, "no heartbeats");
        if (receive(f, &m, 100))
            cr_assert(is_passing(f, &m), "message %d came", (int)m.type);
    }
}

void fake_join(struct fake *f, uint32_t heartbeat_ms, uint32_t lease_ms)
{
    struct worker_msg m;
    fake_await(f, WMSG_HELLO, &m);
    f->hello = m.u.hello;
    f->hello.model = f->hello.backend = f->hello.coll = f->hello.numerics = NULL;
    cr_assert_eq(f->hello.world, (uint32_t)f->world);
    m = (struct worker_msg){.type = WMSG_WELCOME, .u.welcome = {f->epoch, heartbeat_ms, lease_ms}};
    fake_send(f, &m);
}

/* ---- the usual group ---- */

const char *const fake_small_args[] = {
    "--max-seqs", "8", "--max-step-tokens", "64", "--kv-blocks", "512", "--threads", "1", NULL};

const char *fake_tiny_model(void)
{
    return INGOT_SOURCE_DIR "/tests/golden/models/llama-gqa";
}

void fake_start(struct fake *f, int world, const char *model, const char *coll, uint32_t lease_ms)
{
    const char *args[MAX_ARGS];
    int n = add(args, 0, fake_small_args);
    add(args, n, (const char *const[]){"--coll", coll, NULL});
    fake_open(f);
    fake_launch(f, world, model, args);
    fake_join(f, FAKE_BEAT_MS, lease_ms);
}

void fake_shut_down(struct fake *f)
{
    struct worker_msg m = {.type = WMSG_SHUTDOWN, .u.beat.epoch = f->epoch};
    fake_send(f, &m);
    fake_check_exit(f, 0);
    fake_all_gone(f);
    fake_close(f);
}

void fake_hang_up(struct fake *f)
{
    int linger = FAKE_PATIENCE_MS;
    cr_assert_eq(zmq_setsockopt(f->router, ZMQ_LINGER, &linger, sizeof linger), 0);
    sock_close(f->router);
    f->router = NULL;
}

/* ---- a small scheduler: every stream has its own blocks, all run in every step ---- */

static void plan_open(struct step_plan *p, const struct fake_stream *s)
{
    p->opens[p->n_opens++] = (struct plan_open){.seq_id = s->seq_id,
                                                .sp = s->sp,
                                                .n_prompt = s->n_prompt,
                                                .n_stop_ids = s->n_stop_ids,
                                                .stop_off = p->n_stop_ids,
                                                .n_bias = s->n_bias,
                                                .bias_off = p->n_bias};
    for (uint32_t i = 0; i < s->n_stop_ids; i++)
        p->stop_ids[p->n_stop_ids++] = s->stop_ids[i];
    for (uint32_t i = 0; i < s->n_bias; i++)
        p->bias[p->n_bias++] = s->bias[i];
}

/* i: number of the stream, which owns the blocks i * per_seq and on */
static void plan_stream(struct step_plan *p, struct fake_stream *s, int i, uint32_t chunk,
                        int32_t per_seq)
{
    uint32_t known = s->n_prompt + s->n_out, n = known - s->len;
    if (n > chunk)
        n = chunk;
    struct plan_seq *q = &p->seqs[p->n_seqs++];
    *q = (struct plan_seq){.seq_id = s->seq_id,
                           .pos = s->len,
                           .n_tokens = n,
                           .token_off = p->n_tokens,
                           .block_off = p->n_blocks,
                           .want = s->len + n == known ? WANT_LAST : WANT_NONE};
    if (s->len == 0)
        plan_open(p, s);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = s->len + k;
        p->tokens[p->n_tokens++] =
            at < s->n_prompt || s->forced ? s->prompt[at] : s->out[at - s->n_prompt].token;
    }
    s->len += n;
    for (; s->n_blocks * FAKE_BLOCK_LEN < s->len; s->n_blocks++, q->n_blocks++)
        p->blocks[p->n_blocks++] = i * per_seq + (int32_t)s->n_blocks;
    cr_assert((int32_t)s->n_blocks <= per_seq);
}

static void take_results(struct fake *f, struct fake_stream *s, int n, const struct step_plan *p)
{
    struct worker_msg m;
    uint32_t at = 0;
    fake_await(f, WMSG_STEP_RESULT, &m);
    const struct step_result *r = &m.u.result;
    cr_assert(r->step_id == p->step_id && r->epoch == f->epoch);
    for (uint32_t k = 0; k < p->n_seqs; k++) {
        if (p->seqs[k].want != WANT_LAST)
            continue;
        cr_assert(at < r->n && r->tokens[at].seq_id == p->seqs[k].seq_id);
        for (int i = 0; i < n; i++)
            if (s[i].seq_id == p->seqs[k].seq_id)
                s[i].out[s[i].n_out++] = r->tokens[at];
        at++;
    }
    cr_assert_eq(at, r->n);
}

void fake_generate(struct fake *f, struct fake_stream *s, int n, uint32_t chunk)
{
    static struct plan_seq seqs[64];
    static struct plan_open opens[64];
    static int32_t tokens[65536], blocks[65536], stop_ids[64 * MAX_STOP_IDS];
    static struct logit_bias bias[64 * 8];
    static uint64_t closes[64];
    struct worker_msg m = {.type = WMSG_STEP_PLAN};
    struct step_plan *p = &m.u.plan;
    int32_t per_seq = (int32_t)f->hello.n_blocks / n;
    bool more = true;
    *p = (struct step_plan){.closes = closes};
    while (more) {
        uint32_t n_closes = p->n_closes; /* of the streams that ended with the last step */
        *p = (struct step_plan){.step_id = ++f->step_id,
                                .epoch = f->epoch,
                                .seqs = seqs,
                                .opens = opens,
                                .tokens = tokens,
                                .blocks = blocks,
                                .stop_ids = stop_ids,
                                .bias = bias,
                                .closes = closes,
                                .n_closes = n_closes};
        for (int i = 0; i < n; i++)
            if (s[i].n_out < s[i].n_new)
                plan_stream(p, &s[i], i, chunk, per_seq);
        more = p->n_seqs > 0; /* the last plan only closes */
        fake_send(f, &m);
        take_results(f, s, n, p);
        p->n_closes = 0;
        for (uint32_t k = 0; k < p->n_seqs; k++)
            for (int i = 0; i < n; i++)
                if (s[i].seq_id == seqs[k].seq_id && s[i].n_out == s[i].n_new)
                    closes[p->n_closes++] = s[i].seq_id;
    }
}
