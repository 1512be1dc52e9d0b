#include "coordinator/tokenizer/detok.h"

#include <string.h>

#include "common/utf8.h"
#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

void detok_init(struct detok *d, const struct tokenizer *tok, unsigned flags)
{
    *d = (struct detok){.tok = tok, .flags = flags, .pending = -1};
    d->strip_left = (uint8_t)tok->decoder.strip_start;
}

/* ---- the text of one token ---- */

static enum status replace_all(struct text_buf *b, const char *find, size_t n, const char *with,
                               size_t k)
{
    struct text_buf out = {0};
    enum status st = ST_OK;
    size_t kept = 0;
    for (size_t at = 0; n > 0 && at + n <= b->len && st == ST_OK;) {
        if (memcmp(b->data + at, find, n) != 0) {
            at++;
            continue;
        }
        st = text_buf_append(&out, b->data + kept, at - kept);
        if (st == ST_OK)
            st = text_buf_append(&out, with, k);
        kept = at += n;
    }
    if (kept > 0 && st == ST_OK) {
        st = text_buf_append(&out, b->data + kept, b->len - kept);
        struct text_buf old = *b;
        *b = out;
        out = old;
    }
    text_buf_free(&out);
    return st;
}

static void strip_token(struct text_buf *b, const struct dec_step *s)
{
    size_t begin = 0, end = b->len, k = s->find.len;
    for (uint32_t i = 0;
         i < s->start && end - begin >= k && memcmp(b->data + begin, s->find.data, k) == 0; i++)
        begin += k;
    for (uint32_t i = 0;
         i < s->stop && end - begin >= k && memcmp(b->data + end - k, s->find.data, k) == 0; i++)
        end -= k;
    if (begin)
        memmove(b->data, b->data + begin, end - begin);
    b->len = end - begin;
}

static enum status wordpiece_token(struct text_buf *b, const struct dec_step *s, bool first)
{
    /* The blanks that an English tokenizer put in, taken out again, in this order. */
    static const char *const clean[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                           {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                           {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    if (!first) {
        if (s->find.len <= b->len && memcmp(b->data, s->find.data, s->find.len) == 0) {
            b->len -= s->find.len;
            memmove(b->data, b->data + s->find.len, b->len);
        } else {
            TRY(text_buf_reserve(b, 1));
            memmove(b->data + 1, b->data, b->len++);
            b->data[0] = ' ';
        }
    }
    for (size_t i = 0; s->cleanup && i < ARRAY_LEN(clean); i++)
        TRY(replace_all(b, clean[i][0], strlen(clean[i][0]), clean[i][1], strlen(clean[i][1])));
    return ST_OK;
}

static enum status token_step(const struct dec_step *s, struct text_buf *b, bool first, bool last)
{
    switch (s->kind) {
    case DEC_REPLACE:
        return replace_all(b, s->find.data, s->find.len, s->with.data, s->with.len);
    case DEC_STRIP:
        strip_token(b, s);
        return ST_OK;
    case DEC_METASPACE:
        return replace_all(b, s->find.data, s->find.len, " ", first && s->drop_first ? 0 : 1);
    case DEC_WORDPIECE:
        return wordpiece_token(b, s, first);
    case DEC_BPE:
        return replace_all(b, s->find.data, s->find.len, " ", last ? 0 : 1);
    case DEC_BYTE_LEVEL:
    case DEC_BYTE_FALLBACK:
    case DEC_FUSE:
        break;
    }
    FAIL(ST_BUG, "decoder step %d within a token", (int)s->kind);
}

static enum status token_text(const struct tokenizer *t, int32_t id, bool first, bool last,
                              struct text_buf *b)
{
    struct tok_text s = vocab_text(&t->vocab, id);
    b->len = 0;
    if (t->decoder.byte_level) {
        bool all;
        TRY(bytes_of_chars(s.data, s.len, b, &all));
        return all ? ST_OK : text_buf_append(b, s.data, s.len);
    }
    TRY(text_buf_append(b, s.data, s.len));
    for (int i = 0; i < t->decoder.n_steps; i++)
        TRY(token_step(&t->decoder.steps[i], b, first, last));
    return ST_OK;
}

/* ---- the stream ---- */

/* Characters to be stripped at the end of the whole text are held back until something else
 * comes. */
static enum status put_held(struct detok *d, const char *p, size_t n, struct text_buf *out)
{
    const struct decoder *dec = &d->tok->decoder;
    char c[4];
    size_t k = u8_put(c, dec->strip_char), trailing = 0, body = n;
    while (body >= k && memcmp(p + body - k, c, k) == 0) {
        body -= k;
        trailing++;
    }
    size_t held = body > 0 ? trailing : d->strip_held + trailing;
    size_t keep = held < dec->strip_stop ? held : dec->strip_stop;
    for (size_t i = 0; i < d->strip_held && body > 0; i++)
        TRY(text_buf_append(out, c, k));
    TRY(text_buf_append(out, p, body));
    for (size_t i = keep; i < held; i++)
        TRY(text_buf_append(out, c, k));
    d->strip_held = (uint16_t)keep;
    return ST_OK;
}

/* p[0, n) are whole characters. */
static enum status put_text(struct detok *d, const char *p, size_t n, struct text_buf *out)
{
    while (d->strip_left > 0 && n > 0) {
        size_t len;
        if (u8_get(p, &len) != d->tok->decoder.strip_char) {
            d->strip_left = 0;
            break;
        }
        d->strip_left--;
        p += len;
        n -= len;
    }
    if (d->tok->decoder.strip_stop == 0)
        return text_buf_append(out, p, n);
    return n ? put_held(d, p, n, out) : ST_OK;
}

/* Can byte c follow the unfinished sequence in tail (Unicode, table 3-7)? */
static bool continues(const uint8_t *tail, unsigned n, unsigned char c)
{
    unsigned char low = 0x80, high = 0xBF;
    if (n == 1 && tail[0] == 0xE0)
        low = 0xA0;
    else if (n == 1 && tail[0] == 0xED)
        high = 0x9F;
    else if (n == 1 && tail[0] == 0xF0)
        low = 0x90;
    else if (n == 1 && tail[0] == 0xF4)
        high = 0x8F;
    return c >= low && c <= high;
}

static unsigned sequence_length(uint8_t lead)
{
    return lead >= 0xC2 && lead < 0xE0   ? 2
           : (lead & 0xF0) == 0xE0       ? 3
           : lead >= 0xF0 && lead < 0xF5 ? 4
                                         : 0;
}

/* Bytes of any kind: each maximal part of a sequence that breaks off becomes one U+FFFD. */
static enum status put_bytes(struct detok *d, const char *p, size_t n, struct text_buf *out)
{
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)p[i];
        if (d->n_tail > 0) {
            if (continues(d->tail, d->n_tail, c)) {
                d->tail[d->n_tail++] = c;
                i++;
                if (d->n_tail < sequence_length(d->tail[0]))
                    continue;
                TRY(put_text(d, (const char *)d->tail, d->n_tail, out));
            } else {
                TRY(put_text(d, replacement, 3, out));
            }
            d->n_tail = 0;
        } else if (c < 0x80) {
            size_t end = i + 1;
            while (end < n && (unsigned char)p[end] < 0x80)
                end++;
            TRY(put_text(d, p + i, end - i, out));
            i = end;
        } else {
            i++;
            if (sequence_length(c))
                d->tail[d->n_tail++] = c;
            else
                TRY(put_text(d, replacement, 3, out));
        }
    }
    return ST_OK;
}

static enum status put_replacements(struct detok *d, size_t n, struct text_buf *out)
{
    for (size_t i = 0; i < n; i++)
        TRY(put_text(d, replacement, 3, out));
    return ST_OK;
}

/* The run of byte tokens is over: it is text as a whole, or each of its bytes is U+FFFD. */
static enum status end_run(struct detok *d, struct text_buf *out)
{
    size_t n = d->n_run;
    d->n_run = 0;
    d->run_bad = false;
    if (utf8_valid((const char *)d->run, n))
        return put_text(d, (const char *)d->run, n, out);
    return put_replacements(d, n, out);
}

static enum status run_byte(struct detok *d, uint8_t byte, struct text_buf *out)
{
    if (d->run_bad)
        return put_replacements(d, 1, out);
    d->run[d->n_run++] = byte;
    size_t whole = utf8_valid_prefix((const char *)d->run, d->n_run), rest = d->n_run - whole;
    const uint8_t *tail = d->run + whole;
    bool good = rest == 0 || (rest < 4 && sequence_length(tail[0]) > rest);
    for (unsigned i = 1; i < rest && good; i++)
        good = continues(tail, i, tail[i]);
    if (!good) {
        size_t n = d->n_run;
        d->n_run = 0;
        d->run_bad = true;
        return put_replacements(d, n, out);
    }
    if (d->n_run == DETOK_MAX_RUN) { /* whole characters go, the unfinished one stays */
        TRY(put_text(d, (const char *)d->run, whole, out));
        memmove(d->run, tail, rest);
        d->n_run = (uint16_t)rest;
    }
    return ST_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static bool is_byte_token(const struct decoder *dec, const struct text_buf *b)
{
    return dec->byte_fallback && b->len == 6 && memcmp(b->data, "<0x", 3) == 0 &&
           b->data[5] == '>' && hex_digit(b->data[3]) >= 0 && hex_digit(b->data[4]) >= 0;
}

static char byte_of_token(const struct text_buf *b)
{
    return (char)(hex_digit(b->data[3]) * 16 + hex_digit(b->data[4]));
}

static enum status take(struct detok *d, int32_t id, bool last, struct text_buf *out)
{
    const struct decoder *dec = &d->tok->decoder;
    struct text_buf b = {0};
    if (dec->byte_level && d->tok->vocab.byte_level) {
        struct tok_text raw = vocab_raw(&d->tok->vocab, id);
        return put_bytes(d, raw.data, raw.len, out);
    }
    enum status st = token_text(d->tok, id, !d->started, last, &b);
    if (st == ST_OK && is_byte_token(dec, &b)) {
        st = run_byte(d, (uint8_t)byte_of_token(&b), out);
    } else if (st == ST_OK) {
        st = end_run(d, out);
        if (st == ST_OK && dec->spaced && d->started)
            st = put_text(d, " ", 1, out);
        if (st == ST_OK)
            st = dec->byte_level ? put_bytes(d, b.data, b.len, out)
                                 : put_text(d, b.data, b.len, out);
    }
    d->started = true;
    text_buf_free(&b);
    return st;
}

/* Does the id give no text at all? */
static bool is_silent(const struct detok *d, int32_t id)
{
    const struct tokenizer *t = d->tok;
    if (id >= t->vocab.n_ids || !(t->vocab.flags[id] & TF_USED))
        return true;
    if (!(d->flags & TOK_SKIP_SPECIAL) || !(t->vocab.flags[id] & TF_SPECIAL))
        return false;
    for (size_t i = 0; i < d->n_keep; i++)
        if (d->keep[i] == id)
            return false;
    return true;
}

void detok_follow(struct detok *d, const int32_t *prompt, size_t n)
{
    for (size_t i = 0; i < n && !d->started; i++)
        d->started = !is_silent(d, prompt[i]);
    if (d->started)
        d->strip_left = 0;
}

/* Drops from p[0, n) the leading characters that are stripped at the beginning of the text. */
static size_t stripped(const struct detok *d, const char *p, size_t n)
{
    char c[4];
    size_t k = u8_put(c, d->tok->decoder.strip_char), at = 0;
    if (d->n_run || d->n_tail || d->pending >= 0) /* text is held: this is not the beginning */
        return 0;
    for (unsigned i = 0; i < d->strip_left && n - at >= k && memcmp(p + at, c, k) == 0; i++)
        at += k;
    return at;
}

enum status detok_bytes(const struct detok *d, int32_t id, struct text_buf *out)
{
    const struct decoder *dec = &d->tok->decoder;
    struct text_buf b = {0};
    if (id < 0)
        FAIL(ST_RANGE, "token id %d is negative", (int)id);
    if (is_silent(d, id))
        return ST_OK;
    if (dec->byte_level && d->tok->vocab.byte_level) {
        struct tok_text raw = vocab_raw(&d->tok->vocab, id);
        return text_buf_append(out, raw.data, raw.len);
    }
    bool first = !d->started && d->pending < 0;
    enum status st = token_text(d->tok, id, first, false, &b);
    if (st == ST_OK && is_byte_token(dec, &b)) {
        b.data[0] = byte_of_token(&b);
        b.len = 1;
    } else if (st == ST_OK && dec->spaced && !first) {
        st = text_buf_append(out, " ", 1);
    }
    if (st == ST_OK && b.len) {
        size_t at = stripped(d, b.data, b.len);
        st = text_buf_append(out, b.data + at, b.len - at);
    }
    text_buf_free(&b);
    return st;
}

enum status detok_push(struct detok *d, int32_t id, struct text_buf *out)
{
    const struct tokenizer *t = d->tok;
    if (id < 0)
        FAIL(ST_RANGE, "token id %d is negative", (int)id);
    if (is_silent(d, id))
        return ST_OK;
    if (!t->decoder.holds_last)
        return take(d, id, false, out);
    int32_t before = d->pending;
    d->pending = id;
    return before < 0 ? ST_OK : take(d, before, false, out);
}

enum status detok_flush(struct detok *d, struct text_buf *out)
{
    if (d->pending >= 0)
        TRY(take(d, d->pending, true, out));
    TRY(end_run(d, out));
    if (d->n_tail > 0)
        TRY(put_text(d, replacement, 3, out));
    struct detok fresh;
    detok_init(&fresh, d->tok, d->flags);
    fresh.keep = d->keep;
    fresh.n_keep = d->n_keep;
    *d = fresh;
    return ST_OK;
}

enum status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                             unsigned flags, struct text_buf *out)
{
    struct detok d;
    detok_init(&d, t, flags);
    for (size_t i = 0; i < n; i++)
        TRY(detok_push(&d, ids[i], out));
    return detok_flush(&d, out);
}

struct token_piece tokenizer_piece(const struct tokenizer *t, int32_t id, struct text_buf *scratch)
{
    struct token_piece piece = {0};
    if (id < 0 || id >= t->vocab.n_ids || !(t->vocab.flags[id] & TF_USED))
        return piece;
    unsigned flags = t->vocab.flags[id];
    piece.text = vocab_text(&t->vocab, id);
    piece.special = flags & TF_SPECIAL;
    piece.added = flags & TF_ADDED;
    piece.byte = t->decoder.byte_fallback && (flags & TF_BYTE);
    if (piece.byte) {
        scratch->len = 0;
        char c = (char)(hex_digit(piece.text.data[3]) * 16 + hex_digit(piece.text.data[4]));
        if (text_buf_append(scratch, &c, 1) == ST_OK)
            piece.bytes = (struct tok_text){scratch->data, 1};
        return piece;
    }
    if (token_text(t, id, false, false, scratch) == ST_OK)
        piece.bytes = (struct tok_text){scratch->data ? scratch->data : "", scratch->len};
    return piece;
}
