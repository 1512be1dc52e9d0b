/* --help of a table of options (common/options.h), in each of its forms. */
#include <string.h>

#include "common/man_page.h"
#include "common/options.h"

enum { NOTE_SIZE = 160, TEXT_SIZE = 1280 };

static bool is_on_by_default(const struct option_row *r)
{
    return r->type == OPT_FLAG && r->def && strcmp(r->def, "true") == 0;
}

static const char *value_name(const struct option_row *r)
{
    return r->type == OPT_FLAG ? "" : r->arg ? r->arg : "VALUE";
}

/* The row's help with " (default 4; 1 to 64)"; bounds as wide as the type say nothing. */
static void row_text(const struct option_row *r, char text[TEXT_SIZE])
{
    char note[NOTE_SIZE] = "";
    bool bounds = (r->min != 0.0 || r->max != 0.0) && r->max < 4294967295.0;
    if (r->required)
        snprintf(note, sizeof note, " (required)");
    else if (r->def && bounds)
        snprintf(note, sizeof note, " (default %s; %.15g to %.15g)", r->def, r->min, r->max);
    else if (r->def)
        snprintf(note, sizeof note, " (default %s)", r->def);
    else if (bounds)
        snprintf(note, sizeof note, " (%.15g to %.15g)", r->min, r->max);
    snprintf(text, TEXT_SIZE, "%s%s", r->help, note);
}

/* ---- on a terminal ---- */

enum { HELP_COLUMN = 30, HELP_WIDTH = 96 };

/* Words of text from the current column on, broken at HELP_WIDTH, further lines at `indent`. */
static void print_wrapped(FILE *f, const char *text, int column, int indent)
{
    int spaces = 0; /* owed before the next word of this line */
    while (*text) {
        int n = (int)strcspn(text, " \n");
        if (n > 0 && column > indent && column + spaces + n > HELP_WIDTH) {
            fprintf(f, "\n%*s", indent, "");
            column = indent;
            spaces = 0;
        }
        if (n > 0) {
            fprintf(f, "%*s%.*s", spaces, "", n, text);
            column += spaces + n;
            spaces = 0;
        }
        text += n;
        if (*text == ' ') {
            spaces++;
            text++;
        } else if (*text == '\n') {
            fprintf(f, "\n%*s", indent, "");
            column = indent;
            spaces = 0;
            text++;
        }
    }
}

static void print_row(FILE *f, const struct option_row *r)
{
    char text[TEXT_SIZE];
    const char *value = value_name(r);
    int n = fprintf(f, "  --%s%s%s%s", is_on_by_default(r) ? "[no-]" : "", r->name,
                    *value ? " " : "", value);
    if (n >= HELP_COLUMN - 1)
        fprintf(f, "\n%*s", HELP_COLUMN, "");
    else
        fprintf(f, "%*s", HELP_COLUMN - n, "");
    row_text(r, text);
    print_wrapped(f, text, HELP_COLUMN, HELP_COLUMN);
    fputc('\n', f);
}

static void print_text(FILE *f, const struct option_set *set)
{
    fprintf(f, "usage: %s %s\n\n", set->program, set->usage);
    print_wrapped(f, set->summary, 0, 0);
    fprintf(f, "\n");
    if (set->n_rows && set->rows[0].name)
        fprintf(f, "\nOptions:\n");
    for (size_t i = 0; i < set->n_rows; i++) {
        if (set->rows[i].name)
            print_row(f, &set->rows[i]);
        else
            fprintf(f, "\n%s:\n", set->rows[i].help);
    }
    fprintf(f, "\n  --help, -h                  this text; --help=man: as a manual page\n"
               "  --version                   the version\n");
    if (set->epilog)
        fprintf(f, "\n%s\n", set->epilog);
}

/* ---- as a manual page ---- */

static void print_man(FILE *f, const struct option_set *set)
{
    char name[96], text[TEXT_SIZE];
    man_page_begin(f, set->program, set->usage, set->summary);
    man_page_section(f, "OPTIONS");
    for (size_t i = 0; i < set->n_rows; i++) {
        const struct option_row *r = &set->rows[i];
        if (!r->name) {
            man_page_subsection(f, r->help);
            continue;
        }
        snprintf(name, sizeof name, "--%s%s", is_on_by_default(r) ? "[no-]" : "", r->name);
        row_text(r, text);
        man_page_item(f, name, value_name(r), text);
    }
    if (set->n_rows)
        man_page_subsection(f, "Other");
    man_page_item(f, "--help, -h", "",
                  "Print this text.  --help=man prints it as a manual page, --help=options a line "
                  "for each option: its name, flag, on, choice or value, the value's name, and the "
                  "text, with tabs between.");
    man_page_item(f, "--version", "", "Print the version.");
    if (set->epilog)
        man_page_epilog(f, set->epilog);
}

/* ---- for completions ---- */

/* NAME, KIND, VALUE and TEXT with tabs between.  Kinds: flag; on (a flag with --no-NAME); choice
 * (VALUE is "a|b"); value. */
static void print_options(FILE *f, const struct option_set *set)
{
    for (size_t i = 0; i < set->n_rows; i++) {
        const struct option_row *r = &set->rows[i];
        if (!r->name)
            continue;
        const char *kind = is_on_by_default(r)   ? "on"
                           : r->type == OPT_FLAG ? "flag"
                           : r->type == OPT_ENUM ? "choice"
                                                 : "value";
        fprintf(f, "%s\t%s\t%s\t", r->name, kind, value_name(r));
        for (const char *c = r->help; *c; c++)
            fputc(*c == '\n' || *c == '\t' ? ' ' : *c, f);
        fputc('\n', f);
    }
    fputs("help\tflag\t\tPrint the options.\nversion\tflag\t\tPrint the version.\n", f);
}

void options_print_help(FILE *f, const struct option_set *set, enum option_help form)
{
    if (form == HELP_MAN)
        print_man(f, set);
    else if (form == HELP_OPTIONS)
        print_options(f, set);
    else
        print_text(f, set);
}
