/* The token by which the commands of one user own their requests together (proto/ingot.proto, OWNERS): random bytes in
 * a file that the user alone can read, made when it is first needed. */
#ifndef CLIENT_CLI_OWN_TOKEN_H
#define CLIENT_CLI_OWN_TOKEN_H

#include "common/status.h"

enum { OWN_TOKEN_BYTES = 32 };

/* state_home, home: $XDG_STATE_HOME and $HOME, either may be NULL.  The file is ingot/token in state_home, else
 * .local/state/ingot/token in home.  ST_IO: it cannot be made or read; ST_RANGE: others may read it, or it is not
 * whole. */
MUST_CHECK enum status own_token(char token[OWN_TOKEN_BYTES], const char *state_home,
                                 const char *home);

#endif
