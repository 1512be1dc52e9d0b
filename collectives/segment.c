#include "collectives/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/wait.h"

/* Whole pages: some systems give no other size. */
size_t segment_bytes(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Takes the memory now: without it a full /dev/shm is a SIGBUS at the first touch. */
static int take_memory(int fd, size_t bytes)
{
    if (ftruncate(fd, (off_t)bytes) != 0)
        return errno;
#ifdef __linux__
    int e;
    do
        e = posix_fallocate(fd, 0, (off_t)bytes);
    while (e == EINTR);
    return e;
#else
    return 0;
#endif
}

/* ---- segments of dead creators ---- */

/* The name was taken away: it may be another object's by now. */
static bool nameless(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_nlink == 0;
}

/* Locks the object; false: it lost its name meanwhile, a sweep was quicker. */
static bool hold(int fd)
{
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return true; /* no such locks here: then there is no sweep either */
    return !nameless(fd);
}

#ifdef __linux__
static void unlink_if_dead(const char *name)
{
    struct stat info;
    int fd = shm_open(name, O_RDWR, 0);
    if (fd < 0)
        return;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && !nameless(fd))
        shm_unlink(name);
    close(fd);
}

static void sweep(void)
{
    static const char begin[] = "ingot-";
    DIR *dir = opendir("/dev/shm");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char name[sizeof e->d_name + 1];
        if (strncmp(e->d_name, begin, sizeof begin - 1) != 0 || e->d_type != DT_REG)
            continue;
        snprintf(name, sizeof name, "/%s", e->d_name);
        unlink_if_dead(name);
    }
    if (dir)
        closedir(dir);
}
#else
static void sweep(void)
{
}
#endif

/* ---- making and mapping ---- */

static enum status map(struct segment *out, int fd, const char *name, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        FAIL(ST_IO, "cannot map shared memory %s (%zu bytes): %s", name, bytes, strerror(errno));
    *out = (struct segment){.at = at, .bytes = bytes};
    return ST_OK;
}

enum status segment_create(struct segment *out, const char *name, size_t bytes)
{
    *out = (struct segment){0};
    bytes = segment_bytes(bytes);
    sweep();
    int fd = -1;
    while (fd < 0) {
        fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd < 0 && errno == EEXIST)
            FAIL(ST_BUSY, "shared memory %s exists already", name);
        if (fd < 0)
            FAIL(ST_IO, "cannot create shared memory %s: %s", name, strerror(errno));
        if (!hold(fd)) {
            close(fd);
            fd = -1;
        }
    }
    int e = take_memory(fd, bytes);
    enum status st = e == 0 ? map(out, fd, name, bytes)
                            : status_fail(ST_NOMEM, __FILE__, __LINE__,
                                          "no %zu bytes of shared memory for %s: %s (is /dev/shm "
                                          "too small?)",
                                          bytes, name, strerror(e));
    if (st == ST_OK) {
        out->lock = fd + 1;
        return ST_OK;
    }
    shm_unlink(name);
    close(fd);
    return st;
}

enum status segment_open(struct segment *out, const char *name, size_t bytes, uint32_t timeout_ms)
{
    struct backoff b;
    struct stat info = {0};
    int fd = -1;
    *out = (struct segment){0};
    bytes = segment_bytes(bytes);
    backoff_start(&b, 0, 0);
    for (;;) { /* the creator makes it, then gives it its size */
        if (fd < 0)
            fd = shm_open(name, O_RDWR, 0);
        if (fd < 0 && errno != ENOENT)
            FAIL(ST_IO, "cannot open shared memory %s: %s", name, strerror(errno));
        if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0)
            break;
        if (fd >= 0 && nameless(fd)) { /* swept before its creator held it, who makes another */
            close(fd);
            fd = -1;
        }
        if (backoff_pause(&b) / 1000 >= timeout_ms) {
            if (fd >= 0)
                close(fd);
            FAIL(ST_TIMEOUT, "no rank has made shared memory %s within %u ms", name,
                 (unsigned)timeout_ms);
        }
    }
    enum status st;
    if (info.st_uid != geteuid())
        st = status_fail(ST_PEER, __FILE__, __LINE__, "shared memory %s is another user's", name);
    else if ((uint64_t)info.st_size != bytes)
        st = status_fail(ST_PEER, __FILE__, __LINE__,
                         "shared memory %s has %lld bytes instead of %zu: ranks were opened with "
                         "different sizes",
                         name, (long long)info.st_size, bytes);
    else
        st = map(out, fd, name, bytes);
    close(fd);
    return st;
}

void segment_unlink(const char *name)
{
    shm_unlink(name);
}

void segment_unmap(struct segment *s)
{
    if (s->at)
        munmap(s->at, s->bytes);
    if (s->lock)
        close(s->lock - 1);
    *s = (struct segment){0};
}
