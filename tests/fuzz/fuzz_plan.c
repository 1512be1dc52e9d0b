/* Step plans as a rank takes them: bytes -> worker_msg_decode -> step_apply and the penalties.  The
 * input is a row of messages, each behind its length in two bytes, so that state builds up; frame
 * headers and types are put in front.  What is accepted must keep to the arrays' bounds
 * (sanitizers, asserts). */
#include <stdint.h>
#include <stdlib.h>

#include "common/wire/worker_msg.h"
#include "worker/sample/edits.h"

enum { VOCAB = 40, SEQS = 3, MAX = 4096 };

struct rig {
    struct backend *be;
    struct step *step;
    struct edits *edits;
    struct buf *logits;
    struct wire_mem mem;
};

static void set_up(struct rig *r)
{
    struct backend_config bc = {.threads = 1, .isa = "plain"};
    struct step_config sc = {.max_tokens = 16,
                             .max_seqs = SEQS,
                             .max_open = SEQS,
                             .max_ctx = 30,
                             .n_blocks = 12,
                             .block_len = 4,
                             .vocab = VOCAB,
                             .max_edits = 32};
    struct edits_config ec = {.max_open = SEQS,
                              .max_ctx = 30,
                              .vocab = VOCAB,
                              .max_seqs = SEQS,
                              .max_edits = 32,
                              .part = {.first_id = 10, .n_cols = 20, .n_slices = 1}};
    if (backend_open(&r->be, "cpu", &bc) != ST_OK || step_create(&r->step, &sc, r->be) != ST_OK ||
        edits_create(&r->edits, &ec, r->be) != ST_OK || wire_mem_init(&r->mem, 1 << 22) != ST_OK ||
        backend_ops_of(r->be)->alloc(r->be, SEQS * 20 * sizeof(float), MEM_DEVICE, &r->logits) !=
            ST_OK)
        abort();
}

static void one_message(struct rig *r, uint8_t *bytes, size_t n)
{
    struct worker_msg m;
    struct step_dev dev;
    wire_mem_reset(&r->mem);
    frame_header(bytes, WMSG_STEP_PLAN);
    if (worker_msg_decode(&m, bytes, n, &r->mem) != ST_OK)
        return;
    if (step_apply(r->step, &m.u.plan, &dev) != ST_OK)
        return;
    edits_note(r->edits, r->step, &m.u.plan);
    edits_place(r->edits, r->step);
    if (step_upload(r->step) != ST_OK)
        abort();
    struct view logits = {
        .buf = r->logits, .rows = step_n_out(r->step), .cols = 20, .stride = 20, .dtype = DT_F32};
    if (edits_apply(r->edits, r->step, logits) != ST_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rig r;
    static uint8_t bytes[FRAME_HEADER + MAX];
    if (!r.be)
        set_up(&r);
    step_reset(r.step);
    while (size >= 2) {
        size_t n = (size_t)data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (n > size)
            n = size;
        if (n > MAX)
            return 0;
        for (size_t i = 0; i < n; i++)
            bytes[FRAME_HEADER + i] = data[i];
        one_message(&r, bytes, FRAME_HEADER + n);
        data += n;
        size -= n;
    }
    return 0;
}
