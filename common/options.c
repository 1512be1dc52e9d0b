#include "common/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

enum status options_parse_size(const char *text, uint64_t *bytes)
{
    char *end;
    errno = 0;
    double v = isdigit((unsigned char)*text) ? strtod(text, &end) : -1.0;
    if (!(v >= 0.0) || errno == ERANGE)
        FAIL(ST_RANGE, "'%s' is not a size (write 4096, 512K, 1.5G or 2GiB)", text);
    int shift = 0;
    if (*end) {
        static const char units[] = "KMGT";
        const char *unit = strchr(units, toupper((unsigned char)*end));
        if (!unit)
            FAIL(ST_RANGE, "'%s' is not a size: unknown unit '%s' (K, M, G and T are known)", text,
                 end);
        shift = 10 * (int)(unit - units + 1);
        end++;
        if (strcmp(end, "iB") != 0 && strcmp(end, "B") != 0 && *end)
            FAIL(ST_RANGE, "'%s' is not a size: '%s' follows the unit", text, end);
    }
    v = ldexp(v, shift);
    if (v >= 0x1p63)
        FAIL(ST_RANGE, "'%s' is too large for a size in bytes", text);
    *bytes = (uint64_t)v;
    return ST_OK;
}

static bool bounded(const struct option_row *r)
{
    return r->min != 0.0 || r->max != 0.0;
}

/* "--threads 9999: it must be between 0 and 1024" */
static enum status check_bounds(const struct option_row *r, const char *text, double v)
{
    if (!bounded(r) && !(v >= 0.0))
        FAIL(ST_RANGE, "--%s %s: it must not be negative", r->name, text);
    if (bounded(r) && !(v >= r->min && v <= r->max))
        FAIL(ST_RANGE, "--%s %s: it must be between %.15g and %.15g", r->name, text, r->min,
             r->max);
    return ST_OK;
}

static enum status set_int(const struct option_row *r, const char *text, void *at)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (!*text || isspace((unsigned char)*text) || *end)
        FAIL(ST_RANGE, "--%s %s: not a whole number", r->name, text);
    if (errno == ERANGE)
        FAIL(ST_RANGE, "--%s %s: the number is too large", r->name, text);
    TRY(check_bounds(r, text, (double)v));
    *(int64_t *)at = v;
    return ST_OK;
}

static enum status set_float(const struct option_row *r, const char *text, void *at)
{
    char *end;
    double v = strtod(text, &end);
    if (!*text || isspace((unsigned char)*text) || *end || !isfinite(v))
        FAIL(ST_RANGE, "--%s %s: not a number", r->name, text);
    TRY(check_bounds(r, text, v));
    *(double *)at = v;
    return ST_OK;
}

static enum status set_size(const struct option_row *r, const char *text, void *at)
{
    uint64_t v;
    if (options_parse_size(text, &v) != ST_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s", status_text());
        FAIL(ST_RANGE, "--%s: %s", r->name, why);
    }
    TRY(check_bounds(r, text, (double)v));
    *(uint64_t *)at = v;
    return ST_OK;
}

static enum status set_enum(const struct option_row *r, const char *text, void *at)
{
    size_t n = strlen(text);
    int i = 0;
    for (const char *c = r->arg; c; i++) {
        const char *bar = strchr(c, '|');
        size_t len = bar ? (size_t)(bar - c) : strlen(c);
        if (len == n && memcmp(c, text, n) == 0) {
            *(int *)at = i;
            return ST_OK;
        }
        c = bar ? bar + 1 : NULL;
    }
    FAIL(ST_RANGE, "--%s %s: it must be one of %s", r->name, text, r->arg);
}

static enum status set_list(const struct option_row *r, const char *text, void *at)
{
    struct option_list *list = at;
    if (list->n == MAX_OPTION_LIST)
        FAIL(ST_RANGE, "--%s: given more than %d times", r->name, MAX_OPTION_LIST);
    list->item[list->n++] = text;
    return ST_OK;
}

static enum status set_value(const struct option_row *r, const char *text, void *dest)
{
    void *at = (char *)dest + r->at;
    switch (r->type) {
    case OPT_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            FAIL(ST_RANGE, "--%s %s: a flag is true or false", r->name, text);
        *(bool *)at = text[0] == 't';
        return ST_OK;
    case OPT_INT:
        return set_int(r, text, at);
    case OPT_SIZE:
        return set_size(r, text, at);
    case OPT_FLOAT:
        return set_float(r, text, at);
    case OPT_STRING:
        if (!*text && !r->may_be_empty)
            FAIL(ST_RANGE, "--%s: the value is empty", r->name);
        *(const char **)at = text;
        return ST_OK;
    case OPT_ENUM:
        return set_enum(r, text, at);
    case OPT_LIST:
        return set_list(r, text, at);
    }
    FAIL(ST_BUG, "--%s: option type %d", r->name, (int)r->type);
}

static enum status set_default(const struct option_row *r, void *dest)
{
    void *at = (char *)dest + r->at;
    switch (r->type) {
    case OPT_FLAG:
        *(bool *)at = false;
        break;
    case OPT_INT:
        *(int64_t *)at = 0;
        break;
    case OPT_SIZE:
        *(uint64_t *)at = 0;
        break;
    case OPT_FLOAT:
        *(double *)at = 0.0;
        break;
    case OPT_STRING:
        *(const char **)at = NULL;
        break;
    case OPT_ENUM:
        *(int *)at = 0;
        break;
    case OPT_LIST:
        *(struct option_list *)at = (struct option_list){0};
        break;
    }
    return r->def ? set_value(r, r->def, dest) : ST_OK;
}

enum status options_defaults(const struct option_row *rows, size_t n_rows, void *dest)
{
    for (size_t i = 0; i < n_rows; i++)
        if (rows[i].name)
            TRY(set_default(&rows[i], dest));
    return ST_OK;
}

/* ---- lists of rows ---- */

/* The row of that option or, with name NULL, of that heading; l->n: there is none. */
static size_t row_of(const struct row_list *l, const char *name, const char *heading)
{
    size_t i = 0;
    for (; i < l->n; i++) {
        const struct option_row *r = &l->row[i];
        if (name ? r->name && strcmp(r->name, name) == 0
                 : !r->name && strcmp(r->help, heading) == 0)
            break;
    }
    return i;
}

void rows_add(struct row_list *l, const struct option_row *rows, size_t n_rows, size_t base)
{
    size_t at = l->n;
    for (size_t i = 0; i < n_rows; i++) {
        size_t same = row_of(l, rows[i].name, rows[i].help);
        if (!rows[i].name)
            at = l->n;
        if (same < l->n) { /* a heading: its group goes on */
            assert(!rows[i].name && "an option is there twice");
            for (at = same + 1; at < l->n && l->row[at].name; at++)
                ;
            continue;
        }
        assert(l->n < MAX_OPTIONS);
        memmove(&l->row[at + 1], &l->row[at], (l->n - at) * sizeof *l->row);
        l->row[at] = rows[i];
        l->row[at++].at += base;
        l->n++;
    }
}

void rows_default(struct row_list *l, const char *name, const char *def)
{
    size_t i = row_of(l, name, NULL);
    assert(i < l->n);
    l->row[i].def = def;
}

/* ---- names ---- */

/* Edit distance with transpositions (optimal string alignment), of names up to 31 bytes. */
static unsigned edit_distance(const char *a, size_t na, const char *b)
{
    unsigned d[3][33];
    size_t nb = strlen(b);
    if (na > 31 || nb > 31)
        return 99;
    for (size_t j = 0; j <= nb; j++)
        d[0][j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned *row = d[i % 3];
        const unsigned *up = d[(i - 1) % 3], *up2 = d[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    return d[na % 3][nb];
}

/* How far a name is from what was written; beginnings of at least three letters are near. */
static unsigned name_distance(const char *written, size_t n, const char *name)
{
    return n >= 3 && strncmp(name, written, n) == 0 ? 0 : edit_distance(written, n, name);
}

static unsigned farthest_hint(size_t n)
{
    return n <= 4 ? 2 : 3; /* farther is no hint */
}

static const struct option_row *nearest(const struct option_set *set, const char *name, size_t n)
{
    const struct option_row *best = NULL;
    unsigned least = farthest_hint(n);
    for (size_t i = 0; i < set->n_rows; i++) {
        const struct option_row *r = &set->rows[i];
        unsigned far = r->name ? name_distance(name, n, r->name) : least;
        if (far < least) {
            least = far;
            best = r;
        }
    }
    return best;
}

const char *options_nearest(const char *name, const char *const *names, size_t n_names)
{
    const char *best = NULL;
    unsigned least = farthest_hint(strlen(name));
    for (size_t i = 0; i < n_names; i++) {
        unsigned far = name_distance(name, strlen(name), names[i]);
        if (far < least) {
            least = far;
            best = names[i];
        }
    }
    return best;
}

static enum status unknown(const struct option_set *set, const char *arg, const char *name,
                           size_t n)
{
    const struct option_row *near = nearest(set, name, n);
    int shown = (int)(n + (size_t)(name - arg));
    if (near)
        FAIL(ST_RANGE, "unknown option %.*s; did you mean --%s?", shown, arg, near->name);
    FAIL(ST_RANGE, "unknown option %.*s; %s --help lists them", shown, arg, set->program);
}

static const struct option_row *find(const struct option_set *set, const char *name, size_t n)
{
    for (size_t i = 0; i < set->n_rows; i++) {
        const struct option_row *r = &set->rows[i];
        if (r->name && strlen(r->name) == n && memcmp(r->name, name, n) == 0)
            return r;
    }
    return NULL;
}

/* ---- the command line ---- */

/* One argument that begins with a dash.  *i moves over a value in the next argument. */
static enum status parse_one(const struct option_set *set, void *dest, int argc, char **argv,
                             int *i, struct option_result *out)
{
    const char *arg = argv[*i];
    if (strncmp(arg, "--", 2) != 0)
        FAIL(ST_RANGE, "unknown option %s; options begin with two dashes (%s --help lists them)",
             arg, set->program);
    const char *name = arg + 2, *equals = strchr(name, '=');
    size_t n = equals ? (size_t)(equals - name) : strlen(name);
    const struct option_row *r = find(set, name, n);
    bool value = true;
    if (!r && n > 3 && strncmp(name, "no-", 3) == 0) {
        r = find(set, name + 3, n - 3);
        if (r && r->type != OPT_FLAG)
            r = NULL;
        value = false;
    }
    if (!r)
        return unknown(set, arg, name, n);
    out->given[r - set->rows] = true;
    if (r->type == OPT_FLAG && !equals)
        return set_value(r, value ? "true" : "false", dest);
    if (!value)
        FAIL(ST_RANGE, "--no-%s takes no value", r->name);
    if (equals)
        return set_value(r, equals + 1, dest);
    if (*i + 1 >= argc)
        FAIL(ST_RANGE, "--%s needs a value: --%s %s", r->name, r->name, r->arg ? r->arg : "VALUE");
    return set_value(r, argv[++*i], dest);
}

enum option_help options_help_form(const char *arg)
{
    if (strcmp(arg, "--help=man") == 0)
        return HELP_MAN;
    if (strcmp(arg, "--help=options") == 0)
        return HELP_OPTIONS;
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0 ? HELP_TEXT : HELP_NONE;
}

static bool wants_help(int argc, char **argv, struct option_result *out)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        enum option_help form = options_help_form(argv[i]);
        if (form != HELP_NONE)
            out->help = form;
        if (strcmp(argv[i], "--version") == 0)
            out->version = true;
    }
    return out->help || out->version;
}

static enum status check_complete(const struct option_set *set, const struct option_result *out)
{
    for (size_t i = 0; i < set->n_rows; i++) {
        const struct option_row *r = &set->rows[i];
        if (r->name && r->required && !out->given[i])
            FAIL(ST_RANGE, "--%s %s is required: %s", r->name, r->arg ? r->arg : "VALUE", r->help);
    }
    if (out->n_args < set->min_args)
        FAIL(ST_RANGE, "an argument is missing; usage: %s %s", set->program, set->usage);
    if (set->max_args >= 0 && out->n_args > set->max_args)
        FAIL(ST_RANGE, "unexpected argument '%s'; usage: %s %s", out->args[set->max_args],
             set->program, set->usage);
    return ST_OK;
}

enum status options_parse(const struct option_set *set, void *dest, int argc, char **argv,
                          struct option_result *out)
{
    *out = (struct option_result){.args = argv + 1};
    if (set->n_rows > MAX_OPTIONS)
        FAIL(ST_BUG, "%s has %zu options, room is for %d", set->program, set->n_rows, MAX_OPTIONS);
    TRY(options_defaults(set->rows, set->n_rows, dest));
    if (wants_help(argc, argv, out))
        return ST_OK;
    bool only_args = false;
    for (int i = 1; i < argc; i++) {
        if (!only_args && strcmp(argv[i], "--") == 0)
            only_args = true;
        else if (only_args || argv[i][0] != '-' || !argv[i][1])
            out->args[out->n_args++] = argv[i];
        else
            TRY(parse_one(set, dest, argc, argv, &i, out));
    }
    return check_complete(set, out);
}

/* ---- printing ---- */

int option_text(const struct option_row *r, const void *dest, char *buf, size_t n)
{
    const void *at = (const char *)dest + r->at;
    switch (r->type) {
    case OPT_FLAG:
        return snprintf(buf, n, "%s", *(const bool *)at ? "true" : "false");
    case OPT_INT:
        return snprintf(buf, n, "%lld", (long long)*(const int64_t *)at);
    case OPT_SIZE:
        return snprintf(buf, n, "%llu", (unsigned long long)*(const uint64_t *)at);
    case OPT_FLOAT:
        return snprintf(buf, n, "%.9g", *(const double *)at);
    case OPT_STRING: {
        const char *s = *(const char *const *)at;
        return snprintf(buf, n, "%s", s ? s : "");
    }
    case OPT_ENUM: {
        const char *c = r->arg;
        for (int i = *(const int *)at; i > 0; i--)
            c = strchr(c, '|') + 1;
        return snprintf(buf, n, "%.*s", (int)strcspn(c, "|"), c);
    }
    case OPT_LIST:
        break;
    }
    return snprintf(buf, n, "%s", "");
}

static void print_strings(FILE *f, const char *const *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s%s", i ? ", " : "", s[i]);
    if (n == 0)
        fputs("(none)", f);
}

static void print_value(FILE *f, const struct option_row *r, const void *dest)
{
    const void *at = (const char *)dest + r->at;
    char text[64];
    if (r->type == OPT_LIST) {
        const struct option_list *list = at;
        print_strings(f, list->item, list->n);
    } else if (r->type == OPT_STRING) {
        print_strings(f, at, *(const char *const *)at != NULL);
    } else {
        option_text(r, dest, text, sizeof text);
        fputs(text, f);
    }
}

void options_print_effective(FILE *f, const struct option_set *set, const void *dest,
                             const struct option_result *res)
{
    for (size_t i = 0; i < set->n_rows; i++) {
        const struct option_row *r = &set->rows[i];
        if (!r->name)
            continue;
        fprintf(f, "%s = ", r->name);
        print_value(f, r, dest);
        fputs(res->given[i] ? "\n" : " (default)\n", f);
    }
}
