/* Strings as expressions: lengths and formats.  One thread per pool. */
#ifndef COMMON_GRAMMAR_STRING_EXPR_H
#define COMMON_GRAMMAR_STRING_EXPR_H

#include "common/grammar/charset.h"

/* What is between the quotes of a string of min to max characters (code points). */
uint32_t string_length(struct expr_pool *p, enum text_form form, uint32_t min, uint32_t max);
/* ... of a format of JSON Schema.  ST_UNSUPPORTED: not one of date-time, date, time, duration, email, hostname, ipv4,
 * ipv6, uuid, uri. */
MUST_CHECK enum status string_format(struct expr_pool *p, enum text_form form, const char *name,
                                     uint32_t *out);

#endif
