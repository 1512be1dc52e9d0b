/* The GGUF parser: files written here are read back; malformed ones are refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/gguf.h"
#include "data.h"
#include "tests/text/gguf_writer.h"

static void put_scalar(struct file *f, const char *key, enum gguf_type type, uint64_t v, size_t n)
{
    put_str(f, key);
    put_int(f, type, 4);
    put_int(f, v, n);
}

static void put_tensor(struct file *f, const char *name, uint32_t dims, const uint64_t *ne,
                       uint32_t type, uint64_t at)
{
    put_str(f, name);
    put_int(f, dims, 4);
    for (uint32_t i = 0; i < dims && i < 8; i++)
        put_int(f, ne[i], 8);
    put_int(f, type, 4);
    put_int(f, at, 8);
}

static void put_data(struct file *f, size_t n)
{
    while (f->n % 32)
        put_int(f, 0, 1);
    for (size_t i = 0; i < n; i++)
        put_int(f, i & 0xFF, 1);
}

/* The bytes exactly as long as they are, so that the address sanitizer sees a read past the end. */
static enum status parse(struct gguf **g, const struct file *f, void **copy)
{
    *copy = malloc(f->n ? f->n : 1);
    cr_assert_not_null(*copy);
    memcpy(*copy, f->bytes, f->n);
    return gguf_parse(g, *copy, f->n);
}

static void expect_refusal(const struct file *f, enum status want, const char *says)
{
    struct gguf *g;
    void *copy;
    enum status st = parse(&g, f, &copy);
    cr_expect_eq(st, want, "%s: %s", status_name(st), status_text());
    cr_expect_null(g);
    cr_expect(strstr(status_text(), says), "\"%s\" does not say \"%s\"", status_text(), says);
    gguf_free(g);
    free(copy);
}

static const uint64_t one_row[] = {32, 2};

static void whole_file(struct file *f)
{
    put_header(f, 2, 6);
    put_scalar(f, "u", GGUF_U16, 65535, 2);
    put_scalar(f, "i", GGUF_I8, 0xFE, 1);
    put_scalar(f, "b", GGUF_BOOL, 1, 1);
    put_scalar(f, "f", GGUF_F32, 0x3FC00000, 4);
    put_str(f, "s");
    put_int(f, GGUF_STRING, 4);
    put_str(f, "text");
    put_str(f, "a");
    put_int(f, GGUF_ARRAY, 4);
    put_int(f, GGUF_STRING, 4);
    put_int(f, 2, 8);
    put_str(f, "x");
    put_str(f, "yz");
    put_tensor(f, "w", 2, one_row, GGML_Q8_0, 0);
    put_tensor(f, "v", 1, (const uint64_t[]){3}, GGML_F32, 96);
    put_data(f, 108);
}

Test(gguf, reads_what_was_written)
{
    struct file f;
    struct gguf *g;
    void *copy;
    uint64_t u;
    int64_t i;
    double d;
    bool b;
    struct gguf_str s;
    struct gguf_array a;
    struct gguf_cursor c = {0};
    whole_file(&f);
    cr_assert_eq(parse(&g, &f, &copy), ST_OK, "%s", status_text());
    cr_expect(gguf_get_u64(g, "u", &u) == ST_OK && u == 65535);
    cr_expect(gguf_get_i64(g, "i", &i) == ST_OK && i == -2);
    cr_expect(gguf_get_bool(g, "b", &b) == ST_OK && b);
    cr_expect(gguf_get_f64(g, "f", &d) == ST_OK && d == 1.5);
    cr_expect(gguf_get_str(g, "s", &s) == ST_OK && s.len == 4 && memcmp(s.data, "text", 4) == 0);
    cr_expect(gguf_get_array(g, "a", GGUF_STRING, &a) == ST_OK && a.n == 2);
    gguf_array_next(&a, &c);
    s = gguf_array_next(&a, &c);
    cr_expect(s.len == 2 && memcmp(s.data, "yz", 2) == 0);
    cr_expect_eq(gguf_get_u64(g, "none", &u), ST_NOT_FOUND);
    cr_expect_eq(gguf_get_u64(g, "i", &u), ST_RANGE);
    cr_expect_eq(gguf_get_u64(g, "s", &u), ST_FORMAT);
    cr_expect(strstr(status_text(), "\"s\" is of type string"));
    cr_expect_eq(gguf_get_array(g, "a", GGUF_F32, &a), ST_FORMAT);
    const struct gguf_tensor *w = gguf_find_tensor(g, "w"), *v = gguf_find_tensor(g, "v");
    cr_assert(w && v && gguf_n_tensors(g) == 2 && !gguf_find_tensor(g, "none"));
    cr_expect(w->n_bytes == 68 && w->n_elements == 64 && w->ne[1] == 2 && w->ne[3] == 1);
    cr_expect(v->n_bytes == 12 && v->data[0] == 96 && v->data == (unsigned char *)copy + v->offset);
    gguf_free(g);
    free(copy);
}

/* Every shorter file is refused; none is read past its end. */
Test(gguf, refuses_every_truncation)
{
    struct file f;
    whole_file(&f);
    for (size_t n = f.n; n-- > 0;) {
        struct gguf *g;
        void *copy;
        f.n = n;
        cr_expect_neq(parse(&g, &f, &copy), ST_OK, "%zu bytes", n);
        gguf_free(g);
        free(copy);
    }
}

static void one_tensor(struct file *f, uint32_t dims, const uint64_t *ne, uint32_t type,
                       uint64_t at)
{
    put_header(f, 1, 0);
    put_tensor(f, "bad", dims, ne, type, at);
    put_data(f, 256);
}

Test(gguf, refuses_bad_tensors)
{
    static const uint64_t huge[] = {(uint64_t)1 << 40, (uint64_t)1 << 40, 1, 1, 1};
    static const uint64_t odd[] = {33, 1}, zero[] = {0}, negative[] = {UINT64_MAX}, large[] = {100},
                          fits[] = {32};
    struct file f;
    one_tensor(&f, 2, huge, GGML_F32, 0);
    expect_refusal(&f, ST_FORMAT, "\"bad\": its dimensions overflow");
    one_tensor(&f, 5, huge, GGML_F32, 0);
    expect_refusal(&f, ST_FORMAT, "5 dimensions");
    one_tensor(&f, 2, odd, GGML_Q4_0, 0);
    expect_refusal(&f, ST_FORMAT, "no multiple of the 32");
    one_tensor(&f, 1, zero, GGML_F32, 0);
    expect_refusal(&f, ST_FORMAT, "dimension 0 is 0");
    one_tensor(&f, 1, negative, GGML_F32, 0);
    expect_refusal(&f, ST_FORMAT, "dimension 0");
    one_tensor(&f, 1, large, GGML_F32, 0);
    expect_refusal(&f, ST_FORMAT, "beyond the end");
    one_tensor(&f, 1, fits, GGML_F32, (uint64_t)1 << 63);
    expect_refusal(&f, ST_FORMAT, "beyond the end");
    one_tensor(&f, 1, fits, GGML_F32, 4);
    expect_refusal(&f, ST_FORMAT, "not aligned");
    one_tensor(&f, 1, fits, 99, 0);
    expect_refusal(&f, ST_UNSUPPORTED, "unknown type 99");
    put_header(&f, 2, 0);
    put_tensor(&f, "a", 1, fits, GGML_F32, 0);
    put_tensor(&f, "b", 1, fits, GGML_F32, 96);
    put_data(&f, 256);
    expect_refusal(&f, ST_FORMAT, "\"a\" and \"b\" overlap");
    put_header(&f, 2, 0);
    put_tensor(&f, "a", 1, fits, GGML_F32, 0);
    put_tensor(&f, "a", 1, fits, GGML_F32, 128);
    put_data(&f, 256);
    expect_refusal(&f, ST_FORMAT, "\"a\" stands twice");
}

Test(gguf, refuses_bad_metadata)
{
    struct file f;
    put_header(&f, 0, 2);
    put_scalar(&f, "k", GGUF_U8, 1, 1);
    put_scalar(&f, "k", GGUF_U8, 1, 1);
    expect_refusal(&f, ST_FORMAT, "\"k\" stands twice");
    put_header(&f, 0, 1);
    put_scalar(&f, "k", GGUF_BOOL, 2, 1);
    expect_refusal(&f, ST_FORMAT, "neither true nor false");
    put_header(&f, 0, 1);
    put_scalar(&f, "k", (enum gguf_type)77, 0, 8);
    expect_refusal(&f, ST_UNSUPPORTED, "unknown type 77");
    put_header(&f, 0, 1);
    put_str(&f, "k");
    put_int(&f, GGUF_ARRAY, 4);
    put_int(&f, GGUF_U32, 4);
    put_int(&f, UINT64_MAX / 2, 8);
    expect_refusal(&f, ST_FORMAT, "more than the file holds");
    put_header(&f, 0, 1);
    put_scalar(&f, "general.alignment", GGUF_U32, 3, 4);
    expect_refusal(&f, ST_FORMAT, "general.alignment 3");
    put_header(&f, 0, UINT64_MAX);
    expect_refusal(&f, ST_RANGE, "keys");
    put_header(&f, UINT64_MAX, 0);
    expect_refusal(&f, ST_RANGE, "tensors");
    put_header(&f, 0, 0);
    f.bytes[4] = 1;
    expect_refusal(&f, ST_UNSUPPORTED, "version 1");
    f.bytes[0] = 'X';
    expect_refusal(&f, ST_FORMAT, "does not begin");
}

static void one_key(struct file *f, const char *key, size_t n)
{
    put_header(f, 0, 1);
    put_int(f, n, 8);
    put(f, key, n);
    put_int(f, GGUF_U8, 4);
    put_int(f, 1, 1);
}

/* Names go to terminals: what could steer one is refused, and shown so that it cannot. */
Test(gguf, refuses_names_that_are_no_text)
{
    static const struct {
        const char *name;
        size_t n;
        const char *shown;
    } rows[] = {
        {"", 0, "\"\""},
        {"a\0b", 3, "a\\x00b"},
        {"\x1b[2Jx", 5, "\\x1b[2Jx"},
        {"line\n", 5, "line\\x0a"},
        {"del\x7f", 4, "del\\x7f"},
        {"\xff\xfe", 2, "\\xff\\xfe"},
        {"c1\xc2\x9bK", 5, "c1\\xc2\\x9bK"},
        {"half\xc2", 5, "half\\xc2"},
    };
    struct file f;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        one_key(&f, rows[i].name, rows[i].n);
        expect_refusal(&f, ST_FORMAT, rows[i].shown);
        for (const char *c = status_text(); *c; c++)
            cr_expect(*c >= 0x20 && *c < 0x7F);
        put_header(&f, 1, 0);
        put_int(&f, rows[i].n, 8);
        put(&f, rows[i].name, rows[i].n);
        put_int(&f, 0, 4);
        put_int(&f, GGML_F32, 4);
        put_int(&f, 0, 8);
        put_data(&f, 64);
        expect_refusal(&f, ST_FORMAT, rows[i].shown);
    }
    one_key(&f, "gr\xc3\xbc\xc3\x9f", 6); /* other letters are text */
    struct gguf *g;
    void *copy;
    cr_expect_eq(parse(&g, &f, &copy), ST_OK, "%s", status_text());
    gguf_free(g);
    free(copy);
}

Test(gguf, refuses_alignments_that_cannot_be)
{
    static const uint64_t values[] = {0, 3, 24, 131072, UINT32_MAX};
    struct file f;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        put_header(&f, 1, 1);
        put_scalar(&f, "general.alignment", GGUF_U32, values[i], 4);
        put_tensor(&f, "t", 1, (const uint64_t[]){4}, GGML_F32, 0);
        put_data(&f, 16);
        expect_refusal(&f, ST_FORMAT, "general.alignment");
    }
    put_header(&f, 1, 1);
    put_scalar(&f, "general.alignment", GGUF_U32, 65536, 4); /* the file ends before it */
    put_tensor(&f, "t", 1, (const uint64_t[]){4}, GGML_F32, 0);
    put_data(&f, 16);
    expect_refusal(&f, ST_FORMAT, "ends before the tensors' data");
}

Test(gguf, refuses_lengths_that_lie)
{
    static const uint64_t lengths[] = {65536, UINT32_MAX, (uint64_t)1 << 63, UINT64_MAX};
    struct file f;
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        put_header(&f, 0, 1);
        put_int(&f, lengths[i], 8);
        put_int(&f, 0, 8);
        expect_refusal(&f, ST_FORMAT, "the length of a key");
        put_header(&f, 0, 1);
        put_str(&f, "k");
        put_int(&f, GGUF_STRING, 4);
        put_int(&f, lengths[i], 8);
        expect_refusal(&f, ST_FORMAT, "the length of a string");
        put_header(&f, 0, 1);
        put_str(&f, "k");
        put_int(&f, GGUF_ARRAY, 4);
        put_int(&f, GGUF_STRING, 4);
        put_int(&f, 1, 8);
        put_int(&f, lengths[i], 8);
        expect_refusal(&f, ST_FORMAT, "the length of a string of an array");
    }
    put_header(&f, 0, 1);
    put_str(&f, "k");
    put_int(&f, GGUF_ARRAY, 4);
    put_int(&f, GGUF_ARRAY, 4); /* arrays of arrays */
    put_int(&f, 1, 8);
    expect_refusal(&f, ST_UNSUPPORTED, "an array of type 9");
}

Test(gguf, refuses_parts_that_lie)
{
    static const struct {
        uint64_t no, count, tensors;
        const char *says;
    } rows[] = {
        {2, 2, 0, "split.no is 2"},
        {0, 100000, 0, "split.count is 100000"},
        {0, 2, (uint64_t)1 << 40, "split.tensors.count"},
    };
    struct file f;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        put_header(&f, 0, 3);
        put_scalar(&f, "split.no", GGUF_U64, rows[i].no, 8);
        put_scalar(&f, "split.count", GGUF_U64, rows[i].count, 8);
        put_scalar(&f, "split.tensors.count", GGUF_U64, rows[i].tensors, 8);
        expect_refusal(&f, ST_FORMAT, rows[i].says);
    }
    put_header(&f, 0, 1);
    put_scalar(&f, "split.count", GGUF_I16, 0xFFFF, 2);
    expect_refusal(&f, ST_RANGE, "split.count");
}
