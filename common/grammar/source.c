#include "common/grammar/source.h"

#include <stdlib.h>

#include "common/grammar/gbnf.h"
#include "common/grammar/growing.h"
#include "common/grammar/regex.h"
#include "common/grammar/schema.h"
#include "common/json/json_read.h"

static enum status compile_regex(struct rules *r, const struct grammar_source *s, uint32_t *root)
{
    uint32_t e;
    TRY(regex_compile(r->pool, s->text, s->n, REGEX_WHOLE, TEXT_PLAIN, &e));
    *root = rules_lexeme(r, e);
    return r->status;
}

/* Reads the strings of the array into text, their ends into ends. */
static enum status read_choices(struct json_cursor *c, struct text_buf *text, uint32_t **ends,
                                uint32_t *cap, uint32_t *n)
{
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        TRY(GROW(ends, cap, (size_t)*n + 1, GRAMMAR_MAX_BYTES, "choices"));
        TRY(json_read_string(c, text));
        (*ends)[(*n)++] = (uint32_t)text->len;
    }
    if (*n == 0)
        FAIL(ST_FORMAT, "a choice needs at least one text");
    return ST_OK;
}

static enum status compile_choice(struct rules *r, const struct grammar_source *s, uint32_t *root)
{
    struct json_limits limits = {GRAMMAR_MAX_BYTES, 2};
    struct json_cursor c;
    struct text_buf text = {0};
    uint32_t *ends = NULL, cap = 0, n = 0;
    TRY(json_open(&c, s->text, s->n, &limits));
    enum status st = read_choices(&c, &text, &ends, &cap, &n);
    struct expr_text *texts = st == ST_OK ? calloc(n, sizeof *texts) : NULL;
    if (texts) {
        for (uint32_t i = 0, begin = 0; i < n; begin = ends[i++])
            texts[i] = (struct expr_text){text.data + begin, ends[i] - begin};
        *root = rules_lexeme(r, expr_choice(r->pool, texts, n));
        st = r->status;
    } else if (st == ST_OK) {
        st = ST_NOMEM;
    }
    free(texts);
    free(ends);
    text_buf_free(&text);
    return st;
}

enum status source_compile(struct rules *r, const struct grammar_source *s, uint32_t *root)
{
    switch (s->kind) {
    case GRAMMAR_JSON_SCHEMA:
        return schema_compile(r, &schema_json, s->text, s->n, root);
    case GRAMMAR_JSON_OBJECT:
        return schema_any_object(r, root);
    case GRAMMAR_REGEX:
        return compile_regex(r, s, root);
    case GRAMMAR_CHOICE:
        return compile_choice(r, s, root);
    case GRAMMAR_GBNF:
        return gbnf_compile(r, s->text, s->n, root);
    default:
        FAIL(ST_UNSUPPORTED, "grammars of kind %d are not supported", (int)s->kind);
    }
}
