#define _GNU_SOURCE /* nftw */
#include "temp_dir.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROOT "/tmp"
#define PREFIX "ingot-tmp-"

enum { MAX_MADE = 256, NAME_SIZE = 32 };
enum { MIN_AGE_S = 60 }; /* younger ones may be between being made and being locked */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    remove(path);
    return 0;
}

void temp_dir_remove(const char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void reap(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && time(NULL) - st.st_mtime >= MIN_AGE_S &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        temp_dir_remove(path);
    close(fd);
}

static void reap_all(void)
{
    char path[512];
    DIR *root = opendir(ROOT);
    for (const struct dirent *e; root && (e = readdir(root));)
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            (size_t)snprintf(path, sizeof path, ROOT "/%s", e->d_name) < sizeof path)
            reap(path);
    if (root)
        closedir(root);
}

static char made[MAX_MADE][NAME_SIZE]; /* "": removed, or not made here */
static pid_t maker;

/* A process that was forked leaves them to the one that made them. */
static void remove_made(void)
{
    for (int i = 0; i < MAX_MADE && maker == getpid(); i++)
        if (made[i][0])
            temp_dir_remove(made[i]);
}

static void remember(const char *dir)
{
    static int n;
    if (maker != getpid()) {
        maker = getpid();
        memset(made, 0, sizeof made);
        atexit(remove_made);
    }
    if (n < MAX_MADE)
        strcpy(made[n++], dir);
}

void temp_dir_make(char *dir)
{
    reap_all();
    strcpy(dir, ROOT "/" PREFIX "XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    remember(dir);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* held until the process ends */
    cr_assert(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
}
