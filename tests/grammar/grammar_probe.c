/* Grammars for programs in Python: requests on stdin, replies on stdout, each a length (4 bytes, little endian) and as
 * many bytes.  The first byte of a request says what it is, that of a reply is 0, or the status of a failure, then its
 * text.
 *   'G' kind, source        compiles; later requests are about this grammar, from its beginning; replies the nanoseconds (u64)
 *                           and the steps of work (u64) that it took
 *   'V' n, then n lengths, then all bytes (u32 each)    the vocabulary
 *   'B' bytes               consumes; replies whether they were taken, whether the text may end
 *   'R' n (u32)             takes back n bytes
 *   'S'                     takes back all
 *   'M'                     replies the mask, then nanoseconds (u64) that it took
 *   'P'                     replies the place
 *   'N'                     replies the states of the automaton (u32)
 *   'T' format, choice, one_call, thinking, special, kind (a byte each), then five texts, each ended by NUL: the name, the
 *       template, the tools, the think marks separated by a newline (may be empty), the source of kind
 *                           replies the structural tags of such an answer (coordinator/answer_grammar.h).  special: all
 *                           marks are special tokens
 *   'O' format, thinking, then three texts: the think marks, the tools, an answer
 *                           replies the events of the output parser: kind (a byte), n (u32), text
 *   'A' i                   replies the name of format i and its marks, each ended by NUL */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/grammar/grammar.h"
#include "common/text/output_formats.h"
#include "common/text/output_parser.h"
#include "coordinator/answer_grammar.h"

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
    TRY(grammar_compile(&grammar, &s, NULL));
    TRY(matcher_create(&matcher, grammar));
    begin = now_ns() - begin;
    uint64_t work = grammar_work(grammar);
    TRY(put(out, &begin, sizeof begin));
    return put(out, &work, sizeof work);
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
    bool cached;
    uint64_t ns = now_ns();
    TRY(matcher_mask(matcher, trie, mask, &n, &only, &cached));
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

/* ---- answers with calls ---- */

enum { MAX_PROBE_MARKS = 48 };

static const char *next_text(const char **p)
{
    const char *text = *p;
    *p += strlen(text) + 1;
    return text;
}

/* The marks' texts are copied into pair_text. */
static const struct output_think *think_of(const char *marks, struct output_think *pair,
                                           char pair_text[128])
{
    snprintf(pair_text, 128, "%s", marks);
    char *line = strchr(pair_text, '\n');
    if (!line)
        return NULL;
    *line = 0;
    *pair = (struct output_think){pair_text, line + 1};
    return pair;
}

static uint32_t all_marks(const struct output_think *think, struct wire_text *special)
{
    uint32_t n = 0;
    const char *mark;
    for (size_t i = 0; (mark = output_call_mark(i)); i++)
        special[n++] = (struct wire_text){mark, strlen(mark)};
    for (size_t i = 0; (mark = output_message_mark(think, i)); i++)
        special[n++] = (struct wire_text){mark, strlen(mark)};
    if (think && !output_message_mark(think, 0)) {
        special[n++] = (struct wire_text){think->open, strlen(think->open)};
        special[n++] = (struct wire_text){think->close, strlen(think->close)};
    }
    return n;
}

static enum status on_answer(const uint8_t *p, struct text_buf *out)
{
    const char *text = (const char *)p + 6, *field = "";
    struct wire_text special[MAX_PROBE_MARKS];
    struct output_think pair;
    char pair_text[128];
    struct answer_form f = {.format = (enum output_tools)p[0],
                            .choice = (enum msg_tool_choice)p[1],
                            .one_call = p[2],
                            .thinking = (enum answer_thinking)p[3],
                            .special = special,
                            .grammar_kind = p[5]};
    f.name = next_text(&text);
    f.template = next_text(&text);
    f.n_template = strlen(f.template);
    f.tools_json.data = next_text(&text);
    f.tools_json.n = strlen(f.tools_json.data);
    f.think = think_of(next_text(&text), &pair, pair_text);
    f.grammar.data = next_text(&text);
    f.grammar.n = strlen(f.grammar.data);
    f.n_special = p[4] ? all_marks(f.think, special) : 0;
    return answer_grammar(&f, out, &field);
}

static enum status put_events(struct output_parser *parser, struct text_buf *out)
{
    struct output_event e;
    while (output_parser_next(parser, &e)) {
        const char *text = e.kind == OUT_CALL_BEGIN ? e.name : e.text;
        uint32_t n = (uint32_t)(e.kind == OUT_CALL_BEGIN ? e.n_name : e.n_text);
        TRY(put(out, (uint8_t[]){(uint8_t)e.kind}, 1));
        TRY(put(out, &n, sizeof n));
        TRY(put(out, text, n));
    }
    return ST_OK;
}

static enum status on_output(const uint8_t *p, size_t n, struct text_buf *out)
{
    const char *text = (const char *)p + 2, *end = (const char *)p + n;
    struct output_think pair;
    char pair_text[128];
    const struct output_think *think = think_of(next_text(&text), &pair, pair_text);
    struct output_options o = {.tools = (enum output_tools)p[0],
                               .reasoning = think != NULL,
                               .starts_in_reasoning = p[1] == THINKING_INSIDE,
                               .think_open = think ? think->open : NULL,
                               .think_close = think ? think->close : NULL};
    struct output_parser *parser;
    o.tools_json = next_text(&text);
    TRY(output_parser_create(&parser, &o));
    enum status st = output_parser_push(parser, text, (size_t)(end - text));
    if (st == ST_OK)
        st = output_parser_finish(parser);
    if (st == ST_OK)
        st = put_events(parser, out);
    output_parser_destroy(parser);
    return st;
}

static enum status on_format(uint8_t i, struct text_buf *out)
{
    const char *name = output_tools_name((enum output_tools)i);
    const struct output_format *f = output_format_of((enum output_tools)i);
    TRY(put(out, name, strlen(name) + 1));
    for (size_t m = 0; m < OUTPUT_FORMAT_MARKS && f->marks[m]; m++)
        TRY(put(out, f->marks[m], strlen(f->marks[m]) + 1));
    return ST_OK;
}

static enum status answer(const uint8_t *p, size_t n, struct text_buf *out)
{
    uint32_t states;
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
        states = grammar_n_states(grammar);
        return put(out, &states, sizeof states);
    case 'T':
        return on_answer(p + 1, out);
    case 'O':
        return on_output(p + 1, n - 1, out);
    case 'A':
        return on_format(p[1], out);
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
