/* What the hub says about a repository.  One thread. */
#ifndef CLIENT_PULL_HUB_API_H
#define CLIENT_PULL_HUB_API_H

#include "client/hub/hub_select.h"
#include "client/pull/hub_http.h"

struct hub_listing {
    char commit[41];
    struct hub_files files; /* with digests and sizes; paths are safe */
};

/* Asks for name's revision.  ST_NOT_FOUND, ST_UNSUPPORTED (no access), ST_PEER, ST_FORMAT. */
MUST_CHECK enum status hub_list(const struct hub_http *h, const struct hub_name *name,
                                struct hub_listing *out);
void hub_listing_free(struct hub_listing *l);

/* The listing in its JSON form. */
MUST_CHECK enum status hub_listing_parse(const char *json, size_t n, struct hub_listing *out);

/* Where the hub gives a file. */
MUST_CHECK enum status hub_file_url(const struct hub_http *h, const char *repo, const char *commit,
                                    const char *path, char url[HTTP_URL_SIZE]);

#endif
