/* The incremental detokenizer: any cut of a stream of ids gives the same bytes. */
#include "tests/text/vectors.h"

#include "common/utf8.h"
#include "coordinator/tokenizer/detok.h"
#include "data.h"
#include "effort.h"

static struct tokenizer *open_own(const char *file, cJSON **all)
{
    char name[256];
    struct tokenizer *t = NULL;
    snprintf(name, sizeof name, "text/%s", file);
    *all = parse_cases(own_data(name));
    cr_assert_not_null(*all, "%s", name);
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(*all, "tokenizer"));
    cr_assert_eq(tokenizer_from_json(&t, text, strlen(text), NULL, 0), ST_OK, "%s", status_text());
    free(text);
    return t;
}

static struct tokenizer *from_decoder(const char *decoder, const char *vocab)
{
    char json[4096];
    struct tokenizer *t;
    snprintf(json, sizeof json,
             "{\"decoder\":%s,\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":%s}}",
             decoder, vocab);
    cr_assert_eq(tokenizer_from_json(&t, json, strlen(json), NULL, 0), ST_OK, "%s", status_text());
    return t;
}

static void expect_text(const struct tokenizer *t, const int32_t *ids, size_t n, const char *want)
{
    struct text_buf out = {0};
    cr_assert_eq(tokenizer_decode(t, ids, n, 0, &out), ST_OK);
    cr_expect(out.len == strlen(want) && memcmp(out.data ? out.data : "", want, out.len) == 0,
              "\"%.*s\" is not \"%s\"", (int)out.len, out.data, want);
    text_buf_free(&out);
}

/* Decoders may strip blanks at the end of the whole. */
static bool same_but_blanks_behind(const struct text_buf *a, const struct text_buf *b)
{
    size_t n = b->len;
    if (a->len < n || (n && memcmp(a->data, b->data, n) != 0))
        return false;
    while (n < a->len && a->data[n] == ' ')
        n++;
    return n == a->len;
}

/* Ids of any kind, one by one, with a snapshot in the middle: deltas are whole characters, and
 * their sum is the text. */
Test(detok, any_cut_gives_the_same_bytes)
{
    static const char *const files[] = {"byte-level-qwen.json",
                                        "sentencepiece.json",
                                        "unigram-bytes.json",
                                        "unigram.json",
                                        "bert.json",
                                        "clip.json",
                                        "words.json"};
    static const unsigned flags[] = {0, TOK_SKIP_SPECIAL};
    uint64_t rng = 7;
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        cJSON *all;
        struct tokenizer *t = open_own(files[f], &all);
        struct text_buf whole = {0}, parts = {0}, bytes = {0};
        for (long round = 0; round < effort(3000, 500); round++) {
            int32_t ids[40];
            size_t n = below(&rng, 40), cut = below(&rng, n + 1);
            struct detok d, copy;
            whole.len = parts.len = bytes.len = 0;
            for (size_t i = 0; i < n; i++)
                ids[i] = (int32_t)below(&rng, (size_t)tokenizer_max_id(t) + 3);
            cr_assert_eq(tokenizer_decode(t, ids, n, flags[round % 2], &whole), ST_OK);
            detok_init(&d, t, flags[round % 2]);
            for (size_t i = 0; i < n; i++) {
                size_t before = parts.len;
                if (i ==
                    cut) { /* resume from a copy; what the first went on to do does not matter */
                    struct text_buf lost = {0};
                    copy = d;
                    cr_assert_eq(detok_push(&d, 1, &lost), ST_OK);
                    text_buf_free(&lost);
                    d = copy;
                }
                cr_assert_eq(detok_bytes(&d, ids[i], &bytes), ST_OK);
                cr_assert_eq(detok_push(&d, ids[i], &parts), ST_OK);
                cr_assert(parts.len == before ||
                          utf8_valid(parts.data + before, parts.len - before));
            }
            cr_assert_eq(detok_flush(&d, &parts), ST_OK);
            cr_assert(parts.len == whole.len &&
                      (whole.len == 0 || memcmp(parts.data, whole.data, whole.len) == 0));
            /* the tokens' own bytes are the text, where they are text at all */
            cr_assert(!utf8_valid(bytes.data ? bytes.data : "", bytes.len) ||
                          same_but_blanks_behind(&bytes, &whole),
                      "%s: '%.*s' instead of '%.*s'", files[f], (int)bytes.len, bytes.data,
                      (int)whole.len, whole.data);
        }
        text_buf_free(&whole);
        text_buf_free(&parts);
        text_buf_free(&bytes);
        tokenizer_destroy(t);
        cJSON_Delete(all);
    }
}

#define BYTES                                                                                      \
    "{\"?\":0,\"<0xF0>\":1,\"<0x9F>\":2,\"<0xA6>\":3,\"<0x99>\":4,\"<0xFF>\":5,\"a\":6,\"<0x41>"   \
    "\":7,\" \":8}"
#define FALLBACK                                                                                   \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}"
#define BAD "\xEF\xBF\xBD"

Test(detok, byte_fallback_runs)
{
    struct tokenizer *t = from_decoder(FALLBACK, BYTES);
    expect_text(t, (int32_t[]){1, 2, 3, 4}, 4, "\xF0\x9F\xA6\x99");
    expect_text(t, (int32_t[]){1, 2, 3, 6}, 4, BAD BAD BAD "a");
    expect_text(t, (int32_t[]){7, 5, 7, 6, 7}, 5,
                BAD BAD BAD "aA"); /* a run is text as a whole or not at all */
    expect_text(t, (int32_t[]){1, 2, 3, 4, 5}, 5, BAD BAD BAD BAD BAD);
    expect_text(t, (int32_t[]){1, 2}, 2, BAD BAD);
    tokenizer_destroy(t);
}

/* An emoji of byte tokens comes out at once when the run ends, and a run without end does not grow
 * the state. */
Test(detok, runs_are_held_and_bounded)
{
    struct tokenizer *t = from_decoder(FALLBACK, BYTES);
    struct text_buf out = {0};
    struct detok d;
    detok_init(&d, t, 0);
    for (int32_t id = 1; id <= 4; id++)
        cr_assert_eq(detok_push(&d, id, &out), ST_OK);
    cr_expect_eq(out.len, 0);
    cr_assert_eq(detok_push(&d, 6, &out), ST_OK);
    cr_expect_eq(out.len, 5);
    for (int i = 0; i < DETOK_MAX_RUN; i++)
        cr_assert_eq(detok_push(&d, 1 + i % 4, &out), ST_OK);
    cr_expect_eq(out.len, 5 + DETOK_MAX_RUN);
    cr_expect_eq(detok_push(&d, -1, &out), ST_RANGE);
    text_buf_free(&out);
    tokenizer_destroy(t);
}

Test(detok, strips_both_ends_of_the_whole)
{
    struct tokenizer *t =
        from_decoder("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\","
                     "\"content\":\" \",\"start\":1,\"stop\":2}]}",
                     BYTES);
    expect_text(t, (int32_t[]){8, 8, 6, 8, 8, 8}, 6, " a ");
    expect_text(t, (int32_t[]){6, 8, 6}, 3, "a a");
    expect_text(t, (int32_t[]){8}, 1, "");
    expect_text(t, (int32_t[]){6, 8, 8, 8, 8, 6, 8}, 7, "a    a");
    tokenizer_destroy(t);
}

static void expect_behind(const struct tokenizer *t, const int32_t *prompt, size_t n, int32_t id,
                          const char *want)
{
    struct text_buf out = {0}, bytes = {0};
    struct detok d;
    detok_init(&d, t, TOK_SKIP_SPECIAL);
    detok_follow(&d, prompt, n);
    cr_assert_eq(detok_bytes(&d, id, &bytes), ST_OK);
    cr_assert_eq(detok_push(&d, id, &out), ST_OK);
    cr_assert_eq(detok_flush(&d, &out), ST_OK);
    cr_expect(out.len == strlen(want) && memcmp(out.data, want, out.len) == 0,
              "\"%.*s\" is not \"%s\"", (int)out.len, out.data, want);
    cr_expect(bytes.len == out.len && memcmp(bytes.data, out.data, out.len) == 0);
    text_buf_free(&out);
    text_buf_free(&bytes);
}

Test(detok, behind_a_text_the_leading_blank_stays)
{
    static const char *const decoder[] = {
        "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
        "\"\xE2\x96\x81\"},\"content\":\" \"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","
        "\"content\":\" \",\"start\":1,\"stop\":0}]}",
        "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"always\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(decoder); i++) {
        struct tokenizer *t =
            from_decoder(decoder[i], "{\"?\":0,\"\xE2\x96\x81the\":1,\"\xE2\x96\x81"
                                     "dog\":2}");
        expect_behind(t, (int32_t[]){1}, 1, 2, " dog");
        expect_behind(t, (int32_t[]){99, 1}, 2, 2, " dog");
        expect_behind(t, (int32_t[]){99}, 1, 2, "dog"); /* an id that no token has gives no text */
        expect_behind(t, NULL, 0, 2, "dog");
        tokenizer_destroy(t);
    }
}

Test(detok, byte_level_replaces_maximal_parts)
{
    /* F0 9F | 41, E2 82 at the end, 80 alone: one U+FFFD for each part that breaks off. */
    struct tokenizer *t = from_decoder(
        "{\"type\":\"ByteLevel\"}",
        "{\"?\":0,\"\xC3\xB0\xC5\x81\":1,\"A\":2,\"\xC3\xA2\xC4\xA4\":3,\"\xC4\xA2\":4}");
    expect_text(t, (int32_t[]){1, 2, 3}, 3, BAD "A" BAD);
    expect_text(t, (int32_t[]){4, 2, 4, 4}, 4, BAD "A" BAD BAD);
    tokenizer_destroy(t);
}

Test(detok, without_decoder_tokens_are_joined_by_blanks)
{
    struct tokenizer *t = from_decoder("null", BYTES);
    expect_text(t, (int32_t[]){6, 7, 99, 6}, 4, "a <0x41> a");
    tokenizer_destroy(t);
}
