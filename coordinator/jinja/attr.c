/* v.name and v[key].  As in Jinja's sandbox: a name that is not there gives an undefined
 * value, and so does one that is forbidden, which then says so when it is used. */
#include <string.h>

#include "coordinator/jinja/run.h"
#include "coordinator/jinja/utf8.h"

/* --- attributes --- */

static const struct jmethod_def *find_method(const struct jval *v, const struct jstr *name)
{
    switch (v->type) {
    case J_STR:
        return j_find_str_method(name);
    case J_LIST:
        return j_find_list_method(name);
    case J_TUPLE:
        return j_find_tuple_method(name);
    case J_DICT:
        return j_find_dict_method(name);
    case J_LOOP:
        return j_find_loop_method(name);
    case J_CYCLER:
        return j_find_cycler_method(name);
    default:
        return NULL;
    }
}

static enum status bind_method(struct jrun *r, const struct jval *v, const struct jmethod_def *def,
                               const struct jstr *name, struct jval *out)
{
    if (def->mutates && !r->allow_mutation)
        return j_new_undef(r, name, jtype_name(v), true, out);
    if (!def->call)
        FAIL(ST_UNSUPPORTED, "the method '%s' of %s is not supported", def->name, jtype_name(v));
    struct jmethod *m = jmem_alloc(&r->mem, sizeof *m);
    if (!m)
        return jmem_full(&r->mem);
    *m = (struct jmethod){def, *v};
    *out = (struct jval){.type = J_METHOD, .u.method = m};
    return ST_OK;
}

static enum status loop_neighbour(struct jrun *r, struct jloop *loop, size_t i, bool exists,
                                  const struct jstr *name, struct jval *out)
{
    if (exists) {
        *out = loop->items->items[i];
        return ST_OK;
    }
    return j_new_undef(r, name, "LoopContext", false, out);
}

static bool is(const struct jstr *s, const char *text)
{
    return jstr_is(s, text, strlen(text));
}

/* What needs to know what comes after the current item. */
static enum status loop_ahead(struct jrun *r, struct jloop *loop, const struct jstr *name,
                              struct jval *out, bool *found)
{
    *found = true;
    if (is(name, "last") || is(name, "nextitem")) {
        TRY(j_loop_fill(r, loop, loop->i + 2));
        bool more = loop->i + 1 < loop->items->n;
        if (is(name, "nextitem"))
            return loop_neighbour(r, loop, loop->i + 1, more, name, out);
        *out = jv_bool(!more);
        return ST_OK;
    }
    *found = is(name, "length") || is(name, "revindex") || is(name, "revindex0");
    if (!*found)
        return ST_OK;
    TRY(j_loop_fill(r, loop, SIZE_MAX));
    int64_t n = (int64_t)loop->items->n, i = (int64_t)loop->i;
    *out = jv_int(is(name, "length") ? n : is(name, "revindex") ? n - i : n - i - 1);
    return ST_OK;
}

static enum status loop_attr(struct jrun *r, struct jloop *loop, const struct jstr *name,
                             struct jval *out, bool *found)
{
    *found = true;
    if (is(name, "index0"))
        *out = jv_int((int64_t)loop->i);
    else if (is(name, "index"))
        *out = jv_int((int64_t)loop->i + 1);
    else if (is(name, "first"))
        *out = jv_bool(loop->i == 0);
    else if (is(name, "depth"))
        *out = jv_int((int64_t)loop->depth0 + 1);
    else if (is(name, "depth0"))
        *out = jv_int(loop->depth0);
    else if (is(name, "previtem"))
        return loop_neighbour(r, loop, loop->i - 1, loop->i > 0, name, out);
    else
        return loop_ahead(r, loop, name, out, found);
    return ST_OK;
}

static bool range_attr(const struct jrange *range, const struct jstr *name, struct jval *out)
{
    if (is(name, "start"))
        *out = jv_int(range->start);
    else if (is(name, "step"))
        *out = jv_int(range->step);
    else if (is(name, "stop"))
        *out = jv_int(range->start + range->n * range->step);
    else
        return false;
    return true;
}

static bool number_attr(const struct jval *v, const struct jstr *name, struct jval *out)
{
    *out = *v;
    if (v->type == J_BOOL)
        *out = jv_int(v->u.b);
    if (is(name, "real") || (is(name, "numerator") && v->type != J_FLOAT))
        return true;
    if (is(name, "imag"))
        *out = v->type == J_FLOAT ? jv_float(0) : jv_int(0);
    else if (is(name, "denominator") && v->type != J_FLOAT)
        *out = jv_int(1);
    else
        return false;
    return true;
}

/* Attributes that are no methods. */
static enum status plain_attr(struct jrun *r, const struct jval *v, const struct jstr *name,
                              struct jval *out, bool *found)
{
    struct jpair *p;
    *found = false;
    switch (v->type) {
    case J_LOOP:
        return loop_attr(r, v->u.loop, name, out, found);
    case J_NAMESPACE:
        TRY(jdict_find_str(r, v->u.dict, name->p, name->n, &p));
        *found = p != NULL;
        if (p)
            *out = p->value;
        return ST_OK;
    case J_RANGE:
        *found = range_attr(v->u.range, name, out);
        return ST_OK;
    case J_BOOL:
    case J_INT:
    case J_FLOAT:
        *found = number_attr(v, name, out);
        return ST_OK;
    case J_MACRO:
        *found = is(name, "name") && v->u.macro->node->sym;
        if (*found)
            *out = jv_str(&v->u.macro->node->sym->s);
        return ST_OK;
    case J_CYCLER:
        *found = is(name, "current");
        if (*found)
            *out = v->u.cycler->items->items[v->u.cycler->at];
        return ST_OK;
    default:
        return ST_OK;
    }
}

static bool is_dunder(const struct jstr *s)
{
    return s->n > 4 && memcmp(s->p, "__", 2) == 0 && memcmp(s->p + s->n - 2, "__", 2) == 0;
}

static enum status attribute(struct jrun *r, const struct jval *v, const struct jstr *name,
                             struct jval *out, bool *found)
{
    const struct jmethod_def *def = find_method(v, name);
    *found = true;
    if (def)
        return bind_method(r, v, def, name, out);
    if (is_dunder(name))
        return j_new_undef(r, name, jtype_name(v), true, out);
    return plain_attr(r, v, name, out, found);
}

enum status j_getattr(struct jrun *r, const struct jval *v, const struct jstr *name,
                      struct jval *out)
{
    bool found;
    if (v->type == J_UNDEF)
        return j_undef_error(v);
    TRY(attribute(r, v, name, out, &found));
    if (found)
        return ST_OK;
    if (v->type == J_DICT) {
        struct jpair *p;
        struct jval key = jv_str(name);
        TRY(jdict_find(r, v->u.dict, &key, &p));
        if (p) {
            *out = p->value;
            return ST_OK;
        }
    }
    return j_new_undef(r, name, jtype_name(v), false, out);
}

/* --- items --- */

/* Python's index: from the end when negative. */
static bool in_bounds(int64_t i, size_t n, size_t *at)
{
    if (i < 0)
        i += (int64_t)n;
    *at = (size_t)i;
    return i >= 0 && (uint64_t)i < n;
}

static enum status char_at(struct jrun *r, const struct jstr *s, size_t i, struct jval *out)
{
    size_t at = i;
    if (s->n_chars != s->n) {
        TRY(j_charge_bytes(r, s->n));
        at = u8_offset(s->p, s->n, i);
    }
    return j_view(r, s->p + at, u8_length(s->p[at]), out);
}

static enum status item_by_index(struct jrun *r, const struct jval *v, int64_t i, struct jval *out,
                                 bool *found)
{
    size_t at, n;
    *found = false;
    if (v->type != J_LIST && v->type != J_TUPLE && v->type != J_STR && v->type != J_RANGE)
        return ST_OK;
    TRY(jval_length(r, v, &n));
    *found = in_bounds(i, n, &at);
    if (!*found)
        return ST_OK;
    if (v->type == J_STR)
        return char_at(r, v->u.s, at, out);
    *out = v->type == J_RANGE ? jv_int(v->u.range->start + (int64_t)at * v->u.range->step)
                              : v->u.list->items[at];
    return ST_OK;
}

static bool can_be_key(const struct jval *v)
{
    return v->type == J_STR || v->type == J_NONE || v->type == J_TUPLE || jval_is_number(v);
}

enum status j_getitem(struct jrun *r, const struct jval *v, const struct jval *key,
                      struct jval *out)
{
    bool found = false;
    int64_t i;
    size_t mark;
    struct jval shown;
    if (v->type == J_UNDEF)
        return j_undef_error(v);
    if (v->type == J_DICT && can_be_key(key)) {
        struct jpair *p;
        TRY(jdict_find(r, v->u.dict, key, &p));
        if (p) {
            *out = p->value;
            return ST_OK;
        }
    } else if (jval_as_int(key, &i)) {
        TRY(item_by_index(r, v, i, out, &found));
    }
    if (!found && key->type == J_STR)
        TRY(attribute(r, v, key->u.s, out, &found));
    if (found)
        return ST_OK;
    mark = j_mark(r);
    if (key->type != J_STR && jval_is_number(key))
        TRY(j_emit_str(r, key));
    TRY(j_take(r, mark, &shown));
    return j_new_undef(r, key->type == J_STR ? key->u.s : shown.u.s, jtype_name(v), false, out);
}
