#define _GNU_SOURCE /* st_mtim, realpath under strict C */
#include "common/digest/digest_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cache_dir.h"
#include "common/hex.h"
#include "common/log.h"

#define SETTLED_NS 2000000000U

enum {
    HEX = 2 * SHA256_BYTES,
    ENTRY_SIZE = DIGEST_PATH + 2 * HEX + 128, /* of an entry's text */
};

void digest_cache_init(struct digest_cache *c, const char *xdg_cache_home, const char *home)
{
    *c = (struct digest_cache){.dir = ""};
    (void)cache_dir_of(xdg_cache_home, home, "digests", c->dir, sizeof c->dir); /* "": none */
}

enum status file_facts_read(struct file_facts *f, const char *path)
{
    struct stat st;
    char *real = realpath(path, NULL);
    if (!real)
        FAIL(errno == ENOENT ? ST_NOT_FOUND : ST_IO, "%s: %s", path, strerror(errno));
    bool fits = strlen(real) < sizeof f->path;
    snprintf(f->path, sizeof f->path, "%s", real);
    free(real);
    if (!fits || stat(f->path, &st) != 0 || !S_ISREG(st.st_mode))
        FAIL(ST_IO, "%s is not a regular file", path);
    f->size = (uint64_t)st.st_size;
    f->mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000U + (uint64_t)st.st_mtim.tv_nsec;
    f->inode = (uint64_t)st.st_ino;
    return ST_OK;
}

bool file_facts_equal(const struct file_facts *a, const struct file_facts *b)
{
    return strcmp(a->path, b->path) == 0 && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->inode == b->inode;
}

/* DIR/DIGITS of the path + ending */
static void entry_path(const struct digest_cache *c, const struct file_facts *f, const char *ending,
                       char out[DIGEST_PATH])
{
    uint8_t of_path[SHA256_BYTES];
    char name[HEX + 1];
    sha256(f->path, strlen(f->path), of_path);
    hex_of(of_path, SHA256_BYTES / 2, name);
    snprintf(out, DIGEST_PATH, "%s/%s%s", c->dir, name, ending);
}

/* The text of an entry; the last line is the digest of all before it. */
static size_t entry_text(const struct file_facts *f, const uint8_t digest[SHA256_BYTES],
                         char out[ENTRY_SIZE])
{
    char hex[HEX + 1];
    uint8_t check[SHA256_BYTES];
    hex_of(digest, SHA256_BYTES, hex);
    int n = snprintf(out, ENTRY_SIZE,
                     "ingot file digest 1\n%s\n%" PRIu64 " %" PRIu64 " %" PRIu64 "\n%s\n", f->path,
                     f->size, f->mtime_ns, f->inode, hex);
    sha256(out, (size_t)n, check);
    hex_of(check, SHA256_BYTES, hex);
    return (size_t)n + (size_t)snprintf(out + n, ENTRY_SIZE - (size_t)n, "%s\n", hex);
}

bool digest_cache_find(const struct digest_cache *c, const struct file_facts *f,
                       uint8_t out[SHA256_BYTES])
{
    char path[DIGEST_PATH], text[ENTRY_SIZE], want[ENTRY_SIZE], hex[HEX + 1];
    if (!*c->dir)
        return false;
    entry_path(c, f, "", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    if (n < 2 * (HEX + 1))
        return false;
    /* whole only when it is the very text that would be written for these facts */
    snprintf(hex, sizeof hex, "%.*s", HEX, text + n - 2 * (HEX + 1));
    return hex_parse(hex, out, SHA256_BYTES) && entry_text(f, out, want) == (size_t)n &&
           memcmp(text, want, (size_t)n) == 0;
}

/* ---- writing ---- */

static void complain(struct digest_cache *c, const char *what)
{
    if (!c->complained)
        log_line(LOG_WARN, "digests of model files are not kept: %s: %s", what, strerror(errno));
    c->complained = true;
}

static bool write_entry(const char *path, const char *text, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool ok = write(fd, text, n) == (ssize_t)n;
    return close(fd) == 0 && ok;
}

void digest_cache_store(struct digest_cache *c, const struct file_facts *f, uint64_t began_ns,
                        const uint8_t digest[SHA256_BYTES])
{
    char path[DIGEST_PATH], temporary[DIGEST_PATH], ending[48], text[ENTRY_SIZE];
    if (!*c->dir || f->mtime_ns > began_ns || began_ns - f->mtime_ns < SETTLED_NS)
        return;
    if (!cache_dir_make(c->dir)) {
        complain(c, c->dir);
        return;
    }
    snprintf(ending, sizeof ending, ".%ld.tmp", (long)getpid());
    entry_path(c, f, "", path);
    entry_path(c, f, ending, temporary);
    if (write_entry(temporary, text, entry_text(f, digest, text)) && rename(temporary, path) == 0)
        return;
    complain(c, temporary);
    unlink(temporary);
}

enum status digest_cache_try_lock(struct digest_cache *c, const struct file_facts *f, int *fd)
{
    char path[DIGEST_PATH];
    *fd = -1;
    if (!*c->dir)
        FAIL(ST_IO, "there is no cache folder");
    if (!cache_dir_make(c->dir)) {
        complain(c, c->dir);
        FAIL(ST_IO, "%s cannot be made", c->dir);
    }
    entry_path(c, f, ".lock", path);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return ST_OK;
    bool taken = *fd >= 0 && errno == EWOULDBLOCK;
    if (!taken)
        complain(c, path);
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    if (!taken)
        FAIL(ST_IO, "%s cannot be locked", path);
    return ST_OK;
}
