#define _XOPEN_SOURCE 700 /* nftw */

#include "client/hub/hub_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 8 }; /* of folders in a repository */

/* ---- paths ---- */

enum status hub_path(char out[HUB_PATH_SIZE], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, HUB_PATH_SIZE, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= HUB_PATH_SIZE)
        FAIL(ST_RANGE, "a path of the cache is too long: %.100s...", out);
    return ST_OK;
}

static const char *set(char *(*env)(const char *), const char *name)
{
    const char *v = env(name);
    return v && *v ? v : NULL;
}

/* The value of a variable as a path, "~/" being the user's home. */
static enum status expand(char out[HUB_PATH_SIZE], const char *value, const char *home)
{
    if (value[0] == '~' && value[1] == '/' && home)
        return hub_path(out, "%s%s", home, value + 1);
    return hub_path(out, "%s", value);
}

enum status hub_cache_init(struct hub_cache *c, char *(*env)(const char *name))
{
    const char *root = set(env, "HF_HUB_CACHE"), *hf = set(env, "HF_HOME"),
               *xdg = set(env, "XDG_CACHE_HOME"), *user = set(env, "HOME"),
               *token = set(env, "HF_TOKEN_PATH");
    char home[HUB_PATH_SIZE];
    if (!root)
        root = set(env, "HUGGINGFACE_HUB_CACHE");
    if (hf)
        TRY(expand(home, hf, user));
    else if (xdg)
        TRY(hub_path(home, "%s/huggingface", xdg));
    else if (user)
        TRY(hub_path(home, "%s/.cache/huggingface", user));
    else if (!root)
        FAIL(ST_NOT_FOUND, "neither HOME nor HF_HOME tells where the cache of models is");
    else
        TRY(hub_path(home, "%s", root));
    TRY(root ? expand(c->root, root, user) : hub_path(c->root, "%s/hub", home));
    return token ? expand(c->token_file, token, user) : hub_path(c->token_file, "%s/token", home);
}

/* "models--ORG--NAME" */
static void folder_of(const char *repo, char out[HUB_REPO_SIZE + 16])
{
    size_t n_org = strcspn(repo, "/");
    snprintf(out, HUB_REPO_SIZE + 16, "models--%.*s--%s", (int)n_org, repo, repo + n_org + 1);
}

enum status hub_repo_dir(const struct hub_cache *c, const char *repo, char out[HUB_PATH_SIZE])
{
    char folder[HUB_REPO_SIZE + 16];
    folder_of(repo, folder);
    return hub_path(out, "%s/%s", c->root, folder);
}

enum status hub_lock_dir(const struct hub_cache *c, const char *repo, char out[HUB_PATH_SIZE])
{
    char folder[HUB_REPO_SIZE + 16];
    folder_of(repo, folder);
    return hub_path(out, "%s/.locks/%s", c->root, folder);
}

/* ---- a model ---- */

/* All whole files below dir, with paths from the snapshot's folder on. */
static enum status scan(const char *dir, const char *prefix, int depth, struct hub_files *out)
{
    DIR *d = opendir(dir);
    enum status st = ST_OK;
    if (!d)
        return ST_OK;
    for (struct dirent *e; st == ST_OK && (e = readdir(d));) {
        char full[HUB_PATH_SIZE], path[HUB_PATH_SIZE];
        struct stat s;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        st = hub_path(full, "%s/%s", dir, e->d_name);
        if (st == ST_OK)
            st = hub_path(path, "%s%s", prefix, e->d_name);
        if (st != ST_OK || stat(full, &s) != 0)
            continue; /* a link whose blob is gone */
        if (S_ISDIR(s.st_mode) && depth < MAX_DEPTH) {
            strcat(path, "/"); /* shorter than full with its folder */
            st = scan(full, path, depth + 1, out);
        } else if (S_ISREG(s.st_mode) && hub_path_is_safe(path)) {
            st = hub_files_add(out, path, (uint64_t)s.st_size, "");
        }
    }
    closedir(d);
    return st;
}

/* The commit that the cache has for a revision. */
static enum status read_ref(const char *repo_dir, const struct hub_name *name, char commit[64])
{
    char path[HUB_PATH_SIZE];
    if (hub_is_commit(name->revision)) {
        memcpy(commit, name->revision, 41);
        return ST_OK;
    }
    TRY(hub_path(path, "%s/refs/%s", repo_dir, name->revision));
    FILE *f = fopen(path, "r");
    if (!f)
        FAIL(ST_NOT_FOUND, "%s@%s is not in the cache", name->repo, name->revision);
    bool ok = fscanf(f, "%63s", commit) == 1 && hub_is_commit(commit);
    fclose(f);
    if (!ok)
        FAIL(ST_NOT_FOUND, "%s does not name a commit", path);
    return ST_OK;
}

enum status hub_cache_find(const struct hub_cache *c, const struct hub_name *name,
                           char path[HUB_PATH_SIZE])
{
    char repo[HUB_PATH_SIZE], dir[HUB_PATH_SIZE], commit[64];
    struct hub_files files = {.n = 0};
    const char *model = "";
    TRY(hub_repo_dir(c, name->repo, repo));
    TRY(read_ref(repo, name, commit));
    TRY(hub_path(dir, "%s/snapshots/%s", repo, commit));
    enum status st = scan(dir, "", 0, &files);
    if (st == ST_OK)
        st = hub_select(&files, name->repo, name->pick, &model);
    if (st == ST_OK)
        st = *model ? hub_path(path, "%s/%s", dir, model) : hub_path(path, "%s", dir);
    hub_files_free(&files);
    return st;
}

/* ---- all models ---- */

static void measure(const char *repo_dir, struct hub_entry *e)
{
    char dir[HUB_PATH_SIZE], path[HUB_PATH_SIZE];
    DIR *d = hub_path(dir, "%s/blobs", repo_dir) == ST_OK ? opendir(dir) : NULL;
    struct stat s;
    if (!d)
        return;
    for (struct dirent *f; (f = readdir(d));) {
        if (hub_path(path, "%s/%s", dir, f->d_name) != ST_OK || stat(path, &s) != 0 ||
            !S_ISREG(s.st_mode))
            continue;
        size_t n = strlen(f->d_name);
        bool part = n > 11 && strcmp(f->d_name + n - 11, ".incomplete") == 0;
        *(part ? &e->incomplete : &e->size) += (uint64_t)s.st_size;
    }
    closedir(d);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct hub_entry *)a)->repo, ((const struct hub_entry *)b)->repo);
}

/* "models--ORG--NAME" as "ORG/NAME"; false: it is no such folder. */
static bool repo_of(const char *folder, char repo[HUB_REPO_SIZE])
{
    struct hub_name name;
    const char *org = folder + 8,
               *dashes = strncmp(folder, "models--", 8) ? NULL : strstr(org, "--");
    if (!dashes || strlen(org) >= HUB_REPO_SIZE)
        return false;
    snprintf(repo, HUB_REPO_SIZE, "%.*s/%s", (int)(dashes - org), org, dashes + 2);
    return hub_name_parse(&name, repo) == ST_OK;
}

enum status hub_cache_list(const struct hub_cache *c, struct hub_entry **out, size_t *n)
{
    DIR *d = opendir(c->root);
    size_t cap = 0;
    *out = NULL;
    *n = 0;
    if (!d && errno != ENOENT)
        FAIL(ST_IO, "cannot read %s: %s", c->root, strerror(errno));
    for (struct dirent *f; d && (f = readdir(d));) {
        struct hub_entry e = {.size = 0};
        char dir[HUB_PATH_SIZE];
        if (!repo_of(f->d_name, e.repo) || hub_repo_dir(c, e.repo, dir) != ST_OK)
            continue;
        if (*n == cap) {
            cap = cap ? 2 * cap : 16;
            struct hub_entry *more = realloc(*out, cap * sizeof *more);
            if (!more) {
                closedir(d);
                free(*out);
                *out = NULL;
                FAIL(ST_NOMEM, "no memory for a list of %zu models", cap);
            }
            *out = more;
        }
        measure(dir, &e);
        (*out)[(*n)++] = e;
    }
    if (d)
        closedir(d);
    if (*n)
        qsort(*out, *n, sizeof **out, by_name);
    return ST_OK;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s;
    (void)type;
    (void)at;
    return remove(path);
}

static enum status remove_tree(const char *dir)
{
    if (nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0 && errno != ENOENT)
        FAIL(ST_IO, "cannot remove %s: %s", dir, strerror(errno));
    return ST_OK;
}

/* ST_BUSY: another process holds one of the locks. */
static enum status check_locks(const char *dir, const char *repo)
{
    DIR *d = opendir(dir);
    bool busy = false;
    for (struct dirent *e; d && !busy && (e = readdir(d));) {
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        busy = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
    if (busy)
        FAIL(ST_BUSY, "%s is being downloaded by another process", repo);
    return ST_OK;
}

enum status hub_cache_remove(const struct hub_cache *c, const char *repo)
{
    char dir[HUB_PATH_SIZE], locks[HUB_PATH_SIZE];
    TRY(hub_repo_dir(c, repo, dir));
    TRY(hub_lock_dir(c, repo, locks));
    if (access(dir, F_OK) != 0)
        FAIL(ST_NOT_FOUND, "%s is not in the cache (%s)", repo, c->root);
    TRY(check_locks(locks, repo));
    TRY(remove_tree(dir));
    return remove_tree(locks);
}
