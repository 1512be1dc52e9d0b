/* The safetensors parser and its index: good files, and malformed ones at a guard page. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/safetensors_index.h"
#include "guard.h"
#include "rig.h"
#include "worker/load/safetensors.h"

/* A file with that header and n_data bytes behind it, at a guard page. */
static struct guarded file_of(const char *header, size_t n_data)
{
    size_t n = strlen(header);
    unsigned char *p = calloc(1, 8 + n + n_data);
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(n >> (8 * i));
    memcpy(p + 8, header, n);
    struct guarded g = guard_copy(p, 8 + n + n_data);
    free(p);
    return g;
}

static enum status parse(const char *header, size_t n_data, struct safetensors *out)
{
    struct guarded g = file_of(header, n_data);
    enum status st = safetensors_parse(out, g.data, g.len, "x.safetensors");
    guard_free(&g);
    return st;
}

Test(safetensors, good_files)
{
    struct safetensors s;
    must(parse("{\"__metadata__\":{\"format\":\"pt\"},"
               "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
               "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
               "\"e\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[4,4]}}   ",
               16, &s),
         "parse");
    cr_assert_eq(s.n, 3);
    const struct st_tensor *a = safetensors_find(&s, "a"), *b = safetensors_find(&s, "b");
    cr_assert_eq(a->dtype, DT_F32);
    cr_assert_eq(a->n_dims, 0);
    cr_assert_eq(b->dtype, DT_BF16);
    cr_assert_eq(b->n_dims, 2);
    cr_assert_eq(b->shape[0], 2);
    cr_assert_eq(b->shape[1], 3);
    cr_assert_eq(b->n_bytes, 12);
    cr_assert_eq(b->offset, a->offset + 4);
    cr_assert_eq(safetensors_find(&s, "e")->dtype, DT_N);
    cr_assert_str_eq(safetensors_find(&s, "e")->type_name, "I64");
    cr_assert_null(safetensors_find(&s, "c"));
    char text[40];
    cr_assert_str_eq(shape_text(text, sizeof text, b->shape, b->n_dims), "[2,3]");
    safetensors_fini(&s);
    must(parse("{}", 0, &s), "no tensors");
    cr_assert_null(safetensors_find(&s, "a"));
    safetensors_fini(&s);
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define T(type, shape, off)                                                                        \
    "{\"a\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" off "}}"

static const struct {
    const char *header;
    size_t n_data;
    enum status st;
    const char *text; /* in the message */
} bad[] = {
    {"", 0, ST_FORMAT, "empty"},
    {"[1]", 0, ST_FORMAT, "does not begin with '{'"},
    {"{", 0, ST_FORMAT, "not JSON"},
    {"{} x", 0, ST_FORMAT, "goes on after"},
    {"{" A "," A "}", 8, ST_FORMAT, "\"a\" stands twice"},
    {"{" A "}", 7, ST_FORMAT, "truncated"},
    {"{" A "}", 9, ST_FORMAT, "1 bytes after the last tensor"},
    {"{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, ST_FORMAT,
     "tensors a and b overlap"},
    {"{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", 16, ST_FORMAT,
     "hole of 4 bytes between a and tensor b"},
    {T("F32", "[2]", "[4,12]"), 12, ST_FORMAT, "hole of 4 bytes between the header and tensor a"},
    {T("F32", "[3]", "[0,8]"), 8, ST_FORMAT, "F32 of shape [3] has 12 bytes"},
    {T("F32", "[2]", "[8,0]"), 8, ST_FORMAT, "begin <= end"},
    {T("F32", "[2]", "[-1,7]"), 8, ST_FORMAT, "data_offsets must be"},
    {T("F32", "[2]", "[0.5,8]"), 8, ST_FORMAT, "data_offsets must be"},
    {T("F32", "[2]", "[0,8,8]"), 8, ST_FORMAT, "data_offsets must be"},
    {T("F32", "[2]", "[0,1e300]"), 8, ST_FORMAT, "data_offsets must be"},
    {T("F32", "[2]", "[0,9007199254740992]"), 8, ST_FORMAT, "truncated"},
    {T("F32", "[-2]", "[0,8]"), 8, ST_FORMAT, "not a whole number"},
    {T("F32", "[\"2\"]", "[0,8]"), 8, ST_FORMAT, "not a whole number"},
    {T("F32", "[4294967296,4294967296]", "[0,8]"), 8, ST_FORMAT, "overflows"},
    {T("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, ST_UNSUPPORTED, "more than 8 dimensions"},
    {T("F4", "[3]", "[0,1]"), 1, ST_FORMAT, "whole number of bytes"},
    {T("Q4", "[2]", "[0,8]"), 8, ST_UNSUPPORTED, "unknown dtype \"Q4\""},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, ST_FORMAT, "no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, ST_FORMAT, "no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, ST_FORMAT, "data_offsets"},
    {"{\"a\":7}", 0, ST_FORMAT, "not described by an object"},
    {"{\"a\\u0000b\":{}}", 0, ST_FORMAT, "NUL"},
    {"{\"__metadata__\":3}", 0, ST_FORMAT, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"a\":3}}", 0, ST_FORMAT, "__metadata__.a"},
};

Test(safetensors, bad_files_are_refused_by_name)
{
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct safetensors s;
        cr_assert_eq(parse(bad[i].header, bad[i].n_data, &s), bad[i].st, "%s", bad[i].header);
        cr_assert_not_null(strstr(status_text(), bad[i].text), "%s: \"%s\"", bad[i].header,
                           status_text());
        cr_assert_null(s.tensor);
    }
}

Test(safetensors, lying_header_lengths)
{
    static const unsigned char huge[9] = {255, 255, 255, 255, 255, 255, 255, 255, '{'};
    static const unsigned char large[9] = {0, 0, 0, 1, 0, 0, 0, 0, '{'};
    struct safetensors s;
    for (size_t n = 0; n <= 9; n++) {
        struct guarded g = guard_copy(huge, n);
        cr_assert_eq(safetensors_parse(&s, g.data, g.len, "x"), ST_FORMAT);
        guard_free(&g);
        g = guard_copy(large, n);
        cr_assert_eq(safetensors_parse(&s, g.data, g.len, "x"), ST_FORMAT);
        guard_free(&g);
    }
}

/* Every beginning of a real file is refused. */
Test(safetensors, truncated_anywhere)
{
    char path[1100];
    size_t size;
    struct safetensors s;
    snprintf(path, sizeof path, "%s/model.safetensors", golden_dir("llama-mqa"));
    char *data = read_file(path, &size);
    must(safetensors_parse(&s, data, size, "whole"), "whole");
    size_t header = s.tensor[0].offset;
    for (size_t i = 0; i < s.n; i++)
        header = s.tensor[i].offset < header ? s.tensor[i].offset : header;
    safetensors_fini(&s);
    for (size_t n = 0; n < size; n += n < header + 64 ? 1 : 997) {
        struct guarded g = guard_copy(data, n);
        cr_assert_eq(safetensors_parse(&s, g.data, g.len, "part"), ST_FORMAT, "%zu bytes", n);
        guard_free(&g);
    }
    free(data);
}

static enum status index_of(const char *text, struct st_index *ix)
{
    struct guarded g = guard_copy(text, strlen(text));
    enum status st = st_index_parse(ix, g.data, g.len, "index");
    guard_free(&g);
    return st;
}

Test(safetensors, index)
{
    struct st_index ix;
    must(index_of("{\"metadata\":{},\"weight_map\":{\"z\":\"b.st\",\"a\":\"c.st\",\"m\":\"b.st\"}}",
                  &ix),
         "index");
    cr_assert_eq(ix.n, 3);
    cr_assert_eq(ix.n_files, 2);
    cr_assert_str_eq(ix.file[0], "b.st");
    cr_assert_str_eq(ix.row[0].tensor, "a");
    cr_assert_eq(ix.row[0].file, 1);
    cr_assert_str_eq(ix.row[2].tensor, "z");
    cr_assert_eq(ix.row[2].file, 0);
    st_index_fini(&ix);

    static const char *const names[] = {"../x", "/etc/passwd", "a/b", "..", ".hidden",
                                        "",     "a\\\\b"};
    char text[200];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(text, sizeof text, "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        cr_assert_eq(index_of(text, &ix), ST_FORMAT, "%s", text);
        cr_assert_not_null(strstr(status_text(), "without a directory"), "%s", status_text());
    }
    cr_assert_eq(index_of("{\"weight_map\":{\"a\":3}}", &ix), ST_FORMAT);
    cr_assert_eq(index_of("{\"weight_map\":{}}", &ix), ST_FORMAT);
    cr_assert_eq(index_of("{\"weight_map\":[]}", &ix), ST_FORMAT);
    cr_assert_eq(index_of("{}", &ix), ST_FORMAT);
    cr_assert_eq(index_of("{\"weight_map\":{\"a\":\"b\",\"a\":\"c\"}}", &ix), ST_FORMAT);
    cr_assert_not_null(strstr(status_text(), "\"a\" stands twice"));
}
