#define _GNU_SOURCE /* dirfd, st_mtim under strict C */
#include "backends/metal/archive_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hex.h"
#include "common/log.h"
#include "common/mapped_file.h"
#include "common/sha256.h"

#define ENDING ".archive"
#define TEMPORARY ".tmp"

enum {
    NAME = 2 * ARCHIVE_DIGITS + 16, /* KEY-DIGEST.archive, KEY-PROCESS.tmp */
    MAX_BYTES =
        256 << 20, /* a file that grows at every start is of no use: nothing in it is found */
};

void archive_key(const char *const *text, int n, char out[ARCHIVE_DIGITS + 1])
{
    struct sha256 s;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&s);
    for (int i = 0; i < n; i++)
        sha256_update(&s, text[i], strlen(text[i]) + 1);
    sha256_final(&s, digest);
    hex_of(digest, ARCHIVE_DIGITS / 2, out);
}

static bool ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), k = strlen(ending);
    return n >= k && strcmp(name + n - k, ending) == 0;
}

/* Is that a name which this file makes, of the key (NULL: of any)? */
static bool is_ours(const char *name, const char *key)
{
    size_t digits = strspn(name, "0123456789abcdef");
    bool any = digits == ARCHIVE_DIGITS && name[digits] == '-' && strlen(name) < NAME;
    if (!any || !key)
        return any && (ends_with(name, ENDING) || ends_with(name, TEMPORARY));
    return strncmp(name, key, ARCHIVE_DIGITS) == 0 && ends_with(name, ENDING);
}

struct look {
    int n;
    char oldest[NAME], newest[NAME]; /* "": none */
    struct timespec first, last;
};

static bool before(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/* All files of the key, or, NULL, of any and temporary ones, too. */
static struct look look_for(const char *dir, const char *key)
{
    struct look l = {0};
    struct stat st;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (!is_ours(e->d_name, key) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (l.n == 0 || before(st.st_mtim, l.first)) {
            l.first = st.st_mtim;
            snprintf(l.oldest, sizeof l.oldest, "%.*s", NAME - 1, e->d_name);
        }
        if (l.n == 0 || before(l.last, st.st_mtim)) {
            l.last = st.st_mtim;
            snprintf(l.newest, sizeof l.newest, "%.*s", NAME - 1, e->d_name);
        }
        l.n++;
    }
    if (d)
        closedir(d);
    return l;
}

/* Of the file's bytes. */
static enum status digest_file(const char *path, char out[ARCHIVE_DIGITS + 1])
{
    struct mapped_file m;
    uint8_t digest[SHA256_BYTES];
    TRY(mapped_file_open(&m, path));
    bool fits = m.size <= MAX_BYTES;
    if (fits)
        sha256(m.data, m.size, digest);
    mapped_file_close(&m);
    if (!fits)
        FAIL(ST_IO, "%s: more than %d MiB", path, MAX_BYTES >> 20);
    hex_of(digest, ARCHIVE_DIGITS / 2, out);
    return ST_OK;
}

void archive_find(struct archive_files *f)
{
    char digest[ARCHIVE_DIGITS + 1] = "";
    struct look l = look_for(f->dir, f->key);
    f->path[0] = '\0';
    if (l.n == 0)
        return;
    snprintf(f->path, sizeof f->path, "%s/%s", f->dir, l.newest);
    enum status st = digest_file(f->path, digest);
    if (st == ST_OK && strncmp(l.newest + ARCHIVE_DIGITS + 1, digest, ARCHIVE_DIGITS) == 0) {
        (void)utimensat(AT_FDCWD, f->path, NULL, 0); /* as old as its last use */
        return;
    }
    log_line(LOG_WARN, "%s is damaged%s%s: it is made anew", f->path, st == ST_OK ? "" : ": ",
             st == ST_OK ? "" : status_text());
    archive_drop(f);
}

void archive_temporary(const struct archive_files *f, char out[ARCHIVE_PATH])
{
    snprintf(out, ARCHIVE_PATH, "%s/%s-%ld" TEMPORARY, f->dir, f->key, (long)getpid());
}

void archive_drop(struct archive_files *f)
{
    (void)remove(f->path);
    f->path[0] = '\0';
}

static void remove_old(const char *dir)
{
    char path[ARCHIVE_PATH];
    struct look l = look_for(dir, NULL);
    for (; l.n > ARCHIVE_FILES; l = look_for(dir, NULL)) {
        snprintf(path, sizeof path, "%s/%s", dir, l.oldest);
        if (remove(path) != 0)
            return;
    }
}

enum status archive_keep(struct archive_files *f, const char *temporary)
{
    char path[ARCHIVE_PATH], digest[ARCHIVE_DIGITS + 1];
    enum status st = digest_file(temporary, digest);
    if (st != ST_OK) {
        remove(temporary);
        return st;
    }
    snprintf(path, sizeof path, "%s/%s-%s" ENDING, f->dir, f->key, digest);
    if (rename(temporary, path) != 0) {
        int err = errno;
        remove(temporary);
        FAIL(ST_IO, "%s: %s", path, strerror(err));
    }
    if (*f->path && strcmp(f->path, path) != 0)
        archive_drop(f);
    snprintf(f->path, sizeof f->path, "%s", path);
    remove_old(f->dir);
    return ST_OK;
}
