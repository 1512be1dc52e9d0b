#include "ptx/ptx_snippet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char before[] = ".version 9.0\n.target sm_90a\n.address_size 64\n"
                             ".extern .shared .align 128 .b8 dyn[];\n"
                             ".entry k(.param .u64 in, .param .u64 out, .param .u32 which)\n{\n"
                             ".reg .pred %p<8>; .reg .b16 %rs<16>; .reg .b32 %r<64>;\n"
                             ".reg .f32 %f<32>; .reg .f64 %fd<8>; .reg .b64 %rd<32>;\n"
                             ".shared .align 16 .b8 sm[4096]; .shared .align 4 .b8 sm2[64];\n"
                             ".local .align 16 .b8 depot[64];\n"
                             "ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];\n"
                             "ld.param.u32 %r0, [which]; mov.u32 %r1, %tid.x;\n";

static enum status parse(const char *body, struct ptx_module **out)
{
    size_t n = sizeof before + strlen(body) + 16;
    char *text = malloc(n);
    if (!text)
        FAIL(ST_NOMEM, "no memory for a snippet");
    snprintf(text, n, "%s%s\nret;\n}\n", before, body);
    enum status st = ptx_parse(out, text, strlen(text));
    free(text);
    return st;
}

static enum status launch(struct ptx_machine *m, const struct ptx_module *module,
                          const struct snippet *s, const void *in, const void *out)
{
    struct {
        const void *in, *out;
        uint32_t which;
    } params = {in, out, 0};
    struct ptx_launch l = {.module = module,
                           .entry = ptx_find(module, "k"),
                           .grid = {s->blocks ? s->blocks : 1, 1, 1},
                           .block = {s->threads ? s->threads : 32, 1, 1},
                           .dynamic_bytes = s->dynamic_bytes,
                           .params = &params};
    TRY(ptx_enqueue(m, &l));
    if (s->dependent_pair) {
        params.which = 1;
        l.dependent = true;
        TRY(ptx_enqueue(m, &l));
    }
    return ptx_run(m);
}

static enum status run(struct ptx_machine *m, const struct ptx_module *module,
                       const struct snippet *s, void *in, void *out, size_t n_out)
{
    TRY(ptx_memory_add(ptx_machine_memory(m), in, SNIPPET_IN, true));
    TRY(ptx_memory_add(ptx_machine_memory(m), out, SNIPPET_OUT, true));
    ptx_memory_define(ptx_machine_memory(m), in, SNIPPET_IN);
    TRY(launch(m, module, s, in, out));
    return ptx_memory_check(ptx_machine_memory(m), out, n_out);
}

enum status snippet_out(const struct snippet *s, const void *in, size_t n_in, void *out,
                        size_t n_out)
{
    struct ptx_module *module = NULL;
    struct ptx_machine *m = NULL;
    void *a = aligned_alloc(256, SNIPPET_IN), *b = aligned_alloc(256, SNIPPET_OUT);
    enum status st = a && b ? parse(s->body, &module) : ST_NOMEM;
    if (st == ST_OK)
        st = ptx_machine_create(
            &m, &(struct ptx_config){.seed = s->seed, .mma = s->mma, .max_instrs = s->max_instrs});
    if (st == ST_OK) {
        memset(a, 0, SNIPPET_IN);
        memcpy(a, in, n_in);
        memset(b, 0, SNIPPET_OUT);
        st = run(m, module, s, a, b, n_out);
        if (out)
            memcpy(out, b, SNIPPET_OUT);
    }
    ptx_machine_destroy(m);
    ptx_module_destroy(module);
    free(a);
    free(b);
    return st;
}

enum status snippet_run(const struct snippet *s, const void *in, size_t n_in, void *out)
{
    return snippet_out(s, in, n_in, out, 0);
}
