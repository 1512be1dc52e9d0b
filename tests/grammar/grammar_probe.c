/* Grammars for programs in Python: requests on stdin, replies on stdout, each a length (4 bytes, little endian) and as
 * many bytes.  The first byte of a request says what it is, that of a reply is 0, or the status of a failure, then its
 * text.
 *   'G' kind, source        compiles; later requests are about this grammar, from its beginning
 *   'V' n, then n lengths, then all bytes (u32 each)    the vocabulary
 *   'B' bytes               consumes; replies whether they were taken, whether the text may end
 *   'R' n (u32)             takes back n bytes
 *   'S'                     takes back all
 *   'M'                     replies the mask, then nanoseconds (u64) that it took
 *   'P'                     replies the place
 *   'N'                     replies the states of the automaton (u32) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/grammar/grammar.h"
#include "common/text/text_buf.h"

static struct grammar *grammar;
static struct matcher *matcher;
static struct token_trie *trie;
static uint32_t *mask;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static enum status put(struct text_buf *out, const void *p, size_t n)
{
    return text_buf_append(out, p, n);
}

static enum status on_grammar(const uint8_t *p, size_t n, struct text_buf *out)
{
    struct grammar_source s = {(enum grammar_kind)p[0], (const char *)p + 1, n - 1};
    uint64_t begin = now_ns();
    matcher_destroy(matcher);
    matcher = NULL;
    grammar_destroy(grammar);
    TRY(grammar_compile(&grammar, &s));
    TRY(matcher_create(&matcher, grammar));
    begin = now_ns() - begin;
    return put(out, &begin, sizeof begin);
}

static enum status on_vocabulary(const uint8_t *p)
{
    uint32_t n;
    memcpy(&n, p, sizeof n);
    uint32_t *lengths = malloc(n * sizeof *lengths);
    const uint8_t **bytes = malloc(n * sizeof *bytes);
    if (!lengths || !bytes)
        abort();
    memcpy(lengths, p + 4, n * sizeof *lengths);
    p += 4 + n * sizeof *lengths;
    for (uint32_t i = 0; i < n; p += lengths[i++])
        bytes[i] = p;
    token_trie_destroy(trie);
    enum status st = token_trie_create(&trie, bytes, lengths, n);
    free(lengths);
    free(bytes);
    free(mask);
    mask = st == ST_OK ? calloc(trie->n_words, sizeof *mask) : NULL;
    return st;
}

static enum status on_mask(struct text_buf *out)
{
    uint32_t n;
    int32_t only;
    uint64_t ns = now_ns();
    TRY(matcher_mask(matcher, trie, mask, &n, &only));
    ns = now_ns() - ns;
    TRY(put(out, mask, trie->n_words * sizeof *mask));
    return put(out, &ns, sizeof ns);
}

static enum status on_bytes(const uint8_t *p, size_t n, struct text_buf *out)
{
    bool ok;
    TRY(matcher_consume(matcher, p, n, &ok));
    return put(out, (uint8_t[]){ok, matcher_accepts(matcher)}, 2);
}

static enum status answer(const uint8_t *p, size_t n, struct text_buf *out)
{
    struct grammar_stats stats;
    uint32_t back;
    switch (p[0]) {
    case 'G':
        return on_grammar(p + 1, n - 1, out);
    case 'V':
        return on_vocabulary(p + 1);
    case 'B':
        return on_bytes(p + 1, n - 1, out);
    case 'R':
        memcpy(&back, p + 1, sizeof back);
        matcher_rollback(matcher, back);
        return ST_OK;
    case 'S':
        matcher_reset(matcher);
        return ST_OK;
    case 'M':
        return on_mask(out);
    case 'P':
        return put(out, matcher_place(matcher), strlen(matcher_place(matcher)));
    case 'N':
        grammar_stats(grammar, &stats);
        return put(out, &stats.states, sizeof stats.states);
    default:
        abort();
    }
}

int main(void)
{
    struct text_buf in = {0}, out = {0};
    uint32_t n;
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        in.len = out.len = 0;
        if (text_buf_reserve(&in, n) != ST_OK || fread(in.data, 1, n, stdin) != n ||
            put(&out, "", 1) != ST_OK)
            return 1;
        enum status st = answer((const uint8_t *)in.data, n, &out);
        if (st != ST_OK) {
            out.data[0] = (char)st;
            out.len = 1;
            if (put(&out, status_text(), strlen(status_text())) != ST_OK)
                return 1;
        }
        n = (uint32_t)out.len;
        fwrite(&n, sizeof n, 1, stdout);
        fwrite(out.data, 1, out.len, stdout);
        fflush(stdout);
    }
    matcher_destroy(matcher);
    grammar_destroy(grammar);
    token_trie_destroy(trie);
    free(mask);
    text_buf_free(&in);
    text_buf_free(&out);
    return 0;
}
