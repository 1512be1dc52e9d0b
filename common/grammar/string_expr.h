/* JSON strings as expressions: lengths, patterns and formats.  One thread per pool. */
#ifndef COMMON_GRAMMAR_STRING_EXPR_H
#define COMMON_GRAMMAR_STRING_EXPR_H

#include "common/grammar/charset.h"

/* Any JSON string with its quotes, with every escape that JSON has. */
uint32_t string_any(struct expr_pool *p);
/* What is between the quotes of a string of min to max characters (code points), in TEXT_JSON. */
uint32_t string_length(struct expr_pool *p, uint32_t min, uint32_t max);
/* ... of a format of JSON Schema.  ST_UNSUPPORTED: not one of date-time, date, time, duration, email, hostname, ipv4,
 * ipv6, uuid, uri. */
MUST_CHECK enum status string_format(struct expr_pool *p, const char *name, uint32_t *out);
uint32_t string_quoted(struct expr_pool *p, uint32_t inner);

#endif
