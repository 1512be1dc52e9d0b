/* An untrusted answer of a model: pushed at once and in pieces, the events must be the same;
 * without any marks to look for, the text must come out whole.
 * Input: a byte of options, a byte that says how to cut, the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/output_parser.h"
#include "common/text/text_buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void put(struct text_buf *b, const char *p, size_t n)
{
    must(text_buf_append(b, p, n) == ST_OK);
}

/* Writes the events so that the borders between neighbours of one kind do not show. */
static void drain(struct output_parser *p, struct text_buf *log, int *last)
{
    struct output_event e;
    while (output_parser_next(p, &e)) {
        char kind = (char)('0' + e.kind);
        bool in_call = *last == OUT_CALL_BEGIN || *last == OUT_CALL_ARGUMENTS;
        must(in_call == (e.kind == OUT_CALL_ARGUMENTS || e.kind == OUT_CALL_END));
        if (*last != (int)e.kind)
            put(log, &kind, 1);
        if (e.kind == OUT_CALL_BEGIN) {
            must(e.n_name > 0);
            put(log, e.name, e.n_name);
            put(log, "|", 1);
            put(log, e.id ? e.id : "", e.n_id);
        } else if (e.kind != OUT_CALL_END) {
            must(e.n_text > 0);
            must(*last != OUT_CALL_BEGIN || e.text[0] == '{');
            put(log, e.text, e.n_text);
        }
        must(e.kind != OUT_CALL_END || *last == OUT_CALL_ARGUMENTS);
        *last = (int)e.kind;
    }
}

static struct text_buf run(const struct output_options *o, const char *text, size_t n, unsigned cut)
{
    struct output_parser *p;
    struct text_buf log = {0};
    int last = -1;
    must(output_parser_create(&p, o) == ST_OK);
    for (size_t at = 0; at < n;) {
        size_t size = cut ? 1 + (cut = cut * 1103515245u + 12345u) / 65536 % 8 : n;
        if (size > n - at)
            size = n - at;
        must(output_parser_push(p, text + at, size) == ST_OK);
        drain(p, &log, &last);
        at += size;
    }
    must(output_parser_finish(p) == ST_OK);
    drain(p, &log, &last);
    must(last != OUT_CALL_BEGIN && last != OUT_CALL_ARGUMENTS);
    output_parser_destroy(p);
    return log;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    static const char *const names[] = {"f", "get_weather"};
    struct output_options o = {
        .names = names,
        .tools_json =
            "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"type\":\"integer\"},"
            "\"b\":{\"enum\":[1,null,{}]},\"c\":{\"$ref\":\"#/d\"}}}}]",
        .n_names = data[1] & 2 ? 2 : 0,
        .tools = (enum output_tools)(data[0] % (OUTPUT_TOOLS_AUTO + 1)),
        .reasoning = (data[0] & 0x40) != 0,
        .starts_in_reasoning = (data[0] & 0x80) != 0,
        .max_call = data[1] & 1 ? 64 : 0,
    };
    const char *text = (const char *)data + 2;
    struct text_buf whole = run(&o, text, size - 2, 0), cut = run(&o, text, size - 2, 1u + data[1]);
    must(whole.len == cut.len && (!whole.len || memcmp(whole.data, cut.data, whole.len) == 0));
    if (o.tools == OUTPUT_TOOLS_NONE && !o.reasoning && size > 2)
        must(whole.len == size - 1 && memcmp(whole.data + 1, text, size - 2) == 0);
    text_buf_free(&whole);
    text_buf_free(&cut);
    return 0;
}
