/* The fields of a protobuf message one after the other, without decoding it (the wire format of
 * protobuf's "Encoding" page).  Pure. */
#ifndef COMMON_WIRE_PB_SCAN_H
#define COMMON_WIRE_PB_SCAN_H

#include "common/wire/frame.h"

struct pb_scan {
    const uint8_t *p;
    size_t n; /* bytes left; 0: the message has ended */
};

struct pb_field {
    uint64_t number;
    struct wire_bytes value; /* of a string, bytes or a message; else data NULL */
    uint64_t varint;         /* of a varint, else 0 */
    struct wire_bytes whole; /* with its tag */
};

/* The next field.  ST_FORMAT: cut off, or not protobuf. */
MUST_CHECK enum status pb_scan_field(struct pb_scan *s, struct pb_field *out);

#endif
