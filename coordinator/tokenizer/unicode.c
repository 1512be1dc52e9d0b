#include "coordinator/tokenizer/unicode.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "coordinator/tokenizer/unicode_tables.h"

uint32_t u8_before(const char *s, size_t at, size_t *n)
{
    size_t i = at - 1;
    while (i > 0 && u8_is_tail(s[i]))
        i--;
    return u8_get(s + i, n);
}

size_t u8_put(char *out, uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool uc_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool uc_is_numeric(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool uc_is_letter(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

static bool in_table(const struct uc_table *t, uint32_t cp)
{
    size_t low = 0, high = t->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (cp > t->ranges[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    return low < t->n && cp >= t->ranges[low].first;
}

bool uc_is_mark(uint32_t cp)
{
    return in_table(&uc_marks, cp);
}

bool uc_is_nonspacing(uint32_t cp)
{
    return in_table(&uc_nonspacing, cp);
}

bool uc_is_other(uint32_t cp)
{
    if (cp < 0x80)
        return cp < 0x20 || cp == 0x7F;
    return in_table(&uc_other, cp);
}

bool uc_is_punctuation(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= 33 && cp <= 47) || (cp >= 58 && cp <= 64) || (cp >= 91 && cp <= 96) ||
               (cp >= 123 && cp <= 126);
    return in_table(&uc_punctuation, cp);
}

bool uc_is_word(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z') ||
               cp == '_';
    utf8proc_category_t c = category(cp);
    /* Other_Alphabetic outside L, M and Nl: the circled and squared letters. */
    bool circled = (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
                   (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
    bool mark = c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
    return uc_is_letter(cp) || mark || c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL ||
           c == UTF8PROC_CATEGORY_PC || circled || cp == 0x200C || cp == 0x200D;
}

bool uc_is_cjk_ideograph(uint32_t cp)
{
    return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) ||
           (cp >= 0x20000 && cp <= 0x2A6DF) || (cp >= 0x2A700 && cp <= 0x2B73F) ||
           (cp >= 0x2B740 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) ||
           (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0x2F800 && cp <= 0x2FA1F);
}

size_t uc_lower(uint32_t cp, uint32_t out[2])
{
    if (cp < 0x80) {
        out[0] = cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
        return 1;
    }
    if (cp == 0x130) { /* the only character whose lower case is two (SpecialCasing.txt) */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    return 1;
}

bool uc_is_cut(uint32_t cp)
{
    /* Starters that never compose with what stands before them: most of what text is made of. */
    return cp < 0x300 || (cp >= 0x400 && cp <= 0x482) || (cp >= 0x3041 && cp <= 0x3096) ||
           (cp >= 0x30A1 && cp <= 0x30FA) || (cp >= 0x4E00 && cp <= 0x9FFF) ||
           (cp >= 0xAC00 && cp <= 0xD7A3) || (cp >= 0x2000 && cp <= 0x206F) || cp >= 0x1F000;
}

/* Starters that neither decompose in NFC nor compose with what stands before them. */
static bool is_settled(uint32_t cp)
{
    return cp < 0x300 || (cp >= 0x400 && cp <= 0x482) || (cp >= 0x48A && cp <= 0x52F) ||
           (cp >= 0x5D0 && cp <= 0x5EA) || (cp >= 0x620 && cp <= 0x64A) ||
           (cp >= 0x2002 && cp <= 0x206F) || (cp >= 0x3041 && cp <= 0x3096) ||
           (cp >= 0x30A1 && cp <= 0x30FA) || (cp >= 0x4E00 && cp <= 0x9FFF) ||
           (cp >= 0xAC00 && cp <= 0xD7A3) || (cp >= 0xFF01 && cp <= 0xFF5E) ||
           (cp >= 0x1F000 && cp <= 0x1FAFF);
}

bool uc_is_plain(enum uc_form form, const char *s, size_t n)
{
    size_t len;
    for (size_t i = 0; i < n; i += len) {
        uint32_t cp = u8_get(s + i, &len);
        if (cp >= 0x80 && (form != UC_NFC || !is_settled(cp)))
            return false;
    }
    return true;
}

void uc_buf_free(struct uc_buf *b)
{
    free(b->cp);
    *b = (struct uc_buf){0};
}

static enum status uc_reserve(struct uc_buf *b, size_t n)
{
    if (n <= b->cap - b->n)
        return ST_OK;
    size_t cap = (b->n + n) * 2;
    int32_t *cp = cap > SIZE_MAX / 8 ? NULL : realloc(b->cp, cap * sizeof *cp);
    if (!cp)
        FAIL(ST_NOMEM, "no memory to normalise %zu characters", b->n + n);
    b->cp = cp;
    b->cap = cap;
    return ST_OK;
}

/* The tables that HuggingFace normalises with are older than utf8proc's: marks that they do not
 * know are like other characters, and what they cannot decompose stays. */
static unsigned char class_of(int32_t cp)
{
    return in_table(&uc_ordered, (uint32_t)cp)
               ? (unsigned char)utf8proc_get_property(cp)->combining_class
               : 0;
}

static bool is_unknown_mark(int32_t cp)
{
    return utf8proc_get_property(cp)->combining_class != 0 && !in_table(&uc_ordered, (uint32_t)cp);
}

/* Puts a run of combining marks in canonical order: a stable sort by combining class.  Short runs
 * by insertion; long ones by counting, so that a hostile run costs no more than its length. */
static enum status order_run(int32_t *cp, size_t n)
{
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            int32_t c = cp[i];
            size_t j = i;
            for (; j > 0 && class_of(cp[j - 1]) > class_of(c); j--)
                cp[j] = cp[j - 1];
            cp[j] = c;
        }
        return ST_OK;
    }
    size_t start[257] = {0};
    int32_t *copy = malloc(n * sizeof *copy);
    if (!copy)
        FAIL(ST_NOMEM, "no memory to order %zu combining marks", n);
    memcpy(copy, cp, n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        start[class_of(copy[i]) + 1]++;
    for (size_t k = 1; k < 257; k++)
        start[k] += start[k - 1];
    for (size_t i = 0; i < n; i++)
        cp[start[class_of(copy[i])]++] = copy[i];
    free(copy);
    return ST_OK;
}

static enum status order_marks(int32_t *cp, size_t n)
{
    for (size_t i = 0; i < n;) {
        if (class_of(cp[i]) == 0) {
            i++;
            continue;
        }
        size_t j = i + 1;
        while (j < n && class_of(cp[j]) != 0)
            j++;
        TRY(order_run(cp + i, j - i));
        i = j;
    }
    return ST_OK;
}

/* Composes in place, anew from each mark that is unknown, as nothing composes across it. */
static enum status compose(struct uc_buf *b)
{
    size_t kept = 0;
    for (size_t i = 0, end; i < b->n; i = end) {
        for (end = i + 1; end < b->n && !is_unknown_mark(b->cp[end]);)
            end++;
        utf8proc_ssize_t k =
            utf8proc_normalize_utf32(b->cp + i, (utf8proc_ssize_t)(end - i),
                                     (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
        if (k < 0)
            FAIL(ST_BUG, "composition failed: %s", utf8proc_errmsg(k));
        memmove(b->cp + kept, b->cp + i, (size_t)k * sizeof *b->cp);
        kept += (size_t)k;
    }
    b->n = kept;
    return ST_OK;
}

enum status uc_normalize(enum uc_form form, const char *s, size_t n, struct uc_buf *out)
{
    unsigned options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                       (form == UC_NFKC || form == UC_NFKD ? UTF8PROC_COMPAT : 0u);
    out->n = 0;
    size_t len;
    for (size_t i = 0; i < n; i += len) {
        uint32_t cp = u8_get(s + i, &len);
        TRY(uc_reserve(out, 32)); /* no character decomposes into more than 18 */
        int bound = 0;
        utf8proc_ssize_t k = 1;
        if (in_table(&uc_decomposable, cp))
            k = utf8proc_decompose_char((utf8proc_int32_t)cp, out->cp + out->n, 32,
                                        (utf8proc_option_t)options, &bound);
        else
            out->cp[out->n] = (int32_t)cp;
        if (k < 0 || k > 32)
            FAIL(ST_BUG, "U+%04X cannot be decomposed", (unsigned)cp);
        out->n += (size_t)k;
    }
    TRY(order_marks(out->cp, out->n));
    return form == UC_NFC || form == UC_NFKC ? compose(out) : ST_OK;
}

size_t uc_grapheme_end(const char *s, size_t n, size_t at)
{
    size_t len;
    utf8proc_int32_t state = 0;
    uint32_t a = u8_get(s + at, &len);
    for (at += len; at < n; at += len) {
        uint32_t b = u8_get(s + at, &len);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)a, (utf8proc_int32_t)b, &state))
            break;
        a = b;
    }
    return at;
}
