/* The worker's own reading of shared options: each choice of an option means what it is called. */
#include <criterion/criterion.h>
#include <string.h>

#include "worker/options.h"

static struct worker_options opt;

/* Parses --name=choice for the i-th choice of that row; false: it has no more. */
static bool choose(const char *name, int i, char *choice, size_t cap)
{
    struct row_list rows = {.n = 0};
    struct option_result res;
    char text[64];
    char *argv[] = {"worker", text, NULL};
    const char *c = NULL;
    shared_rows(&rows, FOR_WORKER, 0);
    for (size_t k = 0; k < rows.n; k++)
        if (rows.row[k].name && strcmp(rows.row[k].name, name) == 0)
            c = rows.row[k].arg;
    cr_assert_not_null(c, "no option --%s", name);
    for (; c && i > 0; i--) {
        c = strchr(c, '|');
        c += c != NULL;
    }
    if (!c)
        return false;
    snprintf(choice, cap, "%.*s", (int)strcspn(c, "|"), c);
    snprintf(text, sizeof text, "--%s=%s", name, choice);
    cr_assert_eq(worker_options_parse(&opt, 2, argv, &res), ST_OK, "%s", status_text());
    return true;
}

Test(worker_options, choices_by_name)
{
    char choice[32];
    int i = 0;
    for (; choose("coll", i, choice, sizeof choice); i++)
        cr_assert_str_eq(worker_coll_name(&opt.shared), choice);
    cr_assert_eq(i, 6);
    for (i = 0; choose("backend", i, choice, sizeof choice); i++)
        cr_assert_str_eq(worker_backend_name(&opt.shared), choice);
    cr_assert_eq(i, 3);
    for (i = 0; choose("isa", i, choice, sizeof choice); i++)
        cr_assert_str_eq(worker_backend_config(&opt.shared, 1, 0).isa, choice);
    cr_assert_eq(i, 10);
    for (i = 0; choose("kv-dtype", i, choice, sizeof choice); i++) {
        enum dtype t = worker_kv_dtype(&opt.shared, DT_BF16);
        bool is_int8 = strcmp(choice, "int8") == 0;
        cr_assert_str_eq(dtype_name(t), i == 0 ? "f16" : is_int8 ? "i8" : choice);
    }
    cr_assert_eq(i, 6);
    cr_assert_eq(worker_kv_dtype(&(struct shared_options){.kv_dtype = 0}, DT_F32), DT_F32);
}

Test(worker_options, switches)
{
    char choice[32];
    cr_assert(choose("numerics", 0, choice, sizeof choice));
    cr_assert_eq(worker_backend_config(&opt.shared, 1, 0).numerics, NUMERICS_STRICT);
    cr_assert(choose("numerics", 1, choice, sizeof choice));
    cr_assert_str_eq(choice, "fast");
    cr_assert_eq(worker_backend_config(&opt.shared, 1, 0).numerics, NUMERICS_FAST);
    cr_assert(choose("graphs", 1, choice, sizeof choice));
    cr_assert_str_eq(choice, "off");
    cr_assert_not(worker_wants_graphs(&opt.shared));
    cr_assert(choose("bind", 1, choice, sizeof choice));
    cr_assert_str_eq(choice, "none");
    cr_assert_not(worker_wants_binding(&opt.shared));
}

Test(worker_options, ranks)
{
    struct worker_options o = {.shared = {.tp = 1}};
    cr_assert_eq(worker_options_check_world(&o, 1), ST_OK);
    cr_assert_eq(worker_options_check_world(&o, 4), ST_OK); /* not given: mpirun says */
    o.shared.tp = 4;
    cr_assert_eq(worker_options_check_world(&o, 4), ST_OK);
    cr_assert_eq(worker_options_check_world(&o, 2), ST_RANGE);
    cr_assert(strstr(status_text(), "--tp 4: this group has 2 ranks (mpirun -np 4"));
}
