/* What the loop needs of a request, without decoding it. */
#include <string.h>

#include "common/hash.h"
#include "common/utf8.h"
#include "common/wire/client_msg.h"
#include "common/wire/pb_scan.h"

enum { FIELD_REQUEST_ID = 1 };
enum { FIELD_TENANT_LIMITS = 17, FIELD_GRACE_MS = 18, FIELD_RESUME = 70 }; /* of Generate */

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

/* As protobuf merges: a second TenantLimits replaces the fields that it has. */
static enum status take_limits(struct request_head *out, struct wire_bytes limits)
{
    struct pb_scan s = {limits.data, limits.n};
    struct pb_field f;
    if (!limits.data)
        FAIL(ST_FORMAT, "tenant_limits is not a message");
    out->has_limits = true;
    while (s.n) {
        TRY(pb_scan_field(&s, &f));
        if (f.number == 1)
            out->limits.max_samples = (uint32_t)f.varint;
        else if (f.number == 2)
            out->limits.tokens_per_minute = (uint32_t)f.varint;
    }
    return ST_OK;
}

static enum status take_grace(struct request_head *out, uint64_t ms)
{
    out->has_grace = true;
    out->grace_ms = (uint32_t)ms;
    if (out->grace_ms > MAX_GRACE_MS)
        FAIL(ST_RANGE, "grace_ms is %u: it must be at most %d", out->grace_ms, MAX_GRACE_MS);
    return ST_OK;
}

/* Packed ids are counted by the last bytes of their varints. */
static enum status count_sample(struct resumed_count *out, struct wire_bytes sample)
{
    struct pb_scan s = {sample.data, sample.n};
    struct pb_field f;
    if (!sample.data)
        FAIL(ST_FORMAT, "resume.sample is not a message");
    while (s.n) {
        TRY(pb_scan_field(&s, &f));
        const uint8_t *p = f.value.data;
        for (size_t i = 0; f.number == 1 && p && i < f.value.n; i++)
            out->n_ids += p[i] < 0x80;
        if (f.number == 1 && !p)
            out->n_ids++;
        else if (f.number == 2)
            out->n_text = f.varint;
        else if (f.number == 100)
            out->n_scores = (uint32_t)f.varint;
    }
    return ST_OK;
}

static enum status take_resume(struct request_head *out, struct wire_bytes resume)
{
    struct pb_scan s = {resume.data, resume.n};
    struct pb_field f;
    if (!resume.data)
        FAIL(ST_FORMAT, "resume is not a message");
    out->has_resume = true;
    while (s.n) {
        TRY(pb_scan_field(&s, &f));
        if (f.number != 2)
            continue;
        if (out->n_resumed == MAX_SAMPLES)
            FAIL(ST_RANGE, "resume has more than %d samples", MAX_SAMPLES);
        TRY(count_sample(&out->resumed[out->n_resumed++], f.value));
    }
    return ST_OK;
}

static enum status take_field(struct request_head *out, const struct pb_field *f,
                              const char **field)
{
    if (f->number == FIELD_REQUEST_ID) {
        *field = "request_id";
        TRY(take_id(out, f->value));
    } else if (f->number != 0 && f->number == tenant_field(out->type)) {
        *field = "tenant";
        TRY(take_tenant(out, f->value));
    } else if (out->type == MSG_GENERATE && f->number == FIELD_TENANT_LIMITS) {
        *field = "tenant_limits";
        TRY(take_limits(out, f->value));
    } else if (out->type == MSG_GENERATE && f->number == FIELD_GRACE_MS) {
        *field = "grace_ms";
        TRY(take_grace(out, f->varint));
    } else if (out->type == MSG_GENERATE && f->number == FIELD_RESUME) {
        *field = "resume";
        TRY(take_resume(out, f->value));
    }
    *field = "";
    return ST_OK;
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
        struct pb_field at;
        TRY(pb_scan_field(&s, &at));
        TRY(take_field(out, &at, field));
        if (out->type == MSG_GENERATE && at.number != FIELD_TENANT_LIMITS &&
            at.number != FIELD_GRACE_MS && at.number != FIELD_RESUME)
            out->digest = hash_bytes(out->digest, at.whole.data, at.whole.n);
    }
    if (!*out->id) {
        *field = "request_id";
        FAIL(ST_RANGE, "the request has no request_id");
    }
    return ST_OK;
}
