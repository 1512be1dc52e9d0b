/* ingot tokenize: text -> ids. */
#include <inttypes.h>
#include <string.h>

#include "common/text/text_options.h"
#include "coordinator/tools/text_tool.h"

static enum status put_ids(const struct token_list *l, bool json, struct text_buf *out)
{
    char text[64];
    if (json)
        TRY(text_buf_append(out, "{\"ids\": [", 9));
    for (size_t i = 0; i < l->n; i++) {
        int n = snprintf(text, sizeof text, "%s%" PRId32,
                         i == 0 ? ""
                         : json ? ", "
                                : " ",
                         l->ids[i]);
        TRY(text_buf_append(out, text, (size_t)n));
    }
    int n = snprintf(text, sizeof text, json ? "], \"count\": %zu}\n" : "\n", l->n);
    return text_buf_append(out, text, (size_t)n);
}

static enum status put_token(const struct tokenizer *t, const struct token_list *l, size_t i,
                             bool colour, struct text_buf *scratch, struct text_buf *out)
{
    char head[96];
    const struct token_origin *o = &l->origins[i];
    scratch->len = 0;
    struct token_piece p = tokenizer_piece(t, l->ids[i], scratch);
    int n = snprintf(head, sizeof head, "%6zu %8" PRId32 "  %6zu-%-6zu %-9s ", i, l->ids[i],
                     o->begin, o->end, token_source_name(o->source));
    TRY(text_buf_append(out, head, (size_t)n));
    if (colour && (p.special || p.added))
        TRY(text_buf_append(out, "\x1b[35m", 5));
    size_t from = out->len;
    TRY(text_put_visible(out, p.text.data ? p.text.data : "", p.text.len));
    size_t width = 0; /* characters */
    for (size_t k = from; k < out->len; k++)
        width += ((unsigned char)out->data[k] & 0xc0) != 0x80;
    for (; width < 20; width++)
        TRY(text_buf_append(out, " ", 1));
    TRY(text_buf_append(out, " \"", 2));
    TRY(text_put_visible(out, p.bytes.data ? p.bytes.data : "", p.bytes.len));
    TRY(text_buf_append(out, "\"", 1));
    if (colour && (p.special || p.added))
        TRY(text_buf_append(out, "\x1b[0m", 4));
    return text_buf_append(out, "\n", 1);
}

static enum status put_explained(const struct tokenizer *t, const struct token_list *l, bool colour,
                                 struct text_buf *out)
{
    static const char head[] =
        " place       id          bytes source    token                text\n";
    struct text_buf scratch = {0};
    enum status st = text_buf_append(out, head, sizeof head - 1);
    for (size_t i = 0; st == ST_OK && i < l->n; i++)
        st = put_token(t, l, i, colour, &scratch, out);
    text_buf_free(&scratch);
    return st;
}

static void warn_of_two_bos(const struct tokenizer *t, const struct token_list *l)
{
    int32_t bos = tokenizer_specials(t)->bos;
    if (bos >= 0 && l->n >= 2 && l->ids[0] == bos && l->ids[1] == bos)
        text_warn("tokenize",
                  "BOS stands twice at the beginning: the text brings its own (--no-special adds "
                  "none)");
}

static enum status tokenize(const struct text_options *a, const struct tokenizer *t,
                            const struct text_buf *text, bool colour, struct token_list *l,
                            struct text_buf *out)
{
    unsigned flags = (a->no_special ? 0 : TOK_ADD_SPECIAL) | (a->explain ? TOK_EXPLAIN : 0) |
                     (a->no_parse_special ? TOK_NO_PARSE_SPECIAL : 0);
    TRY(tokenizer_encode(t, text->data ? text->data : "", text->len, flags, l));
    TRY(a->explain ? put_explained(t, l, colour, out) : put_ids(l, a->json, out));
    TRY(text_write(out->data, out->len));
    warn_of_two_bos(t, l);
    return ST_OK;
}

static enum status run(const struct text_options *a, bool colour)
{
    struct tokenizer *t = NULL;
    struct text_buf text = {0}, out = {0};
    struct token_list l = {0};
    enum status st = a->text_file ? text_read(a->text_file, &text)
                                  : text_buf_append(&text, a->text, strlen(a->text));
    if (st == ST_OK)
        st = tokenizer_open(&t, a->tokenizer ? a->tokenizer : a->model);
    if (st == ST_OK)
        st = tokenize(a, t, &text, colour, &l, &out);
    tokenizer_destroy(t);
    token_list_free(&l);
    text_buf_free(&text);
    text_buf_free(&out);
    return st;
}

int text_tokenize(int argc, char **argv, bool colour)
{
    struct text_options a;
    struct option_result res;
    int code;
    if (!text_options(&text_tokenize_options, &a, argc, argv, &res, &code))
        return code;
    text_take_arguments(&a, &res);
    const char *conflict = text_tokenize_conflict(&a);
    if (conflict || text_asks_server(&a))
        return text_usage("tokenize", conflict ? conflict : TEXT_NO_SERVER);
    enum status st = run(&a, colour);
    return st == ST_OK ? TEXT_OK : text_fail("tokenize");
}
