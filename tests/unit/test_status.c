/* What users and logs are told of a failure: text without place, place at level debug alone, and no
 * control character of a peer or a file. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/status.h"
#include "common/visible.h"
#include "temp_dir.h"

static enum status fail_with(enum status st, const char *text)
{
    return status_fail(st, "folder/file.c", 12, "%s", text);
}

Test(status, text_has_no_place)
{
    cr_expect_eq(fail_with(ST_FORMAT, "a tensor is missing"), ST_FORMAT);
    cr_expect_str_eq(status_text(), "a tensor is missing");
    cr_expect_str_eq(status_detail(), "file.c:12: a tensor is missing");
}

Test(status, text_may_hold_the_text_before)
{
    cr_expect_eq(fail_with(ST_IO, "inner"), ST_IO);
    cr_expect_eq(status_fail(ST_IO, "b.c", 3, "outer: %s", status_text()), ST_IO);
    cr_expect_str_eq(status_detail(), "b.c:3: outer: inner");
}

Test(status, text_is_one_visible_line)
{
    cr_expect_eq(fail_with(ST_RANGE, "a\x1b[31mb\nc\x7f\xff"), ST_RANGE);
    cr_expect_str_eq(status_text(), "a\\x1b[31mb\\nc\\x7f\\xff");
}

Test(status, long_texts_are_cut)
{
    char text[4000], *end = text;
    for (int i = 0; i < 999; i++)
        end = stpcpy(end, "\xe2\x82\xac\x01");
    cr_expect_eq(fail_with(ST_RANGE, text), ST_RANGE);
    size_t n = strlen(status_text());
    cr_expect(n > 500 && n < 1024 && strncmp(status_text(), "\xe2\x82\xac\\x01", 7) == 0);
}

Test(visible, every_byte)
{
    for (int c = 0; c < 256; c++) {
        char s[2] = {(char)c, 'x'}, out[VISIBLE_SIZE], want[8];
        size_t used, n = visible_char(s, 2, &used, out);
        if (c == '\n' || c == '\t')
            snprintf(want, sizeof want, "\\%c", c == '\n' ? 'n' : 't');
        else if (c >= 0x20 && c < 0x7f)
            snprintf(want, sizeof want, "%c", c);
        else
            snprintf(want, sizeof want, "\\x%02x", (unsigned)c);
        cr_expect_eq(used, 1);
        cr_expect(n == strlen(want) && memcmp(out, want, n) == 0, "%d: %.*s", c, (int)n, out);
    }
}

Test(visible, characters_of_several_bytes)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"\xc2\x80", "\\u0080"},          {"\xc2\x9b", "\\u009b"}, /* CSI */
        {"\xc2\x9f", "\\u009f"},          {"\xc2\xa0", "\xc2\xa0"},
        {"\xe2\x82\xac", "\xe2\x82\xac"}, {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xe2\x82", "\\xe2\\x82"},       {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
        {"\xc0\x80", "\\xc0\\x80"},       {"", ""},
        {"\xe2\x80\xae", "\\u202e"},      {"\xe2\x81\xa6", "\\u2066"}, /* directions */
        {"\xd8\x9c", "\\u061c"},          {"\xe2\x80\x8f", "\\u200f"},
        {"\xe2\x80\xa8", "\\u2028"},      {"\xef\xbb\xbf", "\\ufeff"},
        {"\xe2\x80\x90", "\xe2\x80\x90"}, {"\xd8\x9b", "\xd8\x9b"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[64];
        size_t n = visible_text(out, sizeof out, rows[i].in, strlen(rows[i].in));
        cr_expect_str_eq(out, rows[i].out);
        cr_expect_eq(n, strlen(out));
    }
}

Test(visible, is_cut_between_characters)
{
    char out[9];
    cr_expect_eq(visible_text(out, 9, "ab\x01\x01", 4), 6);
    cr_expect_str_eq(out, "ab\\x01");
    cr_expect_eq(visible_text(out, 3, "\xe2\x82\xac", 3), 0);
    cr_expect_eq(visible_text(out, 4, "\xe2\x82\xac", 3), 3);
    cr_expect_eq(visible_text(out, 1, "a", 1), 0);
}

/* Lines that log_failure and log_line write at a level. */
static const char *logged(enum log_level least, const char *id)
{
    static char text[4096];
    char dir[32], path[40];
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/log", dir);
    int saved = dup(STDERR_FILENO);
    FILE *f = fopen(path, "w+");
    cr_assert(saved >= 0 && f);
    dup2(fileno(f), STDERR_FILENO);
    log_init("tester", least);
    log_failure(LOG_ERROR, fail_with(ST_NOT_FOUND, "no tokenizer in m"), "cannot start");
    log_failure(LOG_ERROR, fail_with(ST_BUG, "a count is negative"), "a step");
    log_line(LOG_INFO, "request %s", id);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static int count(const char *text, char c)
{
    int n = 0;
    for (; *text; text++)
        n += *text == c;
    return n;
}

Test(log, place_at_level_debug_alone)
{
    const char *text = logged(LOG_INFO, "r1");
    cr_expect(strstr(text, " tester cannot start: no tokenizer in m\n"), "%s", text);
    cr_expect(strstr(text, " tester a step: internal error: a count is negative\n"), "%s", text);
    cr_expect(!strstr(text, ".c:") && !strstr(text, "not_found"), "%s", text);
    cr_expect_eq(count(text, '\n'), 3);
    text = logged(LOG_DEBUG, "r1");
    cr_expect(strstr(text, " debug tester cannot start: not_found at file.c:12: no tokenizer"),
              "%s", text);
    cr_expect_eq(count(text, '\n'), 5);
}

Test(log, names_cannot_write_lines_of_their_own)
{
    const char *text = logged(LOG_INFO, "r1\n12:00 error \x1b[31m");
    cr_expect(strstr(text, "request r1\\n12:00 error \\x1b[31m\n"), "%s", text);
    cr_expect(!strchr(text, '\x1b'));
    cr_expect_eq(count(text, '\n'), 3);
}
