#include "common/digest/json_digest.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"

static void put_number(struct sha256 *s, uint64_t v)
{
    unsigned char bytes[8];
    struct byte_writer w = {.data = bytes, .cap = sizeof bytes};
    put_u64(&w, v);
    sha256_update(s, bytes, sizeof bytes);
}

static void put_text(struct sha256 *s, const char *text)
{
    put_number(s, strlen(text));
    sha256_update(s, text, strlen(text));
}

static int by_name(const void *a, const void *b)
{
    const cJSON *const *x = a, *const *y = b;
    return strcmp((*x)->string, (*y)->string);
}

static enum status put_object(struct sha256 *s, const cJSON *object)
{
    size_t n = (size_t)cJSON_GetArraySize(object), i = 0;
    const cJSON **member = malloc((n + 1) * sizeof *member), *item;
    enum status st = ST_OK;
    if (!member)
        FAIL(ST_NOMEM, "no memory for %zu members", n);
    cJSON_ArrayForEach(item, object) member[i++] = item;
    qsort(member, n, sizeof *member, by_name);
    put_number(s, n);
    for (i = 0; st == ST_OK && i < n; i++) {
        put_text(s, member[i]->string);
        st = json_digest(s, member[i]);
    }
    free(member);
    return st;
}

enum status json_digest(struct sha256 *s, const cJSON *value)
{
    const cJSON *item;
    uint64_t bits;
    put_number(s, (uint64_t)(value->type & 0xff));
    if (cJSON_IsObject(value))
        return put_object(s, value);
    if (cJSON_IsArray(value)) {
        put_number(s, (uint64_t)cJSON_GetArraySize(value));
        cJSON_ArrayForEach(item, value) TRY(json_digest(s, item));
    } else if (cJSON_IsString(value)) {
        put_text(s, value->valuestring);
    } else if (cJSON_IsNumber(value)) {
        memcpy(&bits, &value->valuedouble, sizeof bits);
        put_number(s, bits);
    }
    return ST_OK;
}
