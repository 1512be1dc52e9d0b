/* Processes that `ingot` starts: found beside its own program, ended together with it. */
#ifndef CLIENT_CLI_CHILD_H
#define CLIENT_CLI_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/status.h"

enum { MAX_ARGV = 96, MAX_ARGS_TEXT = 16384 /* bytes */, MAX_PATH_LEN = 1024 };

/* The path of a sibling program ("ingot-worker"): beside this one, else in PATH.  ST_NOT_FOUND. */
MUST_CHECK enum status child_find(const char *name, char path[MAX_PATH_LEN]);

/* What is installed with the programs, by its name in share/ingot.  ST_NOT_FOUND. */
MUST_CHECK enum status child_find_shared(const char *name, char path[MAX_PATH_LEN]);

/* How a user calls this program: "ingot" where PATH finds it under that name, else its full path.
 * Valid until the next call. */
const char *child_own_command(void);

/* An argument list that grows; strings are borrowed or live in text. */
struct child_args {
    const char *v[MAX_ARGV + 1];
    size_t n;
    char text[MAX_ARGS_TEXT];
    size_t n_text;
    bool private_network; /* see private_network.h */
    bool too_long;        /* something did not fit: child_start refuses */
};

void child_arg(struct child_args *a, const char *s);
/* printf into the list's own text */
void child_argf(struct child_args *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Starts v[0] in a process group of its own; it dies when this process dies (Linux).  keep_fd (or
 * -1) stays open in it.  */
MUST_CHECK enum status child_start(pid_t *pid, const struct child_args *a, int keep_fd);

/* The living children of any process; at most max of them. */
int child_children(pid_t parent, pid_t *pids, int max);

enum child_state {
    CHILD_RUNS,
    CHILD_STOPPED, /* by a signal */
    CHILD_ENDED,   /* its memory is free; it may wait for its parent */
};

enum child_state child_state(pid_t pid);

/* "exit code 3", "signal 9 (Killed)" */
const char *child_end_text(int wait_status, char *buf, size_t n);

#endif
