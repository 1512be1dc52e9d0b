/* Instructions that access memory (manual, 9.7.9.8 and following; 9.7.15.5.15, ldmatrix). */
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx_block.h"
#include "ptx/ptx_result.h"

/* Bytes of one lane's access. */
struct place {
    uint8_t *data, *state;  /* state NULL: all are defined */
    struct ptx_mark *marks; /* NULL: private memory */
    bool shared;
};

/* n <= 16 */
static bool all_defined(const uint8_t *state, size_t n)
{
#define FOUR PTX_DEFINED, PTX_DEFINED, PTX_DEFINED, PTX_DEFINED
    static const uint8_t defined[16] = {FOUR, FOUR, FOUR, FOUR};
#undef FOUR
    return memcmp(state, defined, n) == 0;
}

static enum status in_window(uint64_t at, size_t n, uint64_t bytes, const char *space)
{
    if (at > bytes || n > bytes - at)
        FAIL(ST_RANGE, "%zu bytes at %llu of %s memory, which has %llu", n, (unsigned long long)at,
             space, (unsigned long long)bytes);
    return ST_OK;
}

static enum status place_global(struct ptx_block *b, uint64_t at, size_t n, struct place *out)
{
    struct ptx_region *r = ptx_memory_find(ptx_machine_memory(b->machine), at, n);
    if (!r)
        FAIL(ST_RANGE, "%zu bytes at %#llx are in no allocation", n, (unsigned long long)at);
    size_t offset = (size_t)(at - (uint64_t)(uintptr_t)r->at);
    *out = (struct place){.data = r->at + offset,
                          .state = r->state ? r->state + offset : NULL,
                          .marks = ptx_marks_at(r->marks, offset)};
    if (!out->marks)
        FAIL(ST_NOMEM, "no memory for the marks of accesses");
    return ST_OK;
}

static enum status place_shared(struct ptx_block *b, uint64_t at, size_t n, struct place *out)
{
    TRY(in_window(at, n, b->shared_bytes, "shared"));
    *out = (struct place){b->shared + at, b->shared_state + at,
                          ptx_marks_at(b->shared_marks, (size_t)at), true};
    if (!out->marks)
        FAIL(ST_NOMEM, "no memory for the marks of accesses");
    if (all_defined(out->state, n))
        return ST_OK;
    for (size_t i = 0; i < n; i++) {
        if (out->state[i] == PTX_OUTSIDE)
            FAIL(ST_RANGE, "shared memory at %llu belongs to no variable",
                 (unsigned long long)at + i);
        if (out->state[i] == PTX_PENDING)
            FAIL(ST_BUG, "shared memory at %llu, which a cp.async is writing",
                 (unsigned long long)at + i);
    }
    return ST_OK;
}

static enum status place_local(const struct ptx_warp *w, int lane, uint64_t at, size_t n,
                               struct place *out)
{
    size_t bytes = w->block->entry->local_bytes;
    size_t from = (size_t)ptx_thread(w, lane) * bytes;
    TRY(in_window(at, n, bytes, "local"));
    *out = (struct place){.data = w->block->local + from + at,
                          .state = w->block->local_state + from + at};
    return ST_OK;
}

/* n bytes at `at` of a space, n a power of two. */
static enum status find_place(struct ptx_warp *w, int lane, enum ptx_space space, uint64_t at,
                              size_t n, struct place *out)
{
    struct ptx_block *b = w->block;
    if (space == PTX_GENERIC) {
        space = at >= PTX_LOCAL_WINDOW    ? PTX_LOCAL
                : at >= PTX_SHARED_WINDOW ? PTX_SHARED
                                          : PTX_GLOBAL;
        at -= space == PTX_LOCAL ? PTX_LOCAL_WINDOW : space == PTX_SHARED ? PTX_SHARED_WINDOW : 0;
    }
    if (at % n)
        FAIL(ST_RANGE, "%zu bytes at %#llx are not aligned", n, (unsigned long long)at);
    switch (space) {
    case PTX_PARAM:
        TRY(in_window(at, n, b->entry->param_bytes, "parameter"));
        *out = (struct place){.data = (uint8_t *)b->grid->launch.params + at};
        return ST_OK;
    case PTX_SHARED:
        return place_shared(b, at, n, out);
    case PTX_LOCAL:
        return place_local(w, lane, at, n, out);
    default:
        return place_global(b, at, n, out);
    }
}

static uint64_t address(const struct ptx_warp *w, const struct ptx_operand *o, int lane)
{
    uint64_t at = ptx_lanes(w, o->reg[0])[lane];
    return at + (uint64_t)o->offset;
}

/* Shared and parameter addresses may be 32 bits wide. */
static uint64_t narrow(uint64_t at, enum ptx_space space)
{
    return space == PTX_SHARED || space == PTX_PARAM ? (uint32_t)at : at;
}

static enum status note(struct ptx_warp *w, int lane, const struct place *p, size_t n, bool writes,
                        bool strong)
{
    struct ptx_block *b = w->block;
    const struct ptx_grid *g = b->grid;
    if (!p->marks)
        return ST_OK;
    if (!w->time)
        TRY(ptx_new_time(w));
    bool late = !g->launch.dependent || w->waited >> lane & 1;
    struct ptx_horizon h = {.times = ptx_machine_times(b->machine),
                            .clock = &b->clock,
                            .own = late ? g->number : g->before,
                            .of_block = p->shared};
    return ptx_race_note(p->marks, n, w->time, (uint8_t)(lane | (strong ? PTX_STRONG : 0)), &h,
                         writes);
}

/* Is a byte of n undefined? */
static bool any_undefined(const uint8_t *state, size_t n)
{
    return state && !all_defined(state, n) && memchr(state, PTX_UNDEFINED, n);
}

static enum status load_lane(struct ptx_warp *w, const struct ptx_instr *in, int lane)
{
    const struct ptx_operand *d = &in->operand[0];
    size_t size = ptx_type_bytes(in->type[0]), n = size * (size_t)in->vector;
    uint64_t at = narrow(address(w, &in->operand[1], lane), in->space);
    struct place p;
    TRY(find_place(w, lane, in->space, at, n, &p));
    TRY(note(w, lane, &p, n, false, in->order != PTX_WEAK));
    for (int32_t i = 0; i < in->vector; i++) {
        uint64_t v = 0;
        memcpy(&v, p.data + (size_t)i * size, size);
        w->reg[d->reg[i]][lane] = ptx_extend(v, in->type[0]);
        bool bad = any_undefined(p.state ? p.state + (size_t)i * size : NULL, size);
        ptx_set_poison(w, d->reg[i], 1U << lane, bad ? 1U << lane : 0);
    }
    return in->order == PTX_ACQUIRE ? ptx_acquired(w, lane, at) : ST_OK;
}

static enum status store_lane(struct ptx_warp *w, const struct ptx_instr *in, int lane)
{
    const struct ptx_operand *s = &in->operand[1];
    size_t size = ptx_type_bytes(in->type[0]), n = size * (size_t)in->vector;
    uint64_t at = narrow(address(w, &in->operand[0], lane), in->space);
    struct place p;
    TRY(find_place(w, lane, in->space, at, n, &p));
    TRY(note(w, lane, &p, n, true, in->order != PTX_WEAK));
    for (int32_t i = 0; i < in->vector; i++) {
        memcpy(p.data + (size_t)i * size, &ptx_lanes(w, s->reg[i])[lane], size);
        bool bad = ptx_poison(w, s->reg[i]) >> lane & 1;
        if (p.state)
            memset(p.state + (size_t)i * size, bad ? PTX_UNDEFINED : PTX_DEFINED, size);
    }
    return in->order == PTX_RELEASE ? ptx_released(w, at) : ST_OK;
}

static enum status add_lane(struct ptx_warp *w, const struct ptx_instr *in, int lane)
{
    size_t n = ptx_type_bytes(in->type[0]);
    uint64_t at = narrow(address(w, &in->operand[1], lane), in->space), old = 0, sum;
    int32_t d = in->operand[0].reg[0], s = in->operand[2].reg[0];
    struct place p;
    TRY(find_place(w, lane, in->space, at, n, &p));
    TRY(note(w, lane, &p, n, true, true));
    memcpy(&old, p.data, n);
    sum = old + ptx_lanes(w, s)[lane];
    memcpy(p.data, &sum, n);
    bool bad = any_undefined(p.state, n) || (ptx_poison(w, s) >> lane & 1);
    if (p.state)
        memset(p.state, bad ? PTX_UNDEFINED : PTX_DEFINED, n);
    w->reg[d][lane] = old;
    ptx_set_poison(w, d, 1U << lane, bad ? 1U << lane : 0);
    return ST_OK;
}

static enum status room_for_copy(struct ptx_warp *w)
{
    if (w->n_copies < w->max_copies)
        return ST_OK;
    int32_t more = w->max_copies ? 2 * w->max_copies : 64;
    struct ptx_copy *c = realloc(w->copy, (size_t)more * sizeof *c);
    if (!c)
        FAIL(ST_NOMEM, "no memory for copies under way");
    w->copy = c;
    w->max_copies = more;
    return ST_OK;
}

/* cp.async.cg.shared.global [dst], [src], 16, src-size: bytes from src-size on are zero; with
 * src-size 0 nothing is read. */
static enum status copy_lane(struct ptx_warp *w, const struct ptx_instr *in, int lane)
{
    uint64_t size = ptx_lanes(w, in->operand[2].reg[0])[lane];
    uint64_t n = in->n_operands > 3 ? (uint32_t)ptx_lanes(w, in->operand[3].reg[0])[lane] : size;
    uint64_t to = narrow(address(w, &in->operand[0], lane), PTX_SHARED);
    uint64_t from = address(w, &in->operand[1], lane);
    struct place dst, src;
    if (size != 16)
        FAIL(ST_UNSUPPORTED, "cp.async.cg of %llu bytes; it copies 16", (unsigned long long)size);
    if (n > size)
        FAIL(ST_RANGE, "cp.async of %llu of 16 bytes", (unsigned long long)n);
    if (from % 16)
        FAIL(ST_RANGE, "16 bytes at %#llx are not aligned", (unsigned long long)from);
    TRY(find_place(w, lane, PTX_SHARED, to, 16, &dst));
    TRY(note(w, lane, &dst, 16, true, false));
    TRY(room_for_copy(w));
    struct ptx_copy *c = &w->copy[w->n_copies++];
    *c = (struct ptx_copy){.lane = (uint32_t)lane, .group = w->group[lane], .to = (size_t)to};
    memset(c->state, PTX_DEFINED, sizeof c->state);
    if (n > 0) {
        TRY(place_global(w->block, from, (size_t)n, &src));
        TRY(note(w, lane, &src, (size_t)n, false, false));
        memcpy(c->data, src.data, (size_t)n);
        if (src.state)
            memcpy(c->state, src.state, (size_t)n);
    }
    memset(dst.state, PTX_PENDING, 16);
    return ST_OK;
}

/* The lane's groups but the newest `keep` are complete: what they copy is there. */
static enum status wait_lane(struct ptx_warp *w, int lane, uint32_t keep)
{
    struct ptx_block *b = w->block;
    int32_t left = 0;
    for (int32_t i = 0; i < w->n_copies; i++) {
        struct ptx_copy *c = &w->copy[i];
        if (c->lane != (uint32_t)lane || (int64_t)c->group >= (int64_t)w->group[lane] - keep) {
            w->copy[left++] = *c;
            continue;
        }
        struct place dst = {b->shared + c->to, b->shared_state + c->to,
                            ptx_marks_at(b->shared_marks, c->to), true};
        memcpy(dst.data, c->data, 16);
        memcpy(dst.state, c->state, 16);
        TRY(note(w, lane, &dst, 16, true, false));
    }
    w->n_copies = left;
    return ST_OK;
}

/* Row r of matrix j: 8 elements of 16 bits at the address of lane 8 j + r; register j of lane l
 * gets row l / 4, elements 2 (l % 4) and the next; .trans: of the transposed matrix. */
static enum status load_matrices(struct ptx_warp *w, const struct ptx_instr *in)
{
    uint16_t value[4][8][8];
    bool bad[4][8][8];
    for (int32_t j = 0; j < in->vector; j++) {
        for (int r = 0; r < 8; r++) {
            int lane = 8 * j + r;
            struct place p;
            uint64_t at = narrow(address(w, &in->operand[1], lane), PTX_SHARED);
            TRY(find_place(w, lane, PTX_SHARED, at, 16, &p));
            TRY(note(w, lane, &p, 16, false, false));
            memcpy(value[j][r], p.data, 16);
            bool clean = all_defined(p.state, 16);
            for (int i = 0; i < 8; i++)
                bad[j][r][i] = !clean && any_undefined(p.state + 2 * i, 2);
        }
    }
    for (int32_t j = 0; j < in->vector; j++) {
        int32_t d = in->operand[0].reg[j];
        uint32_t poison = 0;
        for (int lane = 0; lane < PTX_LANES; lane++) {
            uint32_t v = 0;
            for (int i = 0; i < 2; i++) {
                int row = lane / 4, col = 2 * (lane % 4) + i;
                int r = in->trans ? col : row, c = in->trans ? row : col;
                v |= (uint32_t)value[j][r][c] << (16 * i);
                poison |= (uint32_t)bad[j][r][c] << lane;
            }
            w->reg[d][lane] = v;
        }
        w->poison[d] = poison;
    }
    return ST_OK;
}

/* No address of a lane in mask may be poisoned. */
static enum status check_addresses(const struct ptx_warp *w, const struct ptx_instr *in,
                                   uint32_t mask)
{
    for (int32_t i = 0; i < in->n_operands; i++)
        if (in->operand[i].kind == PTX_ADDRESS)
            TRY(ptx_check_poison(w, in->operand[i].reg[0], mask, "an address"));
    if (in->op == PTX_CP_ASYNC && in->n_operands > 3)
        TRY(ptx_check_poison(w, in->operand[3].reg[0], mask, "a size"));
    return ST_OK;
}

enum status ptx_access(struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask)
{
    TRY(check_addresses(w, in, mask));
    if (in->op == PTX_LDMATRIX)
        return load_matrices(w, in);
    for (int lane = 0; lane < PTX_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        switch (in->op) {
        case PTX_LD:
            TRY(load_lane(w, in, lane));
            break;
        case PTX_ST:
            TRY(store_lane(w, in, lane));
            break;
        case PTX_ATOM_ADD:
            TRY(add_lane(w, in, lane));
            break;
        case PTX_CP_ASYNC:
            TRY(copy_lane(w, in, lane));
            break;
        case PTX_CP_COMMIT:
            w->group[lane]++;
            break;
        default:
            TRY(wait_lane(w, lane, (uint32_t)ptx_lanes(w, in->operand[0].reg[0])[lane]));
        }
    }
    return ST_OK;
}
