/* Tokenizes texts from standard input for tests/text/agree.py: each text is its length in bytes on
 * a line, then the bytes; each answer is one line "ids | ids with special tokens", then the decoded
 * texts as the inputs are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/tokenizer.h"

static void print_ids(const struct token_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        printf("%s%d", i ? " " : "", (int)l->ids[i]);
}

static enum status answer(const struct tokenizer *t, const char *text, size_t n,
                          struct token_list *ids, struct text_buf *out)
{
    TRY(tokenizer_encode(t, text, n, 0, ids));
    print_ids(ids);
    printf("|");
    out->len = 0;
    TRY(tokenizer_decode(t, ids->ids, ids->n, 0, out));
    size_t plain = out->len;
    TRY(tokenizer_decode(t, ids->ids, ids->n, TOK_SKIP_SPECIAL, out));
    TRY(tokenizer_encode(t, text, n, TOK_ADD_SPECIAL, ids));
    print_ids(ids);
    printf("\n%zu %zu\n", plain, out->len - plain);
    fwrite(out->data, 1, out->len, stdout);
    printf("\n");
    return ST_OK;
}

int main(int argc, char **argv)
{
    struct tokenizer *t;
    struct token_list ids = {0};
    struct text_buf out = {0};
    char *text = NULL;
    size_t n;
    enum status st = ST_OK;
    if (argc != 2) {
        fprintf(stderr, "usage: %s TOKENIZER\n", argv[0]);
        return 2;
    }
    if (tokenizer_open(&t, argv[1]) != ST_OK) {
        fprintf(stderr, "%s\n", status_text());
        return 1;
    }
    while (st == ST_OK && scanf("%zu", &n) == 1 && getchar() == '\n') {
        char *grown = realloc(text, n + 1);
        if (!grown || fread(text = grown, 1, n, stdin) != n)
            break;
        st = answer(t, text, n, &ids, &out);
    }
    if (st != ST_OK)
        fprintf(stderr, "%s\n", status_text());
    free(text);
    token_list_free(&ids);
    text_buf_free(&out);
    tokenizer_destroy(t);
    return st != ST_OK;
}
