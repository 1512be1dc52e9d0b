/* Models in several GGUF files: any part opens the whole, bit for bit; a part that is missing or
 * lies is named. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/formats/gguf_file.h"
#include "make_gguf.h"
#include "rig.h"
#include "split_gguf.h"
#include "temp_dir.h"

static char dir[64], whole[64];

static void set_up(void)
{
    temp_dir_make(dir);
    snprintf(whole, sizeof whole, "%s",
             gguf_make(golden_dir("llama-gqa"), &(struct gguf_recipe){0}));
}

static const char *part(int i, int n)
{
    static char paths[2][128];
    static int next;
    char *p = paths[next++ % 2];
    snprintf(p, sizeof paths[0], "%s/m-%05d-of-%05d.gguf", dir, i, n);
    return p;
}

static void tear_down(void)
{
    for (int n = 1; n <= 4; n++)
        for (int i = 1; i <= n; i++)
            unlink(part(i, n));
    unlink(whole);
    cr_expect_eq(rmdir(dir), 0);
}

TestSuite(gguf_split, .init = set_up, .fini = tear_down);

static void same_model(const char *path)
{
    struct loader *a, *b;
    must(loader_open(&a, whole), whole);
    must(loader_open(&b, path), path);
    cr_assert_eq(loader_count(a), loader_count(b));
    cr_expect_eq(loader_digest(a), loader_digest(b));
    for (size_t i = 0; i < loader_count(a); i++) {
        struct stored_tensor x, y;
        loader_get(a, i, &x);
        loader_get(b, i, &y);
        cr_assert_str_eq(x.name, y.name);
        cr_assert(x.n_bytes == y.n_bytes && memcmp(x.data, y.data, x.n_bytes) == 0, "%s", x.name);
    }
    cr_expect_eq(loader_config(b)->n_layers, loader_config(a)->n_layers);
    loader_close(a);
    loader_close(b);
}

Test(gguf_split, every_part_opens_the_whole)
{
    struct gguf_file *f;
    split_gguf(whole, dir, "m", &(struct split_recipe){.n_parts = 3});
    for (int i = 1; i <= 3; i++)
        same_model(part(i, 3));
    must(gguf_file_open(&f, part(2, 3)), "part 2");
    cr_expect_eq(gguf_file_parts(f), 3);
    cr_expect(gguf_has(gguf_file_model(f), "general.architecture"));
    gguf_file_close(f);
}

Test(gguf_split, more_parts_than_a_layer_has_tensors_and_one_alone)
{
    split_gguf(whole, dir, "m", &(struct split_recipe){.n_parts = 4});
    same_model(part(4, 4));
    split_gguf(whole, dir, "m", &(struct split_recipe){.n_parts = 1});
    same_model(part(1, 1));
}

static void refused(const char *path, enum status want, const char *says)
{
    struct gguf_file *f;
    enum status st = gguf_file_open(&f, path);
    cr_expect_eq(st, want, "%s, not %s: %s", status_name(want), status_name(st), status_text());
    cr_expect_null(f);
    cr_expect_not_null(strstr(status_text(), says), "\"%s\" says nothing of \"%s\"", status_text(),
                       says);
    cr_expect_null(strchr(status_text(), '\n'));
    gguf_file_close(f);
}

Test(gguf_split, parts_that_lie)
{
    static const struct {
        int part;
        const char *key;
        uint32_t value;
        const char *says;
    } rows[] = {
        {1, "split.no", 2, "part 2 says that it is part 3"},
        {0, "split.no", 1, "part 1 says that it is part 2"},
        {2, "split.no", 3, "split.no is 3, more than 2"},
        {1, "split.count", 1, "named as part 2 of 3, but it holds no split.count"},
        {0, "split.count", 2, "one of 2 parts, its name that it is one of 3"},
        {2, "split.count", 4, "part 3 is of a model in 4 files, part 1 of one in 3"},
        {2, "split.count", 100000, "split.count is 100000"},
        {1, "split.tensors.count", 5, "part 2 is of a model of 5 tensors"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        split_gguf(whole, dir, "m",
                   &(struct split_recipe){.n_parts = 3,
                                          .lie_part = rows[i].part,
                                          .lie_key = rows[i].key,
                                          .lie_value = rows[i].value});
        refused(part(1, 3), ST_FORMAT, rows[i].says);
    }
    split_gguf(whole, dir, "m",
               &(struct split_recipe){.n_parts = 3, .twice = "output_norm.weight"});
    refused(part(2, 3), ST_FORMAT, "\"output_norm.weight\" stands twice");
}

Test(gguf_split, parts_that_are_missing_or_misnamed)
{
    char other[128];
    split_gguf(whole, dir, "m", &(struct split_recipe){.n_parts = 3});
    cr_assert_eq(unlink(part(2, 3)), 0);
    refused(part(3, 3), ST_NOT_FOUND, "part 2 of 3 is missing");
    cr_assert_eq(rename(part(1, 3), part(2, 3)), 0);
    refused(part(3, 3), ST_NOT_FOUND, "part 1 of 3 is missing");
    snprintf(other, sizeof other, "%s/other.gguf", dir);
    cr_assert_eq(rename(part(3, 3), other), 0);
    refused(other, ST_FORMAT, "its name does not end in -00001-of-00003.gguf");
    unlink(other);
}

Test(gguf_split, tensors_fewer_than_promised)
{
    split_gguf(whole, dir, "m",
               &(struct split_recipe){.n_parts = 1, .lie_key = "split.count", .lie_value = 1});
    same_model(part(1, 1));
    split_gguf(whole, dir, "m", &(struct split_recipe){.n_parts = 2, .twice = "none such"});
    refused(part(1, 2), ST_FORMAT, "tensors, split.tensors.count is");
}

Test(gguf_split, names)
{
    struct gguf_part_name p;
    cr_expect(gguf_parse_part_name("a/b-00002-of-00010.gguf", &p));
    cr_expect(p.stem == 3 && p.part == 2 && p.count == 10);
    static const char *const others[] = {"-00001-of-00002.gguf",
                                         "b-00000-of-00002.gguf",
                                         "b-00003-of-00002.gguf",
                                         "b-0001-of-00002.gguf",
                                         "b-00001-of-00002.ggufx",
                                         "b_00001-of-00002.gguf",
                                         "b-0000a-of-00002.gguf",
                                         "b.gguf",
                                         ""};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        cr_expect_not(gguf_parse_part_name(others[i], &p), "%s", others[i]);
}
