/* Files of the hub brought into the cache: each is locked, fetched or completed, checked and linked into its
 * snapshot.  One thread. */
#ifndef CLIENT_PULL_BLOB_STORE_H
#define CLIENT_PULL_BLOB_STORE_H

#include "client/hub/hub_cache.h"
#include "client/pull/hub_http.h"
#include "client/pull/progress.h"

struct blob_store {
    const struct hub_http *http;
    const char *repo, *commit;
    char dir[HUB_PATH_SIZE]; /* of the repository in the cache */
    char locks[HUB_PATH_SIZE];
    int connections;
    struct progress progress;
};

MUST_CHECK enum status blob_store_init(struct blob_store *s, const struct hub_cache *c,
                                       const struct hub_http *http, const char *repo,
                                       const char *commit, int connections);

/* Sums of the chosen files, and whether the disk has room for what is missing.  ST_IO: it has not. */
MUST_CHECK enum status blob_store_plan(struct blob_store *s, const struct hub_files *files);

/* One file.  ST_FORMAT: its digest is wrong, and nothing is left of it. */
MUST_CHECK enum status blob_store_pull(struct blob_store *s, const struct hub_file *f);

/* Notes the commit as that of a branch or tag. */
MUST_CHECK enum status blob_store_set_ref(const struct blob_store *s, const char *revision);

#endif
