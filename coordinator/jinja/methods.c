/* The methods of list, tuple, dict, loop and cycler. */
#include <string.h>

#include "coordinator/jinja/run.h"

#define METHOD(name)                                                                               \
    static enum status name(struct jrun *r, const struct jval *self, const struct jargs *args,     \
                            struct jval *out)

static enum status n_args(const char *what, const struct jargs *args, size_t least, size_t most)
{
    if (args->n < least || args->n > most || args->n_kw)
        FAIL(ST_UNSUPPORTED, "%s takes %zu to %zu arguments", what, least, most);
    return ST_OK;
}

/* --- list and tuple --- */

METHOD(list_count)
{
    bool same;
    TRY(n_args("count", args, 1, 1));
    *out = jv_int(0);
    TRY(j_charge(r, self->u.list->n));
    for (size_t i = 0; i < self->u.list->n; i++) {
        TRY(jval_equal(r, &self->u.list->items[i], &args->pos[0], &same));
        out->u.i += same;
    }
    return ST_OK;
}

METHOD(list_index)
{
    bool same;
    TRY(n_args("index", args, 1, 1));
    TRY(j_charge(r, self->u.list->n));
    for (size_t i = 0; i < self->u.list->n; i++) {
        TRY(jval_equal(r, &self->u.list->items[i], &args->pos[0], &same));
        if (same) {
            *out = jv_int((int64_t)i);
            return ST_OK;
        }
    }
    FAIL(ST_UNSUPPORTED, "index: the value is not in the list");
}

METHOD(list_copy)
{
    struct jlist *l;
    TRY(n_args("copy", args, 0, 0));
    TRY(j_charge(r, self->u.list->n));
    TRY(jlist_new(r, self->u.list->n, &l));
    for (size_t i = 0; i < self->u.list->n; i++)
        TRY(jlist_push(r, l, &self->u.list->items[i]));
    *out = jv_list(l);
    return ST_OK;
}

METHOD(list_append)
{
    TRY(n_args("append", args, 1, 1));
    *out = jv_none();
    return jlist_push(r, self->u.list, &args->pos[0]);
}

METHOD(list_extend)
{
    struct jlist *more;
    TRY(n_args("extend", args, 1, 1));
    TRY(jval_items(r, &args->pos[0], &more));
    size_t n = more->n; /* a list may be extended by itself */
    TRY(j_charge(r, n));
    for (size_t i = 0; i < n; i++)
        TRY(jlist_push(r, self->u.list, &more->items[i]));
    *out = jv_none();
    return ST_OK;
}

METHOD(list_insert)
{
    struct jlist *l = self->u.list;
    int64_t i;
    TRY(n_args("insert", args, 2, 2));
    TRY(j_want_int("insert", &args->pos[0], &i));
    int64_t n = (int64_t)l->n;
    i = i < -n ? 0 : i < 0 ? i + n : i > n ? n : i;
    TRY(j_charge(r, l->n));
    TRY(jlist_push(r, l, &args->pos[1]));
    memmove(&l->items[i + 1], &l->items[i], (size_t)(n - i) * sizeof *l->items);
    l->items[i] = args->pos[1];
    *out = jv_none();
    return ST_OK;
}

METHOD(list_pop)
{
    struct jlist *l = self->u.list;
    int64_t i = -1;
    TRY(n_args("pop", args, 0, 1));
    if (args->n)
        TRY(j_want_int("pop", &args->pos[0], &i));
    if (i < 0)
        i += (int64_t)l->n;
    if (i < 0 || (uint64_t)i >= l->n)
        FAIL(ST_UNSUPPORTED, "pop: the list has no such item");
    TRY(j_charge(r, l->n));
    *out = l->items[i];
    memmove(&l->items[i], &l->items[i + 1], (l->n - (size_t)i - 1) * sizeof *l->items);
    l->n--;
    return ST_OK;
}

METHOD(list_reverse)
{
    struct jlist *l = self->u.list;
    TRY(n_args("reverse", args, 0, 0));
    TRY(j_charge(r, l->n));
    for (size_t i = 0; i < l->n / 2; i++) {
        struct jval v = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = v;
    }
    *out = jv_none();
    return ST_OK;
}

METHOD(list_clear)
{
    (void)r;
    TRY(n_args("clear", args, 0, 0));
    self->u.list->n = 0;
    *out = jv_none();
    return ST_OK;
}

/* --- dict --- */

METHOD(dict_get)
{
    struct jpair *p;
    TRY(n_args("get", args, 1, 2));
    TRY(jdict_find(r, self->u.dict, &args->pos[0], &p));
    *out = p ? p->value : args->n > 1 ? args->pos[1] : jv_none();
    return ST_OK;
}

static enum status view(struct jrun *r, const struct jval *self, const struct jargs *args,
                        enum jview_kind kind, struct jval *out)
{
    TRY(n_args("a view of a dict", args, 0, 0));
    struct jview *v = jmem_alloc(&r->mem, sizeof *v);
    if (!v)
        return jmem_full(&r->mem);
    *v = (struct jview){kind, self->u.dict};
    *out = (struct jval){.type = J_VIEW, .u.view = v};
    return ST_OK;
}

METHOD(dict_keys)
{
    return view(r, self, args, JVIEW_KEYS, out);
}

METHOD(dict_values)
{
    return view(r, self, args, JVIEW_VALUES, out);
}

METHOD(dict_items)
{
    return view(r, self, args, JVIEW_ITEMS, out);
}

METHOD(dict_copy)
{
    struct jdict *d;
    TRY(n_args("copy", args, 0, 0));
    TRY(jdict_new(r, &d));
    TRY(j_charge(r, self->u.dict->n));
    for (size_t i = 0; i < self->u.dict->n; i++)
        TRY(jdict_set(r, d, &self->u.dict->pairs[i].key, &self->u.dict->pairs[i].value));
    *out = jv_dict(d);
    return ST_OK;
}

METHOD(dict_pop)
{
    struct jpair *p;
    TRY(n_args("pop", args, 1, 2));
    TRY(jdict_find(r, self->u.dict, &args->pos[0], &p));
    if (!p && args->n < 2)
        FAIL(ST_UNSUPPORTED, "pop: the dict has no such key");
    *out = p ? p->value : args->pos[1];
    return p ? jdict_remove(r, self->u.dict, (size_t)(p - self->u.dict->pairs)) : ST_OK;
}

METHOD(dict_setdefault)
{
    struct jpair *p;
    TRY(n_args("setdefault", args, 1, 2));
    TRY(jdict_find(r, self->u.dict, &args->pos[0], &p));
    *out = p ? p->value : args->n > 1 ? args->pos[1] : jv_none();
    struct jval v = *out;
    return p ? ST_OK : jdict_set(r, self->u.dict, &args->pos[0], &v);
}

METHOD(dict_update)
{
    *out = jv_none();
    if (args->n > 1 || (args->n && args->pos[0].type != J_DICT))
        FAIL(ST_UNSUPPORTED, "update takes a dict");
    const struct jdict *more = args->n ? args->pos[0].u.dict : NULL;
    for (size_t i = 0; more && i < more->n; i++) {
        TRY(j_charge(r, 1));
        TRY(jdict_set(r, self->u.dict, &more->pairs[i].key, &more->pairs[i].value));
    }
    for (size_t i = 0; i < args->n_kw; i++) {
        struct jval key = jv_str(args->kw[i].name);
        TRY(jdict_set(r, self->u.dict, &key, &args->kw[i].value));
    }
    return ST_OK;
}

METHOD(dict_clear)
{
    (void)r;
    TRY(n_args("clear", args, 0, 0));
    *self->u.dict = (struct jdict){0};
    *out = jv_none();
    return ST_OK;
}

/* --- loop and cycler --- */

METHOD(loop_cycle)
{
    (void)r;
    if (!args->n || args->n_kw)
        FAIL(ST_UNSUPPORTED, "loop.cycle needs values");
    *out = args->pos[self->u.loop->i % args->n];
    return ST_OK;
}

METHOD(loop_changed)
{
    struct jlist *l;
    struct jval now, before;
    bool same = false;
    TRY(jlist_new(r, args->n, &l));
    for (size_t i = 0; i < args->n; i++)
        TRY(jlist_push(r, l, &args->pos[i]));
    if (self->u.loop->changed) {
        now = jv_tuple(l);
        before = jv_tuple(self->u.loop->changed);
        TRY(jval_equal(r, &now, &before, &same));
    }
    self->u.loop->changed = l;
    *out = jv_bool(!same);
    return ST_OK;
}

METHOD(cycler_next)
{
    struct jcycler *c = self->u.cycler;
    (void)r;
    TRY(n_args("next", args, 0, 0));
    *out = c->items->items[c->at];
    c->at = (c->at + 1) % c->items->n;
    return ST_OK;
}

METHOD(cycler_reset)
{
    (void)r;
    TRY(n_args("reset", args, 0, 0));
    self->u.cycler->at = 0;
    *out = jv_none();
    return ST_OK;
}

/* --- tables --- */

static const struct jmethod_def LIST_METHODS[] = {
    {"count", list_count, false},  {"index", list_index, false},
    {"copy", list_copy, false},    {"append", list_append, true},
    {"extend", list_extend, true}, {"insert", list_insert, true},
    {"pop", list_pop, true},       {"reverse", list_reverse, true},
    {"clear", list_clear, true},   {"remove", NULL, true},
    {"sort", NULL, true},
};

static const struct jmethod_def TUPLE_METHODS[] = {
    {"count", list_count, false},
    {"index", list_index, false},
};

static const struct jmethod_def DICT_METHODS[] = {
    {"get", dict_get, false},      {"items", dict_items, false},
    {"keys", dict_keys, false},    {"values", dict_values, false},
    {"copy", dict_copy, false},    {"pop", dict_pop, true},
    {"update", dict_update, true}, {"setdefault", dict_setdefault, true},
    {"clear", dict_clear, true},   {"popitem", NULL, true},
    {"fromkeys", NULL, false},
};

static const struct jmethod_def LOOP_METHODS[] = {
    {"cycle", loop_cycle, false},
    {"changed", loop_changed, false},
};

static const struct jmethod_def CYCLER_METHODS[] = {
    {"next", cycler_next, false},
    {"reset", cycler_reset, false},
};

static const struct jmethod_def *find(const struct jmethod_def *table, size_t n,
                                      const struct jstr *name)
{
    for (size_t i = 0; i < n; i++)
        if (jstr_is(name, table[i].name, strlen(table[i].name)))
            return &table[i];
    return NULL;
}

const struct jmethod_def *j_find_list_method(const struct jstr *name)
{
    return find(LIST_METHODS, ARRAY_LEN(LIST_METHODS), name);
}

const struct jmethod_def *j_find_tuple_method(const struct jstr *name)
{
    return find(TUPLE_METHODS, ARRAY_LEN(TUPLE_METHODS), name);
}

const struct jmethod_def *j_find_dict_method(const struct jstr *name)
{
    return find(DICT_METHODS, ARRAY_LEN(DICT_METHODS), name);
}

const struct jmethod_def *j_find_loop_method(const struct jstr *name)
{
    return find(LOOP_METHODS, ARRAY_LEN(LOOP_METHODS), name);
}

const struct jmethod_def *j_find_cycler_method(const struct jstr *name)
{
    return find(CYCLER_METHODS, ARRAY_LEN(CYCLER_METHODS), name);
}
