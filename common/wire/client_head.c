/* A request's type, id and tenant, without decoding it. */
#include <string.h>

#include "common/utf8.h"
#include "common/wire/client_msg.h"
#include "common/wire/pb_scan.h"

enum { FIELD_REQUEST_ID = 1 };

static enum status take_id(struct request_head *out, struct wire_bytes id)
{
    const char *p = (const char *)id.data;
    out->id[0] = '\0';
    if (!p)
        FAIL(ST_FORMAT, "request_id is not a string");
    if (id.n == 0 || id.n > MAX_REQUEST_ID)
        FAIL(ST_RANGE, "request_id has %zu bytes: it must have 1 to %d", id.n, MAX_REQUEST_ID);
    if (memchr(p, 0, id.n) || !utf8_valid(p, id.n))
        FAIL(ST_FORMAT, "request_id is not UTF-8 without NUL");
    memcpy(out->id, p, id.n);
    out->id[id.n] = '\0';
    return ST_OK;
}

enum status tenant_of_bytes(struct tenant *out, const void *data, size_t n)
{
    if (n < 1 || n > MAX_TENANT)
        FAIL(ST_RANGE, "tenant has %zu bytes: it must have 1 to %d", n, MAX_TENANT);
    *out = (struct tenant){.n = (uint8_t)n};
    memcpy(out->bytes, data, n);
    return ST_OK;
}

bool tenant_equal(const struct tenant *a, const struct tenant *b)
{
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

static enum status take_tenant(struct request_head *out, struct wire_bytes tenant)
{
    if (!tenant.data)
        FAIL(ST_FORMAT, "tenant is not a string of bytes");
    return tenant_of_bytes(&out->tenant, tenant.data, tenant.n);
}

/* the number of the field tenant in a message of that type; 0 = it has none */
static uint64_t tenant_field(enum msg_type type)
{
    switch (type) {
    case MSG_GENERATE:
        return 15;
    case MSG_CANCEL:
        return 2;
    case MSG_TOKENIZE:
    case MSG_DETOKENIZE:
        return 5;
    case MSG_APPLY_TEMPLATE:
        return 4;
    default:
        return 0;
    }
}

enum status client_msg_head(struct request_head *out, const void *data, size_t n,
                            const char **field)
{
    struct frame f;
    memset(out, 0, sizeof *out);
    *field = "";
    TRY(frame_parse(&f, data, n));
    if (f.type < MSG_HELLO || f.type > MSG_DRAIN)
        FAIL(ST_UNSUPPORTED, "message type %u is not a request", f.type);
    out->type = (enum msg_type)f.type;
    if (out->type == MSG_HELLO)
        return ST_OK;
    struct pb_scan s = {f.body, f.n_body};
    while (s.n) { /* to the end: of a field that comes twice the last one counts */
        uint64_t number;
        struct wire_bytes value;
        TRY(pb_scan_field(&s, &number, &value));
        if (number == FIELD_REQUEST_ID) {
            *field = "request_id";
            TRY(take_id(out, value));
        } else if (number != 0 && number == tenant_field(out->type)) {
            *field = "tenant";
            TRY(take_tenant(out, value));
        }
        *field = "";
    }
    if (!*out->id) {
        *field = "request_id";
        FAIL(ST_RANGE, "the request has no request_id");
    }
    return ST_OK;
}
