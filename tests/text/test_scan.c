/* The matchers written by hand against PCRE2, on random text. */
#include "tests/text/vectors.h"

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

#define LLAMA3(digits)                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                           \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* utf8proc and PCRE2 may be of different Unicode versions: characters whose class is not the same
 * are left out. */
struct classes {
    struct regex *letter, *number;
    struct regex_scratch *scratch;
};

static bool is_agreed(const struct classes *c, uint32_t cp)
{
    char utf8[4];
    size_t n = u8_put(utf8, cp), b, e;
    bool letter, number;
    cr_assert_eq(regex_find(c->letter, c->scratch, utf8, n, 0, &letter, &b, &e), ST_OK);
    cr_assert_eq(regex_find(c->number, c->scratch, utf8, n, 0, &number, &b, &e), ST_OK);
    return letter == uc_is_letter(cp) && number == uc_is_numeric(cp);
}

Test(scan, classes_differ_in_new_characters_only)
{
    struct classes c;
    int differ = 0;
    cr_assert_eq(regex_create(&c.letter, "\\p{L}", 5), ST_OK);
    cr_assert_eq(regex_create(&c.number, "\\p{N}", 5), ST_OK);
    cr_assert_eq(regex_scratch_create(&c.scratch), ST_OK);
    for (uint32_t cp = 0; cp < 0x110000; cp++)
        if (cp < 0xD800 || cp >= 0xE000)
            differ += !is_agreed(&c, cp);
    cr_expect_lt(differ, 12000); /* about what a Unicode version or two add */
    regex_destroy(c.letter);
    regex_destroy(c.number);
    regex_scratch_destroy(c.scratch);
}

static size_t random_text(uint64_t *rng, const struct classes *classes, char *out)
{
    static const char often[] = "aZsStTmdDlLrReEvV'''   \n\n\r\t\v019.,-_(";
    size_t n = 0;
    for (size_t k = 1 + below(rng, 60); k > 0; k--) {
        uint32_t cp;
        switch (below(rng, 8)) {
        case 0:
            cp = (uint32_t)below(rng, 0x3000);
            break;
        case 1:
            do
                cp = (uint32_t)below(rng, 0x110000);
            while (cp >= 0xD800 && cp < 0xE000);
            break;
        case 2:
            cp = (const uint32_t[]){
                0x17F, 0x85, 0xA0, 0x180E, 0x2028, 0x3000, 0xB2, 0x2163, 0x200B}[below(rng, 9)];
            break;
        default:
            cp = (unsigned char)often[below(rng, sizeof often - 1)];
        }
        if (is_agreed(classes, cp))
            n += u8_put(out + n, cp);
    }
    return n;
}

static void compare(const char *pattern, int digits)
{
    struct regex *re;
    struct classes c;
    struct regex_scratch *s;
    uint64_t rng = 11;
    cr_assert_eq(regex_create(&c.letter, "\\p{L}", 5), ST_OK);
    cr_assert_eq(regex_create(&c.number, "\\p{N}", 5), ST_OK);
    cr_assert_eq(regex_create(&re, pattern, strlen(pattern)), ST_OK, "%s", status_text());
    cr_assert_eq(regex_scratch_create(&s), ST_OK);
    c.scratch = s;
    for (int i = 0; i < 100000; i++) {
        char text[256];
        size_t n = random_text(&rng, &c, text), begin, end;
        for (size_t at = 0; at < n; at = end) {
            bool found;
            cr_assert_eq(regex_find(re, s, text, n, at, &found, &begin, &end), ST_OK);
            cr_assert(found && begin == at, "text %d: the expression matches everywhere", i);
            cr_assert_eq(digits ? scan_llama3(text, n, at, digits) : scan_gpt2(text, n, at), end,
                         "text %d at %zu: %.*s", i, at, (int)n, text);
        }
    }
    regex_scratch_destroy(s);
    regex_destroy(re);
    regex_destroy(c.letter);
    regex_destroy(c.number);
}

Test(scan, gpt2)
{
    compare("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
            0);
}

Test(scan, qwen)
{
    compare(LLAMA3("\\p{N}"), 1);
}

Test(scan, llama3)
{
    compare(LLAMA3("\\p{N}{1,3}"), 3);
}

Test(regex, differs_from_pcre2_where_oniguruma_does)
{
    static const struct {
        const char *pattern, *text;
        bool found;
    } rows[] = {
        {"\\s", "\xE1\xA0\x8E", false}, /* U+180E is no blank */
        {"\\s", "\xC2\x85", true},
        {"[\\s]", "\xE3\x80\x80", true},
        {"[^\\s]", "\xE1\xA0\x8E", true},
        {"[\\S]", "\n", false},
        {"\\w", "\xCC\x81", true},
        {"\\h", " ", false},
        {"\\h", "f", true},
        {"\\d", "\xD9\xA3", true},
        {"a$", "a\nb", true},
        {"\\u0061", "a", true},
        {".", "\n", false},
        {"[]a]", "]", true},
    };
    struct regex_scratch *s;
    cr_assert_eq(regex_scratch_create(&s), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct regex *re;
        bool found;
        size_t b, e;
        cr_assert_eq(regex_create(&re, rows[i].pattern, strlen(rows[i].pattern)), ST_OK, "%s",
                     status_text());
        cr_assert_eq(regex_find(re, s, rows[i].text, strlen(rows[i].text), 0, &found, &b, &e),
                     ST_OK);
        cr_expect_eq(found, rows[i].found, "%s", rows[i].pattern);
        regex_destroy(re);
    }
    regex_scratch_destroy(s);
}

Test(regex, refuses_by_name)
{
    static const char *const patterns[] = {"[a&&b]", "[[:alpha:]]", "\\R", "(?m:.)", "[a[b]]", "("};
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        struct regex *re;
        cr_expect_neq(regex_create(&re, patterns[i], strlen(patterns[i])), ST_OK, "%s",
                      patterns[i]);
        cr_expect_null(re);
        cr_expect(strstr(status_text(), "regular expression"));
    }
}
