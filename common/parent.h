/* Processes that must not outlive the one that started them. */
#ifndef COMMON_PARENT_H
#define COMMON_PARENT_H

/* Asks the kernel for SIGKILL when the parent ends (Linux; elsewhere nothing happens, leases do
 * it). */
void die_with_parent(void);

#endif
