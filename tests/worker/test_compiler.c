/* The thread that compiles a rank's grammars. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/sample/compiler.h"

static struct compiler *c;

static void open_compiler(void)
{
    cr_assert_eq(compiler_create(&c), ST_OK);
}

static void close_compiler(void)
{
    compiler_destroy(c);
}

TestSuite(compiler, .init = open_compiler, .fini = close_compiler, .timeout = 300);

static struct compile_job *begin(enum grammar_kind kind, const char *text)
{
    struct compile_job *job;
    struct grammar_source s = {kind, text, strlen(text)};
    cr_assert_eq(compiler_add(c, &s, &job), ST_OK);
    return job;
}

/* A schema that takes all the work of a compile and is refused: some tenths of a second. */
static struct compile_job *begin_slow(void)
{
    enum { N = 9000 };
    char *text = malloc(96 * N + 64), *at = text;
    cr_assert_not_null(text);
    at += sprintf(at, "{\"oneOf\":[");
    for (int i = 0; i < N; i++)
        at += sprintf(at,
                      "%s{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"v%d\"}},"
                      "\"required\":[\"t\"]}",
                      i ? "," : "", i);
    sprintf(at, "]}");
    struct compile_job *job = begin(GRAMMAR_JSON_SCHEMA, text);
    free(text);
    return job;
}

static bool takes(struct grammar *g, const char *text)
{
    struct matcher *m;
    bool ok;
    cr_assert_eq(matcher_create(&m, g), ST_OK);
    cr_assert_eq(matcher_consume(m, text, strlen(text), &ok), ST_OK);
    ok = ok && matcher_accepts(m);
    matcher_destroy(m);
    return ok;
}

Test(compiler, each_job_has_its_own_result)
{
    struct compile_job *a = begin(GRAMMAR_REGEX, "a+"), *bad = begin(GRAMMAR_REGEX, "(?=x)"),
                       *b = begin(GRAMMAR_CHOICE, "[\"b\"]");
    struct grammar *g;
    cr_assert_eq(compiler_take(c, b, &g), ST_OK);
    cr_expect(takes(g, "b") && !takes(g, "a"));
    cr_expect(compiler_done(c, a), "the jobs run in their order");
    grammar_destroy(g);
    cr_assert_eq(compiler_take(c, bad, &g), ST_UNSUPPORTED);
    cr_expect(strstr(status_text(), "look"), "%s", status_text());
    cr_assert_eq(compiler_take(c, a, &g), ST_OK);
    cr_expect(takes(g, "aa") && !takes(g, "b"));
    grammar_destroy(g);
}

Test(compiler, the_caller_goes_on_meanwhile)
{
    struct compile_job *slow = begin_slow(), *quick = begin(GRAMMAR_REGEX, "a");
    uint64_t turns = 0;
    struct grammar *g;
    while (!compiler_done(c, quick))
        turns++;
    cr_expect_gt(turns, 1u, "the slow job was done before compiler_add returned");
    cr_expect(compiler_done(c, slow));
    cr_expect_eq(compiler_take(c, slow, &g), ST_RANGE);
    cr_assert_eq(compiler_take(c, quick, &g), ST_OK);
    grammar_destroy(g);
}

/* Running, waiting and done. */
Test(compiler, jobs_are_dropped)
{
    struct compile_job *slow = begin_slow(), *waits = begin(GRAMMAR_REGEX, "b"),
                       *last = begin(GRAMMAR_REGEX, "a");
    struct grammar *g;
    compiler_drop(c, waits);
    compiler_drop(c, slow);
    cr_assert_eq(compiler_take(c, last, &g), ST_OK);
    cr_expect(takes(g, "a"));
    grammar_destroy(g);
    struct compile_job *done = begin(GRAMMAR_REGEX, "c");
    while (!compiler_done(c, done))
        ;
    compiler_drop(c, done);
}

/* The leak checker looks at what is left. */
Test(compiler, the_end_comes_while_a_dropped_job_runs)
{
    compiler_drop(c, begin_slow());
}
