/* At most a burst of log lines, then one a second: traffic from outside must not fill the log.  The lines that were
 * left out are counted, and the next line tells their number.  Pure. */
#ifndef COORDINATOR_LOG_LIMIT_H
#define COORDINATOR_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

enum { LOG_BURST = 10, LOG_REFILL_US = 1000 * 1000 };

struct log_limit { /* zeros at the start */
    uint64_t refilled_us;
    uint32_t used, hidden;
};

/* May a line be written now?  *hidden: how many were left out since the last one. */
static inline bool log_limit_take(struct log_limit *l, uint64_t now_us, uint32_t *hidden)
{
    uint64_t n = (now_us - l->refilled_us) / LOG_REFILL_US;
    if (n > 0) {
        l->used = n < l->used ? l->used - (uint32_t)n : 0;
        l->refilled_us = now_us;
    }
    if (l->used >= LOG_BURST) {
        l->hidden++;
        return false;
    }
    l->used++;
    *hidden = l->hidden;
    l->hidden = 0;
    return true;
}

#endif
