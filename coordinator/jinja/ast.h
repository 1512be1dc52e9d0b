/* The syntax tree of a chat template.  Made once by jinja_parse, never changed afterwards: several
 * threads may walk it.  All of it lies in the template's arena. */
#ifndef COORDINATOR_JINJA_AST_H
#define COORDINATOR_JINJA_AST_H

#include "coordinator/jinja/value.h"

/* A name of the template.  Names are interned: equal names are equal pointers. */
struct jsym {
    struct jstr s;
    uint32_t index; /* 0, 1, ... */
    struct jsym *next;
};

enum jop {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
};

enum jnode_type {
    /* expressions */
    N_CONST,   /* value */
    N_NAME,    /* sym */
    N_NSREF,   /* sym.attr, as an assignment target */
    N_TUPLE,   /* kids */
    N_LIST,    /* kids */
    N_DICT,    /* kids: key, value, key, value, ... */
    N_ATTR,    /* a.name */
    N_ITEM,    /* a[b] */
    N_SLICE,   /* a[kids 0:1:2], each may be NULL */
    N_CALL,    /* a(args) */
    N_FILTER,  /* a | name(args); a NULL in a filter block */
    N_TEST,    /* a is name(args) */
    N_COND,    /* a if b else c; c may be NULL */
    N_OR,      /* a or b */
    N_AND,     /* a and b */
    N_NOT,     /* not a */
    N_NEG,     /* -a */
    N_POS,     /* +a */
    N_BINARY,  /* a op b */
    N_COMPARE, /* a, then kids (operands) each with its op */
    N_CONCAT,  /* kids joined by ~ */
    /* statements */
    N_TEXT,         /* value */
    N_PRINT,        /* a */
    N_IF,           /* a: test, body, c: next N_IF or NULL, other: else */
    N_FOR,          /* target a in b if c: body, other; sym: "loop" */
    N_SET,          /* target a = b */
    N_SET_BLOCK,    /* target a, filter b or NULL, body */
    N_MACRO,        /* sym, params, body */
    N_CALL_BLOCK,   /* a: N_CALL, params, body */
    N_FILTER_BLOCK, /* b: filters, body */
    N_WITH,         /* kids: target, value, target, value, ...; body */
    N_SCOPE,        /* body in its own scope: generation */
    N_BREAK,
    N_CONTINUE,
};

struct jbody {
    struct jnode **items;
    size_t n;
};

struct jparam {
    const struct jsym *name;
    struct jnode *value; /* default, or NULL */
};

struct jkeyword {
    const struct jsym *name;
    struct jnode *value;
};

struct jcall { /* what stands between the parentheses of a call */
    struct jbody args;
    struct jkeyword *keywords;
    size_t n_keywords;
    struct jnode *star, *star_star; /* *a, **b; or NULL */
};

struct jsignature { /* of a macro or call block */
    struct jparam *params;
    size_t n_params;
    const struct jsym *varargs, *kwargs,
        *caller; /* set when the body uses the name and no parameter has it */
};

struct jnode {
    uint8_t type;   /* enum jnode_type */
    uint8_t op;     /* enum jop */
    bool recursive; /* N_FOR */
    uint32_t line;  /* from 1 */
    struct jnode *a, *b, *c;
    const struct jsym *sym;  /* name of a variable, attribute, filter, test or macro */
    const struct jsym *attr; /* N_NSREF */
    struct jval value;
    struct jbody kids;
    struct jbody body, other;
    struct jcall *call;
    struct jsignature *signature;
};

struct jtree {
    struct jbody body;
    struct jsym **buckets;
    size_t n_buckets; /* a power of two */
    uint32_t n_syms;
};

/* Parses len bytes of UTF-8 into m.  ST_FORMAT and ST_UNSUPPORTED name the line. */
MUST_CHECK enum status jinja_parse(struct jmem *m, const char *source, size_t len,
                                   struct jtree *out);

/* The symbol of a name, made when it is new. */
MUST_CHECK enum status jtree_intern(struct jmem *m, struct jtree *t, const char *p, size_t n,
                                    struct jsym **out);

#endif
