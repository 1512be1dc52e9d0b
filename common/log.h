/* One line per event on standard error: "12:00:01.123 info worker.1 loading model ...".
 * Called from any thread; a line is written by a single write().  Colours only on a terminal;
 * control characters in the text are escaped. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/status.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* name: which process speaks, "coordinator" or "worker.0" (copied).  Call once in main. */
void log_init(const char *name, enum log_level least);
void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Logs the failure that has just been returned, "what: text"; at level debug a second line adds its
 * status and origin, "what: format at gguf.c:276: text". */
void log_failure(enum log_level level, enum status st, const char *what);

#endif
