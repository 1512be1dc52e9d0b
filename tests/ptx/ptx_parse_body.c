/* The statements of an entry: register declarations, labels, instructions and their operands. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx_parse.h"

enum { MAX_REGS = 1 << 15, MAX_DEPTH = 16, OPCODES = 512 };

static enum status take_reg_declaration(struct ptx_parser *ps)
{
    struct ptx_lexer *lx = &ps->lx;
    enum ptx_type type;
    TRY(ptx_next(lx));
    TRY(ptx_take_type(ps, &type));
    for (;;) {
        struct ptx_regs r = {.n = -1, .type = type, .depth = ps->depth, .first = ps->entry->n_regs};
        TRY(ptx_take_word(lx, r.prefix));
        if (ptx_is_sign(lx, '<')) {
            uint64_t n;
            TRY(ptx_next(lx));
            TRY(ptx_take_number(lx, &n));
            if (n > MAX_REGS)
                FAIL(ST_RANGE, "line %d: %llu registers", lx->line, (unsigned long long)n);
            r.n = (int32_t)n;
            TRY(ptx_take_sign(lx, '>'));
        }
        ps->entry->n_regs += r.n < 0 ? 1 : r.n;
        if (ps->entry->n_regs > MAX_REGS)
            FAIL(ST_RANGE, "line %d: more than %d registers", lx->line, MAX_REGS);
        TRY(ptx_grow((void **)&ps->regs, ps->n_regs, sizeof *ps->regs));
        ps->regs[ps->n_regs++] = r;
        if (!ptx_is_sign(lx, ','))
            return ptx_take_sign(lx, ';');
        TRY(ptx_next(lx));
    }
}

static int32_t find_special(const char *name)
{
    static const struct {
        const char *name;
        int32_t first;
    } triples[] = {
        {"%tid.", PTX_TID}, {"%ntid.", PTX_NTID}, {"%ctaid.", PTX_CTAID}, {"%nctaid.", PTX_NCTAID}};
    if (strcmp(name, "%laneid") == 0)
        return PTX_LANEID;
    if (strcmp(name, "%globaltimer") == 0)
        return PTX_GLOBALTIMER;
    for (size_t i = 0; i < ARRAY_LEN(triples); i++) {
        size_t n = strlen(triples[i].name);
        if (strncmp(name, triples[i].name, n) == 0 && name[n] >= 'x' && name[n] <= 'z' &&
            name[n + 1] == 0)
            return triples[i].first + (name[n] - 'x');
    }
    return -1;
}

/* The register named so; -1: none.  The innermost declaration counts. */
static int32_t find_reg(const struct ptx_parser *ps, const char *name, enum ptx_type *type)
{
    size_t len = strlen(name), stem = len;
    while (stem > 0 && isdigit((unsigned char)name[stem - 1]))
        stem--;
    long index = stem < len && len - stem < 9 ? strtol(name + stem, NULL, 10) : -1;
    for (int32_t i = ps->n_regs - 1; i >= 0; i--) {
        const struct ptx_regs *r = &ps->regs[i];
        *type = r->type;
        if (r->n < 0 && strcmp(r->prefix, name) == 0)
            return r->first;
        if (index >= 0 && index < r->n && strlen(r->prefix) == stem &&
            memcmp(r->prefix, name, stem) == 0)
            return r->first + (int32_t)index;
    }
    *type = PTX_U32;
    return find_special(name);
}

static enum status add_constant(struct ptx_entry *e, uint64_t value, int32_t *out)
{
    int32_t i = 0;
    while (i < e->n_constants && e->constant[(size_t)i * PTX_LANES] != value)
        i++;
    *out = ~i;
    if (i < e->n_constants)
        return ST_OK;
    TRY(ptx_grow((void **)&e->constant, i, PTX_LANES * sizeof *e->constant));
    for (int lane = 0; lane < PTX_LANES; lane++)
        e->constant[(size_t)i * PTX_LANES + (size_t)lane] = value;
    e->n_constants++;
    return ST_OK;
}

/* Where shared and local variables are in the generic address space is ptx_block.h's business: a
 * name gives the offset in its space. */
static enum status take_value(struct ptx_parser *ps, int32_t *out, enum ptx_type *type)
{
    struct ptx_lexer *lx = &ps->lx;
    bool minus = ptx_is_sign(lx, '-');
    *type = PTX_NO_TYPE;
    if (minus)
        TRY(ptx_next(lx));
    if (lx->token == PTX_NUMBER) {
        TRY(add_constant(ps->entry, minus ? 0 - lx->value : lx->value, out));
        return ptx_next(lx);
    }
    if (lx->token != PTX_WORD || minus)
        return ptx_unexpected(lx, "an operand");
    *out = find_reg(ps, lx->word, type);
    if (*out < 0) {
        const struct ptx_var *v = ptx_find_var(ps->entry, lx->word);
        if (!v)
            FAIL(ST_FORMAT, "line %d: %s is not declared", lx->line, lx->word);
        TRY(add_constant(ps->entry, v->offset, out));
    }
    return ptx_next(lx);
}

/* [reg], [reg+4], [reg+-4], [name+4] */
static enum status take_address(struct ptx_parser *ps, struct ptx_operand *o)
{
    struct ptx_lexer *lx = &ps->lx;
    enum ptx_type type;
    o->kind = PTX_ADDRESS;
    TRY(ptx_next(lx));
    TRY(take_value(ps, &o->reg[0], &type));
    if (ptx_is_sign(lx, '+')) {
        TRY(ptx_next(lx));
        bool minus = ptx_is_sign(lx, '-');
        if (minus)
            TRY(ptx_next(lx));
        uint64_t offset;
        TRY(ptx_take_number(lx, &offset));
        if (offset > INT32_MAX)
            FAIL(ST_RANGE, "line %d: an address offset beyond 31 bits", lx->line);
        o->offset = minus ? -(int64_t)offset : (int64_t)offset;
    }
    return ptx_take_sign(lx, ']');
}

static enum status take_vector(struct ptx_parser *ps, struct ptx_operand *o)
{
    struct ptx_lexer *lx = &ps->lx;
    enum ptx_type type;
    o->kind = PTX_VECTOR;
    o->n = 0;
    do {
        if (o->n == PTX_MAX_VECTOR)
            FAIL(ST_UNSUPPORTED, "line %d: a vector of more than %d", lx->line, PTX_MAX_VECTOR);
        TRY(ptx_next(lx));
        TRY(take_value(ps, &o->reg[o->n++], &type));
    } while (ptx_is_sign(lx, ','));
    return ptx_take_sign(lx, '}');
}

static enum status add_reference(struct ptx_parser *ps, struct ptx_operand *o)
{
    o->kind = PTX_TARGET;
    TRY(ptx_grow((void **)&ps->reference, ps->n_references, sizeof *ps->reference));
    struct ptx_label *r = &ps->reference[ps->n_references++];
    r->instr = ps->entry->n_instr;
    return ptx_take_word(&ps->lx, r->name);
}

static enum status take_operand(struct ptx_parser *ps, struct ptx_operand *o, bool label)
{
    struct ptx_lexer *lx = &ps->lx;
    enum ptx_type type;
    *o = (struct ptx_operand){.kind = PTX_REG, .n = 1};
    if (label)
        return add_reference(ps, o);
    if (ptx_is_sign(lx, '['))
        return take_address(ps, o);
    if (ptx_is_sign(lx, '{'))
        return take_vector(ps, o);
    TRY(take_value(ps, &o->reg[0], &type));
    if (!ptx_is_sign(lx, '|'))
        return ST_OK;
    TRY(ptx_next(lx));
    o->kind = PTX_PAIR;
    o->n = 2;
    return take_value(ps, &o->reg[1], &type);
}

static bool writable(const struct ptx_operand *o)
{
    for (int32_t i = 0; i < o->n; i++)
        if (o->reg[i] < PTX_N_SPECIAL)
            return false;
    return true;
}

/* Does operand i fit its letter of ptx_forms.c? */
static bool fits(const struct ptx_instr *in, int32_t i, char letter)
{
    const struct ptx_operand *o = &in->operand[i];
    switch (letter) {
    case 'd':
        return o->kind == PTX_REG && writable(o);
    case 'r':
        return o->kind == PTX_REG;
    case 'm': { /* one side may be a vector that fills the other */
        bool whole = o->kind == PTX_REG || (o->kind == PTX_VECTOR && (o->n == 2 || o->n == 4) &&
                                            ptx_type_bytes(in->type[0]) >= 2 * (size_t)o->n &&
                                            (i == 0 || in->operand[0].kind == PTX_REG));
        return whole && (i > 0 || writable(o));
    }
    case 'v': {
        bool loads = in->op == PTX_LD || in->op == PTX_LDMATRIX;
        bool shape = in->vector == 1 ? o->kind == PTX_REG || (o->kind == PTX_VECTOR && o->n == 1)
                                     : o->kind == PTX_VECTOR && o->n == in->vector;
        return shape && (!loads || writable(o));
    }
    case '4':
    case '2':
    case '1':
        return o->kind == PTX_VECTOR && o->n == letter - '0' && (i > 0 || writable(o));
    case 'q':
        return (o->kind == PTX_REG || o->kind == PTX_PAIR) && writable(o);
    case 'a':
        return o->kind == PTX_ADDRESS;
    default:
        return o->kind == PTX_TARGET;
    }
}

static enum status take_operands(struct ptx_parser *ps, struct ptx_instr *in, const char *form,
                                 const char *opcode)
{
    struct ptx_lexer *lx = &ps->lx;
    bool optional = false;
    for (; *form; form++) {
        if (*form == '?') {
            optional = true;
            continue;
        }
        if (optional && ptx_is_sign(lx, ';'))
            break;
        if (in->n_operands > 0)
            TRY(ptx_take_sign(lx, ','));
        TRY(take_operand(ps, &in->operand[in->n_operands], *form == 'l'));
        if (!fits(in, in->n_operands, *form))
            FAIL(ST_FORMAT, "line %d: %s: operand %d is of another kind", in->line, opcode,
                 in->n_operands + 1);
        in->n_operands++;
    }
    return ptx_take_sign(lx, ';');
}

/* Keeps the opcode's text for messages, once. */
static enum status add_name(struct ptx_module *m, const char *text, int32_t *out)
{
    size_t n = strlen(text) + 1, at = 0;
    while (at < m->n_names && strcmp(m->names + at, text) != 0)
        at += strlen(m->names + at) + 1;
    *out = (int32_t)at;
    if (at < m->n_names)
        return ST_OK;
    char *more = realloc(m->names, at + n);
    if (!more)
        FAIL(ST_NOMEM, "no memory for PTX");
    m->names = more;
    memcpy(m->names + at, text, n);
    m->n_names += n;
    return ST_OK;
}

/* An instruction without operands; *form: the operands that it takes. */
static enum status find_opcode(struct ptx_parser *ps, const char *text, struct ptx_instr *out,
                               const char **form)
{
    uint32_t hash = 2166136261U; /* FNV-1a (Fowler, Noll, Vo) */
    for (const char *c = text; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619U;
    if (!ps->opcode)
        ps->opcode = calloc(OPCODES, sizeof *ps->opcode);
    if (!ps->opcode)
        FAIL(ST_NOMEM, "no memory for PTX");
    struct ptx_opcode *o = &ps->opcode[hash % OPCODES];
    if (strcmp(o->text, text) != 0) {
        o->text[0] = 0;
        TRY(ptx_form(text, out->line, &o->instr, &o->form));
        TRY(add_name(ps->module, text, &o->instr.text));
        memcpy(o->text, text, strlen(text) + 1);
    }
    int32_t line = out->line;
    *out = o->instr;
    out->line = line;
    *form = o->form;
    return ST_OK;
}

/* "@!%p1", before an instruction. */
static enum status take_guard(struct ptx_parser *ps, int32_t *reg, bool *negated)
{
    struct ptx_lexer *lx = &ps->lx;
    enum ptx_type type;
    *reg = -1;
    *negated = false;
    if (!ptx_is_sign(lx, '@'))
        return ST_OK;
    TRY(ptx_next(lx));
    *negated = ptx_is_sign(lx, '!');
    if (*negated)
        TRY(ptx_next(lx));
    TRY(take_value(ps, reg, &type));
    if (type != PTX_PRED)
        FAIL(ST_FORMAT, "line %d: a guard that is no predicate", lx->line);
    return ST_OK;
}

static enum status take_instr(struct ptx_parser *ps)
{
    struct ptx_lexer *lx = &ps->lx;
    struct ptx_entry *e = ps->entry;
    struct ptx_instr in;
    char opcode[PTX_WORD_BYTES];
    const char *form = NULL;
    bool negated;
    int32_t guard;
    TRY(take_guard(ps, &guard, &negated));
    in.line = lx->line;
    TRY(ptx_take_word(lx, opcode));
    TRY(find_opcode(ps, opcode, &in, &form));
    in.guard = guard;
    in.guard_not = negated;
    TRY(take_operands(ps, &in, form, opcode));
    TRY(ptx_grow((void **)&e->instr, e->n_instr, sizeof *e->instr));
    e->instr[e->n_instr++] = in;
    return ST_OK;
}

static enum status add_label(struct ptx_parser *ps, const char *name)
{
    for (int32_t i = 0; i < ps->n_labels; i++)
        if (strcmp(ps->label[i].name, name) == 0)
            FAIL(ST_FORMAT, "line %d: a second label %s", ps->lx.line, name);
    TRY(ptx_grow((void **)&ps->label, ps->n_labels, sizeof *ps->label));
    struct ptx_label *l = &ps->label[ps->n_labels++];
    memcpy(l->name, name, PTX_WORD_BYTES);
    l->instr = ps->entry->n_instr;
    return ST_OK;
}

static enum status resolve(struct ptx_parser *ps)
{
    struct ptx_entry *e = ps->entry;
    for (int32_t r = 0; r < ps->n_references; r++) {
        const struct ptx_label *ref = &ps->reference[r];
        int32_t i = 0;
        while (i < ps->n_labels && strcmp(ps->label[i].name, ref->name) != 0)
            i++;
        if (i == ps->n_labels)
            FAIL(ST_FORMAT, "line %d: no label %s", e->instr[ref->instr].line, ref->name);
        e->instr[ref->instr].operand[0].offset = ps->label[i].instr;
    }
    return ST_OK;
}

/* ".pragma" strings are hints to the compiler; ".loc" is debug information. */
static enum status take_directive(struct ptx_parser *ps)
{
    struct ptx_lexer *lx = &ps->lx;
    if (ptx_is_word(lx, ".reg"))
        return take_reg_declaration(ps);
    if (ptx_is_word(lx, ".loc"))
        return ptx_skip_line(lx);
    if (ptx_is_word(lx, ".pragma")) {
        TRY(ptx_next(lx));
        if (lx->token != PTX_STRING)
            return ptx_unexpected(lx, "a string");
        TRY(ptx_next(lx));
        return ptx_take_sign(lx, ';');
    }
    bool shared = ptx_is_word(lx, ".shared");
    if (!shared && !ptx_is_word(lx, ".local"))
        FAIL(ST_UNSUPPORTED, "line %d: unknown directive %s", lx->line, lx->word);
    TRY(ptx_next(lx));
    TRY(ptx_take_var(ps, shared ? PTX_SHARED : PTX_LOCAL, false));
    return ptx_take_sign(lx, ';');
}

static enum status close_brace(struct ptx_parser *ps)
{
    ps->depth--;
    while (ps->n_regs > 0 && ps->regs[ps->n_regs - 1].depth > ps->depth)
        ps->n_regs--;
    return ptx_next(&ps->lx);
}

static enum status take_statement(struct ptx_parser *ps)
{
    struct ptx_lexer *lx = &ps->lx;
    if (ptx_is_sign(lx, '{')) {
        if (ps->depth++ == MAX_DEPTH)
            FAIL(ST_RANGE, "line %d: braces deeper than %d", lx->line, MAX_DEPTH);
        return ptx_next(lx);
    }
    if (ptx_is_sign(lx, '}'))
        return close_brace(ps);
    if (ptx_is_sign(lx, '@'))
        return take_instr(ps);
    if (lx->token != PTX_WORD)
        return ptx_unexpected(lx, "a statement");
    if (lx->word[0] == '.')
        return take_directive(ps);
    if (lx->at < lx->end && *lx->at == ':') {
        TRY(add_label(ps, lx->word));
        TRY(ptx_next(lx));
        return ptx_take_sign(lx, ':');
    }
    return take_instr(ps);
}

/* Does nothing ever run behind it? */
static bool leaves(const struct ptx_instr *in)
{
    return (in->op == PTX_RET || in->op == PTX_BRA) && in->guard < 0;
}

enum status ptx_take_body(struct ptx_parser *ps)
{
    struct ptx_entry *e = ps->entry;
    if (!ptx_is_sign(&ps->lx, '{'))
        return ptx_unexpected(&ps->lx, "'{'");
    ps->depth = ps->n_regs = ps->n_labels = ps->n_references = 0;
    do
        TRY(take_statement(ps));
    while (ps->depth > 0);
    if (e->n_instr == 0 || !leaves(&e->instr[e->n_instr - 1]))
        FAIL(ST_FORMAT, "%s does not end with ret or a branch", e->name);
    for (int32_t i = 0; i < ps->n_labels; i++)
        if (ps->label[i].instr == e->n_instr)
            FAIL(ST_FORMAT, "%s: nothing follows label %s", e->name, ps->label[i].name);
    return resolve(ps);
}

void ptx_body_free(struct ptx_parser *ps)
{
    free(ps->regs);
    free(ps->label);
    free(ps->reference);
    free(ps->opcode);
}
