/* A network of its own for a process and its children, with a loopback interface alone (Linux network namespaces,
 * network_namespaces(7)): what listens there on all interfaces cannot be reached from outside.  Files, pipes and
 * ipc endpoints work as before.  For mpirun, which listens on all interfaces whatever its parameters are. */
#ifndef CLIENT_CLI_PRIVATE_NETWORK_H
#define CLIENT_CLI_PRIVATE_NETWORK_H

#include <stdbool.h>

/* May this user make one here?  Tries it in a child process. */
bool private_network_possible(void);

/* Enters a new one; for a process of one thread, before exec.  false: it must end, errno says why. */
bool private_network_enter(void);

#endif
