#include "coordinator/jinja/value.h"

#include <string.h>

#include "coordinator/jinja/utf8.h"

enum status jstr_view(struct jmem *m, const char *p, size_t n, struct jval *out)
{
    struct jstr *s = jmem_alloc(m, sizeof *s);
    if (!s)
        return jmem_full(m);
    *s = (struct jstr){p, n, u8_count(p, n)};
    *out = jv_str(s);
    return ST_OK;
}

enum status jstr_copy(struct jmem *m, const char *p, size_t n, struct jval *out)
{
    char *bytes = jmem_alloc(m, n);
    if (!bytes)
        return jmem_full(m);
    if (n)
        memcpy(bytes, p, n);
    return jstr_view(m, bytes, n, out);
}

enum status jstr_literal(struct jmem *m, const char *text, struct jval *out)
{
    return jstr_view(m, text, strlen(text), out);
}

const char *jtype_name(const struct jval *v)
{
    static const char *const names[] = {
        [J_UNDEF] = "Undefined", [J_NONE] = "NoneType",       [J_BOOL] = "bool",
        [J_INT] = "int",         [J_FLOAT] = "float",         [J_BIG] = "int",
        [J_STR] = "str",         [J_LIST] = "list",           [J_TUPLE] = "tuple",
        [J_DICT] = "dict",       [J_VIEW] = "dict view",      [J_RANGE] = "range",
        [J_ITER] = "generator",  [J_NAMESPACE] = "Namespace", [J_MACRO] = "Macro",
        [J_METHOD] = "method",   [J_FUNC] = "function",       [J_LOOP] = "LoopContext",
        [J_CYCLER] = "Cycler",   [J_JOINER] = "Joiner",       [J_MISSING] = "missing",
    };
    return names[v->type];
}

bool jval_truth(const struct jval *v)
{
    switch (v->type) {
    case J_UNDEF:
    case J_NONE:
        return false;
    case J_BOOL:
        return v->u.b;
    case J_INT:
        return v->u.i != 0;
    case J_FLOAT:
        return v->u.f != 0;
    case J_STR:
        return v->u.s->n > 0;
    case J_LIST:
    case J_TUPLE:
        return v->u.list->n > 0;
    case J_DICT:
        return v->u.dict->n > 0;
    case J_VIEW:
        return v->u.view->dict->n > 0;
    case J_RANGE:
        return v->u.range->n > 0;
    default:
        return true;
    }
}
