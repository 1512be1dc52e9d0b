/* The JSON reader and writer: tables of documents, each reader, limits, memory bounds. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "model/guard.h"
#include "tests/json/json_walk.h"
#include "json/json_table.h"

static struct json_cursor open_text(const char *text)
{
    struct json_cursor c;
    cr_assert_eq(json_open(&c, text, strlen(text), NULL), ST_OK, "%s: %s", text, status_text());
    return c;
}

static struct text_buf walked(struct json_cursor *c)
{
    struct text_buf out = {0};
    struct json_writer w = {.out = &out};
    cr_assert_eq(json_walk(c, &w), ST_OK, "%s", status_text());
    cr_assert_eq(w.status, ST_OK);
    cr_assert_eq(text_buf_append(&out, "", 1), ST_OK);
    return out;
}

Test(json, accepts)
{
    cr_assert_geq(n_json_good, 100);
    for (size_t i = 0; i < n_json_good; i++) {
        const struct json_good *row = &json_good[i];
        struct guarded g = guard_copy(row->in, row->n);
        struct json_cursor c;
        cr_assert_eq(json_open(&c, g.data, g.len, NULL), ST_OK, "%s: %s", row->in, status_text());
        struct text_buf out = walked(&c);
        cr_expect_str_eq(out.data, row->out, "%s gives %s", row->in, out.data);
        text_buf_free(&out);
        guard_free(&g);
    }
}

Test(json, refuses)
{
    cr_assert_geq(n_json_bad, 150);
    for (size_t i = 0; i < n_json_bad; i++) {
        const struct json_bad *row = &json_bad[i];
        struct guarded g = guard_copy(row->in, row->n);
        struct json_cursor c;
        char path[JSON_PATH_SIZE], byte[40];
        cr_expect_eq(json_open(&c, g.data, g.len, NULL), ST_FORMAT, "accepted: %s", row->in);
        snprintf(byte, sizeof byte, "(byte %zu)", row->byte);
        cr_expect_neq(strstr(status_text(), byte), NULL, "%s: %s", row->in, status_text());
        cr_expect_neq(strstr(status_text(), row->text), NULL, "%s: %s", row->in, status_text());
        cr_expect_eq(c.last, row->byte, "%s: byte %zu", row->in, c.last);
        cr_expect_str_eq(json_path(&c, path), row->path, "%s: path %s", row->in, path);
        cr_expect_eq(strncmp(status_text(), row->path, strlen(row->path)), 0);
        guard_free(&g);
    }
}

/* Every beginning of every document ends in a status and reads no byte too many. */
Test(json, truncated)
{
    for (size_t i = 0; i < n_json_good; i++) {
        for (size_t n = 0; n < json_good[i].n; n++) {
            struct guarded g = guard_copy(json_good[i].in, n);
            struct json_cursor c;
            if (json_open(&c, g.data, g.len, NULL) == ST_OK) {
                struct text_buf out = walked(&c);
                text_buf_free(&out);
            }
            guard_free(&g);
        }
    }
}

Test(json, depth)
{
    char text[2 * JSON_MAX_DEPTH + 2];
    struct json_limits limits = {.max_bytes = sizeof text, .max_depth = 5};
    struct json_cursor c;
    cr_expect_eq(json_open(&c, "[[[[[]]]]]", 10, &limits), ST_OK);
    cr_expect_eq(json_open(&c, "[[[[{\"a\":[1]}]]]]", 17, &limits), ST_RANGE);
    cr_expect_str_eq(status_text(),
                     "[0][0][0][0].a: more than 5 arrays and objects inside each other (byte 9)");
    memset(text, '[', JSON_MAX_DEPTH + 1);
    memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
    cr_expect_eq(json_open(&c, text, sizeof text, NULL), ST_RANGE);
    cr_expect_eq(json_open(&c, text + 1, sizeof text - 2, NULL), ST_OK);
    struct text_buf out = walked(&c);
    cr_expect_eq(out.len - 1, sizeof text - 2);
    text_buf_free(&out);
}

Test(json, bytes)
{
    struct json_limits limits = {.max_bytes = 4, .max_depth = 5};
    struct json_cursor c;
    cr_expect_eq(json_open(&c, "1234", 4, &limits), ST_OK);
    cr_expect_eq(json_open(&c, "12345", 5, &limits), ST_RANGE);
    cr_expect_str_eq(status_text(), "5 bytes of JSON where at most 4 are allowed");
}

Test(json, many_keys)
{
    struct text_buf text = {0};
    struct json_writer w = {.out = &text};
    struct json_cursor c;
    struct json_span key;
    char name[16];
    json_write_object(&w);
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "%d", i * 7919 % 20000);
        json_member_i64(&w, name, i);
    }
    json_write_end_object(&w);
    cr_assert_eq(w.status, ST_OK);
    cr_assert_eq(json_open(&c, text.data, text.len, NULL), ST_OK);
    cr_assert_eq(json_enter_object(&c), ST_OK);
    int64_t n = 0, v;
    for (; json_next_key(&c, &key); n++) {
        cr_assert_eq(json_read_i64(&c, 0, 20000, &v), ST_OK);
        cr_assert_eq(v, n);
    }
    cr_expect_eq(n, 20000);
    memcpy(strstr(text.data, "\"19999\""), "\"10000\"", 7);
    cr_expect_eq(json_open(&c, text.data, text.len, NULL), ST_FORMAT);
    cr_expect_neq(strstr(status_text(), "\"10000\" is there twice"), NULL);
    text_buf_free(&text);
}

/* ---- the readers ---- */

struct whole_row {
    const char *text;
    int64_t lo, hi;
    const char *error; /* NULL: v */
    int64_t v;
};

Test(json, i64)
{
    static const struct whole_row rows[] = {
        {"9223372036854775807", INT64_MIN, INT64_MAX, NULL, INT64_MAX},
        {"-9223372036854775808", INT64_MIN, INT64_MAX, NULL, INT64_MIN},
        {"-9223372036854775808.000", INT64_MIN, INT64_MAX, NULL, INT64_MIN},
        {"-0", 0, 5, NULL, 0},
        {"5", 0, 5, NULL, 5},
        {"5e0", 0, 5, NULL, 5},
        {"6", 0, 5, "it must be between 0 and 5", 0},
        {"-1", 0, 5, "it must be between 0 and 5", 0},
        {"-1e300", 0, 5, "it must be between 0 and 5", 0},
        {"9223372036854775808", INT64_MIN, INT64_MAX,
         "it must be between -9223372036854775808 and 9223372036854775807", 0},
        {"-9223372036854775809", INT64_MIN, INT64_MAX,
         "it must be between -9223372036854775808 and 9223372036854775807", 0},
        {"1e19", INT64_MIN, INT64_MAX,
         "it must be between -9223372036854775808 and 9223372036854775807", 0},
        {"1e99999999999999999999999999", 0, 5, "it must be between 0 and 5", 0},
        {"1e-99999999999999999999999999", 0, 5,
         "1e-99999999999999999999999999 is not a whole number", 0},
        {"1.5", 0, 5, "1.5 is not a whole number", 0},
        {"0.1", 0, 5, "0.1 is not a whole number", 0},
        {"true", 0, 5, "expected a number, found true or false (byte 0)", 0},
        {"\"1\"", 0, 5, "expected a number, found a string (byte 0)", 0},
        {"[1]", 0, 5, "expected a number, found an array (byte 0)", 0},
        {"{}", 0, 5, "expected a number, found an object (byte 0)", 0},
        {"null", 0, 5, "expected a number, found null (byte 0)", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct json_cursor c = open_text(rows[i].text);
        int64_t v = 0;
        enum status st = json_read_i64(&c, rows[i].lo, rows[i].hi, &v);
        cr_expect_eq(st == ST_OK, !rows[i].error, "%s", rows[i].text);
        cr_expect_eq(v, rows[i].v, "%s: %lld", rows[i].text, (long long)v);
        if (rows[i].error)
            cr_expect_str_eq(status_text(), rows[i].error);
    }
}

Test(json, u64)
{
    struct json_cursor c = open_text("[18446744073709551615,0,-0.0,18446744073709551616,-1,2.5]");
    uint64_t v;
    cr_assert_eq(json_enter_array(&c), ST_OK);
    cr_assert(json_next_item(&c));
    cr_expect_eq(json_read_u64(&c, 0, UINT64_MAX, &v), ST_OK);
    cr_expect_eq(v, UINT64_MAX);
    for (int i = 0; i < 2; i++) {
        cr_assert(json_next_item(&c));
        cr_expect_eq(json_read_u64(&c, 0, UINT64_MAX, &v), ST_OK);
        cr_expect_eq(v, 0);
    }
    for (int i = 0; i < 3; i++) {
        cr_assert(json_next_item(&c));
        cr_expect_eq(json_read_u64(&c, 0, UINT64_MAX, &v), ST_RANGE);
    }
    cr_expect_str_eq(status_text(), "[5]: 2.5 is not a whole number");
    cr_expect_not(json_next_item(&c));
}

Test(json, doubles)
{
    struct json_cursor c = open_text("{\"t\":0.1,\"p\":1e999,\"q\":-1e999,\"r\":1.5,\"s\":\"x\"}");
    struct json_span key;
    double v = 0;
    cr_assert_eq(json_enter_object(&c), ST_OK);
    cr_assert(json_next_key(&c, &key));
    cr_expect_eq(json_read_double(&c, 0, 2, &v), ST_OK);
    cr_expect_eq(v, 0.1);
    cr_assert(json_next_key(&c, &key));
    cr_expect_eq(json_read_double(&c, -INFINITY, INFINITY, &v), ST_RANGE);
    cr_expect_str_eq(status_text(), "p: the number is too large");
    cr_assert(json_next_key(&c, &key));
    cr_expect_eq(json_read_double(&c, -INFINITY, INFINITY, &v), ST_RANGE);
    cr_assert(json_next_key(&c, &key));
    cr_expect_eq(json_read_double(&c, 0, 1, &v), ST_RANGE);
    cr_expect_str_eq(status_text(), "r: it must be between 0 and 1");
    cr_assert(json_next_key(&c, &key));
    cr_expect_eq(json_read_double(&c, 0, 1, &v), ST_FORMAT);
    cr_expect_str_eq(status_text(), "s: expected a number, found a string (byte 42)");
    cr_expect_eq(v, 0.1);
}

Test(json, a_long_number)
{
    char text[4001];
    struct json_cursor c;
    double v;
    int64_t i;
    memset(text, '0', sizeof text);
    text[0] = '1';
    text[1] = '.';
    text[4000] = '1';
    cr_assert_eq(json_open(&c, text, sizeof text, NULL), ST_OK);
    struct json_cursor again = c;
    cr_expect_eq(json_read_double(&c, 0, 2, &v), ST_OK);
    cr_expect_eq(v, 1.0);
    cr_expect_eq(json_read_i64(&again, 0, 2, &i), ST_RANGE);
}

Test(json, strings)
{
    struct json_cursor c =
        open_text("[\"a\\u0000b\",\"tool\\u002d\\n\",\"12345\",\"123456\",\"x\\u0000\"]");
    struct text_buf s = {0};
    char small[6];
    cr_assert_eq(json_enter_array(&c), ST_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert(json_next_item(&c));
        cr_assert_eq(json_read_string(&c, &s), ST_OK);
    }
    cr_expect_eq(s.len, 9);
    cr_expect_eq(memcmp(s.data, "a\0btool-\n", 9), 0);
    cr_assert(json_next_item(&c));
    cr_expect_eq(json_read_chars(&c, small, sizeof small), ST_OK);
    cr_expect_str_eq(small, "12345");
    cr_assert(json_next_item(&c));
    cr_expect_eq(json_read_chars(&c, small, sizeof small), ST_RANGE);
    cr_expect_str_eq(status_text(), "[3]: it is longer than 5 bytes");
    cr_assert(json_next_item(&c));
    cr_expect_eq(json_read_chars(&c, small, sizeof small), ST_RANGE);
    cr_expect_str_eq(status_text(), "[4]: it has the character \\u0000 inside");
    text_buf_free(&s);
}

Test(json, choices)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    struct json_cursor c = open_text("[\"us\\u0065r\",\"robot\",\"\",\"users\",1]");
    size_t i = 9;
    cr_assert_eq(json_enter_array(&c), ST_OK);
    cr_assert(json_next_item(&c));
    cr_expect_eq(json_read_choice(&c, roles, 3, &i), ST_OK);
    cr_expect_eq(i, 1);
    for (int k = 0; k < 3; k++) {
        cr_assert(json_next_item(&c));
        cr_expect_eq(json_read_choice(&c, roles, 3, &i), ST_RANGE);
    }
    cr_expect_str_eq(status_text(), "[3]: it must be one of system, user, assistant");
    cr_assert(json_next_item(&c));
    cr_expect_eq(json_read_choice(&c, roles, 3, &i), ST_FORMAT);
}

Test(json, names_after_escapes)
{
    struct json_cursor c = open_text("{\"m\\u006fdel\":1,\"model2\":2,\"mode\":3,\"\":4}");
    static const char *const names[] = {"model", "model2", "mode", ""};
    struct json_span key;
    cr_assert_eq(json_enter_object(&c), ST_OK);
    for (size_t i = 0; json_next_key(&c, &key); i++)
        for (size_t k = 0; k < ARRAY_LEN(names); k++)
            cr_expect_eq(json_span_is(key, names[k]), i == k, "%zu %s", i, names[k]);
}

/* Values that are not read are skipped, nested ones too; a copy of the cursor is a bookmark. */
Test(json, skipped)
{
    struct json_cursor c =
        open_text("{\"a\":[1,{\"b\":\"]}\\\"\"}],\"c\":-1.5e3,\"d\":{},\"e\":null,\"f\":7}");
    struct json_cursor start = c, a = c;
    struct json_span key;
    int64_t v = 0;
    int n = 0;
    cr_assert_eq(json_enter_object(&c), ST_OK);
    while (json_next_key(&c, &key)) {
        n++;
        if (json_span_is(key, "a"))
            a = c;
        if (json_span_is(key, "e"))
            cr_expect(json_take_null(&c));
        if (json_span_is(key, "f"))
            cr_expect_eq(json_read_i64(&c, 0, 9, &v), ST_OK);
    }
    cr_expect_eq(n, 5);
    cr_expect_eq(v, 7);
    struct json_span raw = json_read_raw(&a);
    cr_expect_eq(raw.n, 16);
    cr_expect_eq(strncmp(raw.p, "[1,{\"b\":\"]}\\\"\"}]", 16), 0);
    cr_expect_eq(json_read_raw(&start).n, strlen(start.text));
}

Test(json, a_callers_own_check)
{
    struct json_cursor c = open_text("{\"messages\":[{\"role\":\"x\"}]}");
    struct json_span key;
    char path[JSON_PATH_SIZE];
    cr_assert_eq(json_enter_object(&c), ST_OK);
    cr_assert(json_next_key(&c, &key));
    cr_assert_eq(json_enter_array(&c), ST_OK);
    cr_assert(json_next_item(&c));
    cr_assert_eq(json_enter_object(&c), ST_OK);
    cr_assert(json_next_key(&c, &key));
    cr_expect_eq(
        json_fail(&c, ST_UNSUPPORTED, "not the role '%.*s'", (int)json_read_raw(&c).n, "x"),
        ST_UNSUPPORTED);
    cr_expect_str_eq(status_text(), "messages[0].role: not the role 'x'");
    cr_expect_str_eq(json_path(&c, path), "messages[0].role");
}

Test(json, long_paths_and_keys_are_cut)
{
    struct text_buf text = {0};
    struct json_writer w = {.out = &text};
    struct json_cursor c;
    char key[301], path[JSON_PATH_SIZE];
    for (size_t i = 0; i + 2 < sizeof key; i += 2)
        memcpy(key + i, "\xc3\xa9", 3);
    for (int i = 0; i < 8; i++) {
        json_write_object(&w);
        json_write_key(&w, key);
    }
    json_write_raw(&w, "?", 1);
    cr_assert_eq(json_open(&c, text.data, text.len, NULL), ST_FORMAT);
    json_path(&c, path);
    cr_expect_lt(strlen(path), JSON_PATH_SIZE);
    cr_expect_eq(strncmp(path, "[\"\xc3\xa9\xc3\xa9", 6), 0);
    cr_expect_str_eq(path + strlen(path) - 3, "...");
    text_buf_free(&text);
}

/* ---- the writer ---- */

Test(json, writer)
{
    struct text_buf out = {0};
    struct json_writer w = {.out = &out};
    json_write_object(&w);
    json_member_string(&w, "id", "a\"b\\c\n\x01\x7f");
    json_member_i64(&w, "min", INT64_MIN);
    json_member_u64(&w, "max", UINT64_MAX);
    json_member_bool(&w, "yes", true);
    json_member_null(&w, "none");
    json_write_key(&w, "list");
    json_write_array(&w);
    json_write_array(&w);
    json_write_end_array(&w);
    json_write_object(&w);
    json_write_end_object(&w);
    json_write_bool(&w, false);
    json_write_raw(&w, "{\"x\":1}", 7);
    json_write_bytes(&w, "a\0b", 3);
    json_write_end_array(&w);
    json_write_end_object(&w);
    cr_assert_eq(w.status, ST_OK);
    cr_assert_eq(text_buf_append(&out, "", 1), ST_OK);
    cr_expect_str_eq(out.data, "{\"id\":\"a\\\"b\\\\c\\n\\u0001\x7f\",\"min\":-9223372036854775808,"
                               "\"max\":18446744073709551615,\"yes\":true,\"none\":null,"
                               "\"list\":[[],{},false,{\"x\":1},\"a\\u0000b\"]}");
    text_buf_free(&out);
}

Test(json, writer_replaces_what_is_not_utf8)
{
    struct text_buf out = {0};
    struct json_writer w = {.out = &out};
    json_write_bytes(&w, "\xe2\x82", 2);
    json_write_bytes(&w, "a\xff\xc3\xa9\x80\"", 6);
    cr_assert_eq(text_buf_append(&out, "", 1), ST_OK);
    cr_expect_str_eq(out.data,
                     "\"\xef\xbf\xbd\xef\xbf\xbd\",\"a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\\\"\"");
    text_buf_free(&out);
}

Test(json, writer_floats)
{
    static const struct {
        float v;
        const char *text;
    } rows[] = {{0.0f, "0"},
                {-9999.0f, "-9999"},
                {0.1f, "0.1"},
                {-0.1f, "-0.1"},
                {1.0f / 3, "0.33333334"},
                {16777216.0f, "16777216"},
                {1e-10f, "1e-10"},
                {3.4028235e38f, "3.4028235e+38"},
                {-1.5f, "-1.5"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct text_buf out = {0};
        struct json_writer w = {.out = &out};
        json_write_f32(&w, rows[i].v);
        cr_assert_eq(text_buf_append(&out, "", 1), ST_OK);
        cr_expect_str_eq(out.data, rows[i].text);
        text_buf_free(&out);
    }
}

Test(json, writer_floats_come_back)
{
    uint32_t x = 1;
    for (int i = 0; i < 20000; i++) {
        float v;
        struct text_buf out = {0};
        struct json_writer w = {.out = &out};
        x = x * 1664525u + 1013904223u;
        memcpy(&v, &x, sizeof v);
        if (!isfinite(v))
            continue;
        json_write_f32(&w, v);
        cr_assert_eq(text_buf_append(&out, "", 1), ST_OK);
        cr_assert_eq(strtof(out.data, NULL), v, "%s", out.data);
        text_buf_free(&out);
    }
}

Test(json, writer_refuses_nan)
{
    struct text_buf out = {0};
    struct json_writer w = {.out = &out};
    json_write_f32(&w, NAN);
    cr_expect_eq(w.status, ST_BUG);
    json_write_i64(&w, 1);
    cr_expect_eq(out.len, 0);
    text_buf_free(&out);
}
