/* Modules, entries and their variables; ptx_parse_body.c reads the statements of an entry. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx_parse.h"

enum { MAX_VAR_BYTES = 1 << 20, MAX_ALIGN = 1024 };

enum status ptx_grow(void **array, int32_t n, size_t size)
{
    if (n & (n - 1)) /* room for the next power of two */
        return ST_OK;
    void *more = realloc(*array, (n ? 2 * (size_t)n : 1) * size);
    if (!more)
        FAIL(ST_NOMEM, "no memory for PTX");
    *array = more;
    return ST_OK;
}

const struct ptx_var *ptx_find_var(const struct ptx_entry *e, const char *name)
{
    for (int32_t i = 0; i < e->n_vars; i++)
        if (strcmp(e->var[i].name, name) == 0)
            return &e->var[i];
    return NULL;
}

static size_t align_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Parameters one after the other, as the C ABI has a structure; shared variables with gaps, the
 * dynamic one behind all that may be static. */
static enum status place(struct ptx_entry *e, struct ptx_var *v)
{
    size_t *end = v->space == PTX_PARAM    ? &e->param_bytes
                  : v->space == PTX_SHARED ? &e->shared_bytes
                                           : &e->local_bytes;
    if (v->bytes == 0) {
        v->offset = PTX_DYNAMIC_AT;
        e->has_dynamic = true;
        return ST_OK;
    }
    v->offset = align_up(*end + (v->space == PTX_SHARED && *end ? PTX_SHARED_GAP : 0), v->align);
    *end = v->offset + v->bytes;
    if (*end > PTX_DYNAMIC_AT - PTX_SHARED_GAP)
        FAIL(ST_RANGE, "%s: more variables than there is room for", v->name);
    return ST_OK;
}

enum status ptx_add_var(struct ptx_parser *ps, const struct ptx_var *v)
{
    struct ptx_entry *e = ps->entry;
    if (ptx_find_var(e, v->name))
        FAIL(ST_FORMAT, "line %d: a second variable %s", ps->lx.line, v->name);
    TRY(ptx_grow((void **)&e->var, e->n_vars, sizeof *e->var));
    char *name = strdup(v->name);
    if (!name)
        FAIL(ST_NOMEM, "no memory for PTX");
    e->var[e->n_vars] = *v;
    e->var[e->n_vars].name = name;
    return place(e, &e->var[e->n_vars++]);
}

static enum ptx_type type_named(const char *word)
{
    static const char *const names[] = {
        [PTX_PRED] = ".pred", [PTX_B8] = ".b8",   [PTX_B16] = ".b16", [PTX_B32] = ".b32",
        [PTX_B64] = ".b64",   [PTX_U8] = ".u8",   [PTX_U16] = ".u16", [PTX_U32] = ".u32",
        [PTX_U64] = ".u64",   [PTX_S8] = ".s8",   [PTX_S16] = ".s16", [PTX_S32] = ".s32",
        [PTX_S64] = ".s64",   [PTX_F32] = ".f32", [PTX_F64] = ".f64"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i] && strcmp(names[i], word) == 0)
            return (enum ptx_type)i;
    return PTX_NO_TYPE;
}

enum status ptx_take_type(struct ptx_parser *ps, enum ptx_type *out)
{
    *out = ps->lx.token == PTX_WORD ? type_named(ps->lx.word) : PTX_NO_TYPE;
    return *out ? ptx_next(&ps->lx) : ptx_unexpected(&ps->lx, "a type");
}

/* ".align 16 .b8 name[1536]"; [] is of the size that a launch gives. */
enum status ptx_take_var(struct ptx_parser *ps, enum ptx_space space, bool is_extern)
{
    struct ptx_lexer *lx = &ps->lx;
    struct ptx_var v = {.space = space};
    char name[PTX_WORD_BYTES];
    uint64_t align = 0, n = 1;
    enum ptx_type type;
    if (ptx_is_word(lx, ".align")) {
        TRY(ptx_next(lx));
        TRY(ptx_take_number(lx, &align));
        if (align == 0 || align > MAX_ALIGN || (align & (align - 1)))
            FAIL(ST_RANGE, "line %d: .align %llu", lx->line, (unsigned long long)align);
    }
    TRY(ptx_take_type(ps, &type));
    TRY(ptx_take_word(lx, name));
    v.name = name;
    if (ptx_is_sign(lx, '[')) {
        n = 0;
        TRY(ptx_next(lx));
        if (!ptx_is_sign(lx, ']')) {
            TRY(ptx_take_number(lx, &n));
            if (n == 0 || n > MAX_VAR_BYTES)
                FAIL(ST_RANGE, "line %d: %s has %llu elements", lx->line, name,
                     (unsigned long long)n);
        }
        TRY(ptx_take_sign(lx, ']'));
    }
    v.align = align ? align : ptx_type_bytes(type);
    v.bytes = n * ptx_type_bytes(type);
    if (v.align == 0 || (n == 0) != is_extern)
        FAIL(ST_FORMAT, "line %d: %s has no size", lx->line, name);
    return ptx_add_var(ps, &v);
}

static enum status take_params(struct ptx_parser *ps)
{
    struct ptx_lexer *lx = &ps->lx;
    TRY(ptx_take_sign(lx, '('));
    while (!ptx_is_sign(lx, ')')) {
        if (!ptx_is_word(lx, ".param"))
            return ptx_unexpected(lx, ".param");
        TRY(ptx_next(lx));
        TRY(ptx_take_var(ps, PTX_PARAM, false));
        if (!ptx_is_sign(lx, ')'))
            TRY(ptx_take_sign(lx, ','));
    }
    return ptx_next(lx);
}

/* .maxntid x, y, z and the directives that change only the compiler's choices. */
static enum status take_directives(struct ptx_parser *ps)
{
    struct ptx_lexer *lx = &ps->lx;
    while (lx->token == PTX_WORD) {
        bool threads = ptx_is_word(lx, ".maxntid");
        if (!threads && !ptx_is_word(lx, ".minnctapersm"))
            FAIL(ST_UNSUPPORTED, "line %d: unknown directive %s", lx->line, lx->word);
        uint64_t n = 1;
        do {
            uint64_t one;
            TRY(ptx_next(lx));
            TRY(ptx_take_number(lx, &one));
            if (one > 1024)
                FAIL(ST_RANGE, "line %d: a block of %llu threads", lx->line,
                     (unsigned long long)one);
            n *= one;
        } while (ptx_is_sign(lx, ','));
        if (n == 0 || n > 1024)
            FAIL(ST_RANGE, "line %d: a block of %llu threads", lx->line, (unsigned long long)n);
        if (threads)
            ps->entry->max_threads = (int32_t)n;
    }
    return ST_OK;
}

static enum status take_entry(struct ptx_parser *ps)
{
    struct ptx_module *m = ps->module;
    char name[PTX_WORD_BYTES];
    TRY(ptx_take_word(&ps->lx, name));
    if (ptx_find(m, name))
        FAIL(ST_FORMAT, "line %d: a second entry %s", ps->lx.line, name);
    TRY(ptx_grow((void **)&m->entry, m->n_entries, sizeof *m->entry));
    ps->entry = &m->entry[m->n_entries];
    *ps->entry = (struct ptx_entry){.n_regs = PTX_N_SPECIAL, .name = strdup(name)};
    if (!ps->entry->name)
        FAIL(ST_NOMEM, "no memory for PTX");
    m->n_entries++;
    for (int32_t i = 0; i < ps->of_module.n_vars; i++)
        TRY(ptx_add_var(ps, &ps->of_module.var[i]));
    if (ptx_is_sign(&ps->lx, '('))
        TRY(take_params(ps));
    TRY(take_directives(ps));
    return ptx_take_body(ps);
}

/* Debug information: ".section .name { ... }". */
static enum status skip_section(struct ptx_lexer *lx)
{
    while (!ptx_is_sign(lx, '{') && lx->token != PTX_END)
        TRY(ptx_next(lx));
    while (!ptx_is_sign(lx, '}')) {
        if (lx->token == PTX_END)
            return ptx_unexpected(lx, "'}'");
        TRY(ptx_next(lx));
    }
    return ptx_next(lx);
}

/* .target sm_90a */
static enum status take_target(struct ptx_parser *ps)
{
    TRY(ptx_next(&ps->lx));
    if (ps->lx.token != PTX_WORD || sscanf(ps->lx.word, "sm_%d", &ps->module->target) != 1)
        return ptx_unexpected(&ps->lx, "sm_ and a number");
    return ptx_skip_line(&ps->lx);
}

static enum status take_declaration(struct ptx_parser *ps)
{
    struct ptx_lexer *lx = &ps->lx;
    if (ptx_is_word(lx, ".target"))
        return take_target(ps);
    if (ptx_is_word(lx, ".version") || ptx_is_word(lx, ".file") || ptx_is_word(lx, ".address_size"))
        return ptx_skip_line(lx);
    if (ptx_is_word(lx, ".section"))
        return skip_section(lx);
    if (ptx_is_word(lx, ".visible") || ptx_is_word(lx, ".weak"))
        return ptx_next(lx);
    if (ptx_is_word(lx, ".entry")) {
        TRY(ptx_next(lx));
        return take_entry(ps);
    }
    bool is_extern = ptx_is_word(lx, ".extern");
    if (is_extern)
        TRY(ptx_next(lx));
    if (!ptx_is_word(lx, ".shared"))
        FAIL(ST_UNSUPPORTED, "line %d: unknown directive %s", lx->line,
             lx->token == PTX_WORD ? lx->word : "(not a word)");
    TRY(ptx_next(lx));
    ps->entry = &ps->of_module;
    TRY(ptx_take_var(ps, PTX_SHARED, is_extern));
    return ptx_take_sign(lx, ';');
}

static void destroy_entry(struct ptx_entry *e)
{
    for (int32_t i = 0; i < e->n_vars; i++)
        free(e->var[i].name);
    free(e->var);
    free(e->instr);
    free(e->constant);
    free(e->name);
}

void ptx_module_destroy(struct ptx_module *m)
{
    if (!m)
        return;
    for (int32_t i = 0; i < m->n_entries; i++)
        destroy_entry(&m->entry[i]);
    free(m->entry);
    free(m->names);
    free(m);
}

enum status ptx_parse(struct ptx_module **out, const char *text, size_t n)
{
    struct ptx_module *m = calloc(1, sizeof *m);
    if (!m)
        FAIL(ST_NOMEM, "no memory for PTX");
    struct ptx_parser ps = {.lx = {.at = text, .end = text + n, .line = 1}, .module = m};
    enum status st = ptx_next(&ps.lx);
    while (st == ST_OK && ps.lx.token != PTX_END)
        st = take_declaration(&ps);
    ptx_body_free(&ps);
    destroy_entry(&ps.of_module);
    if (st != ST_OK) {
        ptx_module_destroy(m);
        return st;
    }
    *out = m;
    return ST_OK;
}

const struct ptx_entry *ptx_find(const struct ptx_module *m, const char *name)
{
    for (int32_t i = 0; i < m->n_entries; i++)
        if (strcmp(m->entry[i].name, name) == 0)
            return &m->entry[i];
    return NULL;
}

size_t ptx_type_bytes(enum ptx_type t)
{
    static const uint8_t bytes[] = {
        [PTX_NO_TYPE] = 0, [PTX_PRED] = 0,  [PTX_B8] = 1,     [PTX_B16] = 2, [PTX_B32] = 4,
        [PTX_B64] = 8,     [PTX_U8] = 1,    [PTX_U16] = 2,    [PTX_U32] = 4, [PTX_U64] = 8,
        [PTX_S8] = 1,      [PTX_S16] = 2,   [PTX_S32] = 4,    [PTX_S64] = 8, [PTX_F16] = 2,
        [PTX_BF16] = 2,    [PTX_F16X2] = 4, [PTX_BF16X2] = 4, [PTX_F32] = 4, [PTX_F64] = 8};
    return bytes[t];
}
