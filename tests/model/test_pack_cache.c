/* Packed weights in a file: the same logits, and nothing but exactly what was written is used. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/cpu/cpu_backend.h"
#include "common/host.h"
#include "rig.h"
#include "temp_dir.h"
#include "worker/load/pack_cache.h"
#include "worker/load/pack_hash.h"
#include "worker/load/weights.h"

enum { N = 12, MAX_VOCAB = 512 };

static char dir[64];

static void make_dir(void)
{
    temp_dir_make(dir);
}

static float plain[N * MAX_VOCAB], kept[N * MAX_VOCAB];

/* Files in dir; path: of the last one. */
static int list_dir(char *path, size_t size, bool remove_all)
{
    int n = 0;
    DIR *d = opendir(dir);
    cr_assert_not_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, size, "%s/%s", dir, e->d_name);
        if (remove_all)
            unlink(path);
        n++;
    }
    closedir(d);
    return n;
}

static void remove_dir(void)
{
    temp_dir_remove(dir);
}

/* Logits [N, V] of a model loaded with packed weights kept in dir; was_hit NULL: without. */
static void run(const char *model, int rank, int world, float *logits, bool *was_hit)
{
    struct backend_config bc = {.threads = 2};
    struct backend *be;
    struct loader *ld;
    struct decoder *m;
    must(backend_open(&be, "cpu", &bc), "backend");
    must(loader_open(&ld, model), "loader");
    struct decoder_config cfg =
        rig_decoder_config(loader_config(ld), (struct rig_config){0}, rank, world);
    struct pack_cache *c = NULL;
    const void *data;
    size_t n;
    if (was_hit) {
        c = pack_cache_attach(ld, model, dir, be, rank, world);
        cr_assert_not_null(c);
        *was_hit = pack_cache_is_hit(c);
        for (int32_t i = 0; *was_hit && i < loader_config(ld)->n_layers; i++)
            if (loader_config(ld)->n_experts) /* in every layer of the fixtures used here */
                cr_assert(pack_cache_find(c, W_EXPERTS_GATE_UP, i, &data, &n) && n > 0 &&
                          pack_cache_find(c, W_EXPERTS_DOWN, i, &data, &n) && n > 0);
    }
    if (world == 1) {
        struct engine *e;
        int32_t ids[N];
        for (int32_t i = 0; i < N; i++)
            ids[i] = (i * 3 + 1) % loader_config(ld)->vocab;
        must(engine_create(&e, ld, be, NULL, &cfg), "engine");
        must(engine_prepare(e, 1, 0), "prepare");
        must(engine_forward_verify(e, 1, ids, N, logits), "forward");
        engine_destroy(e);
    } else { /* loading alone: the other ranks are not there */
        struct coll co = {.rank = rank, .world = world};
        must(decoder_open(&m, loader_config(ld), ld, be, &co, &cfg), "decoder");
        decoder_close(m);
    }
    pack_cache_close(c, true);
    loader_close(ld);
    backend_ops_of(be)->close(be);
}

static void expect(const char *model, bool hit, const char *what)
{
    bool was_hit;
    memset(kept, 0, sizeof kept);
    run(model, 0, 1, kept, &was_hit);
    cr_assert_eq(was_hit, hit, "%s: %s", what, was_hit ? "used" : "not used");
    cr_assert(memcmp(plain, kept, sizeof plain) == 0, "%s: other logits", what);
}

Test(pack_cache, same_logits)
{
    static const char *const names[] = {"llama-gqa",      "qwen2",   "llama-sharded-bf16",
                                        "llama-tied-f16", "mixtral", "qwen3moe",
                                        "deepseek2"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char model[1024], path[400];
        snprintf(model, sizeof model, "%s", golden_dir(names[i]));
        make_dir();
        memset(plain, 0, sizeof plain);
        run(model, 0, 1, plain, NULL);
        expect(model, false, "the first start");
        cr_assert_eq(list_dir(path, sizeof path, false), 1, "a temporary file is left");
        expect(model, true, "the second start");
        remove_dir();
    }
}

static bool is_inside(const struct mapped_file *file, const struct weight *w)
{
    const unsigned char *at = w->data.data;
    return at >= file->data && at < file->data + file->size;
}

/* Logits while weights are copied out of the file's pages, and behind that; all are copied. */
static void forward_beside_moves(const char *model, uint32_t delay_ms, bool wait)
{
    struct backend_config bc = {.threads = 2};
    struct backend *be;
    struct loader *ld;
    struct engine *e;
    int32_t ids[N];
    int n = 0;
    must(backend_open(&be, "cpu", &bc), "backend");
    must(loader_open(&ld, model), "loader");
    struct pack_cache *c = pack_cache_attach(ld, model, dir, be, 0, 1);
    cr_assert(c && pack_cache_is_hit(c));
    struct decoder_config cfg = rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, 1);
    must(engine_create(&e, ld, be, NULL, &cfg), "engine");
    pack_cache_close(c, true);
    struct weight *first = be->mapped;
    cr_assert_not_null(be->mover);
    for (struct weight *w = first; w; w = w->next_mapped)
        cr_assert(is_inside(&be->packed, w), "it begins in the file");
    for (int32_t i = 0; i < N; i++)
        ids[i] = (i * 3 + 1) % loader_config(ld)->vocab;
    weights_stay(be);
    cr_assert(!be->mapped && !be->mover);
    be->mapped = first;
    must(weights_move(be, delay_ms), "move");
    for (int i = 0; i < 20; i++) {
        if (i == 10 && wait)
            weights_move_end(be);
        memset(kept, 0, sizeof kept);
        must(engine_prepare(e, 1, 0), "prepare");
        must(engine_forward_verify(e, 1, ids, N, kept), "forward");
        engine_release(e, 1);
        cr_assert(memcmp(plain, kept, sizeof plain) == 0, "other logits, forward %d", i);
    }
    for (struct weight *w = first; wait && w; w = w->next_mapped, n++) {
        cr_assert(!is_inside(&be->packed, w));
        for (int32_t i = 0; i < w->n_mat * w->n_slices; i++)
            cr_assert(!is_inside(&be->packed, &w->mat[i]), "matrix %d of a stack", i);
    }
    cr_assert(!wait || n > 4, "%d matrices", n);
    engine_destroy(e);
    cr_assert(!be->mover, "it ends with the weights");
    loader_close(ld);
    backend_ops_of(be)->close(be);
}

Test(pack_cache, weights_move_out_of_the_file)
{
    static const char *const names[] = {"llama-gqa", "qwen3moe"};
    if (!host_has_one_node(HOST_NODES))
        cr_skip("with several nodes packed weights are copied");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char model[1024];
        snprintf(model, sizeof model, "%s", golden_dir(names[i]));
        make_dir();
        memset(plain, 0, sizeof plain);
        run(model, 0, 1, plain, NULL);
        expect(model, false, "the first start");
        forward_beside_moves(model, 0, true);
        forward_beside_moves(model, 3600 * 1000, true);
        forward_beside_moves(model, 3600 * 1000, false);
        remove_dir();
    }
}

Test(pack_cache, ranks_have_their_own)
{
    char path[400];
    bool hit;
    make_dir();
    for (int start = 0; start < 2; start++)
        for (int rank = 0; rank < 2; rank++) {
            run(golden_dir("llama-gqa"), rank, 2, NULL, &hit);
            cr_assert_eq(hit, start == 1, "start %d of rank %d", start, rank);
        }
    cr_assert_eq(list_dir(path, sizeof path, false), 2);
    remove_dir();
}

/* A file of two entries, written by the library. */
static char *write_small(const struct pack_key *key, size_t *size)
{
    static const unsigned char data[2][100] = {{1, 2, 3}, {4, 5, 6}};
    struct pack_cache *c;
    char path[400];
    make_dir();
    must(pack_cache_open(&c, dir, key, 0, 3), "open");
    pack_cache_add(c, 5, 0, data[0], sizeof data[0]);
    pack_cache_add(c, 5, 1, data[1], 37);
    pack_cache_close(c, true);
    cr_assert_eq(list_dir(path, sizeof path, false), 1);
    char *file = read_file(path, size);
    remove_dir();
    return file;
}

static enum status parse(const char *file, size_t size, const struct pack_key *key)
{
    const struct pack_entry *entry;
    size_t n;
    char *exact = malloc(size ? size : 1); /* so that a sanitizer sees the border */
    memcpy(exact, file, size);
    struct pool *pool;
    must(pool_create(&pool, 2, 1, false), "pool");
    enum status st = pack_file_parse(exact, size, key, pool, &entry, &n);
    pool_destroy(pool);
    free(exact);
    return st;
}

Test(pack_cache, damage_is_seen)
{
    const struct pack_key key = {.model = 1, .stamp = 2, .packing = 3, .rank = 0, .world = 1};
    size_t size, padding = 0;
    char *file = write_small(&key, &size);
    must(parse(file, size, &key), "the whole file");
    for (size_t n = 0; n < size; n++)
        cr_assert_eq(parse(file, n, &key), ST_FORMAT, "%zu bytes of %zu", n, size);
    for (size_t i = 0; i < 8 * size; i++) {
        file[i / 8] = (char)(file[i / 8] ^ 1 << i % 8);
        padding += parse(file, size, &key) == ST_OK;
        file[i / 8] = (char)(file[i / 8] ^ 1 << i % 8);
    }
    /* what no entry covers: the third entry's place, and the gaps up to 64-byte borders */
    size_t used = 72 + 2 * 32 + 100 + 37;
    cr_assert_eq(padding, 8 * (size - used), "%zu of %zu bits do not matter", padding, 8 * size);
    must(parse(file, size, &key), "the whole file again");
    free(file);
}

/* The hash of n bytes by one thread, which several must find too. */
static uint64_t hash_of(struct pool *const pool[2], const void *data, size_t n)
{
    uint64_t h = pack_hash(pool[0], data, n);
    cr_assert_eq(pack_hash(pool[1], data, n), h, "the number of threads matters");
    return h;
}

Test(pack_cache, hash_of_many_pieces)
{
    enum { SIZE = 3 * PACK_HASH_PIECE + 1001 };
    struct pool *pool[2];
    must(pool_create(&pool[0], 1, 1, false), "pool");
    must(pool_create(&pool[1], 5, 3, false), "pool");
    unsigned char *data = calloc(1, SIZE), *turned = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 2654435761U >> 13);
    uint64_t h = hash_of(pool, data, SIZE);
    for (size_t i = 0; i < SIZE; i += 4999) {
        data[i] ^= 16;
        cr_assert_neq(hash_of(pool, data, SIZE), h, "byte %zu", i);
        data[i] ^= 16;
    }
    cr_assert_neq(hash_of(pool, data, SIZE - 1), h);
    memcpy(turned, data + PACK_HASH_PIECE, PACK_HASH_PIECE);
    memcpy(turned + PACK_HASH_PIECE, data, PACK_HASH_PIECE);
    memcpy(turned + 2 * PACK_HASH_PIECE, data + 2 * PACK_HASH_PIECE, SIZE - 2 * PACK_HASH_PIECE);
    cr_assert_neq(hash_of(pool, turned, SIZE), h, "pieces in another order");
    memset(data, 0, SIZE);
    cr_assert_neq(hash_of(pool, data, 2 * PACK_HASH_PIECE), hash_of(pool, data, PACK_HASH_PIECE));
    cr_assert_neq(hash_of(pool, data, 0), hash_of(pool, data, 1));
    free(data);
    free(turned);
    for (int i = 0; i < 2; i++)
        pool_destroy(pool[i]);
}

Test(pack_cache, other_keys_are_refused)
{
    const struct pack_key key = {.model = 1, .stamp = 2, .packing = 3, .rank = 0, .world = 1};
    size_t size;
    char *file = write_small(&key, &size);
    for (int i = 0; i < 5; i++) {
        struct pack_key other = key;
        other.model += i == 0;
        other.stamp += i == 1;
        other.packing += i == 2;
        other.rank += i == 3;
        other.world += i == 4;
        cr_assert_eq(parse(file, size, &other), ST_FORMAT, "field %d", i);
    }
    free(file);
}

Test(pack_cache, damaged_file_is_made_again)
{
    char path[400];
    size_t size;
    const char *model = golden_dir("llama-gqa");
    make_dir();
    memset(plain, 0, sizeof plain);
    run(model, 0, 1, plain, NULL);
    expect(model, false, "the first start");
    cr_assert_eq(list_dir(path, sizeof path, false), 1);
    char *file = read_file(path, &size);
    file[size - 1000] ^= 1;
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(file, 1, size, f) == size);
    fclose(f);
    free(file);
    expect(model, false, "a damaged file");
    expect(model, true, "the one made again");
    remove_dir();
}

/* A copy of a fixture, so that its times can be changed. */
static void copy_model(const char *from, const char *to)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    char path[400], source[1200];
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        size_t size;
        snprintf(source, sizeof source, "%s/%s", from, files[i]);
        snprintf(path, sizeof path, "%s/%s", to, files[i]);
        char *data = read_file(source, &size);
        FILE *f = fopen(path, "wb");
        cr_assert(f && fwrite(data, 1, size, f) == size);
        fclose(f);
        free(data);
    }
}

static void touch(const char *model)
{
    char path[400];
    snprintf(path, sizeof path, "%s/config.json", model);
    const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    cr_assert_eq(utimensat(AT_FDCWD, path, long_ago, 0), 0);
}

static int put_file(const char *name, bool locked)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    cr_assert(fd >= 0 && write(fd, "x", 1) == 1);
    if (locked)
        cr_assert_eq(flock(fd, LOCK_EX), 0);
    return fd;
}

static bool there(const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

Test(pack_cache, files_of_no_use_are_removed)
{
    static const char *const mine = "0123456789abcdef.17.tmp",
                             *const busy = "0123456789abcdef.18.tmp", *const strange = "notes.tmp",
                             *const other = "other.packed";
    char path[400], model[100], second[100];
    bool hit;
    make_dir();
    temp_dir_make(model);
    temp_dir_make(second);
    copy_model(golden_dir("llama-gqa"), model);
    copy_model(golden_dir("llama-gqa"), second);
    for (int rank = 0; rank < 2; rank++)
        run(model, rank, 2, NULL, &hit);
    run(model, 0, 1, kept, &hit);
    run(second, 0, 1, kept, &hit);
    cr_assert_eq(list_dir(path, sizeof path, false), 4, "other ranks, worlds and models stay");
    touch(model);
    close(put_file(mine, false));
    close(put_file(strange, false));
    close(put_file(other, false));
    int lock = put_file(busy, true);
    run(model, 0, 1, kept, &hit);
    cr_assert(!hit, "the model has changed");
    cr_assert(!there(mine) && there(busy) && there(strange) && there(other));
    cr_assert_eq(list_dir(path, sizeof path, false), 2 + 3,
                 "the old model's three files are there");
    run(model, 0, 1, kept, &hit);
    cr_assert(hit);
    run(second, 0, 1, kept, &hit);
    cr_assert(hit, "another model's file is gone");
    close(lock);
    remove_dir();
    temp_dir_remove(model);
    temp_dir_remove(second);
}

/* Of the same model, rank and world one packing is kept; other ranks may be on other machines. */
Test(pack_cache, packings_replace_each_other)
{
    struct pack_key key = {.model = 1, .stamp = 2, .packing = 3, .rank = 0, .world = 2};
    char path[400];
    make_dir();
    for (int i = 0; i < 3; i++) {
        struct pack_cache *c;
        key.packing = i == 1 ? 4 : 3;
        key.rank = i == 2;
        must(pack_cache_open(&c, dir, &key, 9, 1), "open");
        cr_assert(!pack_cache_is_hit(c));
        pack_cache_add(c, 0, 0, &key, sizeof key);
        pack_cache_close(c, true);
        cr_assert_eq(list_dir(path, sizeof path, false), i == 2 ? 2 : 1, "file %d", i);
    }
    remove_dir();
}

/* Whoever looks for files of no use must not wait for a pipe's other end. */
Test(pack_cache, a_pipe_in_the_folder_does_not_block)
{
    struct pack_key key = {.model = 1, .stamp = 2, .packing = 3, .world = 1};
    struct pack_cache *c;
    char path[400];
    make_dir();
    snprintf(path, sizeof path, "%s/0123456789abcdef.packed", dir);
    cr_assert_eq(mkfifo(path, 0600), 0);
    must(pack_cache_open(&c, dir, &key, 9, 1), "open");
    pack_cache_add(c, 0, 0, &key, sizeof key);
    pack_cache_close(c, true);
    cr_assert_eq(list_dir(path, sizeof path, false), 2, "the file and the pipe");
    remove_dir();
}

Test(pack_cache, full_disk)
{
    char path[400];
    const char *model = golden_dir("llama-gqa");
    make_dir();
    memset(plain, 0, sizeof plain);
    run(model, 0, 1, plain, NULL);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){20000, 20000}), 0);
    expect(model, false, "a disk that takes 20 kB");
    cr_assert_eq(list_dir(path, sizeof path, false), 0, "a piece of a file is left");
    expect(model, false, "the same again");
    remove_dir();
}
