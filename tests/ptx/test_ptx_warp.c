/* Control flow, warps and blocks of the PTX machine, and its matrix instruction. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ptx/ptx_snippet.h"

static uint32_t out[SNIPPET_OUT / 4];

static void expect_ok(struct snippet s, const void *in, size_t n_in, size_t n_out)
{
    for (s.seed = 0; s.seed < 4; s.seed++)
        cr_assert_eq(snippet_out(&s, in, n_in, out, n_out), ST_OK, "%s: %s", s.body,
                     status_detail());
}

static void expect_failure(struct snippet s, const char *text)
{
    for (s.seed = 0; s.seed < 4; s.seed++) {
        cr_assert_neq(snippet_run(&s, "", 0, out), ST_OK, "%s", s.body);
        cr_assert(strstr(status_text(), text), "%s: %s", s.body, status_text());
    }
}

#define STORE(reg)                                                                                 \
    "mul.wide.u32 %rd9, %r1, 4; add.s64 %rd9, %rd1, %rd9; st.global.u32 [%rd9], " reg ";"

Test(ptx_warp, lanes_diverge_and_meet_again)
{
    /* lane i turns i times, then all shuffle together */
    expect_ok((struct snippet){.body =
                                   "mov.u32 %r2, 0; LOOP: setp.ge.s32 %p1, %r2, %r1; @%p1 bra OUT;"
                                   "add.s32 %r2, %r2, 1; bra.uni LOOP; OUT:"
                                   "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;" STORE("%r3")},
              "", 0, 128);
    for (uint32_t i = 0; i < 32; i++)
        cr_assert_eq(out[i], i ^ 1);
}

Test(ptx_warp, guards)
{
    expect_ok((struct snippet){.body =
                                   "setp.lt.s32 %p1, %r1, 5; mov.u32 %r2, 1; @%p1 mov.u32 %r2, 2;"
                                   "@!%p1 add.s32 %r2, %r2, 10;" STORE("%r2")},
              "", 0, 128);
    cr_assert_eq(out[4], 2);
    cr_assert_eq(out[5], 11);
}

Test(ptx_warp, special_registers)
{
    expect_ok(
        (struct snippet){
            .body = "mov.u32 %r2, %ntid.x; mov.u32 %r3, %nctaid.x; mad.lo.s32 %r2, %r2, 100, %r3;"
                    "mov.u32 %r3, %laneid; mad.lo.s32 %r2, %r2, 100, %r3;" STORE("%r2"),
            .threads = 40},
        "", 0, 160);
    cr_assert_eq(out[39], 400107);
}

Test(ptx_warp, aligned_instructions_need_all_lanes)
{
    expect_failure(
        (struct snippet){.body = "setp.lt.s32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; bra.uni END;"
                                 "A: bar.sync 0; END:"},
        "is reached by lanes");
    expect_failure((struct snippet){.body = "setp.lt.s32 %p1, %r1, 16; @%p1 bar.sync 0;"},
                   "is reached by lanes");
    expect_failure(
        (struct snippet){.body =
                             "setp.lt.s32 %p1, %r1, 16; @%p1 bra A; mov.u32 %r2, 0; bra.uni END; A:"
                             "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; ret; END: mov.u32 %r3, 0;"
                             "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;"},
        "is reached by lanes");
    /* threads that have ended are not waited for */
    expect_ok(
        (struct snippet){.body = STORE("%r1") "setp.lt.s32 %p1, %r1, 16; @%p1 ret; bar.sync 0;",
                         .threads = 96},
        "", 0, 384);
}

Test(ptx_warp, member_masks)
{
    expect_failure((struct snippet){.body = "shfl.sync.idx.b32 %r2, %r1, 0, 31, 0xffff;"},
                   "member mask");
    expect_failure((struct snippet){.body = "or.b32 %r2, %r1, -32; bar.warp.sync %r2;"},
                   "different member masks");
    expect_ok(
        (struct snippet){.body =
                             "setp.lt.s32 %p1, %r1, 16; mov.u32 %r3, 0; @%p1 bra A; bra.uni END;"
                             "A: shfl.sync.idx.b32 %r3, %r1, 7, 31, 0xffff; END:" STORE("%r3")},
        "", 0, 128);
    cr_assert_eq(out[15], 7);
    cr_assert_eq(out[16], 0);
}

/* A source lane that does not take part gives an undefined value. */
Test(ptx_warp, shuffle_from_an_absent_lane)
{
    struct snippet s = {.body = "setp.lt.s32 %p1, %r1, 16; @!%p1 bra END;"
                                "shfl.sync.idx.b32 %r3, %r1, 20, 31, 0xffff;" STORE("%r3") "END:"};
    cr_assert_eq(snippet_out(&s, "", 0, out, 4), ST_BUG);
    cr_assert(strstr(status_text(), "never written"), "%s", status_text());
}

Test(ptx_warp, shuffles)
{
    static const struct {
        const char *mode, *by, *c;
        uint32_t lane, value, valid;
    } rows[] = {
        {"idx", "9", "31", 3, 9, 1},       {"idx", "40", "31", 3, 8, 1}, /* the lane modulo 32 */
        {"idx", "9", "0x181f", 18, 17, 1}, {"idx", "3", "0x181f", 17, 19, 1}, /* segments of 8 */
        {"up", "2", "0", 5, 3, 1},         {"up", "2", "0", 1, 1, 0},
        {"up", "1", "0x1800", 8, 8, 0},    {"down", "2", "31", 5, 7, 1},
        {"down", "2", "31", 30, 30, 0},    {"down", "1", "0x181f", 7, 7, 0},
        {"bfly", "16", "31", 3, 19, 1},    {"bfly", "8", "0x181f", 20, 20, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char body[512];
        struct snippet s = {.body = body};
        snprintf(body, sizeof body,
                 "shfl.sync.%s.b32 %%r2|%%p1, %%r1, %s, %s, -1; selp.b32 %%r3, 1, 0, %%p1;"
                 "mad.lo.s32 %%r3, %%r3, 100, %%r2; %s",
                 rows[i].mode, rows[i].by, rows[i].c, STORE("%r3"));
        expect_ok(s, "", 0, 128);
        uint32_t want = rows[i].value + 100 * rows[i].valid;
        cr_assert_eq(out[rows[i].lane], want, "row %zu: %u, not %u", i, out[rows[i].lane], want);
    }
}

Test(ptx_warp, votes)
{
    expect_ok((struct snippet){.body = "and.b32 %r2, %r1, 1; setp.ne.s32 %p1, %r2, 0;"
                                       "vote.sync.ballot.b32 %r3, %p1, -1;" STORE("%r3")},
              "", 0, 128);
    cr_assert_eq(out[0], 0xaaaaaaaa);
}

Test(ptx_warp, time_passes_and_nothing_runs_for_ever)
{
    expect_ok(
        (struct snippet){
            .body =
                "mov.u64 %rd2, %globaltimer; LOOP: nanosleep.u32 100; mov.u64 %rd3, %globaltimer;"
                "sub.s64 %rd4, %rd3, %rd2; setp.lt.s64 %p1, %rd4, 1000; @%p1 bra LOOP;"},
        "", 0, 0);
    expect_failure((struct snippet){.body = "LOOP: bra.uni LOOP;", .max_instrs = 10000},
                   "has not ended");
    expect_failure((struct snippet){.body = "membar.sys; bar.sync 1;"}, "bar.sync of barrier 1");
}

/* Rows of A and columns of B are loaded as fragments from in: A [16, 16] at 0, B [8 columns, 16] at
 * 512; C is all `c` (f32 bits at 1024).  D [16, 8] f32 to out. */
#define MMA(type)                                                                                  \
    "shr.u32 %r2, %r1, 2; and.b32 %r3, %r1, 3; mad.lo.s32 %r4, %r2, 8, %r3; mul.wide.u32 %rd2, "   \
    "%r4, 4;"                                                                                      \
    "add.s64 %rd2, %rd0, %rd2; ld.global.u32 %r5, [%rd2]; ld.global.u32 %r6, [%rd2+256];"          \
    "ld.global.u32 %r7, [%rd2+16]; ld.global.u32 %r8, [%rd2+272]; ld.global.u32 %r9, [%rd2+512];"  \
    "ld.global.u32 %r10, [%rd2+528]; ld.global.f32 %f1, [%rd0+1024]; mov.f32 %f2, %f1;"            \
    "mov.f32 %f3, %f1; mov.f32 %f4, %f1;"                                                          \
    "mma.sync.aligned.m16n8k16.row.col.f32." type "." type                                         \
    ".f32 {%f1, %f2, %f3, %f4}, {%r5, %r6, %r7, %r8}, {%r9, %r10}, {%f1, %f2, %f3, %f4};"          \
    "mad.lo.s32 %r4, %r2, 4, %r3; mul.wide.u32 %rd3, %r4, 8; add.s64 %rd3, %rd1, %rd3;"            \
    "st.global.v2.f32 [%rd3], {%f1, %f2}; st.global.v2.f32 [%rd3+256], {%f3, %f4};"

struct operands {
    uint16_t a[16][16], b[8][16];
    uint8_t gap[256];
    uint32_t c;
};

static uint16_t bf16(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return (uint16_t)(u >> 16);
}

Test(ptx_warp, products_of_matrices)
{
    struct operands in = {.c = 0x3f000000}; /* 0.5 */
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            in.a[i][k] = bf16((float)(i - k));
    for (int j = 0; j < 8; j++)
        for (int k = 0; k < 16; k++)
            in.b[j][k] = bf16((float)(3 * j + k));
    for (int order = 0; order < PTX_N_MMA_ORDERS; order++) {
        expect_ok((struct snippet){.body = MMA("bf16"), .mma = (enum ptx_mma_order)order}, &in,
                  sizeof in, 512);
        for (int i = 0; i < 16; i++) {
            for (int j = 0; j < 8; j++) {
                float want = 0.5f, got;
                for (int k = 0; k < 16; k++)
                    want += (float)((i - k) * (3 * j + k));
                memcpy(&got, &out[8 * i + j], sizeof got);
                cr_assert_eq(got, want, "row %d column %d: %g, not %g", i, j, (double)got,
                             (double)want);
            }
        }
    }
}

/* The sums of row 0 and column 0 for values whose order of addition matters. */
static uint32_t sum_of(const float *a, float b, uint32_t c, enum ptx_mma_order order)
{
    struct operands in = {.c = c};
    for (int k = 0; k < 16; k++) {
        in.a[0][k] = bf16(a[k]);
        in.b[0][k] = bf16(b);
    }
    expect_ok((struct snippet){.body = MMA("bf16"), .mma = order}, &in, sizeof in, 512);
    return out[0];
}

Test(ptx_warp, orders_of_a_matrix_sum)
{
    float a[16], far[16] = {0x1p100f, 0x1p-100f, -0x1p100f}, nan[16] = {INFINITY, -INFINITY};
    for (int k = 0; k < 16; k++)
        a[k] = k < 8 ? 0x1p-27f : 0x1p-26f;
    /* 1 + 8 * 2^-27 + 8 * 2^-26 = 1 + 1.5 * 2^-23 */
    cr_assert_eq(sum_of(a, 1, 0x3f800000, PTX_MMA_EXACT), 0x3f800002);
    cr_assert_eq(sum_of(a, 1, 0x3f800000, PTX_MMA_TRUNCATE), 0x3f800001);
    cr_assert_eq(sum_of(a, 1, 0x3f800000, PTX_MMA_HALVES), 0x3f800001);
    /* bits 330 places apart that cancel */
    cr_assert_eq(sum_of(far, 0x1p20f, 0, PTX_MMA_EXACT), 0x17800000); /* 2^-80 */
    cr_assert_eq(sum_of(far, 0x1p20f, 0, PTX_MMA_TRUNCATE), 0);
    /* 2^-140 and a denormal of 2^-149 */
    cr_assert_eq(sum_of(far, 0x1p-40f, 1, PTX_MMA_EXACT), 0x00000201);
    cr_assert_eq(sum_of(nan, 1, 0, PTX_MMA_EXACT), 0x7fffffff);
}

Test(ptx_warp, halves_of_matrices_are_f16)
{
    struct operands in = {.c = 0};
    in.a[0][0] = 0x0001; /* 2^-24, the least denormal */
    in.b[0][0] = 0x7bff; /* 65504 */
    expect_ok((struct snippet){.body = MMA("f16")}, &in, sizeof in, 512);
    cr_assert_eq(out[0], 0x3b7fe000, "%#x", out[0]); /* 65504 * 2^-24 */
}

/* The same layout in bytes: A [16, 32] at 0, B [8 columns, 32] at 512; k 0 to 15 of them, or all. */
#define MMA_INT(shape, a, b)                                                                       \
    "shr.u32 %r2, %r1, 2; and.b32 %r3, %r1, 3; mad.lo.s32 %r4, %r2, 8, %r3; mul.wide.u32 %rd2, "   \
    "%r4, 4;"                                                                                      \
    "add.s64 %rd2, %rd0, %rd2; ld.global.u32 %r5, [%rd2]; ld.global.u32 %r6, [%rd2+256];"          \
    "ld.global.u32 %r7, [%rd2+16]; ld.global.u32 %r8, [%rd2+272]; ld.global.u32 %r9, [%rd2+512];"  \
    "ld.global.u32 %r10, [%rd2+528]; ld.global.u32 %r11, [%rd0+1024]; mov.u32 %r12, %r11;"         \
    "mov.u32 %r13, %r11; mov.u32 %r14, %r11;"                                                      \
    "mma.sync.aligned." shape ".row.col.s32.s8.s8.s32 {%r11, %r12, %r13, %r14}, {" a "}, {" b      \
    "}, {%r11, %r12, %r13, %r14};"                                                                 \
    "mad.lo.s32 %r4, %r2, 4, %r3; mul.wide.u32 %rd3, %r4, 8; add.s64 %rd3, %rd1, %rd3;"            \
    "st.global.v2.u32 [%rd3], {%r11, %r12}; st.global.v2.u32 [%rd3+256], {%r13, %r14};"

struct bytes {
    int8_t a[16][32], b[8][32];
    uint8_t gap[256];
    int32_t c;
};

Test(ptx_warp, products_of_matrices_of_bytes)
{
    struct bytes in = {.c = -7};
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 32; k++)
            in.a[i][k] = (int8_t)(i * 37 + k * 91 - 128);
    for (int j = 0; j < 8; j++)
        for (int k = 0; k < 32; k++)
            in.b[j][k] = (int8_t)(j * 53 - k * 29 + 127);
    for (int n_k = 16; n_k <= 32; n_k += 16) {
        struct snippet s = {.body = n_k == 16
                                        ? MMA_INT("m16n8k16", "%r5, %r6", "%r9")
                                        : MMA_INT("m16n8k32", "%r5, %r6, %r7, %r8", "%r9, %r10")};
        expect_ok(s, &in, sizeof in, 512);
        for (int i = 0; i < 16; i++) {
            for (int j = 0; j < 8; j++) {
                int32_t want = -7;
                for (int k = 0; k < n_k; k++)
                    want += in.a[i][k] * in.b[j][k];
                cr_assert_eq((int32_t)out[8 * i + j], want, "k %d row %d column %d: %d, not %d",
                             n_k, i, j, (int32_t)out[8 * i + j], want);
            }
        }
    }
}
