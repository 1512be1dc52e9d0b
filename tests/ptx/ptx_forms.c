/* The table of known instructions.  Section names are those of the PTX ISA manual 9.0, chapter 9.7. */
#include <string.h>

#include "ptx/ptx_module.h"

/* modifiers: groups in the order of the text, separated by a space; alternatives by '/'; '?' before
 * an optional group.
 * operands: d register written, r register or constant read, m of mov (also a vector), v vector of
 * ld and st (or a register), 4, 2 and 1 vectors of that size, q register or d|p, a address, l label;
 * small letters after '?' may be absent. */
static const struct form {
    const char *mnemonic, *modifiers, *operands;
    enum ptx_op op;
} forms[] = {
#define INTS "s16/u16/s32/u32/s64/u64"
#define BITS "b16/b32/b64"
#define DATA "b8/u8/s8/b16/u16/s16/b32/u32/s32/f32/b64/u64/s64/f64"
    {"add", INTS, "drr", PTX_ADD},
    {"add", "rn f32/f64", "drr", PTX_ADD},
    {"sub", INTS, "drr", PTX_SUB},
    {"sub", "rn f32/f64", "drr", PTX_SUB},
    {"mul", "lo " INTS, "drr", PTX_MUL_LO},
    {"mul", "hi s32/u32", "drr", PTX_MUL_HI},
    {"mul", "wide s16/u16/s32/u32", "drr", PTX_MUL_WIDE},
    {"mul", "rn f32/f64", "drr", PTX_MUL},
    {"mul", "rn f16x2", "drr", PTX_MUL_HALVES},
    {"mad", "lo " INTS, "drrr", PTX_MAD_LO},
    {"fma", "rn f32/f64", "drrr", PTX_FMA},
    {"div", INTS, "drr", PTX_DIV},
    {"div", "rn f32/f64", "drr", PTX_DIV},
    {"rem", INTS, "drr", PTX_REM},
    {"min", INTS "/f32/f64", "drr", PTX_MIN},
    {"max", INTS "/f32/f64", "drr", PTX_MAX},
    {"neg", "s16/s32/s64/f32/f64", "dr", PTX_NEG},
    {"abs", "s16/s32/s64/f32/f64", "dr", PTX_ABS},
    {"rcp", "rn f32/f64", "dr", PTX_RCP},
    {"sqrt", "rn f32/f64", "dr", PTX_SQRT},
    {"and", "pred/" BITS, "drr", PTX_AND},
    {"or", "pred/" BITS, "drr", PTX_OR},
    {"xor", "pred/" BITS, "drr", PTX_XOR},
    {"not", "pred/" BITS, "dr", PTX_NOT},
    {"shl", BITS, "drr", PTX_SHL},
    {"shr", BITS "/" INTS, "drr", PTX_SHR},
    {"bfi", "b32/b64", "drrrr", PTX_BFI},
    {"prmt", "b32", "drrr", PTX_PRMT},
    {"dp4a", "s32 s32", "drrr", PTX_DP4A},
    {"clz", "b32/b64", "dr", PTX_CLZ},
    {"popc", "b32/b64", "dr", PTX_POPC},
    {"setp", "eq/ne " BITS, "drr", PTX_SETP},
    {"setp", "eq/ne/lt/le/gt/ge " INTS, "drr", PTX_SETP},
    {"setp", "eq/ne/lt/le/gt/ge/equ/neu/ltu/leu/gtu/geu/num/nan f32/f64", "drr", PTX_SETP},
    {"selp", BITS "/" INTS "/f32/f64", "drrr", PTX_SELP},
    {"mov", "pred/" BITS "/" INTS "/f32/f64", "mm", PTX_MOV},
    {"cvt", "u8/s8/" INTS " u8/s8/" INTS, "dr", PTX_CVT},
    {"cvt", "rn f32/f64 u8/s8/" INTS, "dr", PTX_CVT},
    {"cvt", "rzi " INTS " f32/f64", "dr", PTX_CVT},
    {"cvt", "f64 f32", "dr", PTX_CVT},
    {"cvt", "f32 f16", "dr", PTX_CVT},
    {"cvt", "rn f32 f64", "dr", PTX_CVT},
    {"cvt", "rn f16x2/bf16x2 f32", "drr", PTX_CVT_PACK},
    {"cvta", "to global/shared/local u64", "dr", PTX_CVTA_TO},
    {"cvta", "global/shared/local u64", "dr", PTX_CVTA},
    {"ld", "?param/global/shared/local ?L1::no_allocate ?v2/v4 " DATA, "va", PTX_LD},
    {"ld", "volatile ?global/shared/local ?v2/v4 " DATA, "va", PTX_LD},
    {"ld", "relaxed/acquire cta/gpu/sys ?global/shared " DATA, "va", PTX_LD},
    {"st", "?global/shared/local ?v2/v4 " DATA, "av", PTX_ST},
    {"st", "volatile ?global/shared/local ?v2/v4 " DATA, "av", PTX_ST},
    {"st", "relaxed/release cta/gpu/sys ?global/shared " DATA, "av", PTX_ST},
    {"atom", "?global/shared add u32/s32/u64", "dar", PTX_ATOM_ADD},
    {"cp", "async cg shared global", "aar?r", PTX_CP_ASYNC},
    {"cp", "async commit_group", "", PTX_CP_COMMIT},
    {"cp", "async wait_group", "r", PTX_CP_WAIT},
    {"ldmatrix", "sync aligned m8n8 x1/x2/x4 ?trans shared b16", "va", PTX_LDMATRIX},
    {"mma", "sync aligned m16n8k16 row col f32 bf16 bf16 f32", "4424", PTX_MMA},
    {"mma", "sync aligned m16n8k16 row col f32 f16 f16 f32", "4424", PTX_MMA},
    {"mma", "sync aligned m16n8k16 row col s32 s8 s8 s32", "4214", PTX_MMA_INT},
    {"mma", "sync aligned m16n8k32 row col s32 s8 s8 s32", "4424", PTX_MMA_INT},
    {"shfl", "sync idx b32", "qrrrr", PTX_SHFL_IDX},
    {"shfl", "sync up b32", "qrrrr", PTX_SHFL_UP},
    {"shfl", "sync down b32", "qrrrr", PTX_SHFL_DOWN},
    {"shfl", "sync bfly b32", "qrrrr", PTX_SHFL_BFLY},
    {"vote", "sync ballot b32", "drr", PTX_BALLOT},
    {"bar", "sync", "r", PTX_BAR_SYNC},
    {"bar", "warp sync", "r", PTX_BAR_WARP},
    {"membar", "cta/gl/sys", "", PTX_MEMBAR},
    {"griddepcontrol", "wait", "", PTX_GRID_WAIT},
    {"griddepcontrol", "launch_dependents", "", PTX_GRID_LAUNCH},
    {"nanosleep", "u32", "r", PTX_NANOSLEEP},
    {"bra", "?uni", "l", PTX_BRA},
    {"ret", "", "", PTX_RET},
    {"exit", "", "", PTX_RET},
};

enum field { TYPE, CMP, SPACE, ORDER, VECTOR, TRANS, TRUNCATE };

/* The modifiers that change a field of an instruction; the others, like .rn and .sync, name the
 * only behaviour that their forms have. */
static const struct modifier {
    const char *name;
    enum field field;
    int value;
} modifiers[] = {
    {"pred", TYPE, PTX_PRED},
    {"b8", TYPE, PTX_B8},
    {"b16", TYPE, PTX_B16},
    {"b32", TYPE, PTX_B32},
    {"b64", TYPE, PTX_B64},
    {"u8", TYPE, PTX_U8},
    {"u16", TYPE, PTX_U16},
    {"u32", TYPE, PTX_U32},
    {"u64", TYPE, PTX_U64},
    {"s8", TYPE, PTX_S8},
    {"s16", TYPE, PTX_S16},
    {"s32", TYPE, PTX_S32},
    {"s64", TYPE, PTX_S64},
    {"f16", TYPE, PTX_F16},
    {"bf16", TYPE, PTX_BF16},
    {"f16x2", TYPE, PTX_F16X2},
    {"bf16x2", TYPE, PTX_BF16X2},
    {"f32", TYPE, PTX_F32},
    {"f64", TYPE, PTX_F64},
    {"eq", CMP, PTX_EQ},
    {"ne", CMP, PTX_NE},
    {"lt", CMP, PTX_LT},
    {"le", CMP, PTX_LE},
    {"gt", CMP, PTX_GT},
    {"ge", CMP, PTX_GE},
    {"equ", CMP, PTX_EQU},
    {"neu", CMP, PTX_NEU},
    {"ltu", CMP, PTX_LTU},
    {"leu", CMP, PTX_LEU},
    {"gtu", CMP, PTX_GTU},
    {"geu", CMP, PTX_GEU},
    {"num", CMP, PTX_NUM},
    {"nan", CMP, PTX_NAN},
    {"param", SPACE, PTX_PARAM},
    {"global", SPACE, PTX_GLOBAL},
    {"shared", SPACE, PTX_SHARED},
    {"local", SPACE, PTX_LOCAL},
    {"volatile", ORDER, PTX_VOLATILE},
    {"relaxed", ORDER, PTX_RELAXED},
    {"acquire", ORDER, PTX_ACQUIRE},
    {"release", ORDER, PTX_RELEASE},
    {"v2", VECTOR, 2},
    {"v4", VECTOR, 4},
    {"x1", VECTOR, 1},
    {"x2", VECTOR, 2},
    {"x4", VECTOR, 4},
    {"trans", TRANS, 1},
    {"rzi", TRUNCATE, 1},
};

static void apply(struct ptx_instr *in, const char *name, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(modifiers); i++) {
        const struct modifier *m = &modifiers[i];
        if (strlen(m->name) != n || memcmp(m->name, name, n) != 0)
            continue;
        switch (m->field) {
        case TYPE:
            if (in->n_types < PTX_MAX_TYPES)
                in->type[in->n_types++] = (enum ptx_type)m->value;
            break;
        case CMP:
            in->cmp = (enum ptx_cmp)m->value;
            break;
        case SPACE:
            in->space = (enum ptx_space)m->value;
            break;
        case ORDER:
            in->order = (enum ptx_order)m->value;
            break;
        case VECTOR:
            in->vector = m->value;
            break;
        case TRANS:
            in->trans = true;
            break;
        case TRUNCATE:
            in->truncate = true;
            break;
        }
        return;
    }
}

/* Is word [n] one of the alternatives up to the group's end? */
static bool in_group(const char *group, size_t len, const char *word, size_t n)
{
    while (len > 0) {
        const char *slash = memchr(group, '/', len);
        size_t one = slash ? (size_t)(slash - group) : len;
        if (one == n && memcmp(group, word, n) == 0)
            return true;
        len -= slash ? one + 1 : one;
        group += slash ? one + 1 : one;
    }
    return false;
}

/* The word of ".lt.s32" at *at, without its dot; 0: none. */
static size_t next_word(const char **at)
{
    if (**at != '.')
        return 0;
    ++*at;
    return strcspn(*at, ".");
}

static bool matches(const struct form *f, const char *rest, struct ptx_instr *out)
{
    const char *group = f->modifiers, *at = rest;
    size_t n = next_word(&at);
    while (*group) {
        bool optional = *group == '?';
        group += optional;
        size_t len = strcspn(group, " ");
        if (n > 0 && in_group(group, len, at, n)) {
            apply(out, at, n);
            at += n;
            n = next_word(&at);
        } else if (!optional) {
            return false;
        }
        group += len;
        group += *group == ' ';
    }
    return n == 0 && *at == 0;
}

enum status ptx_form(const char *opcode, int32_t line, struct ptx_instr *out, const char **operands)
{
    size_t n = strcspn(opcode, ".");
    bool known = false;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        const struct form *f = &forms[i];
        if (strlen(f->mnemonic) != n || memcmp(f->mnemonic, opcode, n) != 0)
            continue;
        known = true;
        struct ptx_instr in = {.op = f->op, .guard = -1, .line = line, .vector = 1};
        if (!matches(f, opcode + n, &in))
            continue;
        *out = in;
        *operands = f->operands;
        return ST_OK;
    }
    FAIL(ST_UNSUPPORTED, "line %d: %s %s", line,
         known ? "modifiers not known:" : "unknown instruction", opcode);
}

const char *ptx_form_text(int i, const char **groups)
{
    if (i < 0 || (size_t)i >= ARRAY_LEN(forms))
        return NULL;
    *groups = forms[i].modifiers;
    return forms[i].mnemonic;
}
