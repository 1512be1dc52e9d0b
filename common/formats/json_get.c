#include "common/formats/json_get.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    const cJSON *const *x = a, *const *y = b;
    return strcmp((*x)->string, (*y)->string);
}

static enum status check_names(const cJSON *node, const char *what)
{
    size_t n = 0, i = 0;
    for (const cJSON *c = node->child; c; c = c->next) {
        n++;
        if (c->child)
            TRY(check_names(c, what));
    }
    if (!cJSON_IsObject(node) || n < 2)
        return ST_OK;
    const cJSON **sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        FAIL(ST_NOMEM, "%s: no memory for %zu names", what, n);
    for (const cJSON *c = node->child; c; c = c->next)
        sorted[i++] = c;
    qsort(sorted, n, sizeof *sorted, by_name);
    for (i = 1; i < n && strcmp(sorted[i - 1]->string, sorted[i]->string) != 0; i++)
        ;
    const char *twice = i < n ? sorted[i]->string : NULL;
    free(sorted);
    if (twice)
        FAIL(ST_FORMAT, "%s: the name \"%.200s\" stands twice", what, twice);
    return ST_OK;
}

/* cJSON keeps strings NUL-terminated, so a NUL in one would cut it short unseen. */
static bool has_nul(const char *text, size_t len)
{
    if (memchr(text, 0, len))
        return true;
    for (size_t i = 0; i + 6 <= len; i++) {
        if (text[i] != '\\')
            continue;
        if (memcmp(text + i, "\\u0000", 6) == 0)
            return true;
        i++; /* the escaped character */
    }
    return false;
}

enum status json_parse(cJSON **out, const void *text, size_t len, size_t cap, const char *what)
{
    const char *end = NULL;
    *out = NULL;
    if (len > cap)
        FAIL(ST_FORMAT, "%s has %zu bytes: at most %zu are read", what, len, cap);
    if (len == 0)
        FAIL(ST_FORMAT, "%s is empty", what);
    if (has_nul(text, len))
        FAIL(ST_FORMAT, "%s contains a NUL character", what);
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, false);
    if (!root)
        FAIL(ST_FORMAT, "%s is not JSON (at byte %zu of %zu)", what,
             end ? (size_t)(end - (const char *)text) : 0, len);
    for (const char *stop = (const char *)text + len; end < stop; end++) {
        if (!strchr(" \t\r\n", *end)) {
            cJSON_Delete(root);
            FAIL(ST_FORMAT, "%s goes on after the JSON value (at byte %zu)", what,
                 (size_t)(end - (const char *)text));
        }
    }
    enum status st = check_names(root, what);
    if (st != ST_OK) {
        cJSON_Delete(root);
        return st;
    }
    *out = root;
    return ST_OK;
}

/* The bytes of text [len] with Python's words for numbers in JSON's terms, at `to`; how many. */
static size_t plain_numbers(const char *text, size_t len, char *to)
{
    static const struct {
        const char *word, *json;
    } words[] = {{"Infinity", "1e999 "}, {"NaN", "\"NaN\""}};
    size_t n = 0;
    bool quoted = false;
    for (size_t i = 0; i < len;) {
        size_t w = quoted ? ARRAY_LEN(words) : 0, k = 0;
        for (; w < ARRAY_LEN(words); w++) {
            k = strlen(words[w].word);
            if (k <= len - i && memcmp(text + i, words[w].word, k) == 0)
                break;
        }
        if (w < ARRAY_LEN(words)) {
            memcpy(to + n, words[w].json, strlen(words[w].json));
            n += strlen(words[w].json);
            i += k;
            continue;
        }
        if (quoted && text[i] == '\\' && i + 1 < len)
            to[n++] = text[i++];
        else if (text[i] == '"')
            quoted = !quoted;
        to[n++] = text[i++];
    }
    return n;
}

enum status json_parse_python(cJSON **out, const void *text, size_t len, size_t cap,
                              const char *what)
{
    *out = NULL;
    if (len > cap)
        return json_parse(out, text, len, cap, what);
    char *plain = malloc(2 * len + 1); /* NaN grows most, from 3 bytes to 5 */
    if (!plain)
        FAIL(ST_NOMEM, "%s: no memory for %zu bytes", what, 2 * len);
    enum status st = json_parse(out, plain, plain_numbers(text, len, plain), 2 * cap, what);
    free(plain);
    return st;
}

const cJSON *json_member(const cJSON *obj, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(obj, key);
    return item && !cJSON_IsNull(item) ? item : NULL;
}

enum status json_need(const cJSON *obj, const char *key)
{
    if (!json_member(obj, key))
        FAIL(ST_FORMAT, "%s is missing", key);
    return ST_OK;
}

enum status json_double(const cJSON *obj, const char *key, double lo, double hi, double *out)
{
    const cJSON *item = json_member(obj, key);
    if (!item)
        return ST_OK;
    if (!cJSON_IsNumber(item))
        FAIL(ST_FORMAT, "%s must be a number", key);
    double v = item->valuedouble;
    if (!(v >= lo && v <= hi))
        FAIL(ST_RANGE, "%s is %g: it must be between %g and %g", key, v, lo, hi);
    *out = v;
    return ST_OK;
}

enum status json_i32(const cJSON *obj, const char *key, int32_t lo, int32_t hi, int32_t *out)
{
    double v = (double)*out;
    if (!json_member(obj, key))
        return ST_OK;
    TRY(json_double(obj, key, (double)lo, (double)hi, &v));
    if (v != (double)(int32_t)v)
        FAIL(ST_FORMAT, "%s is %g: it must be a whole number", key, v);
    *out = (int32_t)v;
    return ST_OK;
}

enum status json_bool(const cJSON *obj, const char *key, bool *out)
{
    const cJSON *item = json_member(obj, key);
    if (!item)
        return ST_OK;
    if (!cJSON_IsBool(item))
        FAIL(ST_FORMAT, "%s must be true or false", key);
    *out = cJSON_IsTrue(item);
    return ST_OK;
}

enum status json_string(const cJSON *obj, const char *key, const char **out)
{
    const cJSON *item = json_member(obj, key);
    if (!item)
        return ST_OK;
    if (!cJSON_IsString(item))
        FAIL(ST_FORMAT, "%s must be a string", key);
    *out = item->valuestring;
    return ST_OK;
}

bool json_is_u53(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 0x1p53))
        return false;
    *out = (uint64_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}
