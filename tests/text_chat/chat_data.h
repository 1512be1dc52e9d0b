/* Reading files for the chat tests. */
#ifndef TESTS_TEXT_CHAT_CHAT_DATA_H
#define TESTS_TEXT_CHAT_CHAT_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"

struct bytes {
    char *data; /* ended by NUL; NULL: there is no such file */
    size_t n;
};

static inline struct bytes read_file(const char *path)
{
    struct bytes b = {0};
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f)
        return b;
    fseek(f, 0, SEEK_END);
    b.n = (size_t)ftell(f);
    rewind(f);
    b.data = calloc(1, b.n + 1);
    b.n = fread(b.data, 1, b.n, f);
    fclose(f);
    return b;
}

/* A file of the shared data; format has one %s. */
static inline struct bytes read_data(const char *format, const char *name)
{
    char path[700];
    const char *star = strstr(format, "%s");
    snprintf(path, sizeof path, "%.*s%s%s", (int)(star - format), format, name, star + 2);
    return read_file(shared_data(path));
}

/* {a} and {b} as one object; b's members come last, so that they win. */
static inline char *merge_objects(const char *a, size_t n_a, const char *b, size_t n_b)
{
    char *text = calloc(1, n_a + n_b + 2);
    int empty_a = a[1] == '}' || n_a < 3, empty_b = b[1] == '}' || n_b < 3;
    if (empty_a || empty_b) {
        memcpy(text, empty_a ? b : a, empty_a ? n_b : n_a);
        return text;
    }
    memcpy(text, a, n_a - 1);
    text[n_a - 1] = ',';
    memcpy(text + n_a, b + 1, n_b - 1);
    return text;
}

#endif
