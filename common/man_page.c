#include "common/man_page.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* n bytes of text; a line that begins with a dot or a quote would be a command, a hyphen would be
 * drawn as a dash. */
static void put_text(FILE *f, const char *s, size_t n)
{
    bool begins = true;
    for (size_t i = 0; i < n; i++) {
        if (begins && (s[i] == '.' || s[i] == '\''))
            fputs("\\&", f);
        begins = s[i] == '\n';
        if (s[i] == '\\')
            fputs("\\e", f);
        else if (s[i] == '-')
            fputs("\\-", f);
        else
            fputc(s[i], f);
    }
}

static void put_page_name(FILE *f, const char *command, bool upper)
{
    for (const char *c = command; *c; c++)
        fputc(*c == ' ' ? '-' : upper ? toupper((unsigned char)*c) : *c, f);
}

/* The bytes of the first sentence, without its full stop. */
static size_t first_sentence(const char *s)
{
    size_t n = 0;
    while (s[n] && s[n] != '\n' &&
           !(strchr(".:", s[n]) && (isspace((unsigned char)s[n + 1]) || !s[n + 1])))
        n++;
    return n;
}

void man_page_begin(FILE *f, const char *command, const char *usage, const char *summary)
{
    fputs(".TH ", f);
    put_page_name(f, command, true);
    fputs(" 1 \"\" \"Ingot " INGOT_VERSION "\" \"Ingot\"\n.nh\n.ad l\n.SH NAME\n", f);
    put_page_name(f, command, false);
    fputs(" \\- ", f);
    put_text(f, summary, first_sentence(summary));
    fprintf(f, "\n.SH SYNOPSIS\n.B %s\n", command);
    if (*usage) {
        put_text(f, usage, strlen(usage));
        fputc('\n', f);
    }
    man_page_section(f, "DESCRIPTION");
    for (size_t n; *summary; summary += n + (summary[n] == '\n')) {
        n = strcspn(summary, "\n");
        put_text(f, summary, n);
        fputs(summary[n] ? "\n.PP\n" : "\n", f);
    }
}

void man_page_section(FILE *f, const char *title)
{
    fprintf(f, ".SH %s\n", title);
}

void man_page_subsection(FILE *f, const char *title)
{
    fprintf(f, ".SS %s\n", title);
}

void man_page_item(FILE *f, const char *name, const char *arg, const char *text)
{
    fputs(".TP\n\\fB", f);
    put_text(f, name, strlen(name));
    fputs("\\fR", f);
    if (*arg) {
        fputs(" \\fI", f);
        put_text(f, arg, strlen(arg));
        fputs("\\fR", f);
    }
    fputc('\n', f);
    put_text(f, text, strlen(text));
    fputc('\n', f);
}

void man_page_epilog(FILE *f, const char *text)
{
    const char *section = "";
    bool as_is = false;
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        bool indented = *text == ' ';
        bool title = n >= 8 && strncmp(text, "Example", 7) == 0 && text[n - 1] == ':';
        const char *belongs = title ? "EXAMPLES" : indented && *section ? section : "NOTES";
        if (as_is && !indented)
            fputs(".fi\n", f);
        if (strcmp(belongs, section) != 0)
            man_page_section(f, belongs);
        else if ((as_is && !indented) || n == 0)
            fputs(".PP\n", f);
        if (indented && !as_is)
            fputs(".nf\n", f);
        if (n && !title) {
            put_text(f, text, n);
            fputc('\n', f);
        }
        section = belongs;
        as_is = indented;
    }
    if (as_is)
        fputs(".fi\n", f);
}
