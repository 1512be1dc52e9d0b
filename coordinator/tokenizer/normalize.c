/* The normalizer: each step rewrites the whole text and keeps where every byte came from. */
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

void norm_step_fini(struct norm_step *s)
{
    text_buf_free(&s->find);
    text_buf_free(&s->with);
    regex_destroy(s->regex);
}

static enum status put_cp(struct work *w, uint32_t cp, size_t from, size_t to)
{
    char utf8[4];
    return ttext_put(w, utf8, u8_put(utf8, cp), from, to);
}

/* The text is cut where that cannot change the result; cuts that are in the form already are kept
 * as they are. */
static enum status do_form(struct work *w, enum uc_form form)
{
    const char *p = w->cur->p;
    size_t n = w->cur->n, len;
    struct uc_buf cps = {0};
    enum status st = ST_OK;

    if (uc_is_plain(form, p, n))
        return ST_OK;
    ttext_begin(w);
    for (size_t at = 0; at < n && st == ST_OK;) {
        size_t end = at, last = at; /* last: where the last character before end begins */
        while (end < n && (unsigned char)p[end] < 0x80)
            last = end++;
        if (end == n || (end > at && uc_is_cut(u8_get(p + end, &len))))
            last = end;
        if (last > at) {
            st = ttext_keep(w, at, last);
            at = last;
            continue;
        }
        u8_get(p + at, &len);
        for (end = at + len; end < n; end += len)
            if (uc_is_cut(u8_get(p + end, &len)))
                break;
        if (uc_is_plain(form, p + at, end - at)) {
            st = ttext_keep(w, at, end);
        } else {
            st = uc_normalize(form, p + at, end - at, &cps);
            for (size_t i = 0; i < cps.n && st == ST_OK; i++)
                st = put_cp(w, (uint32_t)cps.cp[i], at, end);
        }
        at = end;
    }
    uc_buf_free(&cps);
    if (st == ST_OK)
        ttext_swap(w);
    return st;
}

static enum status do_lowercase(struct work *w)
{
    size_t len;
    ttext_begin(w);
    for (size_t i = 0; i < w->cur->n; i += len) {
        uint32_t low[2], cp = u8_get(w->cur->p + i, &len);
        size_t k = uc_lower(cp, low);
        for (size_t j = 0; j < k; j++)
            TRY(put_cp(w, low[j], i, i + len));
    }
    ttext_swap(w);
    return ST_OK;
}

static enum status do_strip(struct work *w, const struct norm_step *s)
{
    size_t begin = 0, end = w->cur->n, len;
    while (s->left && begin < end && uc_is_space(u8_get(w->cur->p + begin, &len)))
        begin += len;
    while (s->right && begin < end && uc_is_space(u8_before(w->cur->p, end, &len)))
        end -= len;
    ttext_begin(w);
    TRY(ttext_keep(w, begin, end));
    ttext_swap(w);
    return ST_OK;
}

static enum status do_strip_accents(struct work *w, bool (*is_accent)(uint32_t))
{
    size_t len;
    ttext_begin(w);
    for (size_t i = 0; i < w->cur->n; i += len)
        if (!is_accent(u8_get(w->cur->p + i, &len)))
            TRY(ttext_keep(w, i, i + len));
    ttext_swap(w);
    return ST_OK;
}

/* The next place of find in p[at, n). */
static bool find_text(const struct text_buf *find, const char *p, size_t n, size_t at,
                      size_t *begin)
{
    while (find->len <= n - at) {
        const char *hit = memchr(p + at, find->data[0], n - at - find->len + 1);
        if (!hit)
            return false;
        *begin = (size_t)(hit - p);
        if (memcmp(hit, find->data, find->len) == 0)
            return true;
        at = *begin + 1;
    }
    return false;
}

static enum status do_replace(struct work *w, const struct norm_step *s)
{
    size_t at = 0, begin = 0, end = 0, kept = 0;
    bool found = false;
    ttext_begin(w);
    while (at <= w->cur->n) {
        if (s->regex) {
            TRY(work_regex(w));
            TRY(regex_find(s->regex, w->regex, w->cur->p, w->cur->n, at, &found, &begin, &end));
        } else {
            found = find_text(&s->find, w->cur->p, w->cur->n, at, &begin);
            end = begin + s->find.len;
        }
        if (!found)
            break;
        TRY(ttext_keep(w, kept, begin));
        TRY(ttext_put(w, s->with.data, s->with.len, begin, end));
        kept = at = end;
        if (begin == end) { /* an empty match: go on behind the next character */
            size_t len = 1;
            if (at < w->cur->n)
                u8_get(w->cur->p + at, &len);
            at += len;
        }
    }
    TRY(ttext_keep(w, kept, w->cur->n));
    ttext_swap(w);
    return ST_OK;
}

static enum status do_prepend(struct work *w, const struct norm_step *s)
{
    if (w->cur->n == 0)
        return ST_OK;
    ttext_begin(w);
    TRY(ttext_put(w, s->with.data, s->with.len, 0, 0));
    TRY(ttext_keep(w, 0, w->cur->n));
    ttext_swap(w);
    return ST_OK;
}

static enum status do_clean(struct work *w)
{
    size_t len;
    ttext_begin(w);
    for (size_t i = 0; i < w->cur->n; i += len) {
        uint32_t cp = u8_get(w->cur->p + i, &len);
        bool blank = cp == '\t' || cp == '\n' || cp == '\r';
        if (cp == 0 || cp == 0xFFFD || (!blank && uc_is_other(cp)))
            continue;
        if (blank || uc_is_space(cp))
            TRY(ttext_put(w, " ", 1, i, i + len));
        else
            TRY(ttext_keep(w, i, i + len));
    }
    ttext_swap(w);
    return ST_OK;
}

static enum status do_space_cjk(struct work *w)
{
    size_t len;
    ttext_begin(w);
    for (size_t i = 0; i < w->cur->n; i += len) {
        bool cjk = uc_is_cjk_ideograph(u8_get(w->cur->p + i, &len));
        if (cjk)
            TRY(ttext_put(w, " ", 1, i, i));
        TRY(ttext_keep(w, i, i + len));
        if (cjk)
            TRY(ttext_put(w, " ", 1, i + len, i + len));
    }
    ttext_swap(w);
    return ST_OK;
}

/* What SentencePiece's nmt rule does with controls and odd blanks: 0 drop, ' ' blank, else keep. */
static uint32_t nmt(uint32_t c)
{
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
        c == 0x9F)
        return 0;
    if (c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD)
        return ' ';
    return 1;
}

static enum status do_nmt(struct work *w)
{
    size_t len;
    ttext_begin(w);
    for (size_t i = 0; i < w->cur->n; i += len) {
        uint32_t to = nmt(u8_get(w->cur->p + i, &len));
        if (to == ' ')
            TRY(ttext_put(w, " ", 1, i, i + len));
        else if (to)
            TRY(ttext_keep(w, i, i + len));
    }
    ttext_swap(w);
    return ST_OK;
}

static enum status do_byte_level(struct work *w)
{
    ttext_begin(w);
    for (size_t i = 0; i < w->cur->n; i++)
        TRY(put_cp(w, byte_to_char((unsigned char)w->cur->p[i]), i, i + 1));
    ttext_swap(w);
    w->chars = true;
    return ST_OK;
}

/* ---- the character map of SentencePiece: a double array (Aoe 1989, as darts-clone lays it out) of
 * little-endian 32-bit units after their size in bytes, then the replacements, each ended by NUL
 * ---- */

static uint32_t unit_at(const struct text_buf *map, size_t i)
{
    const unsigned char *p = (const unsigned char *)map->data + 4 + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t array_size(const struct text_buf *map)
{
    const unsigned char *p = (const unsigned char *)map->data;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

enum status set_precompiled(struct norm_step *s, const char *map, size_t n)
{
    TRY(text_buf_append(&s->find, map, n));
    if (n < 8 || array_size(&s->find) > n - 4 || array_size(&s->find) % 4 != 0 ||
        array_size(&s->find) == 0)
        FAIL(ST_FORMAT, "normalizer Precompiled: the character map of %zu bytes is malformed", n);
    return ST_OK;
}

/* The replacement of the shortest entry that is a prefix of p[0, n); false: none. */
static bool map_lookup(const struct text_buf *map, const char *p, size_t n, const char **with,
                       size_t *with_n)
{
    size_t n_units = array_size(map) / 4, node = 0;
    uint32_t unit = unit_at(map, 0);
    node ^= (unit >> 10) << ((unit & 1u << 9) >> 6);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c == 0)
            return false;
        node ^= c;
        if (node >= n_units)
            return false;
        unit = unit_at(map, node);
        if ((unit & (1u << 31 | 0xFF)) != c)
            return false;
        node ^= (unit >> 10) << ((unit & 1u << 9) >> 6);
        if (node >= n_units)
            return false;
        if (unit >> 8 & 1) {
            size_t strings = 4 + 4 * n_units, at = unit_at(map, node) & 0x7FFFFFFF;
            if (at >= map->len - strings)
                return false;
            *with = map->data + strings + at;
            const char *nul = memchr(*with, 0, map->len - strings - at);
            *with_n = nul ? (size_t)(nul - *with) : map->len - strings - at;
            return true;
        }
    }
    return false;
}

static enum status do_precompiled(struct work *w, const struct norm_step *s)
{
    const char *with;
    size_t k, len;
    ttext_begin(w);
    for (size_t at = 0; at < w->cur->n;) {
        const char *p = w->cur->p;
        size_t end = uc_grapheme_end(p, w->cur->n, at);
        if (end - at < 6 && map_lookup(&s->find, p + at, end - at, &with, &k)) {
            TRY(ttext_put(w, with, k, at, end));
            at = end;
        }
        for (; at < end; at += len) {
            u8_get(p + at, &len);
            if (map_lookup(&s->find, p + at, len, &with, &k))
                TRY(ttext_put(w, with, k, at, at + len));
            else
                TRY(ttext_keep(w, at, at + len));
        }
    }
    ttext_swap(w);
    return ST_OK;
}

static enum status do_step(struct work *w, const struct norm_step *s)
{
    switch (s->kind) {
    case NORM_FORM:
        return do_form(w, (enum uc_form)s->form);
    case NORM_LOWERCASE:
        return do_lowercase(w);
    case NORM_STRIP:
        return do_strip(w, s);
    case NORM_STRIP_ACCENTS:
        return do_strip_accents(w, uc_is_mark);
    case NORM_STRIP_NONSPACING:
        return do_strip_accents(w, uc_is_nonspacing);
    case NORM_REPLACE:
        return do_replace(w, s);
    case NORM_PREPEND:
        return do_prepend(w, s);
    case NORM_CLEAN:
        return do_clean(w);
    case NORM_SPACE_CJK:
        return do_space_cjk(w);
    case NORM_NMT:
        return do_nmt(w);
    case NORM_PRECOMPILED:
        return do_precompiled(w, s);
    case NORM_BYTE_LEVEL:
        return do_byte_level(w);
    }
    FAIL(ST_BUG, "normalizer step %d", (int)s->kind);
}

enum status normalize(struct work *w, size_t begin, size_t end)
{
    w->cur->p = w->text + begin;
    w->cur->n = end - begin;
    w->cur->plain = true;
    w->cur->base = begin;
    w->chars = false;
    for (int i = 0; i < w->t->n_norm; i++)
        TRY(do_step(w, &w->t->norm[i]));
    return ST_OK;
}

enum status normalize_text(const struct tokenizer *t, const char *p, size_t n, struct text_buf *out)
{
    struct work w = {.t = t, .text = p, .n = n};
    ttext_set_bounds(&w);
    w.cur = &w.a;
    w.other = &w.b;
    enum status st = normalize(&w, 0, n);
    if (st == ST_OK)
        st = text_buf_append(out, w.cur->p, w.cur->n);
    text_buf_free(&w.a.own);
    text_buf_free(&w.b.own);
    regex_scratch_destroy(w.regex);
    return st;
}
