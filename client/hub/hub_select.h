/* Which files of a repository make the model that is meant, on the hub and in the cache alike:
 *   a FILE             that GGUF file, with all its parts
 *   a QUANT            the GGUF file of that quantisation
 *   neither            the safetensors folder if there is one, else Q4_K_M, else the only GGUF
 * Files that run code when they are opened (.bin and the like) are never chosen.  Pure. */
#ifndef CLIENT_HUB_HUB_SELECT_H
#define CLIENT_HUB_HUB_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/hub/hub_name.h"

enum { HUB_DIGEST_SIZE = 65 };

struct hub_file {
    char path[HUB_FILE_SIZE];     /* in the repository */
    char digest[HUB_DIGEST_SIZE]; /* SHA-256 (64 digits), or git's id of a small file (40) */
    uint64_t size;                /* bytes */
    bool chosen;
};

struct hub_files {
    struct hub_file *v; /* [n], malloc'ed */
    size_t n, cap;
};

/* Appends a file; ST_NOMEM. */
MUST_CHECK enum status hub_files_add(struct hub_files *f, const char *path, uint64_t size,
                                     const char *digest);
void hub_files_free(struct hub_files *f);

/* Marks the model's files; *model is the path of its first GGUF file, or "" for the folder.
 * ST_NOT_FOUND: there is none, or there are several; ST_FORMAT: a part is missing; ST_UNSUPPORTED: a
 * kind of file that is refused. */
MUST_CHECK enum status hub_select(struct hub_files *f, const char *repo, const char *pick,
                                  const char **model);

/* The GGUF files that can be picked, one a line with their sizes. */
void hub_print_choices(FILE *to, const struct hub_files *f);

/* "1.2 GB", in powers of 1000. */
const char *hub_size_text(uint64_t bytes, char out[32]);

#endif
