/* Documents from standard input, each after its length in a line of its own; for each one line: "ok DOCUMENT"
 * as the reader and the writer make it, or "no STATUS PATH TAB TEXT".  For test_json_python.py. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/json/json_walk.h"

static void answer(const char *text, size_t n)
{
    struct json_cursor c;
    struct text_buf out = {0};
    struct json_writer w = {.out = &out};
    char path[JSON_PATH_SIZE];
    enum status st = json_open(&c, text, n, NULL);
    if (st == ST_OK)
        st = json_walk(&c, &w);
    if (st == ST_OK)
        st = w.status;
    if (st == ST_OK)
        printf("ok %.*s\n", (int)out.len, out.data);
    else
        printf("no %s %s\t%s\n", status_name(st), json_path(&c, path), status_text());
    text_buf_free(&out);
}

int main(void)
{
    unsigned long n;
    while (scanf("%lu", &n) == 1 && getchar() == '\n') {
        char *text = malloc(n ? n : 1);
        if (!text || fread(text, 1, n, stdin) != n)
            return 1;
        answer(text, n);
        free(text);
    }
    return 0;
}
