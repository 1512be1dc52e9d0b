/* Where a byte of the text is: found again from the beginning, only when something has failed. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/json/json_scan.h"
#include "common/utf8.h"

enum { MAX_KEY = 48 /* bytes of a key that are shown */ };

struct level {
    bool is_object;
    struct json_span key; /* p NULL: none yet */
    size_t index;
};

/* The levels around byte c->last; the text before it is well formed. */
static size_t levels_of(const struct json_cursor *c, struct level level[JSON_MAX_DEPTH])
{
    size_t depth = 0, at = 0;
    while (at < c->last) {
        struct level *top = depth ? &level[depth - 1] : NULL;
        char ch = c->text[at++];
        if ((ch == '{' || ch == '[') && depth < JSON_MAX_DEPTH) {
            level[depth++] = (struct level){.is_object = ch == '{'};
        } else if ((ch == '}' || ch == ']') && depth) {
            depth--;
        } else if (ch == ',' && top) {
            top->key.p = NULL;
            top->index++;
        } else if (ch == '"') {
            size_t end = json_string_end(c->text, at, c->last);
            if (end < c->last && top && top->is_object && !top->key.p)
                top->key = (struct json_span){c->text + at, end - at};
            at = end + 1;
        }
    }
    return depth;
}

static bool is_name(struct json_span key)
{
    if (key.n == 0 || key.n > MAX_KEY)
        return false;
    for (size_t i = 0; i < key.n; i++)
        if (!isalnum((unsigned char)key.p[i]) && key.p[i] != '_' && key.p[i] != '-')
            return false;
    return true;
}

/* One step of the path; size is never reached: a key is shown in part. */
static size_t step_text(const struct level *l, bool first, char *out, size_t size)
{
    int n;
    if (!l->is_object) {
        n = snprintf(out, size, "[%zu]", l->index);
    } else if (is_name(l->key)) {
        n = snprintf(out, size, "%s%.*s", first ? "" : ".", (int)l->key.n, l->key.p);
    } else {
        size_t shown = l->key.n <= MAX_KEY ? l->key.n : utf8_valid_prefix(l->key.p, MAX_KEY);
        n = snprintf(out, size, "[\"%.*s\"%s]", (int)shown, l->key.p,
                     shown < l->key.n ? "..." : "");
    }
    return (size_t)n;
}

const char *json_path(const struct json_cursor *c, char out[JSON_PATH_SIZE])
{
    struct level level[JSON_MAX_DEPTH];
    size_t depth = levels_of(c, level), n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < depth; i++) {
        char step[MAX_KEY + 32];
        if (level[i].is_object && !level[i].key.p)
            break; /* the failure is at a key: the path of its object */
        size_t len = step_text(&level[i], i == 0, step, sizeof step);
        if (n + len + sizeof "..." > JSON_PATH_SIZE) {
            strcpy(out + n, "...");
            break;
        }
        memcpy(out + n, step, len + 1);
        n += len;
    }
    return out;
}

enum status json_fail(struct json_cursor *c, enum status code, const char *fmt, ...)
{
    char text[512], path[JSON_PATH_SIZE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    json_path(c, path);
    FAIL(code, "%s%s%s", path, *path ? ": " : "", text);
}
