/* What the codecs of requests and replies share; included only by the client_*.c files. */
#ifndef COMMON_WIRE_CLIENT_PB_H
#define COMMON_WIRE_CLIENT_PB_H

#include "common/wire/client_msg.h"
#include "common/wire/pb.h"
#include "ingot.pb-c.h"

/* FAIL that also names the field */
#define FAIL_FIELD(name, code, ...)                                                                \
    do {                                                                                           \
        *field = (name);                                                                           \
        FAIL((code), __VA_ARGS__);                                                                 \
    } while (0)

static inline struct wire_text text_of(protobuf_c_boolean has, ProtobufCBinaryData b)
{
    return has ? (struct wire_text){(const char *)b.data, b.len} : (struct wire_text){"", 0};
}

static inline ProtobufCBinaryData bytes_of(struct wire_text t)
{
    return (ProtobufCBinaryData){t.n, (uint8_t *)(uintptr_t)t.data};
}

static inline ProtobufCBinaryData tenant_bytes(const struct tenant *t)
{
    return (ProtobufCBinaryData){t->n, (uint8_t *)(uintptr_t)t->bytes};
}

/* a borrowed C string, NULL (unset) for "" */
static inline char *string_of(const char *s)
{
    return s && *s ? (char *)(uintptr_t)s : NULL;
}

/* The same message in Generate and Accepted.  Encoding borrows s; decoding borrows m. */
MUST_CHECK enum status sampling_encode(Ingot__Sampling *m, const struct msg_sampling *s,
                                       struct wire_mem *mem);
MUST_CHECK enum status sampling_decode(struct msg_sampling *s, const Ingot__Sampling *m,
                                       struct wire_mem *mem, const char **field);

/* Accepted and Generate.resume; the same ownership. */
MUST_CHECK enum status accepted_encode(Ingot__Accepted *m, const struct msg_accepted *a,
                                       struct wire_mem *mem);
MUST_CHECK enum status accepted_decode(struct msg_accepted *a, const Ingot__Accepted *m,
                                       struct wire_mem *mem, const char **field);
MUST_CHECK enum status resume_encode(Ingot__Resume *m, const struct msg_resume *r,
                                     struct wire_mem *mem);
/* n: samples of the request. */
MUST_CHECK enum status resume_decode(const struct msg_resume **out, const Ingot__Resume *m,
                                     uint32_t n, struct wire_mem *mem, const char **field);

/* StatsReply; the same ownership. */
MUST_CHECK enum status stats_encode(struct wire_bytes *out, const struct msg_stats *s,
                                    struct wire_mem *mem);
MUST_CHECK enum status stats_decode(struct msg_stats *s, const Ingot__StatsReply *m,
                                    struct wire_mem *mem);

#endif
