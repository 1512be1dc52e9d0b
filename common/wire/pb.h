/* What the two codecs share; included only by the .c files of common/wire. */
#ifndef COMMON_WIRE_PB_H
#define COMMON_WIRE_PB_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "common/sha256.h"
#include "common/wire/frame.h"
#include "common/wire/ranks_msg.h"

/* Unpacks into mem.  Refuses unknown fields (ST_UNSUPPORTED) and strings with NUL (ST_FORMAT), whose
 * path is *field then, in mem: "sampling.99", with the number for an unknown name.  *out is set even
 * then; on other failures it is NULL. */
MUST_CHECK enum status pb_unpack(ProtobufCMessage **out, const ProtobufCMessageDescriptor *desc,
                                 const uint8_t *body, size_t n, struct wire_mem *mem,
                                 const char **field);

/* Header and packed message into mem. */
MUST_CHECK enum status pb_pack(struct wire_bytes *out, uint16_t type, const ProtobufCMessage *msg,
                               struct wire_mem *mem);

/* Memory for n elements in mem, or ST_NOMEM. */
#define MEM_ARRAY(p, n, mem)                                                                       \
    do {                                                                                           \
        (p) = wire_mem_alloc((mem), (n) * sizeof *(p));                                            \
        if (!(p))                                                                                  \
            FAIL(ST_NOMEM, "message memory of %zu bytes is full", (mem)->cap);                     \
    } while (0)

/* Sets an optional field. */
#define SET(m, field, value) ((m).has_##field = 1, (m).field = (value))

/* The bytes of a digest, borrowed. */
ProtobufCBinaryData pb_digest(const uint8_t digest[SHA256_BYTES]);
/* *has = is_set; ST_FORMAT: bytes of another length. */
MUST_CHECK enum status pb_get_digest(uint8_t out[SHA256_BYTES], bool *has,
                                     protobuf_c_boolean is_set, ProtobufCBinaryData b,
                                     const char *field);

/* n_column[4]: entries of the columns of struct msg_ranks.  ST_FORMAT: they are not equal, or too many. */
MUST_CHECK enum status pb_check_ranks(uint32_t *n, const size_t n_column[4]);

/* s, or "" for NULL. */
const char *pb_string(const char *s);

#endif
