/* ingot-pull: downloads a model from a hub into the cache.  `ingot pull` runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/pull/blob_store.h"
#include "client/pull/hub_api.h"
#include "client/pull/stop.h"
#include "common/build_info.h"
#include "common/log.h"
#include "common/options.h"

enum {
    EXIT_DONE = 0,
    EXIT_FAULT = 1,
    EXIT_WRONG_USE = 2,
    EXIT_ABSENT = 3,
    EXIT_DENIED = 4,
    EXIT_STOPPED = 130,
    MAX_TOKEN = 512,
};

struct args {
    int64_t connections, stall_s;
};

static const struct option_row rows[] = {
    {.name = "connections",
     .type = OPT_INT,
     .at = offsetof(struct args, connections),
     .arg = "N",
     .def = "8",
     .min = 1,
     .max = 32,
     .help = "Connections at once for one file; each takes 8 MiB of memory."},
    {.name = "stall-s",
     .type = OPT_INT,
     .at = offsetof(struct args, stall_s),
     .arg = "S",
     .def = "30",
     .min = 1,
     .max = 3600,
     .help = "A connection on which nothing comes for that long is broken: another one takes its "
             "place."},
};

static const struct option_set options = {
    .program = "ingot pull",
    .usage = "ORG/NAME[@REVISION][:FILE|:QUANT] [options]",
    .summary =
        "Downloads a model from the hub into the cache that other tools share, and prints its "
        "path.  "
        "Without FILE and QUANT it is the repository's safetensors folder if there is one, else "
        "its "
        "GGUF file of Q4_K_M, else its only GGUF file; otherwise the GGUF files are listed.  Split "
        "files come whole.  An interrupted download goes on where it ended; every file is checked "
        "by its digest.",
    .epilog =
        "Examples:\n"
        "  ingot pull Qwen/Qwen3-0.6B\n"
        "  ingot pull Qwen/Qwen3-0.6B-GGUF:Q8_0\n"
        "  ingot pull ORG/NAME@v1.0:folder/model-q4_k_m.gguf\n"
        "  ingot run Qwen/Qwen3-0.6B --message 'Hello'     # afterwards\n"
        "Environment: HF_ENDPOINT (default https://huggingface.co), HF_TOKEN (else the file token\n"
        "in HF_HOME), HF_HUB_CACHE (else hub in HF_HOME, which is ~/.cache/huggingface by "
        "default),\n"
        "HF_HUB_OFFLINE=1 (nothing is downloaded); proxies as libcurl reads them.\n"
        "Exit codes: 0 done, 1 failure, 2 wrong options or name, 3 no such model or no single "
        "one,\n"
        "4 access or this kind of file is refused, 130 interrupted.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .min_args = 1,
    .max_args = 1,
};

/* HF_TOKEN, or the token file's first line; "" without both.  ST_RANGE: it cannot be a header. */
static enum status read_token(const struct hub_cache *c, char token[MAX_TOKEN])
{
    const char *given = getenv("HF_TOKEN");
    token[0] = '\0';
    if (given && *given) {
        if (snprintf(token, MAX_TOKEN, "%s", given) >= MAX_TOKEN)
            FAIL(ST_RANGE, "HF_TOKEN is longer than %d bytes", MAX_TOKEN - 1);
    } else {
        FILE *f = fopen(c->token_file, "r");
        if (f && !fgets(token, MAX_TOKEN, f))
            token[0] = '\0';
        if (f)
            fclose(f);
    }
    for (size_t n = strlen(token); n && strchr(" \r\n", token[n - 1]); n--)
        token[n - 1] = '\0';
    for (const char *t = token; *t; t++)
        if (*t <= ' ' || *t > '~')
            FAIL(ST_RANGE, "the hub's token has characters that no token has");
    return ST_OK;
}

static enum status read_environment(struct hub_cache *c, struct hub_http *h, const struct args *a)
{
    static char token[MAX_TOKEN], endpoint[1024];
    const char *given = getenv("HF_ENDPOINT"), *offline = getenv("HF_HUB_OFFLINE");
    if (offline && *offline && strcmp(offline, "0") != 0)
        FAIL(ST_RANGE, "HF_HUB_OFFLINE is set: nothing is downloaded");
    if (snprintf(endpoint, sizeof endpoint, "%s",
                 given && *given ? given : "https://huggingface.co") >= (int)sizeof endpoint)
        FAIL(ST_RANGE, "HF_ENDPOINT is too long");
    for (size_t n = strlen(endpoint); n && endpoint[n - 1] == '/'; n--)
        endpoint[n - 1] = '\0';
    TRY(hub_cache_init(c, getenv));
    TRY(read_token(c, token));
    return http_init(h, endpoint, *token ? token : NULL, a->stall_s);
}

static enum status pull(const struct hub_cache *c, const struct hub_http *h,
                        const struct hub_name *name, const struct args *a, struct hub_listing *list)
{
    static struct blob_store store;
    const char *model;
    TRY(hub_list(h, name, list));
    TRY(hub_select(&list->files, name->repo, name->pick, &model));
    TRY(blob_store_init(&store, c, h, name->repo, list->commit, (int)a->connections));
    TRY(blob_store_plan(&store, &list->files));
    /* the weights last: where they are, everything is */
    for (int weights = 0; weights < 2; weights++)
        for (size_t i = 0; i < list->files.n; i++) {
            const struct hub_file *f = &list->files.v[i];
            bool large = strlen(f->digest) == 64;
            if (f->chosen && large == (weights == 1))
                TRY(blob_store_pull(&store, f));
        }
    TRY(blob_store_set_ref(&store, name->revision));
    printf("%s/snapshots/%s%s%s\n", store.dir, list->commit, *model ? "/" : "", model);
    return ST_OK;
}

static int exit_code(enum status st)
{
    switch (st) {
    case ST_OK:
        return EXIT_DONE;
    case ST_RANGE:
        return EXIT_WRONG_USE;
    case ST_NOT_FOUND:
        return EXIT_ABSENT;
    case ST_UNSUPPORTED:
        return EXIT_DENIED;
    case ST_CANCELED:
        return EXIT_STOPPED;
    default:
        return EXIT_FAULT;
    }
}

int main(int argc, char **argv)
{
    static struct hub_cache cache;
    struct args a;
    struct hub_http http;
    struct hub_name name;
    struct hub_listing list = {.commit = ""};
    struct option_result res;
    if (options_parse(&options, &a, argc, argv, &res) != ST_OK) {
        fprintf(stderr, "ingot pull: %s\n", status_text());
        return EXIT_WRONG_USE;
    }
    if (res.help) {
        options_print_help(stdout, &options, res.help);
        return EXIT_DONE;
    }
    if (res.version) {
        build_info_print(stdout, "ingot-pull");
        return EXIT_DONE;
    }
    stop_catch();
    enum status st = hub_name_parse(&name, res.args[0]);
    if (st == ST_OK)
        st = read_environment(&cache, &http, &a);
    if (st == ST_OK && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "libcurl cannot start");
    if (st == ST_OK)
        st = pull(&cache, &http, &name, &a, &list);
    if (st != ST_OK)
        fprintf(stderr, "ingot pull: %s\n", status_text());
    if (st == ST_NOT_FOUND)
        hub_print_choices(stderr, &list.files);
    hub_listing_free(&list);
    return exit_code(st);
}
