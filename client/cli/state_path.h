/* Places of this user's files that outlive a command: $XDG_STATE_HOME/ingot, else ~/.local/state/ingot. */
#ifndef CLIENT_CLI_STATE_PATH_H
#define CLIENT_CLI_STATE_PATH_H

#include <stddef.h>

#include "common/status.h"

enum { STATE_PATH = 4096 };

/* The path of a file or folder there; the folders above it are made, for their owner only.  state_home, home: the
 * environment's XDG_STATE_HOME and HOME, or NULL.  ST_NOT_FOUND: neither is an absolute path; ST_RANGE, ST_IO. */
MUST_CHECK enum status state_path(char path[STATE_PATH], const char *state_home, const char *home,
                                  const char *name);

#endif
