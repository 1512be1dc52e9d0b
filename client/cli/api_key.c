/* ingot api-key: the keys of the HTTP gateway. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/keys/key_file.h"
#include "common/options.h"

struct args {
    const char *name, *tenant;
    int64_t requests, tokens_per_minute, priority;
};

#define ROW(member, kind) .type = (kind), .at = offsetof(struct args, member)

static const struct option_row rows[] = {
    {.help = "Of a key that is added"},
    {.name = "for", ROW(name, OPT_STRING), .arg = "NAME", .help = "Whose key it is, for people."},
    {.name = "tenant",
     ROW(tenant, OPT_STRING),
     .arg = "NAME",
     .help = "Keys of one tenant share its limits, its prefix cache and its idempotency keys; "
             "default: the name."},
    {.name = "requests",
     ROW(requests, OPT_INT),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = UINT32_MAX,
     .help = "Answers that may be in progress at a time, of all gateways together; a request for n "
             "answers counts n times. 0: no limit; the key may then take all places of the queue."},
    {.name = "tokens-per-minute",
     ROW(tokens_per_minute, OPT_INT),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = UINT32_MAX,
     .help = "Tokens of prompts and answers together. 0: no limit."},
    {.name = "priority",
     ROW(priority, OPT_INT),
     .arg = "P",
     .def = "0",
     .min = -KEY_MAX_PRIORITY,
     .max = KEY_MAX_PRIORITY,
     .help = "The highest priority that a request may have."},
};

static const struct option_set options = {
    .program = "ingot api-key",
    .usage = "add|list|remove FILE [ID] [options]",
    .summary = "Keeps the API keys of ingot-gateway --api-keys FILE. add prints the new key, once: "
               "the file has salted hashes alone. A running gateway takes changes over within a "
               "second.",
    .epilog = "Examples:\n"
              "  ingot api-key add keys --for alice --requests 8 --tokens-per-minute 100000\n"
              "  ingot api-key list keys\n"
              "  ingot api-key remove keys 5f0c41d2a9e3\n"
              "  ingot-gateway --api-keys keys --http 0.0.0.0:8080\n" EXIT_CODES_HELP,
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .min_args = 2,
    .max_args = 3,
};

static enum status check_name(const char *option, const char *name)
{
    if (!key_name_is_good(name))
        FAIL(ST_RANGE, "--%s: not 1 to %d visible ASCII characters without quotes and backslashes",
             option, KEY_NAME_SIZE - 1);
    return ST_OK;
}

static enum status add(struct key_file *f, const char *path, const struct args *a)
{
    char text[KEY_TEXT_SIZE];
    struct key_record r = {.requests = (uint32_t)a->requests,
                           .tokens_per_minute = (uint32_t)a->tokens_per_minute,
                           .priority = (int32_t)a->priority};
    if (!a->name)
        FAIL(ST_RANGE, "add needs --for");
    const char *tenant = a->tenant ? a->tenant : a->name;
    TRY(check_name("for", a->name));
    TRY(check_name("tenant", tenant));
    snprintf(r.name, sizeof r.name, "%s", a->name);
    snprintf(r.tenant, sizeof r.tenant, "%s", tenant);
    TRY(key_file_add(f, &r, text));
    TRY(key_file_save(f, path));
    puts(text);
    return ST_OK;
}

static enum status remove_key(struct key_file *f, const char *path, const char *id)
{
    struct key_record *r = key_file_find(f, id);
    if (!r)
        FAIL(ST_NOT_FOUND, "%s has no key with the id %s", path, id);
    key_file_remove(f, r);
    return key_file_save(f, path);
}

static void put_limit(uint32_t limit)
{
    if (limit)
        printf("  %-12" PRIu32, limit);
    else
        printf("  %-12s", "-");
}

static void list(const struct key_file *f)
{
    printf("%-12s  %-20s  %-20s  %-12s  %-12s  %s\n", "ID", "NAME", "TENANT", "REQUESTS",
           "TOKENS/MIN", "PRIORITY");
    for (size_t i = 0; i < f->n; i++) {
        const struct key_record *r = &f->key[i];
        printf("%-12s  %-20s  %-20s", r->id, r->name, r->tenant);
        put_limit(r->requests);
        put_limit(r->tokens_per_minute);
        printf("  %" PRId32 "\n", r->priority);
    }
}

/* Two of these at a time wait for each other, so that no key is lost. */
static enum status change(const char *path, const char *id, const struct args *a)
{
    struct key_file f;
    int lock;
    TRY(key_file_lock(path, &lock));
    enum status st = key_file_load(&f, path);
    if (st == ST_OK) {
        st = id ? remove_key(&f, path, id) : add(&f, path, a);
        key_file_free(&f);
    }
    close(lock);
    return st;
}

static enum status show(const char *path)
{
    struct key_file f;
    TRY(key_file_load(&f, path));
    list(&f);
    key_file_free(&f);
    return ST_OK;
}

int cmd_api_key(int argc, char **argv)
{
    struct args a;
    struct option_result res;
    int rc = cli_parse(&options, &a, argc, argv, &res);
    if (rc >= 0)
        return rc;
    const char *action = res.args[0], *path = res.args[1];
    bool removes = strcmp(action, "remove") == 0;
    if (!removes && strcmp(action, "add") != 0 && strcmp(action, "list") != 0)
        return cli_usage("api-key", "'%s' is none of add, list and remove", action);
    if (removes && res.n_args != 3)
        return cli_usage("api-key", "remove needs the ID of a key (see list)");
    if (!removes && res.n_args != 2)
        return cli_usage("api-key", "%s takes a FILE alone", action);
    enum status st =
        strcmp(action, "list") == 0 ? show(path) : change(path, removes ? res.args[2] : NULL, &a);
    if (st == ST_OK)
        return EXIT_OK;
    return cli_fail("api-key", st == ST_RANGE ? EXIT_USAGE : EXIT_FAILED);
}
