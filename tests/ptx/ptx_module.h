/* PTX text as data: the subset of NVIDIA's "Parallel Thread Execution ISA" (version 9.0) that nvcc makes of
 * the project's kernels.  ptx_parse reads a module; everything that it does not know, instruction,
 * modifier or directive, is ST_UNSUPPORTED with its name and line.  A module is immutable after
 * parsing and may be read by several threads. */
#ifndef TESTS_PTX_PTX_MODULE_H
#define TESTS_PTX_PTX_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum { PTX_LANES = 32, PTX_MAX_OPERANDS = 5, PTX_MAX_VECTOR = 4, PTX_MAX_TYPES = 4 };

enum ptx_type {
    PTX_NO_TYPE,
    PTX_PRED,
    PTX_B8,
    PTX_B16,
    PTX_B32,
    PTX_B64,
    PTX_U8,
    PTX_U16,
    PTX_U32,
    PTX_U64,
    PTX_S8,
    PTX_S16,
    PTX_S32,
    PTX_S64,
    PTX_F16,
    PTX_BF16,
    PTX_F16X2,
    PTX_BF16X2,
    PTX_F32,
    PTX_F64
};

enum ptx_space { PTX_GENERIC, PTX_PARAM, PTX_GLOBAL, PTX_SHARED, PTX_LOCAL };

enum ptx_cmp {
    PTX_EQ,
    PTX_NE,
    PTX_LT,
    PTX_LE,
    PTX_GT,
    PTX_GE,
    PTX_EQU,
    PTX_NEU,
    PTX_LTU,
    PTX_LEU,
    PTX_GTU,
    PTX_GEU,
    PTX_NUM,
    PTX_NAN
};

enum ptx_op {
    PTX_MOV,
    PTX_ADD,
    PTX_SUB,
    PTX_MUL,
    PTX_MUL_LO,
    PTX_MUL_HI,
    PTX_MUL_WIDE,
    PTX_MAD_LO,
    PTX_FMA,
    PTX_DIV,
    PTX_REM,
    PTX_MIN,
    PTX_MAX,
    PTX_NEG,
    PTX_ABS,
    PTX_RCP,
    PTX_SQRT,
    PTX_AND,
    PTX_OR,
    PTX_XOR,
    PTX_NOT,
    PTX_SHL,
    PTX_SHR,
    PTX_BFI,
    PTX_PRMT,
    PTX_DP4A,
    PTX_CLZ,
    PTX_POPC,
    PTX_SETP,
    PTX_SELP,
    PTX_CVT,
    PTX_CVT_PACK,
    PTX_MUL_HALVES,
    PTX_CVTA,
    PTX_CVTA_TO,
    /* of ptx_step.c */
    PTX_LD,
    PTX_ST,
    PTX_ATOM_ADD,
    PTX_CP_ASYNC,
    PTX_CP_COMMIT,
    PTX_CP_WAIT,
    PTX_LDMATRIX,
    PTX_MMA,
    PTX_MMA_INT,
    PTX_SHFL_IDX,
    PTX_SHFL_UP,
    PTX_SHFL_DOWN,
    PTX_SHFL_BFLY,
    PTX_BALLOT,
    PTX_BAR_SYNC,
    PTX_BAR_WARP,
    PTX_MEMBAR,
    PTX_GRID_WAIT,
    PTX_GRID_LAUNCH,
    PTX_NANOSLEEP,
    PTX_BRA,
    PTX_RET
};

/* Semantics of a memory operation beyond the default, .weak. */
enum ptx_order { PTX_WEAK, PTX_VOLATILE, PTX_RELAXED, PTX_ACQUIRE, PTX_RELEASE };

/* Registers of a warp come first, with the special registers at fixed places; a negative value is
 * ~index of a constant. */
enum ptx_special {
    PTX_TID, /* x, y, z */
    PTX_NTID = PTX_TID + 3,
    PTX_CTAID = PTX_NTID + 3,
    PTX_NCTAID = PTX_CTAID + 3,
    PTX_LANEID = PTX_NCTAID + 3,
    PTX_GLOBALTIMER,
    PTX_N_SPECIAL
};

enum ptx_operand_kind { PTX_NO_OPERAND, PTX_REG, PTX_VECTOR, PTX_PAIR, PTX_ADDRESS, PTX_TARGET };

struct ptx_operand {
    enum ptx_operand_kind kind;
    int32_t n;                   /* of reg; 1 unless VECTOR or PAIR (d|p) */
    int32_t reg[PTX_MAX_VECTOR]; /* registers or ~constants; an address: its base */
    int64_t offset;              /* of an address; a target: the instruction */
};

struct ptx_instr {
    enum ptx_op op;
    int32_t n_types;
    enum ptx_type type[PTX_MAX_TYPES]; /* in the order of the text */
    enum ptx_space space;
    enum ptx_cmp cmp;
    enum ptx_order order;
    int32_t vector;       /* elements of ld, st, ldmatrix */
    bool trans, truncate; /* ldmatrix.trans; cvt.rzi */
    int32_t guard;        /* predicate register, or -1 */
    bool guard_not;
    int32_t n_operands;
    struct ptx_operand operand[PTX_MAX_OPERANDS];
    int32_t line;
    int32_t text; /* offset of "add.s32" in the module's names */
};

/* A variable of an entry in .param, .shared or .local. */
struct ptx_var {
    char *name;
    enum ptx_space space;
    size_t align, bytes, offset; /* bytes 0: the dynamic shared memory */
};

struct ptx_entry {
    char *name; /* as mangled */
    struct ptx_instr *instr;
    int32_t n_instr;
    int32_t n_regs;     /* with the special ones */
    uint64_t *constant; /* [n_constants, PTX_LANES], each lane the same */
    int32_t n_constants;
    struct ptx_var *var;
    int32_t n_vars;
    size_t param_bytes, shared_bytes, local_bytes; /* where the last variable ends */
    bool has_dynamic;                              /* has dynamic shared memory */
    int32_t max_threads;                           /* .maxntid; 0: not given */
};

/* Bytes that no variable owns lie between two variables of shared memory; dynamic shared memory
 * begins at PTX_DYNAMIC_AT. */
enum { PTX_SHARED_GAP = 64, PTX_DYNAMIC_AT = 1 << 16 };

struct ptx_module {
    int target; /* 90: of .target sm_90a; 0: not given */
    struct ptx_entry *entry;
    int32_t n_entries;
    char *names; /* opcodes as written, each ended by 0 */
    size_t n_names;
};

/* text [n] need not end with 0. */
MUST_CHECK enum status ptx_parse(struct ptx_module **out, const char *text, size_t n);
void ptx_module_destroy(struct ptx_module *m);

/* NULL: there is none. */
const struct ptx_entry *ptx_find(const struct ptx_module *m, const char *name);

/* Bytes of a value in memory; 0 for predicates. */
size_t ptx_type_bytes(enum ptx_type t);

/* ptx_forms.c: fills op and modifiers of *out for an opcode like "setp.lt.s32"; *operands is what
 * the form takes, one letter each (see there). */
MUST_CHECK enum status ptx_form(const char *opcode, int32_t line, struct ptx_instr *out,
                                const char **operands);
/* The forms as text, "add s16/u16/...": for the list of what is known.  NULL: no more. */
const char *ptx_form_text(int i, const char **modifiers);

#endif
