#define _GNU_SOURCE /* dirfd, st_mtim under strict C */
#include "worker/load/pack_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/host.h"
#include "common/log.h"
#include "common/mapped_file.h"
#include "worker/load/pack_hash.h"
#include "worker/load/weights.h"

enum { ALIGN = 64, PATH_SIZE = 4096 };

static const char magic[8] = {'I', 'N', 'G', 'O', 'T', 'P', 'K', '3'};

struct pack_header {
    char magic[8];
    struct pack_key key;
    uint64_t origin;
    uint64_t n_entries;
    uint64_t size; /* of the file */
    uint64_t hash; /* of the header with 0 here, and the entries */
};

struct pack_cache {
    char dir[PATH_SIZE], path[PATH_SIZE], temporary[PATH_SIZE];
    struct pool *pool;      /* for hashing */
    struct mapped_file map; /* reading; empty: the backend has it */
    const unsigned char *data;
    const struct pack_entry *entry; /* NULL: none was read */
    size_t n;
    int fd; /* writing; -1: no */
    struct pack_header head;
    struct pack_entry *added;
    size_t max;
    uint64_t at; /* end of the data so far */
};

static uint64_t hash_head(const struct pack_header *head, const void *entries)
{
    struct pack_header h = *head;
    h.hash = 0;
    return pack_hash_piece(entries, (size_t)h.n_entries * sizeof(struct pack_entry)) ^
           pack_hash_piece(&h, sizeof h);
}

static bool same_key(const struct pack_key *a, const struct pack_key *b)
{
    return a->model == b->model && a->stamp == b->stamp && a->packing == b->packing &&
           a->rank == b->rank && a->world == b->world;
}

enum status pack_file_parse(const void *data, size_t len, const struct pack_key *key,
                            struct pool *pool, const struct pack_entry **entry, size_t *n)
{
    struct pack_header head;
    if (len < sizeof head)
        FAIL(ST_FORMAT, "%zu bytes are no header", len);
    memcpy(&head, data, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0)
        FAIL(ST_FORMAT, "not a file of packed weights");
    if (head.size != len)
        FAIL(ST_FORMAT, "%zu bytes, written were %llu", len, (unsigned long long)head.size);
    if (head.n_entries > (len - sizeof head) / sizeof(struct pack_entry))
        FAIL(ST_FORMAT, "%llu entries", (unsigned long long)head.n_entries);
    const struct pack_entry *e = (const void *)((const char *)data + sizeof head);
    if (hash_head(&head, e) != head.hash)
        FAIL(ST_FORMAT, "the header's hash is another");
    if (!same_key(&head.key, key))
        FAIL(ST_FORMAT, "of another model or machine");
    for (size_t i = 0; i < head.n_entries; i++) {
        if (e[i].offset > len || e[i].n_bytes > len - e[i].offset)
            FAIL(ST_FORMAT, "entry %zu is outside the file", i);
        if (pack_hash(pool, (const char *)data + e[i].offset, (size_t)e[i].n_bytes) != e[i].hash)
            FAIL(ST_FORMAT, "the hash of entry %zu is another", i);
    }
    *entry = e;
    *n = (size_t)head.n_entries;
    return ST_OK;
}

/* ---- names ---- */

static uint64_t hash_file(const char *name, const struct stat *st)
{
    uint64_t facts[3] = {(uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec,
                         (uint64_t)st->st_mtim.tv_nsec};
    return hash_bytes(hash_bytes(0, name, strlen(name)), facts, sizeof facts);
}

enum status pack_model_stamp(const char *model, uint64_t *stamp)
{
    struct stat st;
    if (stat(model, &st) != 0)
        FAIL(ST_NOT_FOUND, "there is no model at %s", model);
    *stamp = hash_file("", &st);
    if (!S_ISDIR(st.st_mode))
        return ST_OK;
    DIR *dir = opendir(model);
    if (!dir)
        FAIL(ST_IO, "cannot list %s", model);
    *stamp = 0; /* a directory's own time changes with files that are none of the model's */
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        if (fstatat(dirfd(dir), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            *stamp += hash_file(e->d_name, &st); /* in any order */
    closedir(dir);
    return ST_OK;
}

enum status pack_model_origin(const char *model, uint64_t *origin)
{
    char *path = realpath(model, NULL);
    if (!path)
        FAIL(ST_NOT_FOUND, "there is no model at %s", model);
    *origin = hash_bytes(0, path, strlen(path));
    free(path);
    return ST_OK;
}

enum status pack_cache_dir(const char *model, char *dir, size_t size)
{
    size_t n = strlen(model);
    while (n > 1 && model[n - 1] == '/')
        n--;
    if ((size_t)snprintf(dir, size, "%.*s.ingot-cache", (int)n, model) >= size)
        FAIL(ST_RANGE, "the model's path is too long");
    return ST_OK;
}

static enum status set_names(struct pack_cache *c, const char *dir, const struct pack_key *key)
{
    unsigned long long name = (unsigned long long)hash_bytes(0, key, sizeof *key);
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        FAIL(ST_IO, "cannot make %s: %s", dir, strerror(errno));
    if ((size_t)snprintf(c->path, PATH_SIZE, "%s/%016llx.packed", dir, name) >= PATH_SIZE - 24)
        FAIL(ST_RANGE, "the path of the packed weights is too long");
    snprintf(c->dir, PATH_SIZE, "%s", dir);
    snprintf(c->temporary, PATH_SIZE, "%s/%016llx.%ld.tmp", dir, name, (long)getpid());
    return ST_OK;
}

/* ---- reading and writing ---- */

/* False: there is no such file, or it was damaged and is gone. */
static bool read_file(struct pack_cache *c, const struct pack_key *key)
{
    if (mapped_file_open(&c->map, c->path) != ST_OK)
        return false;
    c->data = c->map.data;
    if (pack_file_parse(c->data, c->map.size, key, c->pool, &c->entry, &c->n) == ST_OK)
        return true;
    log_line(LOG_WARN, "packed weights %s: %s; packing again", c->path, status_text());
    mapped_file_close(&c->map);
    unlink(c->path);
    return false;
}

static uint64_t round_up(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static enum status begin_file(struct pack_cache *c, const struct pack_key *key, uint64_t origin,
                              int32_t max_entries)
{
    c->max = (size_t)max_entries;
    c->added = calloc(c->max + 1, sizeof *c->added);
    if (!c->added)
        FAIL(ST_NOMEM, "no memory for %d entries", max_entries);
    memcpy(c->head.magic, magic, sizeof magic);
    c->head.key = *key;
    c->head.origin = origin;
    c->at = round_up(sizeof c->head + c->max * sizeof *c->added);
    c->fd = open(c->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (c->fd < 0)
        FAIL(ST_IO, "cannot write %s: %s", c->temporary, strerror(errno));
    flock(c->fd, LOCK_EX | LOCK_NB); /* tells remove_if_unused that it is being written */
    return ST_OK;
}

enum status pack_cache_open(struct pack_cache **out, const char *dir, const struct pack_key *key,
                            uint64_t origin, int32_t max_entries)
{
    *out = NULL;
    struct pack_cache *c = calloc(1, sizeof *c);
    if (!c)
        FAIL(ST_NOMEM, "no memory");
    c->fd = -1;
    enum status st = set_names(c, dir, key);
    if (st == ST_OK)
        st = pool_create(&c->pool, host_cpus(), host_cpus(), false);
    if (st == ST_OK && !read_file(c, key))
        st = begin_file(c, key, origin, max_entries);
    if (st != ST_OK) {
        pack_cache_close(c, false);
        return st;
    }
    *out = c;
    return ST_OK;
}

bool pack_cache_find(const struct pack_cache *c, int32_t weight, int32_t layer, const void **data,
                     size_t *n_bytes)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->entry[i].weight == weight && c->entry[i].layer == layer) {
            *data = c->data + c->entry[i].offset;
            *n_bytes = (size_t)c->entry[i].n_bytes;
            return true;
        }
    return false;
}

static bool write_at(int fd, const void *data, size_t n, uint64_t at)
{
    const char *p = data;
    while (n > 0) {
        ssize_t k = pwrite(fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k, at += (uint64_t)k, n -= (size_t)k;
    }
    return true;
}

static void give_up_file(struct pack_cache *c, const char *why)
{
    log_line(LOG_WARN, "packed weights are not kept: %s: %s", c->temporary, why);
    close(c->fd);
    unlink(c->temporary);
    c->fd = -1;
}

void pack_cache_add(struct pack_cache *c, int32_t weight, int32_t layer, const void *data,
                    size_t n_bytes)
{
    if (c->fd < 0)
        return;
    if (c->head.n_entries == c->max) {
        give_up_file(c, "more weights than expected");
        return;
    }
    c->added[c->head.n_entries++] =
        (struct pack_entry){weight, layer, c->at, n_bytes, pack_hash(c->pool, data, n_bytes)};
    if (!write_at(c->fd, data, n_bytes, c->at)) {
        give_up_file(c, strerror(errno));
        return;
    }
    c->at = round_up(c->at + n_bytes);
}

bool pack_cache_is_hit(const struct pack_cache *c)
{
    return c->entry != NULL;
}

static bool finish_file(struct pack_cache *c)
{
    c->head.size = c->at;
    c->head.hash = hash_head(&c->head, c->added);
    return ftruncate(c->fd, (off_t)c->at) == 0 && write_at(c->fd, &c->head, sizeof c->head, 0) &&
           write_at(c->fd, c->added, (size_t)c->head.n_entries * sizeof *c->added,
                    sizeof c->head) &&
           fsync(c->fd) == 0 && rename(c->temporary, c->path) == 0;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* Named as set_names does: the folder may belong to another user. */
static bool is_temporary(const char *name)
{
    size_t key = strspn(name, "0123456789abcdef");
    size_t pid = name[key] == '.' ? strspn(name + key + 1, "0123456789") : 0;
    return key == 16 && pid > 0 && strcmp(name + key + 1 + pid, ".tmp") == 0;
}

/* Was a file with that header replaced by one with ours? */
static bool is_replaced(const struct pack_header *old, const struct pack_header *ours)
{
    const struct pack_key *a = &old->key, *b = &ours->key;
    if (memcmp(old->magic, magic, sizeof magic) != 0 || old->origin != ours->origin)
        return false;
    bool current = a->model == b->model && a->stamp == b->stamp;
    bool same_place = a->rank == b->rank && a->world == b->world;
    return !current || (same_place && a->packing != b->packing);
}

static void remove_if_unused(const struct pack_cache *c, const char *name)
{
    char path[PATH_SIZE];
    struct pack_header head;
    struct stat st;
    bool packed = ends_with(name, ".packed"), temporary = is_temporary(name), unused = false;
    if ((!packed && !temporary) ||
        (size_t)snprintf(path, sizeof path, "%s/%s", c->dir, name) >= sizeof path)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    if (fd < 0)
        return;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return;
    }
    if (packed)
        unused = pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head &&
                 is_replaced(&head, &c->head);
    else if (temporary)
        unused = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (unused && unlink(path) == 0)
        log_line(LOG_INFO, "packed weights %s (%lld bytes) are of no use any more: removed", path,
                 (long long)st.st_size);
    close(fd);
}

/* What the new file replaces.  Other ranks may do the same at the same time. */
static void remove_unused(const struct pack_cache *c)
{
    DIR *dir = opendir(c->dir);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        remove_if_unused(c, e->d_name);
    if (dir)
        closedir(dir);
}

void pack_cache_close(struct pack_cache *c, bool ok)
{
    if (!c)
        return;
    if (c->fd >= 0 && !(ok && finish_file(c)))
        give_up_file(c, ok ? strerror(errno) : "loading failed");
    else if (c->fd >= 0)
        remove_unused(c);
    if (c->fd >= 0)
        close(c->fd);
    mapped_file_close(&c->map);
    pool_destroy(c->pool);
    free(c->added);
    free(c);
}

/* ---- use ---- */

static enum status open_for(struct pack_cache **out, struct loader *ld, const char *model,
                            const char *dir, struct backend *be, int rank, int world)
{
    const struct model_config *mc = loader_config(ld);
    struct pack_key key = {.model = loader_digest(ld), .rank = rank, .world = world};
    char beside[PATH_SIZE];
    uint64_t origin;
    TRY(pack_model_origin(model, &origin));
    TRY(backend_ops_of(be)->pack_id(be, &key.packing));
    TRY(pack_model_stamp(model, &key.stamp));
    TRY(pack_cache_dir(model, beside, sizeof beside));
    return pack_cache_open(out, dir ? dir : beside, &key, origin, (mc->n_layers + 1) * W_N);
}

/* Gives the file that was read to a backend that uses its memory. */
static enum status map_entries(struct pack_cache *c, struct backend *be)
{
    struct packed_range *range = calloc(c->n + 1, sizeof *range);
    size_t n = 0;
    if (!range)
        FAIL(ST_NOMEM, "no memory for %zu entries", c->n);
    for (size_t i = 0; i < c->n; i++)
        if (c->entry[i].n_bytes > 0)
            range[n++] =
                (struct packed_range){(size_t)c->entry[i].offset, (size_t)c->entry[i].n_bytes};
    enum status st = backend_ops_of(be)->map_packed(be, &c->map, range, n);
    free(range);
    return st;
}

static void try_to_map(struct pack_cache *c, struct backend *be)
{
    enum status st = map_entries(c, be);
    if (st != ST_OK)
        log_line(st == ST_UNSUPPORTED ? LOG_INFO : LOG_WARN,
                 "packed weights are copied, not mapped: %s", status_text());
}

struct pack_cache *pack_cache_attach(struct loader *ld, const char *model, const char *dir,
                                     struct backend *be, int rank, int world)
{
    struct pack_cache *c = NULL;
    if (!backend_ops_of(be)->pack_id)
        log_line(LOG_INFO, "the backend %s keeps no packed weights", backend_ops_of(be)->name);
    else if (open_for(&c, ld, model, dir, be, rank, world) != ST_OK)
        log_line(LOG_WARN, "packed weights are not kept: %s", status_text());
    else if (pack_cache_is_hit(c) && backend_ops_of(be)->map_packed)
        try_to_map(c, be);
    if (c && pack_cache_is_hit(c))
        loader_reads_little(ld, true); /* vectors and biases */
    loader_set_cache(ld, c);
    return c;
}
