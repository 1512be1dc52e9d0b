/* Stop strings: any chunking of a text gives the result of the plain specification. */
#include "tests/text/vectors.h"

#include "coordinator/tokenizer/stop.h"

static struct stop_set *set_of(const char *const *strings, size_t n)
{
    struct tok_text texts[STOP_MAX_STRINGS];
    struct stop_set *s;
    for (size_t i = 0; i < n; i++)
        texts[i] = (struct tok_text){strings[i], strlen(strings[i])};
    cr_assert_eq(stop_set_create(&s, texts, n), ST_OK, "%s", status_text());
    return s;
}

/* The specification: the match that ends first, the longest of those that end together. */
static size_t plain_search(const char *const *strings, size_t n, const char *text, size_t len,
                           bool include, int *which)
{
    *which = -1;
    for (size_t end = 1; end <= len; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < n; i++) {
            size_t k = strlen(strings[i]);
            if (k <= end && k > longest && memcmp(text + end - k, strings[i], k) == 0) {
                longest = k;
                *which = (int)i;
            }
        }
        if (longest)
            return include ? end : end - longest;
    }
    return len;
}

Test(stop, any_chunking_gives_the_same)
{
    uint64_t rng = 3;
    for (int round = 0; round < 20000; round++) {
        char strings[4][6], text[64];
        const char *list[4];
        size_t n = 1 + below(&rng, 4), len = below(&rng, sizeof text);
        for (size_t i = 0; i < n; i++) {
            size_t k = 1 + below(&rng, 5);
            for (size_t c = 0; c < k; c++)
                strings[i][c] = (char)('a' + below(&rng, 2));
            strings[i][k] = 0;
            list[i] = strings[i];
        }
        for (size_t i = 0; i < len; i++)
            text[i] = (char)('a' + below(&rng, 3));
        struct stop_set *set = set_of(list, n);
        struct stop_stream s = {.set = set, .include = below(&rng, 2)};
        struct text_buf out = {0};
        int which;
        size_t want = plain_search(list, n, text, len, s.include, &which);
        for (size_t at = 0; at < len;) {
            size_t k = 1 + below(&rng, 7);
            k = k < len - at ? k : len - at;
            cr_assert_eq(stop_push(&s, text + at, k, &out), ST_OK);
            at += k;
            size_t held = s.done ? 0 : at - out.len; /* no more than could still become a match */
            cr_assert_leq(held, 4);
        }
        cr_assert_eq(stop_flush(&s, &out), ST_OK);
        cr_assert_eq(out.len, want, "%.*s", (int)len, text);
        cr_assert(want == 0 || memcmp(out.data, text, want) == 0);
        cr_assert_eq(s.done, which >= 0);
        if (which >= 0)
            cr_assert(strcmp(list[s.matched], list[which]) == 0);
        text_buf_free(&out);
        stop_set_destroy(set);
    }
}

Test(stop, holds_back_and_lets_go)
{
    const char *strings[] = {"</s>", "\nUser:"};
    struct stop_set *set = set_of(strings, 2);
    struct stop_stream s = {.set = set}, copy;
    struct text_buf out = {0};
    cr_assert_eq(stop_push(&s, "hi</", 4, &out), ST_OK);
    cr_expect_eq(out.len, 2);
    copy = s;
    cr_assert_eq(stop_push(&s, "b>", 2, &out), ST_OK);
    cr_expect(out.len == 6 && memcmp(out.data, "hi</b>", 6) == 0);
    out.len = 0;
    cr_assert_eq(stop_push(&copy, "s>more", 6, &out), ST_OK);
    cr_expect(copy.done && copy.matched == 0 && out.len == 0);
    cr_assert_eq(stop_push(&copy, "more", 4, &out), ST_OK);
    cr_assert_eq(stop_flush(&copy, &out), ST_OK);
    cr_expect_eq(out.len, 0);
    text_buf_free(&out);
    stop_set_destroy(set);
}

/* What ended while the stream slept stops nothing; what ends later does, also when it began then. */
Test(stop, asleep)
{
    static const char *const list[] = {"ab", "bcd"};
    struct stop_set *set = set_of(list, 2);
    struct stop_stream s = {.set = set, .asleep = true};
    struct text_buf out = {0};
    cr_assert_eq(stop_push(&s, "xabc", 4, &out), ST_OK);
    cr_assert(!s.done && out.len == 2 && memcmp(out.data, "xa", 2) == 0);
    s.asleep = false;
    cr_assert_eq(stop_push(&s, "de", 2, &out), ST_OK);
    cr_assert(s.done && s.matched == 1 && out.len == 2);
    text_buf_free(&out);
    s = (struct stop_stream){.set = set, .asleep = true};
    cr_assert_eq(stop_push(&s, "ab", 2, &out), ST_OK);
    s.asleep = false;
    cr_assert_eq(stop_push(&s, "ab", 2, &out), ST_OK);
    cr_assert(s.done && s.matched == 0 && out.len == 2 && memcmp(out.data, "ab", 2) == 0);
    text_buf_free(&out);
    stop_set_destroy(set);
}

Test(stop, without_a_set_all_passes)
{
    struct stop_stream s = {0};
    struct text_buf out = {0};
    cr_assert_eq(stop_push(&s, "abc", 3, &out), ST_OK);
    cr_assert_eq(stop_flush(&s, &out), ST_OK);
    cr_expect(out.len == 3 && !s.done);
    text_buf_free(&out);
}

Test(stop, refuses_by_name)
{
    struct stop_set *s;
    static char big[STOP_MAX_BYTES + 1];
    struct tok_text many[STOP_MAX_STRINGS + 1];
    memset(big, 'a', sizeof big);
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (struct tok_text){"a", 1};
    cr_expect_eq(stop_set_create(&s, many, ARRAY_LEN(many)), ST_RANGE);
    many[3].len = 0;
    cr_expect_eq(stop_set_create(&s, many, 4), ST_RANGE);
    cr_expect(strstr(status_text(), "stop[3]"));
    many[1] = (struct tok_text){big, sizeof big};
    cr_expect_eq(stop_set_create(&s, many, 2), ST_RANGE);
    many[0] = (struct tok_text){"\xC3", 1};
    cr_expect_eq(stop_set_create(&s, many, 1), ST_FORMAT);
    cr_expect_null(s);
    stop_set_destroy(NULL);
}
