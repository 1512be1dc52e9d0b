#include "client/pull/blob_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "client/pull/hub_api.h"
#include "client/pull/ranges.h"
#include "client/pull/stop.h"

enum {
    READ_SIZE = 1 << 20,
    SMALL = 1 << 20, /* bytes: shorter files begin anew instead of going on */
    LOCK_US = 100 * 1000,
};

/* ---- folders ---- */

/* The folders of the path of a file. */
static enum status make_folders(const char *path)
{
    char at[HUB_PATH_SIZE];
    TRY(hub_path(at, "%s", path));
    for (char *c = at + 1; *c; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        if (mkdir(at, 0777) != 0 && errno != EEXIST)
            FAIL(ST_IO, "cannot make the folder %s: %s", at, strerror(errno));
        *c = '/';
    }
    return ST_OK;
}

enum status blob_store_init(struct blob_store *s, const struct hub_cache *c,
                            const struct hub_http *http, const char *repo, const char *commit,
                            int connections)
{
    *s = (struct blob_store){
        .http = http, .repo = repo, .commit = commit, .connections = connections};
    char inside[HUB_PATH_SIZE];
    TRY(hub_repo_dir(c, repo, s->dir));
    TRY(hub_lock_dir(c, repo, s->locks));
    TRY(hub_path(inside, "%s/blobs/", s->dir));
    TRY(make_folders(inside));
    TRY(hub_path(inside, "%s/", s->locks));
    return make_folders(inside);
}

static enum status blob_path(const struct blob_store *s, const struct hub_file *f, const char *end,
                             char out[HUB_PATH_SIZE])
{
    return hub_path(out, "%s/blobs/%s%s", s->dir, f->digest, end);
}

/* Bytes of the file that the cache has: whole, or its beginning. */
static enum status have_bytes(const struct blob_store *s, const struct hub_file *f, bool *whole,
                              uint64_t *n)
{
    char path[HUB_PATH_SIZE];
    struct stat st;
    TRY(blob_path(s, f, "", path));
    *whole = stat(path, &st) == 0 && (uint64_t)st.st_size == f->size;
    *n = f->size;
    if (*whole)
        return ST_OK;
    TRY(blob_path(s, f, ".incomplete", path));
    *n = stat(path, &st) == 0 && (uint64_t)st.st_size <= f->size ? (uint64_t)st.st_size : 0;
    return ST_OK;
}

enum status blob_store_plan(struct blob_store *s, const struct hub_files *files)
{
    uint64_t total = 0, have = 0;
    char need[32], room[32];
    struct statvfs fs;
    for (size_t i = 0; i < files->n; i++) {
        const struct hub_file *f = &files->v[i];
        bool whole;
        uint64_t n;
        if (!f->chosen)
            continue;
        TRY(have_bytes(s, f, &whole, &n));
        total += f->size;
        have += n;
    }
    if (statvfs(s->dir, &fs) != 0)
        FAIL(ST_IO, "cannot see the free space of %s: %s", s->dir, strerror(errno));
    uint64_t space = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (total - have > space)
        FAIL(ST_IO, "%s needs %s more, and the disk of %s has %s free", s->repo,
             hub_size_text(total - have, need), s->dir, hub_size_text(space, room));
    progress_init(&s->progress, total, have);
    return ST_OK;
}

/* ---- a file ---- */

static enum status lock(const struct blob_store *s, const struct hub_file *f, int *fd)
{
    char path[HUB_PATH_SIZE];
    bool said = false;
    TRY(hub_path(path, "%s/%s.lock", s->locks, f->digest));
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (*fd < 0)
        FAIL(ST_IO, "cannot open %s: %s", path, strerror(errno));
    while (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        enum status st = errno == EWOULDBLOCK || errno == EINTR ? stop_sleep(LOCK_US, NULL) : ST_IO;
        if (st == ST_OK) {
            if (!said)
                fprintf(stderr, "%s: another process downloads it; waiting\n", f->path);
            said = true;
            continue;
        }
        close(*fd);
        if (st == ST_IO)
            FAIL(ST_IO, "cannot lock %s: %s", path, strerror(errno));
        return st;
    }
    return ST_OK;
}

/* Hashes the n bytes that the file begins with. */
static enum status hash_beginning(int fd, uint64_t n, struct blob_hash *h, struct progress *p)
{
    char *buf = malloc(READ_SIZE);
    enum status st = ST_OK;
    if (!buf)
        FAIL(ST_NOMEM, "no memory to read a file");
    for (uint64_t at = 0; st == ST_OK && at < n;) {
        ssize_t got = read(fd, buf, n - at < READ_SIZE ? (size_t)(n - at) : READ_SIZE);
        if (got <= 0)
            st = status_fail(ST_IO, __FILE__, __LINE__, "cannot read the part that is there: %s",
                             got < 0 ? strerror(errno) : "it has become shorter");
        else
            st = blob_hash_add(h, buf, (size_t)got);
        at += got > 0 ? (uint64_t)got : 0;
        progress_show(p, at);
        if (st == ST_OK)
            st = stop_check();
    }
    free(buf);
    return st;
}

/* Completes the open file from its `have` bytes on; *matches: its digest is the right one. */
static enum status complete(struct blob_store *s, const struct hub_file *f, int fd,
                            const char *path, uint64_t have, bool *matches)
{
    struct blob_hash hash;
    char url[HTTP_URL_SIZE];
    struct ranges_config cfg = {.http = s->http,
                                .subject = s->repo,
                                .url = url,
                                .digest = f->digest,
                                .size = f->size,
                                .connections = s->connections,
                                .fd = fd,
                                .path = path,
                                .hash = &hash,
                                .progress = &s->progress};
    TRY(hub_file_url(s->http, s->repo, s->commit, f->path, url));
    TRY(blob_hash_begin(&hash, f->digest, f->size));
    enum status st = hash_beginning(fd, have, &hash, &s->progress);
    if (st == ST_OK)
        st = ranges_fetch(&cfg, have);
    if (st == ST_OK && fsync(fd) != 0)
        st = status_fail(ST_IO, __FILE__, __LINE__, "cannot write %s: %s", path, strerror(errno));
    if (st != ST_OK) {
        blob_hash_free(&hash);
        return st;
    }
    *matches = blob_hash_matches(&hash, f->digest);
    return ST_OK;
}

/* Fetches into the open DIGEST.incomplete.  Where the beginning that was there spoils it, the whole is fetched. */
static enum status fill(struct blob_store *s, const struct hub_file *f, int fd, const char *path,
                        uint64_t have)
{
    bool matches = false;
    for (;;) {
        if (have <= SMALL || have > f->size)
            have = 0;
        if (ftruncate(fd, (off_t)have) != 0 || lseek(fd, 0, SEEK_SET) != 0)
            FAIL(ST_IO, "cannot write %s: %s", path, strerror(errno));
        TRY(complete(s, f, fd, path, have, &matches));
        if (matches)
            return ST_OK;
        if (have == 0)
            break;
        progress_clear(&s->progress);
        fprintf(stderr, "%s: the part that was there is damaged; fetching the whole file\n",
                f->path);
        have = 0;
    }
    unlink(path);
    FAIL(ST_FORMAT, "%s: the bytes that came do not have the digest %s; they were removed", f->path,
         f->digest);
}

/* snapshots/COMMIT/PATH -> ../../blobs/DIGEST, with another ".." for each folder in PATH */
static enum status link_file(const struct blob_store *s, const struct hub_file *f)
{
    char path[HUB_PATH_SIZE], fresh[HUB_PATH_SIZE], target[HUB_PATH_SIZE] = "../../";
    for (const char *c = f->path; *c; c++)
        if (*c == '/')
            strcat(target, "../"); /* a path has at most HUB_FILE_SIZE / 2 folders */
    strcat(target, "blobs/");
    strcat(target, f->digest);
    TRY(hub_path(path, "%s/snapshots/%s/%s", s->dir, s->commit, f->path));
    TRY(hub_path(fresh, "%s.new-%ld", path, (long)getpid()));
    TRY(make_folders(path));
    unlink(fresh);
    if (symlink(target, fresh) != 0 || rename(fresh, path) != 0)
        FAIL(ST_IO, "cannot make the link %s: %s", path, strerror(errno));
    return ST_OK;
}

static enum status pull_locked(struct blob_store *s, const struct hub_file *f)
{
    char path[HUB_PATH_SIZE], part[HUB_PATH_SIZE];
    bool whole;
    uint64_t have;
    TRY(blob_path(s, f, "", path));
    TRY(blob_path(s, f, ".incomplete", part));
    TRY(have_bytes(s, f, &whole, &have));
    if (whole) {
        progress_file(&s->progress, f->size, "in the cache");
        return link_file(s, f);
    }
    int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        FAIL(ST_IO, "cannot open %s: %s", part, strerror(errno));
    enum status st = fill(s, f, fd, part, have);
    close(fd);
    TRY(st);
    if (rename(part, path) != 0)
        FAIL(ST_IO, "cannot rename %s: %s", part, strerror(errno));
    progress_file(&s->progress, f->size, "checked");
    return link_file(s, f);
}

enum status blob_store_pull(struct blob_store *s, const struct hub_file *f)
{
    int fd;
    s->progress.name = f->path;
    TRY(lock(s, f, &fd));
    enum status st = pull_locked(s, f);
    if (st != ST_OK)
        progress_clear(&s->progress);
    close(fd);
    return st;
}

enum status blob_store_set_ref(const struct blob_store *s, const char *revision)
{
    char path[HUB_PATH_SIZE], fresh[HUB_PATH_SIZE];
    if (hub_is_commit(revision))
        return ST_OK;
    TRY(hub_path(path, "%s/refs/%s", s->dir, revision));
    TRY(hub_path(fresh, "%s.new-%ld", path, (long)getpid()));
    TRY(make_folders(path));
    FILE *f = fopen(fresh, "w");
    bool ok = f && fputs(s->commit, f) >= 0;
    ok = (!f || fclose(f) == 0) && ok;
    if (!ok || rename(fresh, path) != 0)
        FAIL(ST_IO, "cannot write %s: %s", path, strerror(errno));
    return ST_OK;
}
