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

static enum status take_value(struct pb_scan *s, unsigned type, struct pb_field *out)
{
    struct wire_bytes skipped;
    uint64_t n;
    switch (type) {
    case VARINT:
        return take_varint(s, &out->varint);
    case FIXED64:
        return take_bytes(s, 8, &skipped);
    case FIXED32:
        return take_bytes(s, 4, &skipped);
    case BYTES:
        TRY(take_varint(s, &n));
        return take_bytes(s, n, &out->value);
    default:
        FAIL(ST_FORMAT, "field %llu has the wire type %u, which protobuf 2 and 3 do not use",
             (unsigned long long)out->number, type);
    }
}

enum status pb_scan_field(struct pb_scan *s, struct pb_field *out)
{
    const uint8_t *begin = s->p;
    uint64_t tag;
    *out = (struct pb_field){0};
    TRY(take_varint(s, &tag));
    out->number = tag >> 3;
    TRY(take_value(s, (unsigned)(tag & 7), out));
    out->whole = (struct wire_bytes){begin, (size_t)(s->p - begin)};
    return ST_OK;
}
