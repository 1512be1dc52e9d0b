/* v[start:stop:step], as Python does it. */
#include "coordinator/jinja/run.h"
#include "coordinator/jinja/utf8.h"

struct slice {
    int64_t start, step, n;
};

static enum status slice_part(const struct jval *v, int64_t n, int64_t low, int64_t high,
                              int64_t missing, int64_t *out)
{
    if (v->type == J_NONE) {
        *out = missing;
        return ST_OK;
    }
    TRY(j_want_int("a slice", v, out));
    if (*out < 0)
        *out = *out < -n ? low : *out + n;
    if (*out < low)
        *out = low;
    if (*out > high)
        *out = high;
    return ST_OK;
}

/* Python's slice.indices(n). */
static enum status slice_of(int64_t n, const struct jval *start, const struct jval *stop,
                            const struct jval *step, struct slice *out)
{
    int64_t to;
    out->step = 1;
    if (step->type != J_NONE)
        TRY(j_want_int("the step of a slice", step, &out->step));
    if (out->step == 0)
        FAIL(ST_UNSUPPORTED, "the step of a slice is 0");
    if (out->step < -INT64_MAX)
        out->step = -INT64_MAX;
    bool back = out->step < 0;
    int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
    TRY(slice_part(start, n, low, high, back ? high : low, &out->start));
    TRY(slice_part(stop, n, low, high, back ? low : high, &to));
    int64_t span = back ? out->start - to : to - out->start;
    int64_t stride = back ? -out->step : out->step;
    out->n = span > 0 ? (span - 1) / stride + 1 : 0;
    return ST_OK;
}

static enum status slice_str(struct jrun *r, const struct jval *v, const struct slice *sl,
                             struct jval *out)
{
    const struct jstr *s = v->u.s;
    bool wide = s->n_chars != s->n;
    if (wide)
        TRY(j_charge_bytes(r, s->n));
    if (sl->step == 1 || sl->n == 0) {
        size_t from = (size_t)sl->start, to = from + (size_t)sl->n;
        if (wide) {
            from = u8_offset(s->p, s->n, from);
            to = from + u8_offset(s->p + from, s->n - from, (size_t)sl->n);
        }
        TRY(j_view(r, s->p + (sl->n ? from : 0), sl->n ? to - from : 0, out));
    } else {
        struct jlist *chars;
        size_t mark = j_mark(r);
        TRY(jval_items(r, v, &chars));
        for (int64_t i = 0; i < sl->n; i++)
            TRY(j_emit_str(r, &chars->items[sl->start + i * sl->step]));
        TRY(j_take(r, mark, out));
    }
    out->safe = v->safe;
    return ST_OK;
}

enum status j_slice(struct jrun *r, const struct jval *v, const struct jval *start,
                    const struct jval *stop, const struct jval *step, struct jval *out)
{
    struct slice sl;
    struct jlist *items, *part;
    size_t n;
    if (v->type == J_UNDEF)
        return j_undef_error(v);
    if (v->type != J_STR && v->type != J_LIST && v->type != J_TUPLE && v->type != J_RANGE)
        FAIL(ST_UNSUPPORTED, "a value of type %s cannot be sliced", jtype_name(v));
    TRY(jval_length(r, v, &n));
    TRY(slice_of((int64_t)n, start, stop, step, &sl));
    if (v->type == J_STR)
        return slice_str(r, v, &sl, out);
    TRY(jval_items(r, v, &items));
    TRY(j_charge(r, (uint64_t)sl.n));
    TRY(jlist_new(r, (size_t)sl.n, &part));
    for (int64_t i = 0; i < sl.n; i++)
        part->items[i] = items->items[sl.start + i * sl.step];
    part->n = (size_t)sl.n;
    *out = v->type == J_TUPLE ? jv_tuple(part) : jv_list(part);
    return ST_OK;
}
