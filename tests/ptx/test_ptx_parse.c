/* The reader of PTX text: what it takes, what it names in its errors, and cut text. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx_module.h"

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define ENTRY                                                                                      \
    HEAD ".entry k(.param .u64 p, .param .align 8 .b8 s[24], .param .u32 n)\n.maxntid 256, 1, "    \
         "1\n{\n"
static const char whole[] =
    "// a comment\n" ENTRY "\t.reg .pred %p<3>;\n\t.reg .b32 %r<4>, %x;\n\t.reg .b64 %SPL;\n"
    "\t.shared .align 16 .b8 a[20];\n\t.shared .f32 b;\n\t.local .align 4 .b8 depot[8];\n"
    "\t.loc 1 20 3, function_name $L__1, inlined_at 1 2 3\n\t.pragma \"nounroll\";\n"
    "\tmov.u32 %r1, %tid.x; /* two\nlines */ mov.u64 %SPL, depot;\n"
    "$L0:\n\tadd.s32 %r1, %r1, -0x10;\n\tmov.f32 %x, 0f3F800000;\n"
    "\t{ .reg .b32 %x; mov.u32 %x, 0; }\n\tsetp.ne.s32 %p1, %r1, 0;\n\t@!%p1 bra $L0;\n"
    "\tret;\n}\n";

static enum status parse(const char *text, struct ptx_module **out)
{
    return ptx_parse(out, text, strlen(text));
}

Test(ptx_parse, a_whole_entry)
{
    struct ptx_module *m;
    cr_assert_eq(parse(whole, &m), ST_OK, "%s", status_detail());
    const struct ptx_entry *e = ptx_find(m, "k");
    cr_assert(e);
    cr_assert_null(ptx_find(m, "kk"));
    cr_assert_eq(e->max_threads, 256);
    cr_assert_eq(e->param_bytes, 36);
    cr_assert_eq(e->shared_bytes, 20 + 64 + 4);
    cr_assert_eq(e->local_bytes, 8);
    cr_assert_eq(e->n_instr, 8);
    cr_assert_eq(e->instr[6].operand[0].offset, 2);
    cr_assert(e->instr[6].guard_not);
    cr_assert_neq(e->instr[5].operand[0].reg[0], e->instr[3].operand[0].reg[0]);
    ptx_module_destroy(m);
}

/* Any beginning of it is an error, and nothing behind its end is read. */
Test(ptx_parse, cut_text)
{
    for (size_t n = 0; n + 2 < sizeof whole; n++) {
        struct ptx_module *m;
        char *copy = malloc(n + 1);
        memcpy(copy, whole, n);
        enum status st = ptx_parse(&m, copy, n);
        if (st == ST_OK) {
            cr_assert(n <= strlen("// a comment\n" HEAD), "%zu", n);
            ptx_module_destroy(m);
        }
        free(copy);
    }
}

Test(ptx_parse, errors_name_what_is_wrong)
{
    static const struct {
        const char *body, *text;
    } rows[] = {
        {"foo.s32 %r1, %r1;", "unknown instruction foo.s32"},
        {"add.s32 %r1, %r9, %r9;", "%r9 is not declared"},
        {"add.s32 %r1, %r1;", "','"},
        {"add.s32 5, %r1, %r1;", "add.s32: operand 1"},
        {"mov.u32 %tid.x, 5;", "mov.u32: operand 1"},
        {"add.s32 %r1, [%r1], %r1;", "add.s32: operand 2"},
        {"ld.global.v4.u32 {%r1, %r1}, [%r1];", "operand 1"},
        {"ld.global.u32 %r1, %r1;", "operand 2"},
        {"bra NOWHERE;", "no label NOWHERE"},
        {"L: mov.u32 %r1, 1; L: ret;", "a second label L"},
        {"@%r1 ret;", "no predicate"},
        {"mov.u32 %r1, 99999999999999999999;", "beyond 64 bits"},
        {"mov.f32 %r1, 0f3F80;", "cannot be read"},
        {"mov.u32 %r1, 09;", "cannot be read"},
        {".reg .b32 %q<9999999>;", "9999999 registers"},
        {".shared .align 3 .b8 x[4];", ".align 3"},
        {".shared .b8 x[0];", "0 elements"},
        {".shared .b8 x[1048576];", "than there is room for"},
        {".const .b8 x[4];", "unknown directive .const"},
        {"mov.u32 %r1, \"x\";", "an operand"},
        {"mov.u32 %r1, `;", "character 96"},
        {"mov.b64 {%r1, %r1, %r1}, %r1;", "operand 1"},
        {"/* ", "a comment without end"},
        {".pragma \"x;\n", "a string without end"},
        {"mov.u32 %r1, 1; }", "does not end with ret or a branch"},
        {".reg .pred %p<2>; L: mov.u32 %r1, 1; @%p1 bra L; }", "does not end with ret or a branch"},
        {"ret; L: }", "nothing follows label L"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[1024];
        struct ptx_module *m;
        snprintf(text, sizeof text, "%s.reg .b32 %%r<4>;\n%s\nret;\n}\n", ENTRY, rows[i].body);
        cr_assert_neq(parse(text, &m), ST_OK, "%s", rows[i].body);
        cr_assert(strstr(status_text(), rows[i].text), "%s: %s", rows[i].body, status_text());
    }
}

Test(ptx_parse, what_is_outside_entries)
{
    struct ptx_module *m;
    cr_assert_eq(parse(HEAD ".func f() { ret; }", &m), ST_UNSUPPORTED);
    cr_assert(strstr(status_text(), ".func"));
    cr_assert_eq(parse(HEAD ".const .b8 x[4];", &m), ST_UNSUPPORTED);
    cr_assert_eq(parse(HEAD ".entry k() { ret; } .entry k() { ret; }", &m), ST_FORMAT);
    cr_assert_eq(
        parse(HEAD
              ".file 1 \"a b\"\n.section .debug_str { .b8 1, 2 }\n.visible .entry k() { ret; }",
              &m),
        ST_OK, "%s", status_detail());
    cr_assert_eq(m->n_entries, 1);
    ptx_module_destroy(m);
}
