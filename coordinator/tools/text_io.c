/* What the text commands share: parsing of options, reading of input, and messages.  Called by the
 * text_*.c files of `ingot-text`. */
#include <errno.h>
#include <string.h>

#include "common/build_info.h"
#include "common/visible.h"
#include "coordinator/tools/text_tool.h"

enum { MAX_INPUT = 1 << 30 /* bytes */ };

bool text_options(const struct option_set *set, void *dest, int argc, char **argv,
                  struct option_result *res, int *exit_code)
{
    enum status st = options_parse(set, dest, argc, argv, res);
    *exit_code = TEXT_OK;
    if (st != ST_OK) {
        fprintf(stderr, "%s: %s\n", set->program, status_text());
        *exit_code = TEXT_USAGE;
        return false;
    }
    if (res->help)
        options_print_help(stdout, set, res->help);
    if (res->version && !res->help)
        build_info_print(stdout, set->program);
    return !res->help && !res->version;
}

int text_fail(const char *command)
{
    fprintf(stderr, "ingot %s: %s\n", command, status_text());
    return TEXT_FAILED;
}

int text_usage(const char *command, const char *what)
{
    fprintf(stderr, "ingot %s: %s\n'ingot %s --help' explains.\n", command, what, command);
    return TEXT_USAGE;
}

void text_warn(const char *command, const char *what)
{
    fprintf(stderr, "ingot %s: warning: %s\n", command, what);
}

static enum status read_stream(FILE *f, const char *path, struct text_buf *out)
{
    size_t n;
    do {
        if (out->len > MAX_INPUT)
            FAIL(ST_RANGE, "%s is longer than %d bytes", path, MAX_INPUT);
        TRY(text_buf_reserve(out, 65536));
        n = fread(out->data + out->len, 1, 65536, f);
        out->len += n;
    } while (n > 0);
    if (ferror(f))
        FAIL(ST_IO, "cannot read %s: %s", path, strerror(errno));
    return ST_OK;
}

enum status text_read(const char *path, struct text_buf *out)
{
    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "standard input", out);
    FILE *f = fopen(path, "rb");
    if (!f)
        FAIL(errno == ENOENT ? ST_NOT_FOUND : ST_IO, "cannot open %s: %s", path, strerror(errno));
    enum status st = read_stream(f, path, out);
    fclose(f);
    return st;
}

enum status text_write(const char *p, size_t n)
{
    if (n && fwrite(p, 1, n, stdout) != n)
        FAIL(ST_IO, "cannot write the output: %s", strerror(errno));
    if (fflush(stdout) != 0)
        FAIL(ST_IO, "cannot write the output: %s", strerror(errno));
    return ST_OK;
}

static enum status put_escape(struct text_buf *out, const char *format, unsigned c)
{
    char text[12];
    int n = snprintf(text, sizeof text, format, c);
    return text_buf_append(out, text, (size_t)n);
}

enum status text_put_json(struct text_buf *out, const char *s, size_t n)
{
    TRY(text_buf_append(out, "\"", 1));
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            TRY(put_escape(out, "\\%c", c));
        else if (c < 0x20)
            TRY(put_escape(out, "\\u%04x", c));
        else
            TRY(text_buf_append(out, s + i, 1));
    }
    return text_buf_append(out, "\"", 1);
}

enum status text_put_visible(struct text_buf *out, const char *s, size_t n)
{
    for (size_t used; n; s += used, n -= used) {
        char one[VISIBLE_SIZE];
        TRY(text_buf_append(out, one, visible_char(s, n, &used, one)));
    }
    return ST_OK;
}
