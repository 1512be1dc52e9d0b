/* Ctrl-C and SIGTERM, and waits that they end.  One thread. */
#ifndef CLIENT_PULL_STOP_H
#define CLIENT_PULL_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

void stop_catch(void); /* once, in main */
bool stop_asked(void);
/* ST_CANCELED when it was asked for. */
MUST_CHECK enum status stop_check(void);

/* Sleeps.  subject: the hub has asked for the wait, which is said; NULL: it is not. */
MUST_CHECK enum status stop_sleep(uint64_t us, const char *subject);
/* Says that the hub asks for that wait. */
void stop_say_wait(uint64_t us, const char *subject);

#endif
