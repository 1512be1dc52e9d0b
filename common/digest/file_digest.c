#define _GNU_SOURCE /* pread, nanosleep under strict C */
#include "common/digest/file_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/thread.h"

enum { READ_BYTES = 256 << 10, MAX_THREADS = 256, LOCK_WAIT_MS = 20 };

/* One file that several threads hash. */
struct tree {
    const struct file_digest_job *job;
    int fd;
    uint64_t size, n_blocks;
    uint8_t (*leaf)[SHA256_BYTES]; /* [n_blocks] */
    atomic_uint_least64_t next;    /* block that no thread has taken */
    atomic_uint_least64_t n_read;  /* bytes */
    atomic_int error;              /* an errno; -1: the file ended early */
};

static bool stopped(const struct file_digest_job *job)
{
    return job->stop && atomic_load(job->stop);
}

/* false: t->error says why */
static bool hash_block(struct tree *t, uint64_t i, unsigned char *buf)
{
    uint64_t at = i * FILE_DIGEST_BLOCK, end = at + FILE_DIGEST_BLOCK;
    struct sha256 s;
    ssize_t n = 1;
    if (end > t->size)
        end = t->size;
    sha256_init(&s);
    while (at < end && n > 0) {
        n = pread(t->fd, buf, end - at < READ_BYTES ? (size_t)(end - at) : READ_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0) {
            sha256_update(&s, buf, (size_t)n);
            at += (uint64_t)n;
            atomic_fetch_add(&t->n_read, (uint64_t)n);
        }
    }
    if (n <= 0)
        atomic_store(&t->error, n < 0 ? errno : -1);
    sha256_final(&s, t->leaf[i]);
    return n > 0;
}

static void hash_blocks(struct tree *t, bool reports)
{
    unsigned char *buf = malloc(READ_BYTES);
    if (!buf)
        atomic_store(&t->error, ENOMEM);
    while (buf && !stopped(t->job) && atomic_load(&t->error) == 0) {
        uint64_t i = atomic_fetch_add(&t->next, 1);
        if (i >= t->n_blocks || !hash_block(t, i, buf))
            break;
        if (reports && t->job->progress)
            t->job->progress(t->job->progress_ctx, atomic_load(&t->n_read));
    }
    free(buf);
}

static void *run(void *arg)
{
    hash_blocks(arg, false);
    return NULL;
}

static void hash_all(struct tree *t)
{
    pthread_t thread[MAX_THREADS];
    int n = 0, want = t->job->n_threads - 1;
    if (want > MAX_THREADS)
        want = MAX_THREADS;
    while (n < want && (uint64_t)n + 1 < t->n_blocks && thread_start(&thread[n], run, t) == 0)
        n++; /* fewer only take longer */
    hash_blocks(t, true);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

static void combine(const struct tree *t, uint8_t out[SHA256_BYTES])
{
    static const char head[] = "ingot file digest 1\n";
    unsigned char size[8];
    struct byte_writer w = {.data = size, .cap = sizeof size};
    struct sha256 s;
    put_u64(&w, t->size);
    sha256_init(&s);
    sha256_update(&s, head, sizeof head - 1);
    sha256_update(&s, size, sizeof size);
    sha256_update(&s, t->leaf, (size_t)t->n_blocks * SHA256_BYTES);
    sha256_final(&s, out);
}

static enum status hash_tree(struct tree *t, const char *path, uint8_t out[SHA256_BYTES])
{
    t->leaf = calloc((size_t)t->n_blocks + 1, SHA256_BYTES);
    if (!t->leaf)
        FAIL(ST_NOMEM, "%s: no memory for %llu digests", path, (unsigned long long)t->n_blocks);
    hash_all(t);
    int error = atomic_load(&t->error);
    if (error == 0 && !stopped(t->job))
        combine(t, out);
    free(t->leaf);
    if (error)
        FAIL(ST_IO, "cannot read %s: %s", path, error > 0 ? strerror(error) : "it ended early");
    if (stopped(t->job))
        FAIL(ST_CANCELED, "%s: reading was ended", path);
    return ST_OK;
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static enum status hash_file(const struct file_facts *f, const struct file_digest_job *job,
                             uint8_t out[SHA256_BYTES])
{
    struct tree t = {.job = job,
                     .size = f->size,
                     .n_blocks = (f->size + FILE_DIGEST_BLOCK - 1) / FILE_DIGEST_BLOCK};
    struct file_facts after;
    uint64_t began = now_ns();
    t.fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (t.fd < 0)
        FAIL(ST_IO, "cannot open %s: %s", f->path, strerror(errno));
    enum status st = hash_tree(&t, f->path, out);
    close(t.fd);
    TRY(st);
    TRY(file_facts_read(&after, f->path));
    if (!file_facts_equal(f, &after))
        FAIL(ST_BUSY, "%s was changed while it was read", f->path);
    digest_cache_store(job->cache, f, began, out);
    return ST_OK;
}

/* Waits for the lock; *fd = -1 where there is none. */
static enum status lock(const struct file_facts *f, const struct file_digest_job *job, int *fd)
{
    const struct timespec pause = {.tv_nsec = LOCK_WAIT_MS * 1000 * 1000};
    *fd = -1;
    while (job->locked && !stopped(job)) {
        enum status st = digest_cache_try_lock(job->cache, f, fd);
        if (st != ST_OK && job->needs_lock)
            return st;
        if (st != ST_OK || *fd >= 0)
            return ST_OK;
        nanosleep(&pause, NULL);
    }
    return ST_OK;
}

enum status file_digest(const char *path, const struct file_digest_job *job,
                        uint8_t out[SHA256_BYTES])
{
    struct file_facts f;
    enum status st = ST_OK;
    int fd;
    TRY(file_facts_read(&f, path));
    if (digest_cache_find(job->cache, &f, out))
        return ST_OK;
    TRY(lock(&f, job, &fd));
    if (!digest_cache_find(job->cache, &f,
                           out)) /* the process that had the lock may have made it */
        st = hash_file(&f, job, out);
    if (fd >= 0)
        close(fd);
    return st;
}
