/* Digests of files that were hashed before, kept in files of the user's cache folder by path, size,
 * modification time and inode.  An entry that is damaged, or of other facts, counts as absent; a
 * folder that cannot be written is logged once and otherwise ignored.  Entries are replaced by
 * renaming, so any number of processes may read and write; a struct belongs to one thread at a time.
 */
#ifndef COMMON_DIGEST_DIGEST_CACHE_H
#define COMMON_DIGEST_DIGEST_CACHE_H

#include <stdbool.h>

#include "common/sha256.h"
#include "common/status.h"

enum { DIGEST_PATH = 4096 };

struct digest_cache {
    char dir[DIGEST_PATH - 128]; /* "": none */
    bool complained;
};

/* What an entry is of. */
struct file_facts {
    char path[DIGEST_PATH]; /* real, absolute */
    uint64_t size, mtime_ns, inode;
};

/* In the folder "digests" of cache_dir.h; none when both are NULL or empty. */
void digest_cache_init(struct digest_cache *c, const char *xdg_cache_home, const char *home);

/* ST_NOT_FOUND, ST_IO (also for what is no regular file). */
MUST_CHECK enum status file_facts_read(struct file_facts *f, const char *path);
bool file_facts_equal(const struct file_facts *a, const struct file_facts *b);

bool digest_cache_find(const struct digest_cache *c, const struct file_facts *f,
                       uint8_t out[SHA256_BYTES]);

/* began_ns: the time (CLOCK_REALTIME) when reading the file began.  A file changed less than two
 * seconds before that, or after it, is not kept: a later change might leave its time as it is. */
void digest_cache_store(struct digest_cache *c, const struct file_facts *f, uint64_t began_ns,
                        const uint8_t digest[SHA256_BYTES]);

/* The lock of that file's entry: *fd is to be closed, -1 while another process has it.  ST_IO: there
 * can be no lock. */
MUST_CHECK enum status digest_cache_try_lock(struct digest_cache *c, const struct file_facts *f,
                                             int *fd);

#endif
