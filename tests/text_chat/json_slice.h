/* Cuts raw pieces out of a JSON text that is known to be well-formed, so that a test hands numbers
 * on exactly as they are written. */
#ifndef TESTS_TEXT_CHAT_JSON_SLICE_H
#define TESTS_TEXT_CHAT_JSON_SLICE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct slice {
    const char *p;
    size_t n;
};

static inline const char *js_blank(const char *p)
{
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t' || *p == ',' || *p == ':')
        p++;
    return p;
}

/* The end of the value at p. */
static inline const char *js_end(const char *p)
{
    int depth = 0;
    do {
        if (*p == '"') {
            for (p++; *p != '"'; p++)
                p += *p == '\\';
        } else if (*p == '[' || *p == '{') {
            depth++;
        } else if (*p == ']' || *p == '}') {
            depth--;
        }
        p++;
    } while (depth > 0 ||
             (*p && !strchr(",]} \n\r\t:", *p) && p[-1] != '"' && p[-1] != ']' && p[-1] != '}'));
    return p;
}

static inline struct slice js_member(struct slice object, const char *name)
{
    struct slice key, value;
    const char *p = js_blank(object.p + 1);
    while (*p != '}') {
        key = (struct slice){p + 1, (size_t)(js_end(p) - p) - 2};
        p = js_blank(js_end(p));
        value = (struct slice){p, (size_t)(js_end(p) - p)};
        if (key.n == strlen(name) && memcmp(key.p, name, key.n) == 0)
            return value;
        p = js_blank(p + value.n);
    }
    return (struct slice){NULL, 0};
}

/* Item i of a list; p NULL: there are fewer. */
static inline struct slice js_item(struct slice list, size_t i)
{
    const char *p = js_blank(list.p + 1);
    for (; *p != ']'; i--) {
        size_t n = (size_t)(js_end(p) - p);
        if (i == 0)
            return (struct slice){p, n};
        p = js_blank(p + n);
    }
    return (struct slice){NULL, 0};
}

static inline bool js_is(struct slice s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

/* A plain string without escapes, as C text (to be freed). */
static inline char *js_text(struct slice s)
{
    char *text = malloc(s.n - 1);
    memcpy(text, s.p + 1, s.n - 2);
    text[s.n - 2] = 0;
    return text;
}

#endif
