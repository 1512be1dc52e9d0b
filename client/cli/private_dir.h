/* A folder of our own for sockets and for what MPI keeps in files, removed with all that is in it
 * when the server ends.  After a SIGKILL it stays behind; the next server that starts sweeps such
 * folders away. */
#ifndef CLIENT_CLI_PRIVATE_DIR_H
#define CLIENT_CLI_PRIVATE_DIR_H

#include <stdint.h>

#include "common/status.h"

enum { PRIVATE_PATH = 96 };

struct private_dir {
    char path[64];
    int lock_fd; /* locked as long as its owner lives */
};

/* Makes one with mode 0700, in /dev/shm (shared memory of MPI goes there) if need bytes are free
 * there, else in /tmp; sweeps stale ones of this user before. */
MUST_CHECK enum status private_dir_open(struct private_dir *d, uint64_t need);
/* An empty folder of that name in it; what was in it before is removed. */
MUST_CHECK enum status private_dir_fresh(const struct private_dir *d, const char *name,
                                         char path[PRIVATE_PATH]);
void private_dir_close(struct private_dir *d); /* fine after a failed open */

#endif
