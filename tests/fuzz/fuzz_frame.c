/* Any bytes as a message of a client, of the coordinator and of a worker: decoded or refused; what
 * was decoded can be encoded again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/client_msg.h"
#include "common/wire/worker_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wire_mem in, out;
    struct client_msg c;
    struct worker_msg w;
    struct wire_bytes bytes;
    struct request_head head;
    const char *id, *field, *head_field;

    if (!in.base && (wire_mem_init(&in, 1 << 22) != ST_OK || wire_mem_init(&out, 1 << 22) != ST_OK))
        abort();
    wire_mem_reset(&in);
    wire_mem_reset(&out);
    if (client_msg_decode_request(&c, data, size, &in, &id, &field) == ST_OK) {
        if (client_msg_head(&head, data, size, &head_field) == ST_OK && strcmp(head.id, id) != 0)
            abort();
        if (client_msg_encode_request(&bytes, &c, &out) != ST_OK)
            abort();
    }
    wire_mem_reset(&in);
    wire_mem_reset(&out);
    if (client_msg_decode_reply(&c, data, size, &in) == ST_OK &&
        client_msg_encode_reply(&bytes, &c, &out) != ST_OK)
        abort();
    wire_mem_reset(&in);
    wire_mem_reset(&out);
    if (worker_msg_decode(&w, data, size, &in) == ST_OK &&
        worker_msg_encode(&bytes, &w, &out) != ST_OK)
        abort();
    return 0;
}
