/* ingot detokenize: ids -> text. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/tools/text_tool.h"

struct args {
    const char *tokenizer, *ids, *ids_file;
    bool skip_special;
};

#define AT(member) .at = offsetof(struct args, member)

static const struct option_row ROWS[] = {
    {.name = "tokenizer",
     .type = OPT_STRING,
     AT(tokenizer),
     .arg = "FILE",
     .help = "A tokenizer.json or a .gguf file instead of MODEL."},
    {.name = "ids",
     .type = OPT_STRING,
     AT(ids),
     .may_be_empty = true,
     .arg = "IDS",
     .help = "Token ids between blanks or commas, \"1 2 3\" or \"[1, 2, 3]\"."},
    {.name = "ids-file",
     .type = OPT_STRING,
     AT(ids_file),
     .arg = "FILE",
     .help = "Read the ids from a file; - is standard input."},
    {.name = "skip-special",
     .type = OPT_FLAG,
     AT(skip_special),
     .help = "Leave special tokens out."},
};

static const struct option_set OPTIONS = {
    .program = "ingot detokenize",
    .usage = "(MODEL | --tokenizer FILE) (--ids IDS | --ids-file F) [options]",
    .summary = "Prints the text of token ids, byte for byte; on a terminal a newline follows.",
    .epilog = "Example:\n"
              "  ingot detokenize models/Qwen3-0.6B --ids '9707 11 1879'\n"
              "With --connect EP a running server is asked: `ingot detokenize --connect EP "
              "--help`.\n" TEXT_EXIT_CODES,
    .rows = ROWS,
    .n_rows = ARRAY_LEN(ROWS),
    .min_args = 0,
    .max_args = 1,
};

/* Reads ids between blanks, commas and brackets; at most as many as there are bytes. */
static enum status read_ids(const struct tokenizer *t, const char *text, int32_t *ids, size_t *n)
{
    const char *p = text;
    *n = 0;
    for (p += strspn(p, " \t\r\n,[]"); *p; p += strspn(p, " \t\r\n,[]")) {
        char *end;
        errno = 0;
        long long id = strtoll(p, &end, 10);
        if (end == p || (*end && !strchr(" \t\r\n,[]", *end)))
            FAIL(ST_FORMAT, "'%.20s' is no token id", p);
        if (errno || id < 0 || id > tokenizer_max_id(t))
            FAIL(ST_RANGE, "%.20s: ids go from 0 to %" PRId32, p, tokenizer_max_id(t));
        ids[(*n)++] = (int32_t)id;
        p = end;
    }
    return ST_OK;
}

static enum status detokenize(const struct args *a, const struct tokenizer *t,
                              struct text_buf *text, bool colour, struct text_buf *out)
{
    size_t n;
    TRY(text_buf_append(text, "", 1)); /* ends it */
    if (strlen(text->data) + 1 != text->len)
        FAIL(ST_FORMAT, "the ids contain a NUL byte");
    int32_t *ids = malloc(text->len * sizeof *ids);
    if (!ids)
        FAIL(ST_NOMEM, "no memory for %zu ids", text->len);
    enum status st = read_ids(t, text->data, ids, &n);
    if (st == ST_OK)
        st = tokenizer_decode(t, ids, n, a->skip_special ? TOK_SKIP_SPECIAL : 0, out);
    free(ids);
    TRY(st);
    if (colour)
        TRY(text_buf_append(out, "\n", 1));
    return text_write(out->data, out->len);
}

static enum status run(const struct args *a, const struct option_result *res, bool colour)
{
    struct tokenizer *t = NULL;
    struct text_buf text = {0}, out = {0};
    enum status st = a->ids_file ? text_read(a->ids_file, &text)
                                 : text_buf_append(&text, a->ids, strlen(a->ids));
    if (st == ST_OK)
        st = text_open_tokenizer(&t, res, a->tokenizer);
    if (st == ST_OK)
        st = detokenize(a, t, &text, colour, &out);
    tokenizer_destroy(t);
    text_buf_free(&text);
    text_buf_free(&out);
    return st;
}

int text_detokenize(int argc, char **argv, bool colour)
{
    struct args a;
    struct option_result res;
    int code;
    if (!text_options(&OPTIONS, &a, argc, argv, &res, &code))
        return code;
    if ((a.tokenizer != NULL) == (res.n_args == 1))
        return text_usage("detokenize", "give either MODEL or --tokenizer FILE");
    if ((a.ids != NULL) == (a.ids_file != NULL))
        return text_usage("detokenize", "give either --ids or --ids-file");
    enum status st = run(&a, &res, colour);
    return st == ST_OK ? TEXT_OK : text_fail("detokenize", st);
}
