#include "client/cli/private_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/log.h"

#define PREFIX "ingot-serve-"

enum { MAX_DEPTH = 8, MIB = 1 << 20 };

/* Removes what is in the folder fd; follows no links.  Closes fd. */
static void remove_contents(int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    struct dirent *e;
    if (!dir) {
        close(fd);
        return;
    }
    while ((e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(dir), e->d_name, 0) == 0 || depth == MAX_DEPTH)
            continue;
        int sub = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub >= 0)
            remove_contents(sub, depth + 1);
        unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
    }
    closedir(dir);
}

static void remove_tree(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        remove_contents(fd, 0);
    rmdir(path);
}

/* Removes the folder if it is ours and its owner has died: then no process holds its lock.  One without
 * a lock file is just being made. */
static void sweep_one(const char *path)
{
    char lock[512];
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != getuid())
        return;
    snprintf(lock, sizeof lock, "%s/lock", path);
    int fd = open(lock, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        remove_tree(path);
    close(fd);
}

static void sweep(const char *where)
{
    DIR *dir = opendir(where);
    struct dirent *e;
    char path[400];
    if (!dir)
        return;
    while ((e = readdir(dir))) {
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", where, e->d_name);
        sweep_one(path);
    }
    closedir(dir);
}

static enum status take_lock(struct private_dir *d)
{
    char lock[96];
    snprintf(lock, sizeof lock, "%s/lock", d->path);
    d->lock_fd = open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (d->lock_fd < 0 || flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0)
        FAIL(ST_IO, "cannot lock %s: %s", lock, strerror(errno));
    return ST_OK;
}

/* Bytes that are free for files of this user; 0: unknown. */
static uint64_t free_bytes(const char *where)
{
    struct statvfs v;
    return statvfs(where, &v) == 0 ? (uint64_t)v.f_bavail * v.f_frsize : 0;
}

enum status private_dir_open(struct private_dir *d, uint64_t need)
{
    static const char *const places[] = {"/dev/shm", "/tmp"};
    d->lock_fd = -1;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (access(places[i], F_OK) != 0) /* macOS has no /dev/shm */
            continue;
        sweep(places[i]);
        uint64_t room = free_bytes(places[i]);
        if (room < need) {
            log_line(LOG_WARN,
                     "%s has %.1f MiB free, the ranks need %.0f MiB for files of MPI there%s",
                     places[i], (double)room / (double)MIB, (double)need / (double)MIB,
                     i == 0 ? ": using /tmp (in a container: docker run --shm-size 1g)" : "");
            continue;
        }
        snprintf(d->path, sizeof d->path, "%s/" PREFIX "XXXXXX", places[i]);
        if (mkdtemp(d->path))
            return take_lock(d);
    }
    d->path[0] = '\0';
    FAIL(ST_IO, "cannot make a folder of %.0f MiB in /dev/shm or /tmp", (double)need / (double)MIB);
}

enum status private_dir_fresh(const struct private_dir *d, const char *name,
                              char path[PRIVATE_PATH])
{
    snprintf(path, PRIVATE_PATH, "%s/%s", d->path, name);
    remove_tree(path);
    if (mkdir(path, 0700) != 0)
        FAIL(ST_IO, "cannot make %s: %s", path, strerror(errno));
    return ST_OK;
}

void private_dir_close(struct private_dir *d)
{
    if (d->path[0])
        remove_tree(d->path);
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    *d = (struct private_dir){.lock_fd = -1};
}
