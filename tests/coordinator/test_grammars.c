/* The bound on the memory of the grammars that requests use. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/grammar_check.h"
#include "coordinator/grammars.h"

static struct grammars *grammars;

static void open_all(void)
{
    static const struct model_text mt;
    cr_assert_eq(grammars_create(&grammars, &mt), ST_OK);
}

static void close_all(void)
{
    grammars_destroy(grammars);
}

TestSuite(grammars, .init = open_all, .fini = close_all);

static const struct owner one = {{1}}, other = {{2}};

static enum status take(const struct owner *owner, uint8_t name, size_t mib, uint64_t *id)
{
    struct resolved q = {.grammar_kind = 4, .grammar = "[]", .n_grammar = 2};
    q.grammar_digest[0] = name;
    q.grammar_bytes = mib << 20;
    return grammars_take(grammars, &q, owner, id);
}

Test(grammars, their_sum_is_bounded)
{
    uint64_t id[4], no;
    cr_assert_eq(take(&one, 1, 150, &id[0]), ST_OK);
    cr_assert_eq(take(&other, 2, 150, &id[1]), ST_OK);
    cr_assert_eq(take(&(struct owner){{3}}, 3, 100, &no), ST_BUSY);
    cr_assert(strstr(status_text(), "the grammars in use take 300 MiB"), "%s", status_text());
    cr_assert_eq(take(&one, 2, 150, &id[2]), ST_OK, "a known one takes nothing more");
    grammars_release(grammars, id[1]);
    cr_assert_eq(take(&other, 3, 100, &no), ST_BUSY, "one request of two has ended");
    grammars_release(grammars, id[2]);
    cr_assert_eq(take(&other, 3, 100, &id[1]), ST_OK);
    cr_assert_eq(take(&(struct owner){{3}}, 2, 150, &no), ST_BUSY, "it is known, but not in use");
    grammars_release(grammars, id[0]);
    cr_assert_eq(take(&(struct owner){{3}}, 2, 150, &no), ST_OK);
}

Test(grammars, an_owner_has_half)
{
    uint64_t id, no;
    cr_assert_eq(take(&one, 1, 193, &no), ST_RANGE, "trying again would not help");
    cr_assert_eq(take(&one, 1, 150, &id), ST_OK);
    cr_assert_eq(take(&one, 2, 50, &no), ST_BUSY);
    cr_assert(strstr(status_text(), "of this tenant take 150 MiB"), "%s", status_text());
    cr_assert_eq(take(&other, 2, 50, &no), ST_OK);
    grammars_release(grammars, id);
    cr_assert_eq(take(&one, 3, 150, &no), ST_OK);
}

/* ---- the verdicts on sources ---- */

static enum status check(struct grammar_check *c, const char *text, const atomic_bool *stop,
                         struct grammar_verdict *v)
{
    struct grammar_source s = {GRAMMAR_REGEX, text, strlen(text)};
    return grammar_check(c, &s, stop, v);
}

Test(grammar_check, a_source_is_compiled_once)
{
    struct grammar_check *c;
    struct grammar_verdict v;
    char why[400], text[16];
    cr_assert_eq(grammar_check_create(&c), ST_OK);
    cr_expect_eq(check(c, "a|b", NULL, &v), ST_OK);
    cr_expect(!v.known && v.n_bytes > 0);
    size_t n_bytes = v.n_bytes;
    cr_expect_eq(check(c, "(?=x)", NULL, &v), ST_UNSUPPORTED);
    cr_expect(!v.known);
    snprintf(why, sizeof why, "%s", status_text());
    cr_expect_eq(check(c, "(?=x)", NULL, &v), ST_UNSUPPORTED);
    cr_expect(v.known);
    cr_expect_str_eq(status_text(), why, "the same text as the first time");
    for (int i = 0; i < GRAMMAR_VERDICTS - 1; i++) { /* one is used again and again */
        snprintf(text, sizeof text, "c%d", i);
        cr_expect_eq(check(c, text, NULL, &v), ST_OK);
        cr_expect(!v.known);
        cr_expect_eq(check(c, "a|b", NULL, &v), ST_OK);
        cr_expect(v.known && v.n_bytes == n_bytes);
    }
    cr_expect_eq(check(c, "(?=x)", NULL, &v), ST_UNSUPPORTED);
    cr_expect(!v.known, "the one that was used least recently was forgotten");
    grammar_check_destroy(c);
}

Test(grammar_check, a_compile_that_was_given_up_is_not_a_verdict)
{
    struct grammar_check *c;
    struct grammar_verdict v;
    atomic_bool stop = true;
    cr_assert_eq(grammar_check_create(&c), ST_OK);
    cr_expect_eq(check(c, "a|b", &stop, &v), ST_CANCELED);
    cr_expect_eq(check(c, "a|b", NULL, &v), ST_OK);
    cr_expect(!v.known);
    grammar_check_destroy(c);
}
