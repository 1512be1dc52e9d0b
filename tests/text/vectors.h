/* Test cases of tokenizers as JSON, and helpers that several tests of text share. */
#ifndef TESTS_TEXT_VECTORS_H
#define TESTS_TEXT_VECTORS_H

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mapped_file.h"
#include "coordinator/tokenizer/tokenizer.h"

/* A file as bytes (malloc), or NULL. */
static inline char *read_all(const char *path, size_t *n)
{
    struct mapped_file f;
    char *copy;
    if (!path || mapped_file_open(&f, path) != ST_OK)
        return NULL;
    copy = malloc(f.size + 1);
    if (copy) {
        memcpy(copy, f.data, f.size);
        copy[f.size] = 0;
        *n = f.size;
    }
    mapped_file_close(&f);
    return copy;
}

/* cJSON ends strings at U+0000, which the texts contain: the tests carry it as U+10FFFD, which they
 * do not. */
static inline cJSON *parse_cases(const char *path)
{
    static const char nul[] = "\\u0000", stand_in[] = "\xF4\x8F\xBF\xBD";
    size_t n;
    char *text = read_all(path, &n), *at;
    if (!text)
        return NULL;
    while ((at = strstr(text, nul))) {
        memcpy(at, stand_in, 4);
        memmove(at + 4, at + 6, strlen(at + 6) + 1);
    }
    cJSON *j = cJSON_Parse(text);
    free(text);
    return j;
}

/* The string with its stand-ins turned back; *n is its length. */
static inline char *case_text(const cJSON *j, const char *name, size_t *n)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItem(j, name));
    cr_assert_not_null(s, "a case without %s", name);
    char *copy = malloc(strlen(s) + 1);
    cr_assert_not_null(copy);
    *n = 0;
    while (*s) {
        bool is_nul = strncmp(s, "\xF4\x8F\xBF\xBD", 4) == 0;
        copy[(*n)++] = is_nul ? 0 : *s;
        s += is_nul ? 4 : 1;
    }
    return copy;
}

static inline bool same_ids(const struct token_list *got, const cJSON *want)
{
    const cJSON *id;
    size_t i = 0;
    if ((int)got->n != cJSON_GetArraySize(want))
        return false;
    cJSON_ArrayForEach(id, want) if (got->ids[i++] != (int32_t)id->valuedouble) return false;
    return true;
}

/* Number of the cases that fail, each with a line on standard error. */
static inline int check_cases(const struct tokenizer *t, const cJSON *cases, const char *name)
{
    static const unsigned skip[] = {0, TOK_SKIP_SPECIAL};
    static const char *const decoded[] = {"decoded", "decoded_skip_special"};
    struct token_list ids = {0}, special = {0};
    struct text_buf out = {0};
    const cJSON *c;
    int wrong = 0;
    cJSON_ArrayForEach(c, cases)
    {
        size_t n, k;
        char *text = case_text(c, "text", &n);
        bool ok = tokenizer_encode(t, text, n, 0, &ids) == ST_OK &&
                  tokenizer_encode(t, text, n, TOK_ADD_SPECIAL, &special) == ST_OK &&
                  same_ids(&ids, cJSON_GetObjectItem(c, "ids")) &&
                  same_ids(&special, cJSON_GetObjectItem(c, "ids_add_special"));
        for (int i = 0; i < 2 && ok; i++) {
            char *want = case_text(c, decoded[i], &k);
            out.len = 0;
            ok = tokenizer_decode(t, ids.ids, ids.n, skip[i], &out) == ST_OK && out.len == k &&
                 (k == 0 || memcmp(out.data, want, k) == 0);
            free(want);
        }
        if (!ok)
            fprintf(stderr, "%s: wrong for \"%s\" (%s)\n", name, text, status_text());
        wrong += !ok;
        free(text);
    }
    token_list_free(&ids);
    token_list_free(&special);
    text_buf_free(&out);
    return wrong;
}

/* A small generator for random tests (Steele, Lea and Flood 2014, splitmix64). */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static inline size_t below(uint64_t *state, size_t n)
{
    return (size_t)(next_random(state) % n);
}

#endif
