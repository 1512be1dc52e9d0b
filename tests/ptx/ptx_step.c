/* Control flow, and the instructions at which lanes, warps and kernels wait for each other (manual,
 * 9.7.12 and 9.7.13).
 *
 * The lanes of a warp that are at one instruction are a split.  A branch may divide it; splits that
 * come to the same instruction join again; the one that is furthest behind in the text goes first, so
 * that code laid out by a compiler reconverges where its branches meet.  An instruction that needs
 * more lanes than its split has waits for them. */
#include <stdio.h>

#include "ptx/ptx_block.h"

static const char *opcode_of(const struct ptx_warp *w, const struct ptx_instr *in)
{
    return w->block->grid->launch.module->names + in->text;
}

enum status ptx_check_poison(const struct ptx_warp *w, int32_t reg, uint32_t mask, const char *what)
{
    uint32_t bad = ptx_poison(w, reg) & mask;
    if (bad)
        FAIL(ST_BUG, "%s of thread %d depends on data that was never written", what,
             ptx_thread(w, __builtin_ctz(bad)));
    return ST_OK;
}

static void unblock(struct ptx_warp *w)
{
    for (int32_t i = 0; i < w->n_splits; i++)
        w->split[i].blocked = false;
}

/* Joins split s with those at the same instruction; s keeps its place. */
static void join(struct ptx_warp *w, struct ptx_split *s)
{
    for (int32_t i = 0; i < w->n_splits; i++) {
        struct ptx_split *o = &w->split[i];
        if (o == s || o->pc != s->pc)
            continue;
        s->mask |= o->mask;
        s->blocked = false;
        *o = w->split[--w->n_splits];
        if (s == &w->split[w->n_splits]) /* it has moved into the hole */
            s = o;
        i = -1;
    }
}

static struct ptx_split *choose(struct ptx_warp *w)
{
    struct ptx_split *best = NULL;
    for (int32_t i = 0; i < w->n_splits; i++) {
        struct ptx_split *s = &w->split[i];
        if (!s->blocked && (!best || s->pc < best->pc))
            best = s;
    }
    return best;
}

static enum status no_split_left(const struct ptx_warp *w)
{
    const struct ptx_split *s = &w->split[0];
    const struct ptx_instr *in = &w->block->entry->instr[s->pc];
    FAIL(ST_BUG, "line %d: %s is reached by lanes %#x of a warp whose lanes %#x have not ended",
         in->line, opcode_of(w, in), s->mask, w->live);
}

static enum status guarded(const struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask,
                           uint32_t *out)
{
    *out = mask;
    if (in->guard < 0)
        return ST_OK;
    TRY(ptx_check_poison(w, in->guard, mask, "a branch or guard"));
    uint32_t p = ptx_predicate(w, in->guard);
    *out = mask & (in->guard_not ? ~p : p);
    return ST_OK;
}

static void branch(struct ptx_warp *w, struct ptx_split *s, int32_t target, uint32_t taken)
{
    if (taken == s->mask) {
        s->pc = target;
    } else if (taken) {
        w->split[w->n_splits++] = (struct ptx_split){.pc = target, .mask = taken};
        s->mask &= ~taken;
        s->pc++;
    } else {
        s->pc++;
    }
}

static void end_lanes(struct ptx_warp *w, struct ptx_split *s, uint32_t mask)
{
    w->live &= ~mask;
    s->mask &= ~mask;
    s->pc++;
    if (s->mask == 0)
        *s = w->split[--w->n_splits];
    unblock(w);
    if (w->live == 0)
        w->state = PTX_ENDED;
}

/* The lanes that must be at the instruction together; 0: any. */
static enum status needed(const struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask,
                          uint32_t *out)
{
    *out = 0;
    switch (in->op) {
    case PTX_BAR_SYNC:
    case PTX_LDMATRIX:
    case PTX_MMA:
    case PTX_MMA_INT:
        *out = w->live;
        return ST_OK;
    case PTX_SHFL_IDX:
    case PTX_SHFL_UP:
    case PTX_SHFL_DOWN:
    case PTX_SHFL_BFLY:
    case PTX_BALLOT:
    case PTX_BAR_WARP: {
        int32_t reg = in->operand[in->n_operands - 1].reg[0];
        const uint64_t *v = ptx_lanes(w, reg);
        TRY(ptx_check_poison(w, reg, mask, "a member mask"));
        uint32_t members = (uint32_t)v[__builtin_ctz(mask)];
        for (int lane = 0; lane < PTX_LANES; lane++)
            if (mask >> lane & 1 && (uint32_t)v[lane] != members)
                FAIL(ST_BUG, "lanes with different member masks");
        if (mask & ~members)
            FAIL(ST_BUG, "lanes %#x are not of their member mask %#x", mask & ~members, members);
        *out = members & w->live;
        return ST_OK;
    }
    default:
        return ST_OK;
    }
}

/* 9.7.9.6: c holds the greatest lane (bits 0-4) and the mask of the segment (8-12). */
static void shuffle(struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask)
{
    const struct ptx_operand *d = &in->operand[0];
    const uint64_t *a = ptx_lanes(w, in->operand[1].reg[0]),
                   *b = ptx_lanes(w, in->operand[2].reg[0]),
                   *c = ptx_lanes(w, in->operand[3].reg[0]);
    uint32_t poison_a = ptx_poison(w, in->operand[1].reg[0]), poison = 0, valid = 0;
    uint32_t others = ptx_poison(w, in->operand[2].reg[0]) | ptx_poison(w, in->operand[3].reg[0]);
    uint64_t out[PTX_LANES];
    for (int lane = 0; lane < PTX_LANES; lane++) {
        int by = (int)(b[lane] & 31), segment = (int)(c[lane] >> 8 & 31),
            clamp = (int)(c[lane] & 31);
        int greatest = (lane & segment) | (clamp & ~segment), least = lane & segment, from = lane;
        bool in_range = false;
        switch (in->op) {
        case PTX_SHFL_UP:
            from = lane - by;
            in_range = from >= greatest;
            break;
        case PTX_SHFL_DOWN:
            from = lane + by;
            in_range = from <= greatest;
            break;
        case PTX_SHFL_BFLY:
            from = lane ^ by;
            in_range = from <= greatest;
            break;
        default:
            from = least | (by & ~segment);
            in_range = from <= greatest;
        }
        from = in_range ? from : lane;
        out[lane] = (uint32_t)a[from];
        valid |= (uint32_t)in_range << lane;
        /* the value of a lane that does not take part is undefined */
        if (!(mask >> from & 1) || poison_a >> from & 1 || others >> lane & 1)
            poison |= 1U << lane;
    }
    for (int lane = 0; lane < PTX_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        w->reg[d->reg[0]][lane] = out[lane];
        if (d->kind == PTX_PAIR)
            w->reg[d->reg[1]][lane] = valid >> lane & 1;
    }
    ptx_set_poison(w, d->reg[0], mask, poison);
    if (d->kind == PTX_PAIR)
        ptx_set_poison(w, d->reg[1], mask, others);
}

static enum status ballot(struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask)
{
    int32_t d = in->operand[0].reg[0];
    TRY(ptx_check_poison(w, in->operand[1].reg[0], mask, "a vote"));
    uint32_t votes = ptx_predicate(w, in->operand[1].reg[0]) & mask;
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (mask >> lane & 1)
            w->reg[d][lane] = votes;
    ptx_set_poison(w, d, mask, 0);
    return ST_OK;
}

static enum status arrive(struct ptx_warp *w, const struct ptx_instr *in)
{
    uint64_t which = ptx_lanes(w, in->operand[0].reg[0])[0];
    if (which != 0)
        FAIL(ST_UNSUPPORTED, "bar.sync of barrier %llu; barrier 0 is known",
             (unsigned long long)which);
    w->state = PTX_AT_BARRIER;
    return ST_OK;
}

static void read_timer(struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask)
{
    int32_t d = in->operand[0].reg[0];
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (mask >> lane & 1)
            w->reg[d][lane] = ptx_clock_ns(w->block->machine);
    ptx_set_poison(w, d, mask, 0);
}

/* For all that is neither a branch nor an end. */
static enum status execute(struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask)
{
    if (in->op < PTX_LD) {
        if (in->op == PTX_MOV && in->operand[1].reg[0] == PTX_GLOBALTIMER)
            read_timer(w, in, mask);
        else
            ptx_alu(w, in, mask);
        return ST_OK;
    }
    switch (in->op) {
    case PTX_MMA:
        ptx_mma(w, in);
        return ST_OK;
    case PTX_MMA_INT:
        ptx_mma_int(w, in);
        return ST_OK;
    case PTX_SHFL_IDX:
    case PTX_SHFL_UP:
    case PTX_SHFL_DOWN:
    case PTX_SHFL_BFLY:
        shuffle(w, in, mask);
        return ST_OK;
    case PTX_BALLOT:
        return ballot(w, in, mask);
    case PTX_BAR_SYNC:
        return arrive(w, in);
    case PTX_BAR_WARP:
        w->barriers++;
        w->time = 0;
        return ST_OK;
    case PTX_MEMBAR:
    case PTX_NANOSLEEP:
        return ST_OK;
    case PTX_GRID_WAIT:
        w->waited |= mask;
        return ST_OK;
    case PTX_GRID_LAUNCH:
        ptx_block_release(w->block);
        return ST_OK;
    default:
        return ptx_access(w, in, mask);
    }
}

/* One instruction of split s. */
static enum status step(struct ptx_warp *w, struct ptx_split *s, const struct ptx_instr *in)
{
    uint32_t mask, need;
    TRY(guarded(w, in, s->mask, &mask));
    if (in->op == PTX_BRA) {
        branch(w, s, (int32_t)in->operand[0].offset, mask);
    } else if (in->op == PTX_RET) {
        if (mask)
            end_lanes(w, s, mask);
        else
            s->pc++;
        if (w->state == PTX_ENDED)
            return ST_OK;
    } else if (mask == 0) {
        s->pc++;
    } else {
        TRY(needed(w, in, mask, &need));
        if (need & ~mask) {
            s->blocked = true;
            return ST_OK;
        }
        if (in->op == PTX_GRID_WAIT && !ptx_predecessor_ended(w->block)) {
            w->state = PTX_AT_GRID_WAIT;
            return ST_OK;
        }
        TRY(execute(w, in, mask));
        s->pc++;
    }
    return ST_OK;
}

static enum status explain(const struct ptx_warp *w, const struct ptx_instr *in, enum status st)
{
    char detail[512];
    const struct ptx_block *b = w->block;
    snprintf(detail, sizeof detail, "%s", status_text());
    FAIL(st, "%s line %d, %s, block %u %u %u, warp %d: %s", b->entry->name, in->line,
         opcode_of(w, in), b->id[0], b->id[1], b->id[2], w->index, detail);
}

enum status ptx_warp_run(struct ptx_warp *w, int32_t quantum)
{
    const struct ptx_entry *e = w->block->entry;
    while (quantum-- > 0 && w->state == PTX_RUNS) {
        struct ptx_split *s = w->n_splits == 1 && !w->split[0].blocked ? w->split : choose(w);
        if (!s)
            return explain(w, &e->instr[w->split[0].pc], no_split_left(w));
        const struct ptx_instr *in = &e->instr[s->pc];
        enum status st = step(w, s, in);
        if (st != ST_OK)
            return explain(w, in, st);
        for (int32_t i = 0; w->n_splits > 1 && i < w->n_splits; i++)
            join(w, &w->split[i]);
    }
    return ST_OK;
}
