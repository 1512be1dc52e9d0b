/* How far a download is: a bar that is drawn again and again on a terminal, else a line for each file.
 * On standard error.  One thread. */
#ifndef CLIENT_PULL_PROGRESS_H
#define CLIENT_PULL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool terminal;
    uint64_t total, before; /* bytes of all files; of the files that are done */
    uint64_t drawn_us;
    /* the rate, over the last seconds */
    uint64_t rate_us, rate_bytes;
    double bytes_per_s;
    const char *name; /* of the file */
};

void progress_init(struct progress *p, uint64_t total, uint64_t have);

/* bytes of the present file; draws at most ten times a second. */
void progress_show(struct progress *p, uint64_t bytes);

/* Removes the bar, before something else is said. */
void progress_clear(struct progress *p);

/* The file is done: a line with its size and how ("checked"). */
void progress_file(struct progress *p, uint64_t bytes, const char *how);

#endif
