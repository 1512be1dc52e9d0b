/* A time as APIs show it (RFC 3339, UTC). */
#ifndef CLIENT_GATEWAY_TIME_TEXT_H
#define CLIENT_GATEWAY_TIME_TEXT_H

#include <stdint.h>

enum { TIME_TEXT_SIZE = 64 };

/* "2026-01-31T12:00:00Z" of s seconds since 1970; with microseconds us >= 0 "2026-01-31T12:00:00.000123Z". */
const char *time_text(char out[TIME_TEXT_SIZE], int64_t s, int us);
const char *time_text_now(char out[TIME_TEXT_SIZE]);

#endif
