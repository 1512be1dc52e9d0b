/* The values of the chat template engine: Python's, as far as Jinja templates can see them.
 * A value is 16 bytes and passed by pointer; everything behind it lives in the rendering's arena
 * and is never freed alone.  Used only by this folder's files; one rendering is
 * one thread. */
#ifndef COORDINATOR_JINJA_VALUE_H
#define COORDINATOR_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "coordinator/jinja/mem.h"

struct jrun; /* a rendering: run.h */
struct jnode;
struct jscope;
struct jargs;

enum jtype {
    J_UNDEF,
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_BIG, /* a whole number beyond 64 bits: carried through as its digits */
    J_STR,
    J_LIST,
    J_TUPLE,
    J_DICT,
    J_VIEW, /* dict.keys(), .values(), .items() */
    J_RANGE,
    J_ITER, /* a generator: can be gone through once */
    J_NAMESPACE,
    J_MACRO,
    J_METHOD, /* "abc".upper, bound */
    J_FUNC,   /* range, raise_exception, ... */
    J_LOOP,
    J_CYCLER,
    J_JOINER,
    J_MISSING, /* an argument that was not given; templates never see it */
};

struct jstr {
    const char *p; /* UTF-8, not ended by NUL */
    size_t n;      /* bytes */
    size_t n_chars;
};

struct jval {
    uint8_t type; /* enum jtype */
    bool safe;    /* J_STR: Markup, which escapes what is joined to it */
    union {
        bool b;
        int64_t i;
        double f;
        const struct jstr *s; /* J_STR, J_BIG */
        struct jlist *list;   /* J_LIST, J_TUPLE */
        struct jdict *dict;   /* J_DICT, J_NAMESPACE */
        struct jview *view;
        struct jrange *range;
        struct jiter *iter;
        struct jmacro *macro;
        struct jmethod *method;
        const struct jfunc *func;
        struct jloop *loop;
        struct jcycler *cycler;     /* J_CYCLER, J_JOINER */
        const struct jundef *undef; /* NULL: a plain undefined value */
    } u;
};

struct jlist {
    struct jval *items;
    size_t n, cap;
};

struct jpair {
    struct jval key, value;
};

struct jdict { /* keeps the order of insertion */
    struct jpair *pairs;
    size_t n, cap;
    uint32_t *index; /* open addressing, 1 + position; NULL while n is small */
    size_t n_index;  /* a power of two */
};

enum jview_kind { JVIEW_KEYS, JVIEW_VALUES, JVIEW_ITEMS };

struct jview {
    enum jview_kind kind;
    struct jdict *dict;
};

struct jrange {
    int64_t start, step;
    int64_t n; /* number of items */
};

struct jiter {
    struct jlist *items;
    size_t at;
};

struct jundef {
    const struct jstr *name; /* what was looked for */
    const char *of;          /* in an object of which type; NULL: it is a variable */
    bool forbidden;          /* it exists, but the sandbox refuses it */
};

struct jmacro {
    const struct jnode *node; /* N_MACRO or N_CALL_BLOCK */
    struct jscope *scope;     /* where it was defined */
};

typedef enum status jmethod_fn(struct jrun *r, const struct jval *self, const struct jargs *args,
                               struct jval *out);

struct jmethod_def {
    const char *name;
    jmethod_fn *call; /* NULL: Python has it, this engine does not */
    bool mutates;
};

struct jmethod {
    const struct jmethod_def *def;
    struct jval self;
};

typedef enum status jfunc_fn(struct jrun *r, const struct jargs *args, struct jval *out);

struct jfunc {
    const char *name;
    jfunc_fn *call;
};

/* Looks at the source until the loop has n items or the source ends. */
typedef enum status jloop_fill_fn(struct jrun *r, struct jloop *loop, size_t n);

struct jloop {
    jloop_fill_fn *fill; /* exec.c's: a filter is an expression of the template */
    /* Those that passed the filter so far; never changed by the loop if there is none. */
    struct jlist *items;
    const struct jlist *source; /* what is gone through */
    size_t i_source;            /* how many of it were looked at */
    size_t i;                   /* the current item */
    unsigned depth0;            /* of recursion */
    const struct jnode *node;   /* N_FOR */
    struct jscope *scope;       /* where the loop stands */
    struct jlist *changed;      /* what loop.changed() saw last, or NULL */
};

struct jcycler {
    struct jlist *items; /* J_JOINER: the separator alone */
    size_t at;
};

static inline struct jval jv_undef(void)
{
    return (struct jval){.type = J_UNDEF};
}
static inline struct jval jv_none(void)
{
    return (struct jval){.type = J_NONE};
}
static inline struct jval jv_bool(bool b)
{
    return (struct jval){.type = J_BOOL, .u.b = b};
}
static inline struct jval jv_int(int64_t i)
{
    return (struct jval){.type = J_INT, .u.i = i};
}
static inline struct jval jv_float(double f)
{
    return (struct jval){.type = J_FLOAT, .u.f = f};
}
static inline struct jval jv_str(const struct jstr *s)
{
    return (struct jval){.type = J_STR, .u.s = s};
}
static inline struct jval jv_list(struct jlist *l)
{
    return (struct jval){.type = J_LIST, .u.list = l};
}
static inline struct jval jv_tuple(struct jlist *l)
{
    return (struct jval){.type = J_TUPLE, .u.list = l};
}
static inline struct jval jv_dict(struct jdict *d)
{
    return (struct jval){.type = J_DICT, .u.dict = d};
}

static inline bool jstr_is(const struct jstr *s, const char *text, size_t n)
{
    return s->n == n && __builtin_memcmp(s->p, text, n) == 0;
}

/* --- strings --- */

/* A string over borrowed bytes (they must outlive the rendering); counts its characters. */
MUST_CHECK enum status jstr_view(struct jmem *m, const char *p, size_t n, struct jval *out);
/* A string of copied bytes. */
MUST_CHECK enum status jstr_copy(struct jmem *m, const char *p, size_t n, struct jval *out);
MUST_CHECK enum status jstr_literal(struct jmem *m, const char *text, struct jval *out);

/* --- lists and dicts --- */

MUST_CHECK enum status jlist_new(struct jrun *r, size_t cap, struct jlist **out);
MUST_CHECK enum status jlist_push(struct jrun *r, struct jlist *l, const struct jval *v);
/* A tuple or list of two. */
MUST_CHECK enum status jlist_pair(struct jrun *r, const struct jval *a, const struct jval *b,
                                  struct jlist **out);

MUST_CHECK enum status jdict_new(struct jrun *r, struct jdict **out);
/* Fails when the key is a list or dict ("unhashable"). */
MUST_CHECK enum status jdict_set(struct jrun *r, struct jdict *d, const struct jval *key,
                                 const struct jval *value);
/* *out = the pair, or NULL. */
MUST_CHECK enum status jdict_find(struct jrun *r, const struct jdict *d, const struct jval *key,
                                  struct jpair **out);
MUST_CHECK enum status jdict_find_str(struct jrun *r, const struct jdict *d, const char *key,
                                      size_t n, struct jpair **out);
MUST_CHECK enum status jdict_remove(struct jrun *r, struct jdict *d, size_t i);

/* --- what Python says about values --- */

const char *jtype_name(const struct jval *v); /* "str", "dict", "NoneType", ... */
bool jval_truth(const struct jval *v);
MUST_CHECK enum status jval_equal(struct jrun *r, const struct jval *a, const struct jval *b,
                                  bool *out);
/* *out < 0, 0, > 0.  Fails when Python would not order the two. */
MUST_CHECK enum status jval_compare(struct jrun *r, const struct jval *a, const struct jval *b,
                                    int *out);
/* len(v); fails when it has none. */
MUST_CHECK enum status jval_length(struct jrun *r, const struct jval *v, size_t *out);
/* All items that iterating over v gives, as a list that must not be changed;
 * uses up a generator. */
MUST_CHECK enum status jval_items(struct jrun *r, const struct jval *v, struct jlist **out);
MUST_CHECK enum status jval_contains(struct jrun *r, const struct jval *box, const struct jval *v,
                                     bool *out);

static inline bool jval_is_number(const struct jval *v)
{
    return v->type == J_BOOL || v->type == J_INT || v->type == J_FLOAT || v->type == J_BIG;
}

/* An int or a bool as int. */
static inline bool jval_as_int(const struct jval *v, int64_t *out)
{
    if (v->type != J_INT && v->type != J_BOOL)
        return false;
    *out = v->type == J_INT ? v->u.i : v->u.b;
    return true;
}

static inline double jval_as_float(const struct jval *v) /* for bool, int, float */
{
    return v->type == J_FLOAT ? v->u.f : v->type == J_INT ? (double)v->u.i : (double)v->u.b;
}

#endif
