/* The template engine on our own templates: what each feature gives (made by Jinja2, see
 * make_expected.py), its limits, its errors, and where templates come from. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/jinja/chat_template.h"
#include "temp_dir.h"
#include "text_chat/chat_data.h"
#include "text_chat/json_slice.h"

/* 2025-01-15 12:00:00, a Wednesday */
static const struct tm NOW = {
    .tm_year = 125, .tm_mon = 0, .tm_mday = 15, .tm_hour = 12, .tm_wday = 3, .tm_yday = 14};

static struct chat_text text_of(const char *p, size_t n)
{
    return (struct chat_text){p, n};
}

static struct chat_text plain(const char *p)
{
    return text_of(p, strlen(p));
}

static struct bytes own_file(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "chat/%s", name);
    struct bytes b = read_file(own_data(path));
    cr_assert(b.data, "tests/data/%s is missing", path);
    return b;
}

/* --- against what Jinja2 gave --- */

struct record {
    char kind[16];
    const char *p;
    size_t n;
};

static struct record next_record(const char **p)
{
    struct record r;
    int taken;
    cr_assert_eq(sscanf(*p, "%15s %zu%n", r.kind, &r.n, &taken), 2,
                 "the expected file ends too early");
    r.p = *p + taken + 1;
    *p = r.p + r.n + 1;
    return r;
}

static void check(const char *source, size_t n, const struct chat_request *q, struct record want)
{
    struct chat_template *t;
    struct text_buf out = {0}, refusal = {0};
    enum chat_outcome outcome = CHAT_FAILED;
    enum status st = chat_template_create(&t, source, n);
    if (st == ST_OK)
        st = chat_template_render(t, q, &chat_limits_default, &out, &outcome, &refusal);
    const char *kind = st == ST_OK ? "text" : outcome == CHAT_REFUSED ? "refused" : "failed";
    const struct text_buf *got = st == ST_OK ? &out : &refusal;
    cr_expect_str_eq(kind, want.kind, "%.*s: %s", (int)n, source, st == ST_OK ? "" : status_text());
    if (strcmp(kind, want.kind) == 0)
        cr_expect(got->len == want.n && (!want.n || memcmp(got->data, want.p, want.n) == 0),
                  "%.*s\n gives    %.*s\n expected %.*s", (int)n, source, (int)got->len,
                  got->data ? got->data : "", (int)want.n, want.p);
    text_buf_free(&out);
    text_buf_free(&refusal);
    chat_template_destroy(t);
}

Test(chat_template, features)
{
    struct bytes sources = own_file("features.txt"), expected = own_file("features.expected"),
                 variables = own_file("variables.json");
    struct chat_request q = {.messages = plain("[]"),
                             .tools = plain("null"),
                             .now = &NOW,
                             .variables = text_of(variables.data, variables.n),
                             .add_generation_prompt = true};
    const char *p = sources.data, *want = expected.data, *end = sources.data + sources.n - 1;
    int n = 0;
    while (p < end) {
        const char *stop = strstr(p, "\n===\n");
        if (!stop)
            stop = end;
        check(p, (size_t)(stop - p), &q, next_record(&want));
        p = stop + 5;
        n++;
    }
    cr_expect_gt(n, 600);
    cr_expect_eq(want, expected.data + expected.n);
    free(sources.data);
    free(expected.data);
    free(variables.data);
}

static struct chat_text member(struct slice object, const char *name)
{
    struct slice s = js_member(object, name);
    return text_of(s.p, s.n);
}

static void check_template(const char *name)
{
    char file[64];
    struct bytes cases = own_file("cases.json");
    snprintf(file, sizeof file, "%s.jinja", name);
    struct bytes source = own_file(file);
    snprintf(file, sizeof file, "%s.expected", name);
    struct bytes expected = own_file(file);
    const char *want = expected.data;
    struct slice one;
    for (size_t i = 0; (one = js_item((struct slice){cases.data, cases.n}, i)).p; i++) {
        struct slice gen = js_member(one, "add_generation_prompt");
        struct chat_request q = {
            .messages = member(one, "messages"),
            .tools = member(one, "tools"),
            .variables = plain("{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}"),
            .more = member(one, "variables"),
            .add_generation_prompt = !gen.p || js_is(gen, "true"),
            .continue_final_message = js_member(one, "continue_final_message").p != NULL,
            .now = &NOW,
        };
        check(source.data, source.n, &q, next_record(&want));
    }
    cr_expect_eq(want, expected.data + expected.n);
    free(cases.data);
    free(source.data);
    free(expected.data);
}

Test(chat_template, chatml)
{
    check_template("chatml");
}

Test(chat_template, llama3_like)
{
    check_template("llama3_like");
}

Test(chat_template, mistral_like)
{
    check_template("mistral_like");
}

/* --- errors --- */

struct error_row {
    const char *source;
    enum status status;
    const char *text; /* part of the message */
};

static const struct error_row SYNTAX[] = {
    {"a\nb {% if %}", ST_FORMAT, "line 2"},
    {"{% for x in y %}\n\n", ST_FORMAT, "line 1: the block that begins here has no 'endfor'"},
    {"{{ 'abc }}", ST_FORMAT, "line 1: this string has no end"},
    {"\n\n{# abc", ST_FORMAT, "line 3: this comment has no end"},
    {"{% raw %}", ST_FORMAT, "endraw"},
    {"{% nonsense %}", ST_FORMAT, "unknown statement 'nonsense'"},
    {"{% include 'x' %}", ST_UNSUPPORTED, "'include' is not supported"},
    {"{{ (1 }}", ST_FORMAT, "unexpected '}', expected ')'"},
    {"{{ 1", ST_FORMAT, "this tag has no end"},
    {"{% break %}", ST_FORMAT, "'break' outside of a loop"},
    {"{{ \"\\ud800\" }}", ST_FORMAT, "U+D800"},
    {"\xff", ST_FORMAT, "not UTF-8 at byte 0"},
    {"{{ a.b(c=1, 2) }}", ST_FORMAT, "an argument stands after"},
    {"{% set 5 = a %}", ST_FORMAT, "a name to assign to"},
    {"{% macro m(a=1, b) %}{% endmacro %}", ST_FORMAT, "without a default"},
};

Test(chat_template, syntax_errors_name_the_line)
{
    for (size_t i = 0; i < ARRAY_LEN(SYNTAX); i++) {
        struct chat_template *t;
        enum status st = chat_template_create(&t, SYNTAX[i].source, strlen(SYNTAX[i].source));
        cr_expect_eq(st, SYNTAX[i].status, "%s: %s", SYNTAX[i].source, status_name(st));
        cr_expect(strstr(status_text(), SYNTAX[i].text), "%s: %s", SYNTAX[i].source, status_text());
        cr_expect_null(t);
    }
}

static enum status render(const char *source, struct chat_request q,
                          const struct chat_limits *limits, enum chat_outcome *outcome)
{
    struct chat_template *t;
    struct text_buf out = {0};
    cr_assert_eq(text_buf_append(&out, "before", 6), ST_OK);
    cr_assert_eq(chat_template_create(&t, source, strlen(source)), ST_OK, "%s", status_text());
    enum status st = chat_template_render(t, &q, limits, &out, outcome, NULL);
    if (st != ST_OK)
        cr_expect_eq(out.len, 6, "a failure leaves the output as it was");
    chat_template_destroy(t);
    text_buf_free(&out);
    return st;
}

Test(chat_template, a_refusal_is_no_failure)
{
    enum chat_outcome outcome;
    struct chat_request q = {.messages = plain("[]")};
    cr_expect_eq(render("{{ raise_exception('not so') }}", q, &chat_limits_default, &outcome),
                 ST_RANGE);
    cr_expect_eq(outcome, CHAT_REFUSED);
    cr_expect_str_eq(status_text(), "not so");
    cr_expect_eq(render("\n{{ a.b }}", q, &chat_limits_default, &outcome), ST_UNSUPPORTED);
    cr_expect_eq(outcome, CHAT_FAILED);
    cr_expect_str_eq(status_text(), "chat template line 2: 'a' is undefined");
}

static const struct error_row INPUTS[] = {
    {"", ST_FORMAT, "messages: the text ends"},
    {"[", ST_FORMAT, "messages: the text ends"},
    {"{}", ST_FORMAT, "messages is a JSON object, not a list"},
    {"[1]", ST_FORMAT, "messages[0] is no object"},
    {"[{\"a\": NaN}]", ST_FORMAT, "at byte 7"},
    {"[{\"a\": 01}]", ST_FORMAT, "at byte 9"},
    {"[{\"a\": \"\\ud800\"}]", ST_FORMAT, "surrogate"},
    {"[{\"a\": \"\x01\"}]", ST_FORMAT, "control character"},
    {"[{\"a\": \"\xc0\xaf\"}]", ST_FORMAT, "not UTF-8"},
    {"[{}] x", ST_FORMAT, "more text after"},
    {"[{\"a\" 1}]", ST_FORMAT, "':' expected"},
    {"[{},]", ST_FORMAT, "no JSON value"},
};

Test(chat_template, malformed_input_is_named)
{
    enum chat_outcome outcome;
    for (size_t i = 0; i < ARRAY_LEN(INPUTS); i++) {
        struct chat_request q = {.messages = plain(INPUTS[i].source)};
        cr_expect_eq(render("x", q, &chat_limits_default, &outcome), INPUTS[i].status, "%s",
                     INPUTS[i].source);
        cr_expect_eq(outcome, CHAT_BAD_INPUT);
        cr_expect(strstr(status_text(), INPUTS[i].text), "%s: %s", INPUTS[i].source, status_text());
    }
    struct chat_request none = {0};
    cr_expect_eq(render("x", none, &chat_limits_default, &outcome), ST_FORMAT);
    struct chat_request both = {.messages = plain("[{\"content\": \"x\"}]"),
                                .continue_final_message = true,
                                .add_generation_prompt = true};
    cr_expect_eq(render("x", both, &chat_limits_default, &outcome), ST_FORMAT);
    cr_expect(strstr(status_text(), "exclude"));
}

Test(chat_template, continue_final_message)
{
    enum chat_outcome outcome;
    struct chat_request q = {.messages = plain("[{\"role\": \"user\", \"content\": null}]"),
                             .continue_final_message = true};
    cr_expect_eq(render("x", q, &chat_limits_default, &outcome), ST_UNSUPPORTED);
    cr_expect_eq(outcome, CHAT_FAILED);
    q.messages = plain("[{\"content\": \"gone\"}]");
    cr_expect_eq(render("x", q, &chat_limits_default, &outcome), ST_RANGE);
    cr_expect_eq(outcome, CHAT_REFUSED);
    q.messages =
        plain("[{\"content\": [{\"type\": \"text\", \"text\": \"x\"}, {\"type\": \"image\"}]}]");
    cr_expect_eq(
        render("{{ messages[0].content[0].text }} and more", q, &chat_limits_default, &outcome),
        ST_OK);
}

/* --- limits --- */

static const char *const HOSTILE[] = {
    "{% for i in range(100000) %}{% for j in range(100000) %}{{ i }}{% endfor %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('aaaaaaaa') }}",
    "{{ 'a' * 1000000000000 }}",
    "{{ [1] * 1000000000000 }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor "
    "%}",
    "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor "
    "%}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor "
    "%}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor "
    "%}{{ ns.x }}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor "
    "%}"
    "{{ ns.x | tojson }}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor "
    "%}"
    "{{ ns.x == ns.x }}",
    "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
    "{{ ('a' * 1000000).replace('', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbb') }}",
    "{{ ('a' * 1000000).rfind('b' ~ 'a' * 500000) }}",
    "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{% set y = x[:-1] %}{% endfor %}",
    "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{% set y = x == x ~ 'b' %}{% endfor %}",
    "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{{ [1] | slice(1000000000) | list }}",
    "{% for i in range(100000) %}{% set y = range(100000) | list %}{% endfor %}",
    "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = dict(ns.x, **{'k' ~ i: "
    "i}) %}"
    "{% endfor %}",
};

Test(chat_template, hostile_templates_run_into_a_limit)
{
    enum chat_outcome outcome;
    struct chat_request q = {.messages = plain("[]")};
    for (size_t i = 0; i < ARRAY_LEN(HOSTILE); i++) {
        cr_expect_eq(render(HOSTILE[i], q, &chat_limits_default, &outcome), ST_NOMEM, "%s: %s",
                     HOSTILE[i], status_text());
        cr_expect_eq(outcome, CHAT_FAILED);
        cr_expect(strstr(status_text(), "chat template line 1: "), "%s", status_text());
    }
    cr_expect_eq(render("{{ '%100000000d' % 5 }}", q, &chat_limits_default, &outcome),
                 ST_UNSUPPORTED);
    cr_expect_eq(render("{{ range(100001) }}", q, &chat_limits_default, &outcome), ST_UNSUPPORTED);
}

Test(chat_template, a_list_that_grows_while_it_is_gone_through_ends)
{
    enum chat_outcome outcome;
    struct chat_request q = {.messages = plain("[]"), .allow_mutation = true};
    cr_expect_eq(render("{% set l = [1] %}{% for x in l %}{% set y = l.append(x) %}{% endfor %}", q,
                        &chat_limits_default, &outcome),
                 ST_NOMEM);
    cr_expect_eq(render("{% set l = [1] %}{% set y = l.append(l) %}{{ l }}", q,
                        &chat_limits_default, &outcome),
                 ST_NOMEM);
}

Test(chat_template, small_limits_are_kept)
{
    enum chat_outcome outcome;
    struct chat_request q = {.messages = plain("[{\"content\": \"0123456789\"}]")};
    struct chat_limits limits = chat_limits_default;
    limits.max_output = 19;
    cr_expect_eq(render("{{ messages[0].content * 2 }}", q, &limits, &outcome), ST_NOMEM);
    cr_expect(strstr(status_text(), "19 bytes of text"), "%s", status_text());
    limits.max_output = 20;
    cr_expect_eq(render("{{ messages[0].content * 2 }}", q, &limits, &outcome), ST_OK);
    limits.max_memory = 100;
    cr_expect_eq(render("x", q, &limits, &outcome), ST_NOMEM);
    limits = chat_limits_default;
    limits.max_depth = 4;
    cr_expect_eq(render("{{ ((((1 + 1) + 1) + 1) + 1) + 1 }}", q, &limits, &outcome), ST_NOMEM);
    limits.max_depth = 400;
    limits.max_steps = 20;
    cr_expect_eq(render("{% for i in range(30) %}{{ i }}{% endfor %}", q, &limits, &outcome),
                 ST_NOMEM);
}

Test(chat_template, deeply_nested_source_is_refused)
{
    enum { N = 200000 };
    static const char *const pieces[] = {"(",    "[",          "{",     "-",
                                         "not ", "{% if a %}", "{{ a(", "a if "};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct text_buf source = {0};
        struct chat_template *t;
        cr_assert_eq(text_buf_append(&source, "{{ ", pieces[i][0] == '{' && pieces[i][1] ? 0 : 3),
                     ST_OK);
        for (size_t k = 0; k < N / strlen(pieces[i]); k++)
            cr_assert_eq(text_buf_append(&source, pieces[i], strlen(pieces[i])), ST_OK);
        cr_expect_eq(chat_template_create(&t, source.data, source.len), ST_FORMAT, "%s: %s",
                     pieces[i], status_text());
        text_buf_free(&source);
    }
}

/* --- which bytes are of the conversation --- */

/* source renders to text for the content; of marks, '1' is a byte of the conversation. */
static void check_marks(const char *source, const char *text, const char *marks)
{
    static const char messages[] = "[{\"role\": \"user\", \"content\": \"a<|b|>c\", \"n\": 7}, "
                                   "{\"role\": \"<|b|>\", \"content\": \"\"}]";
    struct text_buf out = {0}, content = {0};
    struct chat_template *t;
    const struct chat_request q = {.messages = plain(messages),
                                   .variables = plain("{\"bos\": \"<s>\"}"),
                                   .more = plain("{\"mine\": \"<s>\"}"),
                                   .content = &content};
    cr_assert_eq(chat_template_create(&t, source, strlen(source)), ST_OK, "%s", status_text());
    cr_expect_eq(chat_template_render(t, &q, &chat_limits_default, &out, NULL, NULL), ST_OK,
                 "%s: %s", source, status_text());
    for (size_t i = 0; i < content.len; i++)
        content.data[i] = (char)('0' + content.data[i]);
    cr_expect(out.len == strlen(text) && memcmp(out.data, text, out.len) == 0, "%s: %.*s", source,
              (int)out.len, out.data);
    cr_expect(content.len == strlen(marks) && memcmp(content.data, marks, content.len) == 0,
              "%s: %.*s", source, (int)content.len, content.data);
    text_buf_free(&out);
    text_buf_free(&content);
    chat_template_destroy(t);
}

Test(chat_template, bytes_of_the_conversation_are_known)
{
    static const char *const rows[][3] = {
        {"<s>{{ messages[0].content }}</s>", "<s>a<|b|>c</s>", "00011111110000"},
        {"{{ '<|' + messages[0].role + '|>' }}", "<|user|>", "00000000"},
        {"{{ '<|' ~ messages[0].role | upper ~ '|>' }}", "<|USER|>", "00000000"},
        {"{{ '<|i_' ~ messages[0].n ~ '|>' }}", "<|i_7|>", "0000000"},
        {"{{ messages[1].role }}{{ bos }}{{ mine }}", "<|b|><s><s>", "11111000111"},
        {"{{ (messages[0].content | trim)[1:6] | upper }}!", "<|B|>!", "111110"},
        {"{{ messages[0].content | replace('a', '<s>') }}", "<s><|b|>c", "000111111"},
        {"{{ messages[0].content.split('|') | join('#') }}", "a<#b#>c", "1101011"},
        {"{% set x = '[' ~ messages[0].content ~ ']' %}{{ x[::-1] }}", "]c>|b|<a[", "011111110"},
        {"{% set x %}({{ messages[0].content }}){% endset %}{{ x }}", "(a<|b|>c)", "011111110"},
        {"{% macro m(v) %}<s>{{ v }}{% endmacro %}{{ m(messages[0].content) }}", "<s>a<|b|>c",
         "0001111111"},
        {"{{ '<s>%s</s>' % messages[0].content }}", "<s>a<|b|>c</s>", "00011111110000"},
        {"{{ '<s>' * 2 }}{{ messages[0].content * 2 }}", "<s><s>a<|b|>ca<|b|>c",
         "00000011111111111111"},
        {"{{ messages[0].content | list | join }}{{ '\\n<s>' }}", "a<|b|>c\n<s>", "11111110000"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check_marks(rows[i][0], rows[i][1], rows[i][2]);
}

/* --- several threads with one template --- */

static void render_one(const struct chat_template *t, struct text_buf *out)
{
    struct chat_request q = {.messages = plain("[{\"role\": \"user\", \"content\": \"é\"}]"),
                             .add_generation_prompt = true};
    if (chat_template_render(t, &q, &chat_limits_default, out, NULL, NULL) != ST_OK)
        out->len = 0;
}

static struct text_buf alone; /* what one thread gets */

static void *render_often(void *arg)
{
    for (int i = 0; i < 200; i++) {
        struct text_buf out = {0};
        render_one(arg, &out);
        if (out.len != alone.len || memcmp(out.data, alone.data, out.len) != 0)
            return arg;
        text_buf_free(&out);
    }
    return NULL;
}

Test(chat_template, threads_share_a_template)
{
    struct bytes source = own_file("chatml.jinja");
    struct chat_template *t;
    pthread_t threads[4];
    void *bad;
    cr_assert_eq(chat_template_create(&t, source.data, source.n), ST_OK);
    render_one(t, &alone);
    cr_assert_gt(alone.len, 50);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, render_often, t), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &bad);
        cr_expect_null(bad);
    }
    text_buf_free(&alone);
    chat_template_destroy(t);
    free(source.data);
}

/* --- model directories --- */

static char folder[64];

static void make_folder(void)
{
    temp_dir_make(folder);
}

static void put_file(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (strchr(name, '/')) {
        char dir[200];
        snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
        mkdir(dir, 0700);
    }
    FILE *f = fopen(path, "wb");
    cr_assert(f);
    fputs(text, f);
    fclose(f);
}

static void remove_folder(void)
{
    temp_dir_remove(folder);
}

static void expect_source(const char *name, const char *source)
{
    struct chat_template *t;
    enum status st = chat_template_from_model(&t, folder, name);
    if (!source) {
        cr_expect_eq(st, ST_NOT_FOUND, "%s", status_name(st));
        return;
    }
    cr_assert_eq(st, ST_OK, "%s", status_text());
    struct chat_text got = chat_template_source(t);
    cr_expect(got.len == strlen(source) && memcmp(got.data, source, got.len) == 0, "%.*s",
              (int)got.len, got.data);
    chat_template_destroy(t);
}

Test(chat_template, from_a_model_directory, .init = make_folder, .fini = remove_folder)
{
    struct chat_template *t;
    struct text_buf json = {0};
    expect_source(NULL, NULL);
    put_file("tokenizer_config.json",
             "{\"chat_template\": \"one\", \"bos_token\": {\"content\": \"<s>\"}, "
             "\"eos_token\": \"</s>\\n\", \"pad_token\": null}");
    expect_source(NULL, "one");
    expect_source("default", "one");
    expect_source("rag", NULL);
    cr_assert_eq(chat_special_tokens(folder, &json), ST_OK);
    cr_expect(json.len == 43 &&
                  memcmp(json.data, "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\\n\"}", 43) ==
                      0,
              "%.*s", (int)json.len, json.data);
    text_buf_free(&json);
    put_file("tokenizer_config.json",
             "{\"chat_template\": [{\"name\": \"default\", \"template\": \"d\"}, "
             "{\"name\": \"tool_use\", \"template\": \"t\"}]}");
    expect_source(NULL, "d");
    expect_source("tool_use", "t");
    expect_source("rag", NULL);
    cr_expect(strstr(status_text(), "default, tool_use"), "%s", status_text());
    put_file("chat_template.jinja", "file");
    put_file("additional_chat_templates/rag.jinja", "ragged");
    expect_source(NULL, "file");
    expect_source("rag", "ragged");
    expect_source("tool_use", "t");
    put_file("chat_template.jinja", "{% if");
    cr_expect_eq(chat_template_from_model(&t, folder, NULL), ST_FORMAT);
    cr_expect(strstr(status_text(), "chat_template.jinja: chat template line 1"), "%s",
              status_text());
    cr_expect_eq(chat_template_from_model(&t, folder, "../x"), ST_RANGE);
    put_file("chat_template.json", "[]");
    cr_expect_eq(chat_template_from_model(&t, folder, "tool_use"), ST_FORMAT);
}
