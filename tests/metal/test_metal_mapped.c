/* Packed weights in a file on the tests' double of Metal: they are used where they are mapped, with the bits of those
 * that are copied; a whole rank's, with its memory plan. */
#define _GNU_SOURCE /* truncate under strict C */
#include "metal_case.h"
#include "metal_rank.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "effort.h"
#include "temp_dir.h"

/* ---- weights ---- */

enum { N = 3, ROWS = 20, HEAD = 320, MANY = METAL_MAX_MAPPED + 1 };

/* Matrices of two pages and a half each, one behind the other in a file whose last page is not full. */
struct kept {
    char dir[32], path[64];
    size_t page, bytes; /* of a matrix */
    int32_t cols;
    float *x; /* [N, ROWS, cols] */
    struct weight_src src[N];
    struct packed_range range[N];
    struct mapped_file file;
};

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

static struct kept keep(struct backend *be)
{
    struct kept k = {.page = (size_t)sysconf(_SC_PAGESIZE)};
    k.cols = (int32_t)(k.page / 32);
    k.bytes = ROWS * (size_t)k.cols * sizeof(float);
    k.x = malloc(N * k.bytes);
    char *whole = calloc(1, HEAD + N * k.bytes);
    for (size_t i = 0; i < N * k.bytes / 4; i++)
        k.x[i] = (float)((int)(i * 7919 % 1009) - 500) / 257.0f;
    for (size_t i = 0; i < N; i++) {
        struct weight *w;
        size_t n;
        k.range[i] = (struct packed_range){HEAD + i * k.bytes, k.bytes};
        k.src[i] = (struct weight_src){.name = "w",
                                       .cols = k.cols,
                                       .n_parts = 1,
                                       .n_slices = 1,
                                       .slice_end = {k.cols},
                                       .part = {{.data = (const char *)k.x + i * k.bytes,
                                                 .row_bytes = (size_t)k.cols * sizeof(float),
                                                 .dtype = DT_F32,
                                                 .rows = ROWS}}};
        MUST(metal_load_weight(be, &k.src[i], &w));
        const void *data = metal_packed(be, w, &n);
        cr_assert_eq(n, k.bytes);
        memcpy(whole + k.range[i].at, data, n);
        metal_free_weight(be, w);
    }
    temp_dir_make(k.dir);
    snprintf(k.path, sizeof k.path, "%s/packed", k.dir);
    write_file(k.path, whole, HEAD + N * k.bytes);
    MUST(mapped_file_open(&k.file, k.path));
    free(whole);
    return k;
}

static void drop(struct kept *k)
{
    mapped_file_close(&k->file);
    temp_dir_remove(k->dir);
    free(k->x);
}

/* Row r of w is its embedding. */
static void has_rows(struct backend *be, const struct weight *w, const float *rows, size_t bytes)
{
    struct buf *ids, *out;
    int32_t id[ROWS], cols = (int32_t)(bytes / ROWS / sizeof(float));
    float *got = malloc(bytes);
    MUST(metal_alloc(be, sizeof id, MEM_DEVICE, &ids));
    MUST(metal_alloc(be, bytes, MEM_DEVICE, &out));
    struct view vi = {.buf = ids, .rows = ROWS, .cols = 1, .stride = 1, .dtype = DT_I32};
    for (int32_t i = 0; i < ROWS; i++)
        id[i] = i;
    MUST(metal_write(be, vi, id));
    MUST(metal_embed(be, w, 0, vi, f32_view(out, 0, ROWS, cols, cols)));
    MUST(metal_read(be, got, f32_view(out, 0, ROWS, cols, cols)));
    cr_assert_arr_eq(got, rows, bytes);
    metal_free(be, ids);
    metal_free(be, out);
    free(got);
}

/* With buffers of at most so many pages. */
static void check_in_place(size_t max_pages, int buffers)
{
    metal_double_limits((size_t)1 << 30, (size_t)1 << 30);
    struct backend *be = open_metal();
    struct kept k = keep(be);
    const char *at = (const char *)k.file.data;
    be->max_buffer = max_pages * k.page;
    metal_double_limits(be->max_buffer, (size_t)1 << 30);
    MUST(metal_map_packed(be, &k.file, k.range, N));
    cr_assert_eq(k.file.size, 0, "the file is the caller's still");
    cr_assert_eq(be->n_mapped, buffers);
    size_t made = metal_double_buffers();
    for (size_t i = 0; i < N; i++) {
        struct weight *w;
        MUST(metal_load_packed(be, &k.src[i], at + k.range[i].at, k.bytes, &w));
        cr_assert_eq(w->data->data, at + k.range[i].at, "weight %zu is copied", i);
        cr_assert_eq(metal_double_buffers(), made);
        has_rows(be, w, k.x + i * k.bytes / 4, k.bytes);
        metal_free_weight(be, w);
    }
    close_metal(be);
    drop(&k);
}

Test(metal_mapped, weights_are_used_in_the_file)
{
    check_in_place(100, 1);
    check_in_place(6, 2);
    check_in_place(4, 3); /* the second one's pages are four */
}

static void not_mapped(struct backend *be, struct kept *k, const struct packed_range *range,
                       size_t n, enum status st, const char *word)
{
    struct weight *w;
    size_t made = metal_double_buffers();
    cr_assert_eq(metal_map_packed(be, &k->file, range, n), st);
    says(word);
    cr_assert(be->n_mapped == 0 && metal_double_buffers() == made);
    const char *at = (const char *)k->file.data + k->range[1].at;
    MUST(metal_load_packed(be, &k->src[1], at, k->bytes, &w));
    cr_assert_neq(w->data->data, at);
    has_rows(be, w, k->x + k->bytes / 4, k->bytes);
    metal_free_weight(be, w);
}

/* The file stays the caller's, whose weights are copied. */
Test(metal_mapped, what_cannot_be_mapped)
{
    struct packed_range many[MANY];
    struct backend *be = open_metal();
    struct kept k = keep(be);
    size_t max = be->max_buffer;
    be->max_buffer = 3 * k.page;
    not_mapped(be, &k, k.range, N, ST_NOMEM, "bytes to be mapped as one buffer");
    for (size_t i = 0; i < MANY; i++)
        many[i] = (struct packed_range){i % 2 * 3 * k.page, 2 * k.page};
    not_mapped(be, &k, many, MANY, ST_NOMEM, "in more than 8 buffers");
    be->max_buffer = max;
    metal_double_limits(max, metal_double_allocated() + k.page);
    cr_assert_eq(metal_map_packed(be, &k.file, k.range, N), ST_NOMEM);
    says("does not map");
    metal_double_limits(max, (size_t)1 << 30);
    MUST(metal_map_packed(be, &k.file, k.range, N));
    cr_assert_eq(metal_map_packed(be, &k.file, k.range, N), ST_BUG);
    close_metal(be);
    drop(&k);
}

Test(metal_mapped, packed_bytes_of_another_length)
{
    struct weight *w = NULL;
    struct backend *be = open_metal();
    struct kept k = keep(be);
    cr_assert_eq(metal_load_packed(be, &k.src[0], k.x, k.bytes - 4, &w), ST_FORMAT);
    says("10236 packed bytes, it has 10240");
    cr_assert_eq(metal_load_packed_stack(be, k.src, 2, k.x, k.bytes, &w), ST_FORMAT);
    cr_assert_null(w);
    close_metal(be);
    drop(&k);
}

Test(metal_mapped, packings_have_names)
{
    uint64_t id[2], of_cpu;
    struct backend *be = open_metal(), *cpu;
    MUST(metal_pack_id(be, &id[0]));
    MUST(metal_pack_id(be, &id[1]));
    MUST(backend_open(&cpu, "cpu", &(struct backend_config){.threads = 1}));
    MUST(backend_ops_of(cpu)->pack_id(cpu, &of_cpu));
    cr_assert(id[0] == id[1] && id[0] != of_cpu);
    backend_ops_of(cpu)->close(cpu);
    close_metal(be);
}

/* ---- a rank ---- */

typedef struct result_token tokens[RIG_NEW][RIG_SEQS];

struct started {
    int n_mapped;     /* buffers over the file of packed weights */
    size_t allocated; /* bytes of all buffers */
    tokens got;
};

/* A rank with its packed weights in dir, NULL: not kept. */
static void run(struct started *s, const char *model, const char *dir, bool tells)
{
    struct rank_rig r;
    metal_rank_plan(&r, model);
    r.pack_dir = dir;
    MUST(rank_rig_load(&r));
    metal_rank_check(&r);
    cr_assert_eq(r.be->mapped_left, 0);
    metal_double_seal(true);
    if (tells)
        MUST(rank_rig_generate(&r, false, false, s->got));
    metal_double_seal(false);
    s->n_mapped = r.be->n_mapped;
    s->allocated = metal_double_allocated();
    rank_rig_close(&r);
    cr_assert_eq(metal_double_live(), 0);
}

static struct started plain, kept;

/* Of memory no more than that of the rank before, and the pages at the ends; its tokens where the weights are mapped, or all
 * are compared. */
static void expect(const char *model, const char *dir, bool mapped, const char *what)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    memset(&kept, 0, sizeof kept);
    run(&kept, model, dir, mapped || everything());
    cr_assert_eq(kept.n_mapped, mapped, "%s: %s", model, what);
    cr_assert_leq(kept.allocated, plain.allocated + (size_t)kept.n_mapped * 2 * page, "%s", model);
    if (mapped || everything())
        MUST(rank_rig_same(kept.got, plain.got));
}

/* The one file of dir. */
static void only_file(const char *dir, char *path, size_t size)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(path, size, "%s/%s", dir, e->d_name);
            n++;
        }
    closedir(d);
    cr_assert_eq(n, 1);
}

/* Tables of codes' levels; biases and norms, which are copied; stacks. */
Test(metal_mapped, a_second_start_has_the_same_tokens)
{
    static const char *const models[] = {"llama-nf4", "qwen2", "qwen3moe"};
    char dir[32];
    for (size_t i = everything() ? 0 : 2; i < ARRAY_LEN(models); i++) {
        temp_dir_make(dir);
        run(&plain, models[i], NULL, true);
        expect(models[i], dir, false, "the first start");
        expect(models[i], dir, true, "the second start");
        temp_dir_remove(dir);
    }
}

/* A changed byte, a file that lacks its last page, an empty one: made anew, then mapped. */
Test(metal_mapped, damaged_files_are_made_anew)
{
    char dir[32], path[400];
    const char *model = "llama-gqa";
    temp_dir_make(dir);
    run(&plain, model, dir, true);
    for (int i = everything() ? 0 : 1; i < (everything() ? 3 : 2); i++) {
        only_file(dir, path, sizeof path);
        FILE *f = fopen(path, "r+b");
        cr_assert(f && fseek(f, 0, SEEK_END) == 0);
        long size = ftell(f);
        cr_assert(fseek(f, size / 2, SEEK_SET) == 0);
        int c = fgetc(f);
        cr_assert(fseek(f, size / 2, SEEK_SET) == 0 && fputc(c ^ 1, f) != EOF && fclose(f) == 0);
        if (i > 0)
            cr_assert_eq(truncate(path, i == 1 ? size - 4096 : 0), 0);
        expect(model, dir, false, "damaged");
    }
    expect(model, dir, true, "made anew");
    temp_dir_remove(dir);
}
