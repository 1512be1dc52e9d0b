/* ingot models: those of a server, or with list and remove those in the hub's cache. */
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/hub/hub_cache.h"

struct args {
    bool names, json;
};

static void print_entry(const struct hub_entry *e, const struct hub_cache *c)
{
    char size[32], dir[HUB_PATH_SIZE];
    printf("%-48s %9s", e->repo, hub_size_text(e->size, size));
    if (e->incomplete)
        printf("  and %s incomplete", hub_size_text(e->incomplete, size));
    if (hub_repo_dir(c, e->repo, dir) == ST_OK)
        printf("  %s", dir);
    putchar('\n');
}

static void print_json(const struct hub_entry *e, size_t n)
{
    putchar('[');
    for (size_t i = 0; i < n; i++)
        printf("%s{\"name\":\"%s\",\"bytes\":%llu,\"incomplete_bytes\":%llu}", i ? "," : "",
               e[i].repo, (unsigned long long)e[i].size, (unsigned long long)e[i].incomplete);
    puts("]");
}

static int list(int argc, char **argv)
{
    static const struct option_row rows[] = {
        {.name = "names",
         .type = OPT_FLAG,
         .at = offsetof(struct args, names),
         .help = "Print the names alone."},
        {.name = "json",
         .type = OPT_FLAG,
         .at = offsetof(struct args, json),
         .help = "Print JSON."},
    };
    static const struct option_set set = {
        .program = "ingot models list",
        .usage = "[options]",
        .summary = "Lists the models in the hub's cache with the disk space that they take.",
        .epilog = "Exit codes: 0 done, 1 failure, 2 wrong options.",
        .rows = rows,
        .n_rows = ARRAY_LEN(rows),
    };
    struct hub_cache cache;
    struct hub_entry *e = NULL;
    struct option_result res;
    struct args a;
    size_t n = 0;
    int rc = cli_parse(&set, &a, argc, argv, &res);
    if (rc >= 0)
        return rc;
    if (hub_cache_init(&cache, getenv) != ST_OK || hub_cache_list(&cache, &e, &n) != ST_OK)
        return cli_fail("models", EXIT_FAILED);
    if (a.json)
        print_json(e, n);
    for (size_t i = 0; i < n && !a.json; i++) {
        if (a.names)
            puts(e[i].repo);
        else
            print_entry(&e[i], &cache);
    }
    free(e);
    return EXIT_OK;
}

static int remove_models(int argc, char **argv)
{
    static const struct option_set set = {
        .program = "ingot models remove",
        .usage = "ORG/NAME...",
        .summary = "Removes models from the hub's cache: all their files and revisions.",
        .epilog = "Exit codes: 0 done, 1 failure, 2 wrong names.",
        .min_args = 1,
        .max_args = -1,
    };
    struct hub_cache cache;
    struct hub_name name;
    struct option_result res;
    char none;
    int rc = cli_parse(&set, &none, argc, argv, &res);
    if (rc >= 0)
        return rc;
    if (hub_cache_init(&cache, getenv) != ST_OK)
        return cli_fail("models", EXIT_FAILED);
    for (int i = 0; i < res.n_args; i++)
        if (hub_name_parse(&name, res.args[i]) != ST_OK)
            return cli_fail("models", EXIT_USAGE);
        else if (strcmp(name.repo, res.args[i]) != 0)
            return cli_usage("models", "%s: a model is removed with all its files: %s", res.args[i],
                             name.repo);
    for (int i = 0; i < res.n_args; i++)
        if (hub_cache_remove(&cache, res.args[i]) != ST_OK)
            return cli_fail("models", EXIT_FAILED);
    return EXIT_OK;
}

int cmd_models(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "list") == 0)
        return list(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "remove") == 0)
        return remove_models(argc - 1, argv + 1);
    return cmd_served_models(argc, argv);
}
