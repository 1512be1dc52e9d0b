#include "client/gateway/time_text.h"

#include <stdio.h>
#include <time.h>

const char *time_text(char out[TIME_TEXT_SIZE], int64_t s, int us)
{
    char second[32] = "";
    time_t at = (time_t)s;
    struct tm tm;
    if (gmtime_r(&at, &tm))
        strftime(second, sizeof second, "%Y-%m-%dT%H:%M:%S", &tm);
    if (us < 0)
        snprintf(out, TIME_TEXT_SIZE, "%sZ", second);
    else
        snprintf(out, TIME_TEXT_SIZE, "%s.%06dZ", second, us);
    return out;
}

const char *time_text_now(char out[TIME_TEXT_SIZE])
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return time_text(out, now.tv_sec, (int)(now.tv_nsec / 1000));
}
