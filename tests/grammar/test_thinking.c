/* Budgets of thinking: when the closing mark must come. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/grammar/grammar.h"
#include "common/grammar/thinking.h"

static struct thinking_rule rule_of(const char *text)
{
    struct thinking_rule rule;
    struct json_span answer;
    cr_assert_eq(thinking_read(&rule, text, strlen(text), &answer), ST_OK, "%s", status_text());
    return rule;
}

#define MARKS "\"open\":\"<think>\",\"close\":\"</think>\""

/* Tokens as texts; the forced ones of RULE are ids 900 and 901, with these texts. */
static const char *const close_text[] = {"</", "think>"};

/* Writes the tokens; where one is forced, that one comes instead and "!" is noted behind it. */
static void write_tokens(const struct thinking_rule *rule, const char *const *tokens, char *out)
{
    struct thinking_state s;
    thinking_begin(rule, &s);
    *out = 0;
    for (size_t i = 0; tokens[i];) {
        int32_t id = thinking_forced(rule, &s);
        const char *text = id < 0 ? tokens[i++] : close_text[id - 900];
        thinking_token(rule, &s, id < 0 ? (int32_t)i : id, (const uint8_t *)text, strlen(text));
        strcat(out, text);
        strcat(out, id < 0 ? "|" : "!");
    }
}

static void check(const char *rule_text, const char *const *tokens, const char *want)
{
    char out[512];
    struct thinking_rule rule = rule_of(rule_text);
    write_tokens(&rule, tokens, out);
    cr_expect_str_eq(out, want, "%s: %s, not %s", rule_text, out, want);
}

#define TOKENS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define RULE(n, more) "{\"budget\":" #n "," MARKS ",\"close_ids\":[900,901]" more "}"

Test(thinking, is_closed_when_its_tokens_are_used_up)
{
    check(RULE(2, ""), TOKENS("<think>", "a", "b", "c", "d"), "<think>|a|b|</!think>!c|d|");
    check(RULE(0, ""), TOKENS("<think>", "a"), "<think>|</!think>!a|");
    check(RULE(3, ""), TOKENS("<think>", "a", "</think>", "b", "c", "d", "e"),
          "<think>|a|</think>|b|c|d|e|");
}

Test(thinking, begins_with_the_prompt_or_with_the_answer)
{
    check(RULE(1, ",\"inside\":true"), TOKENS("a", "b"), "a|</!think>!b|");
    check(RULE(0, ",\"inside\":true"), TOKENS("a"), "</!think>!a|");
    check(RULE(0, ""), TOKENS(" \n", "\t<thi", "nk>", "a"), " \n|\t<thi|nk>|</!think>!a|");
    check(RULE(0, ""), TOKENS("a", "<think>", "b"), "a|<think>|b|");
    check(RULE(0, ""), TOKENS("<th<think>", "b"), "<th<think>|b|");
}

Test(thinking, of_messages_begins_again_and_counts_on)
{
    check(RULE(3, ",\"anywhere\":true"),
          TOKENS("x", "<think>", "a", "</think>", "y", "<think>", "b", "c", "d", "<think>", "z"),
          "x|<think>|a|</think>|y|<think>|b|c|</!think>!d|<think>|</!think>!z|");
}

/* The token that closes may have text on both sides; one that only begins the mark counts. */
Test(thinking, closes_within_a_token)
{
    check(RULE(1, ""), TOKENS("<think>", "a</think>b", "c"), "<think>|a</think>b|c|");
    check(RULE(2, ""), TOKENS("<think>a", "</", "think>", "c"), "<think>a|</|think>|c|");
    check(RULE(1, ""), TOKENS("<think>", "</", "x"), "<think>|</|</!think>!x|");
}

Test(thinking, does_not_part_a_character)
{
    check(RULE(1, ""), TOKENS("<think>", "\xe2", "\x82", "\xac", "x"),
          "<think>|\xe2|\x82|\xac|</!think>!x|");
    /* each token ends a character and begins the next one */
    check(RULE(1, ""),
          TOKENS("<think>", "\xe2", "\x82\xac\xe2", "\x82\xac\xe2", "\x82\xac\xe2", "x"),
          "<think>|\xe2|\x82\xac\xe2|\x82\xac\xe2|\x82\xac\xe2|</!think>!x|");
    check(RULE(1, ""), TOKENS("<think>", "\xe2", "x", "y"), "<think>|\xe2|x|</!think>!y|");
    check(RULE(1, ""), TOKENS("<think>", "\xff\x80", "y"), "<think>|\xff\x80|</!think>!y|");
}

/* A mark that is a special token has GRAMMAR_SPECIAL before its spelling. */
Test(thinking, knows_special_tokens)
{
    check(RULE(1, ""), TOKENS("\xff<think>", "a", "b"), "\xff<think>|a|</!think>!b|");
    check(RULE(2, ""), TOKENS("\xff<think>", "a", "\xff</think>", "b", "c"),
          "\xff<think>|a|\xff</think>|b|c|");
}

/* Ids that do not spell the mark end thinking all the same, and tokens without text count. */
Test(thinking, ends_behind_its_ids)
{
    struct thinking_rule rule = rule_of(RULE(1, ""));
    struct thinking_state s;
    thinking_begin(&rule, &s);
    thinking_token(&rule, &s, 1, (const uint8_t *)"<think>", 7);
    cr_expect_eq(thinking_forced(&rule, &s), -1);
    thinking_token(&rule, &s, 2, NULL, 0);
    cr_expect_eq(thinking_forced(&rule, &s), 900);
    thinking_token(&rule, &s, 900, NULL, 0);
    cr_expect_eq(thinking_forced(&rule, &s), 901);
    thinking_token(&rule, &s, 901, NULL, 0);
    cr_expect_eq(s.phase, THINKING_OVER);
    cr_expect_eq(thinking_forced(&rule, &s), -1);
}

/* Another token than the one that was forced (an answer from before) begins the mark anew. */
Test(thinking, begins_the_mark_anew)
{
    struct thinking_rule rule = rule_of(RULE(0, ",\"inside\":true"));
    struct thinking_state s;
    thinking_begin(&rule, &s);
    thinking_token(&rule, &s, 900, (const uint8_t *)"</", 2);
    cr_expect_eq(thinking_forced(&rule, &s), 901);
    thinking_token(&rule, &s, 5, (const uint8_t *)"x", 1);
    cr_expect_eq(thinking_forced(&rule, &s), 900);
}

Test(thinking, bad_sources_are_refused)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"[]", "object"},
        {"{" MARKS ",\"close_ids\":[1]}", "needs budget"},
        {"{\"budget\":1,\"close\":\"x\",\"close_ids\":[1]}", "needs open"},
        {"{\"budget\":1,\"open\":\"x\",\"close_ids\":[1]}", "needs close"},
        {"{\"budget\":1," MARKS "}", "needs close_ids"},
        {"{\"budget\":1," MARKS ",\"close_ids\":[]}", "needs close_ids"},
        {"{\"budget\":-1," MARKS ",\"close_ids\":[1]}", "budget"},
        {"{\"budget\":4294967296," MARKS ",\"close_ids\":[1]}", "budget"},
        {"{\"budget\":1," MARKS ",\"close_ids\":[-1]}", "close_ids"},
        {"{\"budget\":1," MARKS ",\"close_ids\":[2147483648]}", "close_ids"},
        {"{\"budget\":1,\"open\":\"\",\"close\":\"x\",\"close_ids\":[1]}", "open has 0 bytes"},
        {"{\"budget\":1," MARKS ",\"close_ids\":[1],\"more\":1}", "more: is no member"},
        {"{\"budget\":1," MARKS ",\"close_ids\":[1],\"inside\":1}", "inside"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct thinking_rule rule;
        struct json_span answer;
        cr_expect_neq(thinking_read(&rule, rows[i].text, strlen(rows[i].text), &answer), ST_OK,
                      "%s", rows[i].text);
        cr_expect(strstr(status_text(), rows[i].words), "%s: %s", rows[i].text, status_text());
    }
}

Test(thinking, bounds_of_marks_and_ids)
{
    char text[2048], mark[80];
    struct thinking_rule rule;
    struct json_span answer;
    for (int n = THINKING_MAX_MARK; n <= THINKING_MAX_MARK + 1; n++) {
        memset(mark, 'x', sizeof mark);
        mark[n] = 0;
        snprintf(
            text, sizeof text,
            "{\"budget\":0,\"inside\":true,\"open\":\"%s\",\"close\":\"%s\",\"close_ids\":[1]}",
            mark, mark);
        enum status st = thinking_read(&rule, text, strlen(text), &answer);
        cr_expect_eq(st, n == THINKING_MAX_MARK ? ST_OK : ST_RANGE);
    }
    for (int n = THINKING_MAX_IDS; n <= THINKING_MAX_IDS + 1; n++) {
        size_t at = (size_t)snprintf(text, sizeof text, "{\"budget\":0," MARKS ",\"close_ids\":[1");
        for (int i = 1; i < n; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, ",%d", i);
        snprintf(text + at, sizeof text - at, "]}");
        enum status st = thinking_read(&rule, text, strlen(text), &answer);
        cr_expect_eq(st, n == THINKING_MAX_IDS ? ST_OK : ST_RANGE);
    }
}

/* As grammars: the budget is kept beside the tags of the answer. */
Test(thinking, grammars_have_it)
{
    static const struct {
        enum grammar_kind kind;
        const char *text;
        enum status st;
    } rows[] = {
        {GRAMMAR_THINKING, RULE(7, ""), ST_OK},
        {GRAMMAR_THINKING_TAGS, RULE(7, ",\"answer\":{\"text\":\"ab\"}"), ST_OK},
        {GRAMMAR_THINKING, RULE(7, ",\"answer\":{\"text\":\"ab\"}"), ST_FORMAT},
        {GRAMMAR_THINKING_TAGS, RULE(7, ""), ST_FORMAT},
        {GRAMMAR_THINKING_TAGS, RULE(7, ",\"answer\":{\"txt\":\"ab\"}"), ST_FORMAT},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct grammar_source source = {rows[i].kind, rows[i].text, strlen(rows[i].text)};
        struct grammar *g;
        cr_assert_eq(grammar_compile(&g, &source, NULL), rows[i].st, "%s: %s", rows[i].text,
                     status_text());
        if (rows[i].st != ST_OK)
            continue;
        cr_expect_eq(grammar_thinking(g)->budget, 7u);
        cr_expect_eq(grammar_is_open(g), rows[i].kind == GRAMMAR_THINKING);
        struct matcher *m;
        bool ok = false;
        cr_assert_eq(matcher_create(&m, g), ST_OK);
        cr_assert_eq(matcher_consume(m, "ab", 2, &ok), ST_OK);
        cr_expect(ok && matcher_accepts(m));
        matcher_destroy(m);
        grammar_destroy(g);
    }
}
