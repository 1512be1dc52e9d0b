/* Arithmetic of the PTX machine, form by form, with the edge cases that the manual states. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ptx/ptx_snippet.h"

#define F1 0x3f800000U   /* 1.0f */
#define FNAN 0x7fffffffU /* the NaN that arithmetic gives */
#define FINF 0x7f800000U
#define FTINY 0x00000001U /* the least denormal */
#define D1 0x3ff0000000000000ULL
#define DNAN 0x7fffffffffffffffULL
#define DINF 0x7ff0000000000000ULL
#define ALL UINT64_MAX

/* op d, a, b, c, e: as many sources as the form has. */
static const struct row {
    const char *op;
    int sources;
    uint64_t v[4], want;
} rows[] = {
    {"add.s16", 2, {0x7fff, 1}, ALL << 15}, /* wraps: -32768 */
    {"add.u16", 2, {0xffff, 1}, 0},
    {"add.s32", 2, {0x7fffffff, 1}, ALL << 31},
    {"add.u32", 2, {0xffffffff, 2}, 1},
    {"add.s64", 2, {ALL, 1}, 0},
    {"add.u64", 2, {ALL, 2}, 1},
    {"add.rn.f32", 2, {F1, 0x33800000}, F1}, /* 1 + 2^-24: a tie goes to even */
    {"add.rn.f32", 2, {0x3f800001, 0x33800000}, 0x3f800002},
    {"add.rn.f32", 2, {FTINY, FTINY}, 2}, /* denormals are kept */
    {"add.rn.f32", 2, {FINF, 0xff800000}, FNAN},
    {"add.rn.f32", 2, {0xffc12345, F1}, FNAN}, /* payloads are not */
    {"add.rn.f32", 2, {0x80000000, 0}, 0},
    {"add.rn.f32", 2, {0x7f7fffff, 0x7f7fffff}, FINF},
    {"add.rn.f64", 2, {D1, 0x3ca0000000000000}, D1},
    {"add.rn.f64", 2, {DINF, 0xfff0000000000000}, DNAN},
    {"sub.s16", 2, {0, 1}, ALL},
    {"sub.s32", 2, {0x80000000, 1}, 0x7fffffff},
    {"sub.u32", 2, {0, 1}, 0xffffffff},
    {"sub.s64", 2, {0, 1}, ALL},
    {"sub.rn.f32", 2, {F1, F1}, 0},
    {"sub.rn.f64", 2, {D1, D1}, 0},
    {"mul.lo.s32", 2, {0x10001, 0x10001}, 0x20001},
    {"mul.lo.s64", 2, {1ULL << 33, 1ULL << 33}, 0},
    {"mul.lo.u16", 2, {0x1234, 0x100}, 0x3400},
    {"mul.hi.s32", 2, {0xffffffff, 2}, ALL},
    {"mul.hi.u32", 2, {0xffffffff, 2}, 1},
    {"mul.wide.s32", 2, {0xffffffff, 3}, 0 - 3ULL},
    {"mul.wide.u32", 2, {0xffffffff, 3}, 0x2fffffffd},
    {"mul.wide.s16", 2, {0xffff, 3}, 0 - 3ULL},
    {"mul.wide.u16", 2, {0xffff, 0xffff}, 0xfffe0001},
    {"mul.rn.f32", 2, {FTINY, 0x3f000000}, 0}, /* half of the least: a tie to even */
    {"mul.rn.f32", 2, {3, 0x3f000000}, 2},
    {"mul.rn.f32", 2, {0, FINF}, FNAN},
    {"mul.rn.f64", 2, {0, DINF}, DNAN},
    {"mad.lo.s32", 3, {0xffffffff, 5, 4}, ALL},
    {"fma.rn.f32", 3, {0x3f800001, 0x3f800001, 0xbf800002}, 0x28800000}, /* one rounding */
    {"fma.rn.f32", 3, {FINF, 0, F1}, FNAN},
    {"fma.rn.f64",
     3,
     {0x3ff0000000000001, 0x3ff0000000000001, 0xbff0000000000002},
     0x3970000000000000},
    {"div.s32", 2, {0 - 7ULL, 2}, 0 - 3ULL}, /* towards zero */
    {"div.s32", 2, {0x80000000, 0xffffffff}, ALL << 31},
    {"div.u32", 2, {0xffffffff, 2}, 0x7fffffff},
    {"div.s64", 2, {0 - 7ULL, 2}, 0 - 3ULL},
    {"div.rn.f32", 2, {F1, 0x40400000}, 0x3eaaaaab},
    {"div.rn.f32", 2, {F1, 0x80000000}, 0xff800000},
    {"div.rn.f32", 2, {0, 0}, FNAN},
    {"div.rn.f32", 2, {0x00800000, 0x40000000}, 0x00400000}, /* a denormal quotient */
    {"div.rn.f64", 2, {0, 0}, DNAN},
    {"rem.s32", 2, {0 - 7ULL, 2}, ALL}, /* the dividend's sign */
    {"rem.u32", 2, {7, 4}, 3},
    {"rem.s64", 2, {0 - 7ULL, 4}, 0 - 3ULL},
    {"min.s32", 2, {0xffffffff, 1}, ALL},
    {"min.u32", 2, {0xffffffff, 1}, 1},
    {"min.s64", 2, {ALL, 1}, ALL},
    {"min.f32", 2, {0x7fc00000, F1}, F1}, /* NaN loses */
    {"min.f32", 2, {0, 0x80000000}, 0x80000000},
    {"max.f32", 2, {F1, 0x7fc00000}, F1},
    {"max.f32", 2, {0x7fc00000, 0x7fc00000}, FNAN},
    {"max.f32", 2, {0x80000000, 0}, 0},
    {"max.s32", 2, {0xffffffff, 1}, 1},
    {"max.s64", 2, {ALL, 1}, 1},
    {"max.u64", 2, {ALL, 1}, ALL},
    {"neg.s32", 1, {0x80000000}, ALL << 31},
    {"neg.s64", 1, {1}, ALL},
    {"neg.f32", 1, {0}, 0x80000000},
    {"neg.f64", 1, {D1}, D1 | 1ULL << 63},
    {"abs.s32", 1, {0xffffffff}, 1},
    {"abs.f32", 1, {0x80000001}, 1},
    {"abs.f64", 1, {D1 | 1ULL << 63}, D1},
    {"rcp.rn.f32", 1, {0x40400000}, 0x3eaaaaab},
    {"rcp.rn.f32", 1, {0x80000000}, 0xff800000},
    {"rcp.rn.f32", 1, {0x7f000000}, 0x00400000},
    {"rcp.rn.f64", 1, {D1}, D1},
    {"sqrt.rn.f32", 1, {0x40000000}, 0x3fb504f3},
    {"sqrt.rn.f32", 1, {0x80000000}, 0x80000000},
    {"sqrt.rn.f32", 1, {0xbf800000}, FNAN},
    {"sqrt.rn.f64", 1, {0xbff0000000000000}, DNAN},
    {"and.b16", 2, {0xff0f, 0x0fff}, 0x0f0f},
    {"and.b32", 2, {0xff00ff00, 0x0ff00ff0}, 0x0f000f00},
    {"and.b64", 2, {ALL, 1ULL << 40}, 1ULL << 40},
    {"and.pred", 2, {1, 0}, 0},
    {"or.b32", 2, {0xf0, 0x0f}, 0xff},
    {"or.b64", 2, {1ULL << 40, 1}, 1ULL << 40 | 1},
    {"or.pred", 2, {1, 0}, 1},
    {"xor.b32", 2, {0xff, 0x0f}, 0xf0},
    {"xor.b64", 2, {ALL, 1}, ALL - 1},
    {"xor.pred", 2, {1, 1}, 0},
    {"not.b32", 1, {0}, 0xffffffff},
    {"not.b64", 1, {1}, ALL - 1},
    {"not.pred", 1, {1}, 0},
    {"shl.b32", 2, {1, 31}, 0x80000000},
    {"shl.b32", 2, {1, 32}, 0}, /* amounts beyond the width count as the width */
    {"shl.b32", 2, {1, 0xffffffff}, 0},
    {"shl.b64", 2, {1, 63}, 1ULL << 63},
    {"shl.b64", 2, {1, 64}, 0},
    {"shl.b16", 2, {3, 15}, 0x8000},
    {"shr.u32", 2, {0x80000000, 31}, 1},
    {"shr.u32", 2, {0x80000000, 32}, 0},
    {"shr.s32", 2, {0x80000000, 33}, ALL},
    {"shr.s32", 2, {0xfffffff0, 2}, 0 - 4ULL},
    {"shr.u64", 2, {ALL, 64}, 0},
    {"shr.s64", 2, {1ULL << 63, 99}, ALL},
    {"shr.u16", 2, {0x8000, 15}, 1},
    {"bfi.b32", 4, {0xff, 0, 8, 4}, 0xf00},
    {"bfi.b32", 4, {0xff, 0x12345678, 28, 8}, 0xf2345678}, /* cut at the width */
    {"bfi.b32", 4, {0xff, 7, 32, 8}, 7},
    {"bfi.b32", 4, {0xff, 7, 0, 0}, 7},
    {"bfi.b32", 4, {0xff, 0, 256, 256 + 4}, 0xf}, /* amounts modulo 256 */
    {"bfi.b64", 4, {ALL, 0, 32, 32}, 0xffffffff00000000},
    {"prmt.b32", 3, {0x33221100, 0x77665544, 0x7531}, 0x77553311},
    {"prmt.b32", 3, {0x80, 0x7f000000, 0xf8f8}, 0x00ff00ff}, /* bit 3: the sign */
    {"prmt.b32", 3, {0x1234, 0, 0x4140}, 0x00120034},
    {"dp4a.s32.s32", 3, {0x80ff7f01, 0x80027f03, 5}, 0x1000 * 4 - 2 + 127 * 127 + 3 + 5},
    {"dp4a.s32.s32", 3, {0x7f, 0x7f, 0x7fffffff}, 0 - 0x7fffc100ULL},
    {"clz.b32", 1, {0}, 32},
    {"clz.b32", 1, {1}, 31},
    {"clz.b64", 1, {0}, 64},
    {"popc.b32", 1, {0xf0f0}, 8},
    {"popc.b64", 1, {ALL}, 64},
    {"setp.eq.b32", 2, {1ULL << 32, 0}, 1}, /* the upper half is not of the type */
    {"setp.ne.s32", 2, {1, 2}, 1},
    {"setp.lt.s32", 2, {0xffffffff, 0}, 1},
    {"setp.lt.u32", 2, {0xffffffff, 0}, 0},
    {"setp.ge.s64", 2, {ALL, 0}, 0},
    {"setp.le.u64", 2, {ALL, 0}, 0},
    {"setp.gt.u32", 2, {2, 1}, 1},
    {"setp.eq.s16", 2, {0x1ffff, 0xffff}, 1},
    {"setp.eq.f32", 2, {0, 0x80000000}, 1},
    {"setp.ne.f32", 2, {FNAN, F1}, 0}, /* an ordered comparison with NaN is false */
    {"setp.neu.f32", 2, {FNAN, F1}, 1},
    {"setp.equ.f32", 2, {FNAN, F1}, 1},
    {"setp.lt.f32", 2, {0xff800000, F1}, 1},
    {"setp.le.f32", 2, {FNAN, FNAN}, 0},
    {"setp.gt.f32", 2, {FNAN, F1}, 0},
    {"setp.ge.f32", 2, {F1, F1}, 1},
    {"setp.ltu.f32", 2, {FNAN, F1}, 1},
    {"setp.leu.f32", 2, {FNAN, F1}, 1},
    {"setp.gtu.f64", 2, {DNAN, D1}, 1},
    {"setp.geu.f64", 2, {D1, DINF}, 0},
    {"setp.num.f32", 2, {F1, FNAN}, 0},
    {"setp.nan.f32", 2, {F1, FNAN}, 1},
    {"selp.b32", 3, {5, 6, 1}, 5},
    {"selp.f32", 3, {F1, 0x7fc12345, 0}, 0x7fc12345}, /* not arithmetic: the payload stays */
    {"selp.b64", 3, {ALL, 1, 1}, ALL},
    {"mov.b32", 1, {0x123456789}, 0x23456789},
    {"mov.f32", 1, {0x7fc12345}, 0x7fc12345},
    {"mov.f64", 1, {DINF}, DINF},
    {"mov.pred", 1, {1}, 1},
    {"cvt.s64.s32", 1, {0xffffffff}, ALL},
    {"cvt.u64.u32", 1, {ALL}, 0xffffffff},
    {"cvt.u32.u64", 1, {0x1fffffffe}, 0xfffffffe},
    {"cvt.u16.u32", 1, {0x12345}, 0x2345},
    {"cvt.u32.u16", 1, {0x1ffff}, 0xffff},
    {"cvt.s16.s8", 1, {0x80}, 0 - 128ULL},
    {"cvt.rn.f32.s32", 1, {0xffffffff}, 0xbf800000},
    {"cvt.rn.f32.s32", 1, {0x01000001}, 0x4b800000}, /* 2^24 + 1: a tie to even */
    {"cvt.rn.f32.u32", 1, {0xffffffff}, 0x4f800000},
    {"cvt.rn.f32.s16", 1, {0xffff}, 0xbf800000},
    {"cvt.rn.f64.u64", 1, {ALL}, 0x43f0000000000000},
    {"cvt.rzi.s32.f32", 1, {0xbff00000}, ALL},        /* -1.875 */
    {"cvt.rzi.s32.f32", 1, {0x4f800000}, 0x7fffffff}, /* beyond the range: its end */
    {"cvt.rzi.s32.f32", 1, {FNAN}, 0},
    {"cvt.rzi.u32.f32", 1, {0xbf800000}, 0},
    {"cvt.rzi.s64.f64", 1, {0xc3f0000000000000}, 1ULL << 63},
    {"cvt.rzi.s64.f64", 1, {DNAN}, 1ULL << 63},
    {"cvt.f32.f16", 1, {0xbc00}, 0xbf800000},
    {"cvt.f32.f16", 1, {0x0001}, 0x33800000}, /* 2^-24 */
    {"cvt.f32.f16", 1, {0x7c00}, FINF},
    {"cvt.f64.f32", 1, {FTINY}, 0x36a0000000000000},
    {"cvt.f64.f32", 1, {FNAN}, DNAN},
    {"cvt.rn.f32.f64", 1, {0x3ff0000010000000}, F1}, /* a tie to even */
    {"cvt.rn.f32.f64", 1, {0x7fe0000000000000}, FINF},
    {"mul.rn.f16x2", 2, {0x3c00bc00, 0x42003800}, 0x4200b800},     /* 1 * 3, -1 * 0.5 */
    {"mul.rn.f16x2", 2, {0x00030002, 0x38003800}, 0x00020001},     /* 1.5 2^-24: a tie to even */
    {"mul.rn.f16x2", 2, {0x7bff7e01, 0x40003c00}, 0x7c007fff},     /* beyond the range; NaN */
    {"cvt.rn.f16x2.f32", 2, {F1, 0x40000000}, 0x3c004000},         /* the first source is above */
    {"cvt.rn.f16x2.f32", 2, {0x477fefff, 0x477ff000}, 0x7bff7c00}, /* 65520: a tie, to infinity */
    {"cvt.rn.f16x2.f32", 2, {0x33800000, 0x33000000}, 0x00010000}, /* 2^-24, 2^-25 */
    {"cvt.rn.f16x2.f32", 2, {FNAN, 0xff800000}, 0x7ffffc00},
    {"cvt.rn.bf16x2.f32", 2, {0x3f808000, 0x3f818000}, 0x3f803f82}, /* ties to even */
    {"cvt.rn.bf16x2.f32", 2, {0x7f7fffff, 0xffc00000}, 0x7f807fff},
    {"cvt.rn.bf16x2.f32", 2, {0x00008001, 0x80000000}, 0x00018000},
    {"cvta.to.global.u64", 1, {12345}, 12345},
};

static enum status run_row(const struct row *r, uint64_t *out)
{
    char body[512];
    uint64_t result[SNIPPET_OUT / 8];
    int n = snprintf(body, sizeof body,
                     "ld.global.u64 %%rd2, [%%rd0]; ld.global.u64 %%rd3, [%%rd0+8];"
                     "ld.global.u64 %%rd4, [%%rd0+16]; ld.global.u64 %%rd5, [%%rd0+24];"
                     "setp.ne.s32 %%p1, %%r1, 0; @%%p1 ret; %s %%rd6",
                     r->op);
    for (int i = 0; i < r->sources; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, ", %%rd%d", 2 + i);
    snprintf(body + n, sizeof body - (size_t)n, "; st.global.u64 [%%rd1], %%rd6;");
    TRY(snippet_out(&(struct snippet){.body = body}, r->v, sizeof r->v, result, 8));
    *out = result[0];
    return ST_OK;
}

Test(ptx_alu, results_of_every_form)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t got = 0;
        cr_assert_eq(run_row(&rows[i], &got), ST_OK, "%s: %s", rows[i].op, status_detail());
        cr_assert_eq(got, rows[i].want, "%s, row %zu: %#llx, not %#llx", rows[i].op, i,
                     (unsigned long long)got, (unsigned long long)rows[i].want);
    }
}

/* Every mnemonic of arithmetic has a row. */
Test(ptx_alu, no_form_without_a_row)
{
    const char *groups, *name;
    for (int i = 0; (name = ptx_form_text(i, &groups)); i++) {
        bool tested = strcmp(name, "ld") == 0; /* the first form that is not arithmetic */
        if (tested)
            return;
        for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
            struct ptx_instr in, of_row;
            const char *operands;
            size_t n = strlen(name);
            if (strncmp(rows[r].op, name, n) != 0 || rows[r].op[n] != '.')
                continue;
            cr_assert_eq(ptx_form(rows[r].op, 1, &of_row, &operands), ST_OK);
            in = of_row;
            tested = tested || in.n_types > 0;
        }
        cr_assert(tested, "%s", name);
    }
    cr_assert_fail("no form of memory access");
}

Test(ptx_alu, an_undefined_quotient_is_not_used)
{
    const struct row r = {"div.s32", 2, {1, 0}, 0};
    uint64_t got;
    cr_assert_eq(run_row(&r, &got), ST_BUG);
    cr_assert(strstr(status_text(), "never written"), "%s", status_text());
}

Test(ptx_alu, vectors_are_packed_from_below)
{
    uint64_t in[2] = {0x1111222233334444, 0x55556666}, out[SNIPPET_OUT / 8];
    struct snippet s = {.body = "setp.ne.s32 %p1, %r1, 0; @%p1 ret;"
                                "ld.global.u64 %rd2, [%rd0];"
                                "mov.b64 {%r2, %r3}, %rd2; mov.b64 %rd3, {%r3, %r2};"
                                "mov.b32 {%rs1, %rs2}, %r2; mov.b32 %r4, {%rs2, %rs1};"
                                "st.global.u64 [%rd1], %rd3; st.global.u32 [%rd1+8], %r4;"};
    cr_assert_eq(snippet_out(&s, in, sizeof in, out, 12), ST_OK, "%s", status_detail());
    cr_assert_eq(out[0], 0x3333444411112222);
    cr_assert_eq((uint32_t)out[1], 0x44443333);
}

Test(ptx_alu, unknown_instructions_are_named)
{
    static const char *const bad[] = {"add.rz.f32",
                                      "add.ftz.f32",
                                      "add.s8",
                                      "ex2.approx.f32",
                                      "cvt.rni.f32.f32",
                                      "shfl.bfly.b32",
                                      "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
                                      "ld.global.nc.u32",
                                      "cp.async.ca.shared.global",
                                      "add",
                                      "add.",
                                      "add..s32",
                                      "add.s32.s32"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct ptx_instr in;
        const char *operands;
        cr_assert_eq(ptx_form(bad[i], 7, &in, &operands), ST_UNSUPPORTED, "%s", bad[i]);
        cr_assert(strstr(status_text(), bad[i]) && strstr(status_text(), "line 7"), "%s",
                  status_text());
    }
}
