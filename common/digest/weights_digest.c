#define _GNU_SOURCE /* setpriority for one thread */
#include "common/digest/weights_digest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/digest/file_digest.h"
#include "common/formats/config_fields.h"
#include "common/formats/gguf_file.h"
#include "common/formats/safetensors_index.h"
#include "common/formats/sentence_folder.h"
#include "common/hex.h"
#include "common/host.h"
#include "common/log.h"
#include "common/mapped_file.h"
#include "common/model_path.h"
#include "common/thread.h"

#define REPORT_US 10000000U

struct weights_digest {
    struct digest_cache cache;
    bool shares;
    char config[CONFIG_TEXT_SIZE];
    size_t n_config; /* bytes */
    struct sentence_modules modules;
    char (*file)[DIGEST_PATH];
    size_t n_files;
    uint64_t total; /* bytes of all files */
    uint8_t (*of_file)[SHA256_BYTES];

    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool begun; /* under lock */
    atomic_bool stop;
    uint64_t done, reported_us; /* bytes of the files before this one; the thread's */

    uint8_t digest[SHA256_BYTES]; /* written before state is DIGEST_KNOWN */
    atomic_int state;
};

/* ---- files ---- */

static enum status take_room(struct weights_digest *w, size_t n)
{
    w->file = calloc(n + 1, sizeof *w->file);
    w->of_file = calloc(n + 1, sizeof *w->of_file);
    if (!w->file || !w->of_file)
        FAIL(ST_NOMEM, "no memory for the names of %zu files", n);
    w->n_files = n;
    return ST_OK;
}

static enum status set_file(struct weights_digest *w, size_t i, const char *dir, const char *name)
{
    if ((size_t)snprintf(w->file[i], DIGEST_PATH, "%s%s%s", dir, *dir ? "/" : "", name) >=
        DIGEST_PATH)
        FAIL(ST_RANGE, "the model's path is too long");
    return ST_OK;
}

static enum status list_indexed(struct weights_digest *w, const char *dir)
{
    static const char name[] = "model.safetensors.index.json";
    char path[DIGEST_PATH];
    struct mapped_file map;
    struct st_index ix;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        FAIL(ST_RANGE, "the model's path is too long");
    if (mapped_file_open(&map, path) != ST_OK)
        FAIL(ST_NOT_FOUND, "%s has neither model.safetensors nor %s", dir, name);
    enum status st = st_index_parse(&ix, map.data, map.size, name);
    mapped_file_close(&map);
    TRY(st);
    st = take_room(w, (size_t)ix.n_files);
    for (size_t i = 0; st == ST_OK && i < w->n_files; i++)
        st = set_file(w, i, dir, ix.file[i]);
    st_index_fini(&ix);
    return st;
}

static enum status list_folder(struct weights_digest *w, const char *dir)
{
    struct stat st;
    TRY(take_room(w, 1));
    TRY(set_file(w, 0, dir, "model.safetensors"));
    if (stat(w->file[0], &st) == 0)
        return ST_OK;
    free(w->file);
    free(w->of_file);
    w->file = NULL;
    w->of_file = NULL;
    w->n_files = 0;
    return list_indexed(w, dir);
}

/* The weights of the modules that make embeddings, behind those of the model. */
static enum status list_modules(struct weights_digest *w, const char *dir)
{
    const struct sentence_modules *m = &w->modules;
    size_t n = w->n_files;
    for (int32_t i = 0; i < m->n_modules; i++)
        n += m->module[i].kind == MODULE_DENSE && !m->module[i].tensor;
    if (n == w->n_files)
        return ST_OK;
    char(*file)[DIGEST_PATH] = realloc(w->file, n * sizeof *file);
    if (!file)
        FAIL(ST_NOMEM, "no memory for the names of %zu files", n);
    w->file = file;
    free(w->of_file);
    w->of_file = calloc(n, sizeof *w->of_file);
    if (!w->of_file)
        FAIL(ST_NOMEM, "no memory for the digests of %zu files", n);
    for (int32_t i = 0; i < m->n_modules; i++) {
        char name[MODULE_PATH + 32];
        snprintf(name, sizeof name, "%s/model.safetensors", m->module[i].path);
        if (m->module[i].kind == MODULE_DENSE && !m->module[i].tensor)
            TRY(set_file(w, w->n_files++, dir, name));
    }
    return ST_OK;
}

static enum status list_gguf(struct weights_digest *w, const char *path, size_t n_parts)
{
    struct gguf_part_name name;
    TRY(take_room(w, n_parts));
    if (n_parts == 1 || !gguf_parse_part_name(path, &name))
        return set_file(w, 0, "", path);
    for (size_t i = 0; i < n_parts; i++)
        snprintf(w->file[i], DIGEST_PATH, "%.*s-%05zu-of-%05zu.gguf", name.stem, path, i + 1,
                 n_parts);
    return ST_OK;
}

static enum status read_gguf(struct weights_digest *w, struct model_config *mc, const char *path)
{
    struct gguf_file *f;
    TRY(gguf_file_open(&f, path));
    enum status st = model_config_from_gguf(mc, gguf_file_model(f));
    if (st == ST_OK)
        st = list_gguf(w, path, gguf_file_parts(f));
    gguf_file_close(f);
    return st;
}

static enum status read_folder(struct weights_digest *w, struct model_config *mc, const char *dir)
{
    TRY(model_config_load(mc, dir));
    TRY(sentence_modules_load(&w->modules, dir, mc, (struct modules_asked){0}));
    TRY(list_folder(w, dir));
    return list_modules(w, dir);
}

static enum status read_model(struct weights_digest *w, const char *path)
{
    struct stat st;
    TRY(model_path_exists(path));
    struct model_config *mc = calloc(1, sizeof *mc);
    if (!mc)
        FAIL(ST_NOMEM, "no memory for a configuration");
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    enum status done = folder ? read_folder(w, mc, path) : read_gguf(w, mc, path);
    if (done == ST_OK)
        w->n_config = config_text(mc, w->config);
    free(mc);
    return done;
}

/* ---- hashing ---- */

static void put_count(struct sha256 *s, size_t n)
{
    unsigned char bytes[8];
    struct byte_writer b = {.data = bytes, .cap = sizeof bytes};
    put_u64(&b, n);
    sha256_update(s, bytes, sizeof bytes);
}

static void set_known(struct weights_digest *w)
{
    static const char head[] = "ingot weights digest 1\n";
    char modules[MODULES_TEXT]; /* empty without modules */
    struct sha256 s;
    sha256_init(&s);
    sha256_update(&s, head, sizeof head - 1);
    put_count(&s, w->n_config);
    sha256_update(&s, w->config, w->n_config);
    put_count(&s, w->n_files);
    sha256_update(&s, w->of_file, w->n_files * SHA256_BYTES);
    sha256_update(&s, modules, sentence_modules_text(&w->modules, modules));
    sha256_final(&s, w->digest);
    atomic_store(&w->state, DIGEST_KNOWN);
}

/* *all: the cache knows every file.  Counts the bytes. */
static enum status look_up(struct weights_digest *w, bool *all)
{
    *all = true;
    for (size_t i = 0; i < w->n_files; i++) {
        struct file_facts f;
        TRY(file_facts_read(&f, w->file[i]));
        w->total += f.size;
        *all = digest_cache_find(&w->cache, &f, w->of_file[i]) && *all;
    }
    return ST_OK;
}

static void report(void *ctx, uint64_t n_bytes)
{
    struct weights_digest *w = ctx;
    uint64_t now = clock_us();
    if (now - w->reported_us < REPORT_US)
        return;
    w->reported_us = now;
    log_line(LOG_INFO, "weights digest: %.1f of %.1f GB are read",
             (double)(w->done + n_bytes) * 1e-9, (double)w->total * 1e-9);
}

static enum status hash_files(struct weights_digest *w, const struct file_digest_job *job)
{
    for (size_t i = 0; i < w->n_files; i++) {
        struct file_facts f;
        TRY(file_digest(w->file[i], job, w->of_file[i]));
        TRY(file_facts_read(&f, w->file[i]));
        w->done += f.size;
    }
    set_known(w);
    return ST_OK;
}

static bool wait_for_begin(struct weights_digest *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->begun && !atomic_load(&w->stop))
        pthread_cond_wait(&w->wake, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return !atomic_load(&w->stop);
}

static void *run(void *arg)
{
    struct weights_digest *w = arg;
    struct file_digest_job job = {.cache = &w->cache,
                                  .n_threads = host_cpus(),
                                  .locked = true,
                                  .needs_lock = w->shares,
                                  .stop = &w->stop,
                                  .progress = report,
                                  .progress_ctx = w};
    if (!wait_for_begin(w))
        return NULL;
#ifdef __linux__
    (void)setpriority(PRIO_PROCESS, 0, 19); /* this thread's alone, and those it starts */
#endif
    uint64_t begin = w->reported_us = clock_us();
    enum status st = hash_files(w, &job);
    if (st == ST_OK)
        log_line(LOG_INFO, "weights digest of %.2f GB after %.1f s", (double)w->total * 1e-9,
                 (double)(clock_us() - begin) * 1e-6);
    else if (st != ST_CANCELED)
        log_failure(LOG_WARN, st, "there is no weights digest");
    if (st != ST_OK)
        atomic_store(&w->state, DIGEST_NONE);
    return NULL;
}

/* ---- life ---- */

static enum status start_thread(struct weights_digest *w)
{
    w->started = thread_start(&w->thread, run, w) == 0;
    if (!w->started)
        FAIL(ST_NOMEM, "cannot start the thread that hashes the weights");
    return ST_OK;
}

static enum status open_model(struct weights_digest *w, const char *model)
{
    struct file_digest_job job = {.cache = &w->cache, .n_threads = 1};
    bool all;
    TRY(read_model(w, model));
    TRY(look_up(w, &all));
    if (all)
        set_known(w);
    else if (w->total <= WEIGHTS_DIGEST_AT_ONCE)
        TRY(hash_files(w, &job));
    else
        TRY(start_thread(w));
    return ST_OK;
}

enum status weights_digest_open(struct weights_digest **out,
                                const struct weights_digest_config *cfg)
{
    *out = NULL;
    struct weights_digest *w = calloc(1, sizeof *w);
    if (!w)
        FAIL(ST_NOMEM, "no memory for a digest");
    w->cache = *cfg->cache;
    w->shares = cfg->shares;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    enum status st = open_model(w, cfg->model);
    if (st != ST_OK) {
        weights_digest_close(w);
        return st;
    }
    *out = w;
    return ST_OK;
}

void weights_digest_close(struct weights_digest *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->stop, true);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (w->started)
        pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    free(w->file);
    free(w->of_file);
    sentence_modules_free(&w->modules);
    free(w);
}

void weights_digest_begin(struct weights_digest *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->begun = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

enum digest_state weights_digest_get(const struct weights_digest *w, uint8_t out[SHA256_BYTES])
{
    enum digest_state state = w ? (enum digest_state)atomic_load(&w->state) : DIGEST_NONE;
    if (state == DIGEST_KNOWN)
        memcpy(out, w->digest, SHA256_BYTES);
    return state;
}
