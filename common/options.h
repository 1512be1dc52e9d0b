/* Command lines of all our programs from one table of rows: name, type, default, bounds, help.  The
 * same table parses, checks, prints --help and prints the configuration in effect.
 *
 *     struct my { int64_t threads; bool json; const char *listen; int coll; };
 *     static const struct option_row rows[] = {
 *         {.name = "threads", .type = OPT_INT, .at = offsetof(struct my, threads), .arg = "N",
 *          .def = "0", .min = 0, .max = 1024, .help = "compute threads; 0 = as many as cores"},
 *         {.name = "coll", .type = OPT_ENUM, .at = offsetof(struct my, coll), .def = "auto",
 *          .arg = "auto|local|shm|mpi", .help = "how ranks exchange data"},
 *     };
 *
 * Accepted: --name value, --name=value, --flag, --no-flag, -- (the rest are arguments), -h, --help,
 * --help=man, --help=options, --version.  A later option of the same name replaces an earlier one, except OPT_LIST, which
 * collects.
 *
 * Pure; strings are borrowed from argv and from the table.  Called by main, one thread. */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

/* The type of the member at row.at. */
enum option_type {
    OPT_FLAG,   /* bool */
    OPT_INT,    /* int64_t, decimal, in [min, max] */
    OPT_SIZE,   /* uint64_t bytes in [min, max]: 4096, 512K, 1.5G, 2GiB; powers of 1024 */
    OPT_FLOAT,  /* double, finite, in [min, max] */
    OPT_STRING, /* const char *, not empty unless may_be_empty; NULL: not given, no def */
    OPT_ENUM,   /* int: index into the choices of arg, "auto|local|shm|mpi" */
    OPT_LIST,   /* struct option_list: a string that may be given several times */
};

enum { MAX_OPTIONS = 96, MAX_OPTION_LIST = 32 };

struct option_list {
    size_t n;
    const char *item[MAX_OPTION_LIST];
};

struct option_row {
    const char *name; /* without dashes; NULL = not an option but a heading (help is its text) */
    enum option_type type;
    size_t at;       /* offsetof the member */
    const char *arg; /* the value's name in --help; the choices of an OPT_ENUM */
    const char *def; /* default, parsed like a given value; NULL = false, 0, first choice, NULL */
    double min, max; /* bounds of numbers, both 0 = any value from 0 up; --help shows them when
                        max is below UINT32_MAX */
    bool required;
    bool may_be_empty; /* of an OPT_STRING */
    const char *help;  /* one or more sentences; wrapped by options_print_help */
};

struct option_set {
    const char *program; /* "ingot-worker" */
    const char *usage;   /* "--model PATH [options]" */
    const char *summary; /* what the program is, first lines of --help */
    const char *epilog;  /* examples, exit codes; NULL = none */
    const struct option_row *rows;
    size_t n_rows;          /* <= MAX_OPTIONS */
    int min_args, max_args; /* positional arguments; max_args < 0 = any number */
};

/* How the table is printed: --help, --help=man (a manual page), --help=options (a line for each
 * option, for completions in a shell). */
enum option_help { HELP_NONE, HELP_TEXT, HELP_MAN, HELP_OPTIONS };
/* The form that "--help", "-h" or "--help=FORM" asks for; HELP_NONE: arg is something else. */
enum option_help options_help_form(const char *arg);

struct option_result {
    enum option_help help; /* asked for, or version: nothing else was checked then */
    bool version;
    int n_args;
    char **args;             /* positional arguments, in argv (which is reordered) */
    bool given[MAX_OPTIONS]; /* per row: on the command line */
};

/* Rows of several tables as one.  rows_add: each table's `at` counts from the start of its own
 * struct, base is the offset of that struct in dest.  Rows under a heading that the list has
 * already join its group; rows before the first heading go to the end.  No name may be there
 * twice. */
struct row_list {
    struct option_row row[MAX_OPTIONS];
    size_t n;
};
void rows_add(struct row_list *l, const struct option_row *rows, size_t n_rows, size_t base);
/* Another default for one of them. */
void rows_default(struct row_list *l, const char *name, const char *def);

/* Fills the members of rows with their defaults, as options_parse does first. */
MUST_CHECK enum status options_defaults(const struct option_row *rows, size_t n_rows, void *dest);

/* The value as the command line would give it, into buf like snprintf; of an OPT_STRING that is
 * NULL and of an OPT_LIST nothing. */
int option_text(const struct option_row *r, const void *dest, char *buf, size_t n);

/* Fills dest with defaults, then with argv[1..].  ST_RANGE with a text for the user: which option,
 * which value, what is allowed, and for an unknown name the nearest one. */
MUST_CHECK enum status options_parse(const struct option_set *set, void *dest, int argc,
                                     char **argv, struct option_result *out);

/* In that form, not HELP_NONE. */
void options_print_help(FILE *f, const struct option_set *set, enum option_help form);

/* One line per option, "threads = 2", with "(default)" where it was not given. */
void options_print_effective(FILE *f, const struct option_set *set, const void *dest,
                             const struct option_result *res);

/* The one of names that was probably meant (a beginning, or a few letters away), or NULL. */
const char *options_nearest(const char *name, const char *const *names, size_t n_names);

/* Parses one value of an OPT_SIZE, such as "1.5G". */
MUST_CHECK enum status options_parse_size(const char *text, uint64_t *bytes);

#endif
