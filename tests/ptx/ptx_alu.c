/* Arithmetic, comparison, selection and conversion (manual, 9.7.1 to 9.7.9). */
#include <math.h>

#include "ptx/ptx_block.h"
#include "ptx/ptx_result.h"

/* ---- all lanes of an operation ---- */

/* Of each lane's operands a bit. */
struct order {
    uint32_t less, equal, unordered;
};

static INLINED struct order order_of(enum ptx_type t, const uint64_t *a, const uint64_t *b)
{
    struct order o = {0};
    for (int lane = 0; lane < PTX_LANES; lane++) {
        bool less, equal, unordered = false;
        if (t == PTX_F32 || t == PTX_F64) {
            double x = ptx_float_value(a[lane], t), y = ptx_float_value(b[lane], t);
            less = x < y, equal = x == y, unordered = isnan(x) || isnan(y);
        } else {
            less = ptx_is_less(a[lane], b[lane], t);
            equal = ptx_extend(a[lane], t) == ptx_extend(b[lane], t);
        }
        o.less |= (uint32_t)less << lane;
        o.equal |= (uint32_t)equal << lane;
        o.unordered |= (uint32_t)unordered << lane;
    }
    return o;
}

/* The lanes in which the comparison is true. */
static uint32_t holds(enum ptx_cmp cmp, struct order o)
{
    switch (cmp) {
    case PTX_EQ:
        return o.equal;
    case PTX_NE:
        return ~o.equal & ~o.unordered;
    case PTX_LT:
        return o.less;
    case PTX_LE:
        return o.less | o.equal;
    case PTX_GT:
        return ~o.less & ~o.equal & ~o.unordered;
    case PTX_GE:
        return ~o.less & ~o.unordered;
    case PTX_EQU:
        return o.equal | o.unordered;
    case PTX_NEU:
        return ~o.equal;
    case PTX_LTU:
        return o.less | o.unordered;
    case PTX_LEU:
        return o.less | o.equal | o.unordered;
    case PTX_GTU:
        return ~o.less & ~o.equal;
    case PTX_GEU:
        return ~o.less;
    case PTX_NUM:
        return ~o.unordered;
    default:
        return o.unordered;
    }
}

static void compare(const struct ptx_instr *in, const uint64_t *a, const uint64_t *b, uint64_t *out)
{
    struct order o;
    switch (in->type[0]) {
    case PTX_S32:
        o = order_of(PTX_S32, a, b);
        break;
    case PTX_U32:
    case PTX_B32:
        o = order_of(PTX_U32, a, b);
        break;
    case PTX_F32:
        o = order_of(PTX_F32, a, b);
        break;
    default:
        o = order_of(in->type[0], a, b);
    }
    uint32_t yes = holds(in->cmp, o);
    for (int lane = 0; lane < PTX_LANES; lane++)
        out[lane] = yes >> lane & 1;
}

static INLINED void all_lanes(struct ptx_kind k, const uint64_t *const src[4], uint64_t *out)
{
    for (int lane = 0; lane < PTX_LANES; lane++) {
        struct ptx_lane v = {src[0][lane], src[1][lane], src[2][lane], src[3][lane]};
        out[lane] = ptx_extend(ptx_result(k, v), ptx_result_type(k));
    }
}

/* The forms that kernels execute most; each has a loop of its own. */
#define FREQUENT(ROW)                                                                              \
    ROW(MOV, B32, NO_TYPE)                                                                         \
    ROW(MOV, U32, NO_TYPE)                                                                         \
    ROW(MOV, F32, NO_TYPE)                                                                         \
    ROW(MOV, U64, NO_TYPE)                                                                         \
    ROW(MOV, B64, NO_TYPE)                                                                         \
    ROW(MOV, PRED, NO_TYPE)                                                                        \
    ROW(ADD, S32, NO_TYPE)                                                                         \
    ROW(ADD, S64, NO_TYPE)                                                                         \
    ROW(ADD, F32, NO_TYPE)                                                                         \
    ROW(SUB, S32, NO_TYPE)                                                                         \
    ROW(SUB, S64, NO_TYPE)                                                                         \
    ROW(SUB, F32, NO_TYPE)                                                                         \
    ROW(MUL, F32, NO_TYPE)                                                                         \
    ROW(MUL_LO, S32, NO_TYPE)                                                                      \
    ROW(MUL_LO, S64, NO_TYPE)                                                                      \
    ROW(MUL_WIDE, S32, NO_TYPE)                                                                    \
    ROW(MUL_WIDE, U32, NO_TYPE)                                                                    \
    ROW(MUL_HI, S32, NO_TYPE)                                                                      \
    ROW(MUL_HI, U32, NO_TYPE)                                                                      \
    ROW(MAD_LO, S32, NO_TYPE)                                                                      \
    ROW(FMA, F32, NO_TYPE)                                                                         \
    ROW(MIN, S32, NO_TYPE)                                                                         \
    ROW(MAX, S32, NO_TYPE)                                                                         \
    ROW(MAX, F32, NO_TYPE)                                                                         \
    ROW(AND, B32, NO_TYPE)                                                                         \
    ROW(AND, B16, NO_TYPE)                                                                         \
    ROW(AND, PRED, NO_TYPE)                                                                        \
    ROW(OR, B32, NO_TYPE)                                                                          \
    ROW(OR, PRED, NO_TYPE)                                                                         \
    ROW(XOR, B32, NO_TYPE)                                                                         \
    ROW(SHL, B32, NO_TYPE)                                                                         \
    ROW(SHL, B64, NO_TYPE)                                                                         \
    ROW(SHR, U32, NO_TYPE)                                                                         \
    ROW(SHR, S32, NO_TYPE)                                                                         \
    ROW(SHR, U64, NO_TYPE)                                                                         \
    ROW(PRMT, B32, NO_TYPE)                                                                        \
    ROW(SELP, B32, NO_TYPE)                                                                        \
    ROW(SELP, F32, NO_TYPE)                                                                        \
    ROW(CVT, S64, S32)                                                                             \
    ROW(CVT, U64, U32)                                                                             \
    ROW(CVT, U32, U64)                                                                             \
    ROW(CVT, U16, U32)                                                                             \
    ROW(CVT, F32, S32)                                                                             \
    ROW(CVT, F32, F16)                                                                             \
    ROW(CVT, F64, F32)                                                                             \
    ROW(CVT_PACK, F16X2, F32)                                                                      \
    ROW(CVT_PACK, BF16X2, F32)                                                                     \
    ROW(ADD, F64, NO_TYPE)                                                                         \
    ROW(FMA, F64, NO_TYPE)

#define KEY(OP, TYPE, FROM) (((OP)*32 + (TYPE)) * 32 + (FROM))

static void compute(const struct ptx_instr *in, const uint64_t *const src[4], uint64_t *out)
{
    struct ptx_kind k = {in->op, in->type[0], in->type[1], in->space};
    switch (KEY((int)k.op, (int)k.type, (int)k.from)) {
#define ROW(OP, TYPE, FROM)                                                                        \
    case KEY(PTX_##OP, PTX_##TYPE, PTX_##FROM):                                                    \
        all_lanes((struct ptx_kind){PTX_##OP, PTX_##TYPE, PTX_##FROM, PTX_GENERIC}, src, out);     \
        break;
        FREQUENT(ROW)
#undef ROW
    default:
        all_lanes(k, src, out);
    }
}

/* mov with a vector on one side (9.7.9.2): element 0 is the least significant. */
static void move_vector(struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask)
{
    const struct ptx_operand *d = &in->operand[0], *s = &in->operand[1];
    int width = ptx_width_of(in->type[0]) / (d->kind == PTX_VECTOR ? d->n : s->n);
    uint64_t ones = (1ULL << width) - 1;
    uint32_t poison = 0;
    for (int32_t i = 0; i < s->n; i++)
        poison |= ptx_poison(w, s->reg[i]);
    for (int lane = 0; lane < PTX_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        uint64_t v = s->kind == PTX_REG ? ptx_lanes(w, s->reg[0])[lane] : 0;
        for (int32_t i = 0; s->kind == PTX_VECTOR && i < s->n; i++)
            v |= (ptx_lanes(w, s->reg[i])[lane] & ones) << (i * width);
        for (int32_t i = 0; i < d->n; i++)
            w->reg[d->reg[i]][lane] = d->kind == PTX_VECTOR ? v >> (i * width) & ones : v;
    }
    for (int32_t i = 0; i < d->n; i++)
        ptx_set_poison(w, d->reg[i], mask, poison);
}

/* Lanes whose predicate operand decides alone, whatever the poisoned other one is. */
static uint32_t decided(const struct ptx_warp *w, const struct ptx_instr *in, int other)
{
    uint32_t v = ptx_predicate(w, in->operand[other].reg[0]);
    return (in->op == PTX_OR ? v : ~v) & ~ptx_poison(w, in->operand[other].reg[0]);
}

static uint32_t result_poison(const struct ptx_warp *w, const struct ptx_instr *in)
{
    uint32_t p[PTX_MAX_OPERANDS] = {0}, all = 0;
    for (int32_t i = 1; i < in->n_operands; i++)
        all |= p[i] = ptx_poison(w, in->operand[i].reg[0]);
    if ((in->op == PTX_DIV || in->op == PTX_REM) && in->type[0] < PTX_F16) {
        const uint64_t *b = ptx_lanes(w, in->operand[2].reg[0]);
        for (int lane = 0; lane < PTX_LANES; lane++)
            all |= (uint32_t)(ptx_extend(b[lane], in->type[0]) == 0) << lane;
        return all;
    }
    if (all && in->op == PTX_SELP) {
        uint32_t first = ptx_predicate(w, in->operand[3].reg[0]);
        return p[3] | (first & p[1]) | (~first & p[2]);
    }
    if (all && in->type[0] == PTX_PRED && (in->op == PTX_AND || in->op == PTX_OR))
        return all & ~decided(w, in, 1) & ~decided(w, in, 2);
    return all;
}

void ptx_alu(struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask)
{
    if (in->op == PTX_MOV &&
        (in->operand[0].kind == PTX_VECTOR || in->operand[1].kind == PTX_VECTOR)) {
        move_vector(w, in, mask);
        return;
    }
    const uint64_t *src[4];
    uint64_t out[PTX_LANES];
    int32_t to = in->operand[0].reg[0];
    uint32_t poison = result_poison(w, in);
    for (int i = 0; i < 4; i++)
        src[i] = ptx_lanes(w, in->operand[i + 1 < in->n_operands ? i + 1 : 1].reg[0]);
    if (in->op == PTX_SETP)
        compare(in, src[0], src[1], out);
    else
        compute(in, src, out);
    ptx_set_lanes(w, to, mask, out);
    ptx_set_poison(w, to, mask, poison);
}
