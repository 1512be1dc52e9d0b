/* Bytes -> a journal file -> a replay.  The checks of the records are made right first, so that
 * what lies behind them is reached; every eighth input goes in as it is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/journal/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void make_checks_right(unsigned char *data, size_t n)
{
    size_t at = 8;
    uint64_t chain = CHAIN_START;
    while (at < n && n - at >= RECORD_HEAD) {
        struct byte_reader r = {.data = data + at, .left = n - at};
        uint32_t type = get_u32(&r), len = get_u32(&r);
        if (len > n - at - RECORD_HEAD)
            return;
        struct byte_writer check = {.data = data + at + 8, .cap = 8};
        put_u64(&check, record_seal(&chain, type, data + at + RECORD_HEAD, len));
        at += RECORD_HEAD + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct replay *p;
    struct replay_event ev = {.kind = REPLAY_SUBMIT};
    unsigned char *copy = malloc(n + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, n);
    if (n >= 8 && data[n - 1] % 8) {
        memcpy(copy, JOURNAL_MAGIC, 8);
        make_checks_right(copy, n);
    }
    enum status st = replay_open(&p, copy, n, 16 << 20);
    while (st == ST_OK && ev.kind != REPLAY_DONE)
        st = replay_next(p, &ev);
    replay_close(p);
    free(copy);
    return 0;
}
