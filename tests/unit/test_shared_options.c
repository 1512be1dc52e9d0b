/* The table of options that several programs take: every row is sound, and a value that a command
 * passes on reaches the program as it was given. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "common/shared_options.h"

static const enum option_user users[] = {FOR_COORDINATOR, FOR_WORKER, FOR_SERVE, FOR_LOAD};

static const struct option_row *find(const struct row_list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->row[i].name && strcmp(l->row[i].name, name) == 0)
            return &l->row[i];
    return NULL;
}

static size_t size_of(enum option_type type)
{
    switch (type) {
    case OPT_FLAG:
        return sizeof(bool);
    case OPT_INT:
        return sizeof(int64_t);
    case OPT_SIZE:
        return sizeof(uint64_t);
    case OPT_FLOAT:
        return sizeof(double);
    case OPT_STRING:
        return sizeof(const char *);
    case OPT_ENUM:
        return sizeof(int);
    case OPT_LIST:
        break;
    }
    return sizeof(struct option_list);
}

/* Defaults are within their bounds, each member belongs to one option, and a value survives as
 * text (lists would not). */
Test(shared_options, rows_are_sound)
{
    static const char *owner[sizeof(struct shared_options)];
    for (size_t u = 0; u < ARRAY_LEN(users); u++) {
        struct row_list rows = {.n = 0};
        struct shared_options o;
        shared_rows(&rows, users[u], 0);
        cr_assert_gt(rows.n, 10u);
        cr_assert_eq(options_defaults(rows.row, rows.n, &o), ST_OK, "%s", status_text());
        for (size_t i = 0; i < rows.n; i++) {
            const struct option_row *r = &rows.row[i];
            if (!r->name) {
                cr_assert(i + 1 < rows.n && rows.row[i + 1].name, "nothing under %s", r->help);
                continue;
            }
            cr_assert(r->type != OPT_LIST, "%s", r->name);
            cr_assert(r->help && strlen(r->help) > 10, "%s", r->name);
            for (size_t at = r->at; at < r->at + size_of(r->type); at++) {
                cr_assert(!owner[at] || strcmp(owner[at], r->name) == 0, "%s and %s", owner[at],
                          r->name);
                owner[at] = r->name;
            }
        }
    }
}

/* The same option is the same row for everyone who takes it; the coordinator's limits alone have
 * defaults of their own. */
Test(shared_options, one_row_each)
{
    int n_same = 0, n_own_default = 0;
    for (size_t u = 0; u < ARRAY_LEN(users); u++)
        for (size_t v = 0; v < u; v++) {
            struct row_list a = {.n = 0}, b = {.n = 0};
            shared_rows(&a, users[u], 0);
            shared_rows(&b, users[v], 0);
            for (size_t i = 0; i < a.n; i++) {
                const struct option_row *x = &a.row[i], *y = x->name ? find(&b, x->name) : NULL;
                if (!y)
                    continue;
                struct option_row z = *y;
                bool def = x->def == y->def;
                z.def = x->def;
                cr_assert(memcmp(x, &z, sizeof z) == 0, "%s", x->name);
                cr_assert(def || users[v] == FOR_COORDINATOR, "default of %s", x->name);
                n_same++;
                n_own_default += !def;
            }
        }
    cr_assert_gt(n_same, 50);
    cr_assert_eq(n_own_default, 2 * 3); /* max-seqs, max-step-tokens; three others take them */
}

/* A value that is not the default. */
static void other_value(const struct option_row *r, struct shared_options *o)
{
    void *at = (char *)o + r->at;
    switch (r->type) {
    case OPT_FLAG:
        *(bool *)at = !*(bool *)at;
        return;
    case OPT_INT:
        *(int64_t *)at = (int64_t)(*(int64_t *)at == (int64_t)r->max ? r->min : r->max);
        return;
    case OPT_SIZE:
        *(uint64_t *)at += 4097;
        return;
    case OPT_ENUM:
        *(int *)at = 1 - *(int *)at; /* each has two choices at least */
        return;
    case OPT_STRING:
        *(const char **)at = "tcp://a value, of two words";
        return;
    case OPT_FLOAT:
        *(double *)at = *(double *)at + 1.5;
        return;
    case OPT_LIST:
        break;
    }
    cr_assert_fail("%s", r->name);
}

/* A command's options as text, parsed by the program that gets them. */
static void check_passed(enum option_user command, enum option_user program)
{
    struct row_list all = {.n = 0}, passed = {.n = 0}, taken = {.n = 0};
    struct shared_options given = {0}, got = {0};
    struct option_result res;
    static char text[MAX_OPTIONS][128];
    char *argv[MAX_OPTIONS + 1] = {"program"};
    int argc = 1;
    shared_rows(&all, command, 0);
    shared_rows(&taken, program, 0);
    shared_rows_passed(&passed, command, program);
    cr_assert_gt(passed.n, 5u);
    cr_assert_eq(options_defaults(all.row, all.n, &given), ST_OK);
    for (size_t i = 0; i < all.n; i++) {
        const struct option_row *r = &all.row[i];
        if (!r->name)
            continue;
        other_value(r, &given);
        cr_assert_eq(!find(&passed, r->name), !find(&taken, r->name), "%s", r->name);
    }
    for (size_t i = 0; i < passed.n; i++) {
        char value[64];
        cr_assert_lt(option_text(&passed.row[i], &given, value, sizeof value), (int)sizeof value);
        snprintf(text[argc], sizeof text[argc], "--%s=%s", passed.row[i].name, value);
        argv[argc] = text[argc];
        argc++;
    }
    struct option_set set = {.program = "program", .rows = taken.row, .n_rows = taken.n};
    cr_assert_eq(options_parse(&set, &got, argc, argv, &res), ST_OK, "%s", status_text());
    for (size_t i = 0; i < passed.n; i++) {
        char a[64], b[64];
        option_text(&passed.row[i], &given, a, sizeof a);
        option_text(&passed.row[i], &got, b, sizeof b);
        cr_assert_str_eq(a, b, "%s", passed.row[i].name);
    }
}

Test(shared_options, what_is_given_is_passed_on)
{
    check_passed(FOR_SERVE, FOR_COORDINATOR);
    check_passed(FOR_SERVE, FOR_WORKER);
    check_passed(FOR_LOAD, FOR_COORDINATOR);
    check_passed(FOR_LOAD, FOR_WORKER);
}

/* ---- lists of rows ---- */

struct two {
    int64_t a, b;
};

static const struct option_row first[] = {
    {.help = "One"},
    {.name = "a", .type = OPT_INT, .at = offsetof(struct two, a), .help = "first"},
    {.help = "Two"},
    {.name = "b", .type = OPT_INT, .at = offsetof(struct two, b), .help = "second"},
};

static const struct option_row more[] = {
    {.name = "e", .type = OPT_INT, .help = "before a heading"},
    {.help = "One"},
    {.name = "c", .type = OPT_INT, .help = "third"},
    {.help = "Three"},
    {.name = "d", .type = OPT_INT, .help = "fourth"},
};

Test(row_list, groups_are_joined)
{
    static const char *const names[] = {NULL, "a", "c", NULL, "b", "e", NULL, "d"};
    struct row_list l = {.n = 0};
    rows_add(&l, first, ARRAY_LEN(first), 0);
    rows_add(&l, more, ARRAY_LEN(more), 64);
    rows_default(&l, "c", "7");
    cr_assert_eq(l.n, ARRAY_LEN(names));
    for (size_t i = 0; i < l.n; i++)
        cr_assert(names[i] ? l.row[i].name && strcmp(l.row[i].name, names[i]) == 0 : !l.row[i].name,
                  "row %zu", i);
    cr_assert_eq(find(&l, "b")->at, offsetof(struct two, b));
    cr_assert_eq(find(&l, "c")->at, 64u);
    cr_assert_str_eq(find(&l, "c")->def, "7");
}

Test(row_list, a_second_definition_aborts, .signal = SIGABRT)
{
    struct row_list l = {.n = 0};
    rows_add(&l, first, ARRAY_LEN(first), 0);
    rows_add(&l, &first[3], 1, 0);
}

Test(row_list, a_second_definition_of_a_shared_option_aborts, .signal = SIGABRT)
{
    static const struct option_row own = {
        .name = "drain-ms", .type = OPT_INT, .min = 1, .max = 2, .help = "own"};
    struct row_list l = {.n = 0};
    shared_rows(&l, FOR_COORDINATOR, 0);
    rows_add(&l, &own, 1, 0);
}
