/* Segments by name: openers, creators and the sweep of what dead creators left, at the same time. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/segment.h"
#include "common/status.h"

enum { BYTES = 4096, DEADLINE_MS = 60000 };

struct opener {
    pthread_t thread;
    char name[64];
    enum status st;
    char first; /* of the segment, once the creator has written it */
};

static void *open_it(void *arg)
{
    struct opener *o = arg;
    struct segment s;
    o->st = segment_open(&s, o->name, BYTES, DEADLINE_MS);
    if (o->st != ST_OK)
        return NULL;
    volatile char *at = s.at;
    for (int i = 0; !*at && i < DEADLINE_MS; i++)
        usleep(1000);
    o->first = *at;
    segment_unmap(&s);
    return NULL;
}

static void start(struct opener *o, const char *name)
{
    *o = (struct opener){.first = 0};
    snprintf(o->name, sizeof o->name, "%s", name);
    cr_assert_eq(pthread_create(&o->thread, NULL, open_it, o), 0);
}

#ifdef __linux__ /* as the sweep: other systems have no folder of their objects */
/* How many descriptors of this process are of the object. */
static int n_open(const char *name)
{
    char path[300], to[300], wanted[100];
    int n = 0;
    snprintf(wanted, sizeof wanted, "/dev/shm%s", name);
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        ssize_t len = readlink(path, to, sizeof to - 1);
        if (len > 0) {
            to[len] = 0;
            n += !strcmp(to, wanted);
        }
    }
    if (dir)
        closedir(dir);
    return n;
}

/* An object that no sweep takes, of this process or of a test that runs beside it: it is locked, as
 * segment_create() does. */
static int held_object(const char *name)
{
    for (;;) {
        struct stat info;
        int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        cr_assert_geq(fd, 0);
        cr_assert_eq(flock(fd, LOCK_EX), 0);
        cr_assert_eq(fstat(fd, &info), 0);
        if (info.st_nlink > 0)
            return fd;
        close(fd);
    }
}

/* A sweep may take the name of an object that its creator does not hold yet; whoever has that
 * object open then waits for the one that the creator makes instead. */
Test(segment, an_opener_leaves_an_object_that_lost_its_name)
{
    char name[64];
    struct opener o;
    struct segment made;
    snprintf(name, sizeof name, "/ingot-segment-%d", (int)getpid());
    int fd = held_object(name);
    start(&o, name);
    while (n_open(name) < 2) /* this one and the opener's */
        usleep(1000);
    shm_unlink(name);
    close(fd);
    cr_assert_eq(segment_create(&made, name, BYTES), ST_OK, "%s", status_text());
    *(volatile char *)made.at = 'x';
    pthread_join(o.thread, NULL);
    cr_expect(o.st == ST_OK && o.first == 'x', "%s", status_name(o.st));
    segment_unlink(name);
    segment_unmap(&made);
}
#endif

/* ---- many at once ---- */

static bool one_round(const char *name)
{
    struct opener o;
    struct segment made;
    start(&o, name);
    enum status st = segment_create(&made, name, BYTES);
    if (st == ST_OK)
        *(volatile char *)made.at = 'y';
    pthread_join(o.thread, NULL);
    segment_unlink(name);
    segment_unmap(&made);
    return st == ST_OK && o.st == ST_OK && o.first == 'y';
}

Test(segment, creators_and_openers_beside_sweeps)
{
    enum { N = 4, ROUNDS = 400 };
    pid_t child[N];
    for (int i = 0; i < N; i++) {
        child[i] = fork();
        cr_assert_geq(child[i], 0);
        if (child[i] > 0)
            continue;
        char name[64];
        for (int k = 0; k < ROUNDS; k++) {
            snprintf(name, sizeof name, "/ingot-segment-%d-%d", (int)getpid(), k);
            if (!one_round(name))
                _exit(1);
        }
        _exit(0);
    }
    for (int i = 0; i < N; i++) {
        int status = -1;
        waitpid(child[i], &status, 0);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d: %#x", i, status);
    }
}
