/* The hub's cache of models on this machine, in the layout that other tools share:
 *
 *   ROOT/models--ORG--NAME/blobs/DIGEST                the bytes of a file; DIGEST.incomplete: its beginning
 *                          snapshots/COMMIT/PATH       links to them
 *                          refs/REVISION               the commit of a branch or tag
 *   ROOT/.locks/models--ORG--NAME/DIGEST.lock          held (flock) while the blob is written
 *
 * Nothing here uses a network.  One thread per struct. */
#ifndef CLIENT_HUB_HUB_CACHE_H
#define CLIENT_HUB_HUB_CACHE_H

#include "client/hub/hub_select.h"

enum { HUB_PATH_SIZE = 4096 };

struct hub_cache {
    char root[HUB_PATH_SIZE]; /* HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub */
    char token_file[HUB_PATH_SIZE]; /* HF_TOKEN_PATH, else token in HF_HOME */
};

/* env: getenv.  ST_NOT_FOUND: no variable tells where it is; ST_RANGE: a path is too long. */
MUST_CHECK enum status hub_cache_init(struct hub_cache *c, char *(*env)(const char *name));

/* printf into a path of HUB_PATH_SIZE bytes; ST_RANGE: it does not fit. */
MUST_CHECK enum status hub_path(char out[HUB_PATH_SIZE], const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ROOT/models--ORG--NAME, and its folder of locks. */
MUST_CHECK enum status hub_repo_dir(const struct hub_cache *c, const char *repo,
                                    char out[HUB_PATH_SIZE]);
MUST_CHECK enum status hub_lock_dir(const struct hub_cache *c, const char *repo,
                                    char out[HUB_PATH_SIZE]);

/* The path of a model in the cache: a snapshot's folder or its GGUF file.  ST_NOT_FOUND: it is not there
 * or not whole. */
MUST_CHECK enum status hub_cache_find(const struct hub_cache *c, const struct hub_name *name,
                                      char path[HUB_PATH_SIZE]);

/* ---- what is there ---- */

struct hub_entry {
    char repo[HUB_REPO_SIZE];
    uint64_t size;       /* bytes of its files */
    uint64_t incomplete; /* bytes of files that are not whole */
};

/* All models, in the order of names; *out is malloc'ed.  No cache is an empty one. */
MUST_CHECK enum status hub_cache_list(const struct hub_cache *c, struct hub_entry **out, size_t *n);

/* Removes a model.  ST_NOT_FOUND: it is not there; ST_BUSY: it is being downloaded. */
MUST_CHECK enum status hub_cache_remove(const struct hub_cache *c, const char *repo);

#endif
