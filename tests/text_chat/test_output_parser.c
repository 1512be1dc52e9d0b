/* What models say, split into events: tables of outputs, and the property that the cut does not
 * matter. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/output_parser.h"
#include "common/text/text_buf.h"
#include "output_rows.h"

/* Appends events as text: R(...) C(...) T0(name[:id]|arguments); neighbours of one kind are one. */
struct log {
    struct text_buf text;
    int last; /* kind, -1: none or a call */
    bool in_call;
    size_t n_pieces; /* of arguments */
};

static void put(struct log *log, const char *p, size_t n)
{
    cr_assert_eq(text_buf_append(&log->text, p, n), ST_OK);
}

static void put_text(struct log *log, const char *text)
{
    put(log, text, strlen(text));
}

static void put_call_event(struct log *log, const struct output_event *e)
{
    char head[32];
    cr_assert_eq(log->in_call, e->kind != OUT_CALL_BEGIN, "calls are not nested");
    log->in_call = e->kind != OUT_CALL_END;
    log->last = -1;
    if (e->kind == OUT_CALL_BEGIN) {
        snprintf(head, sizeof head, "T%d(", e->i_call);
        put_text(log, head);
        put(log, e->name, e->n_name);
        put_text(log, e->id ? ":" : "");
        put(log, e->id ? e->id : "", e->n_id);
        put_text(log, "|");
    } else if (e->kind == OUT_CALL_ARGUMENTS) {
        cr_assert_gt(e->n_text, 0);
        put(log, e->text, e->n_text);
        log->n_pieces++;
    } else {
        put_text(log, ")");
    }
}

static void put_event(struct log *log, const struct output_event *e)
{
    if (e->kind != OUT_REASONING && e->kind != OUT_CONTENT) {
        put_call_event(log, e);
        return;
    }
    cr_assert(!log->in_call && e->n_text > 0);
    if (log->last == (int)e->kind) {
        log->text.len--; /* go on within the bracket */
        put(log, e->text, e->n_text);
        put_text(log, ")");
        return;
    }
    log->last = (int)e->kind;
    put_text(log, e->kind == OUT_REASONING ? "R(" : "C(");
    put(log, e->text, e->n_text);
    put_text(log, ")");
}

static void drain(struct output_parser *p, struct log *log)
{
    struct output_event e;
    while (output_parser_next(p, &e))
        put_event(log, &e);
}

/* The log of a text pushed in pieces of the given sizes, again and again.
 * n_sizes 0: all at once. */
static char *run_counted(const struct output_options *o, const char *text, size_t n,
                         const size_t *sizes, size_t n_sizes, size_t *n_pieces)
{
    struct output_parser *p;
    struct log log = {.last = -1};
    cr_assert_eq(output_parser_create(&p, o), ST_OK);
    for (size_t at = 0, i = 0; at < n; i++) {
        size_t size = n_sizes ? sizes[i % n_sizes] : n;
        if (size > n - at)
            size = n - at;
        /* an exact copy, so that a sanitizer sees a read beyond it */
        char *piece = malloc(size ? size : 1);
        memcpy(piece, text + at, size);
        cr_assert_eq(output_parser_push(p, piece, size), ST_OK);
        free(piece);
        drain(p, &log);
        at += size;
    }
    cr_assert_eq(output_parser_finish(p), ST_OK);
    drain(p, &log);
    output_parser_destroy(p);
    cr_assert(!log.in_call);
    put(&log, "", 1);
    *n_pieces = log.n_pieces;
    return log.text.data;
}

static char *run(const struct output_options *o, const char *text, size_t n, const size_t *sizes,
                 size_t n_sizes)
{
    size_t n_pieces;
    return run_counted(o, text, n, sizes, n_sizes, &n_pieces);
}

/* For the types of parameters in the formats whose values have none. */
static const char tools_json[] = "[{\"type\":\"function\",\"function\":{\"name\":\"g\"}},{\"name\":"
                                 "\"f\",\"parameters\":{\"properties\":{"
                                 "\"path\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},"
                                 "\"on\":{\"type\":[\"boolean\",\"null\"]},"
                                 "\"list\":{\"type\":\"array\"},\"maybe\":{\"anyOf\":[{\"type\":"
                                 "\"string\"},{\"type\":\"null\"}]}}}}]";

Test(output_parser, table)
{
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct output_options o = {
            .tools = ROWS[i].tools, .reasoning = true, .tools_json = tools_json};
        size_t n = strlen(ROWS[i].text);
        char *whole = run(&o, ROWS[i].text, n, NULL, 0);
        cr_expect_str_eq(whole, ROWS[i].expected, "row %zu: %s\n gives    %s\n expected %s", i,
                         ROWS[i].text, whole, ROWS[i].expected);
        for (size_t size = 1; size < 8; size++) {
            char *cut = run(&o, ROWS[i].text, n, &size, 1);
            cr_expect_str_eq(cut, whole, "row %zu in pieces of %zu gives %s", i, size, cut);
            free(cut);
        }
        free(whole);
    }
}

Test(output_parser, other_think_marks)
{
    struct output_options o = {
        .reasoning = true, .think_open = "[THINK]", .think_close = "[/THINK]"};
    char *got = run(&o, "[THINK]a[/THINK]b", 17, NULL, 0);
    cr_expect_str_eq(got, "R(a)C(b)");
    free(got);
    o = (struct output_options){.reasoning = true, .starts_in_reasoning = true};
    got = run(&o, "a</think>b", 10, NULL, 0);
    cr_expect_str_eq(got, "R(a)C(b)");
    free(got);
    got = run(&o, "<think>a</think>b", 17, NULL, 0);
    cr_expect_str_eq(got, "R(a)C(b)");
    free(got);
    o = (struct output_options){.reasoning = false};
    got = run(&o, "<think>a</think>b", 17, NULL, 0);
    cr_expect_str_eq(got, "C(<think>a</think>b)");
    free(got);
}

/* What is pushed byte by byte is given byte by byte, as long as the arguments last. */
Test(output_parser, arguments_come_while_they_are_written)
{
    static const char *const names[] = {"f", "get weather"};
    static const struct {
        enum output_tools tools;
        const char *text, *expected;
        size_t least;
    } rows[] = {
        {OUTPUT_TOOLS_HERMES,
         "<tool_call>{\"name\":\"f\",\"arguments\":{\"path\":\"0123456789\"}}</tool_call>",
         "T0(f|{\"path\":\"0123456789\"})", 20},
        {OUTPUT_TOOLS_MISTRAL, "[TOOL_CALLS]f[ARGS]{\"path\":\"0123456789\"}",
         "T0(f|{\"path\":\"0123456789\"})", 20},
        {OUTPUT_TOOLS_MISTRAL,
         "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\":\"0123\"}},{\"name\":\"g\","
         "\"arguments\":{\"a\":\"0123\"}}]",
         "T0(f|{\"a\":\"0123\"})T1(g|{\"a\":\"0123\"})", 24},
        {OUTPUT_TOOLS_DEEPSEEK,
         CALL_BEGIN "function" SEP "f\n```json\n{\"path\":\"0123456789\"}\n```" CALL_END,
         "T0(f|{\"path\":\"0123456789\"})", 20},
        {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{path:<|\"|>0123456789<|\"|>}<tool_call|>",
         "T0(f|{\"path\":\"0123456789\"})", 12},
        {OUTPUT_TOOLS_LLAMA4, "[f(path='0123456789'), h(path=1)]",
         "T0(f|{\"path\": \"0123456789\"})T1(h|{\"path\": 1})", 16},
        {OUTPUT_TOOLS_LLAMA4, "<|python_start|>[h(path='01')]", "T0(h|{\"path\": \"01\"})", 4},
        /* without a mark there must be a function of that name */
        {OUTPUT_TOOLS_LLAMA4, "[h(path='01')]", "C([h(path='01')])", 0},
        {OUTPUT_TOOLS_LLAMA3,
         "<|python_tag|>{\"name\":\"f\",\"parameters\":{\"path\":\"0123456789\"}}",
         "T0(f|{\"path\":\"0123456789\"})", 20},
        {OUTPUT_TOOLS_LLAMA3, "{\"name\":\"f\",\"parameters\":{\"path\":\"0123456789\"}}",
         "T0(f|{\"path\":\"0123456789\"})", 20},
        {OUTPUT_TOOLS_AUTO,
         "{\"name\":\"get\\u0020weather\",\"arguments\":{\"path\":\"0123456789\"}}",
         "T0(get weather|{\"path\":\"0123456789\"})", 20},
        /* no function of that name: it may be an answer in JSON, and its end decides */
        {OUTPUT_TOOLS_AUTO, "{\"name\":\"Bob\",\"arguments\":{\"path\":\"0123456789\"}}",
         "T0(Bob|{\"path\":\"0123456789\"})", 1},
        {OUTPUT_TOOLS_AUTO, "{\"name\":\"Bob\",\"arguments\":{},\"age\":3}",
         "C({\"name\":\"Bob\",\"arguments\":{},\"age\":3})", 0},
        {OUTPUT_TOOLS_AUTO, "{\"name\":\"f\",\"arguments\":{},\"age\":3} x", "T0(f|{})C( x)", 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct output_options o = {.tools = rows[i].tools, .names = names, .n_names = 2};
        size_t one = 1, n_pieces;
        char *got = run_counted(&o, rows[i].text, strlen(rows[i].text), &one, 1, &n_pieces);
        cr_expect_str_eq(got, rows[i].expected, "row %zu: %s", i, got);
        cr_expect(rows[i].least > 1 ? n_pieces >= rows[i].least : n_pieces == rows[i].least,
                  "row %zu: %zu pieces", i, n_pieces);
        free(got);
    }
}

/* Arguments are not held back, so they may be longer than what may be held back. */
Test(output_parser, long_arguments)
{
    struct output_options o = {.tools = OUTPUT_TOOLS_HERMES, .max_call = 48};
    struct text_buf text = {0}, expected = {0};
    const char *head = "<tool_call>{\"name\":\"f\",\"arguments\":", *tail = "}</tool_call>";
    cr_assert_eq(text_buf_append(&text, head, strlen(head)), ST_OK);
    size_t from = text.len;
    cr_assert_eq(text_buf_append(&text, "{\"a\":\"", 6), ST_OK);
    for (int i = 0; i < 5000; i++)
        cr_assert_eq(text_buf_append(&text, "line \\n", 7), ST_OK);
    cr_assert_eq(text_buf_append(&text, "\"}", 2), ST_OK);
    cr_assert_eq(text_buf_append(&expected, "T0(f|", 5), ST_OK);
    cr_assert_eq(text_buf_append(&expected, text.data + from, text.len - from), ST_OK);
    cr_assert_eq(text_buf_append(&expected, ")", 2), ST_OK);
    cr_assert_eq(text_buf_append(&text, tail, strlen(tail)), ST_OK);
    for (size_t size = 1; size < 5000; size = size * 3 + 1) {
        char *got = run(&o, text.data, text.len, &size, 1);
        cr_expect_str_eq(got, expected.data);
        free(got);
    }
    text_buf_free(&text);
    text_buf_free(&expected);
}

Test(output_parser, too_long_a_call_is_content)
{
    struct output_options o = {.tools = OUTPUT_TOOLS_HERMES, .max_call = 40};
    const char
        *fits = "<tool_call>{\"name\": \"f\"}</tool_call>",
        *long_one =
            "<tool_call>{\"arguments\": {\"a\": \"bbbbbbbbbb\"}, \"name\": \"f\"}</tool_call>";
    for (size_t size = 1; size < 80; size += 13) {
        char *got = run(&o, fits, strlen(fits), &size, 1);
        cr_expect_str_eq(got, "T0(f|{})");
        free(got);
        got = run(&o, long_one, strlen(long_one), &size, 1);
        cr_expect(strncmp(got, "C(", 2) == 0 && strlen(got) == strlen(long_one) + 3, "%s", got);
        free(got);
    }
}

Test(output_parser, refuses_wrong_use)
{
    struct output_parser *p;
    struct output_options o = {.reasoning = true, .think_open = ""};
    enum output_tools tools;
    cr_expect_eq(output_parser_create(&p, &o), ST_RANGE);
    cr_expect_null(p);
    o = (struct output_options){.tools = (enum output_tools)77};
    cr_expect_eq(output_parser_create(&p, &o), ST_RANGE);
    o = (struct output_options){0};
    cr_assert_eq(output_parser_create(&p, &o), ST_OK);
    cr_assert_eq(output_parser_finish(p), ST_OK);
    cr_expect_eq(output_parser_push(p, "x", 1), ST_RANGE);
    output_parser_destroy(p);
    output_parser_destroy(NULL);
    cr_expect_eq(output_tools_from_name("mistral", &tools), ST_OK);
    cr_expect_eq(tools, OUTPUT_TOOLS_MISTRAL);
    cr_expect_eq(output_tools_from_name("nothing", &tools), ST_NOT_FOUND);
    cr_expect(strstr(status_text(), "hermes"));
}

/* --- the cut does not matter --- */

static uint64_t next_random(uint64_t *s) /* xorshift64* */
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 2685821657736338717u;
}

static const char *const PIECES[] = {
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<|python_tag|>",
    CALLS_BEGIN,
    CALLS_END,
    CALL_BEGIN,
    CALL_END,
    SEP,
    "<|tool_call|>",
    "<|/tool_call|>",
    "functools",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "functions.f:0",
    "<|start|>assistant",
    "<|channel|>",
    "analysis",
    "final",
    " to=functions.f ",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<|tool_call>",
    "call:f{",
    "<|tool_call>call:f{a:",
    "<|\"|>",
    "a:",
    "<tool_call|>",
    "```tool_code\n",
    "function",
    "\n```json\n",
    "\n```",
    "{\"name\": \"f\", ",
    "{\"name\": \"f\", \"arguments\": {\"a\": ",
    "\"function\": {",
    "\"id\": \"x\", ",
    "\"arguments\": {}}",
    "\"parameters\": {\"a\": 1}}",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    ";",
    " ",
    "\n",
    "f",
    "1",
    "true",
    "<",
    "<t",
    "[T",
    "text",
    "\xc3\xa9",
    "{\"name\":\"g\",\"arguments\":{\"x\":[1,{\"y\":null}]}}",
};

Test(output_parser, any_cut_gives_the_same_events)
{
    static const char *const names[] = {"f"};
    uint64_t seed = 20250115;
    char text[2000];
    for (int round = 0; round < 20000; round++) {
        size_t n = 0, n_pieces = 1 + next_random(&seed) % 14, sizes[5];
        for (size_t i = 0; i < n_pieces; i++) {
            const char *piece = PIECES[next_random(&seed) % ARRAY_LEN(PIECES)];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        }
        for (size_t i = 0; i < 5; i++)
            sizes[i] = 1 + next_random(&seed) % 9;
        struct output_options o = {
            .tools = (enum output_tools)(next_random(&seed) % (OUTPUT_TOOLS_AUTO + 1)),
            .reasoning = next_random(&seed) % 2,
            .starts_in_reasoning = next_random(&seed) % 4 == 0,
            .names = names,
            .n_names = next_random(&seed) % 2,
            .max_call = next_random(&seed) % 3 ? 0 : 20 + next_random(&seed) % 60};
        char *whole = run(&o, text, n, NULL, 0), *cut = run(&o, text, n, sizes, 5);
        cr_assert_str_eq(cut, whole, "round %d: %.*s\n whole %s\n cut   %s", round, (int)n, text,
                         whole, cut);
        free(whole);
        free(cut);
    }
}

Test(output_parser, without_marks_nothing_is_lost)
{
    uint64_t seed = 7;
    char text[2000], expected[2100];
    struct output_options o = {.tools = OUTPUT_TOOLS_NONE};
    for (int round = 0; round < 2000; round++) {
        size_t n = 0, size = 1 + next_random(&seed) % 20;
        for (size_t i = 0; i < 10; i++) {
            const char *piece = PIECES[next_random(&seed) % ARRAY_LEN(PIECES)];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        }
        snprintf(expected, sizeof expected, "C(%.*s)", (int)n, text);
        char *got = run(&o, text, n, &size, 1);
        cr_assert_str_eq(got, expected);
        free(got);
    }
}
