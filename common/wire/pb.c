#include "common/wire/pb.h"

#include <stdio.h>
#include <string.h>

static void *mem_alloc(void *mem, size_t n)
{
    return wire_mem_alloc(mem, n);
}

static void mem_free(void *mem, void *p)
{
    (void)mem; /* wire_mem_reset frees all at once */
    (void)p;
}

static enum status check_unknown(const ProtobufCMessage *msg, const char *path)
{
    const ProtobufCMessageDescriptor *d = msg->descriptor;
    if (msg->n_unknown_fields)
        FAIL(ST_UNSUPPORTED, "unknown field %s%sfield number %u of %s", path, *path ? "." : "",
             msg->unknown_fields[0].tag, d->short_name);
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const char *base = (const char *)msg;
        char inner[256];

        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", f->name);
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n;
            ProtobufCMessage *const *all;
            memcpy(&n, base + f->quantifier_offset, sizeof n);
            memcpy(&all, base + f->offset, sizeof all);
            for (size_t k = 0; k < n; k++)
                TRY(check_unknown(all[k], inner));
        } else {
            const ProtobufCMessage *one;
            memcpy(&one, base + f->offset, sizeof one);
            if (one)
                TRY(check_unknown(one, inner));
        }
    }
    return ST_OK;
}

enum status pb_unpack(ProtobufCMessage **out, const ProtobufCMessageDescriptor *desc,
                      const uint8_t *body, size_t n, struct wire_mem *mem)
{
    ProtobufCAllocator a = {mem_alloc, mem_free, mem};
    ProtobufCMessage *msg = protobuf_c_message_unpack(desc, &a, n, body);
    *out = NULL;
    if (!msg && mem->exhausted)
        FAIL(ST_NOMEM, "a %s of %zu bytes needs more than %zu bytes of memory", desc->short_name, n,
             mem->cap);
    if (!msg)
        FAIL(ST_FORMAT, "%zu bytes are not a %s message", n, desc->short_name);
    *out = msg;
    return check_unknown(msg, "");
}

enum status pb_pack(struct wire_bytes *out, uint16_t type, const ProtobufCMessage *msg,
                    struct wire_mem *mem)
{
    size_t n = protobuf_c_message_get_packed_size(msg);
    uint8_t *p = wire_mem_alloc(mem, FRAME_HEADER + n);
    if (!p)
        FAIL(ST_NOMEM, "a %s of %zu bytes does not fit the message memory of %zu bytes",
             msg->descriptor->short_name, n, mem->cap);
    frame_header(p, type);
    protobuf_c_message_pack(msg, p + FRAME_HEADER);
    out->data = p;
    out->n = FRAME_HEADER + n;
    return ST_OK;
}

const char *pb_string(const char *s)
{
    return s ? s : "";
}

ProtobufCBinaryData pb_digest(const uint8_t digest[SHA256_BYTES])
{
    return (ProtobufCBinaryData){SHA256_BYTES, (uint8_t *)(uintptr_t)digest};
}

enum status pb_get_digest(uint8_t out[SHA256_BYTES], bool *has, protobuf_c_boolean is_set,
                          ProtobufCBinaryData b, const char *field)
{
    *has = is_set;
    if (!is_set)
        return ST_OK;
    if (b.len != SHA256_BYTES)
        FAIL(ST_FORMAT, "%s has %zu bytes, a digest has %d", field, b.len, SHA256_BYTES);
    memcpy(out, b.data, SHA256_BYTES);
    return ST_OK;
}
