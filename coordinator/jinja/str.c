#include "coordinator/jinja/str.h"

#include <string.h>

#include "coordinator/jinja/utf8.h"

/* Is the sigma at i the last letter of its word?  (Unicode's Final_Sigma, as Python applies it.) */
static bool is_final_sigma(const char *p, size_t n, size_t i)
{
    size_t k, at = i;
    bool before = false;
    while (at > 0) {
        at -= u8_length_before(p, at);
        uint32_t c = u8_decode(p + at, &k);
        if (u8_is_case_ignorable(c))
            continue;
        before = u8_is_cased(c);
        break;
    }
    if (!before)
        return false;
    for (at = i + 2; at < n; at += k) {
        uint32_t c = u8_decode(p + at, &k);
        if (!u8_is_case_ignorable(c))
            return !u8_is_cased(c);
    }
    return true;
}

static size_t lower_at(const char *p, size_t n, size_t i, uint32_t c, uint32_t out[3])
{
    if (c != 0x3a3)
        return u8_lower(c, out);
    out[0] = is_final_sigma(p, n, i) ? 0x3c2 : 0x3c3;
    return 1;
}

enum status j_emit_case(struct jrun *r, const char *p, size_t n, enum jcase how)
{
    bool in_word = false; /* title: the character before was cased */
    TRY(j_charge(r, n / 4));
    for (size_t i = 0, k; i < n; i += k) {
        uint32_t c = u8_decode(p + i, &k), to[3];
        size_t n_to;
        bool first = how == JCASE_TITLE ? !in_word : how == JCASE_CAPITALIZE && i == 0;
        if (how == JCASE_UPPER || (how == JCASE_SWAP && u8_is_lower(c)))
            n_to = u8_upper(c, to);
        else if (how == JCASE_SWAP && !u8_is_upper(c))
            n_to = 1, to[0] = c;
        else
            n_to = first ? u8_title(c, to) : lower_at(p, n, i, c, to);
        in_word = u8_is_cased(c);
        char bytes[12];
        size_t n_bytes = 0;
        for (size_t t = 0; t < n_to; t++)
            n_bytes += u8_encode(to[t], bytes + n_bytes);
        TRY(j_emit_made(r, p + i, bytes, n_bytes));
    }
    return ST_OK;
}

enum status j_str_case(struct jrun *r, const struct jstr *s, enum jcase how, struct jval *out)
{
    size_t mark = j_mark(r);
    TRY(j_emit_case(r, s->p, s->n, how));
    return j_take(r, mark, out);
}

static enum status in_set(struct jrun *r, const struct jstr *set, const char *p, size_t n,
                          bool *out)
{
    size_t k;
    if (!set) {
        *out = u8_is_space(u8_decode(p, &k));
        return ST_OK;
    }
    *out = false;
    TRY(j_charge_bytes(r, set->n));
    for (size_t i = 0; i < set->n && !*out; i += k) {
        k = u8_length(set->p[i]);
        *out = k == n && memcmp(set->p + i, p, n) == 0;
    }
    return ST_OK;
}

enum status j_str_strip(struct jrun *r, const struct jstr *s, const struct jstr *set, bool left,
                        bool right, struct jval *out)
{
    size_t from = 0, to = s->n;
    bool strip;
    TRY(j_charge(r, 1));
    while (left && from < to) {
        size_t k = u8_length(s->p[from]);
        TRY(in_set(r, set, s->p + from, k, &strip));
        if (!strip)
            break;
        from += k;
    }
    while (right && to > from) {
        size_t k = u8_length_before(s->p, to);
        TRY(in_set(r, set, s->p + to - k, k, &strip));
        if (!strip)
            break;
        to -= k;
    }
    TRY(j_charge_chars(r, s->n - (to - from)));
    return j_view(r, s->p + from, to - from, out);
}

/* "" is found before each character and at the end. */
static enum status replace_empty(struct jrun *r, const struct jstr *s, const struct jstr *to,
                                 int64_t count)
{
    size_t at = 0;
    for (; count != 0; count--) {
        TRY(j_charge(r, 1));
        TRY(j_emit(r, to->p, to->n));
        if (at == s->n)
            return ST_OK;
        size_t k = u8_length(s->p[at]);
        TRY(j_emit(r, s->p + at, k));
        at += k;
    }
    return j_emit(r, s->p + at, s->n - at);
}

enum status j_str_replace(struct jrun *r, const struct jstr *s, const struct jstr *from,
                          const struct jstr *to, int64_t count, struct jval *out)
{
    size_t mark = j_mark(r), at = 0, found;
    if (from->n == 0) {
        TRY(replace_empty(r, s, to, count));
        return j_take(r, mark, out);
    }
    for (; count != 0; count--) {
        TRY(j_charge(r, 1));
        TRY(j_find(r, s->p + at, s->n - at, from->p, from->n, &found));
        if (found == SIZE_MAX)
            break;
        TRY(j_emit(r, s->p + at, found));
        TRY(j_emit(r, to->p, to->n));
        at += found + from->n;
    }
    TRY(j_emit(r, s->p + at, s->n - at));
    return j_take(r, mark, out);
}

static enum status push_piece(struct jrun *r, struct jlist *l, const char *p, size_t n)
{
    struct jval v;
    TRY(j_charge(r, 1));
    TRY(j_view(r, p, n, &v));
    return jlist_push(r, l, &v);
}

static bool ends_line(uint32_t c)
{
    return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

enum status j_str_lines(struct jrun *r, const struct jstr *s, bool keep_ends, struct jlist **out)
{
    TRY(jlist_new(r, 0, out));
    TRY(j_charge_chars(r, s->n));
    size_t from = 0, k;
    for (size_t i = 0; i < s->n;) {
        if (!ends_line(u8_decode(s->p + i, &k))) {
            i += k;
            continue;
        }
        if (s->p[i] == '\r' && i + 1 < s->n && s->p[i + 1] == '\n')
            k = 2;
        TRY(push_piece(r, *out, s->p + from, i - from + (keep_ends ? k : 0)));
        i += k;
        from = i;
    }
    return from < s->n ? push_piece(r, *out, s->p + from, s->n - from) : ST_OK;
}

static size_t skip_blank(const struct jstr *s, size_t i, bool blank)
{
    size_t k;
    while (i < s->n && u8_is_space(u8_decode(s->p + i, &k)) == blank)
        i += k;
    return i;
}

enum status j_str_split(struct jrun *r, const struct jstr *s, const struct jstr *sep, int64_t max,
                        struct jlist **out)
{
    size_t at = 0, found;
    TRY(jlist_new(r, 0, out));
    if (!sep) {
        TRY(j_charge_chars(r, s->n));
        for (at = skip_blank(s, 0, true); at < s->n; max--) {
            size_t end = skip_blank(s, at, false);
            if (max == 0)
                return push_piece(r, *out, s->p + at, s->n - at);
            TRY(push_piece(r, *out, s->p + at, end - at));
            at = skip_blank(s, end, true);
        }
        return ST_OK;
    }
    if (sep->n == 0)
        FAIL(ST_UNSUPPORTED, "split: an empty separator");
    for (; max != 0; max--) {
        TRY(j_find(r, s->p + at, s->n - at, sep->p, sep->n, &found));
        if (found == SIZE_MAX)
            break;
        TRY(push_piece(r, *out, s->p + at, found));
        at += found + sep->n;
    }
    return push_piece(r, *out, s->p + at, s->n - at);
}

static enum status emit_fill(struct jrun *r, const struct jstr *fill, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        TRY(j_charge(r, 1));
        TRY(j_emit(r, fill->p, fill->n));
    }
    return ST_OK;
}

enum status j_str_justify(struct jrun *r, const struct jstr *s, int64_t width, char align,
                          const struct jstr *fill, struct jval *out)
{
    size_t mark = j_mark(r);
    int64_t missing = width > (int64_t)s->n_chars ? width - (int64_t)s->n_chars : 0;
    /* Python puts the odd one to the left when the width is odd. */
    int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2 + (missing & width & 1);
    TRY(emit_fill(r, fill, left));
    TRY(j_emit(r, s->p, s->n));
    TRY(emit_fill(r, fill, missing - left));
    return j_take(r, mark, out);
}
