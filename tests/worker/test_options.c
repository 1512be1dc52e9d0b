/* The option parser: every type, every refusal, and what --help prints. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"

struct my {
    bool json, color;
    int64_t threads;
    uint64_t memory;
    double share;
    const char *model;
    int coll;
    struct option_list stop;
};

static const struct option_row rows[] = {
    {.help = "First"},
    {.name = "model",
     .type = OPT_STRING,
     .at = offsetof(struct my, model),
     .arg = "PATH",
     .required = true,
     .help = "the model's folder"},
    {.name = "threads",
     .type = OPT_INT,
     .at = offsetof(struct my, threads),
     .arg = "N",
     .def = "2",
     .min = 0,
     .max = 64,
     .help = "compute threads"},
    {.name = "memory",
     .type = OPT_SIZE,
     .at = offsetof(struct my, memory),
     .arg = "BYTES",
     .def = "1M",
     .help = "bytes to take"},
    {.help = "Second"},
    {.name = "share",
     .type = OPT_FLOAT,
     .at = offsetof(struct my, share),
     .arg = "X",
     .def = "0.5",
     .min = 0,
     .max = 1,
     .help = "how much"},
    {.name = "coll",
     .type = OPT_ENUM,
     .at = offsetof(struct my, coll),
     .def = "auto",
     .arg = "auto|local|shm|mpi",
     .help = "how"},
    {.name = "json", .type = OPT_FLAG, .at = offsetof(struct my, json), .help = "print JSON"},
    {.name = "color",
     .type = OPT_FLAG,
     .at = offsetof(struct my, color),
     .def = "true",
     .help = "colours"},
    {.name = "stop",
     .type = OPT_LIST,
     .at = offsetof(struct my, stop),
     .arg = "TEXT",
     .help = "a stop string"},
};

static const struct option_set set = {
    .program = "prog",
    .usage = "--model PATH [options] [FILE...]",
    .summary = "Does things.",
    .epilog = "Exit codes: 0.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .max_args = 1,
};

/* Splits words at blanks and parses them. */
static enum status parse(const char *line, struct my *out, struct option_result *res)
{
    static char copy[512];
    static char *argv[32];
    int argc = 0;
    snprintf(copy, sizeof copy, "prog %s", line);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    argv[argc] = NULL;
    return options_parse(&set, out, argc, argv, res);
}

static void refused(const char *line, const char *text)
{
    struct my m;
    struct option_result res;
    enum status st = parse(line, &m, &res);
    cr_assert_eq(st, ST_RANGE, "'%s' gave %s", line, status_name(st));
    cr_assert(strstr(status_text(), text), "'%s': \"%s\" does not say \"%s\"", line, status_text(),
              text);
}

Test(options, defaults_and_values)
{
    struct my m;
    struct option_result res;
    cr_assert_eq(parse("--model a", &m, &res), ST_OK);
    cr_assert(m.threads == 2 && m.memory == 1 << 20 && m.share == 0.5 && m.coll == 0);
    cr_assert(!m.json && m.color && m.stop.n == 0 && res.n_args == 0);
    cr_assert_eq(parse("x --model=b --threads 7 --memory=1.5G --share 0.25 --coll shm --json "
                       "--no-color --stop a --stop=b",
                       &m, &res),
                 ST_OK);
    cr_assert_str_eq(m.model, "b");
    cr_assert(m.threads == 7 && m.memory == 3ULL << 29 && m.share == 0.25 && m.coll == 2);
    cr_assert(m.json && !m.color && m.stop.n == 2 && res.n_args == 1);
    cr_assert_str_eq(m.stop.item[1], "b");
    cr_assert_str_eq(res.args[0], "x");
    cr_assert(res.given[1] && res.given[2]);
}

Test(options, the_later_one_counts_and_two_dashes_end)
{
    struct my m;
    struct option_result res;
    cr_assert_eq(parse("--model a --threads 1 --threads 3 -- --json", &m, &res), ST_OK);
    cr_assert(m.threads == 3 && !m.json && res.n_args == 1);
    cr_assert_str_eq(res.args[0], "--json");
}

Test(options, refusals_name_what_is_wrong)
{
    refused("", "--model PATH is required");
    refused("--model a --thread 3", "did you mean --threads?");
    refused("--model a --thraeds=3", "did you mean --threads?");
    refused("--model a --zzzzzz", "prog --help lists them");
    refused("--model a --threads 65", "--threads 65: it must be between 0 and 64");
    refused("--model a --threads -1", "between 0 and 64");
    refused("--model a --threads 3x", "not a whole number");
    refused("--model a --threads=", "not a whole number");
    refused("--model a --threads 99999999999999999999", "too large");
    refused("--model a --threads", "--threads needs a value: --threads N");
    refused("--model a --share nan", "not a number");
    refused("--model a --share 1.5", "between 0 and 1");
    refused("--model a --memory 5Q", "unknown unit");
    refused("--model a --memory -5", "not a size");
    refused("--model a --memory 99999999T", "too large");
    refused("--model a --coll sh", "one of auto|local|shm|mpi");
    refused("--model a --json=yes", "true or false");
    refused("--model a --no-json=true", "takes no value");
    refused("--model a --no-threads", "unknown option");
    refused("--model=", "--model: the value is empty");
    refused("--model a -x", "two dashes");
    refused("--model a b c", "unexpected argument 'c'");
}

Test(options, help_asks_for_nothing_else)
{
    struct my m;
    struct option_result res;
    char *text = NULL;
    size_t n = 0;
    cr_assert_eq(parse("--bogus --help", &m, &res), ST_OK);
    cr_assert(res.help);
    FILE *f = open_memstream(&text, &n);
    options_print_help(f, &set, HELP_TEXT);
    fclose(f);
    const char *const parts[] = {
        "usage: prog --model PATH",  "First:",     "--threads N",   "(default 2; 0 to 64)",
        "--coll auto|local|shm|mpi", "(required)", "Exit codes: 0."};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        cr_assert(strstr(text, parts[i]), "help lacks \"%s\"", parts[i]);
    cr_assert_null(strstr(text, " \n"), "a line of the help ends in a blank");
    free(text);
}

Test(options, effective_configuration)
{
    struct my m;
    struct option_result res;
    char *text = NULL;
    size_t n = 0;
    cr_assert_eq(parse("--model a --coll mpi --stop p --stop q", &m, &res), ST_OK);
    FILE *f = open_memstream(&text, &n);
    options_print_effective(f, &set, &m, &res);
    fclose(f);
    cr_assert_str_eq(text, "model = a\nthreads = 2 (default)\nmemory = 1048576 (default)\n"
                           "share = 0.5 (default)\ncoll = mpi\njson = false (default)\n"
                           "color = true (default)\nstop = p, q\n");
    free(text);
}
