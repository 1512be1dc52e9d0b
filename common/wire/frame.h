/* Framing and memory of every message on every socket.
 *
 * A frame is 12 bytes of header and one protobuf message:
 *   0  'I' 'N' 'G' 'T'
 *   4  major version (1 byte)   5  minor version (1 byte)
 *   6  message type, little endian 16 bit
 *   8  flags, little endian 32 bit, 0
 * A receiver refuses another major version, accepts any minor one, and refuses flags it does not
 * know. */
#ifndef COMMON_WIRE_FRAME_H
#define COMMON_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum { FRAME_HEADER = 12, WIRE_MAJOR = 1, WIRE_MINOR = 1 };

struct frame {
    uint16_t type;
    uint8_t minor;
    const uint8_t *body; /* borrowed */
    size_t n_body;       /* bytes */
};

struct wire_bytes {
    const uint8_t *data;
    size_t n; /* bytes */
};

/* Bump memory for decoding and encoding: address space of `cap` bytes is reserved at start, pages
 * are used as messages need them, nothing else is allocated.  Everything that a decode or encode
 * gives is valid until wire_mem_reset. */
struct wire_mem {
    uint8_t *base;
    size_t cap, used, peak;
    int exhausted; /* an allocation did not fit */
};

MUST_CHECK enum status wire_mem_init(struct wire_mem *m, size_t cap);
void wire_mem_fini(struct wire_mem *m);
void wire_mem_reset(struct wire_mem *m);
/* 16-byte aligned; NULL when it does not fit. */
void *wire_mem_alloc(struct wire_mem *m, size_t n);

/* ST_FORMAT: not an Ingot frame; ST_UNSUPPORTED: another major version or unknown flags. */
MUST_CHECK enum status frame_parse(struct frame *out, const void *data, size_t n);

/* Writes the header. */
void frame_header(uint8_t out[FRAME_HEADER], uint16_t type);

#endif
