/* The pre-tokenizer: cuts the normalized text into pieces and rewrites them where a step says so.
 * Called by encode.c. */
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

void pre_step_fini(struct pre_step *s)
{
    text_buf_free(&s->literal);
    regex_destroy(s->regex);
}

static enum status spans_grow(struct spans *s)
{
    size_t cap = s->cap ? s->cap * 2 : 256;
    struct span *v = realloc(s->v, cap * sizeof *v);
    if (!v)
        FAIL(ST_NOMEM, "no memory for %zu pieces of text", cap);
    s->v = v;
    s->cap = cap;
    return ST_OK;
}

enum status spans_add(struct spans *s, size_t begin, size_t end)
{
    if (begin == end)
        return ST_OK;
    if (s->n == s->cap)
        TRY(spans_grow(s));
    s->v[s->n++] = (struct span){begin, end};
    return ST_OK;
}

/* ---- cutting one span at matches, in the five ways ---- */

struct cutter {
    struct spans *out;
    enum split_behavior behavior;
    bool invert;
    size_t first;     /* the span's pieces begin at out->v[first] */
    bool last_match;  /* the part before was a match */
    bool has_pending; /* SPLIT_MERGED_WITH_NEXT: a match that waits for what follows */
    struct span pending;
};

static struct cutter cutter_of(struct work *w, const struct pre_step *s)
{
    return (struct cutter){
        .out = &w->next, .behavior = s->behavior, .invert = s->invert, .first = w->next.n};
}

static enum status cut_next(struct cutter *c, size_t begin, size_t end, bool match)
{
    if (c->has_pending && !match) {
        begin = c->pending.begin;
        c->has_pending = false;
    }
    if (c->has_pending)
        TRY(spans_add(c->out, c->pending.begin, c->pending.end));
    c->has_pending = match;
    c->pending = (struct span){begin, end};
    return match ? ST_OK : spans_add(c->out, begin, end);
}

/* The next part [begin, end) of the span: a match or what lies between. */
static enum status cut(struct cutter *c, size_t begin, size_t end, bool match)
{
    if (begin == end)
        return ST_OK;
    match ^= c->invert;
    bool last = c->last_match, any = c->out->n > c->first;
    c->last_match = match;
    switch (c->behavior) {
    case SPLIT_REMOVED:
        return match ? ST_OK : spans_add(c->out, begin, end);
    case SPLIT_ISOLATED:
        return spans_add(c->out, begin, end);
    case SPLIT_CONTIGUOUS:
        if (match != last || !any)
            return spans_add(c->out, begin, end);
        break;
    case SPLIT_MERGED_WITH_PREVIOUS:
        if (!match || last || !any)
            return spans_add(c->out, begin, end);
        break;
    case SPLIT_MERGED_WITH_NEXT:
        return cut_next(c, begin, end, match);
    }
    c->out->v[c->out->n - 1].end = end;
    return ST_OK;
}

static enum status cut_end(struct cutter *c)
{
    return c->has_pending ? spans_add(c->out, c->pending.begin, c->pending.end) : ST_OK;
}

static enum status cut_by_scan(struct work *w, const struct pre_step *s, struct span in)
{
    const char *p = w->cur->p + in.begin;
    size_t n = in.end - in.begin, end;
    for (size_t at = 0; at < n; at = end) {
        end = s->scan == SCAN_GPT2 ? scan_gpt2(p, n, at) : scan_llama3(p, n, at, s->scan_digits);
        TRY(spans_add(&w->next, in.begin + at, in.begin + end));
    }
    return ST_OK;
}

static enum status cut_by_regex(struct work *w, const struct pre_step *s, struct span in)
{
    const char *p = w->cur->p + in.begin;
    size_t n = in.end - in.begin, done = 0, at = 0, begin, end, len;
    struct cutter c = cutter_of(w, s);
    TRY(work_regex(w));
    while (at < n) {
        bool found;
        TRY(regex_find(s->regex, w->regex, p, n, at, &found, &begin, &end));
        if (!found)
            break;
        TRY(cut(&c, in.begin + done, in.begin + begin, false));
        TRY(cut(&c, in.begin + begin, in.begin + end, true));
        done = at = end;
        if (begin == end && at < n) {
            u8_get(p + at, &len);
            at += len;
        }
    }
    TRY(cut(&c, in.begin + done, in.end, false));
    return cut_end(&c);
}

static enum status cut_by_literal(struct work *w, const struct pre_step *s, struct span in)
{
    const char *p = w->cur->p;
    struct cutter c = cutter_of(w, s);
    size_t done = in.begin, k = s->literal.len;
    for (size_t at = in.begin; k <= in.end - at;) {
        const char *hit = memchr(p + at, s->literal.data[0], in.end - at - k + 1);
        if (!hit)
            break;
        at = (size_t)(hit - p);
        if (memcmp(hit, s->literal.data, k) != 0) {
            at++;
            continue;
        }
        TRY(cut(&c, done, at, false));
        TRY(cut(&c, at, at + k, true));
        done = at = at + k;
    }
    TRY(cut(&c, done, in.end, false));
    return cut_end(&c);
}

static enum status cut_by_class(struct work *w, const struct pre_step *s, struct span in,
                                bool (*is_match)(uint32_t))
{
    struct cutter c = cutter_of(w, s);
    size_t done = in.begin, len;
    for (size_t at = in.begin; at < in.end; at += len) {
        if (!is_match(u8_get(w->cur->p + at, &len)))
            continue;
        TRY(cut(&c, done, at, false));
        TRY(cut(&c, at, at + len, true));
        done = at + len;
    }
    TRY(cut(&c, done, in.end, false));
    return cut_end(&c);
}

/* Maximal runs of word characters and of what is neither word nor blank; blanks are dropped. */
static enum status cut_words(struct work *w, struct span in)
{
    size_t begin = in.begin, len;
    int kind = 0; /* of the run: 0 blank, 1 word, 2 other */
    for (size_t at = in.begin; at < in.end; at += len) {
        uint32_t cp = u8_get(w->cur->p + at, &len);
        int k = uc_is_word(cp) ? 1 : uc_is_space(cp) ? 0 : 2;
        if (k != kind) {
            if (kind)
                TRY(spans_add(&w->next, begin, at));
            kind = k;
            begin = at;
        }
    }
    return kind ? spans_add(&w->next, begin, in.end) : ST_OK;
}

static enum status cut_bert(struct work *w, struct span in)
{
    size_t begin = in.begin, len;
    for (size_t at = in.begin; at < in.end; at += len) {
        uint32_t cp = u8_get(w->cur->p + at, &len);
        bool space = uc_is_space(cp), punct = uc_is_punctuation(cp);
        if (!space && !punct)
            continue;
        TRY(spans_add(&w->next, begin, at));
        begin = at + len;
        if (!space)
            TRY(spans_add(&w->next, at, begin));
    }
    return spans_add(&w->next, begin, in.end);
}

static enum status cut_length(struct work *w, const struct pre_step *s, struct span in)
{
    size_t begin = in.begin, k = 0, len;
    for (size_t at = in.begin; at < in.end; at += len) {
        u8_get(w->cur->p + at, &len);
        if (++k == s->length) {
            TRY(spans_add(&w->next, begin, at + len));
            begin = at + len;
            k = 0;
        }
    }
    return spans_add(&w->next, begin, in.end);
}

static enum status cut_span(struct work *w, const struct pre_step *s, struct span in)
{
    switch (s->kind) {
    case PRE_SPLIT:
        if (s->scan != SCAN_NONE)
            return cut_by_scan(w, s, in);
        return s->regex ? cut_by_regex(w, s, in) : cut_by_literal(w, s, in);
    case PRE_BYTE_LEVEL:
        return cut_by_scan(w, s, in);
    case PRE_METASPACE:
        return cut_by_literal(w, s, in);
    case PRE_PUNCTUATION:
        return cut_by_class(w, s, in, uc_is_punctuation);
    case PRE_DIGITS:
        return cut_by_class(w, s, in, uc_is_numeric);
    case PRE_WHITESPACE:
        return cut_words(w, in);
    case PRE_WHITESPACE_SPLIT:
        return cut_by_class(w, s, in, uc_is_space);
    case PRE_BERT:
        return cut_bert(w, in);
    case PRE_FIXED_LENGTH:
        return cut_length(w, s, in);
    }
    FAIL(ST_BUG, "pre-tokenizer step %d", (int)s->kind);
}

static enum status cut_all(struct work *w, const struct pre_step *s)
{
    w->next.n = 0;
    for (size_t i = 0; i < w->spans.n; i++)
        TRY(cut_span(w, s, w->spans.v[i]));
    struct spans swap = w->spans;
    w->spans = w->next;
    w->next = swap;
    return ST_OK;
}

/* ---- rewriting: every span is written anew, one behind the other ---- */

/* Blanks become the replacement, and a piece gets one in front as the scheme says. */
static enum status write_metaspace(struct work *w, const struct pre_step *s, struct span in)
{
    const char *p = w->cur->p, *mark = s->literal.data;
    size_t k = s->literal.len, kept = in.begin;
    bool marked =
        p[in.begin] == ' ' || (in.end - in.begin >= k && memcmp(p + in.begin, mark, k) == 0);
    bool wanted =
        s->scheme == PREPEND_ALWAYS ||
        (s->scheme == PREPEND_FIRST && ttext_origin(w->cur, in.begin, in.begin).begin == 0);
    if (wanted && !marked)
        TRY(ttext_put(w, mark, k, in.begin, in.begin));
    while (kept < in.end) {
        const char *hit = memchr(p + kept, ' ', in.end - kept);
        size_t at = hit ? (size_t)(hit - p) : in.end;
        TRY(ttext_keep(w, kept, at));
        if (hit)
            TRY(ttext_put(w, mark, k, at, at + 1));
        kept = at + (hit != NULL);
    }
    return ST_OK;
}

static enum status write_prefix_space(struct work *w, struct span in)
{
    if (w->cur->p[in.begin] != ' ')
        TRY(ttext_put(w, " ", 1, in.begin, in.begin));
    return ttext_keep(w, in.begin, in.end);
}

static enum status write_chars(struct work *w, struct span in)
{
    char utf8[4];
    for (size_t i = in.begin; i < in.end; i++)
        TRY(ttext_put(w, utf8, u8_put(utf8, byte_to_char((unsigned char)w->cur->p[i])), i, i + 1));
    return ST_OK;
}

enum rewrite { WRITE_METASPACE, WRITE_PREFIX_SPACE, WRITE_CHARS };

static enum status rewrite_all(struct work *w, const struct pre_step *s, enum rewrite how)
{
    ttext_begin(w);
    for (size_t i = 0; i < w->spans.n; i++) {
        struct span in = w->spans.v[i];
        size_t begin = w->other->own.len;
        if (how == WRITE_METASPACE)
            TRY(write_metaspace(w, s, in));
        else if (how == WRITE_PREFIX_SPACE)
            TRY(write_prefix_space(w, in));
        else
            TRY(write_chars(w, in));
        w->spans.v[i] = (struct span){begin, w->other->own.len};
    }
    ttext_swap(w);
    return ST_OK;
}

static bool lacks_space(const struct work *w)
{
    for (size_t i = 0; i < w->spans.n; i++)
        if (w->cur->p[w->spans.v[i].begin] != ' ')
            return true;
    return false;
}

enum status pretokenize(struct work *w)
{
    w->spans.n = 0;
    TRY(spans_add(&w->spans, 0, w->cur->n));
    for (int i = 0; i < w->t->n_pre; i++) {
        const struct pre_step *s = &w->t->pre[i];
        if (s->kind == PRE_METASPACE)
            TRY(rewrite_all(w, s, WRITE_METASPACE));
        if (s->kind == PRE_BYTE_LEVEL && s->add_prefix_space && lacks_space(w))
            TRY(rewrite_all(w, s, WRITE_PREFIX_SPACE));
        if ((s->kind == PRE_METASPACE && !s->split) || (s->kind == PRE_BYTE_LEVEL && !s->use_regex))
            ; /* nothing to cut */
        else
            TRY(cut_all(w, s));
        /* The model takes bytes; only steps that come later need to see the alphabet. */
        if (s->kind == PRE_BYTE_LEVEL && i + 1 < w->t->n_pre) {
            TRY(rewrite_all(w, s, WRITE_CHARS));
            w->chars = true;
        }
    }
    return ST_OK;
}
