/* ingot key: the keys of connections over ZeroMQ. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/keys/key_file.h"
#include "common/wire/key_list.h"

struct args {
    const char *name, *roles;
};

static const struct option_row rows[] = {
    {.help = "Of a key that is added"},
    {.name = "for",
     .type = OPT_STRING,
     .at = offsetof(struct args, name),
     .arg = "NAME",
     .help = "Whose key it is: in logs, and for `ingot key remove`."},
    {.name = "roles",
     .type = OPT_STRING,
     .at = offsetof(struct args, roles),
     .arg = "ROLE,...",
     .def = "ask,observe",
     .help = "ask: generate, cancel and tokenize. observe: statistics. operate: drain. serve: be a "
             "worker group. act: requests for any tenant, for gateways."},
};

static const struct option_set options = {
    .program = "ingot key",
    .usage = "new FILE | add LIST KEY --for NAME [options] | list LIST | remove LIST NAME",
    .summary =
        "Makes the keys of connections between clients, workers and the coordinator, and keeps the "
        "list of those that may connect (ingot-coordinator --allowed-keys LIST). A running "
        "coordinator takes changes over within a second; connections of a removed key are ended.",
    .epilog = "new makes FILE, the secret, and FILE.pub, the public key. KEY is a public key or "
              "the path\n"
              "of a file with one.\n"
              "Examples:\n"
              "  head$    ingot key new server.key\n"
              "  worker$  ingot key new worker.key        (then take worker.key.pub to head)\n"
              "  head$    ingot key add allowed worker.key.pub --for gpu1 --roles serve\n"
              "  head$    ingot-coordinator --model M --key server.key --allowed-keys allowed \\\n"
              "             --workers tcp://0.0.0.0:5556\n"
              "  worker$  ingot-worker --model M --connect tcp://head:5556 --key worker.key \\\n"
              "             --server-key server.key.pub\n" EXIT_CODES_HELP,
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .min_args = 2,
    .max_args = 3,
};

static enum status make(const char *path)
{
    struct curve_pair p;
    TRY(curve_pair_make(&p));
    TRY(curve_pair_save(&p, path));
    printf("%s\n", p.public_key);
    return ST_OK;
}

static enum status add(struct key_list *l, const char *key, const struct args *a)
{
    struct key_grant g = {.roles = 0};
    if (!a->name || !key_list_name_is_good(a->name))
        FAIL(ST_RANGE, "--for: 1 to %d visible ASCII characters, the first not #",
             KEY_LIST_NAME - 1);
    snprintf(g.name, sizeof g.name, "%s", a->name);
    TRY(key_roles_parse(&g.roles, a->roles));
    TRY(curve_public_load(g.key, key));
    return key_list_add(l, &g);
}

static enum status drop(struct key_list *l, const char *name)
{
    if (!key_list_remove(l, name))
        FAIL(ST_RANGE, "no key is named %s", name);
    return ST_OK;
}

/* Two of these at a time wait for each other, so that no key is lost. */
static enum status change(const char *path, const char *what, bool adds, const struct args *a)
{
    struct key_list l;
    int lock;
    TRY(key_file_lock(path, &lock));
    enum status st = key_list_load(&l, path);
    if (st == ST_OK) {
        st = adds ? add(&l, what, a) : drop(&l, what);
        if (st == ST_OK)
            st = key_list_save(&l, path);
        key_list_free(&l);
    }
    close(lock);
    return st;
}

static enum status list(const char *path)
{
    struct key_list l;
    char text[KEY_LIST_ROLES];
    TRY(key_list_load(&l, path));
    printf("%-20s  %-32s  %s\n", "NAME", "ROLES", "KEY");
    for (size_t i = 0; i < l.n; i++) {
        key_roles_text(l.grant[i].roles, text);
        printf("%-20s  %-32s  %s\n", l.grant[i].name, text, l.grant[i].key);
    }
    key_list_free(&l);
    return ST_OK;
}

int cmd_key(int argc, char **argv)
{
    struct args a;
    struct option_result res;
    int rc = cli_parse(&options, &a, argc, argv, &res);
    if (rc >= 0)
        return rc;
    const char *action = res.args[0], *path = res.args[1];
    bool makes = strcmp(action, "new") == 0, lists = strcmp(action, "list") == 0;
    bool adds = strcmp(action, "add") == 0, removes = strcmp(action, "remove") == 0;
    if (!makes && !lists && !adds && !removes)
        return cli_usage("key", "'%s' is none of new, add, list and remove", action);
    if ((adds || removes) && res.n_args != 3)
        return cli_usage("key", "%s takes a LIST and a %s", action, adds ? "KEY" : "NAME");
    if ((makes || lists) && res.n_args != 2)
        return cli_usage("key", "%s takes one file", action);
    enum status st = makes ? make(path) : lists ? list(path) : change(path, res.args[2], adds, &a);
    if (st == ST_OK)
        return EXIT_OK;
    return cli_fail("key", st == ST_RANGE ? EXIT_USAGE : EXIT_FAILED);
}
