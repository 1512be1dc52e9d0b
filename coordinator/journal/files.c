#include "coordinator/journal/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
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

/* Sets last to the newest number. */
static enum status find_last(struct journal_files *f)
{
    DIR *d = opendir(f->dir);
    if (!d)
        FAIL(ST_IO, "journal: cannot open %s: %s", f->dir, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        uint32_t number = number_of(f, e->d_name);
        f->last = number > f->last ? number : f->last;
    }
    closedir(d);
    return ST_OK;
}

struct kept_file {
    uint32_t number;
    uint64_t bytes;
    time_t written;
};

static int newest_first(const void *a, const void *b)
{
    const struct kept_file *x = a, *y = b;
    return x->number > y->number ? -1 : x->number < y->number;
}

/* All files of the folder, the newest first; NULL: no memory, or the folder cannot be read. */
static struct kept_file *list_files(const struct journal_files *f, size_t *n)
{
    char path[PATH_BYTES];
    struct kept_file *list = NULL;
    size_t cap = 0;
    DIR *d = opendir(f->dir);
    *n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        uint32_t number = number_of(f, e->d_name);
        if (number == 0)
            continue;
        path_of(f, number, path);
        if (stat(path, &st) != 0)
            continue;
        if (*n == cap) {
            cap = cap ? 2 * cap : 64;
            struct kept_file *more = realloc(list, cap * sizeof *list);
            if (!more)
                break;
            list = more;
        }
        list[(*n)++] = (struct kept_file){number, (uint64_t)st.st_size, st.st_mtime};
    }
    if (d)
        closedir(d);
    if (list)
        qsort(list, *n, sizeof *list, newest_first);
    return list;
}

/* A file that cannot be deleted stays: no reason to stop. */
static void delete_old(const struct journal_files *f, uint64_t room)
{
    enum { NEEDED = 2 };
    const struct journal_bounds *b = &f->bounds;
    char path[PATH_BYTES];
    size_t n;
    struct kept_file *list = list_files(f, &n);
    uint64_t sum = room;
    time_t now = time(NULL);
    for (size_t i = 0; i < n; i++) {
        sum += list[i].bytes;
        bool old = b->max_age_s && now > list[i].written &&
                   (uint64_t)(now - list[i].written) > b->max_age_s;
        if (i < NEEDED || !(old || (b->max_bytes && sum > b->max_bytes)))
            continue;
        path_of(f, list[i].number, path);
        (void)unlink(path);
    }
    free(list);
}

/* A folder of ours that no other user can enter: the files' names tell when the server worked. */
static enum status check_folder(const char *dir)
{
    struct stat st;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        FAIL(ST_IO, "journal: cannot make %s: %s", dir, strerror(errno));
    if (stat(dir, &st) != 0)
        FAIL(ST_IO, "journal: cannot open %s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        FAIL(ST_RANGE, "journal: %s is no folder", dir);
    if (st.st_uid != geteuid())
        FAIL(ST_RANGE, "journal: %s belongs to another user", dir);
    if (st.st_mode & 077)
        FAIL(ST_RANGE, "journal: others may enter %s (mode %03o): chmod 700", dir,
             (unsigned)st.st_mode & 0777U);
    return ST_OK;
}

enum status journal_files_open(struct journal_files *f, const char *dir, const char *name,
                               const struct journal_bounds *bounds)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    if (strlen(dir) >= sizeof f->dir)
        FAIL(ST_RANGE, "journal: the folder's name has %zu bytes, at most %zu are allowed",
             strlen(dir), sizeof f->dir - 1);
    if (!*name || strlen(name) >= sizeof f->name || strspn(name, letters) != strlen(name))
        FAIL(ST_RANGE, "journal: '%.64s' is no name for files", name);
    *f = (struct journal_files){.bounds = *bounds, .lock = -1};
    snprintf(f->dir, sizeof f->dir, "%s", dir);
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->prefix, sizeof f->prefix, "%s/%s", dir, name);
    TRY(check_folder(dir));
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/.%s.lock", f->dir, f->name);
    f->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->lock < 0)
        FAIL(ST_IO, "journal: cannot create %s: %s", path, strerror(errno));
    if (flock(f->lock, LOCK_EX | LOCK_NB) != 0)
        FAIL(errno == EWOULDBLOCK ? ST_RANGE : ST_IO, "journal: %s: %s", dir,
             errno == EWOULDBLOCK ? "another server writes its journal there" : strerror(errno));
    return find_last(f);
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

enum status journal_files_keep(struct journal_files *f, uint64_t room)
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
    delete_old(f, room);
    return ST_OK;
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
