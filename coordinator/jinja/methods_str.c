/* The methods of str. */
#include <string.h>

#include "coordinator/jinja/str.h"
#include "coordinator/jinja/utf8.h"

#define METHOD(name)                                                                               \
    static enum status name(struct jrun *r, const struct jval *self, const struct jargs *args,     \
                            struct jval *out)

static enum status no_args(const char *what, const struct jargs *args)
{
    if (args->n || args->n_kw)
        FAIL(ST_UNSUPPORTED, "%s takes no arguments", what);
    return ST_OK;
}

#define CASE_METHOD(fn, text, how)                                                                 \
    METHOD(fn)                                                                                     \
    {                                                                                              \
        TRY(no_args(text, args));                                                                  \
        return j_str_case(r, self->u.s, how, out);                                                 \
    }

CASE_METHOD(str_upper, "upper", JCASE_UPPER)
CASE_METHOD(str_lower, "lower", JCASE_LOWER)
CASE_METHOD(str_capitalize, "capitalize", JCASE_CAPITALIZE)
CASE_METHOD(str_title, "title", JCASE_TITLE)
CASE_METHOD(str_swapcase, "swapcase", JCASE_SWAP)

static enum status strip(struct jrun *r, const char *what, const struct jval *self,
                         const struct jargs *args, bool left, bool right, struct jval *out)
{
    const struct jstr *set = NULL;
    if (args->n > 1 || args->n_kw)
        FAIL(ST_UNSUPPORTED, "%s takes one argument at most", what);
    if (args->n && args->pos[0].type != J_NONE)
        TRY(j_want_str(what, &args->pos[0], &set));
    return j_str_strip(r, self->u.s, set, left, right, out);
}

METHOD(str_strip)
{
    return strip(r, "strip", self, args, true, true, out);
}

METHOD(str_lstrip)
{
    return strip(r, "lstrip", self, args, true, false, out);
}

METHOD(str_rstrip)
{
    return strip(r, "rstrip", self, args, false, true, out);
}

static enum status split_args(struct jrun *r, const char *what, const struct jargs *args,
                              const struct jstr **sep, int64_t *max)
{
    static const char *const names[] = {"sep", "maxsplit"};
    struct jval v[2];
    TRY(j_bind(r, what, args, names, 2, 0, v));
    *sep = NULL;
    *max = -1;
    if (v[0].type != J_MISSING && v[0].type != J_NONE)
        TRY(j_want_str(what, &v[0], sep));
    return v[1].type == J_MISSING ? ST_OK : j_want_int(what, &v[1], max);
}

METHOD(str_split)
{
    const struct jstr *sep;
    struct jlist *l;
    int64_t max;
    TRY(split_args(r, "split", args, &sep, &max));
    TRY(j_str_split(r, self->u.s, sep, max, &l));
    *out = jv_list(l);
    return ST_OK;
}

/* The last max pieces of a whole split, and what is before them in one piece. */
METHOD(str_rsplit)
{
    const struct jstr *sep, *s = self->u.s;
    struct jlist *all, *l;
    struct jval first;
    int64_t max;
    TRY(split_args(r, "rsplit", args, &sep, &max));
    TRY(j_str_split(r, s, sep, -1, &all));
    *out = jv_list(all);
    if (max < 0 || all->n <= (uint64_t)max + 1)
        return ST_OK;
    size_t keep = all->n - (size_t)max; /* that many pieces become one */
    const struct jstr *last = all->items[keep - 1].u.s;
    const char *from = s->p;
    TRY(j_view(r, from, (size_t)(last->p + last->n - from), &first));
    TRY(jlist_new(r, (size_t)max + 1, &l));
    TRY(jlist_push(r, l, &first));
    for (size_t i = keep; i < all->n; i++)
        TRY(jlist_push(r, l, &all->items[i]));
    *out = jv_list(l);
    return ST_OK;
}

METHOD(str_splitlines)
{
    static const char *const names[] = {"keepends"};
    struct jval keep;
    struct jlist *l;
    TRY(j_bind(r, "splitlines", args, names, 1, 0, &keep));
    TRY(j_str_lines(r, self->u.s, keep.type != J_MISSING && jval_truth(&keep), &l));
    *out = jv_list(l);
    return ST_OK;
}

METHOD(str_join)
{
    struct jlist *items;
    size_t mark = j_mark(r);
    if (args->n != 1 || args->n_kw)
        FAIL(ST_UNSUPPORTED, "join takes one argument");
    TRY(jval_items(r, &args->pos[0], &items));
    for (size_t i = 0; i < items->n; i++) {
        const struct jstr *s;
        TRY(j_want_str("join", &items->items[i], &s));
        if (i)
            TRY(j_emit(r, self->u.s->p, self->u.s->n));
        TRY(j_emit(r, s->p, s->n));
        TRY(j_charge(r, 1));
    }
    return j_take(r, mark, out);
}

METHOD(str_replace)
{
    static const char *const names[] = {"old", "new", "count"};
    struct jval v[3];
    const struct jstr *from, *to;
    int64_t count = -1;
    TRY(j_bind(r, "replace", args, names, 3, 2, v));
    TRY(j_want_str("replace", &v[0], &from));
    TRY(j_want_str("replace", &v[1], &to));
    if (v[2].type != J_MISSING)
        TRY(j_want_int("replace", &v[2], &count));
    return j_str_replace(r, self->u.s, from, to, count, out);
}

/* The part of self between the optional arguments start and end, and how many characters are before
 * it. */
static enum status part(struct jrun *r, const struct jval *self, const struct jargs *args,
                        const char *what, struct jstr *out, size_t *n_before, bool *beyond)
{
    struct jval none = jv_none(), cut;
    const struct jval *start = args->n > 1 ? &args->pos[1] : &none;
    const struct jval *end = args->n > 2 ? &args->pos[2] : &none;
    if (args->n < 1 || args->n > 3 || args->n_kw)
        FAIL(ST_UNSUPPORTED, "%s takes one to three arguments", what);
    TRY(j_slice(r, self, start, end, &none, &cut));
    *out = *cut.u.s;
    int64_t from = start->type == J_INT ? start->u.i : 0;
    *beyond = from > (int64_t)self->u.s->n_chars;
    if (from < 0)
        from += (int64_t)self->u.s->n_chars;
    *n_before = from < 0 ? 0 : (size_t)from;
    return ST_OK;
}

static bool has_end(const struct jstr *s, const struct jstr *piece, bool at_start)
{
    return piece->n <= s->n &&
           memcmp(at_start ? s->p : s->p + s->n - piece->n, piece->p, piece->n) == 0;
}

static enum status has_affix(struct jrun *r, const struct jval *self, const struct jargs *args,
                             const char *what, bool at_start, struct jval *out)
{
    struct jstr s;
    const struct jstr *piece;
    size_t n_before;
    bool beyond;
    *out = jv_bool(false);
    TRY(part(r, self, args, what, &s, &n_before, &beyond));
    if (args->pos[0].type != J_TUPLE) {
        TRY(j_want_str(what, &args->pos[0], &piece));
        *out = jv_bool(!beyond && has_end(&s, piece, at_start));
        return ST_OK;
    }
    const struct jlist *choices = args->pos[0].u.list;
    for (size_t i = 0; i < choices->n && !out->u.b; i++) {
        TRY(j_want_str(what, &choices->items[i], &piece));
        *out = jv_bool(!beyond && has_end(&s, piece, at_start));
    }
    return j_charge(r, choices->n);
}

METHOD(str_startswith)
{
    return has_affix(r, self, args, "startswith", true, out);
}

METHOD(str_endswith)
{
    return has_affix(r, self, args, "endswith", false, out);
}

/* Offset in bytes of the last place, SIZE_MAX when there is none. */
static enum status find_last(struct jrun *r, const struct jstr *s, const struct jstr *what,
                             size_t *at)
{
    *at = SIZE_MAX;
    if (what->n > s->n)
        return ST_OK;
    for (size_t i = s->n - what->n + 1; i-- > 0;) {
        TRY(j_charge(r, 1 + (what->n >> 7)));
        if (memcmp(s->p + i, what->p, what->n) == 0) {
            *at = i;
            return ST_OK;
        }
    }
    return ST_OK;
}

static enum status find(struct jrun *r, const struct jval *self, const struct jargs *args,
                        const char *what, bool last, struct jval *out)
{
    struct jstr s;
    const struct jstr *piece;
    size_t n_before, at;
    bool beyond;
    TRY(part(r, self, args, what, &s, &n_before, &beyond));
    TRY(j_want_str(what, &args->pos[0], &piece));
    if (last)
        TRY(find_last(r, &s, piece, &at));
    else
        TRY(j_find(r, s.p, s.n, piece->p, piece->n, &at));
    *out = jv_int(at == SIZE_MAX || beyond ? -1 : (int64_t)(n_before + u8_count(s.p, at)));
    return ST_OK;
}

METHOD(str_find)
{
    return find(r, self, args, "find", false, out);
}

METHOD(str_rfind)
{
    return find(r, self, args, "rfind", true, out);
}

METHOD(str_index)
{
    TRY(find(r, self, args, "index", false, out));
    if (out->u.i < 0)
        FAIL(ST_UNSUPPORTED, "index: the text is not there");
    return ST_OK;
}

METHOD(str_rindex)
{
    TRY(find(r, self, args, "rindex", true, out));
    if (out->u.i < 0)
        FAIL(ST_UNSUPPORTED, "rindex: the text is not there");
    return ST_OK;
}

METHOD(str_count)
{
    struct jstr s;
    const struct jstr *piece;
    size_t n_before, at, from = 0;
    bool beyond;
    TRY(part(r, self, args, "count", &s, &n_before, &beyond));
    TRY(j_want_str("count", &args->pos[0], &piece));
    *out = jv_int(0);
    if (piece->n == 0) {
        *out = jv_int(beyond ? 0 : (int64_t)u8_count(s.p, s.n) + 1);
        return ST_OK;
    }
    for (;; out->u.i++) {
        TRY(j_charge(r, 1));
        TRY(j_find(r, s.p + from, s.n - from, piece->p, piece->n, &at));
        if (at == SIZE_MAX)
            return ST_OK;
        from += at + piece->n;
    }
}

static enum status remove_affix(struct jrun *r, const struct jval *self, const struct jargs *args,
                                const char *what, bool at_start, struct jval *out)
{
    const struct jstr *piece, *s = self->u.s;
    if (args->n != 1 || args->n_kw)
        FAIL(ST_UNSUPPORTED, "%s takes one argument", what);
    TRY(j_want_str(what, &args->pos[0], &piece));
    size_t cut = has_end(s, piece, at_start) ? piece->n : 0;
    TRY(j_charge_bytes(r, s->n));
    return j_view(r, s->p + (at_start ? cut : 0), s->n - cut, out);
}

METHOD(str_removeprefix)
{
    return remove_affix(r, self, args, "removeprefix", true, out);
}

METHOD(str_removesuffix)
{
    return remove_affix(r, self, args, "removesuffix", false, out);
}

static enum status partition(struct jrun *r, const struct jval *self, const struct jargs *args,
                             bool last, struct jval *out)
{
    const struct jstr *sep, *s = self->u.s;
    struct jlist *l;
    size_t at;
    if (args->n != 1 || args->n_kw)
        FAIL(ST_UNSUPPORTED, "partition takes one argument");
    TRY(j_want_str("partition", &args->pos[0], &sep));
    if (!sep->n)
        FAIL(ST_UNSUPPORTED, "partition: an empty separator");
    if (last)
        TRY(find_last(r, s, sep, &at));
    else
        TRY(j_find(r, s->p, s->n, sep->p, sep->n, &at));
    bool found = at != SIZE_MAX;
    size_t cut[4] = {0, found ? at : last ? 0 : s->n, found ? at + sep->n : last ? 0 : s->n, s->n};
    TRY(jlist_new(r, 3, &l));
    for (int i = 0; i < 3; i++)
        TRY(j_view(r, s->p + cut[i], cut[i + 1] - cut[i], &l->items[i]));
    l->n = 3;
    *out = jv_tuple(l);
    return ST_OK;
}

METHOD(str_partition)
{
    return partition(r, self, args, false, out);
}

METHOD(str_rpartition)
{
    return partition(r, self, args, true, out);
}

static enum status justify(struct jrun *r, const struct jval *self, const struct jargs *args,
                           const char *what, char align, struct jval *out)
{
    static const struct jstr blank = {" ", 1, 1};
    const struct jstr *fill = &blank;
    int64_t width;
    if (args->n < 1 || args->n > 2 || args->n_kw)
        FAIL(ST_UNSUPPORTED, "%s takes one or two arguments", what);
    TRY(j_want_int(what, &args->pos[0], &width));
    if (args->n == 2)
        TRY(j_want_str(what, &args->pos[1], &fill));
    if (fill->n_chars != 1)
        FAIL(ST_UNSUPPORTED, "%s fills with exactly one character", what);
    return j_str_justify(r, self->u.s, width, align, fill, out);
}

METHOD(str_ljust)
{
    return justify(r, self, args, "ljust", '<', out);
}

METHOD(str_rjust)
{
    return justify(r, self, args, "rjust", '>', out);
}

METHOD(str_center)
{
    return justify(r, self, args, "center", '^', out);
}

METHOD(str_zfill)
{
    static const struct jstr zero = {"0", 1, 1};
    const struct jstr *s = self->u.s;
    int64_t width;
    size_t mark = j_mark(r), sign = s->n && (*s->p == '-' || *s->p == '+');
    if (args->n != 1 || args->n_kw)
        FAIL(ST_UNSUPPORTED, "zfill takes one argument");
    TRY(j_want_int("zfill", &args->pos[0], &width));
    struct jstr digits = {s->p + sign, s->n - sign, s->n_chars - sign};
    struct jval v;
    TRY(j_str_justify(r, &digits, width - (int64_t)(width > 0 && sign), '>', &zero, &v));
    TRY(j_emit(r, s->p, sign));
    TRY(j_emit_str(r, &v));
    return j_take(r, mark, out);
}

METHOD(str_format)
{
    return j_format(r, self->u.s, args, out);
}

/* --- is...: all characters are of a kind, and there is one --- */

static bool is_space(uint32_t c)
{
    return u8_is_space(c);
}

static bool is_alnum(uint32_t c)
{
    return u8_is_alpha(c) || u8_is_decimal(c);
}

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

static enum status all_are(struct jrun *r, const struct jval *self, const struct jargs *args,
                           bool (*is)(uint32_t), bool when_empty, struct jval *out)
{
    const struct jstr *s = self->u.s;
    TRY(no_args("a test of all characters", args));
    TRY(j_charge_chars(r, s->n));
    *out = jv_bool(s->n ? true : when_empty);
    for (size_t i = 0, k; i < s->n && out->u.b; i += k)
        out->u.b = is(u8_decode(s->p + i, &k));
    return ST_OK;
}

METHOD(str_isspace)
{
    return all_are(r, self, args, is_space, false, out);
}

METHOD(str_isalpha)
{
    return all_are(r, self, args, u8_is_alpha, false, out);
}

METHOD(str_isalnum)
{
    return all_are(r, self, args, is_alnum, false, out);
}

METHOD(str_isdigit)
{
    return all_are(r, self, args, u8_is_decimal, false, out);
}

METHOD(str_isascii)
{
    return all_are(r, self, args, is_ascii, true, out);
}

METHOD(str_isprintable)
{
    return all_are(r, self, args, u8_is_printable, true, out);
}

/* Some character is cased, and none of the wrong case. */
static enum status all_cased(struct jrun *r, const struct jval *self, const struct jargs *args,
                             bool upper, struct jval *out)
{
    const struct jstr *s = self->u.s;
    bool some = false;
    TRY(no_args("a test of all characters", args));
    TRY(j_charge_chars(r, s->n));
    *out = jv_bool(false);
    for (size_t i = 0, k; i < s->n; i += k) {
        uint32_t c = u8_decode(s->p + i, &k);
        if (!u8_is_cased(c))
            continue;
        if (!(upper ? u8_is_upper(c) : u8_is_lower(c)))
            return ST_OK;
        some = true;
    }
    *out = jv_bool(some);
    return ST_OK;
}

METHOD(str_isupper)
{
    return all_cased(r, self, args, true, out);
}

METHOD(str_islower)
{
    return all_cased(r, self, args, false, out);
}

static const struct jmethod_def METHODS[] = {
    {"strip", str_strip, false},
    {"split", str_split, false},
    {"startswith", str_startswith, false},
    {"endswith", str_endswith, false},
    {"replace", str_replace, false},
    {"lstrip", str_lstrip, false},
    {"rstrip", str_rstrip, false},
    {"upper", str_upper, false},
    {"lower", str_lower, false},
    {"capitalize", str_capitalize, false},
    {"title", str_title, false},
    {"swapcase", str_swapcase, false},
    {"rsplit", str_rsplit, false},
    {"splitlines", str_splitlines, false},
    {"join", str_join, false},
    {"find", str_find, false},
    {"rfind", str_rfind, false},
    {"index", str_index, false},
    {"rindex", str_rindex, false},
    {"count", str_count, false},
    {"removeprefix", str_removeprefix, false},
    {"removesuffix", str_removesuffix, false},
    {"partition", str_partition, false},
    {"rpartition", str_rpartition, false},
    {"ljust", str_ljust, false},
    {"rjust", str_rjust, false},
    {"center", str_center, false},
    {"zfill", str_zfill, false},
    {"format", str_format, false},
    {"isspace", str_isspace, false},
    {"isalpha", str_isalpha, false},
    {"isalnum", str_isalnum, false},
    {"isdigit", str_isdigit, false},
    {"isdecimal", str_isdigit, false},
    {"isascii", str_isascii, false},
    {"isprintable", str_isprintable, false},
    {"isupper", str_isupper, false},
    {"islower", str_islower, false},
    {"casefold", NULL, false},
    {"encode", NULL, false},
    {"expandtabs", NULL, false},
    {"format_map", NULL, false},
    {"isidentifier", NULL, false},
    {"isnumeric", NULL, false},
    {"istitle", NULL, false},
    {"maketrans", NULL, false},
    {"translate", NULL, false},
};

const struct jmethod_def *j_find_str_method(const struct jstr *name)
{
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++)
        if (jstr_is(name, METHODS[i].name, strlen(METHODS[i].name)))
            return &METHODS[i];
    return NULL;
}
