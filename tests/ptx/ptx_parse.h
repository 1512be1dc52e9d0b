/* Between ptx_parse.c and ptx_parse_body.c: the state of one ptx_parse. */
#ifndef TESTS_PTX_PTX_PARSE_H
#define TESTS_PTX_PTX_PARSE_H

#include "ptx/ptx_lex.h"
#include "ptx/ptx_module.h"

/* ".reg .b32 %r<23>;" names %r0 to %r22, ".reg .b64 %SPL;" one register. */
struct ptx_regs {
    char prefix[PTX_WORD_BYTES];
    int32_t n; /* -1: the name alone */
    int32_t first;
    enum ptx_type type;
    int32_t depth; /* of the braces that it is declared in */
};

struct ptx_label {
    char name[PTX_WORD_BYTES];
    int32_t instr;
};

/* An opcode that has been seen, and what it means. */
struct ptx_opcode {
    char text[PTX_WORD_BYTES];
    struct ptx_instr instr;
    const char *form;
};

struct ptx_parser {
    struct ptx_lexer lx;
    struct ptx_module *module;
    struct ptx_entry of_module; /* variables declared outside entries */
    struct ptx_entry *entry;
    struct ptx_regs *regs;
    int32_t n_regs, depth;
    struct ptx_label *label;     /* defined in the entry */
    struct ptx_label *reference; /* instr jumps to name */
    int32_t n_labels, n_references;
    struct ptx_opcode *opcode; /* by a hash of their text */
};

/* Makes room for element n of an array that has n elements of `size` bytes. */
MUST_CHECK enum status ptx_grow(void **array, int32_t n, size_t size);
MUST_CHECK enum status ptx_take_type(struct ptx_parser *ps, enum ptx_type *out);
/* Declares a variable of the current entry. */
MUST_CHECK enum status ptx_take_var(struct ptx_parser *ps, enum ptx_space space, bool is_extern);
MUST_CHECK enum status ptx_add_var(struct ptx_parser *ps, const struct ptx_var *v);
const struct ptx_var *ptx_find_var(const struct ptx_entry *e, const char *name);

/* "{ ... }" of the current entry. */
MUST_CHECK enum status ptx_take_body(struct ptx_parser *ps);
void ptx_body_free(struct ptx_parser *ps);

#endif
