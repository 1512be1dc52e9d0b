/* Lines for a file or for standard output, written by a thread: the loop never waits for a disk or a pipe.  At most
 * ACCESS_LOG_BUFFER bytes wait; lines beyond are dropped and counted, and so are lines that cannot be written (a full
 * disk, a pipe without a reader).  The program's log tells the number, at most every ten seconds. */
#ifndef CLIENT_GATEWAY_ACCESS_LOG_H
#define CLIENT_GATEWAY_ACCESS_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum { ACCESS_LOG_BUFFER = 1 << 20 };

struct access_log;

/* path: a file that is appended to (made with mode 0600), or "-": standard output.  ST_IO: it cannot be opened. */
MUST_CHECK enum status access_log_open(struct access_log **out, const char *path);
/* Writes what waits, for at most a second.  NULL is fine. */
void access_log_close(struct access_log *l);

/* One or more whole lines. */
void access_log_write(struct access_log *l, const char *lines, size_t n);
/* Opens the path again (it was renamed); keeps the old file when that fails. */
void access_log_reopen(struct access_log *l);
/* Lines that were dropped since the start. */
uint64_t access_log_dropped(struct access_log *l);

#endif
