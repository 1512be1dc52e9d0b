/* ingot detokenize: ids -> text. */
#include <stdlib.h>
#include <string.h>

#include "common/text/text_options.h"
#include "coordinator/tools/text_tool.h"

static enum status detokenize(const struct text_options *a, const struct tokenizer *t,
                              struct text_buf *text, bool colour, struct text_buf *out)
{
    size_t n;
    TRY(text_buf_append(text, "", 1)); /* ends it */
    if (strlen(text->data) + 1 != text->len)
        FAIL(ST_FORMAT, "the ids contain a NUL byte");
    int32_t *ids = malloc(text->len * sizeof *ids);
    if (!ids)
        FAIL(ST_NOMEM, "no memory for %zu ids", text->len);
    enum status st = text_parse_ids(text->data, tokenizer_max_id(t), ids, &n);
    if (st == ST_OK)
        st = tokenizer_decode(t, ids, n, a->skip_special ? TOK_SKIP_SPECIAL : 0, out);
    free(ids);
    TRY(st);
    if (colour)
        TRY(text_buf_append(out, "\n", 1));
    return text_write(out->data, out->len);
}

static enum status run(const struct text_options *a, bool colour)
{
    struct tokenizer *t = NULL;
    struct text_buf text = {0}, out = {0};
    char *joined = NULL;
    enum status st = a->n_id_args ? text_join_ids(&joined, a) : ST_OK;
    const char *ids = joined ? joined : a->ids;
    if (st == ST_OK)
        st = a->ids_file ? text_read(a->ids_file, &text) : text_buf_append(&text, ids, strlen(ids));
    free(joined);
    if (st == ST_OK)
        st = tokenizer_open(&t, a->tokenizer ? a->tokenizer : a->model);
    if (st == ST_OK)
        st = detokenize(a, t, &text, colour, &out);
    tokenizer_destroy(t);
    text_buf_free(&text);
    text_buf_free(&out);
    return st;
}

int text_detokenize(int argc, char **argv, bool colour)
{
    struct text_options a;
    struct option_result res;
    int code;
    if (!text_options(&text_detokenize_options, &a, argc, argv, &res, &code))
        return code;
    text_take_arguments(&a, &res);
    const char *conflict = text_detokenize_conflict(&a);
    if (conflict || text_asks_server(&a))
        return text_usage("detokenize", conflict ? conflict : TEXT_NO_SERVER);
    enum status st = run(&a, colour);
    return st == ST_OK ? TEXT_OK : text_fail("detokenize");
}
