/* Lines to the supervisor (`ingot serve`) that started this coordinator. */
#ifndef COORDINATOR_NOTIFY_H
#define COORDINATOR_NOTIFY_H

#include "coordinator/coordinator.h"

/* One line to cfg.notify_fd; without one, nothing. */
void coordinator_notify(struct coordinator *co, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
