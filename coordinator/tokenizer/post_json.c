/* The post-processor of a tokenizer.json, and the decoder's steps put into the order in which a
 * stream needs them. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

#define MAX_TEMPLATE 256 /* ids before or after a text */
#define MAX_NESTING 8

static const cJSON *field(const cJSON *j, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(j, name);
}

static enum status put_id(struct tokenizer *t, bool after, double id)
{
    int32_t **list = after ? &t->tail : &t->head;
    size_t *n = after ? &t->n_tail : &t->n_head;
    if (!(id >= 0 && id < t->vocab.n_ids) || id != (double)(int32_t)id)
        FAIL(ST_RANGE, "post_processor: the id %g is not in the vocabulary", id);
    if (*n == MAX_TEMPLATE)
        FAIL(ST_UNSUPPORTED, "post_processor: more than %d tokens around a text", MAX_TEMPLATE);
    int32_t *ids = realloc(*list, (*n + 1) * sizeof *ids);
    if (!ids)
        FAIL(ST_NOMEM, "no memory for the post_processor");
    *list = ids;
    ids[(*n)++] = (int32_t)id;
    return ST_OK;
}

static enum status put_special(struct tokenizer *t, const cJSON *special, const char *name,
                               bool after)
{
    const cJSON *ids = field(field(special, name), "ids"), *id;
    if (!cJSON_IsArray(ids))
        FAIL(ST_FORMAT, "post_processor TemplateProcessing: no ids for the special token \"%s\"",
             name);
    cJSON_ArrayForEach(id, ids)
    {
        if (!cJSON_IsNumber(id))
            FAIL(ST_FORMAT, "post_processor TemplateProcessing: an id of \"%s\" is not a number",
                 name);
        TRY(put_id(t, after, id->valuedouble));
    }
    return ST_OK;
}

static enum status load_template(struct tokenizer *t, const cJSON *j)
{
    const cJSON *single = field(j, "single"), *piece;
    bool after = false;
    if (!cJSON_IsArray(single))
        FAIL(ST_UNSUPPORTED, "post_processor TemplateProcessing: \"single\" is not a list");
    cJSON_ArrayForEach(piece, single)
    {
        const cJSON *s = field(field(piece, "SpecialToken"), "id");
        const cJSON *text = field(field(piece, "Sequence"), "id");
        if (cJSON_IsString(s)) {
            TRY(put_special(t, field(j, "special_tokens"), s->valuestring, after));
        } else if (cJSON_IsString(text) && strcmp(text->valuestring, "A") == 0 && !after) {
            after = true;
        } else {
            FAIL(ST_UNSUPPORTED,
                 "post_processor TemplateProcessing: a part of \"single\" is neither a "
                 "special token nor the one text A");
        }
    }
    if (!after)
        FAIL(ST_UNSUPPORTED, "post_processor TemplateProcessing: \"single\" leaves the text out");
    return ST_OK;
}

/* ---- pairs ---- */

static enum status add_piece(struct tokenizer *t, int32_t id, int text, double type)
{
    if (t->n_pair == MAX_TEMPLATE)
        FAIL(ST_UNSUPPORTED, "post_processor: more than %d parts of a pair", MAX_TEMPLATE);
    if (!(type >= 0 && type <= 255) || type != (double)(int32_t)type)
        FAIL(ST_RANGE, "post_processor: the type %g of a pair's token is none", type);
    struct pair_piece *pair = realloc(t->pair, (t->n_pair + 1) * sizeof *pair);
    if (!pair)
        FAIL(ST_NOMEM, "no memory for the post_processor");
    t->pair = pair;
    pair[t->n_pair++] = (struct pair_piece){id, text, (uint32_t)type};
    return ST_OK;
}

static double type_of(const cJSON *piece)
{
    const cJSON *type = field(piece, "type_id");
    return cJSON_IsNumber(type) ? type->valuedouble : 0;
}

static enum status add_special_pieces(struct tokenizer *t, const cJSON *special, const cJSON *piece)
{
    const cJSON *name = field(piece, "id"), *id;
    const cJSON *ids =
        cJSON_IsString(name) ? field(field(special, name->valuestring), "ids") : NULL;
    if (!cJSON_IsArray(ids))
        FAIL(ST_FORMAT, "post_processor TemplateProcessing: \"pair\" names a token without ids");
    cJSON_ArrayForEach(id, ids)
    {
        if (!cJSON_IsNumber(id) || !(id->valuedouble >= 0 && id->valuedouble < t->vocab.n_ids) ||
            id->valuedouble != (double)(int32_t)id->valuedouble)
            FAIL(ST_RANGE, "post_processor: an id of \"pair\" is not in the vocabulary");
        TRY(add_piece(t, (int32_t)id->valuedouble, 0, type_of(piece)));
    }
    return ST_OK;
}

/* Texts A and B must be there once; one without a pair joins them as they are. */
static enum status load_pair_template(struct tokenizer *t, const cJSON *j)
{
    const cJSON *pair = field(j, "pair"), *piece;
    int n_texts[2] = {0};
    if (!cJSON_IsArray(pair))
        return ST_OK;
    cJSON_ArrayForEach(piece, pair)
    {
        const cJSON *special = field(piece, "SpecialToken"), *text = field(piece, "Sequence");
        const cJSON *name = field(text, "id");
        bool b = cJSON_IsString(name) && strcmp(name->valuestring, "B") == 0;
        if (special) {
            TRY(add_special_pieces(t, field(j, "special_tokens"), special));
        } else {
            TRY(add_piece(t, -1, b, type_of(text)));
            n_texts[b]++;
        }
    }
    if (n_texts[0] != 1 || n_texts[1] != 1) {
        free(t->pair);
        t->pair = NULL;
        t->n_pair = 0;
        t->odd_pair = true;
    }
    return ST_OK;
}

/* [CLS] A [SEP] B [SEP]; RoBERTa has two separators between the texts, and one type. */
static enum status load_fixed_pair(struct tokenizer *t, bool roberta)
{
    int32_t cls = t->head[0], sep = t->tail[0];
    uint32_t second = roberta ? 0 : 1;
    TRY(add_piece(t, cls, 0, 0));
    TRY(add_piece(t, -1, 0, 0));
    TRY(add_piece(t, sep, 0, 0));
    if (roberta)
        TRY(add_piece(t, sep, 0, 0));
    TRY(add_piece(t, -1, 1, second));
    return add_piece(t, sep, 0, second);
}

/* ["[CLS]", 101] */
static enum status put_pair(struct tokenizer *t, const cJSON *j, const char *type, const char *name,
                            bool after)
{
    const cJSON *id = cJSON_GetArrayItem(field(j, name), 1);
    if (!cJSON_IsNumber(id))
        FAIL(ST_FORMAT, "post_processor %s: \"%s\" is not a token and its id", type, name);
    return put_id(t, after, id->valuedouble);
}

static enum status load_post(struct tokenizer *t, const cJSON *j, int depth, int *n_templates)
{
    const cJSON *name = field(j, "type"), *item;
    if (!cJSON_IsString(name))
        FAIL(ST_FORMAT, "post_processor: expected an object with a \"type\"");
    const char *type = name->valuestring;
    if (strcmp(type, "ByteLevel") == 0)
        return ST_OK; /* trims offsets, changes no id */
    if (strcmp(type, "Sequence") == 0) {
        const cJSON *list = field(j, "processors");
        if (!cJSON_IsArray(list) || depth >= MAX_NESTING)
            FAIL(ST_FORMAT,
                 "post_processor Sequence: \"processors\" is not a list, or nested too deep");
        cJSON_ArrayForEach(item, list) TRY(load_post(t, item, depth + 1, n_templates));
        return ST_OK;
    }
    bool pair = strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0;
    if (!pair && strcmp(type, "TemplateProcessing") != 0)
        FAIL(ST_UNSUPPORTED, "post_processor %s is not supported", type);
    if (++*n_templates > 1)
        FAIL(ST_UNSUPPORTED, "post_processor: more than one template");
    if (!pair) {
        TRY(load_template(t, j));
        return load_pair_template(t, j);
    }
    TRY(put_pair(t, j, type, "cls", false));
    TRY(put_pair(t, j, type, "sep", true));
    return load_fixed_pair(t, strcmp(type, "RobertaProcessing") == 0);
}

enum status load_post_processor(struct tokenizer *t, const cJSON *j)
{
    int n_templates = 0;
    return !j || cJSON_IsNull(j) ? ST_OK : load_post(t, j, 0, &n_templates);
}

/* Steps within a token first; then byte fallback, Fuse, and a Strip of the whole text.  Other
 * orders are refused. */
enum status decoder_prepare(struct tokenizer *t, bool present)
{
    static const char *const names[] = {[DEC_REPLACE] = "Replace",
                                        [DEC_STRIP] = "Strip",
                                        [DEC_BYTE_LEVEL] = "ByteLevel",
                                        [DEC_BYTE_FALLBACK] = "ByteFallback",
                                        [DEC_FUSE] = "Fuse",
                                        [DEC_METASPACE] = "Metaspace",
                                        [DEC_WORDPIECE] = "WordPiece",
                                        [DEC_BPE] = "BPEDecoder"};
    struct decoder *d = &t->decoder;
    int n = d->n_steps, fused = 0;
    d->n_steps = 0;
    d->spaced = !present;
    for (int i = 0; i < n; i++) {
        struct dec_step *s = &d->steps[i];
        if (s->kind == DEC_FUSE) {
            fused++;
        } else if (s->kind == DEC_STRIP && fused && !d->strips) {
            d->strips = true;
            d->strip_start = s->start;
            d->strip_stop = s->stop;
            size_t len;
            d->strip_char = u8_get(s->find.data, &len);
        } else if (fused || d->byte_fallback || d->byte_level) {
            FAIL(ST_UNSUPPORTED, "decoder %s behind %s is not supported", names[s->kind],
                 fused           ? "Fuse"
                 : d->byte_level ? "ByteLevel"
                                 : "ByteFallback");
        } else if (s->kind == DEC_BYTE_FALLBACK) {
            d->byte_fallback = true;
        } else if (s->kind == DEC_BYTE_LEVEL) {
            if (d->n_steps)
                FAIL(ST_UNSUPPORTED, "decoder ByteLevel behind %s is not supported",
                     names[d->steps[0].kind]);
            d->byte_level = true;
        } else {
            d->holds_last |= s->kind == DEC_BPE;
            struct dec_step moved = *s;
            *s = (struct dec_step){0};
            d->steps[d->n_steps++] = moved;
            continue;
        }
        text_buf_free(&s->find);
        text_buf_free(&s->with);
    }
    return ST_OK;
}
