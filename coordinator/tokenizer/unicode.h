/* Unicode for the tokenizers: decoding of trusted UTF-8, character classes as Rust's char methods
 * and the Oniguruma regular expressions define them, normal forms and lower case through utf8proc.
 * Pure functions. */
#ifndef COORDINATOR_TOKENIZER_UNICODE_H
#define COORDINATOR_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* Decodes the character at s, which must be valid UTF-8; *n is its length in bytes. */
static inline uint32_t u8_get(const char *s, size_t *n)
{
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x80) {
        *n = 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *n = 2;
        return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    }
    if (p[0] < 0xF0) {
        *n = 3;
        return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    *n = 4;
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
           (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
}

/* The character that ends just before s + at (at > 0); *n is its length. */
uint32_t u8_before(const char *s, size_t at, size_t *n);

/* Writes cp (a Unicode scalar value) to out, at most 4 bytes; returns their number. */
size_t u8_put(char *out, uint32_t cp);

static inline bool u8_is_tail(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

bool uc_is_space(uint32_t cp);      /* White_Space */
bool uc_is_numeric(uint32_t cp);    /* Nd, Nl, No */
bool uc_is_letter(uint32_t cp);     /* L */
bool uc_is_mark(uint32_t cp);       /* M, as the StripAccents normalizer has it */
bool uc_is_nonspacing(uint32_t cp); /* Mn, as BertNormalizer has it */
bool uc_is_other(uint32_t cp);      /* C, as BertNormalizer has it: without unassigned ones */
bool uc_is_punctuation(
    uint32_t cp); /* P as the pre-tokenizers have it, and every ASCII punctuation character */
bool uc_is_word(uint32_t cp);          /* \w: Alphabetic, M, Nd, Pc, Join_Control */
bool uc_is_cjk_ideograph(uint32_t cp); /* the blocks that BERT sets apart by blanks */

/* Lower case of cp as Rust's char::to_lowercase: one or two characters; returns how many. */
size_t uc_lower(uint32_t cp, uint32_t out[2]);

enum uc_form { UC_NFC, UC_NFD, UC_NFKC, UC_NFKD };

/* True for characters before which a text can be cut for normalisation without changing the
 * result. */
bool uc_is_cut(uint32_t cp);

/* True when the n bytes are in this form already (a quick test: false is "perhaps not"). */
bool uc_is_plain(enum uc_form form, const char *s, size_t n);

/* Normalises the n bytes of valid UTF-8; the result is appended through put, in order.
 * Linear but for runs of combining marks, which are sorted (n log n). */
struct uc_buf {
    int32_t *cp;
    size_t n, cap;
};
MUST_CHECK enum status uc_normalize(enum uc_form form, const char *s, size_t n, struct uc_buf *out);
void uc_buf_free(struct uc_buf *b);

/* The end of the extended grapheme cluster that begins at s[at]. */
size_t uc_grapheme_end(const char *s, size_t n, size_t at);

#endif
