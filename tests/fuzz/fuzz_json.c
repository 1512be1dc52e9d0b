/* The JSON reader and writer: the text of an accepted document, written and read again, is the same; a refused
 * one has a place inside the text.  The first two bytes: the greatest depth. */
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "tests/json/json_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* Writes the document into out; false: refused. */
static bool again(const void *text, size_t n, unsigned depth, struct text_buf *out)
{
    struct json_limits limits = {.max_bytes = 1 << 20, .max_depth = depth};
    struct json_writer w = {.out = out};
    struct json_cursor c, skipped;
    char path[JSON_PATH_SIZE];
    enum status st = json_open(&c, text, n, &limits);
    if (st == ST_OK) {
        skipped = c;
        must(json_read_raw(&skipped).n <= n);
        st = json_walk(&c, &w);
        must(w.status == ST_OK);
        must(st == ST_OK ? c.at == skipped.at : st == ST_RANGE); /* beyond all doubles */
    }
    must(c.last <= n);
    must(strlen(json_path(&c, path)) < JSON_PATH_SIZE);
    must(utf8_valid(path, strlen(path)));
    return st == ST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text_buf first = {0}, second = {0};
    if (size < 2)
        return 0;
    unsigned depth = data[0] | (unsigned)data[1] << 8;
    if (again(data + 2, size - 2, depth, &first)) {
        must(utf8_valid(first.data, first.len));
        must(again(first.data, first.len, depth, &second));
        must(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    }
    text_buf_free(&first);
    text_buf_free(&second);
    return 0;
}
