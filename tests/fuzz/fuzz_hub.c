/* The hub's list of files, the names of models and the choice between files: the first line of the input is a name, the
 * rest a list.  Every path and digest that is accepted stays inside its folder. */
#include <stdlib.h>
#include <string.h>

#include "client/pull/blob_hash.h"
#include "client/pull/hub_api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_files(struct hub_files *files, const struct hub_name *name)
{
    const char *model = NULL;
    for (size_t i = 0; i < files->n; i++) {
        const struct hub_file *f = &files->v[i];
        must(hub_path_is_safe(f->path) && f->path[0] != '/' && !strstr(f->path, "/../"));
        must(blob_digest_is_valid(f->digest));
    }
    if (hub_select(files, name->repo, name->pick, &model) != ST_OK)
        return;
    bool any = false;
    for (size_t i = 0; i < files->n; i++)
        any = any || files->v[i].chosen;
    must(any && model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[1024];
    struct hub_name name;
    struct hub_listing list;
    const uint8_t *end = memchr(data, '\n', size);
    size_t n = end ? (size_t)(end - data) : size;
    if (n >= sizeof text)
        return 0;
    memcpy(text, data, n);
    text[n] = '\0';
    if (hub_name_parse(&name, text) == ST_OK) {
        must(hub_path_is_safe(name.repo) && hub_path_is_safe(name.revision));
        must(!*name.pick || hub_path_is_safe(name.pick));
    } else {
        name = (struct hub_name){.repo = "org/name", .revision = "main"};
    }
    if (end && hub_listing_parse((const char *)end + 1, size - n - 1, &list) == ST_OK) {
        must(hub_is_commit(list.commit));
        check_files(&list.files, &name);
        hub_listing_free(&list);
    }
    return 0;
}
