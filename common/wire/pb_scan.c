#include "common/wire/pb_scan.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types of protobuf */
/* base-128, least significant group first, at most ten bytes */
static enum status take_varint(struct pb_scan *s, uint64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < 10 && i < s->n; i++) {
        *out |= (uint64_t)(s->p[i] & 0x7f) << (7 * i);
        if (s->p[i] < 0x80) {
            s->p += i + 1;
            s->n -= i + 1;
            return ST_OK;
        }
    }
    FAIL(ST_FORMAT, "the message is cut off or not protobuf");
}

static enum status take_bytes(struct pb_scan *s, uint64_t n, struct wire_bytes *out)
{
    if (n > s->n)
        FAIL(ST_FORMAT, "the message is cut off or not protobuf");
    *out = (struct wire_bytes){s->p, (size_t)n};
    s->p += n;
    s->n -= (size_t)n;
    return ST_OK;
}

enum status pb_scan_field(struct pb_scan *s, uint64_t *number, struct wire_bytes *value)
{
    uint64_t tag, n = 0;
    struct wire_bytes skipped;
    TRY(take_varint(s, &tag));
    *number = tag >> 3;
    *value = (struct wire_bytes){NULL, 0};
    switch (tag & 7) {
    case VARINT:
        return take_varint(s, &n);
    case FIXED64:
        return take_bytes(s, 8, &skipped);
    case FIXED32:
        return take_bytes(s, 4, &skipped);
    case BYTES:
        TRY(take_varint(s, &n));
        return take_bytes(s, n, value);
    default:
        FAIL(ST_FORMAT, "field %llu has the wire type %u, which protobuf 2 and 3 do not use",
             (unsigned long long)*number, (unsigned)(tag & 7));
    }
}
