#include "common/wire/pb.h"

#include <stdio.h>
#include <string.h>

#include "common/wire/pb_scan.h"

static void *mem_alloc(void *mem, size_t n)
{
    return wire_mem_alloc(mem, n);
}

static void mem_free(void *mem, void *p)
{
    (void)mem; /* wire_mem_reset frees all at once */
    (void)p;
}

enum { MAX_PATH = 256 };

/* The first message in msg with a field of unknown number; path [MAX_PATH] is that field's, its
 * number for its name.  NULL: there is none. */
static const ProtobufCMessage *find_unknown(const ProtobufCMessage *msg, char *path)
{
    const ProtobufCMessageDescriptor *d = msg->descriptor;
    size_t n_path = strlen(path);
    if (msg->n_unknown_fields) {
        snprintf(path + n_path, MAX_PATH - n_path, "%u", msg->unknown_fields[0].tag);
        return msg;
    }
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const ProtobufCMessage *one = NULL, *const *all = &one, *found;
        const char *base = (const char *)msg;
        size_t n = 1;

        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            memcpy(&n, base + f->quantifier_offset, sizeof n);
            memcpy(&all, base + f->offset, sizeof all);
        } else {
            memcpy(&one, base + f->offset, sizeof one);
        }
        for (size_t k = 0; k < n; k++) {
            snprintf(path + n_path, MAX_PATH - n_path, "%s.", f->name);
            if (all[k] && (found = find_unknown(all[k], path)))
                return found;
        }
        path[n_path] = '\0';
    }
    return NULL;
}

/* Whether a string in the message holds NUL, where C would end it; path [MAX_PATH] is that field's.
 * The nesting is that of desc: no message of the protocol contains itself. */
static bool find_nul(const ProtobufCMessageDescriptor *desc, struct wire_bytes body, char *path)
{
    struct pb_scan s = {body.data, body.n};
    size_t n_path = strlen(path);
    while (s.n) {
        const ProtobufCFieldDescriptor *f;
        struct pb_field at;
        if (pb_scan_field(&s, &at) != ST_OK)
            return false; /* groups: unknown fields, which are refused */
        const struct wire_bytes value = at.value;
        f = at.number <= UINT32_MAX
                ? protobuf_c_message_descriptor_get_field(desc, (unsigned)at.number)
                : NULL;
        if (!f || !value.data)
            continue;
        snprintf(path + n_path, MAX_PATH - n_path, "%s", f->name);
        if (f->type == PROTOBUF_C_TYPE_STRING && memchr(value.data, 0, value.n))
            return true;
        if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
            snprintf(path + n_path, MAX_PATH - n_path, "%s.", f->name);
            if (find_nul(f->descriptor, value, path))
                return true;
        }
    }
    path[n_path] = '\0';
    return false;
}

enum status pb_unpack(ProtobufCMessage **out, const ProtobufCMessageDescriptor *desc,
                      const uint8_t *body, size_t n, struct wire_mem *mem, const char **field)
{
    ProtobufCAllocator a = {mem_alloc, mem_free, mem};
    ProtobufCMessage *msg = protobuf_c_message_unpack(desc, &a, n, body);
    char *path = wire_mem_alloc(mem, MAX_PATH);
    *out = NULL;
    if (mem->exhausted || !path)
        FAIL(ST_NOMEM, "a %s of %zu bytes needs more than %zu bytes of memory", desc->short_name, n,
             mem->cap);
    if (!msg)
        FAIL(ST_FORMAT, "%zu bytes are not a %s message", n, desc->short_name);
    *out = msg;
    path[0] = '\0';
    *field = path;
    const ProtobufCMessage *in = find_unknown(msg, path);
    if (in)
        FAIL(ST_UNSUPPORTED, "unknown field %s: field number %u of %s", path,
             in->unknown_fields[0].tag, in->descriptor->short_name);
    if (find_nul(desc, (struct wire_bytes){body, n}, path))
        FAIL(ST_FORMAT, "%s is a string with NUL in it", path);
    return ST_OK;
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

enum status pb_check_ranks(uint32_t *n, const size_t n_column[4])
{
    for (int i = 0; i < 4; i++)
        if (n_column[i] != n_column[0] || n_column[0] > MAX_GROUP_RANKS)
            FAIL(ST_FORMAT, "figures of ranks: columns of %zu and %zu entries, at most %d",
                 n_column[0], n_column[i], (int)MAX_GROUP_RANKS);
    *n = (uint32_t)n_column[0];
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
