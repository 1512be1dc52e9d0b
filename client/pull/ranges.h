/* A file fetched in ranges, several at once, and written from its beginning to its end: whatever an
 * interruption leaves is a beginning of the file, which the next run goes on from.  One thread. */
#ifndef CLIENT_PULL_RANGES_H
#define CLIENT_PULL_RANGES_H

#include "client/pull/blob_hash.h"
#include "client/pull/hub_http.h"
#include "client/pull/progress.h"

struct ranges_config {
    const struct hub_http *http;
    const char *subject; /* ORG/NAME */
    const char *url;     /* on the hub */
    const char *digest;  /* that the hub must name, where it names one */
    uint64_t size;       /* of the file */
    int connections;     /* at most */
    int fd;              /* the file, written at its end */
    const char *path;    /* its, for messages */
    struct blob_hash *hash;
    struct progress *progress;
};

/* Fetches the bytes from `have` on.  What was received before a failure is in the file as far as it is without a
 * gap.  ST_IO: the file; ST_CANCELED: Ctrl-C; else the hub. */
MUST_CHECK enum status ranges_fetch(const struct ranges_config *cfg, uint64_t have);

#endif
