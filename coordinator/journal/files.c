#include "coordinator/journal/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = JOURNAL_PATH_BYTES, LAST_NUMBER = 99999999 };

/* The number of "NAME-00000042.journal", 0 when it is another file. */
static uint32_t number_of(const struct journal_files *f, const char *file)
{
    size_t n = strlen(f->name);
    uint32_t number = 0;
    if (strncmp(file, f->name, n) != 0 || file[n] != '-' || strlen(file + n) != 1 + 8 + 8 ||
        strcmp(file + n + 9, ".journal") != 0)
        return 0;
    for (const char *p = file + n + 1; *p != '.'; p++) {
        if (*p < '0' || *p > '9')
            return 0;
        number = number * 10 + (uint32_t)(*p - '0');
    }
    return number;
}

static void path_of(const struct journal_files *f, uint32_t number, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s-%08u.journal", f->prefix, number);
}

/* Sets last to the newest number; deletes files older than the newest `keep`. */
static enum status scan(struct journal_files *f, uint32_t oldest_kept)
{
    char path[PATH_BYTES];
    DIR *d = opendir(f->dir);
    if (!d)
        FAIL(ST_IO, "journal: cannot open %s: %s", f->dir, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        uint32_t number = number_of(f, e->d_name);
        if (number > f->last)
            f->last = number;
        if (number == 0 || number >= oldest_kept)
            continue;
        path_of(f, number, path);
        (void)unlink(path); /* one too many stays: no reason to stop */
    }
    closedir(d);
    return ST_OK;
}

enum status journal_files_open(struct journal_files *f, const char *dir, const char *name,
                               uint32_t max_files)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    if (max_files == 0)
        FAIL(ST_RANGE, "journal: the number of files is 0");
    if (strlen(dir) >= sizeof f->dir)
        FAIL(ST_RANGE, "journal: the folder's name has %zu bytes, at most %zu are allowed",
             strlen(dir), sizeof f->dir - 1);
    if (!*name || strlen(name) >= sizeof f->name || strspn(name, letters) != strlen(name))
        FAIL(ST_RANGE, "journal: '%.64s' is no name for files", name);
    *f = (struct journal_files){.max_files = max_files, .lock = -1};
    snprintf(f->dir, sizeof f->dir, "%s", dir);
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->prefix, sizeof f->prefix, "%s/%s", dir, name);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        FAIL(ST_IO, "journal: cannot make %s: %s", dir, strerror(errno));
    struct stat st;
    if (stat(dir, &st) == 0 && (st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
        FAIL(ST_RANGE, "journal: others may write into %s (mode %03o): chmod 700", dir,
             (unsigned)st.st_mode & 0777U);
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s.lock", f->prefix);
    f->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->lock < 0)
        FAIL(ST_IO, "journal: cannot create %s: %s", path, strerror(errno));
    if (flock(f->lock, LOCK_EX | LOCK_NB) != 0)
        FAIL(errno == EWOULDBLOCK ? ST_RANGE : ST_IO, "journal: %s: %s", dir,
             errno == EWOULDBLOCK ? "another server writes its journal there" : strerror(errno));
    return scan(f, 0);
}

void journal_files_close(struct journal_files *f)
{
    if (f->lock >= 0)
        close(f->lock);
    f->lock = -1;
}

static void new_path(const struct journal_files *f, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s.journal.new", f->prefix);
}

enum status journal_files_next(struct journal_files *f, int *fd)
{
    char path[PATH_BYTES];
    *fd = -1;
    if (f->last >= LAST_NUMBER)
        FAIL(ST_RANGE, "journal: the file numbers in %s are used up", f->dir);
    new_path(f, path);
    (void)unlink(path); /* of a process that was killed */
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0600);
    if (*fd < 0)
        FAIL(ST_IO, "journal: cannot create %s: %s", path, strerror(errno));
    return ST_OK;
}

enum status journal_files_keep(struct journal_files *f)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    new_path(f, from);
    path_of(f, f->last + 1, to);
    if (rename(from, to) != 0)
        FAIL(ST_IO, "journal: cannot create %s: %s", to, strerror(errno));
    int dir = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) {
        (void)fsync(dir); /* the name; not every file system can */
        close(dir);
    }
    f->last++;
    return f->last > f->max_files ? scan(f, f->last - f->max_files + 1) : ST_OK;
}

void journal_files_drop(struct journal_files *f)
{
    char path[PATH_BYTES];
    new_path(f, path);
    (void)unlink(path);
}

bool journal_files_path(const struct journal_files *f, uint32_t back, char path[PATH_BYTES])
{
    if (back >= f->last)
        return false;
    path_of(f, f->last - back, path);
    return access(path, R_OK) == 0;
}
