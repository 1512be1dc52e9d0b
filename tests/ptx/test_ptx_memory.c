/* Memory of the PTX machine: what instructions move, and the mistakes that it must report. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ptx/ptx_snippet.h"

static uint32_t out[SNIPPET_OUT / 4];
static uint32_t input[SNIPPET_IN / 4];

static void fill_input(void)
{
    for (uint32_t i = 0; i < ARRAY_LEN(input); i++)
        input[i] = 0x10000 * (2 * i + 1) + 2 * i; /* as 16-bit elements: 0, 1, 2, ... */
}

/* The body runs, and n bytes of out are defined. */
static void expect_ok(struct snippet s, size_t n)
{
    fill_input();
    for (s.seed = 0; s.seed < 4; s.seed++)
        cr_assert_eq(snippet_out(&s, input, sizeof input, out, n), ST_OK, "%s: %s", s.body,
                     status_detail());
}

/* The body fails with a text that has `text`, under any schedule. */
static void expect_failure(struct snippet s, size_t n, const char *text)
{
    fill_input();
    for (s.seed = 0; s.seed < 4; s.seed++) {
        cr_assert_neq(snippet_out(&s, input, sizeof input, out, n), ST_OK, "%s", s.body);
        cr_assert(strstr(status_text(), text), "%s: %s", s.body, status_text());
    }
}

#define OUT_OF_THREAD "mul.wide.u32 %rd9, %r1, 4; add.s64 %rd9, %rd1, %rd9;"
#define LANE_0 "setp.ne.s32 %p7, %r1, 0; @%p7 ret;"

Test(ptx_memory, loads_extend_and_stores_cut)
{
    expect_ok((struct snippet){.body = LANE_0
                               "mov.u32 %r2, -2; st.local.u32 [depot], %r2;"
                               "ld.local.s8 %r3, [depot]; ld.local.u8 %r4, [depot+1];"
                               "ld.local.s16 %rd3, [depot]; ld.local.u16 %r5, [depot+2];"
                               "st.global.u32 [%rd1], %r3; st.global.u32 [%rd1+4], %r4;"
                               "st.global.u64 [%rd1+8], %rd3; st.global.u16 [%rd1+16], %r5;"},
              18);
    cr_assert_eq(out[0], 0xfffffffe);
    cr_assert_eq(out[1], 0xff);
    cr_assert_eq(out[3], 0xffffffff);
    cr_assert_eq(out[4], 0xffff);
}

Test(ptx_memory, vectors_and_offsets)
{
    expect_ok((struct snippet){.body = LANE_0 "add.s64 %rd2, %rd0, 32;"
                                              "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd2+-16];"
                                              "ld.global.L1::no_allocate.v2.u32 {%r6, %r7}, [%rd0];"
                                              "st.global.v4.u32 [%rd1], {%r5, %r4, %r3, %r2};"
                                              "st.global.v2.f32 [%rd1+16], {%r6, %r7};"},
              24);
    cr_assert_eq(out[0], input[7]);
    cr_assert_eq(out[3], input[4]);
    cr_assert_eq(out[5], input[1]);
}

Test(ptx_memory, generic_addresses)
{
    expect_ok((struct snippet){.body = LANE_0 "cvta.shared.u64 %rd2, sm; mov.u32 %r2, 77;"
                                              "st.u32 [%rd2+8], %r2; ld.shared.u32 %r3, [sm+8];"
                                              "cvta.local.u64 %rd3, depot; st.u32 [%rd3], %r3;"
                                              "ld.u32 %r4, [%rd3]; cvta.to.shared.u64 %rd4, %rd2;"
                                              "ld.shared.u32 %r5, [%rd4+8];"
                                              "st.u32 [%rd1], %r4; st.global.u32 [%rd1+4], %r5;"},
              8);
    cr_assert_eq(out[0], 77);
    cr_assert_eq(out[1], 77);
}

Test(ptx_memory, bounds_and_alignment)
{
    expect_failure((struct snippet){.body = "ld.global.u32 %r2, [%rd0+4096];"}, 0,
                   "in no allocation");
    expect_failure((struct snippet){.body = "ld.global.u32 %r2, [%rd0+-4];"}, 0,
                   "in no allocation");
    expect_failure((struct snippet){.body = "ld.global.u32 %r2, [%rd0+2];"}, 0, "not aligned");
    expect_failure((struct snippet){.body = "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd0+8];"}, 0,
                   "not aligned");
    expect_failure((struct snippet){.body = "mov.u32 %r2, 1; st.shared.u32 [sm+4096], %r2;"}, 0,
                   "belongs to no variable");
    expect_failure((struct snippet){.body = "mov.u32 %r2, 1; st.shared.u32 [dyn+64], %r2;",
                                    .dynamic_bytes = 64},
                   0, "shared memory");
    expect_failure((struct snippet){.body = "mov.u32 %r2, 1; st.local.u32 [depot+64], %r2;"}, 0,
                   "local memory");
    expect_failure((struct snippet){.body = "ld.param.u64 %rd2, [which+8];"}, 0,
                   "parameter memory");
}

Test(ptx_memory, undefined_data)
{
    /* may be copied, not read by the host, decide a branch or be an address */
    expect_ok(
        (struct snippet){.body = LANE_0 "ld.shared.u32 %r2, [sm]; st.shared.u32 [sm+4], %r2;"}, 0);
    expect_failure(
        (struct snippet){.body = "ld.shared.u32 %r2, [sm]; add.s32 %r2, %r2, 1;" OUT_OF_THREAD
                                 "st.global.u32 [%rd9], %r2;"},
        4, "never written");
    expect_failure(
        (struct snippet){.body = "ld.shared.u32 %r2, [sm]; setp.eq.s32 %p1, %r2, 0; @%p1 ret;"}, 0,
        "a branch or guard of thread 0 depends");
    expect_failure((struct snippet){.body = "ld.shared.u32 %r2, [sm]; ld.shared.u32 %r3, [%r2];"},
                   0, "an address of thread 0 depends");
    expect_failure((struct snippet){.body = "setp.eq.s32 %p1, %r7, 0; @%p1 ret;"}, 0, "depends");
    expect_ok((struct snippet){.body = LANE_0 "setp.eq.s32 %p1, %r7, 0; setp.eq.s32 %p2, %r1, 1;"
                                              "and.pred %p3, %p1, %p2; @%p3 ret;"},
              0); /* false and anything */
}

Test(ptx_memory, races_of_a_block)
{
    static const char write_own[] =
        "mul.lo.s32 %r2, %r1, 4; mov.u32 %r3, sm; add.s32 %r2, %r2, %r3;"
        "st.shared.u32 [%r2], %r1;";
    static const char read_next[] =
        "xor.b32 %r4, %r1, 32; mul.lo.s32 %r4, %r4, 4; add.s32 %r4, %r4, %r3;"
        "ld.shared.u32 %r5, [%r4];" OUT_OF_THREAD "st.global.u32 [%rd9], %r5;";
    char body[1024];
    struct snippet s = {.body = body, .threads = 64};
    snprintf(body, sizeof body, "%s bar.sync 0; %s", write_own, read_next);
    expect_ok(s, 256);
    cr_assert_eq(out[0], 32);
    snprintf(body, sizeof body, "%s %s", write_own, read_next);
    expect_failure(s, 256, "");
    snprintf(body, sizeof body, "%s bar.sync 0; %s st.shared.u32 [%%r2], %%r1;", write_own,
             read_next);
    expect_failure(s, 0, "nothing orders");
    expect_failure((struct snippet){.body = "st.shared.u32 [sm], %r1;"}, 0, "nothing orders");
}

Test(ptx_memory, races_of_a_warp)
{
#define EXCHANGE(between)                                                                          \
    "mul.lo.s32 %r2, %r1, 4; st.shared.u32 [%r2], %r1;" between                                    \
    "xor.b32 %r4, %r2, 4; ld.shared.u32 %r5, [%r4];"
    expect_ok((struct snippet){.body = EXCHANGE("bar.warp.sync -1;")}, 0);
    expect_failure((struct snippet){.body = EXCHANGE("")}, 0, "nothing orders");
    /* a shuffle orders no memory */
    expect_failure((struct snippet){.body = EXCHANGE("shfl.sync.bfly.b32 %r6, %r1, 1, 31, -1;")}, 0,
                   "nothing orders");
}

Test(ptx_memory, races_of_blocks)
{
    struct snippet s = {.body = LANE_0 "st.global.u32 [%rd1], %r1;", .blocks = 2};
    expect_failure(s, 0, "nothing orders");
    s.body = LANE_0 "atom.global.add.u32 %r2, [%rd1], 1;";
    expect_failure(s, 4, "never written"); /* no race, but nothing was there to add to */
    s.body = "mov.u32 %r2, %ctaid.x; setp.ne.s32 %p1, %r2, 0; @%p1 bra READ;" LANE_0
             "mov.u32 %r3, 5; st.global.u32 [%rd0+64], %r3; bar.sync 0;"
             "mov.u32 %r4, 1; st.release.sys.global.u32 [%rd0], %r4; ret;"
             "READ: ld.acquire.sys.global.u32 %r5, [%rd0]; setp.ne.s32 %p2, %r5, 1; @%p2 bra READ;"
             "bar.sync 0; ld.global.u32 %r6, [%rd0+64];" LANE_0 "st.global.u32 [%rd1], %r6;";
    expect_ok(s, 4);
    cr_assert_eq(out[0], 5);
    s.body = "mov.u32 %r2, %ctaid.x; setp.ne.s32 %p1, %r2, 0; @%p1 bra READ;" LANE_0
             "mov.u32 %r3, 5; st.global.u32 [%rd0+64], %r3; bar.sync 0;"
             "mov.u32 %r4, 1; st.relaxed.sys.global.u32 [%rd0], %r4; ret;"
             "READ: ld.acquire.sys.global.u32 %r5, [%rd0]; setp.ne.s32 %p2, %r5, 1; @%p2 bra READ;"
             "bar.sync 0; ld.global.u32 %r6, [%rd0+64];";
    expect_failure(s, 0, "nothing orders");
}

Test(ptx_memory, a_weak_read_is_not_hidden_by_a_strong_one)
{
#define READS(first, between)                                                                      \
    "mov.u32 %r2, %ctaid.x; setp.ne.s32 %p1, %r2, 0; @%p1 bra WRITE;" first                        \
    " %r3, [%rd0+64];" between "ld.relaxed.sys.global.u32 %r4, [%rd0+64];"                         \
    "mov.u32 %r5, 1; st.relaxed.sys.global.u32 [%rd0], %r5; ret;"                                  \
    "WRITE: ld.relaxed.sys.global.u32 %r6, [%rd0]; setp.ne.s32 %p2, %r6, 1; @%p2 bra WRITE;"       \
    "st.relaxed.sys.global.u32 [%rd0+64], %r6;"
    struct snippet s = {.blocks = 2, .threads = 1};
    s.body = READS("ld.relaxed.sys.global.u32", "bar.sync 0;");
    expect_ok(s, 0);
    s.body = READS("ld.global.u32", "bar.sync 0;");
    expect_failure(s, 0, "nothing orders");
    /* of two threads of a block */
    s.threads = 64;
    s.body =
        READS("setp.eq.s32 %p3, %r1, 0; @%p3 ld.global.u32", "setp.ne.s32 %p4, %r1, 32; @%p4 ret;");
    expect_failure(s, 0, "nothing orders");
}

#define COPY(to, from, n)                                                                          \
    "cp.async.cg.shared.global [sm+" #to "], [%rd0+" #from "], 16, " #n "; cp.async.commit_group;"

Test(ptx_memory, copies_are_there_after_the_wait)
{
    expect_ok(
        (struct snippet){
            .body = LANE_0 COPY(0, 0, 16) COPY(16, 16, 4) COPY(
                32, 32, 0) "cp.async.wait_group 1;"
                           "ld.shared.v2.u32 {%r2, %r3}, [sm+16]; cp.async.wait_group 0;"
                           "ld.shared.u32 %r4, [sm+32];"
                           "st.global.v2.u32 [%rd1], {%r2, %r3}; st.global.u32 [%rd1+8], %r4;"},
        12);
    cr_assert_eq(out[0], input[4]);
    cr_assert_eq(out[1], 0); /* beyond the source's size: zeros */
    cr_assert_eq(out[2], 0);
    expect_failure(
        (struct snippet){.body = LANE_0 COPY(0, 0, 16)
                             COPY(16, 16, 16) "cp.async.wait_group 1; ld.shared.u32 %r2, [sm+16];"},
        0, "a cp.async is writing");
    expect_failure((struct snippet){.body =
                                        LANE_0 "cp.async.cg.shared.global [sm], [%rd0], 16;"
                                               "cp.async.wait_group 0; ld.shared.u32 %r2, [sm];"},
                   0, "a cp.async is writing"); /* of no group yet */
    expect_failure((struct snippet){.body = COPY(8, 0, 16)}, 0, "not aligned");
    expect_failure((struct snippet){.body = LANE_0 "cp.async.cg.shared.global [sm], [%rd0], 8;"}, 0,
                   "it copies 16");
    expect_failure(
        (struct snippet){
            .body = "setp.eq.s32 %p1, %r1, 0; @%p1 cp.async.cg.shared.global [sm], [%rd0], 16;"
                    "cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r2, [sm];"},
        0, "nothing orders"); /* the wait is of the thread alone */
}

#define ROW_ADDRESS "mul.lo.s32 %r2, %r1, 16; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd3];"
#define MATRICES                                                                                   \
    "mul.wide.u32 %rd3, %r1, 16; add.s64 %rd3, %rd0, %rd3;" ROW_ADDRESS                            \
    "st.shared.v4.u32 [%r2], {%r4, %r5, %r6, %r7};"                                                \
    "bar.warp.sync -1;"

Test(ptx_memory, matrices)
{
    /* element (row, column) of matrix j is 64 j + 8 row + column */
    expect_ok(
        (struct snippet){
            .body = MATRICES
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8, %r9, %r10, %r11}, [%r2];" OUT_OF_THREAD
            "st.global.u32 [%rd9], %r9;"},
        128);
    for (uint32_t lane = 0; lane < 32; lane++) {
        uint32_t first = 64 + 8 * (lane / 4) + 2 * (lane % 4);
        cr_assert_eq(out[lane], first | (first + 1) << 16, "lane %u: %#x", lane, out[lane]);
    }
    expect_ok((struct snippet){.body = MATRICES "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                                                "{%r8, %r9, %r10, %r11}, [%r2];" OUT_OF_THREAD
                                                "st.global.u32 [%rd9], %r11;"},
              128);
    for (uint32_t lane = 0; lane < 32; lane++) {
        uint32_t first = 192 + 16 * (lane % 4) + lane / 4;
        cr_assert_eq(out[lane], first | (first + 8) << 16, "lane %u: %#x", lane, out[lane]);
    }
    expect_failure((struct snippet){.body = MATRICES
                                    "add.s32 %r2, %r2, 8;"
                                    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r2];"},
                   0, "not aligned");
}

Test(ptx_memory, atomics)
{
    expect_ok(
        (struct snippet){.body =
                             "setp.ne.s32 %p1, %r1, 0; @!%p1 st.shared.u32 [sm], %r1; bar.sync 0;"
                             "atom.shared.add.u32 %r2, [sm], 3; bar.sync 0; ld.shared.u32 %r3, "
                             "[sm];" OUT_OF_THREAD "st.global.u32 [%rd9], %r3;",
                         .threads = 64},
        256);
    cr_assert_eq(out[63], 192);
}

#define FIRST_WRITES                                                                               \
    OUT_OF_THREAD "setp.ne.s32 %p1, %r0, 0; @%p1 bra SECOND; griddepcontrol.launch_dependents;"    \
                  "st.global.u32 [%rd9], %r1; ret;"
#define SECOND_READS "ld.global.u32 %r2, [%rd9]; add.s32 %r2, %r2, 7; st.global.u32 [%rd9], %r2;"

/* Kernel 0 writes, kernel 1 of the same stream reads. */
Test(ptx_memory, programmatic_launch)
{
    struct snippet s = {.dependent_pair = true, .threads = 128};
    s.body = FIRST_WRITES "SECOND: griddepcontrol.wait;" SECOND_READS;
    expect_ok(s, 512);
    cr_assert_eq(out[127], 134);
    s.body = FIRST_WRITES "SECOND:" SECOND_READS;
    expect_failure(s, 0, "nothing orders");
}
